#include "engine/evaluation/fit_basis.h"

#include "engine/backend/reference_model.h"
#include "engine/scheduler/memory_budget.h"

#include <algorithm>
#include <new>
#include <numeric>

namespace octavo::engine
{

namespace
{

constexpr std::size_t sliceTokens = 256;

Result<void> readKeys(const ModelConfig& config, const reference::Model& model, std::span<const TokenId> ids,
                      KeyStatistics& statistics, const EvaluationHooks& hooks)
{
    reference::SequenceState state = model.emptyState(std::int64_t(ids.size()));
    const std::size_t dim = std::size_t(config.headDim), heads = std::size_t(config.numKvHeads);
    for (std::size_t begin = 0; begin < ids.size(); begin += sliceTokens) {
        if (hooks.cancelled())
            return Error{ErrorCode::Cancelled, "Fitting the basis was cancelled"};
        const std::size_t rows = std::min(sliceTokens, ids.size() - begin);
        model.forward(state, ids.subspan(begin, rows));
        int attentionLayer = 0;
        for (std::size_t n = 0; n < state.layers.size(); ++n) {
            if (config.layerTypes[n] != LayerType::FullAttention)
                continue;
            for (std::size_t row = begin * heads; row < (begin + rows) * heads; ++row)
                statistics.add(attentionLayer, int(row % heads), &state.layers[n].keys[row * dim]);
            ++attentionLayer;
        }
        hooks.report(std::int64_t(begin + rows), std::int64_t(ids.size()));
    }
    return {};
}

} // namespace

double FittedBasis::meanExplained() const
{
    return explained.empty() ? 0.0
                             : std::accumulate(explained.begin(), explained.end(), 0.0) / double(explained.size());
}

double FittedBasis::leastExplained() const
{
    return explained.empty() ? 0.0 : *std::min_element(explained.begin(), explained.end());
}

Result<FittedBasis> fitBasis(const ModelConfig& config, std::shared_ptr<const ModelWeights> weights,
                             std::span<const TokenId> ids, int rank, const EvaluationHooks& hooks)
{
    for (TokenId id : ids) {
        if (id < 0 || id >= config.vocabSize)
            return Error{ErrorCode::InvalidArgument, "Token id " + std::to_string(id) +
                                                         " is not below the vocabulary's " +
                                                         std::to_string(config.vocabSize)};
    }
    if (rank < 1 || std::int64_t(ids.size()) < 4 * std::int64_t(rank))
        return Error{ErrorCode::InvalidArgument, "A basis of rank " + std::to_string(rank) + " needs at least " +
                                                     std::to_string(4 * std::int64_t(rank)) + " tokens, found " +
                                                     std::to_string(ids.size())};
    const std::int64_t needed = weights->parameters * std::int64_t(sizeof(float));
    if (const auto memory = availableMemory(); memory && needed > memory->limitBytes)
        return Error{ErrorCode::OutOfMemory, "Fitting a basis takes " + std::to_string(needed >> 20) +
                                                 " MiB for float32 weights, but there are only " +
                                                 std::to_string(memory->limitBytes >> 20) + " MiB"};
    try {
        const std::uint64_t hash = weights->hash;
        const reference::Model model(config, std::move(weights));
        KeyStatistics statistics(config.numFullAttentionLayers(), config.numKvHeads, config.headDim);
        OCTAVO_CHECK(readKeys(config, model, ids, statistics, hooks));
        FittedBasis fitted;
        OCTAVO_TRY(fitted.basis, statistics.fit(rank, hash));
        fitted.explained = statistics.explained(fitted.basis);
        return fitted;
    } catch (const std::bad_alloc&) {
        return Error{ErrorCode::OutOfMemory, "Fitting a basis from " + std::to_string(ids.size()) +
                                                 " tokens needs more memory than could be had: take fewer tokens"};
    }
}

} // namespace octavo::engine
