#include "tests/gpu/check_backend.h"

#include "tests/gpu/backend_driver.h"

#include "engine/backend/backend_factory.h"

#include <nlohmann/json.hpp>

#include <set>
#include <string>
#include <vector>

namespace octavo::gpu
{

using namespace engine;

namespace
{

using Bytes = std::vector<std::byte>;

Bytes joined(const SequenceImage::Parts& parts)
{
    Bytes all;
    for (const auto& part : parts)
        all.insert(all.end(), part.begin(), part.end());
    return all;
}

/// What one backend saves and another goes on from.
class Images
{
public:
    Images(Report& report, const ModelConfig& config, const std::shared_ptr<const ModelWeights>& weights,
           SparseMode mode)
        : m_report(report)
    {
        BackendOptions options;
        options.device = "cuda:0";
        options.sparse = mode;
        options.sparseSettings.topK = 512;
        options.sparseSettings.hotBufferBytes = 1 << 20;
        options.contextLimit = 20'000;
        for (auto& backend : m_backends) {
            auto made = makeBackend(config, weights, options);
            if (report.expect(made.has_value(), "images: %s", made ? "" : made.error().message.c_str()))
                backend = *std::move(made);
        }
    }

    bool areThere() const { return m_backends[0] && m_backends[1]; }
    Backend& saver() { return *m_backends[0]; }
    Backend& opener() { return *m_backends[1]; }

    /// The image of `slot`; its rows are those of `longer` where that is given.
    SlotId reopened(SlotId slot, const Bytes* longer = nullptr)
    {
        const std::int64_t length = saver().length(slot);
        auto image = saver().imageOf(slot, longer ? ImageRows::Left : ImageRows::Taken);
        if (!m_report.expect(image.has_value(), "images: %s", image ? "" : image.error().message.c_str()))
            return noSlot;
        const Bytes state = joined(image->state), rows = longer ? Bytes() : joined(image->rows);
        m_report.expect(longer || std::int64_t(rows.size()) == image->rowBytes,
                        "images: %zu bytes of rows, %lld foretold", rows.size(),
                        static_cast<long long>(image->rowBytes));
        const auto slotThere = opener().restoreSequence(
            length, state, longer ? std::span(*longer).first(std::size_t(image->rowBytes)) : std::span(rows));
        m_report.expect(slotThere.has_value(), "images: %s", slotThere ? "" : slotThere.error().message.c_str());
        m_report.expect(!slotThere || opener().length(*slotThere) == length,
                        "images: a sequence of another length came back");
        return slotThere ? *slotThere : noSlot;
    }

