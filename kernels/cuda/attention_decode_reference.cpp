#include "kernels/cuda/attention_decode.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace octavo::kernels::cuda
{

void referenceAttentionHead(const float* query, const float* gate, const float* keys, const float* values,
                            std::int64_t keyStride, int count, double* out, const float* lifts)
{
    std::vector<double> weights(static_cast<std::size_t>(count));
    double maximum = -INFINITY, sum = 0.0;
    for (int j = 0; j < count; ++j) {
        double score = 0.0;
        for (int d = 0; d < kvHeadDim; ++d)
            score += double(query[d]) * keys[j * keyStride + d];
        weights[std::size_t(j)] = score / 16.0 + (lifts ? double(lifts[j]) : 0.0);
        maximum = std::max(maximum, weights[std::size_t(j)]);
    }
    for (double& weight : weights)
        sum += weight = std::exp(weight - maximum);
    for (int d = 0; d < kvHeadDim; ++d) {
        double value = 0.0;
        for (int j = 0; j < count; ++j)
            value += weights[std::size_t(j)] * values[j * keyStride + d];
        out[d] = count > 0 ? value / sum / (1.0 + std::exp(-double(gate[d]))) : 0.0;
    }
}

} // namespace octavo::kernels::cuda
