#include "tests/gpu/check_backend.h"

#include "tests/gpu/backend_driver.h"

#include "engine/backend/backend_factory.h"
#include "engine/backend/cuda_backend.h"
#include "engine/backend/cuda_sparse.h"
#include "engine/model/weights.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

namespace octavo::gpu
{

using namespace engine;

namespace
{

/// How far the logits behind a prompt are from the goldens' largest, at most.
double checkGoldens(Report& report, Driver& driver, const nlohmann::json& prompts)
{
    int equal = 0;
    double worst = 0.0;
    for (std::size_t p = 0; p < prompts.size(); ++p) {
        const auto ids = prompts[p]["prompt_ids"].get<std::vector<TokenId>>();
        const auto want = prompts[p]["greedy_ids"].get<std::vector<TokenId>>();
        const SlotId slot = driver.create(std::int64_t(ids.size() + want.size()) + 1);
        std::vector<float> logits = driver.prefill(slot, ids);
        const auto topIds = prompts[p]["top_ids"].get<std::vector<TokenId>>();
        const auto topLogits = prompts[p]["top_logits"].get<std::vector<float>>();
        for (std::size_t i = 0; i < topIds.size(); ++i)
            worst = std::max(worst, double(std::abs(logits[std::size_t(topIds[i])] - topLogits[i])));
        std::size_t length = 0;
        double behind = 0.0; // of the golden token, where the answers part
        for (; length < want.size(); ++length) {
            const int got = argmax(logits);
            if (got != want[length]) {
                behind = logits[std::size_t(got)] - logits[std::size_t(want[length])];
                break;
            }
            logits = driver.step(slot, {got});
        }
        equal += length == want.size();
        // The goldens have float32 rows; int4 rows move a logit by up to 0.6 and may tip a near tie.
        report.expect(behind < 1.2, "golden prompt %zu of %zu tokens: token %zu is %.2f behind another", p, ids.size(),
                      length, behind);
        if (length < want.size())
            report.line("golden prompt %zu of %zu tokens: token %zu of %zu is %.2f behind another", p, ids.size(),
                        length, want.size(), behind);
        driver.destroy(slot);
    }
    report.expect(equal + 1 >= int(prompts.size()), "goldens: only %d of %zu answers equal", equal, prompts.size());
    report.line("goldens: %d of %zu answers equal, largest logit difference %.3f", equal, prompts.size(), worst);
    return worst;
}

/// Tokens per second, for the benchmark's page; no pass or fail.
void reportSpeed(Report& report, Driver& driver, const nlohmann::json& prompts)
{
    std::size_t longest = 0;
    for (std::size_t p = 0; p < prompts.size(); ++p)
        longest = prompts[p]["prompt_ids"].size() > prompts[longest]["prompt_ids"].size() ? p : longest;
    const auto ids = prompts[longest]["prompt_ids"].get<std::vector<TokenId>>();
    const auto seconds = [](auto&& run) {
        const auto started = std::chrono::steady_clock::now();
        run();
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    };
    const std::int64_t room = std::int64_t(ids.size()) + 256;
    std::vector<SlotId> slots{driver.create(room)};
    const double prefill = seconds([&] { driver.prefill(slots[0], ids); });
    report.line("prefill of %zu tokens: %.0f tokens/s", ids.size(), double(ids.size()) / prefill);
    while (slots.size() < 8)
        slots.push_back(driver.fork(slots[0], room));
    const std::vector<TokenId> one{1};
    for (const std::size_t agents : {std::size_t(1), std::size_t(8)}) {
        std::vector<StepEntry> entries;
        for (std::size_t i = 0; i < agents; ++i)
            entries.push_back({slots[i], one});
        const double decode = seconds([&] {
            for (int i = 0; i < 100; ++i)
                driver.step(entries);
        });
        report.line("decode of %zu sequences behind %zu tokens: %.0f tokens/s", agents, ids.size(),
                    100.0 * double(agents) / decode);
    }
    for (const SlotId slot : slots)
        driver.destroy(slot);
}

/// Greedy decoding behind a prompt: the logits of every step, in entries of `draftRows` rows where more than 1.
std::vector<std::vector<float>> decodeRows(Driver& driver, SlotId slot, std::span<const TokenId> tokens, int draftRows)
{
    std::vector<std::vector<float>> rows;
    for (std::size_t first = 0; first < tokens.size(); first += std::size_t(draftRows)) {
        const auto part = tokens.subspan(first, std::min(tokens.size() - first, std::size_t(draftRows)));
        const std::vector<float> all = driver.step(slot, {part.begin(), part.end()});
        if (part.size() > 1)
            driver.commit(slot, int(part.size()));
        for (std::size_t i = 0; i < part.size(); ++i)
            rows.emplace_back(all.begin() + std::ptrdiff_t(i * driver.vocab()),
                              all.begin() + std::ptrdiff_t((i + 1) * driver.vocab()));
    }
    return rows;
}

double largestDifference(const std::vector<float>& a, const std::vector<float>& b)
{
    double worst = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i)
        worst = std::max(worst, double(std::abs(a[i] - b[i])));
    return worst;
}

double relativeDifference(const std::vector<float>& a, const std::vector<float>& b)
{
    double difference = 0.0, norm = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        difference += (double(a[i]) - b[i]) * (double(a[i]) - b[i]);
        norm += double(a[i]) * a[i];
    }
    return std::sqrt(difference / norm);
}

