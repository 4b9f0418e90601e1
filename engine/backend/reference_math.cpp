#include "engine/backend/reference_math.h"

#include <algorithm>
#include <cmath>

namespace octavo::engine::reference
{

namespace
{

using Float4 = float __attribute__((vector_size(16), aligned(4), may_alias));

inline const Float4& at(const float* p)
{
    return *reinterpret_cast<const Float4*>(p);
}
inline Float4& at(float* p)
{
    return *reinterpret_cast<Float4*>(p);
}

constexpr std::size_t blockSize = 256; // products per float sum

/// sums[t][n] = dot(x + t*k, w + n*wStride) over k, with every x and w element loaded once for the whole tile.
template <int tokens, int outputs>
void dotTile(const float* x, const float* w, std::size_t wStride, std::size_t k, double (&sums)[tokens][outputs])
{
    for (auto& row : sums)
        std::fill(std::begin(row), std::end(row), 0.0);
    std::size_t begin = 0;
    for (; begin + 4 <= k; begin = std::min(begin + blockSize, k - k % 4)) {
        const std::size_t end = std::min(begin + blockSize, k - k % 4);
        Float4 partial[tokens][outputs] = {};
        for (std::size_t i = begin; i < end; i += 4) {
            for (int t = 0; t < tokens; ++t) {
                for (int n = 0; n < outputs; ++n)
                    partial[t][n] += at(x + std::size_t(t) * k + i) * at(w + std::size_t(n) * wStride + i);
            }
        }
        for (int t = 0; t < tokens; ++t) {
            for (int n = 0; n < outputs; ++n) {
                const Float4 p = partial[t][n];
                sums[t][n] += double((p[0] + p[1]) + (p[2] + p[3]));
            }
        }
    }
    for (std::size_t i = k - k % 4; i < k; ++i) {
        for (int t = 0; t < tokens; ++t) {
            for (int n = 0; n < outputs; ++n)
                sums[t][n] += double(x[std::size_t(t) * k + i]) * double(w[std::size_t(n) * wStride + i]);
        }
    }
}

template <int tokens, int outputs>
void multiplyTile(const Matrix& w, const float* x, std::size_t token, std::size_t output, float* y)
{
    const std::size_t k = std::size_t(w.columns), n = std::size_t(w.rows);
    double sums[tokens][outputs];
    dotTile(x + token * k, w.values.data() + output * k, k, k, sums);
    for (int i = 0; i < tokens; ++i) {
        for (int j = 0; j < outputs; ++j)
            y[(token + std::size_t(i)) * n + output + std::size_t(j)] = float(sums[i][j]);
    }
}

} // namespace

double dot(const float* a, const float* b, std::size_t n)
{
    double sum[1][1];
    dotTile(a, b, n, n, sum);
    return sum[0][0];
}

void dots(const float* a, const float* rows, std::size_t stride, std::size_t n, std::span<double> out)
{
    constexpr int tile = 8; // one row alone would wait for each addition
    std::size_t i = 0;
    for (; i + tile <= out.size(); i += tile) {
        double sums[1][tile];
        dotTile(a, rows + i * stride, stride, n, sums);
        std::copy(std::begin(sums[0]), std::end(sums[0]), out.begin() + std::ptrdiff_t(i));
    }
    for (; i < out.size(); ++i)
        out[i] = dot(a, rows + i * stride, n);
}

void axpy(float a, const float* x, float* y, std::size_t n)
{
    std::size_t i = 0;
    for (; i + 4 <= n; i += 4)
        at(y + i) += a * at(x + i);
    for (; i < n; ++i)
        y[i] += a * x[i];
}

void scale(float a, float* x, std::size_t n)
{
    std::size_t i = 0;
    for (; i + 4 <= n; i += 4)
        at(x + i) *= a;
    for (; i < n; ++i)
        x[i] *= a;
}

void multiply(const Matrix& w, const float* x, std::size_t rows, float* y)
{
    const std::size_t outputs = std::size_t(w.rows);
    std::size_t n = 0;
    for (; n + 2 <= outputs; n += 2) {
        std::size_t t = 0;
        for (; t + 4 <= rows; t += 4)
            multiplyTile<4, 2>(w, x, t, n, y);
        for (; t < rows; ++t)
            multiplyTile<1, 2>(w, x, t, n, y);
    }
    for (; n < outputs; ++n) {
        for (std::size_t t = 0; t < rows; ++t)
            multiplyTile<1, 1>(w, x, t, n, y);
    }
}

void rmsNorm(const float* x, std::span<const float> weight, double eps, float* y)
{
    double squares = 0.0;
    for (std::size_t i = 0; i < weight.size(); ++i)
        squares += double(x[i]) * double(x[i]);
    const double factor = 1.0 / std::sqrt(squares / double(weight.size()) + eps);
    for (std::size_t i = 0; i < weight.size(); ++i)
        y[i] = float(double(x[i]) * factor * double(weight[i]));
}

float sigmoid(float x)
{
    return float(1.0 / (1.0 + std::exp(-double(x))));
}

float silu(float x)
{
    return float(double(x) / (1.0 + std::exp(-double(x))));
}

double softplus(double x)
{
    return x > 20.0 ? x : std::log1p(std::exp(x));
}

} // namespace octavo::engine::reference
