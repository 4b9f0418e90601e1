#include "engine/evaluation/memory_plan.h"

#include <algorithm>

namespace octavo::engine
{

namespace
{

constexpr std::int64_t sketchRank = 64, sinkTokens = 64, recentTokens = 1024;
constexpr std::int64_t checkpointsPerAgent = 2;
constexpr std::int64_t sliceTokens = 2048, rowsPerAgent = 8;

std::int64_t rowScaleBytes(int headDim) // an fp16 scale per 64 values of key and value
{
    return 4 * ((headDim + 63) / 64);
}

MemoryPlan planFor(const MemoryPlanRequest& request, std::int64_t contextTokens)
{
    const ModelConfig& c = request.config;
    const std::int64_t attentionLayers = c.numFullAttentionLayers() + (request.mtp ? 1 : 0);
    const std::int64_t gdnLayers = c.numLayers - c.numFullAttentionLayers();
    const std::int64_t rowHeads = attentionLayers * c.numKvHeads, agents = request.agents;
    const std::int64_t int4Row = c.headDim + rowScaleBytes(c.headDim);
    const std::int64_t int8Row = 2 * c.headDim + rowScaleBytes(c.headDim);

    MemoryPlan plan;
    plan.hostBytesPerToken = rowHeads * int4Row;
    plan.stateBytesPerSequence =
        gdnLayers * std::int64_t(sizeof(float)) *
        (std::int64_t(c.valueDim()) * c.linearKeyHeadDim + std::int64_t(c.linearConvKernel - 1) * c.convDim());

    DevicePlan& device = plan.device;
    device.total = request.deviceBytes > 0 ? request.deviceBytes : request.ramBytes;
    device.weights = request.weightBytes;
    device.sketch = agents * contextTokens * rowHeads * (sketchRank / 2 + 2);
    device.recent = agents * std::min(contextTokens, sinkTokens + recentTokens) * rowHeads * int8Row;
    device.state = agents * plan.stateBytesPerSequence;
    const std::int64_t widest = std::max<std::int64_t>(2 * c.intermediateSize, c.convDim() + 2 * c.valueDim());
    const std::int64_t activations =
        sliceTokens * (4 * std::int64_t(c.hiddenSize) + widest + 2 * c.numHeads * c.headDim);
    device.workSpace = std::int64_t(sizeof(float)) * (activations + agents * rowsPerAgent * c.vocabSize);

    RamPlan& ram = plan.ram;
    ram.total = request.ramBytes;
    ram.hostTier = agents * contextTokens * plan.hostBytesPerToken;
    ram.checkpoints = agents * checkpointsPerAgent * plan.stateBytesPerSequence;
    ram.device = request.deviceBytes > 0 ? 0 : device.needed();

    const std::int64_t left = request.deviceBytes > 0 ? device.total - device.needed() : ram.total - ram.needed();
    const std::int64_t allRows = agents * contextTokens * rowHeads * int8Row;
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
