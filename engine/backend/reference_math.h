#pragma once

/// The few loops that the reference model spends its time in, on four floats at a time (SSE2 or NEON, whatever the
/// baseline has). Each output is summed in one fixed order, whatever the number of rows, so that a row's result does
/// not depend on its neighbours.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace octavo::engine::reference
{

/// Row-major float matrix.
struct Matrix {
    int rows = 0, columns = 0;
    std::vector<float> values;
};

/// sum_i a[i] * b[i]; partial sums of 256 products in float, their total in double.
double dot(const float* a, const float* b, std::size_t n);

/// out[j] = dot(a, rows + j * stride, n)
void dots(const float* a, const float* rows, std::size_t stride, std::size_t n, std::span<double> out);

/// y[i] += a * x[i]
void axpy(float a, const float* x, float* y, std::size_t n);

/// x[i] *= a
void scale(float a, float* x, std::size_t n);

/// y (rows, w.rows) = x (rows, w.columns) times w transposed. Sums as dot() does.
void multiply(const Matrix& w, const float* x, std::size_t rows, float* y);

/// y[i] = x[i] * rsqrt(mean(x^2) + eps) * weight[i], in double; y may be x.
void rmsNorm(const float* x, std::span<const float> weight, double eps, float* y);

float sigmoid(float x);
float silu(float x);
double softplus(double x); ///< log(1 + e^x); x itself above 20

} // namespace octavo::engine::reference