/// Sparse decoding against dense, and its parts against each other. What another order of attention's sums changes in
/// the logits of one answer (relative), at most; 0 where it was not measured.
double checkSparseDecoding(Report& report, const ModelConfig& config,
                           const std::shared_ptr<const ModelWeights>& weights, const nlohmann::json& prompts)
{
    std::vector<std::size_t> chosen; // one that fits the picks whole, and the longest
    for (std::size_t p = 0; p < prompts.size(); ++p) {
        const std::size_t tokens = prompts[p]["prompt_ids"].size();
        if (tokens > 600 && tokens < 3500 && chosen.empty())
            chosen.push_back(p);
    }
    std::size_t longest = 0;
    for (std::size_t p = 0; p < prompts.size(); ++p)
        longest = prompts[p]["prompt_ids"].size() > prompts[longest]["prompt_ids"].size() ? p : longest;
    chosen.push_back(longest);

    const auto make = [&](SparseMode mode, int topK, std::int64_t hotBytes, int recent = 256,
                          PickRule rule = PickRule::Priority) {
        BackendOptions options;
        options.device = "cuda:0";
        options.sparse = mode;
        options.sparseSettings.topK = topK;
        options.sparseSettings.pickRule = rule;
        options.sparseSettings.recent = recent;
        options.sparseSettings.hotBufferBytes = hotBytes;
        options.contextLimit = 20000;
        auto backend = makeBackend(config, weights, options);
        report.expect(backend.has_value(), "sparse backend: %s", backend ? "" : backend.error().message.c_str());
        return backend ? std::move(*backend) : nullptr;
    };
    const auto dense = make(SparseMode::Off, 1, 1 << 16), whole = make(SparseMode::On, 4096, 1 << 30);
    const auto few = make(SparseMode::On, 512, 1 << 30),
               squeezed = make(SparseMode::On, 512, 1 << 16); // room for 512 rows, the least
    const auto largest = make(SparseMode::On, 512, 1 << 30, 256, PickRule::Largest);
    const auto apart = make(SparseMode::On, 512, 1 << 30);
    const auto otherOrder = make(SparseMode::On, 4096, 1 << 30, 128); // reads all rows too, by other parts
    if (!dense || !whole || !few || !squeezed || !largest || !apart || !otherOrder)
        return 0.0;
    static_cast<CudaBackend&>(*apart).setJointRows(false);
    Driver denseDriver(report, *dense), wholeDriver(report, *whole), fewDriver(report, *few),
        squeezedDriver(report, *squeezed), largestDriver(report, *largest), apartDriver(report, *apart),
        orderDriver(report, *otherOrder);
    double mostReordered = 0.0;
    for (const std::size_t p : chosen) {
        const auto ids = prompts[p]["prompt_ids"].get<std::vector<TokenId>>();
        const auto answer = prompts[p]["greedy_ids"].get<std::vector<TokenId>>();
        const std::int64_t room = std::int64_t(ids.size() + answer.size()) + 600;
        const SlotId denseSlot = denseDriver.create(room), wholeSlot = wholeDriver.create(room);
        const SlotId fewSlot = fewDriver.create(room), squeezedSlot = squeezedDriver.create(room);
        const std::vector<float> first = denseDriver.prefill(denseSlot, ids);
        report.expect(wholeDriver.prefill(wholeSlot, ids) == first && fewDriver.prefill(fewSlot, ids) == first &&
                          squeezedDriver.prefill(squeezedSlot, ids) == first,
                      "sparse backend: prefill of %zu tokens differs from the dense one's", ids.size());
        const SlotId forked = fewDriver.fork(fewSlot, room), verified = fewDriver.fork(fewSlot, room);
        const SlotId verifiedMore = fewDriver.fork(fewSlot, room), apartSlot = apartDriver.create(room);
        const SlotId squeezedVerified = squeezedDriver.fork(squeezedSlot, room);
        report.expect(apartDriver.prefill(apartSlot, ids) == first, "sparse backend: prefill of %zu tokens differs",
                      ids.size());
        const SlotId frozen = fewDriver.fork(fewSlot, std::int64_t(ids.size()));
        const SlotId thawed = fewDriver.fork(frozen, room);

        const auto denseRows = decodeRows(denseDriver, denseSlot, answer, 1);
        const auto wholeRows = decodeRows(wholeDriver, wholeSlot, answer, 1);
        const auto fewRows = decodeRows(fewDriver, fewSlot, answer, 1);
        std::vector<std::vector<float>> orderRows = denseRows;
        const bool all = ids.size() + answer.size() < 4096;
        if (all) {
            const SlotId slot = orderDriver.create(room);
            orderDriver.prefill(slot, ids);
            orderRows = decodeRows(orderDriver, slot, answer, 1);
            orderDriver.destroy(slot);
        }
        const SlotId largestSlot = largestDriver.create(room);
        largestDriver.prefill(largestSlot, ids);
        const auto largestRows = decodeRows(largestDriver, largestSlot, answer, 1);
        largestDriver.destroy(largestSlot);
        double worst = 0.0, worstFew = 0.0, relative = 0.0, reordered = 0.0, meanFew = 0.0, meanLargest = 0.0;
        int sameToken = 0;
        for (std::size_t i = 0; i < answer.size(); ++i) {
            worst = std::max(worst, largestDifference(denseRows[i], wholeRows[i]));
            relative = std::max(relative, relativeDifference(denseRows[i], wholeRows[i]));
            reordered = std::max(reordered, relativeDifference(orderRows[i], wholeRows[i]));
            worstFew = std::max(worstFew, largestDifference(denseRows[i], fewRows[i]));
            meanFew += relativeDifference(denseRows[i], fewRows[i]) / double(answer.size());
            meanLargest += relativeDifference(denseRows[i], largestRows[i]) / double(answer.size());
            sameToken += argmax(fewRows[i]) == argmax(denseRows[i]);
        }
        report.line(
            "sparse decode behind %zu tokens: logits up to %.3f (%.4f relative) from dense with %d picks, %.3f with "
            "512 (%d of %zu tokens the same)",
            ids.size(), worst, relative, 4096, worstFew, sameToken, answer.size());
        report.line("  with 512 picks logits %.4f relative from dense on average, %.4f where the largest are picked",
                    meanFew, meanLargest);
        report.expect(all || meanFew < meanLargest,
                      "sparse decode behind %zu tokens: 512 picks by priority are %.4f from dense, the largest %.4f",
                      ids.size(), meanFew, meanLargest);
        // All rows are read, in another order: weights rounded to bf16 by other maxima and sums in fp32 differ in their
        // last bits, and the layers above make of that what they make of any such difference. How much that is, another
        // order of the same sparse sums shows.
        if (all) {
            report.line("  %.4f relative between two orders of the same sums", reordered);
            mostReordered = std::max(mostReordered, reordered);
        }
        report.expect(!all || relative < std::max(0.02, 2.0 * reordered),
                      "sparse decode that picks all of %zu tokens: logits %.4f from dense, where another order changes "
                      "%.4f",
                      ids.size(), relative, reordered);
        report.expect(sameToken * 10 >= int(answer.size()) * 9,
                      "sparse decode of 512 picks: only %d of %zu tokens the same", sameToken, answer.size());

        report.expect(decodeRows(squeezedDriver, squeezedSlot, answer, 1) == fewRows,
                      "sparse decode behind %zu tokens depends on the size of the hot buffer", ids.size());
        report.expect(decodeRows(fewDriver, verified, answer, 3) == fewRows,
                      "sparse decode behind %zu tokens: verified rows differ from single ones", ids.size());
        report.expect(decodeRows(fewDriver, verifiedMore, answer, 11) == fewRows,
                      "sparse decode behind %zu tokens: eleven verified rows differ from single ones", ids.size());
        report.expect(decodeRows(squeezedDriver, squeezedVerified, answer, 3) == fewRows,
                      "sparse decode behind %zu tokens: rows verified in waves differ from single ones", ids.size());
        report.expect(decodeRows(apartDriver, apartSlot, answer, 8) == fewRows,
                      "sparse decode behind %zu tokens: rows that share nothing differ from single ones", ids.size());
        report.expect(decodeRows(fewDriver, thawed, answer, 1) == fewRows,
                      "sparse decode behind %zu tokens: a fork of a frozen sequence differs", ids.size());

        // Batches of 3 and 8 around one sequence.
        for (const std::size_t batch : {std::size_t(3), std::size_t(8)}) {
            std::vector<SlotId> slots;
            while (slots.size() < batch)
                slots.push_back(fewDriver.fork(frozen, room));
            bool same = true;
            for (std::size_t i = 0; i < 8 && i < answer.size(); ++i) {
                const std::vector<TokenId> one{answer[i]}, other{answer[(i * 7 + 3) % answer.size()]};
                std::vector<StepEntry> entries;
                for (std::size_t s = 0; s < batch; ++s)
                    entries.push_back({slots[s], s == 1 ? one : other});
                const std::vector<float> logits = fewDriver.step(entries);
                same &= std::equal(fewRows[i].begin(), fewRows[i].end(),
                                   logits.begin() + std::ptrdiff_t(fewDriver.vocab()));
            }
            report.expect(same, "sparse decode in a batch of %zu differs from single steps", batch);
            for (const SlotId slot : slots)
                fewDriver.destroy(slot);
        }

        // So many rows that sequences pick and attend beside each other, each on the rows of the answer.
        std::vector<SlotId> beside;
        while (beside.size() < 5)
            beside.push_back(fewDriver.fork(frozen, room));
        for (std::size_t at = 0; at + 3 <= std::min<std::size_t>(answer.size(), 12); at += 3) {
            const auto part = std::span(answer).subspan(at, 3);
            const std::vector<TokenId> rows(part.begin(), part.end());
            std::vector<StepEntry> entries;
            for (const SlotId slot : beside)
                entries.push_back({slot, rows});
            const std::vector<float> logits = fewDriver.step(entries);
            for (std::size_t row = 0; row < 3 * beside.size(); ++row)
                report.expect(std::equal(fewRows[at + row % 3].begin(), fewRows[at + row % 3].end(),
                                         logits.begin() + std::ptrdiff_t(row * fewDriver.vocab())),
                              "sparse decode behind %zu tokens: row %zu of sequences beside each other differs",
                              ids.size(), at + row);
            for (const SlotId slot : beside)
                fewDriver.commit(slot, 3);
        }
        for (const SlotId slot : beside)
            fewDriver.destroy(slot);

        // Whichever of them has fewer rows, it is the same shape: drafts of all lengths are to find their graphs again.
        const auto& counted = static_cast<const CudaBackend&>(*few);
        const std::int64_t direct = counted.passCounts().direct;
        const std::vector<TokenId> shorter(answer.begin(), answer.begin() + 2),
            longer(answer.begin(), answer.begin() + 3);
        for (std::size_t which = 0; which < 5; ++which) {
            std::vector<StepEntry> entries;
            for (std::size_t s = 0; s < 5; ++s)
                entries.push_back({fewDriver.fork(frozen, room), s == which ? shorter : longer});
            const std::vector<float> logits = fewDriver.step(entries);
            auto row = logits.begin();
            for (std::size_t s = 0; s < 5; ++s) {
                for (std::size_t i = 0; i < (s == which ? shorter : longer).size(); ++i, row += fewDriver.vocab())
                    report.expect(std::equal(fewRows[i].begin(), fewRows[i].end(), row),
                                  "sparse decode behind %zu tokens: row %zu of sequence %zu of unequal ones differs",
                                  ids.size(), i, s);
            }
            for (const StepEntry& entry : entries)
                fewDriver.destroy(entry.slot);
        }
        report.expect(counted.passCounts().direct <= direct + 1,
                      "sparse decode behind %zu tokens: %lld shapes of five sequences with 14 rows", ids.size(),
                      static_cast<long long>(counted.passCounts().direct - direct));

        const std::int64_t own = squeezed->tierBytesRead(squeezedSlot), shared = few->tierBytesRead(thawed);
        report.expect(own > 0 && own <= squeezed->stats().tierBytesRead && shared > 0 &&
                          shared < few->stats().tierBytesRead && dense->tierBytesRead(denseSlot) < 0,
                      "sparse decode: bytes over the link are not counted for each sequence");

        // What follows is read over pages that have moved to the host tier meanwhile.
        const auto more = std::span(ids).first(std::min<std::size_t>(ids.size(), 500));
        const double after =
            relativeDifference(denseDriver.prefill(denseSlot, more), wholeDriver.prefill(wholeSlot, more));
        report.expect(!all || after < 0.02, "prefill behind a sparse decode: logits %.4f from dense", after);
        for (const SlotId slot : {fewSlot, forked, verified, verifiedMore, frozen, thawed})
            fewDriver.destroy(slot);
        apartDriver.destroy(apartSlot);
        squeezedDriver.destroy(squeezedVerified);
        wholeDriver.destroy(wholeSlot);
        denseDriver.destroy(denseSlot);
        squeezedDriver.destroy(squeezedSlot);
    }
    const BackendStats fewStats = few->stats(), squeezedStats = squeezed->stats();
    report.expect(fewStats.sparseSteps > 0 && fewStats.hostTierBytes > 0 && dense->stats().sparseSteps == 0,
                  "sparse backend: no sparse steps were counted");
    report.expect(squeezedStats.hotMisses > 0 && squeezedStats.tierBytesRead > 0,
                  "sparse backend: no misses were counted");
    report.line("512 picks: %.1f%% misses with room for all rows, %.1f%% with room for one row's",
                100.0 * double(fewStats.hotMisses) / double(fewStats.hotMisses + fewStats.hotHits),
                100.0 * double(squeezedStats.hotMisses) / double(squeezedStats.hotMisses + squeezedStats.hotHits));
    return mostReordered;
}

