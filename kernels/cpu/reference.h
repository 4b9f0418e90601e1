#pragma once

/// The formulas of the CPU kernels as plain loops in double: the yardstick of the tests, never called at run time.

#include <cstdint>
#include <span>
#include <vector>

namespace octavo::kernels::cpu::reference {

/// y[m][n] = sum_k w[n][k] * x[m][k].
std::vector<double> linear(std::span<const double> w, std::span<const double> x, int outputs, int inputs);

std::vector<double> rmsNorm(std::span<const float> x, std::span<const float> w, double eps);

/// softmax(q . k * scale) . v over the rows of k and v (tokens, dim).
std::vector<double> attention(std::span<const double> q, std::span<const double> k, std::span<const double> v, int dim,
                              double scale);

struct GdnHead {
    int keyDim = 0, valueDim = 0;
    std::vector<double> state; ///< (keyDim, valueDim)

    /// One row: decay first, read what is predicted, write the correction, then read for q.
    std::vector<double> step(std::span<const float> q, std::span<const float> k, std::span<const float> v, double g,
                             double beta);
};

} // namespace octavo::kernels::cpu::reference
