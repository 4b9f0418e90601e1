#include "engine/backend/cpu_backend.h"

#include "engine/scheduler/memory_budget.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <thread>
#include <utility>
#include <system_error>

#include <unistd.h>

namespace octavo::engine
{

namespace cpu = kernels::cpu;

namespace
{

/// Rows that pass through the layers together: enough to share a weight's load, few enough for their work space to
/// stay in the third-level cache.
constexpr int passRows = 256;

/// So many rows wait for MTP's keys and values at most: drafts may never be wanted, and together they cost less.
constexpr std::int64_t mostUnfilled = 128;

std::string mib(std::int64_t bytes)
{
    return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB";
}

std::string name(SlotId slot)
{
    return "Sequence " + std::to_string(std::int32_t(slot));
}

Result<cpu::Path> choosePath(const std::string& wanted)
{
    if (wanted.empty())
        return cpu::bestPath();
    for (cpu::Path path : {cpu::Path::Plain, cpu::Path::Avx2, cpu::Path::Avx512}) {
        if (cpu::pathName(path) != wanted)
            continue;
        if (!cpu::isSupported(path))
            return Error{ErrorCode::Unsupported, "This processor cannot run the " + wanted + " kernels; the best it has is " +
                                                     std::string(cpu::pathName(cpu::bestPath()))};
        return path;
    }
    return Error{ErrorCode::InvalidArgument,
                 "There are no CPU kernels called '" + wanted + "'; name plain, avx2, avx512 or reference"};
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
    const char* instructions = path == cpu::Path::Avx512 ? "AVX-512 VNNI" : path == cpu::Path::Avx2 ? "AVX2" : "no SIMD";
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
    const int threads = options.threads > 0 ? std::min(options.threads, std::max(8, 2 * available)) : available;
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
        return Error{ErrorCode::OutOfMemory,
                     "The CPU backend's threads could not be started: " + std::string(error.what()) + "; ask for fewer"};
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

std::int64_t CpuBackend::sequenceBytes(std::int64_t tokens) const
{
    return m_sparse.mostPages(0, tokens) * m_pages.shape().pageBytes() + m_recurrent.totalFloats() * std::int64_t(sizeof(float)) +
           m_sparse.sequenceBytes(tokens);
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

Result<SlotId> CpuBackend::addSequence(std::int64_t maxTokens, const CpuSequence* source)
{
    const std::int64_t held = source ? source->length : 0;
    const std::int64_t least = source ? held : 1;
    if (maxTokens < least || maxTokens > m_model.config.maxPositions)
        return Error{ErrorCode::InvalidArgument, "A sequence of " + std::to_string(maxTokens) +
                                                     " tokens was asked for, expected " + std::to_string(least) +
                                                     " to " + std::to_string(m_model.config.maxPositions)};
    // Whole pages that the source holds are shared, not taken again; a page that has begun will be copied, and the
    // newest one for MTP's last row.
    std::int64_t bytes = sequenceBytes(maxTokens);
    if (source) {
        const int whole = source->kv.heldPages() - (held % cpu::pageTokens > 0 || (hasMtp() && held > 0) ? 1 : 0);
        bytes = pagesToTake(held, maxTokens, whole) * m_pages.shape().pageBytes() +
                m_recurrent.totalFloats() * std::int64_t(sizeof(float));
        if (maxTokens > held)
            bytes += m_sparse.sequenceBytes(maxTokens) - m_sparse.sharedBytes(*source);
    }
    const std::int64_t budget = this->budget();
    if (bytes > budget - m_reservedBytes)
        return Error{ErrorCode::OutOfMemory, "A sequence of " + std::to_string(maxTokens) + " tokens needs " +
                                                 mib(bytes) + ", but of " + mib(budget) + " for sequences only " +
                                                 mib(budget - m_reservedBytes) + " are free"};
    try {
        auto sequence = std::make_unique<CpuSequence>(m_pages, m_recurrent, maxTokens);
        if (sequence->recurrentPages->empty() && m_recurrent.totalFloats() > 0)
            return Error{ErrorCode::OutOfMemory, "A sequence of " + std::to_string(maxTokens) + " tokens needs " +
                                                     mib(bytes) + ", which could not be had"};
        if (source) {
            sequence->length = held;
            sequence->kv.shareFrom(source->kv, held);
            std::copy_n(source->recurrent(), m_recurrent.totalFloats(), sequence->recurrent());
            OCTAVO_CHECK(m_sparse.fork(*source, *sequence));
        }
        const SlotId slot{m_nextSlot};
        m_sequences.emplace(slot, std::move(sequence));
        ++m_nextSlot;
        countTier();
        countMemory();
        return slot;
    } catch (const std::bad_alloc&) {
        return Error{ErrorCode::OutOfMemory, "A sequence of " + std::to_string(maxTokens) + " tokens needs " +
                                                 mib(bytes) + ", which could not be had"};
    }
}

/// Of all sequences and images together.
std::int64_t CpuBackend::budget() const
{
    if (m_budget > 0)
        return m_budget;
    const auto memory = availableMemory();
    return memory ? m_reservedBytes + memory->freeBytes : std::numeric_limits<std::int64_t>::max();
}

std::int64_t CpuBackend::pagesToTake(std::int64_t length, std::int64_t maxTokens, std::int64_t held) const
{
    return maxTokens <= length ? 0 : std::max<std::int64_t>(0, m_sparse.mostPages(length, maxTokens) - held);
}

/// What an image is made of. All but the copies is shared with sequences, and the image's own once those are gone.
struct CpuBackend::ImageStorage {
    std::shared_ptr<BigPages> recurrent;
    KvRows kv;
    std::optional<HostTier> tier;
    std::vector<std::vector<std::byte>> lastPages; // of each layer: sharers may append to them, so they are copied

    std::int64_t copiedBytes() const
    {
        std::int64_t bytes = 0;
        for (const auto& page : lastPages)
            bytes += std::int64_t(page.size());
        return bytes;
    }
};

/// Pages in use count once, whoever shares them and whoever took them first; so do states. On top comes what sequences
/// may still take.
void CpuBackend::countMemory()
{
    const std::int64_t inUse = m_pages.pagesInUse();
    std::int64_t reserved = inUse, copies = m_spareStates ? std::int64_t(m_spareStates->bytes()) : 0;
    m_states.clear();
    for (const auto& [slot, sequence] : m_sequences) {
        reserved += pagesToTake(sequence->length, sequence->maxTokens, sequence->kv.heldPages());
        copies += std::int64_t(sequence->pending.bytes() + (sequence->verified ? sequence->verified->bytes() : 0));
        m_states.push_back(sequence->recurrentPages.get());
    }
    for (const auto& weak : m_images) {
        if (const auto image = weak.lock()) {
            copies += image->copiedBytes();
            m_states.push_back(image->recurrent.get());
        }
    }
    std::ranges::sort(m_states);
    const std::int64_t states = std::ranges::unique(m_states).begin() - m_states.begin();
    m_kvBytes = inUse * m_pages.shape().pageBytes();
    m_reservedBytes = reserved * m_pages.shape().pageBytes() +
                      states * m_recurrent.totalFloats() * std::int64_t(sizeof(float)) + m_tierBytes + copies;
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

void CpuBackend::countTier()
{
    m_tierBytes = 0;
    std::int64_t held = 0;
    for (const auto& [slot, sequence] : m_sequences) {
        m_tierBytes += m_sparse.reservedBytes(*sequence);
        held += sequence->sparse ? sequence->sparse->tier().ownedBytes() : 0;
    }
    for (const auto& weak : m_images) {
        const auto image = weak.lock();
        const std::int64_t own = image && image->tier ? image->tier->ownedBytes() : 0;
        m_tierBytes += own;
        held += own;
    }
    m_tierHeldBytes = held;
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

Result<void> CpuBackend::makeRoom(CpuSequence& sequence, std::int64_t tokens)
{
    // MTP's rows end before the newest position's.
    const std::int64_t behind = hasMtp() && sequence.length > 0 ? 1 + sequence.unfilled() : 0;
    const bool done = sequence.kv.prepare(sequence.length - behind, tokens + behind);
    countMemory();
    if (!done)
        return Error{ErrorCode::OutOfMemory, "No memory was left for the keys and values of " +
                                                 std::to_string(tokens) + " more tokens (" +
                                                 std::to_string(sequence.length) + " are held)"};
    return {};
}

Result<void> CpuBackend::prepareRows(CpuSequence& sequence, std::int64_t count)
{
    const bool had = bool(sequence.sparse);
    OCTAVO_CHECK(m_sparse.prepareRows(sequence, count, m_forward.parallel()));
    if (!had && sequence.sparse)
        countTier();
    return {};
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

Result<void> CpuBackend::reserveStep(SlotId slot, int rows)
{
    OCTAVO_TRY(CpuSequence * sequence, find(slot));
    return makeReady(*sequence, std::size_t(std::max(rows, 1)));
}

/// All that a step of `rows` rows takes; nothing the second time.
Result<void> CpuBackend::makeReady(CpuSequence& sequence, std::size_t rows)
{
    OCTAVO_CHECK(prepareRows(sequence, std::int64_t(rows)));
    OCTAVO_CHECK(makeRoom(sequence, std::int64_t(rows)));
    if (sequence.unfilled() >= mostUnfilled)
        OCTAVO_CHECK(fillMtp(sequence));
    return makeReadyForDrafts(sequence, int(rows));
}

CpuBackend::DraftNeeds CpuBackend::draftNeeds(const CpuSequence& sequence, int rows) const
{
    constexpr int rowsTogether = 4; // so that few steps ask for more
    DraftNeeds needs;
    if (rows < 2)
        return needs;
    const std::int64_t held = std::int64_t(sequence.pending.bytes());
    const std::int64_t pending = std::int64_t((rows + rowsTogether - 1) / rowsTogether * rowsTogether) *
                                 m_recurrent.layers * m_recurrent.pendingFloats() * std::int64_t(sizeof(float));
    needs.pendingBytes = pending > held ? pending : 0;
    needs.states = !sequence.verified;
    needs.newBytes = (needs.pendingBytes > 0 ? pending - held : 0) +
                     (needs.states && !m_spareStates ? std::int64_t(sequence.recurrentPages->bytes()) : 0);
    return needs;
}

std::int64_t CpuBackend::stepBytes(SlotId slot, int rows) const
{
    const auto it = m_sequences.find(slot);
    return it == m_sequences.end() ? 0 : draftNeeds(*it->second, rows).newBytes;
}

Result<void> CpuBackend::makeReadyForDrafts(CpuSequence& sequence, int rows)
{
    const DraftNeeds needs = draftNeeds(sequence, rows);
    if (needs.pendingBytes == 0 && !needs.states)
        return {};
    const auto refusal = [&](const std::string& why) {
        return Error{ErrorCode::OutOfMemory, "The states of " + std::to_string(rows) + " drafted rows need " +
                                                 mib(needs.newBytes) + ", " + why};
    };
    if (const std::int64_t budget = this->budget(); needs.newBytes > budget - m_reservedBytes)
        return refusal("but of " + mib(budget) + " for sequences only " + mib(budget - m_reservedBytes) + " are free");
    if (needs.pendingBytes > 0) {
        sequence.pending = {}; // nothing waits in it: its place is the larger one's
        sequence.pending = BigPages(std::size_t(needs.pendingBytes));
    }
    const std::size_t stateBytes = sequence.recurrentPages->bytes();
    if (needs.states)
        sequence.verified =
            m_spareStates ? std::exchange(m_spareStates, nullptr) : std::make_shared<BigPages>(stateBytes);
    const bool had = (needs.pendingBytes == 0 || !sequence.pending.empty()) &&
                     (stateBytes == 0 || !sequence.verified->empty());
    if (!had)
        sequence.verified = nullptr;
    countMemory();
    return had ? Result<void>() : refusal("which could not be had");
}

bool CpuBackend::giveUpDrafts()
{
    bool any = bool(std::exchange(m_spareStates, nullptr));
    for (const auto& [slot, sequence] : m_sequences) {
        if (sequence->pendingRows > 0 || (!sequence->verified && sequence->pending.empty()))
            continue;
        sequence->verified = nullptr;
        sequence->pending = {};
        any = true;
    }
    if (any)
        countMemory();
    return any;
}

Result<void> CpuBackend::step(std::span<const StepEntry> entries, std::span<float> logits)
{
    const std::size_t vocab = std::size_t(m_model.config.vocabSize);
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
            break;
        m_rows.push_back({sequence, entry.tokens, sequence->length});
    }
    if (rows > std::size_t(maxStepRows()) || logits.size() != rows * vocab)
        return Error{ErrorCode::InvalidArgument, "A step of " + std::to_string(rows) + " rows (at most " +
                                                     std::to_string(maxStepRows()) + ") came with room for " +
                                                     std::to_string(logits.size() / vocab) + " rows of logits"};
    if (rows == 0)
        return {};
    for (const CpuRows& entry : m_rows)
        OCTAVO_CHECK(makeReady(*entry.sequence, entry.tokens.size()));
    m_sparseRows.clear();
    for (const CpuRows& entry : m_rows)
        m_sparseRows.emplace_back(entry.sequence, int(entry.tokens.size()));
    m_sparse.beginStep(m_sparseRows);
    m_forward.run(CpuPass::Step, m_rows, int(rows), logits.data());
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
        return Error{ErrorCode::InvalidArgument, std::to_string(entries.size()) + " chains were asked for with room for " +
                                                     std::to_string(chains.size()) + ", at most " +
                                                     std::to_string(maxStepRows())};
    m_drafts.clear();
    for (std::size_t i = 0; i < entries.size(); ++i) {
        const DraftEntry& entry = entries[i];
        OCTAVO_TRY(CpuSequence * sequence, ready(entry.slot, std::span(&entry.next, 1)));
        if (entry.most < 1 || std::ranges::any_of(m_drafts, [&](const CpuDraft& other) { return other.sequence == sequence; }))
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

/// The kernel path is part of it: rows read on another path differ in their last bits.
std::string CpuBackend::imageFormat() const
{
    const std::string layout = m_sparse.layoutName();
    if (layout.empty()) // the basis will be fitted from the first context: sketches of the next process may not fit it
        return {};
    return "cpu int8 rows in pages of " + std::to_string(cpu::pageTokens) + ", " + layout + ", float state, " +
           std::string(cpu::pathName(m_kernels.path)) + (hasMtp() ? ", with MTP" : "") + (m_model.quantized ? ", quantised at load" : "") + ", 5";
}

/// State: the recurrent one, then the int8 pages from the tier's end on. Rows: the first int8 page, then the tier's
/// pages, all layers of one before the next; or, where no row is in the tier, all int8 pages.
Result<SequenceImage> CpuBackend::imageOf(SlotId slot, ImageRows rows)
{
    OCTAVO_TRY(CpuSequence* const sequence, ready(slot, {}));
    OCTAVO_CHECK(fillMtp(*sequence));
    const int tierPages = m_sparse.tierPages(sequence->length);
    const std::int64_t tierTokens = std::int64_t(tierPages) * cpu::pageTokens;
    if (tierTokens > sequence->tierTokens) // the page moves with the row that comes next
        return Error{ErrorCode::InvalidArgument, name(slot) + " of " + std::to_string(sequence->length) +
                                                     " tokens cannot be saved; a multiple of 64 can"};
    const bool takesRows = rows == ImageRows::Taken;
    std::int64_t copies = sequence->isFrozen() ? 0 : m_recurrent.totalFloats() * std::int64_t(sizeof(float));
    if (tierPages > 0 && takesRows && tierTokens % m_sparse.attention()->shape().pageTokens() > 0)
        copies += m_model.attentionLayers * m_sparse.attention()->shape().pageBytes();
    if (const std::int64_t budget = this->budget(); copies > 0 && copies > budget - m_reservedBytes)
        return Error{ErrorCode::OutOfMemory, "Saving " + name(slot) + " needs " + mib(copies) + ", but of " + mib(budget) +
                                                 " for sequences only " + mib(budget - m_reservedBytes) + " are free"};
    const auto storage = newImage(*sequence);
    if (storage->recurrent->empty() && m_recurrent.totalFloats() > 0)
        return Error{ErrorCode::OutOfMemory, "Saving " + name(slot) + " needs " + mib(copies) + ", which could not be had"};
    SequenceImage image;
    image.layout = tierPages > 0 ? 1 : 0;
    image.state.push_back({storage->recurrent->as<std::byte>(), std::size_t(m_recurrent.totalFloats()) * sizeof(float)});
    for (int page = 0; page < storage->kv.pages(); ++page) {
        const bool isRow = page == 0 || tierPages == 0;
        if (isRow) {
            image.rowBytes += m_pages.shape().pageBytes();
            if (takesRows)
                image.rows.push_back(storage->kv.pageBytes(page));
        } else if (page >= tierPages) {
            image.state.push_back(storage->kv.pageBytes(page));
        }
    }
    if (tierPages > 0) {
        image.rowBytes += m_sparse.attention()->shape().bytes(tierTokens);
        if (takesRows) {
            OCTAVO_TRY(storage->tier, sequence->sparse->tier().fork(tierTokens, tierTokens));
            const HostTier& tier = *storage->tier;
            for (std::int64_t page = 0; page < tier.pagesPerLayer(); ++page) {
                for (int layer = 0; layer < tier.shape().numLayers; ++layer) {
                    if ((page + 1) * tier.shape().pageTokens() <= tierTokens) {
                        image.rows.push_back(tier.pageBytes(layer, page));
                        continue;
                    }
                    auto& copy = storage->lastPages.emplace_back(std::size_t(tier.shape().pageBytes()));
                    tier.copyPage(layer, page, tierTokens, copy.data());
                    image.rows.push_back(copy);
                }
            }
        }
    }
    image.storage = storage;
    countTier();
    countMemory();
    return image;
}

/// Shares what a sequence holds, and lists it among the images until it is let go of.
std::shared_ptr<CpuBackend::ImageStorage> CpuBackend::newImage(const CpuSequence& sequence)
{
    const auto letGo = [owner = std::weak_ptr(m_self)](ImageStorage* image) {
        delete image;
        if (const auto backend = owner.lock()) {
            std::erase_if((*backend)->m_images, [](const auto& weak) { return weak.expired(); });
            (*backend)->countTier();
            (*backend)->countMemory();
        }
    };
    std::shared_ptr<ImageStorage> storage(new ImageStorage{sequence.recurrentPages, KvRows(m_pages), std::nullopt, {}},
                                          letGo);
    storage->kv.shareFrom(sequence.kv, sequence.length); // whoever writes to them next copies first
    if (!sequence.isFrozen()) { // its state moves on
        storage->recurrent = std::make_shared<BigPages>(sequence.recurrentPages->bytes());
        if (!storage->recurrent->empty())
            std::copy_n(sequence.recurrent(), m_recurrent.totalFloats(), storage->recurrent->as<float>());
    }
    m_images.push_back(storage);
    return storage;
}

Result<void> CpuBackend::beginRestore(SequenceRestore& restore)
{
    const auto& [length, state, rows, slot, copied] = restore;
    if (length < 1 || length > m_model.config.maxPositions)
        return Error{ErrorCode::InvalidArgument, "A saved sequence has " + std::to_string(length) +
                                                     " tokens, expected 1 to " +
                                                     std::to_string(m_model.config.maxPositions)};
    const std::int64_t pages = (length + cpu::pageTokens - 1) / cpu::pageTokens;
    const std::int64_t recurrentBytes = m_recurrent.totalFloats() * std::int64_t(sizeof(float));
    const std::int64_t pageBytes = m_pages.shape().pageBytes();
    const int tierPages = m_sparse.tierPages(length);
    const std::int64_t stateBytes = recurrentBytes + (tierPages > 0 ? pages - tierPages : 0) * pageBytes;
    const std::int64_t rowBytes =
        tierPages > 0 ? pageBytes + m_sparse.attention()->shape().bytes(std::int64_t(tierPages) * cpu::pageTokens)
                      : pages * pageBytes;
    if (std::int64_t(state.size()) != stateBytes || std::int64_t(rows.size()) != rowBytes)
        return Error{ErrorCode::FormatInvalid, "A saved sequence of " + std::to_string(length) + " tokens has " +
                                                   std::to_string(state.size()) + " and " +
                                                   std::to_string(rows.size()) + " bytes, expected " +
                                                   std::to_string(stateBytes) + " and " + std::to_string(rowBytes)};
    OCTAVO_TRY(restore.slot, createSequence(length));
    CpuSequence& sequence = *m_sequences.at(slot);
    sequence.length = length; // frozen from here on, so it takes no more than its image
    const bool room = sequence.kv.prepareWithHole(length, 1, tierPages);
    if (const auto tier = m_sparse.prepareRestore(sequence, length); !tier || !room) {
        destroySequence(std::exchange(restore.slot, noSlot));
        return tier ? Error{ErrorCode::OutOfMemory, "No memory was left for a saved sequence of " +
                                                        std::to_string(length) + " tokens"}
                    : tier.error();
    }
    std::memcpy(sequence.recurrentPages->as<std::byte>(), state.data(), std::size_t(recurrentBytes));
    if (tierPages > 0) { // the recent pages change with every token, so they are of the state
        m_forward.parallel()(pages - tierPages, [&](std::int64_t page) {
            std::memcpy(sequence.kv.pageData(tierPages + int(page)), state.data() + recurrentBytes + page * pageBytes,
                        std::size_t(pageBytes));
        });
    }
    countTier();
    countMemory();
    return {};
}

/// Rows are the int8 pages, all of them or the first alone, then the tier's pages.
Result<void> CpuBackend::continueRestore(SequenceRestore& restore, std::int64_t atMost)
{
    OCTAVO_TRY(CpuSequence * sequence, find(restore.slot));
    const std::int64_t pageBytes = m_pages.shape().pageBytes();
    const std::int64_t pages = sequence->sparse ? 1 : (restore.length + cpu::pageTokens - 1) / cpu::pageTokens;
    const std::byte* rows = restore.rows.data();
    if (restore.copied < pages * pageBytes) {
        const std::int64_t first = restore.copied / pageBytes;
        const std::int64_t count = std::min(pages - first, std::max<std::int64_t>(atMost / pageBytes, 1));
        m_forward.parallel()(count, [&](std::int64_t i) {
            std::memcpy(sequence->kv.pageData(int(first + i)), rows + (first + i) * pageBytes, std::size_t(pageBytes));
        });
        restore.copied += count * pageBytes;
        return {};
    }
    HostTier& tier = sequence->sparse->tier();
    const std::int64_t layers = tier.shape().numLayers, unit = tier.shape().pageBytes();
    const std::int64_t first = (restore.copied - pageBytes) / unit;
    const std::int64_t count =
        std::min(tier.pagesPerLayer() * layers - first, std::max<std::int64_t>(atMost / unit, 1));
    m_forward.parallel()(count, [&](std::int64_t i) {
        const std::int64_t index = first + i;
        tier.restorePage(int(index % layers), index / layers, rows + pageBytes + index * unit);
    });
    restore.copied += count * unit;
    return {};
}

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
                sequence->kv.write(m_kernels, layer, head, sequence->length + t, row.data(), row.data() + config.headDim);
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
