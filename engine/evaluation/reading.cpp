#include "engine/evaluation/reading.h"

#include <algorithm>
#include <string>

namespace octavo::engine
{

Result<ScopedSequence> ScopedSequence::create(Backend& backend, std::int64_t maxTokens)
{
    OCTAVO_TRY(const SlotId slot, backend.createSequence(maxTokens));
    return ScopedSequence(backend, slot);
}

Result<ScopedSequence> ScopedSequence::fork(Backend& backend, SlotId source, std::int64_t maxTokens)
{
    OCTAVO_TRY(const SlotId slot, backend.forkSequence(source, maxTokens));
    return ScopedSequence(backend, slot);
}

ScopedSequence::~ScopedSequence()
{
    if (m_backend)
        m_backend->destroySequence(m_slot);
}

Result<void> checkEvaluationIds(const Backend& backend, std::span<const TokenId> ids, std::size_t least)
{
    if (ids.size() < least)
        return Error{ErrorCode::InvalidArgument, "The evaluation needs at least " + std::to_string(least) +
                                                     " tokens, found " + std::to_string(ids.size())};
    for (TokenId id : ids) {
        if (id < 0 || id >= backend.config().vocabSize)
            return Error{ErrorCode::InvalidArgument, "Token id " + std::to_string(id) +
                                                         " is not below the vocabulary's " +
                                                         std::to_string(backend.config().vocabSize)};
    }
    return {};
}

Result<void> readTokens(Backend& backend, SlotId slot, std::span<const TokenId> ids, const EvaluationHooks& hooks,
                        std::int64_t before, std::int64_t total)
{
    const std::size_t slice = std::size_t(backend.maxPrefillSlice());
    for (std::size_t begin = 0; begin < ids.size(); begin += slice) {
        if (hooks.cancelled())
            return Error{ErrorCode::Cancelled, "The evaluation was cancelled"};
        const std::size_t rows = std::min(slice, ids.size() - begin);
        OCTAVO_CHECK(backend.prefill(slot, ids.subspan(begin, rows), {}));
        hooks.report(before + std::int64_t(begin + rows), total);
    }
    return {};
}

} // namespace octavo::engine
