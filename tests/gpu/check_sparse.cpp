#include "tests/gpu/checks.h"

#include "kernels/cuda/attention_input.h"
#include "kernels/cuda/hot_buffer.h"
#include "kernels/cuda/select.h"
#include "kernels/cuda/sketch.h"

#include <numeric>

namespace octavo::gpu
{

using namespace kernels::cuda;

namespace
{

/// The k largest of keys[begin, end), lowest index first among equals, ascending.
std::vector<std::int32_t> largest(const std::vector<std::uint32_t>& keys, int begin, int end, int k)
{
    std::vector<std::int32_t> order(std::size_t(end - begin));
    std::iota(order.begin(), order.end(), begin);
    k = std::min(k, end - begin);
    std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](int a, int b) {
        return keys[std::size_t(a)] != keys[std::size_t(b)] ? keys[std::size_t(a)] > keys[std::size_t(b)] : a < b;
    });
    order.resize(std::size_t(k));
    std::sort(order.begin(), order.end());
    return order;
}

/// Everything a SelectQuery points to.
struct Selection {
    DeviceArray<std::uint32_t> keys, histogram{selectBins};
    DeviceArray<uint2> candidates{selectMaxCandidates};
    DeviceArray<std::int32_t> taken{selectMaxKeys / 32}, counters{2}, picks, numPicks{1};

    Selection(const std::vector<std::uint32_t>& values, int k)
        : keys(values)
        , picks(std::size_t(k) + 1)
    {
        histogram.zero(), taken.zero(), counters.zero();
    }
    SelectQuery query(int begin, int end, int k) const
    {
        return {
            keys.data(),  begin,          end, k, histogram.data(), taken.data(), candidates.data(), counters.data(),
            picks.data(), numPicks.data()};
    }
};

} // namespace

void checkSelect(Report& report)
{
    Random random(7);
    enum Pattern { Uniform, Narrow, Equal, FewValues };
    for (const int count : {1, 31, 2048, 9000, 100000, 262144}) {
        std::vector<Selection> selections;
        std::vector<std::vector<std::int32_t>> want;
        std::vector<SelectQuery> queries;
        for (const Pattern pattern : {Uniform, Narrow, Equal, FewValues}) {
            for (const int k : {0, 1, 2048}) {
                std::vector<std::uint32_t> keys(static_cast<std::size_t>(count));
                for (auto& key : keys)
                    key = pattern == Uniform  ? std::uint32_t(random.bits())
                          : pattern == Narrow ? 0x80000000u + std::uint32_t(random.below(1 << 20))
                          : pattern == Equal  ? 77u
                                              : std::uint32_t(random.below(3)) << 30;
                const int begin = count > 2048 ? 64 : 0, end = count > 2048 ? count - 1000 : count;
                selections.emplace_back(keys, k);
                queries.push_back(selections.back().query(begin, end, k));
                want.push_back(largest(keys, begin, end, k));
            }
        }
        const DeviceArray<SelectQuery> queriesDevice(queries);
        for (int round = 0; round < 2; ++round) { // the second shows that the work space was left clean
            OCTAVO_REQUIRE(
                launchSelect(queriesDevice.data(), int(queries.size()), count, SelectHistogram::Missing, nullptr));
            for (std::size_t i = 0; i < queries.size(); ++i) {
                std::vector<std::int32_t> got = selections[i].picks.download();
                const int numPicks = selections[i].numPicks.download()[0];
                report.expect(numPicks == int(want[i].size()), "select n=%d case %zu round %d: %d picks, expected %zu",
                              count, i, round, numPicks, want[i].size());
                got.resize(want[i].size());
                report.expect(got == want[i], "select n=%d case %zu round %d: other picks", count, i, round);
            }
        }
    }
    report.expect(launchSelect(nullptr, 1, selectMaxKeys + 1, SelectHistogram::Missing, nullptr) ==
                      cudaErrorInvalidValue,
                  "select takes too many keys");
}

void checkSharedScores(Report& report);
void checkAttentionInput(Report& report);