/// Rows of one sequence share a fetch as soon as the hot buffer has room for their picks, and for no row more.
void checkRoomForPicks(Report& report, const ModelConfig& config, const ModelWeights& weights)
{
    constexpr int rows = 8;
    constexpr std::int64_t tokens = 20000;
    SparseSettings settings;
    settings.topK = 512;
    settings.longTopK = 1024;
    settings.longRange = 10000;
    auto sparse = CudaSparse::create(config, weights.hash, SparseMode::On, settings, weights.dir / "basis.safetensors",
                                     false, tokens);
    if (!report.expect(sparse.has_value(), "room for picks: %s", sparse ? "" : sparse.error().message.c_str()))
        return;
    const std::int64_t rowBytes =
        std::int64_t(config.numFullAttentionLayers()) * config.numKvHeads * kernels::cuda::kvHeadBytes;
    for (const auto& [position, picks] : {std::pair{std::int64_t{9000}, 512}, {std::int64_t{15000}, 1024}}) {
        const auto range = sparse->range(position);
        report.expect(range && sparse->picks(*range) == picks, "room for picks: not %d at position %lld", picks,
                      static_cast<long long>(position));
        sparse->setHotBytes(rows * picks * rowBytes);
        const auto hot = sparse->makeHotBuffer(tokens, nullptr);
        if (!report.expect(hot.has_value(), "room for picks: no hot buffer"))
            return;
        report.expect(hot->slots == rows * picks && sparse->holds(*hot, rows, position) &&
                          !sparse->holds(*hot, rows + 1, position),
                      "room for picks: a buffer of %d slots is not just room for %d rows of %d picks", hot->slots, rows,
                      picks);
    }
}

