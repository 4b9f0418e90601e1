#include "kernels/cuda/gdn_decode.h"

#include <cmath>
#include <vector>

namespace octavo::kernels::cuda
{

void referenceGdnConv(double* history, const float* input, int rows, int channels, const float* weights, double* output)
{
    for (int c = 0; c < channels; ++c) {
        double u[4] = {0.0, history[c], history[channels + c], history[2 * std::int64_t{channels} + c]};
        for (int t = 0; t < rows; ++t) {
            u[0] = u[1], u[1] = u[2], u[2] = u[3];
            u[3] = input[std::int64_t{t} * channels + c];
            double y = 0.0;
            for (int j = 0; j < 4; ++j)
                y += double(weights[std::int64_t{c} * 4 + j]) * u[j];
            output[std::int64_t{t} * channels + c] = y / (1.0 + std::exp(-y));
        }
        for (int i = 0; i < convHistory; ++i)
            history[std::int64_t{i} * channels + c] = u[i + 1];
    }
}

void referenceGdnDecode(double* state, const float* qkv, const float* beta, const float* decay, const float* gate,
                        int rows, const GdnLayer& layer, double* output)
{
    constexpr int dim = gdnHeadDim;
    std::vector<double> k(dim), q(dim), o(dim), d(dim);
    for (int t = 0; t < rows; ++t) {
        const float* row = qkv + std::int64_t{t} * layer.convDim();
        for (int head = 0; head < layer.valueHeads; ++head) {
            const int keyHead = head / (layer.valueHeads / layer.keyHeads);
            double* s = state + std::int64_t{head} * dim * dim;
            double kk = 0.0, qq = 0.0;
            for (int i = 0; i < dim; ++i) {
                q[i] = row[keyHead * dim + i];
                k[i] = row[(layer.keyHeads + keyHead) * dim + i];
                qq += q[i] * q[i];
                kk += k[i] * k[i];
            }
            for (int i = 0; i < dim; ++i) {
                q[i] /= std::sqrt(qq + 1e-6) * std::sqrt(double(dim));
                k[i] /= std::sqrt(kk + 1e-6);
            }
            const double x = double(decay[t * layer.valueHeads + head]) + layer.dtBias[head];
            const double g = -std::exp(double(layer.aLog[head])) * std::log1p(std::exp(x));
            const double b = 1.0 / (1.0 + std::exp(-double(beta[t * layer.valueHeads + head])));
            double square = 0.0;
            for (int j = 0; j < dim; ++j) {
                double r = 0.0;
                for (int i = 0; i < dim; ++i) {
                    s[i * dim + j] *= std::exp(g);
                    r += s[i * dim + j] * k[i];
                }
                d[j] = b * (row[(2 * layer.keyHeads + head) * dim + j] - r);
                o[j] = 0.0;
                for (int i = 0; i < dim; ++i) {
                    s[i * dim + j] += k[i] * d[j];
                    o[j] += s[i * dim + j] * q[i];
                }
                square += o[j] * o[j];
            }
            for (int j = 0; j < dim; ++j) {
                const std::int64_t offset = std::int64_t{t} * layer.valueDim() + head * dim + j;
                const double z = gate[offset];
                output[offset] =
                    layer.norm[j] * o[j] / std::sqrt(square / dim + layer.normEps) * z / (1.0 + std::exp(-z));
            }
        }
    }
}

} // namespace octavo::kernels::cuda
