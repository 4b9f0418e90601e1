#include "kernels/cuda/argmax.h"

#include <cmath>

namespace octavo::kernels::cuda
{

std::int32_t referenceArgmax(const float* logits, int end)
{
    std::int32_t best = -1;
    for (int i = 0; i < end; ++i) {
        if (std::isfinite(logits[i]) && (best < 0 || logits[i] > logits[best]))
            best = i;
    }
    return best;
}

} // namespace octavo::kernels::cuda
