#include "engine/backend/cuda_sparse.h"

#include "engine/memory/sketch_basis.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace octavo::engine
{

using namespace kernels::cuda;

namespace
{

std::int32_t tilesOf(std::int64_t tokens)
{
    return std::int32_t((tokens + sketchBlockTokens - 1) / sketchBlockTokens * (sketchBlockTokens / sketchTileTokens));
}

} // namespace

Result<CudaSparse> CudaSparse::create(const ModelConfig& config, std::uint64_t modelHash, SparseMode mode,
                                      const SparseSettings& settings, const std::filesystem::path& basisFile,
                                      bool basisNamed, std::int64_t contextLimit)
{
    CudaSparse sparse;
    sparse.m_mode = mode;
    sparse.m_settings = settings;
    sparse.m_layers = config.numFullAttentionLayers();
    sparse.m_heads = config.numHeads;
    sparse.m_kvHeads = config.numKvHeads;
    sparse.m_contextLimit = contextLimit;
    sparse.m_hotBytes = settings.hotBufferBytes;
    sparse.m_settings.sinks = (settings.sinks + sketchTileTokens - 1) / sketchTileTokens * sketchTileTokens;
    static_assert(sketchMaxPicks == hotMaxPicks);
    sparse.m_mostPicks = std::clamp(settings.topKOf(contextLimit), 1, sketchMaxPicks); // no range is longer
    std::error_code ignored;
    if (mode == SparseMode::Off ||
        (!basisNamed && !std::filesystem::exists(basisFile, ignored) && mode == SparseMode::Auto))
        return sparse;
    const auto loaded = SketchBasis::load(basisFile);
    const Result<void> fits =
        loaded ? loaded->checkFits(modelHash, sparse.m_layers, config.numKvHeads, config.headDim) : loaded.error();
    std::string wrong;
    if (!fits)
        wrong = fits.error().message;
    else if (loaded->rank != sketchRank)
        wrong = basisFile.string() + " has rank " + std::to_string(loaded->rank) + ", a GPU reads rank " +
                std::to_string(sketchRank);
    else if (contextLimit > sketchMaxTokens)
        wrong = "contexts of " + std::to_string(contextLimit) + " tokens were asked for, a GPU picks from " +
                std::to_string(sketchMaxTokens) + " at most";
    else if (config.numKvHeads > sketchMaxKvHeads)
        wrong = "the model has " + std::to_string(config.numKvHeads) + " KV heads, a GPU picks for " +
                std::to_string(sketchMaxKvHeads) + " at most";
    if (!wrong.empty()) {
        if (mode == SparseMode::On)
            return Error{ErrorCode::Unsupported,
                         "Sparse decoding is not possible: " + wrong + "; octavo-engine eval fit-basis writes a basis"};
        spdlog::warn("Decoding stays dense: {}", wrong);
        return sparse;
    }

    sparse.m_basisHash = loaded->contentHash();
    const int kvHeads = config.numKvHeads;
    sparse.m_meansAt = std::int64_t(kvHeads) * kvHeadDim * sketchRank;
    sparse.m_basisFloats = sparse.m_meansAt + std::int64_t(kvHeads) * kvHeadDim;
    std::vector<float> values(std::size_t(sparse.m_basisFloats) * std::size_t(sparse.m_layers));
    for (int layer = 0; layer < sparse.m_layers; ++layer) {
        float* to = values.data() + layer * sparse.m_basisFloats;
        for (int head = 0; head < kvHeads; ++head) {
            const float* from = loaded->basis(layer, head);
            for (int c = 0; c < sketchRank; ++c)
                for (int d = 0; d < kvHeadDim; ++d)
                    to[(std::int64_t(head) * kvHeadDim + d) * sketchRank + c] = from[c * kvHeadDim + d];
            std::copy_n(loaded->mean(layer, head), kvHeadDim, to + sparse.m_meansAt + head * kvHeadDim);
        }
    }
    OCTAVO_TRY(sparse.m_basis,
               DeviceMemory::allocate(std::int64_t(values.size() * sizeof(float)), "the sketch's basis"));
    OCTAVO_CHECK(
        checkCuda(cudaMemcpy(sparse.m_basis.at(), values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice),
                  "take the sketch's basis"));

    const std::int64_t tokens = std::int64_t{tilesOf(contextLimit)} * sketchTileTokens;
    MemoryLayout work;
    WorkOffsets& at = sparse.m_offsets;
    const std::int64_t groups = tokens / sketchGroupTokens;
    at.maxima = work.add(groups * config.numHeads * std::int64_t(sizeof(__half)));
    at.logSums = work.add(std::int64_t{sketchChunks(tokens)} * config.numHeads * std::int64_t(sizeof(float2)));
    at.lines = work.add(config.numHeads * std::int64_t(sizeof(float2)));
    at.groupKeys = work.add(groups * 4);
    at.histogram = work.add(sketchMeetingWords * 4);
    at.candidates = work.add(sketchCandidates(sparse.m_mostPicks) * std::int64_t(sizeof(uint2)));
    at.counters = work.add(4 * 4);
    const std::int64_t most = sparse.m_mostPicks;
    at.picks = work.add(most * 4);
    at.numPicks = work.add(4);
    at.rowIds = work.add(most * 4);
    at.numMisses = work.add(4);
    at.lifts = work.add(most * 4);
    at.bytes = work.bytes();
    OCTAVO_TRY(sparse.m_work, DeviceMemory::allocate(at.bytes * maxRows, "the picks of a step"));
    OCTAVO_TRY(sparse.m_misses, DeviceMemory::allocate(2 * maxRows * most * 4, "the misses of a step"));
    OCTAVO_TRY(sparse.m_counters, DeviceMemory::allocate(numCounters * sizeof(unsigned long long), "counters"));
    OCTAVO_CHECK(
        checkCuda(cudaMemset(sparse.m_work.at(), 0, std::size_t(sparse.m_work.bytes())), "clear its work space"));
    OCTAVO_CHECK(
        checkCuda(cudaMemset(sparse.m_counters.at(), 0, std::size_t(sparse.m_counters.bytes())), "clear its counters"));
    sparse.m_freeCounters = std::make_shared<std::vector<int>>();
    for (int counter = numCounters; counter-- > 0;)
        sparse.m_freeCounters->push_back(counter);
    sparse.m_available = true;
    return sparse;
}

bool CudaSparse::wanted(std::int64_t maxTokens) const
{
    return m_available && (m_mode == SparseMode::On || maxTokens >= m_settings.threshold);
}

std::optional<SparseRange> CudaSparse::range(std::int64_t position) const
{
    const std::int64_t length = position + 1;
    if (!m_available || m_mode == SparseMode::Off || (m_mode == SparseMode::Auto && length < m_settings.threshold))
        return std::nullopt;
    const std::int64_t end = length - m_settings.recent;
    if (end <= m_settings.sinks)
        return std::nullopt;
    return SparseRange{m_settings.sinks, std::int32_t(end)};
}

std::int32_t CudaSparse::picks(const SparseRange& range) const
{
    const std::int32_t tokens = range.pickEnd - range.sinks;
    return std::min({m_settings.topKOf(tokens), m_mostPicks, tokens});
}

bool CudaSparse::holds(const CudaHotBuffer& hot, int rows, std::int64_t position) const
{
    const auto last = range(position); // earlier rows pick no more
    const std::int64_t needed = last ? std::int64_t{rows} * picks(*last) : 0;
    return rows == 1 || (m_jointRows && (needed <= hot.slots || hot.slots >= hot.tokens));
}

std::int64_t CudaSparse::sketchBytes(std::int64_t tokens) const
{
    return m_available ? std::int64_t{tilesOf(tokens)} * m_layers * m_kvHeads * (sketchTileBytes + sketchTileTokens * 2)
                       : 0;
}

Result<std::shared_ptr<CudaSketch>> CudaSparse::makeSketch(std::int64_t tokens) const
{
    auto sketch = std::make_shared<CudaSketch>();
    sketch->tiles = tilesOf(tokens);
    OCTAVO_TRY(sketch->memory,
               DeviceMemory::allocate(sketchBytes(tokens), "the sketch of " + std::to_string(tokens) + " tokens"));
    return sketch;
}

SketchView CudaSparse::view(const CudaSketch& sketch, int layer) const
{
    const std::int64_t tiles = std::int64_t{sketch.tiles} * m_kvHeads; // codes of all layers, then scales
    return {sketch.memory.at(layer * tiles * sketchTileBytes),
            sketch.memory.at<__half>(m_layers * tiles * sketchTileBytes + layer * tiles * sketchTileTokens * 2),
            sketch.tiles};
}

Result<void> CudaSparse::copySketch(const CudaSketch& from, const CudaSketch& to, std::int64_t tokens,
                                    cudaStream_t stream) const
{
    const std::size_t tiles = std::size_t(tilesOf(tokens)), heads = std::size_t(m_kvHeads);
    for (int layer = 0; layer < m_layers && tiles > 0; ++layer) {
        const SketchView source = view(from, layer), target = view(to, layer);
        const auto copy = [&](void* t, const void* s, std::size_t tileBytes) {
            return checkCuda(cudaMemcpy2DAsync(t, std::size_t(to.tiles) * tileBytes, s,
                                               std::size_t(from.tiles) * tileBytes, tiles * tileBytes, heads,
                                               cudaMemcpyDeviceToDevice, stream),
                             "copy a sequence's sketch");
        };
        OCTAVO_CHECK(copy(target.codes, source.codes, sketchTileBytes));
        OCTAVO_CHECK(copy(target.scales, source.scales, sketchTileTokens * sizeof(__half)));
    }
    return {};
}

std::string CudaSparse::layoutName() const
{
    return m_available ? "sketches by basis " + std::to_string(m_basisHash) : "no sketches";
}

CudaSparse::SketchExtent CudaSparse::extent(std::int64_t tokens) const
{
    if (!m_available)
        return {};
    return {std::int64_t{m_layers} * m_kvHeads, tilesOf(tokens)};
}

void CudaSparse::SketchExtent::appendUnit(std::vector<std::span<const std::byte>>& parts, const std::byte* ram,
                                          std::int64_t unit) const
{
    constexpr std::int64_t unitTiles = rowPageTokens / sketchTileTokens;
    const std::byte* scales = ram + runs * tiles * sketchTileBytes;
    for (std::int64_t run = 0; run < runs; ++run)
        parts.push_back(
            {ram + (run * tiles + unit * unitTiles) * sketchTileBytes, std::size_t(unitTiles * sketchTileBytes)});
    for (std::int64_t run = 0; run < runs; ++run)
        parts.push_back({scales + (run * tiles + unit * unitTiles) * scaleBytes, std::size_t(unitTiles * scaleBytes)});
}

Result<void> CudaSparse::copyOut(const CudaSketch& sketch, const SketchExtent& extent, std::byte* ram,
                                 cudaStream_t stream) const
{
    const std::int64_t tiles = std::min<std::int64_t>(extent.tiles, sketch.tiles);
    const SketchView from = view(sketch, 0); // its layers follow each other
    const auto copy = [&](std::byte* to, const void* source, std::int64_t tileBytes) {
        return checkCuda(cudaMemcpy2DAsync(to, std::size_t(extent.tiles * tileBytes), source,
                                           std::size_t(sketch.tiles * tileBytes), std::size_t(tiles * tileBytes),
                                           std::size_t(extent.runs), cudaMemcpyDeviceToHost, stream),
                         "copy a sketch to RAM");
    };
    OCTAVO_CHECK(copy(ram, from.codes, sketchTileBytes));
    return copy(ram + extent.runs * extent.tiles * sketchTileBytes, from.scales, SketchExtent::scaleBytes);
}

Result<void> CudaSparse::copyIn(const CudaSketch& sketch, std::int64_t firstToken, std::int64_t tokens,
                                const std::byte* ram, cudaStream_t stream) const
{
    const std::int64_t first = firstToken / sketchTileTokens, given = tokens / sketchTileTokens;
    const std::int64_t tiles = std::min<std::int64_t>(given, sketch.tiles - first),
                       runs = std::int64_t{m_layers} * m_kvHeads;
    if (tiles <= 0)
        return {};
    const SketchView to = view(sketch, 0);
    const auto copy = [&](void* target, const std::byte* from, std::int64_t tileBytes) {
        return checkCuda(cudaMemcpy2DAsync(static_cast<std::byte*>(target) + first * tileBytes,
                                           std::size_t(sketch.tiles * tileBytes), from, std::size_t(given * tileBytes),
                                           std::size_t(tiles * tileBytes), std::size_t(runs), cudaMemcpyHostToDevice,
                                           stream),
                         "take a saved sketch");
    };
    OCTAVO_CHECK(copy(to.codes, ram, sketchTileBytes));
    return copy(to.scales, ram + runs * given * sketchTileBytes, SketchExtent::scaleBytes);
}

std::int32_t CudaSparse::slots(std::int64_t tokens) const
{
    const std::int64_t row = std::int64_t{m_layers} * m_kvHeads * kvHeadBytes;
    return std::int32_t(std::max<std::int64_t>(m_mostPicks, std::min(tokens, m_hotBytes / row)));
}

CudaSparse::HotOffsets CudaSparse::hotOffsets(std::int64_t tokens, std::int32_t slots) const
{
    MemoryLayout layout;
    HotOffsets at;
    at.slotOfToken = layout.add(tokens * 4);
    at.tokenOfSlot = layout.add(std::int64_t{slots} * 4);
    at.marks = layout.add(slots);
    at.hand = layout.add(4);
    at.rows = layout.add(std::int64_t{slots} * m_kvHeads * kvHeadBytes);
    at.bytes = layout.bytes();
    return at;
}

std::int64_t CudaSparse::hotBytes(std::int64_t tokens) const
{
    return wanted(tokens) ? hotOffsets(tokens, slots(tokens)).bytes * m_layers : 0;
}

Result<CudaHotBuffer> CudaSparse::makeHotBuffer(std::int64_t tokens, cudaStream_t stream) const
{
    CudaHotBuffer hot;
    hot.tokens = tokens;
    hot.slots = slots(tokens);
    hot.counter = takeCounter();
    const HotOffsets at = hotOffsets(tokens, hot.slots);
    OCTAVO_TRY(hot.memory,
               DeviceMemory::allocate(at.bytes * m_layers, "a hot buffer of " + std::to_string(hot.slots) + " rows"));
    for (int layer = 0; layer < m_layers; ++layer) {
        std::uint8_t* base = hot.memory.at(layer * at.bytes);
        OCTAVO_CHECK(checkCuda(cudaMemsetAsync(base, 0xff, std::size_t(at.marks), stream), "clear a hot buffer"));
        OCTAVO_CHECK(checkCuda(cudaMemsetAsync(base + at.marks, 0, std::size_t(at.rows - at.marks), stream),
                               "clear a hot buffer"));
    }
    return hot;
}

/// More sequences than counters share the last one.
std::shared_ptr<const int> CudaSparse::takeCounter() const
{
    if (m_freeCounters->size() <= 1)
        return std::make_shared<const int>(numCounters - 1);
    const int counter = m_freeCounters->back();
    m_freeCounters->pop_back();
    return {new int(counter), [free = m_freeCounters](const int* taken) {
                free->push_back(*taken);
                delete taken;
            }};
}

const std::uint8_t* CudaSparse::hotRows(const CudaHotBuffer& hot, int layer) const
{
    const HotOffsets at = hotOffsets(hot.tokens, hot.slots);
    return hot.memory.at(layer * at.bytes + at.rows);
}

CudaSparse::RowTables CudaSparse::rowTables(int row, int layer, const SparseRange& range,
                                            const __nv_bfloat16* projected, const CudaSketch& sketch) const
{
    const std::int64_t base = row * m_offsets.bytes;
    const auto ints = [&](std::int64_t offset) { return m_work.at<std::int32_t>(base + offset); };
    RowTables tables{};
    tables.sketch = {view(sketch, layer),
                     projected,
                     range.sinks,
                     range.pickEnd,
                     picks(range),
                     m_work.at<__half>(base + m_offsets.maxima),
                     m_work.at<float2>(base + m_offsets.logSums),
                     m_work.at<float2>(base + m_offsets.lines),
                     m_work.at<std::uint32_t>(base + m_offsets.groupKeys),
                     m_work.at<std::uint32_t>(base + m_offsets.histogram),
                     m_work.at<uint2>(base + m_offsets.candidates),
                     ints(m_offsets.counters),
                     ints(m_offsets.picks),
                     ints(m_offsets.numPicks),
                     lifts(row)};
    if (tables.sketch.lifts)
        tables.sketch.floorKey = sketchKey(std::log(m_settings.priorityFloor / (range.pickEnd - range.sinks)));
    tables.list = {ints(m_offsets.picks), ints(m_offsets.numPicks), ints(m_offsets.rowIds)};
    return tables;
}

CudaSparse::FetchTables CudaSparse::fetchTables(int row, int rows, int layer, const CudaHotBuffer& hot,
                                                const RowPages& pages, const HotList* lists) const
{
    const HotOffsets at = hotOffsets(hot.tokens, hot.slots);
    const std::int64_t hotBase = layer * at.bytes;
    auto* missTokens = m_misses.at<std::int32_t>() + std::int64_t{row} * m_mostPicks;
    auto* missSlots = missTokens + std::int64_t{maxRows} * m_mostPicks;
    auto* numMisses = m_work.at<std::int32_t>(row * m_offsets.bytes + m_offsets.numMisses);
    FetchTables tables{};
    tables.lookup = {hot.memory.at<std::int32_t>(hotBase + at.slotOfToken),
                     hot.memory.at<std::int32_t>(hotBase + at.tokenOfSlot),
                     hot.memory.at(hotBase + at.marks),
                     hot.memory.at<std::int32_t>(hotBase + at.hand),
                     hot.slots,
                     lists,
                     rows,
                     missTokens,
                     missSlots,
                     numMisses};
    tables.gather = {nullptr,   hot.memory.at(hotBase + at.rows), missTokens, missSlots,
                     numMisses, bytesRead() + *hot.counter,       pages};
    return tables;
}

} // namespace octavo::engine
