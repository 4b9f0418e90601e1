#include "kernels/cuda/gdn_chunk.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace octavo::kernels::cuda
{
namespace
{

constexpr int dim = gdnHeadDim;

double dot(const double* a, const double* b)
{
    double sum = 0.0;
    for (int i = 0; i < dim; ++i)
        sum += a[i] * b[i];
    return sum;
}

} // namespace

void referenceGdnChunks(double* state, const float* qkv, const float* beta, const float* decay, const float* gate,
                        int rows, const GdnLayer& layer, double* output)
{
    using Rows = std::vector<double>;
    for (int head = 0; head < layer.valueHeads; ++head) {
        const int keyHead = head / (layer.valueHeads / layer.keyHeads);
        double* s = state + std::int64_t{head} * dim * dim;
        for (int first = 0; first < rows; first += gdnChunkRows) {
            const int count = std::min(gdnChunkRows, rows - first);
            const auto size = std::size_t(count) * dim;
            Rows q(size), k(size), d(size), sums(static_cast<std::size_t>(count)), b(static_cast<std::size_t>(count));
            double sum = 0.0;
            for (int i = 0; i < count; ++i) {
                const float* row = qkv + std::int64_t{first + i} * layer.convDim();
                double qq = 1e-6, kk = 1e-6;
                for (int c = 0; c < dim; ++c) {
                    qq += double(row[keyHead * dim + c]) * row[keyHead * dim + c];
                    kk += double(row[(layer.keyHeads + keyHead) * dim + c]) * row[(layer.keyHeads + keyHead) * dim + c];
                }
                for (int c = 0; c < dim; ++c) {
                    q[std::size_t(i * dim + c)] = row[keyHead * dim + c] / std::sqrt(qq * dim);
                    k[std::size_t(i * dim + c)] = row[(layer.keyHeads + keyHead) * dim + c] / std::sqrt(kk);
                }
                const std::int64_t small = std::int64_t{first + i} * layer.valueHeads + head;
                sum -= std::exp(double(layer.aLog[head])) *
                       std::log1p(std::exp(double(decay[small]) + layer.dtBias[head]));
                sums[std::size_t(i)] = sum;
                b[std::size_t(i)] = 1.0 / (1.0 + std::exp(-double(beta[small])));
            }
            // (I + A) D = diag(beta) (V - diag(exp G) K S), row by row.
            for (int i = 0; i < count; ++i) {
                const float* v = qkv + std::int64_t{first + i} * layer.convDim() + (2 * layer.keyHeads + head) * dim;
                for (int c = 0; c < dim; ++c) {
                    double recalled = 0.0;
                    for (int r = 0; r < dim; ++r)
                        recalled += k[std::size_t(i * dim + r)] * s[r * dim + c];
                    d[std::size_t(i * dim + c)] =
                        b[std::size_t(i)] * (v[c] - std::exp(sums[std::size_t(i)]) * recalled);
                }
                for (int j = 0; j < i; ++j) {
                    const double a = b[std::size_t(i)] * std::exp(sums[std::size_t(i)] - sums[std::size_t(j)]) *
                                     dot(&k[std::size_t(i * dim)], &k[std::size_t(j * dim)]);
                    for (int c = 0; c < dim; ++c)
                        d[std::size_t(i * dim + c)] -= a * d[std::size_t(j * dim + c)];
                }
            }
            for (int i = 0; i < count; ++i) {
                Rows o(dim, 0.0);
                for (int r = 0; r < dim; ++r)
                    for (int c = 0; c < dim; ++c)
                        o[std::size_t(c)] +=
                            std::exp(sums[std::size_t(i)]) * q[std::size_t(i * dim + r)] * s[r * dim + c];
                for (int j = 0; j <= i; ++j) {
                    const double weight = std::exp(sums[std::size_t(i)] - sums[std::size_t(j)]) *
                                          dot(&q[std::size_t(i * dim)], &k[std::size_t(j * dim)]);
                    for (int c = 0; c < dim; ++c)
                        o[std::size_t(c)] += weight * d[std::size_t(j * dim + c)];
                }
                const double scale = 1.0 / std::sqrt(dot(o.data(), o.data()) / dim + layer.normEps);
                for (int c = 0; c < dim; ++c) {
                    const std::int64_t at = std::int64_t{first + i} * layer.valueDim() + head * dim + c;
                    const double z = gate[at];
                    output[at] = layer.norm[c] * o[std::size_t(c)] * scale * z / (1.0 + std::exp(-z));
                }
            }
            for (int i = 0; i < dim * dim; ++i)
                s[i] *= std::exp(sum);
            for (int j = 0; j < count; ++j) {
                const double factor = std::exp(sum - sums[std::size_t(j)]);
                for (int r = 0; r < dim; ++r)
                    for (int c = 0; c < dim; ++c)
                        s[r * dim + c] += factor * k[std::size_t(j * dim + r)] * d[std::size_t(j * dim + c)];
            }
        }
    }
}

} // namespace octavo::kernels::cuda