void checkSketch(Report& report)
{
    checkSharedScores(report);
    checkAttentionInput(report);
    Random random(8);
    struct Case {
        int heads, kvHeads, tokens, begin, end;
    };
    for (const auto& [heads, kvHeads, tokens, begin, end] :
         {Case{4, 2, 1000, 64, 900}, {24, 4, 5003, 64, 5003}, {3, 3, 40, 0, 33}, {8, 1, 2100, 16, 2049}}) {
        std::vector<float> basis(std::size_t(kvHeads) * 256 * 64), means(std::size_t(kvHeads) * 256);
        for (float& value : basis)
            value = float(random.normal() / 16.0);
        for (float& value : means)
            value = float(random.normal() * 0.2);
        const std::vector<float> keys = randomBf16(random, std::size_t(tokens) * kvHeads * 256);
        const DeviceArray<float> basisDevice(basis), meansDevice(means);
        const DeviceArray<__nv_bfloat16> keysDevice(toBf16(keys));
        const int tiles = (tokens + 15) / 16 + 1;
        DeviceArray<std::uint8_t> codes(std::size_t(kvHeads) * tiles * sketchTileBytes);
        DeviceArray<__half> scales(std::size_t(kvHeads) * tiles * 16);
        codes.zero(), scales.zero();
        const SketchView sketch{codes.data(), scales.data(), tiles};
        // One run, then single tokens: a decode step appends one.
        const int run = tokens - 3;
        for (int first = 0; first < tokens; first += first == 0 ? run : 1) {
            const MatrixView<const __nv_bfloat16> view{keysDevice.data() + std::size_t(first) * kvHeads * 256,
                                                       first == 0 ? run : 1, kvHeads * 256, kvHeads * 256};
            OCTAVO_REQUIRE(
                launchSketchAppend(view, kvHeads, basisDevice.data(), meansDevice.data(), first, sketch, nullptr));
        }
        const std::vector<std::uint8_t> gotCodes = codes.download();
        const std::vector<__half> gotScales = scales.download();
        DeviceArray<std::uint8_t> codesAtOnce(codes.size());
        codesAtOnce.zero();
        const MatrixView<const __nv_bfloat16> allKeys{keysDevice.data(), tokens, kvHeads * 256, kvHeads * 256};
        OCTAVO_REQUIRE(launchSketchAppend(allKeys, kvHeads, basisDevice.data(), meansDevice.data(), 0,
                                          SketchView{codesAtOnce.data(), scales.data(), tiles}, nullptr));
        report.expect(codesAtOnce.download() == gotCodes,
                      "sketch heads=%d tokens=%d: depends on how keys were appended", kvHeads, tokens);
        std::vector<float> got;
        std::vector<double> want;
        std::vector<double> bound;
        for (int h = 0; h < kvHeads; ++h) {
            for (int token = 0; token<tokens; token += tokens> 100 ? 37 : 1) {
                double coordinates[64];
                referenceSketchToken(&keys[(std::size_t(token) * kvHeads + h) * 256], &basis[std::size_t(h) * 256 * 64],
                                     &means[std::size_t(h) * 256], coordinates);
                const float scale = __half2float(gotScales[(std::size_t(h) * tiles) * 16 + token]);
                for (int c = 0; c < 64; ++c) {
                    const int code = sketchCodeAt(&gotCodes[std::size_t(h) * tiles * sketchTileBytes], token, c) - 8;
                    got.push_back(scale * float(code));
                    want.push_back(coordinates[c]);
                    // Half a step, or the clipped step at the other end of the range.
                    bound.push_back(std::abs(scale) * (coordinates[c] * scale > 0 ? 1.02 : 0.52));
                }
            }
        }
        std::size_t outside = 0;
        for (std::size_t i = 0; i < got.size(); ++i)
            outside += !(std::abs(got[i] - want[i]) <= bound[i]);
        report.expect(outside == 0, "sketch heads=%d tokens=%d: %zu coordinates off", kvHeads, tokens, outside);

        const int queries = 2;
        const std::vector<float> query = randomBf16(random, std::size_t(queries) * heads * 256, 2.0);
        const DeviceArray<__nv_bfloat16> queryDevice(toBf16(query));
        DeviceArray<__nv_bfloat16> projected(std::size_t(queries) * heads * 64);
        OCTAVO_REQUIRE(launchSketchProject(queryDevice.data(), queries, heads, kvHeads, basisDevice.data(),
                                           projected.data(), nullptr));
        const std::vector<float> gotProjected = toFloat(projected.download());
        std::vector<double> wantProjected;
        for (int q = 0; q < queries; ++q)
            for (int h = 0; h < heads; ++h)
                for (int c = 0; c < 64; ++c) {
                    double sum = 0.0;
                    for (int d = 0; d < 256; ++d)
                        sum += double(query[(std::size_t(q) * heads + h) * 256 + d]) *
                               basis[(std::size_t(h / (heads / kvHeads)) * 256 + d) * 64 + c];
                    wantProjected.push_back(sum / 16.0);
                }
        compare(report, "sketch projection", gotProjected, wantProjected, 4e-3);

        std::vector<SketchQuery> sketchQueries;
        std::vector<DeviceArray<__half>> scores;
        std::vector<DeviceArray<float2>> logSums;
        std::vector<DeviceArray<std::uint32_t>> keysOut, histograms;
        for (int q = 0; q < queries; ++q) {
            scores.emplace_back(std::size_t(heads) * tiles * 16);
            logSums.emplace_back(std::size_t(sketchChunks(end)) * heads);
            keysOut.emplace_back(std::size_t(tiles) * 16);
            histograms.emplace_back(std::size_t(4096));
            histograms.back().zero();
            sketchQueries.push_back({sketch, projected.data() + std::size_t(q) * heads * 64, begin, end,
                                     scores.back().data(), logSums.back().data(), keysOut.back().data(),
                                     histograms.back().data()});
        }
        const DeviceArray<SketchQuery> queriesDevice(sketchQueries);
        OCTAVO_REQUIRE(launchSketchScore(queriesDevice.data(), queries, heads, kvHeads, end, queries, nullptr));
        for (int q = 0; q < queries; ++q) {
            std::vector<double> best(std::size_t(tokens), -1e300);
            for (int h = 0; h < heads; ++h) {
                const int kvHead = h / (heads / kvHeads);
                std::vector<double> s(static_cast<std::size_t>(tokens));
                double maximum = -1e300, sum = 0.0;
                for (int token = begin; token < end; ++token) {
                    double dot = 0.0;
                    for (int c = 0; c < 64; ++c)
                        dot += double(gotProjected[(std::size_t(q) * heads + h) * 64 + c]) *
                               (sketchCodeAt(&gotCodes[std::size_t(kvHead) * tiles * sketchTileBytes], token, c) - 8);
                    s[std::size_t(token)] = dot * __half2float(gotScales[std::size_t(kvHead) * tiles * 16 + token]);
                    maximum = std::max(maximum, s[std::size_t(token)]);
                }
                for (int token = begin; token < end; ++token)
                    sum += std::exp(s[std::size_t(token)] - maximum);
                for (int token = begin; token < end; ++token)
                    best[std::size_t(token)] =
                        std::max(best[std::size_t(token)], s[std::size_t(token)] - maximum - std::log(sum));
            }
            const std::vector<std::uint32_t> gotKeys = keysOut[q].download();
            std::vector<std::uint32_t> counts(4096);
            int off = 0;
            for (int token = begin; token < end; ++token) {
                const double value = double(gotKeys[token]) / 67108864.0 - 64.0;
                off += !(std::abs(value - best[std::size_t(token)]) <= 0.01); // fp16 of scores below 16
                ++counts[gotKeys[token] >> 20];
            }
            report.expect(off == 0, "sketch score heads=%d tokens=%d: %d keys off", heads, tokens, off);
            report.expect(counts == histograms[q].download(), "sketch score heads=%d: histogram differs", heads);
            report.expect(begin == 0 || gotKeys[begin - 1] == 0xffffffffu, "sketch score wrote before its range");
        }
    }
}

