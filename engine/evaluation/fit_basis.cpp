#include "engine/evaluation/fit_basis.h"

#include "engine/backend/cpu_backend.h"

#include <algorithm>
#include <numeric>

namespace octavo::engine
{

namespace
{

constexpr std::int64_t mostKeys = 32768; // of each head, taken evenly from the context

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
    BackendOptions options;
    options.sparse = SparseMode::Off;
    const std::uint64_t hash = weights->hash;
    OCTAVO_TRY(const std::unique_ptr<Backend> backend, CpuBackend::create(config, std::move(weights), options));
    auto& cpu = static_cast<CpuBackend&>(*backend);
    const auto total = std::int64_t(ids.size());
    OCTAVO_TRY(const ScopedSequence sequence, ScopedSequence::create(cpu, total));
    OCTAVO_CHECK(readTokens(cpu, sequence.slot(), ids, hooks, 0, total));
    OCTAVO_TRY(const KeyStatistics statistics, cpu.keyStatistics(sequence.slot(), mostKeys));
    FittedBasis fitted;
    OCTAVO_TRY(fitted.basis, statistics.fit(rank, hash));
    fitted.explained = statistics.explained(fitted.basis);
    return fitted;
}

} // namespace octavo::engine
