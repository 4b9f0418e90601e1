#include "kernels/cpu/reference.h"

#include <algorithm>
#include <cmath>

namespace octavo::kernels::cpu::reference {

std::vector<double> linear(std::span<const double> w, std::span<const double> x, int outputs, int inputs)
{
    const std::size_t n = std::size_t(outputs), k = std::size_t(inputs), rows = x.size() / k;
    std::vector<double> y(rows * n, 0.0);
    for (std::size_t m = 0; m < rows; ++m) {
        for (std::size_t o = 0; o < n; ++o) {
            for (std::size_t i = 0; i < k; ++i)
                y[m * n + o] += w[o * k + i] * x[m * k + i];
        }
    }
    return y;
}

std::vector<double> rmsNorm(std::span<const float> x, std::span<const float> w, double eps)
{
    double squares = 0.0;
    for (float value : x)
        squares += double(value) * value;
    std::vector<double> y;
    for (std::size_t i = 0; i < x.size(); ++i)
        y.push_back(x[i] / std::sqrt(squares / double(x.size()) + eps) * w[i]);
    return y;
}

std::vector<double> attention(std::span<const double> q, std::span<const double> k, std::span<const double> v, int dim,
                              double scale)
{
    const std::size_t width = std::size_t(dim), tokens = k.size() / width;
    std::vector<double> scores(tokens), context(width, 0.0);
    for (std::size_t t = 0; t < tokens; ++t) {
        for (std::size_t d = 0; d < width; ++d)
            scores[t] += q[d] * k[t * width + d] * scale;
    }
    const double largest = *std::max_element(scores.begin(), scores.end());
    double sum = 0.0;
    for (std::size_t t = 0; t < tokens; ++t) {
        const double p = std::exp(scores[t] - largest);
        sum += p;
        for (std::size_t d = 0; d < width; ++d)
            context[d] += p * v[t * width + d];
    }
    for (double& value : context)
        value /= sum;
    return context;
}

std::vector<double> GdnHead::step(std::span<const float> q, std::span<const float> k, std::span<const float> v,
                                  double g, double beta)
{
    const std::size_t rows = std::size_t(keyDim), columns = std::size_t(valueDim);
    for (double& s : state)
        s *= std::exp(g);
    std::vector<double> correction(columns), out(columns, 0.0);
    for (std::size_t c = 0; c < columns; ++c) {
        double predicted = 0.0;
        for (std::size_t i = 0; i < rows; ++i)
            predicted += state[i * columns + c] * k[i];
        correction[c] = beta * (v[c] - predicted);
    }
    for (std::size_t i = 0; i < rows; ++i) {
        for (std::size_t c = 0; c < columns; ++c) {
            state[i * columns + c] += k[i] * correction[c];
            out[c] += state[i * columns + c] * q[i];
        }
    }
    return out;
}

} // namespace octavo::kernels::cpu::reference
