#include "tests/gpu/checks.h"

#include "kernels/cuda/attention_input.h"
#include "kernels/cuda/hot_buffer.h"
#include "kernels/cuda/sketch.h"

#include <numeric>

namespace octavo::gpu
{

using namespace kernels::cuda;

/// One launch for a step's rows against the launches that do it one after the other.
void checkAttentionInput(Report& report)
{
    Random random(33);
    // So few rows that every block has a multiprocessor, then so many that they share them.
    for (const auto& [heads, kvHeads, rows] :
         {std::tuple{24, 4, 8}, {4, 2, 3}, {8, 1, 64}, {3, 3, 1}, {24, 4, 64}, {8, 1, 200}}) {
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
    for (const auto& [tokens, slots, picks, lists] : {std::tuple{50, 8, 8, 1},
                                                      {1000, 100, 60, 1},
                                                      {20000, 5000, 2048, 1},
                                                      {9000, 2048, 2048, 1},
                                                      {300, 40, 10, 4},
                                                      {3000, 1400, 20, 70},
                                                      {60000, 16384, 2048, 8},
                                                      {30000, 9000, 1500, 5}}) {
        const std::size_t all = std::size_t(lists) * picks;
        std::vector<std::int32_t> slotOfToken(tokens, -1), tokenOfSlot(slots, -1), picked(all), rowIds(all);
        std::vector<std::int32_t> missTokens(all), missSlots(all), numPicks(lists);
        std::vector<std::uint8_t> marks(slots, 0);
        std::int32_t hand = 0, numMisses = 0;
        DeviceArray<std::int32_t> slotOfTokenDevice(slotOfToken), tokenOfSlotDevice(tokenOfSlot), pickedDevice(all);
        DeviceArray<std::int32_t> rowIdsDevice(all), missTokensDevice(all), missSlotsDevice(all);
        DeviceArray<std::uint8_t> marksDevice(marks);
        DeviceArray<std::int32_t> handDevice(std::vector<std::int32_t>{0}), numPicksDevice(numPicks),
            numMissesDevice(1);
        std::vector<HotList> hostLists, deviceLists;
        for (int list = 0; list < lists; ++list) {
            const int at = list * picks;
            hostLists.push_back({picked.data() + at, numPicks.data() + list, rowIds.data() + at});
            deviceLists.push_back({pickedDevice.data() + at, numPicksDevice.data() + list, rowIdsDevice.data() + at});
        }
        const DeviceArray<HotList> listsDevice(deviceLists);
        const HotLookup host{
            slotOfToken.data(), tokenOfSlot.data(), marks.data(), &hand, slots, hostLists.data(), lists,
            missTokens.data(),  missSlots.data(),   &numMisses};
        const HotLookup device{slotOfTokenDevice.data(),
                               tokenOfSlotDevice.data(),
                               marksDevice.data(),
                               handDevice.data(),
                               slots,
                               listsDevice.data(),
                               lists,
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
            std::vector<std::int32_t> order(tokens);
            std::iota(order.begin(), order.end(), 0);
            for (int list = 0; list < lists; ++list) {
                const int count = numPicks[std::size_t(list)] = (step + list) % 4 == 3 ? picks / 2 : picks;
                for (int i = 0; i < count; ++i) // half near the start, so that some stay and lists share some
                    std::swap(order[i], order[i + random.below(i % 2 ? std::min(tokens - i, picks * 2) : tokens - i)]);
                const auto at = picked.begin() + list * picks;
                std::copy_n(order.begin(), count, at);
                std::sort(at, at + count);
            }
            pickedDevice.upload(picked);
            numPicksDevice.upload(numPicks);
            referenceHotLookup(host);
            OCTAVO_REQUIRE(launchHotLookup(lookups.data(), 1, lists + step % 2, nullptr));
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
            const std::vector<std::int32_t> gotRows = rowIdsDevice.download();
            const std::vector<std::uint8_t> gotBytes = rows.download();
            int others = 0, wrong = 0;
            for (int list = 0; list < lists; ++list) {
                for (int i = list * picks; i < list * picks + numPicks[std::size_t(list)]; ++i) {
                    others += gotRows[i] != rowIds[i];
                    wrong += std::memcmp(&gotBytes[std::size_t(rowIds[i]) * rowBytes],
                                         hostRows + std::size_t(picked[i]) * rowBytes, rowBytes) != 0;
                }
            }
            report.expect(others == 0, "hot buffer slots=%d lists=%d step %d: %d rows elsewhere", slots, lists, step,
                          others);
            report.expect(wrong == 0, "gather slots=%d step %d: %d rows differ from the host's", slots, step, wrong);
            wantBytes += static_cast<unsigned long long>(numMisses) * rowBytes;
        }
        report.expect(bytesRead.download()[0] == wantBytes, "gather counts its bytes");
        OCTAVO_REQUIRE(cudaFreeHost(hostRows));
    }
}

} // namespace octavo::gpu
