#pragma once

/// Turns 16-bit and float linear layers into int4 while a checkpoint is loaded, so that a model published in bf16 takes
/// the memory of its int4 form.
///
/// Numerics codes -8 .. 7 with one fp16 scale for 128 inputs of an output, no zero points: what a symmetric GPTQ file
///          holds. Of ten ways to lay the grid over a group the one with the least squared error is taken, each with
///          its best scale; the first alone takes a tenth of the time. The result depends on the weights alone, not on
///          the number of threads.
/// Memory   that of the result, and a few rows per thread.

#include "engine/model/weights.h"
#include "engine/result.h"

#include <cstdint>
#include <vector>

namespace octavo::engine
{

inline constexpr int quantizedGroupSize = 128;

struct QuantizedLinear {
    LinearWeight weight; ///< int4; points into what follows, which moves with it
    std::vector<std::uint32_t> codes;
    std::vector<std::uint16_t> scales;
};

/// What is worth int4: all linear layers of `layer` but GDN's b and a, which are small and run as one.
std::vector<const LinearWeight*> bigLinears(const LayerWeights& layer);

/// Whether a layer is one that quantizeInt4() takes: stored as floats, at least one group wide, inputs a multiple of 8.
bool canQuantize(const LinearWeight& weight);

/// Whether all ways to lay the grid over a group are tried.
enum class GridSearch { Best, First };

/// Spreads the outputs over `threads`. Fails with FormatInvalid where a weight is no finite number.
Result<QuantizedLinear> quantizeInt4(const LinearWeight& weight, int threads, GridSearch search = GridSearch::Best);

} // namespace octavo::engine
