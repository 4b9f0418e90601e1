#include "kernels/cuda/elementwise.h"

#include <cmath>

namespace octavo::kernels::cuda
{

void referenceAddRmsNorm(double* hidden, const float* delta, const float* weight, double eps, int tokens, int dim,
                         double* y)
{
    for (int t = 0; t < tokens; ++t) {
        double* row = hidden + std::int64_t{t} * dim;
        double square = 0.0;
        for (int i = 0; i < dim; ++i) {
            if (delta)
                row[i] += delta[std::int64_t{t} * dim + i];
            square += row[i] * row[i];
        }
        for (int i = 0; i < dim; ++i)
            y[std::int64_t{t} * dim + i] = row[i] / std::sqrt(square / dim + eps) * weight[i];
    }
}

void referenceHeadNormRope(const float* head, const float* weight, double eps, int position, const float* frequencies,
                           double* out)
{
    double square = 0.0;
    for (int i = 0; i < 256; ++i)
        square += double(head[i]) * head[i];
    for (int i = 0; i < 256; ++i)
        out[i] = head[i] / std::sqrt(square / 256 + eps) * weight[i];
    for (int i = 0; i < 32; ++i) {
        const double angle = static_cast<float>(position) * frequencies[i]; // rounded to fp32, as the model was trained
        const double x0 = out[i], x1 = out[i + 32];
        out[i] = x0 * std::cos(angle) - x1 * std::sin(angle);
        out[i + 32] = x1 * std::cos(angle) + x0 * std::sin(angle);
    }
}

double referenceSiluMul(double gate, double up)
{
    return gate / (1.0 + std::exp(-gate)) * up;
}

} // namespace octavo::kernels::cuda
