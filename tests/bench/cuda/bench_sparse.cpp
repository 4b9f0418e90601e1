#include "tests/bench/cuda/benches.h"

#include "kernels/cuda/attention_decode.h"
#include "kernels/cuda/hot_buffer.h"
#include "kernels/cuda/sketch.h"

#include <sys/mman.h>

#include <chrono>
#include <cmath>
#include <tuple>

namespace octavo::gpu
{

using namespace kernels::cuda;

namespace
{

constexpr int heads = 24, kvHeads = 4;
constexpr int contextTokens = 250000;
constexpr int tiles = (contextTokens + 63) / 64 * 4;

constexpr int picks = 2048, mostPicks = 3072;

/// One agent's sketch of one layer.
struct Agent {
    DeviceArray<std::uint8_t> codes{std::size_t(kvHeads) * tiles * sketchTileBytes};
    DeviceArray<__half> scales{std::size_t(kvHeads) * tiles * 16};
};

/// One query row and its work space.
struct Row {
    DeviceArray<__nv_bfloat16> projected{heads * 64};
    DeviceArray<__half> maxima{std::size_t(heads) * tiles * 2};
    DeviceArray<float2> logSums{std::size_t(sketchChunks(contextTokens)) * heads}, lines{heads};
    DeviceArray<std::uint32_t> groupKeys{std::size_t(tiles) * 2}, histogram{sketchMeetingWords};
    DeviceArray<uint2> candidates{std::size_t(sketchCandidates(mostPicks))};
    DeviceArray<std::int32_t> counters{4}, picked{mostPicks}, numPicks{1};
    DeviceArray<float> lifts{mostPicks};
    explicit Row(Random& random)
        : projected(toBf16(randomBf16(random, heads * 64)))
    {
        histogram.zero(), counters.zero();
    }
    SketchQuery query(const Agent& agent, int r, int k, bool priority) const
    {
        return {{agent.codes.data(), agent.scales.data(), tiles},
                projected.data(),
                64,
                contextTokens - 1024 + r,
                k,
                maxima.data(),
                logSums.data(),
                lines.data(),
                groupKeys.data(),
                histogram.data(),
                candidates.data(),
                counters.data(),
                picked.data(),
                numPicks.data(),
                priority ? lifts.data() : nullptr,
                priority ? sketchKey(std::log(0.1 / contextTokens)) : 0u};
    }
};

} // namespace

void benchSketch(Report& report)
{
    Random random(11);
    std::vector<std::uint8_t> codes(std::size_t(kvHeads) * tiles * sketchTileBytes);
    for (std::size_t i = 0; i + 8 <= codes.size(); i += 8) {
        const std::uint64_t bits = random.bits();
        std::memcpy(&codes[i], &bits, 8);
    }
    const std::vector<__half> scales(std::size_t(kvHeads) * tiles * 16, __float2half(0.03f));
    constexpr int maxAgents = 8, maxRows = 8;
    std::vector<Agent> agents(maxAgents);
    for (Agent& a : agents) {
        a.codes.upload(codes);
        a.scales.upload(scales);
    }
    std::vector<Row> rows;
    for (int i = 0; i < maxAgents * maxRows; ++i)
        rows.emplace_back(random);
    const double sketchBytes = double(contextTokens) * kvHeads * 34;
    for (const auto& [n, each] : {std::pair{1, 1}, {4, 1}, {8, 1}, {1, 8}, {4, 8}, {8, 8}, {8, 4}, {8, 2}}) {
        // The agents take turns, so that no sketch is still in L2 when it is read again.
        const int sets = maxAgents / n, queriesOfSet = n * each;
        std::vector<SketchRows> readings;
        for (int agent = 0; agent < sets * n; ++agent)
            readings.push_back({std::int32_t(agent % n * each), each}); // within its set
        const DeviceArray<SketchRows> readingsDevice(readings);
        DeviceArray<SketchQuery> queriesDevice;
        const std::string name = std::to_string(n) + " agents x " + std::to_string(each) + " rows x 250K";
        for (const auto& [rule, k, priority] :
             {std::tuple{"largest", picks, false}, {"by priority", mostPicks, true}, {"by priority", picks, true}}) {
            std::vector<SketchQuery> queries;
            for (int agent = 0; agent < sets * n; ++agent)
                for (int r = 0; r < each; ++r)
                    queries.push_back(
                        rows[std::size_t(agent % n * each + r)].query(agents[std::size_t(agent)], r, k, priority));
            queriesDevice = DeviceArray<SketchQuery>(queries);
            bandwidthLine(report, "sketch picks " + std::to_string(k) + " " + rule + ", " + name,
                          medianUs(8,
                                   [&](int i, cudaStream_t stream) {
                                       OCTAVO_REQUIRE(launchSketchPick(queriesDevice.data() + i % sets * queriesOfSet,
                                                                       queriesOfSet,
                                                                       readingsDevice.data() + i % sets * n, n, each,
                                                                       heads, kvHeads, contextTokens, stream));
                                   }),
                          n * sketchBytes);
        }
        bandwidthLine(report, "  of it the reading",
                      medianUs(8,
                               [&](int i, cudaStream_t stream) {
                                   OCTAVO_REQUIRE(launchSketchScan(queriesDevice.data() + i % sets * queriesOfSet,
                                                                   readingsDevice.data() + i % sets * n, n, each, heads,
                                                                   kvHeads, contextTokens, stream));
                               }),
                      n * sketchBytes);
        report.line("  picks of row 0: %d", rows[0].numPicks.download()[0]);
    }

    for (const int tokens : {1, 2048}) {
        const DeviceArray<__nv_bfloat16> key(toBf16(randomBf16(random, std::size_t(tokens) * 1024)));
        const DeviceArray<float> basis(std::vector<float>(std::size_t(kvHeads) * 256 * 64, 0.0625f));
        const DeviceArray<float> means(std::vector<float>(std::size_t(kvHeads) * 256, 0.0f));
        const MatrixView<const __nv_bfloat16> view{key.data(), tokens, 1024, 1024};
        const SketchView sketch{agents[0].codes.data(), agents[0].scales.data(), tiles};
        bandwidthLine(report, "sketch append, tokens " + std::to_string(tokens),
                      medianUs(16,
                               [&](int, cudaStream_t stream) {
                                   OCTAVO_REQUIRE(launchSketchAppend(view, kvHeads, basis.data(), means.data(), 0,
                                                                     sketch, stream));
                               }),
                      tokens * (2048.0 + 136));
    }
}

void benchAttentionDecode(Report& report)
{
    Random random(12);
    constexpr int rowBytes = kvHeads * kvHeadBytes;
    std::vector<std::uint8_t> row(std::size_t(contextTokens) * rowBytes);
    for (std::size_t i = 0; i + 8 <= row.size(); i += 8) {
        const std::uint64_t bits = random.bits();
        std::memcpy(&row[i], &bits, 8);
    }
    const __half scale = __float2half(0.05f);
    for (std::size_t i = 0; i < row.size(); i += kvHeadBytes)
        for (int j = 0; j < 8; ++j)
            std::memcpy(&row[i + 256 + 2 * j], &scale, 2);
    std::vector<DeviceArray<std::uint8_t>> pools;
    for (int i = 0; i < 8; ++i)
        pools.emplace_back(row);
    constexpr int maxQueries = 64;
    const DeviceArray<__nv_bfloat16> query(toBf16(randomBf16(random, std::size_t(maxQueries) * heads * 256)));
    const DeviceArray<__nv_bfloat16> gate(toBf16(randomBf16(random, std::size_t(maxQueries) * heads * 512)));
    DeviceArray<__nv_bfloat16> out(query.size());

    for (const int rowsPerSplit : {128, 256, 448}) {
        for (const auto& [agents, rows] : {std::pair{1, 1}, {4, 1}, {8, 1}, {4, 8}}) {
            constexpr int count = 64 + 1024 + 2048, sets = 16;
            std::vector<DeviceArray<std::int32_t>> ids;
            std::vector<AttentionRows> lists;
            for (int set = 0; set < sets; ++set) {
                for (int i = 0; i < agents * rows; ++i) {
                    std::vector<std::int32_t> list(count);
                    for (auto& id : list)
                        id = random.below(contextTokens);
                    ids.emplace_back(list);
                    AttentionRows picked;
                    picked.rows = pools[std::size_t(i / rows)].data();
                    picked.rowIds = ids.back().data();
                    picked.count = count;
                    lists.push_back(picked);
                }
            }
            const DeviceArray<AttentionRows> listsDevice(lists);
            const AttentionShape shape{agents * rows, heads, kvHeads, rowsPerSplit,
                                       (count + rowsPerSplit - 1) / rowsPerSplit};
            DeviceArray<float> workspace(attentionWorkspaceFloats(shape));
            const double us = medianUs(sets, [&](int i, cudaStream_t stream) {
                OCTAVO_REQUIRE(launchAttentionDecode(listsDevice.data() + i * agents * rows, shape, query.data(),
                                                     gate.data() + 256, heads * 512, 512, workspace.data(), out.data(),
                                                     stream));
            });
            bandwidthLine(report,
                          "sparse attention 3136 rows, " + std::to_string(agents) + " agents x " +
                              std::to_string(rows) + ", split " + std::to_string(rowsPerSplit),
                          us, double(agents) * rows * count * rowBytes);
        }
    }
    for (const int agents : {1, 4, 8}) {
        std::vector<AttentionRows> lists;
        for (int i = 0; i < agents; ++i)
            lists.emplace_back().rows = pools[std::size_t(i)].data(), lists.back().count = contextTokens;
        const DeviceArray<AttentionRows> listsDevice(lists);
        const AttentionShape shape{agents, heads, kvHeads, 2048, (contextTokens + 2047) / 2048};
        DeviceArray<float> workspace(attentionWorkspaceFloats(shape));
        const double us = medianUs(2, [&](int, cudaStream_t stream) {
            OCTAVO_REQUIRE(launchAttentionDecode(listsDevice.data(), shape, query.data(), gate.data() + 256,
                                                 heads * 512, 512, workspace.data(), out.data(), stream));
        });
        bandwidthLine(report, "dense attention int4, " + std::to_string(agents) + " agents x 250K", us,
                      double(agents) * contextTokens * rowBytes);
    }
    const DeviceArray<__nv_bfloat16> keys(toBf16(randomBf16(random, std::size_t(2048) * 1024)));
    for (const int tokens : {1, 2048}) {
        const MatrixView<const __nv_bfloat16> view{keys.data(), tokens, 1024, 1024};
        bandwidthLine(report, "quantise rows int4, tokens " + std::to_string(tokens),
                      medianUs(16,
                               [&](int, cudaStream_t stream) {
                                   OCTAVO_REQUIRE(
                                       launchQuantizeRows(view, view, kvHeads, nullptr, pools[0].data(), stream));
                               }),
                      tokens * (4096.0 + rowBytes));
    }
}

void benchGather(Report& report)
{
    Random random(13);
    constexpr std::size_t bytes = std::size_t(8) << 30;
    constexpr int rowBytes = kvHeads * kvHeadBytes;
    constexpr int hostTokens = int(bytes / rowBytes);
    enum class Pages { Plain, Huge };
    for (const Pages pages : {Pages::Plain, Pages::Huge}) {
        const auto started = std::chrono::steady_clock::now();
        void* mapped =
            mmap(nullptr, bytes + (std::size_t(2) << 20), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mapped == MAP_FAILED)
            return report.line("gather: no memory");
        auto address = (reinterpret_cast<std::uintptr_t>(mapped) + (std::uintptr_t(2) << 20) - 1) &
                       ~((std::uintptr_t(2) << 20) - 1);
        auto* host = reinterpret_cast<std::uint8_t*>(address);
        const int advised = madvise(host, bytes, pages == Pages::Huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
        for (std::size_t i = 0; i < bytes; i += 4096)
            host[i] = std::uint8_t(i >> 12);
        OCTAVO_REQUIRE(cudaHostRegister(host, bytes, cudaHostRegisterMapped));
        report.line("8 GiB of %s pages (madvise %d): touched and registered in %.1f s",
                    pages == Pages::Huge ? "2 MiB" : "4 KiB", advised,
                    std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count());
        for (const int rows : {310, 2000, 2458, 20000}) {
            const int sets = rows > 5000 ? 4 : 12;
            DeviceArray<std::uint8_t> hot(std::size_t(rows) * rowBytes);
            DeviceArray<unsigned long long> bytesRead(std::vector<unsigned long long>{0});
            const DeviceArray<std::int32_t> count(std::vector<std::int32_t>{rows});
            std::vector<std::int32_t> slots(rows);
            for (int i = 0; i < rows; ++i)
                slots[i] = i;
            const DeviceArray<std::int32_t> slotsDevice(slots);
            std::vector<DeviceArray<std::int32_t>> tokens;
            std::vector<GatherMisses> gathers;
            for (int set = 0; set < sets; ++set) {
                std::vector<std::int32_t> list(rows);
                for (auto& token : list)
                    token = random.below(hostTokens);
                tokens.emplace_back(list);
                gathers.push_back(
                    {host, hot.data(), tokens.back().data(), slotsDevice.data(), count.data(), bytesRead.data()});
            }
            const DeviceArray<GatherMisses> gathersDevice(gathers);
            for (const int blocks : {132, 264, 528}) {
                const double us = medianUs(
                    sets,
                    [&](int i, cudaStream_t stream) {
                        OCTAVO_REQUIRE(launchGatherMisses(gathersDevice.data() + i, 1, rowBytes, blocks, stream));
                    },
                    7);
                report.line("  gather %6d rows of %d B, %3d blocks %9.1f us %6.1f GB/s", rows, rowBytes, blocks, us,
                            double(rows) * rowBytes / us / 1e3);
            }
        }
        OCTAVO_REQUIRE(cudaHostUnregister(host));
        munmap(mapped, bytes + (std::size_t(2) << 20));
    }
}

} // namespace octavo::gpu
