#include "engine/evaluation/memory_plan.h"

#include "engine/backend/backend_factory.h"
#include "engine/memory/sparse_settings.h"

#include <algorithm>

namespace octavo::engine
{

namespace
{

constexpr std::int64_t sketchRank = 64, sinkTokens = 64, recentTokens = 1024;
constexpr std::int64_t checkpointsPerAgent = 2;
constexpr std::int64_t sliceTokens = 2048, rowsPerAgent = 8;

// Of CudaBackend.
constexpr std::int64_t gpuPassRows = 64, gpuEntryRows = 32, gpuPageTokens = 512, gpuFreshPages = 8;
constexpr std::int64_t gpuMultiprocessors = 132; // more or fewer matter little
constexpr std::int64_t gpuKeptFree = std::int64_t{1} << 30;

std::int64_t rowScaleBytes(int headDim) // an fp16 scale per 64 values of key and value
{
    return 4 * ((headDim + 63) / 64);
}

std::int64_t int4RowBytes(int headDim)
{
    return headDim + rowScaleBytes(headDim);
}

std::int64_t int8RowBytes(int headDim)
{
    return 2 * std::int64_t(headDim) + rowScaleBytes(headDim);
}

void planCpu(const MemoryPlanRequest& request, std::int64_t contextTokens, MemoryPlan& plan)
{
    const ModelConfig& c = request.config;
    const std::int64_t rowHeads = std::int64_t(c.numFullAttentionLayers() + (request.mtp ? 1 : 0)) * c.numKvHeads;
    const std::int64_t agents = request.agents;
    DevicePlan& device = plan.device;
    device.total = request.ramBytes;
    device.weights = request.weightBytes;
    device.sketch = agents * contextTokens * rowHeads * (sketchRank / 2 + 2);
    device.recent = agents * std::min(contextTokens, sinkTokens + recentTokens) * rowHeads * int8RowBytes(c.headDim);
    // With drafts a sequence has the states behind its drafted rows too, and what a commit of some of them needs.
    const std::int64_t perRow = c.convDim() + std::int64_t(c.linearNumKeyHeads) * c.linearKeyHeadDim +
                                std::int64_t(c.linearNumValueHeads) * (c.linearValueHeadDim + 16);
    const std::int64_t rows = std::int64_t(c.numLayers - c.numFullAttentionLayers()) * rowsPerAgent * perRow *
                              std::int64_t(sizeof(float));
    device.state = agents * (2 * plan.stateBytesPerSequence + rows);
    const std::int64_t widest = std::max<std::int64_t>(2 * c.intermediateSize, c.convDim() + 2 * c.valueDim());
    const std::int64_t activations =
        sliceTokens * (4 * std::int64_t(c.hiddenSize) + widest + 2 * c.numHeads * c.headDim);
    device.workSpace = std::int64_t(sizeof(float)) * (activations + agents * rowsPerAgent * c.vocabSize);
}

/// The steps' work space on a GPU, for contexts of so many tokens.
std::int64_t gpuWorkSpace(const MemoryPlanRequest& request, std::int64_t contextTokens)
{
    const ModelConfig& c = request.config;
    const std::int64_t hidden = c.hiddenSize, heads = c.numHeads, kvHeads = c.numKvHeads, dim = c.headDim;
    const std::int64_t attentionLayers = c.numFullAttentionLayers(), gdnLayers = c.numLayers - attentionLayers;
    const std::int64_t columns = (request.mtp ? 9 : 3) * hidden + 3 * std::int64_t(c.intermediateSize) +
                                 (4 * heads + 3 * kvHeads) * dim + heads * sketchRank + 2 * std::int64_t(c.convDim()) +
                                 2 * c.valueDim() + 2 * c.linearNumValueHeads;
    const std::int64_t logits = gpuPassRows * std::int64_t(c.vocabSize) * 4;
    const std::int64_t splitSums = gpuMultiprocessors * 2 * 2 * 128 * 64 * 4;
    const std::int64_t splits = (contextTokens + gpuPassRows + 1023) / 1024;
    const std::int64_t attentionSums = 16 * kvHeads * splits * 8 * (dim + 2) * 4;
    const std::int64_t pageTables = gpuPassRows * (contextTokens / gpuPageTokens + 1) * 8;
    const std::int64_t layerTables = gpuPassRows * (gdnLayers * 160 + attentionLayers * 400);
    const std::int64_t basis = attentionLayers * kvHeads * dim * (sketchRank + 1) * 4;
    const std::int64_t groups = contextTokens / 8;
    const std::int64_t picks = SparseSettings{}.topKOf(contextTokens), candidates = (picks + 1 + picks / 2) * 8;
    // Keys of groups, sums of chunks, bins; candidates; picks, their rows and lifts, and misses twice.
    const std::int64_t scan = groups * (heads * 2 + 4) + contextTokens / 4096 * heads * 8 + 4'096;
    const std::int64_t perRow = scan + candidates * 8 + picks * 5 * 4;
    return 2 * gpuPassRows * columns + logits + splitSums + attentionSums + pageTables + layerTables + basis +
           gpuPassRows * perRow;
}

/// What CudaPrefill::layOut() takes for slices of so many rows.
std::int64_t gpuReadingBytes(const MemoryPlanRequest& request, std::int64_t contextTokens, std::int64_t rows)
{
    constexpr std::int64_t block = 64, stretchTokens = 32'768, gemmBytes = std::int64_t{32} << 20, tableBytes = 24;
    const ModelConfig& c = request.config;
    const std::int64_t heads = c.numHeads, kvHeads = c.numKvHeads, dim = c.headDim, hidden = c.hiddenSize;
    const std::int64_t valueDim = c.valueDim(), convDim = c.convDim(), inner = c.intermediateSize;
    const std::int64_t wide = std::max({2 * inner, (2 * heads + 2 * kvHeads) * dim, convDim + valueDim});
    const std::int64_t narrow =
        std::max({inner, hidden, 2 * heads * dim, convDim + valueDim + 2 * c.linearNumValueHeads});
    const std::int64_t columns = 3 * hidden + wide + narrow + heads * sketchRank;
    const std::int64_t largestMatrix =
        std::max({2 * inner, convDim + valueDim, (2 * heads + 2 * kvHeads) * dim}) * hidden * 2;
    const std::int64_t stretch = std::min(stretchTokens, (contextTokens + block - 1) / block * block);
    const std::int64_t attention =
        kvHeads * stretch * dim * 4 + (rows * (heads / kvHeads) + 127) / 128 * 128 * kvHeads * (dim + 2) * 4;
    const std::int64_t perChunk = 4 * block * block + 8 * block + 2 * block * c.linearKeyHeadDim +
                                  2 * std::int64_t(c.linearKeyHeadDim) * c.linearKeyHeadDim;
    const std::int64_t delta = (rows + block - 1) / block * c.linearNumValueHeads * perChunk;
    const std::int64_t rowLayers = c.numFullAttentionLayers() + (request.mtp ? 1 : 0);
    return rows * columns * 2 + largestMatrix + std::max(attention, delta) + gemmBytes + rowLayers * rows * tableBytes;
}

/// Slices are halved until they fit in an eighth of what weights and steps leave; below a block none are read that way.
std::int64_t gpuReading(const MemoryPlanRequest& request, std::int64_t contextTokens, std::int64_t leftBytes)
{
    constexpr std::int64_t block = 64, mostRows = 2048, mostBytes = 2'500'000'000;
    const std::int64_t limit = std::min(mostBytes, leftBytes / 8);
    for (std::int64_t rows = mostRows; rows >= block; rows = rows / 2 / block * block) {
        const std::int64_t bytes = gpuReadingBytes(request, contextTokens, rows);
        if (bytes <= limit)
            return bytes;
    }
    return 0;
}

/// The copy by which a GPU drafts (BackendOptions::quantizeDrafts), where it is made.
std::int64_t draftHeadBytes(const MemoryPlanRequest& request)
{
    if (!request.mtp || !request.floatHead)
        return 0;
    const auto whole = [](std::int64_t value) { return (value + 127) / 128 * 128; };
    const std::int64_t outputs = std::min(BackendOptions{}.draftVocabulary, request.config.vocabSize);
    const std::int64_t weights = whole(outputs) * whole(request.config.hiddenSize);
    const std::int64_t bytes = weights / 2 + weights / 128 * 2; // fp16 scales of groups
    return bytes <= std::max(request.deviceBytes, request.deviceTotalBytes) / 100 ? bytes : 0;
}

void planGpu(const MemoryPlanRequest& request, std::int64_t contextTokens, MemoryPlan& plan)
{
    const ModelConfig& c = request.config;
    const std::int64_t attentionLayers = c.numFullAttentionLayers(), agents = request.agents;
    const std::int64_t gdnLayers = c.numLayers - attentionLayers, convDim = c.convDim();
    // A token's newest convolution inputs and the rows of a verify step, in bf16; the newest final rows for MTP.
    const std::int64_t frozen =
        gdnLayers * (4 * std::int64_t(c.valueDim()) * c.linearKeyHeadDim + 2 * (c.linearConvKernel - 1) * convDim);
    const std::int64_t pending = gdnLayers * gpuEntryRows * 4 * (convDim + c.linearNumValueHeads);
    const std::int64_t newest = request.mtp ? 65 * std::int64_t(c.hiddenSize) * 2 : 0;
    plan.stateBytesPerSequence = frozen;

    DevicePlan& device = plan.device;
    device.total = request.deviceBytes;
    device.weights = request.weightBytes + draftHeadBytes(request);
    const std::int64_t sketchTiles = (contextTokens + 63) / 64 * 4;
    device.sketch = agents * sketchTiles * 16 * attentionLayers * c.numKvHeads * (sketchRank / 2 + 2);
    const std::int64_t pages = std::min((contextTokens + gpuPageTokens - 1) / gpuPageTokens, gpuFreshPages);
    device.recent = agents * pages * gpuPageTokens * plan.hostBytesPerToken;
    device.state = agents * (frozen + pending + newest);
    device.checkpoints = agents * checkpointsPerAgent * frozen;
    device.workSpace = gpuWorkSpace(request, contextTokens);
    device.reading = gpuReading(request, contextTokens, device.total - device.weights - device.workSpace);
}

MemoryPlan planFor(const MemoryPlanRequest& request, std::int64_t contextTokens)
{
    const ModelConfig& c = request.config;
    const std::int64_t attentionLayers = c.numFullAttentionLayers() + (request.mtp ? 1 : 0);
    const std::int64_t gdnLayers = c.numLayers - c.numFullAttentionLayers();
    const std::int64_t rowHeads = attentionLayers * c.numKvHeads, agents = request.agents;
    const std::int64_t int4Row = int4RowBytes(c.headDim), int8Row = int8RowBytes(c.headDim);

    MemoryPlan plan;
    plan.hostBytesPerToken = rowHeads * int4Row;
    plan.stateBytesPerSequence =
        gdnLayers * std::int64_t(sizeof(float)) *
        (std::int64_t(c.valueDim()) * c.linearKeyHeadDim + std::int64_t(c.linearConvKernel - 1) * c.convDim());

    DevicePlan& device = plan.device;
    if (request.deviceBytes > 0)
        planGpu(request, contextTokens, plan);
    else
        planCpu(request, contextTokens, plan);

    RamPlan& ram = plan.ram;
    ram.total = request.ramBytes;
    ram.hostTier = agents * contextTokens * plan.hostBytesPerToken;
    ram.checkpoints = request.deviceBytes > 0 ? 0 : agents * checkpointsPerAgent * plan.stateBytesPerSequence;
    ram.device = request.deviceBytes > 0 ? 0 : device.needed();

    const bool gpu = request.deviceBytes > 0;
    const std::int64_t left = gpu ? device.total - device.needed() - gpuKeptFree : ram.total - ram.needed();
    const std::int64_t allRows =
        agents * contextTokens * (gpu ? c.numFullAttentionLayers() * c.numKvHeads * int4Row : rowHeads * int8Row);
    device.hotBuffer = std::clamp<std::int64_t>(left, 0, allRows);
    device.hotShare = allRows > 0 ? double(device.hotBuffer) / double(allRows) : 0.0;
    return plan;
}

} // namespace

MemoryPlan planMemory(const MemoryPlanRequest& request)
{
    MemoryPlan plan = planFor(request, request.contextTokens);
    std::int64_t fitting = 0, tooMany = request.config.maxPositions + 1; // needs grow with the context: bisect
    while (fitting + 1 < tooMany) {
        const std::int64_t middle = fitting + (tooMany - fitting) / 2;
        (planFor(request, middle).fits() ? fitting : tooMany) = middle;
    }
    plan.longestContext = fitting;
    return plan;
}

} // namespace octavo::engine