/// Queries that take turns with fewer score buffers give the keys that each gives alone, time after time.
void checkSharedScores(Report& report)
{
    Random random(32);
    constexpr int heads = 12, kvHeads = 2, tokens = 30000, tiles = tokens / 16, queries = 7;
    std::vector<std::uint8_t> codes(std::size_t(kvHeads) * tiles * sketchTileBytes);
    for (auto& code : codes)
        code = std::uint8_t(random.bits());
    const std::vector<__half> scales(std::size_t(kvHeads) * tiles * 16, __float2half(0.03f));
    std::vector<DeviceArray<std::uint8_t>> codesDevice;
    std::vector<DeviceArray<__nv_bfloat16>> projected;
    std::vector<DeviceArray<__half>> scalesDevice, scores;
    std::vector<DeviceArray<float2>> logSums;
    std::vector<DeviceArray<std::uint32_t>> keys, histograms;
    std::vector<SketchQuery> list;
    for (int q = 0; q < queries; ++q) {
        std::rotate(codes.begin(), codes.begin() + 1000 * q, codes.end());
        codesDevice.emplace_back(codes);
        scalesDevice.emplace_back(scales);
        projected.emplace_back(toBf16(randomBf16(random, heads * 64)));
        scores.emplace_back(std::size_t(heads) * tiles * 16);
        logSums.emplace_back(std::size_t(sketchChunks(tokens)) * heads);
        keys.emplace_back(std::size_t(tokens));
        histograms.emplace_back(std::size_t(4096));
        list.push_back({{codesDevice.back().data(), scalesDevice.back().data(), tiles},
                        projected.back().data(),
                        64 * q,
                        tokens - 900 * q,
                        scores.back().data(),
                        logSums.back().data(),
                        keys.back().data(),
                        histograms.back().data()});
    }
    std::vector<std::vector<std::uint32_t>> want;
    const auto run = [&](int count, int buffers, const DeviceArray<SketchQuery>& device) {
        for (int q = 0; q < queries; ++q)
            keys[q].poison(), histograms[q].zero();
        OCTAVO_REQUIRE(launchSketchScore(device.data(), count, heads, kvHeads, tokens, buffers, nullptr));
    };
    for (int q = 0; q < queries; ++q) {
        run(1, 1, DeviceArray<SketchQuery>(std::vector<SketchQuery>{list[q]}));
        want.push_back(keys[q].download());
    }
    for (const int buffers : {1, 2, 3}) {
        std::vector<SketchQuery> shared = list;
        for (int q = 0; q < queries; ++q)
            shared[q].scores = scores[q % buffers].data();
        const DeviceArray<SketchQuery> device(shared);
        for (int round = 0; round < 5; ++round) {
            run(queries, buffers, device);
            for (int q = 0; q < queries; ++q)
                report.expect(keys[q].download() == want[q], "sketch score, %d buffers, round %d: query %d differs",
                              buffers, round, q);
        }
    }
}

