#include "engine/backend/cpu_backend.h"

#include "engine/backend/cpu_text.h"
#include "engine/backend/cpu_threads.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include <unistd.h>

namespace octavo::engine
{

namespace cpu = kernels::cpu;

namespace
{

/// Rows that pass through the layers together: enough to share a weight's load, few enough for their work space to
/// stay in the third-level cache.
constexpr int passRows = 256;

Result<cpu::Path> choosePath(const std::string& wanted)
{
    if (wanted.empty())
        return cpu::bestPath();
    for (cpu::Path path : {cpu::Path::Plain, cpu::Path::Avx2, cpu::Path::Avx512}) {
        if (cpu::pathName(path) != wanted)
            continue;
        if (!cpu::isSupported(path))
            return Error{ErrorCode::Unsupported, "This processor cannot run the " + wanted +
                                                     " kernels; the best it has is " +
                                                     std::string(cpu::pathName(cpu::bestPath()))};
        return path;
    }
    return Error{ErrorCode::InvalidArgument,
                 "there are no CPU kernels called '" + wanted + "'; name plain, avx2, avx512 or reference"};
}

std::string describe(cpu::Path path, int threads)
{
    std::string processor = "CPU";
    std::ifstream in("/proc/cpuinfo");
    for (std::string line; std::getline(in, line);) {
        const std::size_t colon = line.find(": ");
        if (line.starts_with("model name") && colon != std::string::npos) {
            processor = line.substr(colon + 2);
            break;
        }
    }
    const char* instructions = path == cpu::Path::Avx512 ? "AVX-512 VNNI"
                               : path == cpu::Path::Avx2 ? "AVX2"
                                                         : "no SIMD";
    return processor + ", " + std::to_string(threads) + (threads == 1 ? " thread, " : " threads, ") + instructions;
}

} // namespace

Result<std::unique_ptr<Backend>> makeCpuBackend(const ModelConfig& config, std::shared_ptr<const ModelWeights> weights,
                                                const BackendOptions& options)
{
    return CpuBackend::create(config, std::move(weights), options);
}

Result<std::unique_ptr<Backend>> CpuBackend::create(const ModelConfig& config,
                                                    std::shared_ptr<const ModelWeights> weights,
                                                    const BackendOptions& options)
{
    OCTAVO_TRY(const cpu::Path path, choosePath(options.cpuPath));
    OCTAVO_CHECK(options.sparseSettings.check());
    const int available = int(std::max(1u, std::thread::hardware_concurrency()));
    const int threads = options.threads > 0 ? std::min(options.threads, mostCpuThreads()) : available;
    try {
        OCTAVO_TRY(CpuModel model, CpuModel::load(config, std::move(weights), options, threads));
        std::unique_ptr<CpuBackend> backend(
            new CpuBackend(std::move(model), cpu::kernels(path), threads, options));
        if (!backend->m_forward.ready())
            return Error{ErrorCode::OutOfMemory, "The CPU backend's work space of " +
                                                     mib(backend->m_forward.workBytes()) + " could not be had"};
        const std::filesystem::path basis =
            options.sketchBasis.empty() ? backend->m_model.source->dir / "basis.safetensors" : options.sketchBasis;
        std::error_code ignored;
        if (!options.sketchBasis.empty() || std::filesystem::exists(basis, ignored)) {
            // Without one the model still works; another is fitted when it is first needed.
            if (const auto loaded = backend->m_sparse.loadBasis(basis); !loaded)
                spdlog::warn("{}", loaded.error().message);
        }
        return std::unique_ptr<Backend>(std::move(backend));
    } catch (const std::bad_alloc&) {
        return Error{ErrorCode::OutOfMemory, "Memory ran out while weights were repacked for the CPU"};
    } catch (const std::system_error& error) {
        return Error{ErrorCode::OutOfMemory, "The CPU backend's threads could not be started: " +
                                                 std::string(error.what()) + "; ask for fewer"};
    }
}

CpuBackend::CpuBackend(CpuModel model, const cpu::Kernels& kernels, int threads, const BackendOptions& options)
    : m_model(std::move(model))
    , m_kernels(kernels)
    , m_threads(threads)
    , m_budget(options.memoryBudgetBytes)
    , m_recurrent(RecurrentShape::of(m_model.config, m_model.mtp.has_value()))
    , m_pages({m_model.kvLayers(), m_model.config.numKvHeads, m_model.config.headDim})
    , m_sparse(m_model.config, m_model.attentionLayers, m_model.source->hash, options.sparse, options.sparseSettings,
               kernels.path, threads)
    , m_forward(m_model, kernels, threads, passRows, &m_sparse)
{
    m_rows.reserve(std::size_t(maxStepRows()));
    m_self = std::make_shared<CpuBackend*>(this);
}

BackendInfo CpuBackend::info() const
{
    return {"cpu", describe(m_kernels.path, m_threads), std::string(cpu::pathName(m_kernels.path)), m_model.bytes};
}

BackendStats CpuBackend::stats() const
{
    BackendStats stats;
    stats.memoryUsedBytes = m_model.bytes + m_forward.workBytes() + m_reservedBytes;
    stats.memoryTotalBytes = std::int64_t(::sysconf(_SC_PHYS_PAGES)) * std::int64_t(::sysconf(_SC_PAGESIZE));
    stats.hostTierBytes = m_kvBytes + m_tierHeldBytes;
    stats.hostTierLimitBytes = m_budget;
    stats.prefillTokens = m_prefillTokens;
    stats.decodeTokens = m_decodeTokens;
    m_sparse.addStats(stats);
    return stats;
}

Result<SlotId> CpuBackend::createSequence(std::int64_t maxTokens)
{
    return addSequence(maxTokens, nullptr);
}

Result<SlotId> CpuBackend::forkSequence(SlotId source, std::int64_t maxTokens)
{
    OCTAVO_TRY(CpuSequence* const sequence, ready(source, {}));
    OCTAVO_CHECK(fillMtp(*sequence));
    return addSequence(maxTokens, sequence);
}

void CpuBackend::destroySequence(SlotId slot)
{
    const auto it = m_sequences.find(slot);
    if (it == m_sequences.end())
        return;
    m_sparse.release(*it->second);
    if (it->second->verified)
        m_spareStates = std::move(it->second->verified);
    m_sequences.erase(it);
    countTier();
    countMemory();
}

std::int64_t CpuBackend::length(SlotId slot) const
{
    const auto it = m_sequences.find(slot);
    return it == m_sequences.end() ? 0 : it->second->length + it->second->pendingRows;
}

Result<CpuSequence*> CpuBackend::find(SlotId slot)
{
    const auto it = m_sequences.find(slot);
    if (it == m_sequences.end())
        return Error{ErrorCode::NotFound, name(slot) + " does not exist"};
    return it->second.get();
}

Result<CpuSequence*> CpuBackend::ready(SlotId slot, std::span<const TokenId> tokens)
{
    OCTAVO_TRY(CpuSequence * sequence, find(slot));
    if (sequence->pendingRows > 0)
        return Error{ErrorCode::InvalidArgument,
                     name(slot) + " has " + std::to_string(sequence->pendingRows) + " rows that were not committed"};
    for (TokenId token : tokens) {
        if (token < 0 || token >= m_model.config.vocabSize)
            return Error{ErrorCode::InvalidArgument, "Token id " + std::to_string(token) +
                                                         " is not below the vocabulary's " +
                                                         std::to_string(m_model.config.vocabSize)};
    }
    if (std::int64_t(tokens.size()) > sequence->maxTokens - sequence->length)
        return Error{ErrorCode::ContextFull, "The context holds " + std::to_string(sequence->length) + " of " +
                                                 std::to_string(sequence->maxTokens) + " tokens, " +
                                                 std::to_string(tokens.size()) + " more do not fit"};
    return sequence;
}

Result<void> CpuBackend::prefill(SlotId slot, std::span<const TokenId> tokens, std::span<float> logits)
{
    const std::size_t vocab = std::size_t(m_model.config.vocabSize), rows = tokens.size();
    if (rows < 1 || rows > std::size_t(maxPrefillSlice()))
        return Error{ErrorCode::InvalidArgument, "A slice has " + std::to_string(rows) + " tokens, expected 1 to " +
                                                     std::to_string(maxPrefillSlice())};
    if (!logits.empty() && logits.size() != vocab && logits.size() != rows * vocab)
        return Error{ErrorCode::InvalidArgument, "The logits of a slice take " + std::to_string(vocab) + " or " +
                                                     std::to_string(rows * vocab) + " floats, found " +
                                                     std::to_string(logits.size())};
    OCTAVO_TRY(CpuSequence * sequence, ready(slot, tokens));
    OCTAVO_CHECK(fillMtp(*sequence));
    const bool every = logits.size() == rows * vocab;
    for (std::size_t done = 0; done < rows;) {
        // Passes end at multiples of 64 positions too.
        const std::size_t take = std::min(
            rows - done, std::size_t(passRows - sequence->length % cpu::gdnChunkRows));
        OCTAVO_CHECK(prepareRows(*sequence, std::int64_t(take)));
        OCTAVO_CHECK(makeRoom(*sequence, std::int64_t(take)));
        const CpuRows entry{sequence, tokens.subspan(done, take), sequence->length};
        const bool last = done + take == rows;
        if (every)
            m_forward.run(CpuPass::Prefill, std::span(&entry, 1), int(take), logits.data() + done * vocab);
        else
            m_forward.run(CpuPass::Prefill, std::span(&entry, 1), last && !logits.empty() ? 1 : 0, logits.data());
        sequence->length += std::int64_t(take);
        done += take;
    }
    m_prefillTokens += std::int64_t(rows);
    return {};
}

Result<std::size_t> CpuBackend::beginStep(std::span<const StepEntry> entries)
{
    std::size_t rows = 0;
    m_rows.clear();
    for (const StepEntry& entry : entries) {
        OCTAVO_TRY(CpuSequence * sequence, ready(entry.slot, entry.tokens));
        const bool repeated =
            std::ranges::any_of(m_rows, [sequence](const CpuRows& other) { return other.sequence == sequence; });
        if (entry.tokens.empty() || repeated)
            return Error{ErrorCode::InvalidArgument, "A step needs at least one token for each of different sequences"};
        rows += entry.tokens.size();
        if (rows > std::size_t(maxStepRows()))
            return Error{ErrorCode::InvalidArgument, "A step has more than " + std::to_string(maxStepRows()) + " rows"};
        m_rows.push_back({sequence, entry.tokens, sequence->length});
    }
    for (const CpuRows& entry : m_rows)
        OCTAVO_CHECK(makeReady(*entry.sequence, entry.tokens.size()));
    m_sparseRows.clear();
    for (const CpuRows& entry : m_rows)
        m_sparseRows.emplace_back(entry.sequence, int(entry.tokens.size()));
    m_sparse.beginStep(m_sparseRows);
    return rows;
}

void CpuBackend::endStep(std::size_t rows)
{
    m_sparse.endStep();
    const float* hidden = m_forward.finalHidden();
    for (const CpuRows& entry : m_rows) {
        CpuSequence& sequence = *entry.sequence;
        const std::size_t count = entry.tokens.size(), floats = count * std::size_t(m_recurrent.hidden);
        if (hasMtp() && count > 1) {
            sequence.pendingHidden.assign(hidden, hidden + floats);
            sequence.pendingTokens.assign(entry.tokens.begin(), entry.tokens.end());
        } else if (hasMtp()) {
            sequence.appendHidden(hidden, entry.tokens);
        }
        hidden += floats;
        if (count > 1)
            sequence.pendingRows = int(count);
        else
            ++sequence.length;
    }
    m_decodeTokens += std::int64_t(rows);
    ++m_steps;
}

Result<void> CpuBackend::step(std::span<const StepEntry> entries, std::span<float> logits)
{
    const std::size_t vocab = std::size_t(m_model.config.vocabSize);
    std::size_t wanted = 0;
    for (const StepEntry& entry : entries)
        wanted += entry.tokens.size();
    if (logits.size() != wanted * vocab)
        return Error{ErrorCode::InvalidArgument, "A step of " + std::to_string(wanted) + " rows (at most " +
                                                     std::to_string(maxStepRows()) + ") came with room for " +
                                                     std::to_string(logits.size() / vocab) + " rows of logits"};
    OCTAVO_TRY(const std::size_t rows, beginStep(entries));
    if (rows == 0)
        return {};
    m_forward.run(CpuPass::Step, m_rows, int(rows), logits.data());
    endStep(rows);
    return {};
}

Result<void> CpuBackend::stepBest(std::span<const StepEntry> entries, TokenId endId, std::span<TokenId> best)
{
    std::size_t wanted = 0;
    for (const StepEntry& entry : entries)
        wanted += entry.tokens.size();
    if (best.size() != wanted || endId < 1)
        return Error{ErrorCode::InvalidArgument, "A step of " + std::to_string(wanted) + " rows came with room for " +
                                                     std::to_string(best.size()) + " tokens below " +
                                                     std::to_string(endId)};
    OCTAVO_TRY(const std::size_t rows, beginStep(entries));
    if (rows == 0)
        return {};
    m_forward.runBest(m_rows, endId, best);
    endStep(rows);
    return {};
}

Result<void> CpuBackend::commit(SlotId slot, int keptRows)
{
    OCTAVO_TRY(CpuSequence * sequence, find(slot));
    const int rows = std::max(1, sequence->pendingRows);
    if (keptRows < 1 || keptRows > rows)
        return Error{ErrorCode::InvalidArgument,
                     std::to_string(keptRows) + " rows were to be kept, expected 1 to " + std::to_string(rows)};
    if (sequence->pendingRows == 0)
        return {};
    m_forward.commit(*sequence, keptRows);
    if (hasMtp())
        sequence->appendHidden(sequence->pendingHidden.data(),
                               std::span(sequence->pendingTokens).first(std::size_t(keptRows)));
    sequence->length += keptRows;
    sequence->pendingRows = 0;
    sequence->kv.truncate(sequence->length);
    return {};
}

Result<void> CpuBackend::fillMtp(CpuSequence& sequence)
{
    if (sequence.unfilled() == 0)
        return {};
    OCTAVO_CHECK(makeRoom(sequence, 0));
    m_forward.fillMtp(sequence);
    return {};
}

Result<void> CpuBackend::draft(std::span<const DraftEntry> entries, float leastChance, std::span<DraftChain> chains)
{
    if (!hasMtp())
        return Error{ErrorCode::Unsupported, "This model has no MTP layer to draft with"};
    if (chains.size() != entries.size() || entries.size() > std::size_t(maxStepRows()))
        return Error{ErrorCode::InvalidArgument,
                     std::to_string(entries.size()) + " chains were asked for with room for " +
                         std::to_string(chains.size()) + ", at most " + std::to_string(maxStepRows())};
    m_drafts.clear();
    for (std::size_t i = 0; i < entries.size(); ++i) {
        const DraftEntry& entry = entries[i];
        OCTAVO_TRY(CpuSequence * sequence, ready(entry.slot, std::span(&entry.next, 1)));
        if (entry.most < 1 ||
            std::ranges::any_of(m_drafts, [&](const CpuDraft& other) { return other.sequence == sequence; }))
            return Error{ErrorCode::InvalidArgument, "Drafts need at least one token for each of different sequences"};
        chains[i] = {};
        // A draft stands behind `next`, which takes a position too; without a hidden row there is no beginning.
        const std::int64_t room = sequence->maxTokens - sequence->length - 1;
        if (room > 0 && sequence->length > 0)
            m_drafts.push_back({sequence, entry.next, int(std::min<std::int64_t>(entry.most, room)), &chains[i]});
    }
    std::int64_t rows = std::int64_t(m_drafts.size());
    for (const CpuDraft& draft : m_drafts) {
        OCTAVO_CHECK(makeRoom(*draft.sequence, draft.most));
        rows += draft.sequence->unfilled();
    }
    for (const CpuDraft& draft : m_drafts) {
        if (rows > passRows) {
            rows -= draft.sequence->unfilled();
            OCTAVO_CHECK(fillMtp(*draft.sequence));
        }
    }
    if (!m_drafts.empty())
        m_forward.draft(m_drafts, leastChance);
    return {};
}

} // namespace octavo::engine
