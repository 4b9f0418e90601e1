#pragma once

/// Can the model still copy a value that stands anywhere in a long context? Short definitions with random values are
/// spread evenly through a text; at its end each is begun again, and greedy decoding should complete it.

#include "engine/backend/backend.h"
#include "engine/evaluation/reading.h"
#include "engine/result.h"
#include "engine/tokenizer/tokenizer.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace octavo::engine
{

struct RecallMiss {
    std::string needle; ///< the definition that was hidden
    double depth = 0.0; ///< where: 0 the beginning, 1 the end
    std::string found;  ///< what was written instead of its value
};

struct Recall {
    int total = 0;
    std::vector<RecallMiss> misses;

    int correct() const { return total - int(misses.size()); }
};

struct RecallOptions {
    int needles = 20;
    std::uint64_t seed = 1; ///< of names and values
};

/// Reads `text` with the needles in it once; each question then runs on a fork. The value's tokens are decode steps,
/// so a sparse backend has to find the needle with its sketch. Fails as the backend does, or with Cancelled.
Result<Recall> evaluateRecall(Backend& backend, const Tokenizer& tokenizer, std::span<const TokenId> text,
                              const RecallOptions& options = {}, const EvaluationHooks& hooks = {});

} // namespace octavo::engine
