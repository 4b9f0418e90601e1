#pragma once

/// The model's head in half the bytes, and how far each of its logits may be from the exact one.
///
/// Drafts look through it for their likeliest panels. Greedy steps find the very token of the full head with it: what a
/// token's rough logit and its bound together do not lift to the best exact logit seen so far, cannot be the best.
/// Bound    |exact - rough| <= bound of the token times the length of the hidden row: by Cauchy-Schwarz the length of the
///          difference of the two rows of weights, and what sums in float may lose. Both products take the same
///          quantised row, so its own rounding only counts in its length (rowLength()).

#include "engine/backend/cpu_linear.h"

#include <span>
#include <vector>

namespace octavo::engine
{

struct CpuRoughHead {
    CpuLinear linear;          ///< int4, a scale for each 128 inputs
    std::vector<float> bounds; ///< (outputs, whole panels): 0 behind the last

    std::int64_t bytes() const { return linear.bytes() + std::int64_t(bounds.size() * sizeof(float)); }
    /// What make() takes for a head of that size.
    static std::int64_t bytesOf(const LinearWeight& head);

    /// Of `head` and its form `exact`, which packInt8() made, with so many threads. Fails with FormatInvalid for
    /// weights that are no numbers, with Unsupported for such that are too large for bounds.
    static Result<CpuRoughHead> make(const LinearWeight& head, const CpuLinear& exact, int threads);

    /// No less than the length of x as it was quantised; infinite where that is not safely in the range of floats.
    static float rowLength(std::span<const float> x);
};

} // namespace octavo::engine