    void expectRefused(std::int64_t length, std::span<const std::byte> state, std::span<const std::byte> rows)
    {
        const auto slot = opener().restoreSequence(length, state, rows);
        m_report.expect(!slot && slot.error().code == ErrorCode::FormatInvalid,
                        "images: %zu and %zu bytes were taken for a sequence of %lld tokens", state.size(), rows.size(),
                        static_cast<long long>(length));
    }

private:
    Report& m_report;
    std::unique_ptr<Backend> m_backends[2];
};

std::vector<std::vector<float>> decoded(Driver& driver, SlotId from, std::int64_t room, std::span<const TokenId> answer)
{
    const SlotId slot = driver.fork(from, room);
    std::vector<std::vector<float>> rows;
    for (const TokenId token : answer)
        rows.push_back(driver.step(slot, {token}));
    driver.destroy(slot);
    return rows;
}

void checkMode(Report& report, Images& images, const std::vector<TokenId>& ids, const std::vector<TokenId>& answer,
               const char* mode)
{
    Driver saver(report, images.saver()), opener(report, images.opener());
    const std::int64_t length = std::int64_t(ids.size()), room = length + 600;
    const std::int64_t usedBefore = images.opener().stats().memoryUsedBytes;
    const SlotId slot = saver.create(room);
    saver.prefill(slot, ids);
    const SlotId frozen = saver.fork(slot, length);

    Bytes state, rows;
    {
        auto image = images.saver().imageOf(frozen, ImageRows::Taken);
        if (!report.expect(image.has_value(), "images: %s", image ? "" : image.error().message.c_str()))
            return;
        // However the sequence goes on, the image stays as it was.
        for (const TokenId token : answer)
            saver.step(slot, {token});
        state = joined(image->state), rows = joined(image->rows);
    }
    const auto want = decoded(saver, frozen, room, answer);
    const auto opened = images.opener().restoreSequence(length, state, rows);
    if (!report.expect(opened.has_value(), "images: %s", opened ? "" : opened.error().message.c_str()))
        return;
    report.expect(decoded(opener, *opened, room, answer) == want,
                  "%s: an opened sequence of %lld tokens answers otherwise", mode, static_cast<long long>(length));
    if (images.saver().hasMtp()) {
        const SlotId here = saver.fork(frozen, room), there = opener.fork(*opened, room);
        report.expect(saver.draft(here, answer[0]).tokens == opener.draft(there, answer[0]).tokens,
                      "%s: an opened sequence drafts otherwise", mode);
        saver.destroy(here);
        opener.destroy(there);
    }
    const SlotId again = opener.fork(*opened, length); // what was opened can be saved anew
    auto second = images.opener().imageOf(again, ImageRows::Taken);
    report.expect(second && joined(second->state) == state, "%s: the state of an opened sequence is another", mode);
    second = Error{ErrorCode::NotFound, {}};

    // A beginning, from its own state and the longer one's rows.
    const std::int64_t half = length / 2 / 64 * 64;
    const SlotId shorter = saver.create(room);
    saver.prefill(shorter, std::span(ids).first(std::size_t(half)));
    const SlotId beginning = images.reopened(shorter, &rows);
    if (beginning != noSlot)
        report.expect(decoded(opener, beginning, room, answer) == decoded(saver, shorter, room, answer),
                      "%s: a sequence of %lld tokens from a longer one's rows answers otherwise", mode,
                      static_cast<long long>(half));

    // Rows of a verify step that were kept but not yet applied.
    const SlotId live = saver.fork(frozen, room);
    saver.step(live, {answer[0], answer[1], answer[2], answer[3]});
    saver.commit(live, 2);
    const SlotId pending = images.reopened(live);
    const auto rest = std::span(answer).subspan(2);
    if (pending != noSlot)
        report.expect(decoded(opener, pending, room, rest) == decoded(saver, live, room, rest),
                      "%s: a sequence with pending rows answers otherwise once it was saved", mode);

    images.expectRefused(length, std::span(state).first(state.size() - 1), rows);
    images.expectRefused(length, state, std::span(rows).first(rows.size() - 1));
    images.expectRefused(length - 512, state, rows);
    images.expectRefused(length, {}, {});
    Bytes damaged = state;
    damaged[0] = std::byte(33);
    images.expectRefused(length, damaged, rows);

    for (const SlotId gone : {*opened, again, beginning, pending})
        images.opener().destroySequence(gone);
    report.expect(images.opener().stats().memoryUsedBytes == usedBefore, "%s: opened sequences left %lld bytes behind",
                  mode, static_cast<long long>(images.opener().stats().memoryUsedBytes - usedBefore));
    for (const SlotId gone : {slot, frozen, shorter, live})
        images.saver().destroySequence(gone);
}

} // namespace

void checkImages(Report& report, const ModelConfig& config, const std::shared_ptr<const ModelWeights>& weights,
                 const nlohmann::json& prompts)
{
    std::set<std::string> formats; // images of one are nothing to a backend of the other
    for (const auto& [mode, name] : {std::pair{SparseMode::Off, "dense images"}, {SparseMode::On, "sparse images"}}) {
        Images images(report, config, weights, mode);
        if (!images.areThere())
            return;
        report.expect(formats.insert(images.saver().imageFormat()).second, "%s: has the name of another format", name);
        int seen = 0;
        for (const auto& prompt : prompts) {
            const auto ids = prompt["prompt_ids"].get<std::vector<TokenId>>();
            const auto answer = prompt["greedy_ids"].get<std::vector<TokenId>>();
            if (ids.size() < 600 || ids.size() > 16'000 || answer.size() < 8 || ++seen > 3)
                continue;
            checkMode(report, images, ids, answer, name);
        }
        report.expect(seen > 0, "images: no golden prompt is long enough");
    }
}

} // namespace octavo::gpu
