#pragma once

/// One model on one device, driven step by step.
///
/// The interface is at step level, not operation level, so that a backend may run a whole step as one CUDA graph.
/// Thread   everything but stats() and hardware() belongs to the DeviceWorker that owns the backend.
/// Numerics rows are quantised once, when they are written; a sequence's results do not depend on who else is in a
///          batch, nor on how its tokens were cut into slices on multiples of 64.

#include "engine/model/model_config.h"
#include "engine/result.h"
#include "engine/types.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace octavo::engine {

/// When decode reads all rows, and when only those that the sketch picks.
enum class SparseMode { Auto, On, Off };

/// What a user is told about a backend.
struct BackendInfo {
    std::string device;      ///< "cpu", "cuda:0"
    std::string description; ///< "AMD EPYC, 2 threads, AVX-512 VNNI"
    std::string path;        ///< which kernels run: "avx512", "avx2", "plain", "reference", "cuda"
    std::int64_t weightBytes = 0;
};

/// Counters since the start, plus levels. Read from any thread.
struct BackendStats {
    std::int64_t memoryUsedBytes = 0;     ///< weights, sequences and work space on the device (RAM for the CPU)
    std::int64_t memoryTotalBytes = 0;    ///< what the device has, 0 where unknown
    std::int64_t hostTierBytes = 0;       ///< KV rows in host RAM
    std::int64_t hostTierLimitBytes = 0;  ///< what they may take; 0 where there is no limit
    std::int64_t hotBufferBytes = 0;
    std::int64_t prefillTokens = 0;
    std::int64_t decodeTokens = 0;
    std::int64_t hotHits = 0, hotMisses = 0, hotEvictions = 0;
    std::int64_t tierBytesRead = 0;       ///< bytes read from the host tier by decode (PCIe traffic on a GPU)
    std::int64_t pickedRows = 0;
    std::int64_t sparseSteps = 0, denseSteps = 0;
    double tailMass = -1.0;               ///< share of attention mass of what is not picked, newest step; negative: unknown
    double pickOverlap = -1.0;            ///< share of picks that the step before picked too (CPU: and the hot buffer
                                          ///< holds); negative: unknown
};

/// What the driver says of a card. Negative and empty: not known.
struct HardwareReading {
    double temperatureC = -1.0, powerW = -1.0;
    double computeClockMHz = -1.0, memoryClockMHz = -1.0;
    std::string link; ///< as it runs now: "PCIe 4 x16"
    double linkReadBytesPerSecond = -1.0, linkWriteBytesPerSecond = -1.0; ///< of all programs together
};

/// One sequence's part of a step: 1 token to decode, 1 + k to verify k drafts.
struct StepEntry {
    SlotId slot = noSlot;
    std::span<const TokenId> tokens;
};

/// Where a chain of drafts begins.
struct DraftEntry {
    SlotId slot = noSlot;
    TokenId next = -1; ///< written, not yet in the sequence
    int most = 1;      ///< drafts wanted
};

/// What the MTP layer expects after DraftEntry::next, each token with the probability it gives it.
struct DraftChain {
    std::vector<TokenId> tokens;
    std::vector<float> chances;
};

/// Whether an image brings its rows: beside a longer one of its layout it need not.
enum class ImageRows { Left, Taken };

/// What a frozen sequence holds, for writing to a file: parts that stay as they are for as long as `storage` lives.
/// They may be read on another thread; `storage` must be let go of on the backend's.
struct SequenceImage {
    using Parts = std::vector<std::span<const std::byte>>;
    Parts state; ///< what a shorter sequence has of its own
    Parts rows;  ///< what all that begin with the same tokens have in common: a shorter one's are a beginning of them
    std::int64_t rowBytes = 0; ///< of all rows, where they were not asked for too
    int layout = 0; ///< only images of one layout have rows in common
    std::shared_ptr<const void> storage; ///< on a CPU counts as the backend's memory, as far as no sequence holds the same

    static std::int64_t bytes(const Parts& parts)
    {
        std::int64_t sum = 0;
        for (const auto& part : parts)
            sum += std::int64_t(part.size());
        return sum;
    }
};

/// A frozen sequence on its way from an image into memory; see Backend::beginRestore().
struct SequenceRestore {
    std::int64_t length = 0;                ///< tokens
    std::span<const std::byte> state, rows; ///< the image's, each as one run of bytes
    SlotId slot = noSlot;
    std::int64_t copied = 0;                ///< bytes of the rows
    bool isWhole() const { return copied == std::int64_t(rows.size()); }
};

class Backend
{
public:
    virtual ~Backend() = default;

    virtual const ModelConfig& config() const = 0;
    virtual BackendInfo info() const = 0;
    virtual BackendStats stats() const = 0;
    virtual HardwareReading hardware() const { return {}; }

    /// Bytes that decoding read from the host tier for this sequence since it began; negative: not known.
    virtual std::int64_t tierBytesRead(SlotId /*slot*/) const { return -1; }

    /// The longest slice prefill() takes; a multiple of 64.
    virtual int maxPrefillSlice() const = 0;
    /// The most rows (over all entries) that step() takes.
    virtual int maxStepRows() const = 0;

    /// Bytes that a sequence of `tokens` positions takes, all tiers together; what createSequence() reserves.
    virtual std::int64_t sequenceBytes(std::int64_t tokens) const = 0;

    /// An empty sequence with room for `maxTokens`. Reserves first: OutOfMemory names needed and free bytes.
    virtual Result<SlotId> createSequence(std::int64_t maxTokens) = 0;