/// Pages that forks share are counted, and have a place in the host tier, once; what ends is given back.
void checkMemory(Report& report, const ModelConfig& config, const std::shared_ptr<const ModelWeights>& weights,
                 const nlohmann::json& prompts)
{
    BackendOptions options;
    options.device = "cuda:0";
    options.sparse = SparseMode::On;
    options.sparseSettings.recent = 256;
    options.contextLimit = 60000;
    const auto backend = makeBackend(config, weights, options);
    if (!report.expect(backend.has_value(), "memory: %s", backend ? "" : backend.error().message.c_str()))
        return;
    Driver driver(report, **backend);
    const std::int64_t before = (*backend)->stats().memoryUsedBytes;
    const auto ids = prompts[0]["prompt_ids"].get<std::vector<TokenId>>();
    constexpr std::int64_t read = 40'000, room = read + 600;
    const SlotId first = driver.create(room);
    std::vector<TokenId> context;
    while (std::int64_t(context.size()) < read)
        context.insert(context.end(), ids.begin(), ids.end());
    context.resize(read);
    driver.prefill(first, context);
    const BackendStats alone = (*backend)->stats();
    std::vector<SlotId> forks;
    for (int i = 0; i < 4; ++i)
        forks.push_back(driver.fork(first, room));
    const SlotId frozen = driver.fork(first, read);
    const BackendStats shared = (*backend)->stats();
    report.expect(shared.hostTierBytes - alone.hostTierBytes <= std::int64_t{256} << 20 &&
                      shared.hostTierBytes < 2 * alone.hostTierBytes,
                  "memory: four forks of %lld tokens took %lld MiB of the host tier beside %lld",
                  static_cast<long long>(read), static_cast<long long>(shared.hostTierBytes >> 20),
                  static_cast<long long>(alone.hostTierBytes >> 20));
    const auto more = driver.step(first, {1});
    report.expect(driver.step(forks[0], {1}) == more, "memory: a fork differs once its pages have moved");
    const std::int64_t moved = (*backend)->stats().memoryUsedBytes;
    report.expect(moved < shared.memoryUsedBytes, "memory: pages that moved to the host tier still count on the GPU");
    for (const SlotId fork : forks)
        driver.destroy(fork);
    driver.destroy(first);
    const SlotId again = driver.fork(frozen, room);
    report.expect(driver.step(again, {1}) == more, "memory: a fork of what was kept differs");
    driver.destroy(again);
    driver.destroy(frozen);
    const std::int64_t after = (*backend)->stats().memoryUsedBytes;
    report.expect(after == before, "memory: %lld bytes used after all ended, %lld before",
                  static_cast<long long>(after), static_cast<long long>(before));
}

