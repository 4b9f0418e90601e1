#pragma once

#include "engine/engine.h"
#include "engine/sampling/loop_watch.h"
#include "engine/scheduler/answer.h"
#include "engine/scheduler/prefix_cache.h"
#include "engine/speculation/draft_planner.h"
#include "engine/speculation/prompt_lookup.h"

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

namespace octavo::engine {

/// One request on its way through a worker. The prompt is shared with the checkpoints that are made of it.
struct Task {
    enum class State { Queued, Reading, Writing };

    Task(GenerationRequest given, EventSink receiver, SharedTokens tokens, std::int64_t submitted,
         const Tokenizer& tokenizer)
        : request(std::move(given))
        , sink(std::move(receiver))
        , prompt(std::move(tokens))
        , submittedUs(submitted)
        , sampler(request.sampling)
        , answer(tokenizer, request.stopStrings)
    {}

    GenerationRequest request; ///< without its prompt
    EventSink sink;            ///< empty: idle work of ours, which nobody waits for
    SharedTokens prompt;
    std::int64_t submittedUs;

    State state = State::Queued;
    bool ended = false;        ///< its last event was sent
    bool undelivered = false;  ///< its sink threw an event away
    SlotId slot = noSlot;
    std::int64_t done = 0;     ///< prompt tokens in the sequence
    std::int64_t readTarget = 0;
    std::int64_t savedTokens = 0, savedUs = 0; ///< of a context: the part that was saved last, and when
    std::int64_t idleFrom = 0; ///< idle work: where it begins; where that is not held any more, it is not done
    std::map<std::int64_t, PrefixCache::Kind> checkpoints; ///< ahead of `done`, where to leave a frozen sequence
    const Task* waitingFor = nullptr; ///< reads what this one needs too
    bool readsAfresh = false;  ///< what is saved of its prompt could not be used

    Sampler sampler;
    Answer answer;
    LoopWatch loopWatch;
    TokenId next = -1;         ///< written, not yet in the sequence
    std::unique_ptr<PromptLookup> lookup;
    Draft draft;               ///< of the step in hand
    DraftChain chain;          ///< the same where it comes from MTP, with the probabilities; else empty
    int passes = 0;            ///< of the MTP layer for it
    bool usesMtp = false;
    std::int64_t draftsFromUs = 0; ///< there was no memory for them: none are made before

    GenerationStats stats;
    std::int64_t startedUs = 0, firstTokenUs = 0, lastTokenUs = 0, lastTurnUs = 0;

    bool isIdleWork() const { return !sink; }
    std::int64_t promptTokens() const { return std::int64_t(prompt->size()); }
    std::int64_t leftToRead() const { return readTarget - done; }
    /// Positions taken, the token that waits to be fed included.
    std::int64_t positions() const { return done + std::int64_t(answer.tokens().size()); }
};

} // namespace octavo::engine
