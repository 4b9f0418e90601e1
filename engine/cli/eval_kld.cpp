#include "engine/cli/common.h"
#include "engine/cli/eval_kinds.h"
#include "engine/cli/eval_subject.h"
#include "engine/evaluation/divergence.h"
#include "engine/evaluation/saved_reading.h"

#include <algorithm>
#include <chrono>

namespace octavo::cli
{

using Json = nlohmann::ordered_json;
using namespace engine;

namespace
{

Json describe(const Divergence& found)
{
    return {{"samples", found.values.size()},
            {"mean", found.mean()},
            {"p99", found.percentile(0.99)},
            {"top1", found.top1()}};
}

/// A way of decoding that is compared with dense attention over int8 rows.
struct KldVariant {
    const char* name;
    bool perHead;
    SparseMode mode; ///< Off: dense over the tier's int4 rows
    PickRule rule = PickRule::Priority;
};

} // namespace

Result<Json> evalKld(const Arguments& arguments, Streams& streams)
{
    constexpr int longestAnswer = 96;
    if (arguments.text("--against", "dense") != "dense")
        return Error{ErrorCode::InvalidArgument, "--against is '" + arguments.text("--against") + "', expected dense"};
    OCTAVO_TRY(const std::int64_t samples, arguments.integer("--samples", 200, 1, 1 << 20));
    OCTAVO_TRY(const std::int64_t topK, arguments.integer("--picks", SparseSettings().topK, 1, 1 << 20));
    OCTAVO_TRY(const PickRule rule, readPickRule(arguments));
    OCTAVO_TRY(const EvalRepository about, openEvalRepository(arguments, samples, samples));
    const EvalSubject& subject = about.subject;
    const EvaluationHooks hooks = progressTo(streams.err);
    const std::uint64_t model = subject.weights->hash;

    DivergenceTrace text, answers;
    bool onGpu = false;
    Json line{{"eval", "kld"}, {"context", subject.ids.size()}};
    {
        OCTAVO_TRY(const std::unique_ptr<Backend> dense, subject.backend(SparseMode::Off));
        line["device"] = dense->info().device;
        line["path"] = dense->info().path;
        onGpu = dense->info().path == "cuda";
        const SparseSettings usual;
        const std::int64_t range = std::int64_t(subject.ids.size()) - usual.sinks - usual.recent; // less than a backend keeps
        line["picks"] = arguments.has("--picks") ? topK : onGpu ? usual.topKOf(range) : usual.topKOnCpu();
        line["pick_rule"] = rule == PickRule::Priority ? "priority" : "largest";
        OCTAVO_TRY(const SlotId context, readOrReopen(*dense, model, subject.ids, about.stateFile("dense"), hooks));
        OCTAVO_TRY(text, traceText(*dense, context, about.next, hooks));
        OCTAVO_TRY(answers,
                   traceAnswers(*dense, context, about.prompts, samples, longestAnswer, about.endOfTurn, hooks));
        // The floor: the same rows decoded by kernels whose float sums are rounded differently. A GPU has one kind.
        if (!onGpu && dense->info().path != "plain" && !dense->imageFormat().empty()) {
            OCTAVO_TRY(const SequenceImage image, dense->imageOf(context, ImageRows::Taken));
            std::vector<std::byte> state, rows;
            for (const auto& part : image.state)
                state.insert(state.end(), part.begin(), part.end());
            for (const auto& part : image.rows)
                rows.insert(rows.end(), part.begin(), part.end());
            EvalSubject plain = subject;
            plain.options.cpuPath = "plain";
            OCTAVO_TRY(const std::unique_ptr<Backend> other, plain.backend(SparseMode::Off));
            OCTAVO_TRY(const SlotId same, other->restoreSequence(std::int64_t(subject.ids.size()), state, rows));
            OCTAVO_TRY(const Divergence floor, compareWith(text, *other, same, hooks));
            line["floor_text"] = describe(floor);
        }
    }
    for (const KldVariant& variant :
         {KldVariant{"per_head", true, SparseMode::On}, KldVariant{"shared", false, SparseMode::On},
          KldVariant{"per_head_picks_alone", true, SparseMode::On, PickRule::Largest},
          KldVariant{"shared_picks_alone", false, SparseMode::On, PickRule::Largest},
          KldVariant{"dense_int4", true, SparseMode::Off}}) {
        if (onGpu && variant.perHead) // one list for all heads is what GPUs pick, and their dense rows are the tier's
            continue;
        if (rule == PickRule::Largest && variant.rule == PickRule::Priority && variant.mode == SparseMode::On)
            continue;
        const bool isDefault = variant.rule == rule && variant.mode == SparseMode::On &&
                               variant.perHead == (!onGpu && SparseSettings().perHead);
        SparseSettings settings;
        settings.perHead = variant.perHead;
        settings.topK = int(topK);
        if (arguments.has("--picks"))
            settings.onlyTopK();
        settings.pickRule = variant.rule;
        // Rows lie alike in all variants, so that one reading serves them all.
        OCTAVO_TRY(const std::unique_ptr<Backend> tested, subject.backend(SparseMode::On, settings));
        OCTAVO_TRY(const SlotId context, readOrReopen(*tested, model, subject.ids, about.stateFile("tier"), hooks));
        tested->setSparseMode(variant.mode);
        const auto start = std::chrono::steady_clock::now();
        OCTAVO_TRY(const Divergence onText, compareWith(text, *tested, context, hooks));
        const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
        OCTAVO_TRY(const Divergence onAnswers, compareWith(answers, *tested, context, hooks));
        OCTAVO_CHECK(checkFinite(onText.values, subject.dir));
        OCTAVO_CHECK(checkFinite(onAnswers.values, subject.dir));
        if (isDefault)
            line.update(describe(onText)); // what decoding does where nobody asks for another way
        line[std::string(variant.name) + "_text"] = describe(onText);
        line[std::string(variant.name) + "_answers"] = describe(onAnswers);
        const BackendStats stats = tested->stats();
        line[std::string(variant.name) + "_steps"] = {
            {"ms", spent.count() / double(onText.values.size())},
            {"sparse", stats.sparseSteps},
            {"tail_mass", stats.tailMass},
            {"hit_rate", double(stats.hotHits) / double(std::max<std::int64_t>(1, stats.hotHits + stats.hotMisses))},
            {"overlap", stats.pickOverlap}};
    }
    line["questions"] = answers.passages.size();
    return line;
}

} // namespace octavo::cli
