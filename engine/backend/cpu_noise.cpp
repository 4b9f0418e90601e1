/// What evaluations and measurements ask of a CpuBackend beyond the Backend interface.

#include "engine/backend/cpu_backend.h"
#include "engine/backend/cpu_text.h"

#include <algorithm>
#include <utility>

namespace octavo::engine
{

namespace cpu = kernels::cpu;

Result<KeyStatistics> CpuBackend::keyStatistics(SlotId slot, std::int64_t mostKeys)
{
    OCTAVO_TRY(const CpuSequence* sequence, ready(slot, {}));
    if (sequence->kv.heldPages() < sequence->kv.pages())
        return Error{ErrorCode::InvalidArgument, name(slot) + " has its keys in int4 by now; read it with sparse "
                                                              "attention off to sum them"};
    return m_sparse.statistics(*sequence, sequence->length, mostKeys, m_forward.parallel());
}

Result<void> CpuBackend::appendNoise(SlotId slot, std::int64_t tokens)
{
    OCTAVO_TRY(CpuSequence * sequence, ready(slot, {}));
    if (tokens < 0 || tokens > sequence->maxTokens - sequence->length)
        return Error{ErrorCode::ContextFull, name(slot) + " has no room for " + std::to_string(tokens) + " tokens"};
    const ModelConfig& config = m_model.config;
    while (tokens > 0) {
        const std::int64_t count = std::min<std::int64_t>(tokens, cpu::pageTokens - sequence->length % cpu::pageTokens);
        OCTAVO_CHECK(prepareRows(*sequence, count));
        OCTAVO_CHECK(makeRoom(*sequence, count));
        m_forward.parallel()(std::int64_t(m_model.attentionLayers) * config.numKvHeads, [&](std::int64_t task) {
            const int layer = int(task) / config.numKvHeads, head = int(task) % config.numKvHeads;
            std::uint64_t state = std::uint64_t(sequence->length * 1'000'003 + task) * 2 + 1;
            std::vector<float> row(2 * std::size_t(config.headDim));
            for (std::int64_t t = 0; t < count; ++t) {
                for (float& x : row) {
                    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
                    x = float(std::int32_t(state >> 32)) * 0x1p-31f;
                }
                sequence->kv.write(m_kernels, layer, head, sequence->length + t, row.data(),
                                   row.data() + config.headDim);
            }
        });
        sequence->length += count;
        tokens -= count;
    }
    countMemory();
    return {};
}

std::vector<std::int32_t> CpuBackend::picks(SlotId slot, int layer, int list) const
{
    const auto it = m_sequences.find(slot);
    if (it == m_sequences.end() || !it->second->sparse)
        return {};
    return it->second->sparse->picks(layer, list);
}

} // namespace octavo::engine