/// One launch for a step's rows against the launches that do it one after the other.
void checkAttentionInput(Report& report)
{
    Random random(33);
    for (const auto& [heads, kvHeads, rows] : {std::tuple{24, 4, 8}, {4, 2, 3}, {8, 1, 64}, {3, 3, 1}}) {
        const int stride = (2 * heads + 2 * kvHeads) * 256, tiles = 20;
        const auto floats = [&](std::size_t count, double scale) {
            std::vector<float> values(count);
            for (float& value : values)
                value = float(random.normal() * scale);
            return values;
        };
        const DeviceArray<__nv_bfloat16> projections(toBf16(randomBf16(random, std::size_t(rows) * stride)));
        const DeviceArray<float> queryNorm(floats(256, 1)), keyNorm(floats(256, 1)), frequencies(floats(32, 0.1));
        const DeviceArray<float> basis(floats(std::size_t(kvHeads) * 256 * 64, 0.06));
        const DeviceArray<float> means(floats(std::size_t(kvHeads) * 256, 0.2));
        std::vector<std::int32_t> positions(static_cast<std::size_t>(rows));
        for (auto& position : positions)
            position = random.below(100000);
        const DeviceArray<std::int32_t> positionsDevice(positions);
        const std::size_t rowBytes = std::size_t(kvHeads) * kvHeadBytes;
        struct Result {
            DeviceArray<__nv_bfloat16> query, key, projected;
            DeviceArray<std::uint8_t> rows, codes;
            DeviceArray<__half> scales;
        };
        const auto make = [&] {
            Result r{DeviceArray<__nv_bfloat16>(std::size_t(rows) * heads * 256),
                     DeviceArray<__nv_bfloat16>(std::size_t(rows) * kvHeads * 256),
                     DeviceArray<__nv_bfloat16>(std::size_t(rows) * heads * 64),
                     DeviceArray<std::uint8_t>(rows * rowBytes),
                     DeviceArray<std::uint8_t>(std::size_t(kvHeads) * tiles * sketchTileBytes),
                     DeviceArray<__half>(std::size_t(kvHeads) * tiles * 16)};
            r.codes.zero(), r.scales.zero();
            return r;
        };
        const Result apart = make(), together = make();
        const auto rope = [&](const Result& to) {
            return QkRopeArgs{projections.data(),
                              stride,
                              projections.data() + heads * 512,
                              stride,
                              queryNorm.data(),
                              keyNorm.data(),
                              positionsDevice.data(),
                              frequencies.data(),
                              to.query.data(),
                              to.key.data(),
                              rows,
                              heads,
                              kvHeads,
                              1e-6f};
        };
        const __nv_bfloat16* values = projections.data() + heads * 512 + kvHeads * 256;
        const SketchView apartSketch{apart.codes.data(), apart.scales.data(), tiles};
        OCTAVO_REQUIRE(launchQkNormRope(rope(apart), nullptr));
        const MatrixView<const __nv_bfloat16> keyView{apart.key.data(), rows, kvHeads * 256, kvHeads * 256};
        OCTAVO_REQUIRE(launchQuantizeRows(keyView, {values, rows, kvHeads * 256, stride}, kvHeads, nullptr,
                                          apart.rows.data(), nullptr));
        OCTAVO_REQUIRE(launchSketchAppend(keyView, kvHeads, basis.data(), means.data(), 100, apartSketch, nullptr));
        OCTAVO_REQUIRE(launchSketchProject(apart.query.data(), rows, heads, kvHeads, basis.data(),
                                           apart.projected.data(), nullptr));

        std::uint8_t* hostRows = nullptr;
        OCTAVO_REQUIRE(cudaHostAlloc(reinterpret_cast<void**>(&hostRows), rows * rowBytes, cudaHostAllocMapped));
        std::vector<RowTarget> targets;
        for (int row = 0; row < rows; ++row)
            targets.push_back({together.rows.data() + row * rowBytes,
                               row % 3 == 2 ? nullptr : hostRows + row * rowBytes,
                               {together.codes.data(), together.scales.data(), tiles},
                               100 + row});
        const DeviceArray<RowTarget> targetsDevice(targets);
        OCTAVO_REQUIRE(launchAttentionInput({rope(together), values, stride, targetsDevice.data(), basis.data(),
                                             means.data(), together.projected.data()},
                                            nullptr));
        const auto same = [](const DeviceArray<__nv_bfloat16>& a, const DeviceArray<__nv_bfloat16>& b) {
            return toFloat(a.download()) == toFloat(b.download());
        };
        const std::string name = "attention input heads=" + std::to_string(heads) + "/" + std::to_string(kvHeads);
        report.expect(same(together.query, apart.query), "%s: queries differ", name.c_str());
        report.expect(same(together.key, apart.key), "%s: keys differ", name.c_str());
        const std::vector<std::uint8_t> wantRows = apart.rows.download();
        report.expect(together.rows.download() == wantRows, "%s: rows differ", name.c_str());
        for (int row = 0; row < rows; ++row)
            report.expect(row % 3 == 2 ||
                              std::memcmp(hostRows + row * rowBytes, &wantRows[row * rowBytes], rowBytes) == 0,
                          "%s: row %d differs on the host", name.c_str(), row);
        report.expect(together.codes.download() == apart.codes.download(), "%s: sketches differ", name.c_str());
        const std::vector<float> projected = toFloat(apart.projected.download());
        compare(report, name + " projection", toFloat(together.projected.download()),
                {projected.begin(), projected.end()}, 2e-3);
        OCTAVO_REQUIRE(cudaFreeHost(hostRows));
    }
}