/// All ways to run the same tokens give the same bits.
void checkParity(Report& report, Driver& driver, const nlohmann::json& prompts)
{
    const auto ids = prompts[0]["prompt_ids"].get<std::vector<TokenId>>();
    const auto other = prompts[1]["prompt_ids"].get<std::vector<TokenId>>();
    const std::int64_t room = std::int64_t(std::max(ids.size(), other.size())) + 64;
    const SlotId whole = driver.create(room);
    const std::vector<float> logits = driver.prefill(whole, ids);

    const SlotId cut = driver.create(room);
    std::vector<float> last;
    for (std::size_t first = 0; first < ids.size(); first += first == 64 ? 17 : 64)
        last = driver.prefill(
            cut, std::span(ids).subspan(first, std::min<std::size_t>(first == 64 ? 17 : 64, ids.size() - first)));
    report.expect(last == logits, "backend: logits depend on how the prompt was cut");

    // Plain decoding of eight tokens is the yardstick for what follows.
    const SlotId plain = driver.fork(whole, room);
    std::vector<TokenId> tokens{TokenId(argmax(logits))};
    std::vector<std::vector<float>> rows;
    for (int i = 0; i < 8; ++i) {
        rows.push_back(driver.step(plain, {tokens.back()}));
        tokens.push_back(argmax(rows.back()));
    }
    const auto rowOf = [&](const std::vector<float>& all, std::size_t i) {
        return std::vector<float>(all.begin() + std::ptrdiff_t(i * driver.vocab()),
                                  all.begin() + std::ptrdiff_t((i + 1) * driver.vocab()));
    };

    const SlotId verified = driver.fork(whole, room);
    const TokenId wrong = tokens[2] == 5 ? 6 : 5;
    std::vector<float> all = driver.step(verified, {tokens[0], tokens[1], wrong, wrong});
    report.expect(rowOf(all, 0) == rows[0] && rowOf(all, 1) == rows[1],
                  "backend: verified rows differ from single steps");
    driver.commit(verified, 2);
    const SlotId midway = driver.fork(verified, room); // with rows that the state has not taken in yet
    all = driver.step(verified, {tokens[2], tokens[3], tokens[4]});
    report.expect(rowOf(all, 0) == rows[2] && rowOf(all, 2) == rows[4], "backend: rows after a rejected draft differ");
    driver.commit(verified, 3);
    report.expect(driver.step(verified, {tokens[5]}) == rows[5], "backend: a single row after a verify differs");
    report.expect(driver.step(midway, {tokens[2]}) == rows[2], "backend: a fork with pending rows differs");
    const SlotId refilled = driver.fork(whole, room);
    all = driver.step(refilled, {tokens[0], wrong});
    driver.commit(refilled, 1);
    last = driver.prefill(refilled, std::span(tokens).subspan(1, 3));
    report.expect(last == rows[3], "backend: prefill after a verify differs");

    const SlotId companion = driver.create(room);
    driver.prefill(companion, other);
    const SlotId batched = driver.fork(whole, room), third = driver.fork(companion, room);
    const std::vector<TokenId> a{tokens[0]}, b{7}, c{9, 10, 11};
    all = driver.step({StepEntry{companion, b}, StepEntry{third, c}, StepEntry{batched, a}});
    report.expect(rowOf(all, 4) == rows[0], "backend: logits depend on who else is in the batch");
    driver.commit(third, 1);
    for (const SlotId slot : {whole, cut, plain, verified, midway, refilled, companion, batched, third})
        driver.destroy(slot);
}

