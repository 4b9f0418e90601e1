#include "tests/gpu/checks.h"

#include "kernels/cuda/attention_decode.h"
#include "kernels/cuda/kv_rows.h"

namespace octavo::gpu
{

using namespace kernels::cuda;

void checkKvRows(Report& report)
{
    Random random(5);
    for (const int kvHeads : {1, 2, 4}) {
        for (const int tokens : {0, 1, 33}) {
            std::vector<float> keys = randomBf16(random, std::size_t(tokens) * kvHeads * 256);
            std::vector<float> values = randomBf16(random, keys.size(), 0.01);
            if (tokens > 1) // a group of zeros, and one of equal magnitudes
                for (int i = 0; i < 64; ++i)
                    keys[i] = 0.0f, values[i] = i % 3 ? 1.0f : -1.0f;
            std::vector<std::int64_t> ids(tokens);
            for (int t = 0; t < tokens; ++t)
                ids[t] = (t * 7 + 3) % 41;
            const DeviceArray<__nv_bfloat16> keysDevice(toBf16(keys)), valuesDevice(toBf16(values));
            const DeviceArray<std::int64_t> idsDevice(ids);
            DeviceArray<std::uint8_t> out(std::size_t(41) * kvHeads * kvHeadBytes);
            const MatrixView<const __nv_bfloat16> k{keysDevice.data(), tokens, kvHeads * 256, kvHeads * 256};
            const MatrixView<const __nv_bfloat16> v{valuesDevice.data(), tokens, kvHeads * 256, kvHeads * 256};
            OCTAVO_REQUIRE(launchQuantizeRows(k, v, kvHeads, idsDevice.data(), out.data(), nullptr));
            const std::vector<std::uint8_t> got = out.download();
            int differing = 0;
            for (int t = 0; t < tokens; ++t) {
                for (int h = 0; h < kvHeads; ++h) {
                    std::uint8_t want[kvHeadBytes];
                    const std::size_t at = (std::size_t(t) * kvHeads + h) * 256;
                    referenceQuantizeRow(&keys[at], &values[at], want);
                    differing +=
                        std::memcmp(want, &got[(std::size_t(ids[t]) * kvHeads + h) * kvHeadBytes], kvHeadBytes) != 0;
                }
            }
            // Two scales whose errors agree to fp32's last bits may be chosen either way.
            report.expect(differing <= tokens * kvHeads / 50, "kv rows heads=%d tokens=%d: %d rows differ", kvHeads,
                          tokens, differing);
            report.expect(got[0] == 0xff || tokens == 0 || ids[0] == 0 || tokens == 33, "kv rows: row 0 was written");
        }
    }
}

namespace
{

/// Splits that meet in their launch against a second kernel: the same bits, from none to as many as meet so.
void checkMeetings(Report& report)
{
    Random random(36);
    constexpr int poolRows = 5000;
    const bool large = isLargeSm90(); // where clusters are sure to be used
    for (const auto& [heads, kvHeads] : {std::pair{24, 4}, {8, 1}, {3, 3}, {4, 2}}) {
        const std::size_t rowBytes = std::size_t(kvHeads) * kvHeadBytes;
        std::vector<std::uint8_t> pool(poolRows * rowBytes);
        for (auto& byte : pool)
            byte = std::uint8_t(random.bits());
        for (std::size_t i = 0; i < pool.size(); i += kvHeadBytes) {
            for (int scale = 0; scale < 8; ++scale) {
                const __half value = __float2half(float(random.uniform(-0.05, 0.05)));
                std::memcpy(&pool[i + 256 + 2 * std::size_t(scale)], &value, 2);
            }
        }
        const DeviceArray<std::uint8_t> poolDevice(pool);
        constexpr int most = 8192, shift = 1;
        std::vector<std::int32_t> ids(most);
        std::vector<float> lifts(most);
        for (int i = 0; i < most; ++i) {
            ids[std::size_t(i)] = random.below(poolRows);
            lifts[std::size_t(i)] = i % 3 ? float(random.uniform(0.0, 7.0)) : 0.0f;
        }
        const DeviceArray<std::int32_t> idsDevice(ids);
        const DeviceArray<float> liftsDevice(lifts);
        const std::size_t width = std::size_t(heads) * 256;
        const DeviceArray<__nv_bfloat16> query(toBf16(randomBf16(random, (1 + shift) * width)));
        const DeviceArray<__nv_bfloat16> gate(toBf16(randomBf16(random, 2 * (1 + shift) * width)));
        const auto rowsOf = [&](int count) {
            AttentionRows rows;
            rows.rows = poolDevice.data();
            rows.rowIds = idsDevice.data();
            rows.count = count;
            rows.lifts = liftsDevice.data();
            return rows;
        };
        for (const auto& [count, rowsPerSplit] : {std::pair{0, 256},
                                                  {1, 256},
                                                  {255, 64},
                                                  {257, 256},
                                                  {3136, 256},
                                                  {4097, 256},
                                                  {4672, 256},
                                                  {8192, 256},
                                                  {8192, 512}}) {
            AttentionRows rows = rowsOf(count);
            rows.shift = shift;
            const DeviceArray<AttentionRows> rowsDevice(std::vector<AttentionRows>{rows});
            const AttentionShape shape{1, heads, kvHeads, rowsPerSplit,
                                       std::max(1, (count + rowsPerSplit - 1) / rowsPerSplit)};
            DeviceArray<float> workspace(attentionWorkspaceFloats(shape));
            DeviceArray<__nv_bfloat16> out((1 + shift) * width);
            const auto attend = [&](AttentionWay way) {
                out.poison();
                workspace.poison();
                OCTAVO_REQUIRE(launchAttentionDecode(rowsDevice.data(), shape, query.data(), gate.data() + 256,
                                                     2 * std::int64_t(width), 512, workspace.data(), out.data(),
                                                     nullptr, way));
                const std::vector<__nv_bfloat16> got = out.download();
                return std::vector<__nv_bfloat16>(got.begin() + std::ptrdiff_t(shift * width), got.end());
            };
            report.expect(!large || attentionMeets(shape), "attention heads=%d/%d: %d rows by splits of %d do not meet",
                          heads, kvHeads, count, rowsPerSplit);
            const std::vector<__nv_bfloat16> want = attend(AttentionWay::Kernels), got = attend(AttentionWay::Best);
            report.expect(std::memcmp(got.data(), want.data(), width * sizeof(__nv_bfloat16)) == 0,
                          "attention heads=%d/%d: %d rows by splits of %d depend on how splits meet", heads, kvHeads,
                          count, rowsPerSplit);
        }
        // Queries of no, of few and of many rows in one launch, one with splits of its own size.
        std::vector<AttentionRows> several;
        for (const auto& [count, own] : {std::pair{0, 0}, {300, 64}, {4096, 0}}) {
            AttentionRows rows = rowsOf(count);
            rows.rowsPerSplit = own;
            several.push_back(rows);
        }
        const int queries = int(several.size());
        const DeviceArray<AttentionRows> severalDevice(several);
        const DeviceArray<__nv_bfloat16> severalQueries(toBf16(randomBf16(random, std::size_t(queries) * width)));
        const DeviceArray<__nv_bfloat16> severalGates(toBf16(randomBf16(random, 2 * std::size_t(queries) * width)));
        const AttentionShape shape{queries, heads, kvHeads, 256, 16};
        const auto attendAll = [&](AttentionWay way) {
            DeviceArray<float> workspace(attentionWorkspaceFloats(shape));
            DeviceArray<__nv_bfloat16> out(std::size_t(queries) * width);
            OCTAVO_REQUIRE(launchAttentionDecode(severalDevice.data(), shape, severalQueries.data(),
                                                 severalGates.data() + 256, 2 * std::int64_t(width), 512,
                                                 workspace.data(), out.data(), nullptr, way));
            return out.download();
        };
        const std::vector<__nv_bfloat16> want = attendAll(AttentionWay::Kernels), got = attendAll(AttentionWay::Best);
        report.expect(std::memcmp(got.data(), want.data(), want.size() * sizeof(__nv_bfloat16)) == 0,
                      "attention heads=%d/%d: three queries depend on how their splits meet", heads, kvHeads);
    }
}

} // namespace

void checkAttentionDecode(Report& report)
{
    checkMeetings(report);
    Random random(6);
    struct Case {
        int heads, kvHeads, rowsPerSplit;
    };
    for (const auto& [heads, kvHeads, rowsPerSplit] : {Case{4, 2, 64}, {24, 4, 128}, {8, 1, 1024}, {3, 3, 64}}) {
        constexpr int poolRows = 700;
        std::vector<std::uint8_t> pool(std::size_t(poolRows) * kvHeads * kvHeadBytes);
        std::vector<float> keys(std::size_t(kvHeads) * poolRows * 256), values(keys.size());
        for (int r = 0; r < poolRows; ++r) {
            for (int h = 0; h < kvHeads; ++h) {
                const std::vector<float> k = randomBf16(random, 256), v = randomBf16(random, 256);
                std::uint8_t* row = &pool[(std::size_t(r) * kvHeads + h) * kvHeadBytes];
                referenceQuantizeRow(k.data(), v.data(), row);
                const std::size_t at = (std::size_t(h) * poolRows + r) * 256;
                referenceDequantizeRow(row, &keys[at], &values[at]);
            }
        }
        const DeviceArray<std::uint8_t> poolDevice(pool);
        const std::vector<int> counts = {1, 15, 16, 17, 63, 64, 65, 699, 0};
        const int queries = int(counts.size());
        std::vector<AttentionRows> rows;
        std::vector<std::vector<std::int32_t>> ids(queries);
        std::vector<DeviceArray<std::int32_t>> idsDevice;
        for (int i = 0; i < queries; ++i) {
            for (int j = 0; j < counts[i]; ++j)
                ids[i].push_back(i % 2 ? j : random.below(poolRows));
            idsDevice.emplace_back(ids[i]);
            rows.push_back({poolDevice.data(), i % 2 ? nullptr : idsDevice.back().data(), counts[i]});
        }
        const AttentionShape shape{queries, heads, kvHeads, rowsPerSplit, (poolRows + rowsPerSplit - 1) / rowsPerSplit};
        const std::vector<float> query = randomBf16(random, std::size_t(queries) * heads * 256);
        const std::vector<float> gate = randomBf16(random, std::size_t(queries) * heads * 512);
        const DeviceArray<__nv_bfloat16> queryDevice(toBf16(query)), gateDevice(toBf16(gate));
        const DeviceArray<AttentionRows> rowsDevice(rows);
        DeviceArray<float> workspace(attentionWorkspaceFloats(shape));
        DeviceArray<__nv_bfloat16> out(query.size());
        OCTAVO_REQUIRE(launchAttentionDecode(rowsDevice.data(), shape, queryDevice.data(), gateDevice.data() + 256,
                                             heads * 512, 512, workspace.data(), out.data(), nullptr));
        std::vector<double> want(query.size());
        for (int i = 0; i < queries; ++i) {
            for (int h = 0; h < heads; ++h) {
                const int kvHead = h / (heads / kvHeads);
                std::vector<float> k, v;
                for (const int id : ids[i]) {
                    const std::size_t at = (std::size_t(kvHead) * poolRows + id) * 256;
                    k.insert(k.end(), keys.begin() + std::ptrdiff_t(at), keys.begin() + std::ptrdiff_t(at) + 256);
                    v.insert(v.end(), values.begin() + std::ptrdiff_t(at), values.begin() + std::ptrdiff_t(at) + 256);
                }
                const std::size_t at = std::size_t(i) * heads + h;
                referenceAttentionHead(&query[at * 256], &gate[at * 512 + 256], k.data(), v.data(), 256, counts[i],
                                       &want[at * 256]);
            }
        }
        // Weights rounded to bf16 and one rounding at the store.
        compare(report, "attention decode heads=" + std::to_string(heads), toFloat(out.download()), want, 6e-3);

        // The same rows as first tokens, last tokens and picks: pages that lie anywhere, one of them on the host.
        const std::size_t rowBytes = std::size_t(kvHeads) * kvHeadBytes;
        constexpr int layerOffset = 4096, lastPage = poolRows - rowPageTokens;
        const std::size_t pageBytes = layerOffset + rowPageTokens * rowBytes;
        std::uint8_t* hostPage = nullptr;
        OCTAVO_REQUIRE(cudaHostAlloc(reinterpret_cast<void**>(&hostPage), pageBytes, cudaHostAllocMapped));
        std::memcpy(hostPage + layerOffset, pool.data(), rowPageTokens * rowBytes);
        std::vector<std::uint8_t> second(pageBytes, 0xff);
        std::memcpy(&second[layerOffset], &pool[rowPageTokens * rowBytes], lastPage * rowBytes);
        const DeviceArray<std::uint8_t> secondDevice(second);
        const DeviceArray<std::uint8_t*> table(std::vector<std::uint8_t*>{hostPage, secondDevice.data()});
        std::vector<std::vector<std::int32_t>> attended;
        std::vector<AttentionRows> paged;
        for (int i = 0; i < queries; ++i) {
            const int sinks = i * 7, begin = 400 + 20 * i, recent = i % 3 == 2 ? 0 : 90 + i;
            std::vector<std::int32_t> all;
            for (int token = 0; token < sinks; ++token)
                all.push_back(token);
            for (int token = begin; token < begin + recent; ++token)
                all.push_back(token);
            const std::vector<std::int32_t> picked = i % 2 ? std::vector<std::int32_t>{} : ids[i];
            all.insert(all.end(), picked.begin(), picked.end());
            attended.push_back(all);
            paged.push_back({poolDevice.data(),
                             idsDevice[std::size_t(i)].data(),
                             std::int32_t(picked.size()),
                             sinks,
                             begin,
                             recent,
                             {table.data(), layerOffset}});
        }
        const DeviceArray<AttentionRows> pagedDevice(paged);
        const AttentionShape pagedShape{queries, heads, kvHeads, rowsPerSplit,
                                        (1000 + rowsPerSplit - 1) / rowsPerSplit};
        DeviceArray<float> pagedWorkspace(attentionWorkspaceFloats(pagedShape));
        OCTAVO_REQUIRE(launchAttentionDecode(pagedDevice.data(), pagedShape, queryDevice.data(),
                                             gateDevice.data() + 256, heads * 512, 512, pagedWorkspace.data(),
                                             out.data(), nullptr));
        for (int i = 0; i < queries; ++i) {
            for (int h = 0; h < heads; ++h) {
                std::vector<float> k, v;
                for (const int id : attended[std::size_t(i)]) {
                    const std::size_t at = (std::size_t(h / (heads / kvHeads)) * poolRows + id) * 256;
                    k.insert(k.end(), keys.begin() + std::ptrdiff_t(at), keys.begin() + std::ptrdiff_t(at) + 256);
                    v.insert(v.end(), values.begin() + std::ptrdiff_t(at), values.begin() + std::ptrdiff_t(at) + 256);
                }
                const std::size_t at = std::size_t(i) * heads + h;
                referenceAttentionHead(&query[at * 256], &gate[at * 512 + 256], k.data(), v.data(), 256,
                                       int(attended[std::size_t(i)].size()), &want[at * 256]);
            }
        }
        compare(report, "attention over pages and picks heads=" + std::to_string(heads), toFloat(out.download()), want,
                6e-3);

        // The picks with lifts, from none to what one of a thousand stands for; lifts of zero change no bit.
        std::vector<std::vector<float>> lifts(static_cast<std::size_t>(queries));
        std::vector<DeviceArray<float>> liftsDevice, zeros;
        std::vector<AttentionRows> lifted = paged, unlifted = paged;
        for (int i = 0; i < queries; ++i) {
            const std::size_t picked = i % 2 ? 0 : ids[std::size_t(i)].size();
            for (std::size_t j = 0; j < picked; ++j)
                lifts[std::size_t(i)].push_back(j % 3 == 0 ? 0.0f : float(random.uniform(0.0, 7.0)));
            liftsDevice.emplace_back(lifts[std::size_t(i)]);
            zeros.emplace_back(std::vector<float>(picked));
            lifted[std::size_t(i)].lifts = liftsDevice.back().data();
            unlifted[std::size_t(i)].lifts = zeros.back().data();
        }
        const auto attend = [&](const std::vector<AttentionRows>& entries) {
            const DeviceArray<AttentionRows> entriesDevice(entries);
            OCTAVO_REQUIRE(launchAttentionDecode(entriesDevice.data(), pagedShape, queryDevice.data(),
                                                 gateDevice.data() + 256, heads * 512, 512, pagedWorkspace.data(),
                                                 out.data(), nullptr));
            return toFloat(out.download());
        };
        report.expect(attend(unlifted) == attend(paged), "attention heads=%d: lifts of zero change its bits", heads);
        for (int i = 0; i < queries; ++i) {
            for (int h = 0; h < heads; ++h) {
                std::vector<float> k, v, added(attended[std::size_t(i)].size() - lifts[std::size_t(i)].size());
                for (const int id : attended[std::size_t(i)]) {
                    const std::size_t at = (std::size_t(h / (heads / kvHeads)) * poolRows + id) * 256;
                    k.insert(k.end(), keys.begin() + std::ptrdiff_t(at), keys.begin() + std::ptrdiff_t(at) + 256);
                    v.insert(v.end(), values.begin() + std::ptrdiff_t(at), values.begin() + std::ptrdiff_t(at) + 256);
                }
                added.insert(added.end(), lifts[std::size_t(i)].begin(), lifts[std::size_t(i)].end());
                const std::size_t at = std::size_t(i) * heads + h;
                referenceAttentionHead(&query[at * 256], &gate[at * 512 + 256], k.data(), v.data(), 256,
                                       int(added.size()), &want[at * 256], added.data());
            }
        }
        compare(report, "attention over lifted picks heads=" + std::to_string(heads), attend(lifted), want, 6e-3);
        OCTAVO_REQUIRE(cudaFreeHost(hostPage));
    }
}

} // namespace octavo::gpu
