#include "engine/backend/reference_backend.h"

#include "engine/backend/backend_factory.h"
#include "engine/backend/sequence_refusal.h"

#include <algorithm>
#include <new>
#include <utility>

#include <unistd.h>

namespace octavo::engine
{

namespace
{

std::int64_t physicalMemoryBytes()
{
    return std::int64_t(::sysconf(_SC_PHYS_PAGES)) * std::int64_t(::sysconf(_SC_PAGESIZE));
}

std::vector<reference::LayerState> recurrentPart(const reference::SequenceState& state)
{
    std::vector<reference::LayerState> copy;
    for (const reference::LayerState& layer : state.layers)
        copy.push_back({{}, {}, layer.recurrent, layer.conv});
    return copy;
}

std::string mib(std::int64_t bytes)
{
    return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB";
}

} // namespace

Result<std::unique_ptr<Backend>> makeReferenceBackend(const ModelConfig& config,
                                                      std::shared_ptr<const ModelWeights> weights,
                                                      const BackendOptions& options)
{
    const std::int64_t needed = weights->parameters * std::int64_t(sizeof(float));
    if (needed > physicalMemoryBytes())
        return Error{ErrorCode::OutOfMemory, "The reference backend needs " + mib(needed) +
                                                 " for float32 weights, but this machine has " +
                                                 mib(physicalMemoryBytes()) + ": use the cpu device"};
    try {
        return std::unique_ptr<Backend>(
            std::make_unique<ReferenceBackend>(config, std::move(weights), options.memoryBudgetBytes));
    } catch (const std::bad_alloc&) {
        return Error{ErrorCode::OutOfMemory, "The reference backend needs " + mib(needed) +
                                                 " for float32 weights, which could not be had: use the cpu device"};
    }
}

ReferenceBackend::ReferenceBackend(const ModelConfig& config, std::shared_ptr<const ModelWeights> weights,
                                   std::int64_t memoryBudgetBytes)
    : m_config(config)
    , m_model(config, std::move(weights))
    , m_budget(memoryBudgetBytes)
{
}

BackendInfo ReferenceBackend::info() const
{
    return {"cpu", "Plain float32, one thread", "reference", m_model.weightBytes()};
}

BackendStats ReferenceBackend::stats() const
{
    BackendStats stats;
    stats.memoryUsedBytes = m_model.weightBytes() + m_sequenceBytes;
    stats.memoryTotalBytes = physicalMemoryBytes();
    stats.prefillTokens = m_prefillTokens;
    stats.decodeTokens = m_decodeTokens;
    stats.denseSteps = m_steps;
    return stats;
}

Result<SlotId> ReferenceBackend::createSequence(std::int64_t maxTokens)
{
    return addSequence(maxTokens, nullptr);
}

Result<SlotId> ReferenceBackend::forkSequence(SlotId source, std::int64_t maxTokens)
{
    OCTAVO_TRY(const Sequence* sequence, ready(source, {}));
    return addSequence(maxTokens, sequence);
}

Result<SlotId> ReferenceBackend::addSequence(std::int64_t maxTokens, const Sequence* source)
{
    const std::int64_t held = source ? source->state.length : 0;
    if (maxTokens < std::max<std::int64_t>(held, source ? 0 : 1) || maxTokens > m_config.maxPositions)
        return sequenceRefusal(maxTokens, held, m_config.maxPositions);
    const std::int64_t bytes = sequenceBytes(maxTokens);
    const std::int64_t used = m_sequenceBytes;
    if (m_budget > 0 && bytes > m_budget - used)
        return Error{ErrorCode::OutOfMemory, "A sequence of " + std::to_string(maxTokens) + " tokens needs " +
                                                 mib(bytes) + ", but of " + mib(m_budget) + " for sequences only " +
                                                 mib(m_budget - used) + " are free"};
    try {
        Sequence sequence;
        sequence.maxTokens = maxTokens;
        sequence.bytes = bytes;
        sequence.state = m_model.emptyState(maxTokens);
        if (source) {
            sequence.state.length = source->state.length;
            for (std::size_t n = 0; n < sequence.state.layers.size(); ++n) {
                const reference::LayerState& from = source->state.layers[n];
                reference::LayerState& to = sequence.state.layers[n];
                to.keys.assign(from.keys.begin(), from.keys.end()); // keeps what emptyState() reserved
                to.values.assign(from.values.begin(), from.values.end());
                to.recurrent = from.recurrent;
                to.conv = from.conv;
            }
        }
        const SlotId slot{m_nextSlot};
        m_sequences.emplace(slot, std::move(sequence));
        ++m_nextSlot;
        m_sequenceBytes += bytes;
        return slot;
    } catch (const std::bad_alloc&) {
        return Error{ErrorCode::OutOfMemory, "A sequence of " + std::to_string(maxTokens) + " tokens needs " +
                                                 mib(bytes) + ", which could not be had"};
    }
}

void ReferenceBackend::destroySequence(SlotId slot)
{
    const auto it = m_sequences.find(slot);
    if (it == m_sequences.end())
        return;
    m_sequenceBytes -= it->second.bytes;
    m_sequences.erase(it);
}

std::int64_t ReferenceBackend::length(SlotId slot) const
{
    const auto it = m_sequences.find(slot);
    return it == m_sequences.end() ? 0 : it->second.state.length;
}

Result<ReferenceBackend::Sequence*> ReferenceBackend::ready(SlotId slot, std::span<const TokenId> tokens)
{
    const auto it = m_sequences.find(slot);
    if (it == m_sequences.end())
        return Error{ErrorCode::NotFound, "There is no sequence " + std::to_string(std::int32_t(slot))};
    Sequence& sequence = it->second;
    if (!sequence.uncommitted.empty())
        return Error{ErrorCode::InvalidArgument, "Sequence " + std::to_string(std::int32_t(slot)) + " has " +
                                                     std::to_string(sequence.uncommitted.size()) +
                                                     " rows that were not committed"};
    for (TokenId token : tokens) {
        if (token < 0 || token >= m_config.vocabSize)
            return Error{ErrorCode::InvalidArgument, "Token id " + std::to_string(token) +
                                                         " is not below the vocabulary's " +
                                                         std::to_string(m_config.vocabSize)};
    }
    if (std::int64_t(tokens.size()) > sequence.maxTokens - sequence.state.length)
        return Error{ErrorCode::ContextFull, "The context holds " + std::to_string(sequence.state.length) + " of " +
                                                 std::to_string(sequence.maxTokens) + " tokens, " +
                                                 std::to_string(tokens.size()) + " more do not fit"};
    return &sequence;
}

Result<void> ReferenceBackend::prefill(SlotId slot, std::span<const TokenId> tokens, std::span<float> logits)
{
    const std::size_t vocab = std::size_t(m_config.vocabSize), rows = tokens.size();
    if (rows < 1 || rows > std::size_t(maxPrefillSlice()))
        return Error{ErrorCode::InvalidArgument, "A slice has " + std::to_string(rows) + " tokens, expected 1 to " +
                                                     std::to_string(maxPrefillSlice())};
    if (!logits.empty() && logits.size() != vocab && logits.size() != rows * vocab)
        return Error{ErrorCode::InvalidArgument, "The logits of a slice take " + std::to_string(vocab) + " or " +
                                                     std::to_string(rows * vocab) + " floats, found " +
                                                     std::to_string(logits.size())};
    OCTAVO_TRY(Sequence * sequence, ready(slot, tokens));
    const std::vector<float> hidden = m_model.forward(sequence->state, tokens);
    const std::size_t wanted = logits.size() / vocab, hiddenSize = std::size_t(m_config.hiddenSize);
    if (wanted > 0)
        m_model.logits(hidden.data() + (rows - wanted) * hiddenSize, wanted, logits.data());
    m_prefillTokens += std::int64_t(rows);
    return {};
}

Result<void> ReferenceBackend::step(std::span<const StepEntry> entries, std::span<float> logits)
{
    const std::size_t vocab = std::size_t(m_config.vocabSize);
    std::size_t rows = 0;
    std::vector<Sequence*> sequences;
    for (const StepEntry& entry : entries) {
        OCTAVO_TRY(Sequence * sequence, ready(entry.slot, entry.tokens));
        if (entry.tokens.empty() || std::find(sequences.begin(), sequences.end(), sequence) != sequences.end())
            return Error{ErrorCode::InvalidArgument, "A step needs at least one token for each of different sequences"};
        sequences.push_back(sequence);
        rows += entry.tokens.size();
    }
    if (rows > std::size_t(maxStepRows()) || logits.size() != rows * vocab)
        return Error{ErrorCode::InvalidArgument, "A step of " + std::to_string(rows) + " rows (at most " +
                                                     std::to_string(maxStepRows()) + ") came with room for " +
                                                     std::to_string(logits.size() / vocab) + " rows of logits"};
    float* out = logits.data();
    for (std::size_t i = 0; i < entries.size(); ++i) {
        const std::span<const TokenId> tokens = entries[i].tokens;
        if (tokens.size() > 1) {
            sequences[i]->uncommitted.assign(tokens.begin(), tokens.end());
            sequences[i]->before = recurrentPart(sequences[i]->state);
        }
        const std::vector<float> hidden = m_model.forward(sequences[i]->state, tokens);
        m_model.logits(hidden.data(), tokens.size(), out);
        out += tokens.size() * vocab;
    }
    m_decodeTokens += std::int64_t(rows);
    ++m_steps;
    return {};
}

Result<void> ReferenceBackend::commit(SlotId slot, int keptRows)
{
    const auto it = m_sequences.find(slot);
    if (it == m_sequences.end())
        return Error{ErrorCode::NotFound, "There is no sequence " + std::to_string(std::int32_t(slot))};
    Sequence& sequence = it->second;
    const int rows = sequence.uncommitted.empty() ? 1 : int(sequence.uncommitted.size());
    if (keptRows < 1 || keptRows > rows)
        return Error{ErrorCode::InvalidArgument,
                     std::to_string(keptRows) + " rows were to be kept, expected 1 to " + std::to_string(rows)};
    const std::vector<TokenId> tokens = std::exchange(sequence.uncommitted, {});
    std::vector<reference::LayerState> before = std::exchange(sequence.before, {});
    if (keptRows == rows)
        return {};
    const std::size_t kvDim = std::size_t(m_config.numKvHeads) * std::size_t(m_config.headDim);
    sequence.state.length -= rows;
    for (std::size_t n = 0; n < before.size(); ++n) {
        reference::LayerState& layer = sequence.state.layers[n];
        layer.recurrent = std::move(before[n].recurrent);
        layer.conv = std::move(before[n].conv);
        if (!layer.keys.empty()) {
            layer.keys.resize(std::size_t(sequence.state.length) * kvDim);
            layer.values.resize(std::size_t(sequence.state.length) * kvDim);
        }
    }
    m_model.forward(sequence.state, std::span(tokens).first(std::size_t(keptRows)));
    return {};
}

} // namespace octavo::engine