void checkHotBuffer(Report& report)
{
    Random random(9);
    for (const auto& [tokens, slots, picks] :
         {std::tuple{50, 8, 8}, {1000, 100, 60}, {20000, 5000, 2048}, {9000, 2048, 2048}}) {
        std::vector<std::int32_t> slotOfToken(tokens, -1), tokenOfSlot(slots, -1), pickList(picks), rowIds(picks);
        std::vector<std::int32_t> missTokens(picks), missSlots(picks);
        std::vector<std::uint8_t> marks(slots, 0);
        std::int32_t hand = 0, numPicks = picks, numMisses = 0;
        DeviceArray<std::int32_t> slotOfTokenDevice(slotOfToken), tokenOfSlotDevice(tokenOfSlot), pickListDevice(picks);
        DeviceArray<std::int32_t> rowIdsDevice(picks), missTokensDevice(picks), missSlotsDevice(picks);
        DeviceArray<std::uint8_t> marksDevice(marks);
        DeviceArray<std::int32_t> handDevice(std::vector<std::int32_t>{0}), numPicksDevice(1), numMissesDevice(1);
        const HotLookup host{
            slotOfToken.data(), tokenOfSlot.data(), marks.data(),     &hand,     slots, pickList.data(), &numPicks,
            rowIds.data(),      missTokens.data(),  missSlots.data(), &numMisses};
        const HotLookup device{slotOfTokenDevice.data(),
                               tokenOfSlotDevice.data(),
                               marksDevice.data(),
                               handDevice.data(),
                               slots,
                               pickListDevice.data(),
                               numPicksDevice.data(),
                               rowIdsDevice.data(),
                               missTokensDevice.data(),
                               missSlotsDevice.data(),
                               numMissesDevice.data()};
        const DeviceArray<HotLookup> lookups(std::vector<HotLookup>{device});

        const int rowBytes = 48;
        std::uint8_t* hostRows = nullptr;
        OCTAVO_REQUIRE(
            cudaHostAlloc(reinterpret_cast<void**>(&hostRows), std::size_t(tokens) * rowBytes, cudaHostAllocMapped));
        for (int i = 0; i < tokens * rowBytes; ++i)
            hostRows[i] = std::uint8_t(random.bits());
        DeviceArray<std::uint8_t> rows(std::size_t(slots) * rowBytes);
        DeviceArray<unsigned long long> bytesRead(std::vector<unsigned long long>{0});
        const GatherMisses misses{
            hostRows,        rows.data(), missTokensDevice.data(), missSlotsDevice.data(), numMissesDevice.data(),
            bytesRead.data()};
        const DeviceArray<GatherMisses> gathers(std::vector<GatherMisses>{misses});
        unsigned long long wantBytes = 0;
        for (int step = 0; step < 12; ++step) {
            numPicks = step % 4 == 3 ? picks / 2 : picks;
            std::vector<std::int32_t> all(tokens);
            std::iota(all.begin(), all.end(), 0);
            for (int i = 0; i < numPicks; ++i) // half near the start, so that some stay
                std::swap(all[i], all[i + random.below(i % 2 ? std::min(tokens - i, picks * 2) : tokens - i)]);
            pickList.assign(all.begin(), all.begin() + numPicks);
            std::sort(pickList.begin(), pickList.end());
            pickList.resize(picks);
            pickListDevice.upload(pickList);
            numPicksDevice.upload({numPicks});
            referenceHotLookup(host);
            OCTAVO_REQUIRE(launchHotLookup(lookups.data(), 1, nullptr));
            OCTAVO_REQUIRE(launchGatherMisses(gathers.data(), 1, rowBytes, 0, nullptr));
            report.expect(numMissesDevice.download()[0] == numMisses,
                          "hot buffer slots=%d step %d: %d misses, expected %d", slots, step,
                          numMissesDevice.download()[0], numMisses);
            report.expect(slotOfTokenDevice.download() == slotOfToken, "hot buffer slots=%d step %d: other slots",
                          slots, step);
            report.expect(tokenOfSlotDevice.download() == tokenOfSlot, "hot buffer slots=%d step %d: other tokens",
                          slots, step);
            report.expect(marksDevice.download() == marks, "hot buffer slots=%d step %d: other marks", slots, step);
            report.expect(handDevice.download()[0] == hand, "hot buffer slots=%d step %d: hand differs", slots, step);
            std::vector<std::int32_t> gotRows = rowIdsDevice.download();
            gotRows.resize(numPicks);
            report.expect(std::equal(gotRows.begin(), gotRows.end(), rowIds.begin()), "hot buffer step %d: other rows",
                          step);
            const std::vector<std::uint8_t> gotBytes = rows.download();
            int wrong = 0;
            for (int i = 0; i < numPicks; ++i)
                wrong += std::memcmp(&gotBytes[std::size_t(rowIds[i]) * rowBytes],
                                     hostRows + std::size_t(pickList[i]) * rowBytes, rowBytes) != 0;
            report.expect(wrong == 0, "gather slots=%d step %d: %d rows differ from the host's", slots, step, wrong);
            wantBytes += static_cast<unsigned long long>(numMisses) * rowBytes;
        }
        report.expect(bytesRead.download()[0] == wantBytes, "gather counts its bytes");
        OCTAVO_REQUIRE(cudaFreeHost(hostRows));
    }
}

} // namespace octavo::gpu