/// Two backends on one GPU, each on a thread of its own, answer as one alone does.
void checkTwoWorkers(Report& report, const ModelConfig& config, const std::shared_ptr<const ModelWeights>& weights,
                     Driver& alone, const nlohmann::json& prompts)
{
    const auto decode = [&](Driver& driver, std::size_t first) {
        std::vector<std::vector<float>> rows;
        for (std::size_t p = first; p < std::min<std::size_t>(prompts.size(), 6); p += 2) {
            const auto ids = prompts[p]["prompt_ids"].get<std::vector<TokenId>>();
            const SlotId slot = driver.create(std::int64_t(ids.size()) + 40);
            std::vector<float> logits = driver.prefill(slot, ids);
            for (int i = 0; i < 32; ++i) {
                rows.push_back(logits);
                logits = driver.step(slot, {TokenId(argmax(logits))});
            }
            driver.destroy(slot);
        }
        return rows;
    };
    const std::vector<std::vector<float>> want[] = {decode(alone, 0), decode(alone, 1)};
    std::vector<std::vector<float>> got[2];
    Report reports[2];
    std::vector<std::thread> workers;
    for (std::size_t i = 0; i < 2; ++i) {
        workers.emplace_back([&, i] {
            BackendOptions options;
            options.device = "cuda:0";
            const auto backend = makeBackend(config, weights, options);
            if (!reports[i].expect(backend.has_value(), "%s", backend ? "" : backend.error().message.c_str()))
                return;
            Driver driver(reports[i], **backend);
            got[i] = decode(driver, i);
        });
    }
    for (std::thread& worker : workers)
        worker.join();
    for (std::size_t i = 0; i < 2; ++i) {
        report.expect(reports[i].failures() == 0, "worker %zu of one GPU: %s", i, reports[i].messages().c_str());
        report.expect(got[i] == want[i], "worker %zu of one GPU answers otherwise than one alone", i);
    }
}