    /// Does a part of the slow work that a sequence with `newTokens` more than it shares will need (page-locking its
    /// RAM), at most `parts` of some tens of milliseconds, so that others can write in between; none: only asks. True
    /// when nothing of it is left or it failed: createSequence() and forkSequence() do what was not prepared and say
    /// what is wrong.
    virtual bool prepareSequence(std::int64_t /*newTokens*/, int /*parts*/) { return true; }

    /// A new sequence that starts with everything `source` holds: KV rows are shared (copy on write), recurrent and
    /// convolution state are copied. maxTokens == length(source) makes a frozen checkpoint.
    virtual Result<SlotId> forkSequence(SlotId source, std::int64_t maxTokens) = 0;

    virtual void destroySequence(SlotId slot) = 0;
    virtual std::int64_t length(SlotId slot) const = 0;

    /// Reads `tokens` (1 .. maxPrefillSlice()) at the end of the sequence.
    /// `logits`: empty, (vocab) for the last row's, or (tokens, vocab) for every row's. On error the sequence is lost.
    virtual Result<void> prefill(SlotId slot, std::span<const TokenId> tokens, std::span<float> logits) = 0;

    /// Finds the memory that step() will need for `rows` rows of `slot`, so that only this one fails where there is
    /// none: OutOfMemory, and the sequence is as it was. step() asks for what was not prepared.
    virtual Result<void> reserveStep(SlotId /*slot*/, int /*rows*/) { return {}; }

    /// Bytes that reserveStep() would take now beyond what the sequence has reserved: of states that drafted rows need.
    virtual std::int64_t stepBytes(SlotId /*slot*/, int /*rows*/) const { return 0; }

    /// Frees what only drafted rows need, of all sequences that have nothing uncommitted; the next step of several rows
    /// takes it again. False when there is nothing.
    virtual bool giveUpDrafts() { return false; }

    /// Runs all entries (different slots) as one batch. `logits`: (sum of rows, vocab), rows in order of the entries.
    /// An entry of one row is final; one of 1 + k rows must be followed by commit() before its next use.
    virtual Result<void> step(std::span<const StepEntry> entries, std::span<float> logits) = 0;

    /// Whether stepBest() is there: where picking is cheaper beside the head than in all logits.
    virtual bool picksBest() const { return false; }

    /// As step(), but what comes out is each row's best token, as Sampler::argmax() picks it: the lowest id below
    /// `endId` among the largest finite logits, -1 where none is finite. `best`: (sum of rows).
    virtual Result<void> stepBest(std::span<const StepEntry> /*entries*/, TokenId /*endId*/,
                                  std::span<TokenId> /*best*/)
    {
        return Error{ErrorCode::Unsupported, "this device leaves picking tokens to its caller"};
    }

    /// Keeps the first `keptRows` (>= 1) of the rows that the last step() ran for `slot` and forgets the others.
    virtual Result<void> commit(SlotId slot, int keptRows) = 0;

    /// Whether the model has an MTP layer and this device runs it.
    virtual bool hasMtp() const { return false; }

    /// Drafts with the MTP layer what may follow each entry's `next` (different slots, nothing uncommitted), all chains
    /// together, one depth after another. A chain ends after `most` tokens, where the sequence does, and before the
    /// token with which the product of its chances falls below `leastChance`. What later steps give does not depend on
    /// it.
    virtual Result<void> draft(std::span<const DraftEntry> /*entries*/, float /*leastChance*/,
                               std::span<DraftChain> /*chains*/)
    {
        return Error{ErrorCode::Unsupported, "this device does not run the model's MTP layer"};
    }

    /// Names the layout of images and all that decides their values; empty where sequences cannot be saved.
    virtual std::string imageFormat() const { return {}; }
    /// Whether a context may be saved while it is still being read, without that the reading loses by it.
    virtual bool savesWhileReading() const { return true; }
    /// Fails with OutOfMemory where what must be copied for it does not fit what sequences may take.
    virtual Result<SequenceImage> imageOf(SlotId /*slot*/, ImageRows /*rows*/)
    {
        return Error{ErrorCode::Unsupported, "this device cannot save contexts"};
    }
    /// Makes room for a frozen sequence from its image and copies the state; the rows follow by continueRestore().
    /// `rows` may be those of a longer sequence that begins with the same tokens, cut to as many bytes as this one has.
    /// Until all are there the slot may only be destroyed. Fails with FormatInvalid where sizes are others; OutOfMemory
    /// as createSequence().
    virtual Result<void> beginRestore(SequenceRestore& /*restore*/)
    {
        return Error{ErrorCode::Unsupported, "this device cannot open saved contexts"};
    }
    /// Copies more rows, about `atMost` bytes of them.
    virtual Result<void> continueRestore(SequenceRestore& /*restore*/, std::int64_t /*atMost*/)
    {
        return Error{ErrorCode::Unsupported, "this device cannot open saved contexts"};
    }
    /// Both at once.
    Result<SlotId> restoreSequence(std::int64_t length, std::span<const std::byte> state,
                                   std::span<const std::byte> rows)
    {
        SequenceRestore restore{length, state, rows};
        OCTAVO_CHECK(beginRestore(restore));
        while (!restore.isWhole()) {
            if (auto copied = continueRestore(restore, std::int64_t(rows.size())); !copied) {
                destroySequence(restore.slot);
                return std::move(copied).error();
            }
        }
        return restore.slot;
    }

    /// From the next step on; what sequences hold stays. For evaluation. Backends without sparse attention ignore it.
    virtual void setSparseMode(SparseMode) {}
};

} // namespace octavo::engine
