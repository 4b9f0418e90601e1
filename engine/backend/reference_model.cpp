#include "engine/backend/reference_model.h"

#include <algorithm>
#include <cmath>

namespace octavo::engine::reference
{

Model::Model(const ModelConfig& config, std::shared_ptr<const ModelWeights> weights)
    : m_config(config)
    , m_weights(std::move(weights))
{
    for (const LayerWeights& layer : m_weights->layers)
        m_layers.push_back(widened(layer));
    if (m_weights->mtp) {
        m_mtpFc = widened(m_weights->mtp->fc);
        m_mtpLayer = widened(m_weights->mtp->layer);
    }
    m_head = widened(m_weights->head());
    for (int j = 0; j < m_config.rotaryDim / 2; ++j)
        m_ropeFrequencies.push_back(float(std::pow(m_config.ropeTheta, -2.0 * j / m_config.rotaryDim)));
}

Matrix Model::widened(const LinearWeight& weight)
{
    Matrix matrix{weight.outFeatures, weight.inFeatures, std::vector<float>(std::size_t(weight.parameters()))};
    weight.dequantize(matrix.values);
    m_weightBytes += weight.parameters() * std::int64_t(sizeof(float));
    return matrix;
}

Model::Layer Model::widened(const LayerWeights& weights)
{
    Layer layer;
    layer.weights = &weights;
    if (weights.type == LayerType::FullAttention) {
        layer.q = widened(weights.attention->q);
        layer.k = widened(weights.attention->k);
        layer.v = widened(weights.attention->v);
        layer.o = widened(weights.attention->o);
    } else {
        layer.qkv = widened(weights.gdn->qkv);
        layer.z = widened(weights.gdn->z);
        layer.b = widened(weights.gdn->b);
        layer.a = widened(weights.gdn->a);
        layer.out = widened(weights.gdn->out);
    }
    layer.gate = widened(weights.mlp.gate);
    layer.up = widened(weights.mlp.up);
    layer.down = widened(weights.mlp.down);
    return layer;
}

std::int64_t Model::stateBytes(std::int64_t tokens) const
{
    const ModelConfig& c = m_config;
    const std::int64_t attention = c.numFullAttentionLayers(), gdn = c.numLayers - attention;
    const std::int64_t kvFloats = 2 * std::int64_t(c.numKvHeads) * c.headDim * tokens;
    const std::int64_t gdnFloats =
        std::int64_t(c.valueDim()) * c.linearKeyHeadDim + std::int64_t(c.linearConvKernel - 1) * c.convDim();
    return std::int64_t(sizeof(float)) * (attention * kvFloats + gdn * gdnFloats);
}

SequenceState Model::emptyState(std::int64_t maxTokens) const
{
    const ModelConfig& c = m_config;
    const std::size_t kvFloats = std::size_t(maxTokens) * std::size_t(c.numKvHeads) * std::size_t(c.headDim);
    SequenceState state;
    for (const Layer& layer : m_layers) {
        LayerState& memory = state.layers.emplace_back();
        if (layer.weights->type == LayerType::FullAttention) {
            memory.keys.reserve(kvFloats);
            memory.values.reserve(kvFloats);
        } else {
            memory.recurrent.assign(std::size_t(c.valueDim()) * std::size_t(c.linearKeyHeadDim), 0.0f);
            memory.conv.assign(std::size_t(c.linearConvKernel - 1) * std::size_t(c.convDim()), 0.0f);
        }
    }
    return state;
}

std::vector<float> Model::forward(SequenceState& state, std::span<const TokenId> tokens) const
{
    const std::size_t rows = tokens.size(), hidden = std::size_t(m_config.hiddenSize);
    std::vector<float> h(rows * hidden);
    for (std::size_t t = 0; t < rows; ++t)
        m_weights->embedding.dequantizeRow(tokens[t], std::span(h).subspan(t * hidden, hidden));
    for (std::size_t n = 0; n < m_layers.size(); ++n)
        run(m_layers[n], state.layers[n], state.length, rows, h);
    state.length += std::int64_t(rows);
    for (std::size_t t = 0; t < rows; ++t)
        rmsNorm(&h[t * hidden], m_weights->finalNorm, m_config.normEps, &h[t * hidden]);
    return h;
}

void Model::run(const Layer& layer, LayerState& state, std::int64_t position, std::size_t rows,
                std::vector<float>& h) const
{
    const std::size_t hidden = std::size_t(m_config.hiddenSize);
    std::vector<float> normed(h.size()), delta(h.size());
    auto normRows = [&](std::span<const float> weight) {
        for (std::size_t t = 0; t < rows; ++t)
            rmsNorm(&h[t * hidden], weight, m_config.normEps, &normed[t * hidden]);
    };
    auto addDelta = [&] {
        for (std::size_t i = 0; i < h.size(); ++i)
            h[i] += delta[i];
    };
    normRows(layer.weights->inputNorm);
    if (layer.weights->type == LayerType::FullAttention)
        attend(layer, state, position, rows, normed.data(), delta.data());
    else
        gatedDeltaNet(layer, state, rows, normed.data(), delta.data());
    addDelta();
    normRows(layer.weights->postAttentionNorm);
    mlp(layer, rows, normed.data(), delta.data());
    addDelta();
}

std::vector<float> Model::mtp(LayerState& state, std::span<const TokenId> tokens, const float* hidden) const
{
    const MtpWeights& weights = *m_weights->mtp;
    const std::size_t rows = tokens.size(), size = std::size_t(m_config.hiddenSize);
    std::vector<float> joined(rows * 2 * size), h(rows * size);
    for (std::size_t t = 0; t < rows; ++t) {
        float* embedding = &joined[t * 2 * size];
        m_weights->embedding.dequantizeRow(tokens[t], std::span(embedding, size));
        rmsNorm(embedding, weights.preFcNormEmbedding, m_config.normEps, embedding);
        rmsNorm(hidden + t * size, weights.preFcNormHidden, m_config.normEps, embedding + size);
    }
    multiply(m_mtpFc, joined.data(), rows, h.data());
    const std::size_t kvDim = std::size_t(m_config.numKvHeads) * std::size_t(m_config.headDim);
    run(m_mtpLayer, state, std::int64_t(state.keys.size() / kvDim), rows, h);
    for (std::size_t t = 0; t < rows; ++t)
        rmsNorm(&h[t * size], weights.norm, m_config.normEps, &h[t * size]);
    return h;
}

void Model::logits(const float* hidden, std::size_t rows, float* out) const
{
    multiply(m_head, hidden, rows, out);
}

void Model::mlp(const Layer& layer, std::size_t rows, const float* x, float* y) const
{
    std::vector<float> gate(rows * std::size_t(layer.gate.rows)), up(gate.size());
    multiply(layer.gate, x, rows, gate.data());
    multiply(layer.up, x, rows, up.data());
    for (std::size_t i = 0; i < gate.size(); ++i)
        gate[i] = silu(gate[i]) * up[i];
    multiply(layer.down, gate.data(), rows, y);
}

void Model::applyRope(float* head, std::int64_t position) const
{
    const std::size_t half = m_ropeFrequencies.size();
    for (std::size_t i = 0; i < half; ++i) {
        const float angle = float(position) * m_ropeFrequencies[i]; // rounded to float, as the model was trained
        const double cosine = std::cos(double(angle)), sine = std::sin(double(angle));
        const double x0 = head[i], x1 = head[i + half];
        head[i] = float(x0 * cosine - x1 * sine);
        head[i + half] = float(x1 * cosine + x0 * sine);
    }
}

/// Model-spec 3.5. q_proj gives, per head, headDim query values and then headDim gate values.
void Model::attend(const Layer& layer, LayerState& state, std::int64_t position, std::size_t rows, const float* x,
                   float* y) const
{
    const std::size_t dim = std::size_t(m_config.headDim), heads = std::size_t(m_config.numHeads),
                      kvHeads = std::size_t(m_config.numKvHeads), kvDim = kvHeads * dim;
    const AttentionWeights& weights = *layer.weights->attention;
    std::vector<float> qg(rows * heads * 2 * dim), k(rows * kvDim), v(rows * kvDim), context(rows * heads * dim);
    multiply(layer.q, x, rows, qg.data());
    multiply(layer.k, x, rows, k.data());
    multiply(layer.v, x, rows, v.data());
    for (std::size_t t = 0; t < rows; ++t) {
        for (std::size_t h = 0; h < kvHeads; ++h) {
            float* head = &k[t * kvDim + h * dim];
            rmsNorm(head, weights.kNorm, m_config.normEps, head);
            applyRope(head, position + std::int64_t(t));
        }
    }
    state.keys.insert(state.keys.end(), k.begin(), k.end());
    state.values.insert(state.values.end(), v.begin(), v.end());

    const double scoreScale = 1.0 / std::sqrt(double(dim));
    std::vector<double> scores;
    for (std::size_t t = 0; t < rows; ++t) {
        const std::size_t visible = std::size_t(position) + t + 1;
        scores.resize(visible);
        for (std::size_t h = 0; h < heads; ++h) {
            float* q = &qg[(t * heads + h) * 2 * dim];
            const float* gate = q + dim;
            const std::size_t kvOffset = h / (heads / kvHeads) * dim;
            rmsNorm(q, weights.qNorm, m_config.normEps, q);
            applyRope(q, position + std::int64_t(t));
            double largest = -HUGE_VAL, total = 0.0;
            dots(q, state.keys.data() + kvOffset, kvDim, dim, scores);
            for (double& score : scores) {
                score *= scoreScale;
                largest = std::max(largest, score);
            }
            for (double& score : scores) {
                score = std::exp(score - largest);
                total += score;
            }
            float* out = &context[(t * heads + h) * dim];
            for (std::size_t j = 0; j < visible; ++j)
                axpy(float(scores[j] / total), &state.values[j * kvDim + kvOffset], out, dim);
            for (std::size_t d = 0; d < dim; ++d)
                out[d] *= sigmoid(gate[d]);
        }
    }
    multiply(layer.o, context.data(), rows, y);
}

/// Model-spec 3.3, the recurrent form.
void Model::gatedDeltaNet(const Layer& layer, LayerState& state, std::size_t rows, const float* x, float* y) const
{
    const ModelConfig& c = m_config;
    const GdnWeights& weights = *layer.weights->gdn;
    const std::size_t keyDim = std::size_t(c.keyDim()), valueDim = std::size_t(c.valueDim()),
                      convDim = std::size_t(c.convDim()), taps = std::size_t(c.linearConvKernel),
                      dk = std::size_t(c.linearKeyHeadDim), dv = std::size_t(c.linearValueHeadDim),
                      valueHeads = std::size_t(c.linearNumValueHeads), keyHeads = std::size_t(c.linearNumKeyHeads);
    std::vector<float> u((taps - 1 + rows) * convDim), z(rows * valueDim), b(rows * valueHeads), a(rows * valueHeads);
    std::copy(state.conv.begin(), state.conv.end(), u.begin());
    multiply(layer.qkv, x, rows, &u[(taps - 1) * convDim]);
    multiply(layer.z, x, rows, z.data());
    multiply(layer.b, x, rows, b.data());
    multiply(layer.a, x, rows, a.data());

    std::vector<float> conved(convDim), output(rows * valueDim), predicted(dv);
    for (std::size_t t = 0; t < rows; ++t) {
        for (std::size_t channel = 0; channel < convDim; ++channel) {
            double sum = 0.0;
            for (std::size_t tap = 0; tap < taps; ++tap)
                sum += double(weights.conv[channel * taps + tap]) * double(u[(t + tap) * convDim + channel]);
            conved[channel] = silu(float(sum));
        }
        for (std::size_t part = 0; part < 2 * keyHeads; ++part) { // the heads of q, then those of k
            float* head = &conved[part * dk];
            const double norm = 1.0 / std::sqrt(dot(head, head, dk) + 1e-6);
            scale(float(part < keyHeads ? norm / std::sqrt(double(dk)) : norm), head, dk);
        }
        for (std::size_t h = 0; h < valueHeads; ++h) {
            const std::size_t keyHead = h / (valueHeads / keyHeads);
            const float* q = &conved[keyHead * dk];
            const float* k = &conved[keyDim + keyHead * dk];
            const float* v = &conved[2 * keyDim + h * dv];
            float* s = &state.recurrent[h * dk * dv];
            const float beta = sigmoid(b[t * valueHeads + h]);
            const double gate = -std::exp(double(weights.aLog[h])) *
                                softplus(double(a[t * valueHeads + h]) + double(weights.dtBias[h]));
            scale(float(std::exp(gate)), s, dk * dv);
            std::fill(predicted.begin(), predicted.end(), 0.0f);
            for (std::size_t i = 0; i < dk; ++i)
                axpy(k[i], s + i * dv, predicted.data(), dv);
            for (std::size_t j = 0; j < dv; ++j)
                predicted[j] = beta * (v[j] - predicted[j]);
            float* out = &output[t * valueDim + h * dv];
            for (std::size_t i = 0; i < dk; ++i) {
                axpy(k[i], predicted.data(), s + i * dv, dv);
                axpy(q[i], s + i * dv, out, dv);
            }
            rmsNorm(out, weights.norm, c.normEps, out);
            for (std::size_t j = 0; j < dv; ++j)
                out[j] *= silu(z[t * valueDim + h * dv + j]);
        }
    }
    std::copy(u.end() - std::ptrdiff_t(state.conv.size()), u.end(), state.conv.begin());
    multiply(layer.out, output.data(), rows, y);
}

} // namespace octavo::engine::reference