/// Whole blocks of 64 tokens through the kernels for many rows (`blocks`) against the decode kernels (`plain`).
/// `reordered`: what checkSparseDecoding() gives.
void checkBlocks(Report& report, Driver& blocks, Driver& plain, const nlohmann::json& prompts, double reordered)
{
    // Rounding alone differs, and tips codes of int4 rows; the layers above make of that what they make of any such
    // difference. How much that is, another order of attention's sums shows, but for an answer's rows alone. Here all
    // sums of every layer are in another order, and all rows of the prompt: many differences of that size, which add up
    // as their squares do: four times as much stands for sixteen of them. How right blocks are, the goldens tell.
    const double bound = std::clamp(4.0 * reordered, 0.02, 0.06);
    double worst = 0.0;
    int compared = 0, sameToken = 0;
    const auto near = [&](const std::vector<float>& got, const std::vector<float>& want, const char* what,
                          std::size_t tokens) {
        const double relative = relativeDifference(want, got);
        worst = std::max(worst, relative);
        ++compared;
        sameToken += argmax(got) == argmax(want);
        report.expect(
            relative < bound,
            "blocks: %s of %zu tokens: logits %.4f from the decode kernels', where another order of attention's "
            "sums changes %.4f",
            what, tokens, relative, reordered);
    };
    const auto cutIn = [](Driver& driver, SlotId slot, std::span<const TokenId> ids, std::size_t first,
                          std::size_t most) {
        std::vector<float> last = first > 0 ? driver.prefill(slot, ids.first(first)) : std::vector<float>{};
        for (std::size_t at = first; at < ids.size(); at += most)
            last = driver.prefill(slot, ids.subspan(at, std::min(most, ids.size() - at)));
        return last;
    };
    for (std::size_t p = 0; p < prompts.size(); ++p) {
        const auto ids = prompts[p]["prompt_ids"].get<std::vector<TokenId>>();
        if (ids.size() < 64)
            continue;
        const std::int64_t room = std::int64_t(ids.size()) + 300;
        const SlotId ours = blocks.create(room), theirs = plain.create(room);
        const std::vector<float> whole = blocks.prefill(ours, ids);
        near(whole, plain.prefill(theirs, ids), "a prompt", ids.size());

        // Where slices are cut on multiples of 64, the bits are the same.
        for (const std::size_t most : {std::size_t(64), std::size_t(320), std::size_t(1024)}) {
            if (most == 64 && ids.size() > 2000)
                continue;
            const SlotId cut = blocks.create(room);
            report.expect(cutIn(blocks, cut, ids, 0, most) == whole,
                          "blocks: logits behind %zu tokens depend on slices of %zu", ids.size(), most);
            blocks.destroy(cut);
        }
        const SlotId odd = blocks.create(room);
        near(cutIn(blocks, odd, ids, 17, 500), whole, "a prompt cut anywhere", ids.size());
        blocks.destroy(odd);

        // Behind drafts of which some were rejected: the states take their rows first.
        if (ids.size() < 2000) {
            const auto more = std::span(ids).first(std::min<std::size_t>(ids.size(), 200));
            const std::vector<TokenId> drafts{ids[0], ids[1], ids[2]};
            std::vector<float> last[2];
            const std::pair<Driver*, SlotId> both[] = {{&blocks, ours}, {&plain, theirs}};
            for (int i = 0; i < 2; ++i) {
                const auto [driver, slot] = both[i];
                std::vector<TokenId> fill; // up to two tokens before a block
                for (std::size_t length = ids.size(); length % 64 != 62; ++length)
                    fill.push_back(ids[length % ids.size()]);
                if (!fill.empty())
                    driver->prefill(slot, fill);
                driver->step(slot, drafts);
                driver->commit(slot, 2);
                last[i] = driver->prefill(slot, more);
            }
            near(last[0], last[1], "a prompt behind drafts", ids.size());
        }
        blocks.destroy(ours);
        plain.destroy(theirs);
    }
    report.expect(compared > 0 && sameToken * 20 >= compared * 19, "blocks: %d of %d tokens the same", sameToken,
                  compared);
    report.line("blocks of 64 tokens: logits up to %.4f (relative) from the decode kernels', %d of %d tokens the same",
                worst, sameToken, compared);
}

