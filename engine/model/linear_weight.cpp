#include "engine/model/float_formats.h"
#include "engine/model/weights.h"

#include <cassert>
#include <cstring>

namespace octavo::engine
{

namespace
{

void widen(LinearWeight::Format format, const void* stored, std::size_t first, std::span<float> out)
{
    if (format == LinearWeight::Format::F32) {
        std::memcpy(out.data(), static_cast<const float*>(stored) + first, out.size_bytes());
        return;
    }
    const std::uint16_t* values = static_cast<const std::uint16_t*>(stored) + first;
    if (format == LinearWeight::Format::Bf16) {
        for (std::size_t i = 0; i < out.size(); ++i)
            out[i] = floatFromBf16(values[i]);
    } else {
        for (std::size_t i = 0; i < out.size(); ++i)
            out[i] = floatFromHalf(values[i]);
    }
}

} // namespace

void LinearWeight::dequantizeRow(int n, std::span<float> out) const
{
    assert(n >= 0 && n < outFeatures && out.size() == std::size_t(inFeatures));
    if (format != Format::Int4) {
        widen(format, dense, std::size_t(n) * std::size_t(inFeatures), out);
        return;
    }
    const std::size_t stride = std::size_t(outFeatures), column = std::size_t(n);
    for (std::size_t k = 0; k < out.size(); ++k) {
        const std::size_t group = groupOfInput.empty() ? k / std::size_t(groupSize) : std::size_t(groupOfInput[k]);
        const int code = int(qweight[(k / 8) * stride + column] >> (4 * (k % 8)) & 15u);
        const int zero = zeros.empty() ? 8 : zeros[group * stride + column];
        out[k] = floatFromHalf(scales[group * stride + column]) * float(code - zero);
    }
}

void LinearWeight::dequantize(std::span<float> out) const
{
    assert(out.size() == std::size_t(parameters()));
    if (format != Format::Int4) {
        widen(format, dense, 0, out);
        return;
    }
    const std::size_t rows = std::size_t(outFeatures), columns = std::size_t(inFeatures);
    for (std::size_t k = 0; k < columns; k += 8) {
        for (std::size_t n = 0; n < rows; ++n) {
            const std::uint32_t word = qweight[k / 8 * rows + n];
            for (std::size_t j = 0; j < 8; ++j) {
                const std::size_t group =
                    groupOfInput.empty() ? (k + j) / std::size_t(groupSize) : std::size_t(groupOfInput[k + j]);
                const int zero = zeros.empty() ? 8 : zeros[group * rows + n];
                out[n * columns + k + j] =
                    floatFromHalf(scales[group * rows + n]) * float(int(word >> (4 * j) & 15u) - zero);
            }
        }
    }
}

std::int64_t LinearWeight::storedBytes() const
{
    switch (format) {
    case Format::Int4:
        return parameters() / 2 + std::int64_t(numGroups()) * outFeatures * (zeros.empty() ? 2 : 3);
    case Format::F32:
        return parameters() * 4;
    default:
        return parameters() * 2;
    }
}

std::vector<const LinearWeight*> ModelWeights::linears() const
{
    std::vector<const LinearWeight*> all = {&embedding};
    if (lmHead)
        all.push_back(&*lmHead);
    auto addLayer = [&](const LayerWeights& layer) {
        if (layer.attention)
            all.insert(all.end(), {&layer.attention->q, &layer.attention->k, &layer.attention->v, &layer.attention->o});
        if (layer.gdn)
            all.insert(all.end(), {&layer.gdn->qkv, &layer.gdn->z, &layer.gdn->b, &layer.gdn->a, &layer.gdn->out});
        all.insert(all.end(), {&layer.mlp.gate, &layer.mlp.up, &layer.mlp.down});
    };
    for (const LayerWeights& layer : layers)
        addLayer(layer);
    if (mtp) {
        all.push_back(&mtp->fc);
        addLayer(mtp->layer);
    }
    return all;
}

} // namespace octavo::engine
