#include "kernels/cuda/argmax.h"
#include "kernels/cuda/row_peak.h"

#include <cmath>

namespace octavo::kernels::cuda
{

RowPeak referenceRowPeak(const float* logits, int columns)
{
    const std::int32_t best = referenceArgmax(logits, columns);
    if (best < 0)
        return {best, 0.0f};
    double sum = 0.0;
    for (int i = 0; i < columns; ++i)
        sum += logits[i] == INFINITY ? NAN : std::exp(double(logits[i]) - double(logits[best]));
    return {best, float(1.0 / sum)};
}

} // namespace octavo::kernels::cuda
