#pragma once

/// What evaluations share: progress and cancel, a sequence that frees itself, reading a text in slices.

#include "engine/backend/backend.h"
#include "engine/result.h"
#include "engine/types.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

namespace octavo::engine
{

struct EvaluationHooks {
    std::function<void(std::int64_t done, std::int64_t total)> progress; ///< in tokens; may be empty
    const std::atomic<bool>* cancel = nullptr;

    bool cancelled() const { return cancel && cancel->load(); }
    void report(std::int64_t done, std::int64_t total) const
    {
        if (progress)
            progress(done, total);
    }
};

/// A sequence that is destroyed with its scope.
class ScopedSequence
{
public:
    static Result<ScopedSequence> create(Backend& backend, std::int64_t maxTokens);
    static Result<ScopedSequence> fork(Backend& backend, SlotId source, std::int64_t maxTokens);
    static ScopedSequence adopt(Backend& backend, SlotId slot) { return ScopedSequence(backend, slot); }

    ScopedSequence(ScopedSequence&& other) noexcept
        : m_backend(std::exchange(other.m_backend, nullptr))
        , m_slot(other.m_slot)
    {
    }
    ScopedSequence& operator=(ScopedSequence&& other) noexcept
    {
        std::swap(m_backend, other.m_backend);
        std::swap(m_slot, other.m_slot);
        return *this;
    }
    ~ScopedSequence();

    SlotId slot() const { return m_slot; }
    /// Leaves it to the caller to destroy.
    SlotId release()
    {
        m_backend = nullptr;
        return m_slot;
    }

private:
    ScopedSequence(Backend& backend, SlotId slot)
        : m_backend(&backend)
        , m_slot(slot)
    {
    }
    Backend* m_backend;
    SlotId m_slot;
};

/// InvalidArgument where an id is none of the model's vocabulary, or there are fewer than `least`.
Result<void> checkEvaluationIds(const Backend& backend, std::span<const TokenId> ids, std::size_t least);

/// Reads `ids` at the end of `slot` in the longest slices, without logits. Reports progress as done/total of `total`
/// tokens, counting from `before`. Fails with Cancelled or what the backend reports.
Result<void> readTokens(Backend& backend, SlotId slot, std::span<const TokenId> ids, const EvaluationHooks& hooks,
                        std::int64_t before, std::int64_t total);

} // namespace octavo::engine