/// Logits of every row of a slice, as evaluation asks for them.
void checkEveryRow(Report& report, Backend& blocks, Backend& plain, const nlohmann::json& prompts)
{
    std::vector<TokenId> ids;
    for (std::size_t p = 0; ids.size() < 200 && p < prompts.size(); ++p) {
        const auto more = prompts[p]["prompt_ids"].get<std::vector<TokenId>>();
        ids.insert(ids.end(), more.begin(), more.end());
    }
    ids.resize(200);
    const std::size_t vocab = std::size_t(plain.config().vocabSize);
    std::vector<float> all[2];
    Backend* both[] = {&blocks, &plain};
    for (int i = 0; i < 2; ++i) {
        all[i].resize(ids.size() * vocab);
        const auto slot = both[i]->createSequence(256);
        report.expect(slot && both[i]->prefill(*slot, ids, all[i]), "every row's logits: refused");
        if (slot)
            both[i]->destroySequence(*slot);
    }
    const double relative = relativeDifference(all[1], all[0]);
    report.expect(relative < 0.03, "every row's logits: %.4f from the decode kernels'", relative);
}

void checkErrors(Report& report, Backend& backend)
{
    const auto slot = backend.createSequence(4);
    if (!report.expect(slot.has_value(), "backend: no room for four tokens"))
        return;
    std::vector<float> logits(std::size_t(backend.config().vocabSize));
    const std::vector<TokenId> five(5, 1), negative{-1}, one{1};
    const auto full = backend.prefill(*slot, five, {});
    report.expect(!full && full.error().code == ErrorCode::ContextFull, "backend: five tokens in a context of four");
    const auto invalid = backend.prefill(*slot, negative, {});
    report.expect(!invalid && invalid.error().code == ErrorCode::InvalidArgument, "backend: a negative token");
    const StepEntry twice[] = {{*slot, one}, {*slot, one}};
    std::vector<float> two(2 * logits.size());
    report.expect(!backend.step(twice, two), "backend: one sequence twice in a step");
    report.expect(!backend.createSequence(std::int64_t{1} << 40), "backend: a sequence beyond the model's positions");
    report.expect(bool(backend.prefill(*slot, one, logits)), "backend: a good slice after refused ones");
    backend.destroySequence(*slot);
    report.expect(backend.length(*slot) == 0, "backend: a destroyed sequence has a length");
}

} // namespace

void checkBackend(Report& report, const std::string& modelDir, const std::string& goldens)
{
    const auto config = ModelConfig::load(modelDir);
    if (!report.expect(config.has_value(), "%s", config ? "" : config.error().message.c_str()))
        return;
    auto opened = ModelWeights::open(modelDir, *config);
    if (!report.expect(opened.has_value(), "%s", opened ? "" : opened.error().message.c_str()))
        return;
    std::ifstream file(goldens);
    const nlohmann::json prompts = nlohmann::json::parse(file, nullptr, false);
    if (!report.expect(prompts.is_array() && prompts.size() > 1, "%s holds no prompts", goldens.c_str()))
        return;
    BackendOptions options;
    options.device = "cuda:0";
    const auto started = std::chrono::steady_clock::now();
    const auto weights = std::make_shared<const ModelWeights>(std::move(*opened));
    options.prefillBlocks = false;
    auto plain = makeBackend(*config, weights, options);
    if (!report.expect(plain.has_value(), "%s", plain ? "" : plain.error().message.c_str()))
        return;
    report.line("loaded in %.2f s on %s",
                std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count(),
                (*plain)->info().description.c_str());
    options.prefillBlocks = true;
    auto blocks = makeBackend(*config, weights, options);
    if (!report.expect(blocks.has_value(), "%s", blocks ? "" : blocks.error().message.c_str()))
        return;
    auto& backend = BackendOptions{}.prefillBlocks ? blocks : plain;
    Driver plainDriver(report, **plain), blocksDriver(report, **blocks), driver(report, **backend);
    const double plainWorst = checkGoldens(report, plainDriver, prompts);
    checkParity(report, plainDriver, prompts);
    const double blocksWorst = checkGoldens(report, blocksDriver, prompts);
    report.expect(blocksWorst < 1.5 * plainWorst,
                  "blocks: logits up to %.3f from the goldens, the decode kernels' %.3f", blocksWorst, plainWorst);
    const double reordered = checkSparseDecoding(report, *config, weights, prompts);
    report.expect(reordered > 0.0 && reordered < 0.03, // else what follows would be measured against it for nothing
                  "another order of the same sums changes logits by %.4f", reordered);
    checkBlocks(report, blocksDriver, plainDriver, prompts, reordered);
    checkEveryRow(report, **blocks, **plain, prompts);
    checkErrors(report, **backend);
    checkTwoWorkers(report, *config, weights, driver, prompts);
    checkRoomForPicks(report, *config, *weights);
    checkMemory(report, *config, weights, prompts);
    checkSteps(report, *config, weights, prompts);
    checkMtp(report, *config, weights, std::filesystem::path(goldens).parent_path() / "mtp.json");
    checkImages(report, *config, weights, prompts);
    checkWorkers(report, modelDir, prompts);
    checkBudget(report);
    reportSpeed(report, plainDriver, prompts);
    reportSpeed(report, blocksDriver, prompts);
}

} // namespace octavo::gpu
