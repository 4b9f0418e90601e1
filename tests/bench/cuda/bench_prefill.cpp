#include "tests/bench/cuda/benches.h"

#include "engine/backend/cuda_prefill.h"
#include "kernels/cuda/gdn_chunk.h"

#include <array>

/// Reading 244K tokens of the 27B shape through CudaPrefill: whole slices of 2,048 rows behind contexts of several
/// lengths, random weights and rows, and the parts of a slice by themselves. What lies between is interpolated: a
/// slice's time is a constant and a term that grows with the context.

namespace octavo::gpu
{

using namespace kernels::cuda;

namespace
{

constexpr int hidden = 5120, ffn = 17408, layers = 64, attentionLayers = layers / 4,
              gdnLayers = layers - attentionLayers;
constexpr int heads = 24, kvHeads = 4, keyHeads = 16, valueHeads = 48;
constexpr int convDim = (2 * keyHeads + valueHeads) * 128, valueDim = valueHeads * 128, mixWidth = convDim + valueDim;
constexpr int attentionWidth = (2 * heads + 2 * kvHeads) * 256;
constexpr int rows = engine::CudaPrefill::mostRows;
constexpr int contextTokens = 244 * 1000 / rows * rows; // 243,712: the slices that fit in 244,000
constexpr std::array offsets = {0, 60 * 1024, 120 * 1024, contextTokens - rows};
constexpr double targetSeconds = 70.0;

/// Milliseconds of `run`, the least of three after one that warms up.
double milliseconds(cudaStream_t stream, const std::function<void()>& run, int times = 3)
{
    cudaEvent_t start, stop;
    OCTAVO_REQUIRE(cudaEventCreate(&start));
    OCTAVO_REQUIRE(cudaEventCreate(&stop));
    double least = 1e30;
    for (int i = 0; i <= times; ++i) {
        OCTAVO_REQUIRE(cudaEventRecord(start, stream));
        run();
        OCTAVO_REQUIRE(cudaEventRecord(stop, stream));
        OCTAVO_REQUIRE(cudaStreamSynchronize(stream));
        float ms = 0;
        OCTAVO_REQUIRE(cudaEventElapsedTime(&ms, start, stop));
        if (i > 0)
            least = std::min(least, double(ms));
    }
    OCTAVO_REQUIRE(cudaEventDestroy(start));
    OCTAVO_REQUIRE(cudaEventDestroy(stop));
    return least;
}

engine::ModelConfig shape27B()
{
    engine::ModelConfig c;
    c.hiddenSize = hidden;
    c.intermediateSize = ffn;
    c.numLayers = layers;
    c.vocabSize = 1024; // of the embedding alone
    c.numHeads = heads;
    c.numKvHeads = kvHeads;
    c.headDim = 256;
    c.linearNumKeyHeads = keyHeads;
    c.linearNumValueHeads = valueHeads;
    c.linearKeyHeadDim = c.linearValueHeadDim = 128;
    c.linearConvKernel = 4;
    c.normEps = 1e-6;
    c.layerTypes.clear();
    for (int i = 0; i < layers; ++i)
        c.layerTypes.push_back(i % 4 == 3 ? engine::LayerType::FullAttention : engine::LayerType::LinearAttention);
    return c;
}

/// Random weights of the shape: what lies in int4 repeats after some megabytes.
class Model
{
public:
    Model()
    {
        Random random(61);
        std::vector<std::uint8_t> seed(std::size_t(8192) * w4UnitBytes);
        for (std::size_t i = 0; i + 8 <= seed.size(); i += 8) {
            const std::uint64_t bits = random.bits();
            std::memcpy(&seed[i], &bits, 8);
        }
        for (std::size_t unit = 0; unit < seed.size(); unit += w4UnitBytes) {
            for (std::size_t i = 0; i < 128; ++i) {
                const __half scale = __float2half(random.below(2) ? 0.003f : -0.003f);
                std::memcpy(&seed[unit + 8192 + 2 * i], &scale, 2);
            }
        }
        const std::int64_t perGdn = w4PackedBytes(mixWidth, hidden) + w4PackedBytes(hidden, valueDim);
        const std::int64_t perAttention = w4PackedBytes(attentionWidth, hidden) + w4PackedBytes(hidden, heads * 256);
        const std::int64_t perMlp = w4PackedBytes(2 * ffn, hidden) + w4PackedBytes(hidden, ffn);
        const std::int64_t bytes = perGdn * gdnLayers + perAttention * attentionLayers + perMlp * layers;
        m_units = DeviceArray<std::uint8_t>(std::size_t(bytes));
        const DeviceArray<std::uint8_t> seedDevice(seed);
        for (std::int64_t at = 0; at < bytes; at += std::int64_t(seed.size()))
            OCTAVO_REQUIRE(cudaMemcpy(m_units.data() + at, seedDevice.data(),
                                      std::size_t(std::min<std::int64_t>(std::int64_t(seed.size()), bytes - at)),
                                      cudaMemcpyDeviceToDevice));
        m_floats.upload(std::vector<float>(m_floats.size(), 1.0f));
        m_conv.upload(randomBf16(random, m_conv.size(), 0.5));
        m_small.upload(toBf16(randomBf16(random, m_small.size(), 0.01)));
        m_embedding.upload(toBf16(randomBf16(random, m_embedding.size())));

        std::int64_t at = 0;
        const auto linear = [&](int out, int in, bool gated = false) {
            engine::CudaLinear made;
            made.int4 = {m_units.data() + at, out, in};
            made.gated = gated;
            at += made.int4.bytes();
            return made;
        };
        model.embedding.dense = {m_embedding.data(), 1024, hidden, hidden};
        model.finalNorm = m_floats.data();
        std::vector<float> frequencies;
        for (int j = 0; j < 32; ++j)
            frequencies.push_back(float(std::pow(1e7, -j / 32.0)));
        m_frequencies.upload(frequencies);
        model.ropeFrequencies = m_frequencies.data();
        for (int i = 0; i < layers; ++i) {
            engine::CudaLayer layer;
            layer.inputNorm = layer.postAttentionNorm = m_floats.data();
            if (i % 4 == 3) {
                layer.type = engine::LayerType::FullAttention;
                layer.queryKeyValue = linear(attentionWidth, hidden);
                layer.attentionOut = linear(hidden, heads * 256);
                layer.queryNorm = layer.keyNorm = m_floats.data();
            } else {
                layer.type = engine::LayerType::LinearAttention;
                layer.mix = linear(mixWidth, hidden);
                layer.gdnOut = linear(hidden, valueDim);
                layer.projection.dense = {m_small.data(), 2 * valueHeads, hidden, hidden};
                layer.conv = m_conv.data();
                layer.gdn = {keyHeads, valueHeads, m_floats.data(), m_floats.data(), m_floats.data(), 1e-6f};
            }
            layer.gateUp = linear(2 * ffn, hidden, true);
            layer.down = linear(hidden, ffn);
            model.layers.push_back(layer);
        }
    }

    engine::CudaModel model;

private:
    DeviceArray<std::uint8_t> m_units;
    DeviceArray<float> m_frequencies{32}, m_floats{hidden}, m_conv{std::size_t(convDim) * 4};
    DeviceArray<__nv_bfloat16> m_small{std::size_t(2) * valueHeads * hidden}, m_embedding{std::size_t(1024) * hidden};
};

/// Rows of a whole context on the device, every page with the same random ones, and the states.
class Sequence
{
public:
    Sequence()
    {
        Random random(62);
        constexpr std::size_t pageBytes = std::size_t(rowPageTokens) * kvHeads * kvHeadBytes * attentionLayers;
        constexpr std::size_t numPages = (contextTokens + rowPageTokens - 1) / rowPageTokens;
        std::vector<std::uint8_t> page(pageBytes);
        for (std::size_t i = 0; i + 8 <= pageBytes; i += 8) {
            const std::uint64_t bits = random.bits();
            std::memcpy(&page[i], &bits, 8);
        }
        for (std::size_t row = 0; row < pageBytes; row += kvHeadBytes) {
            for (std::size_t i = 0; i < 8; ++i) {
                const __half scale = __float2half(float(random.uniform(0.1, 0.3)));
                std::memcpy(&page[row + 256 + 2 * i], &scale, 2);
            }
        }
        m_pages = DeviceArray<std::uint8_t>(pageBytes * numPages);
        const DeviceArray<std::uint8_t> first(page);
        for (std::size_t i = 0; i < numPages; ++i) {
            pages.push_back(m_pages.data() + i * pageBytes);
            OCTAVO_REQUIRE(cudaMemcpy(pages.back(), first.data(), pageBytes, cudaMemcpyDeviceToDevice));
        }
        pageTable = DeviceArray<std::uint8_t*>(pages);
        m_states.zero();
        m_histories.zero();
        for (int layer = 0; layer < gdnLayers; ++layer)
            gdn.push_back({m_states.data() + std::size_t(layer) * valueHeads * 128 * 128,
                           m_histories.data() + std::size_t(layer) * 3 * convDim, nullptr, nullptr, nullptr, nullptr});
    }

    std::vector<std::uint8_t*> pages;
    DeviceArray<std::uint8_t*> pageTable;
    std::vector<engine::CudaGdnState> gdn;

private:
    DeviceArray<std::uint8_t> m_pages;
    DeviceArray<float> m_states{std::size_t(gdnLayers) * valueHeads * 128 * 128};
    DeviceArray<__nv_bfloat16> m_histories{std::size_t(gdnLayers) * 3 * convDim};
};

/// Figure of the whole context from a part's times at `offsets`, in seconds.
double integrate(const std::array<double, offsets.size()>& ms)
{
    double sum = 0.0;
    for (int at = 0; at < contextTokens; at += rows) {
        std::size_t i = 0;
        while (i + 2 < offsets.size() && at >= offsets[i + 1])
            ++i;
        const double share = double(at - offsets[i]) / (offsets[i + 1] - offsets[i]);
        sum += ms[i] + share * (ms[i + 1] - ms[i]);
    }
    return sum / 1000.0;
}

} // namespace

void benchPrefill(Report& report)
{
    Random random(63);
    Model model;
    Sequence sequence;
    const engine::ModelConfig config = shape27B();
    auto prefill = engine::CudaPrefill::create(config, model.model, false, contextTokens, 2'500'000'000, {});
    if (!prefill || !prefill->available()) {
        report.line("prefill: %s", prefill ? prefill->why().c_str() : prefill.error().message.c_str());
        return;
    }
    std::string why;
    const auto gemm = Bf16Gemm::open(rows, why);
    const std::size_t freeBefore = [] {
        std::size_t freeBytes = 0, total = 0;
        OCTAVO_REQUIRE(cudaMemGetInfo(&freeBytes, &total));
        return freeBytes;
    }();
    cudaStream_t stream;
    OCTAVO_REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    DeviceArray<std::uint8_t> workspace(Bf16Gemm::workspaceBytes);

    { // the ceiling: a product of 8192 x 8192 x 8192 on random data
        constexpr int n = 8192;
        const std::vector<__nv_bfloat16> values = toBf16(randomBf16(random, std::size_t(n) * 1024));
        DeviceArray<__nv_bfloat16> a(std::size_t(n) * n), b(std::size_t(n) * n), c(std::size_t(n) * n);
        for (std::size_t at = 0; at < a.size(); at += values.size()) {
            OCTAVO_REQUIRE(cudaMemcpy(a.data() + at, values.data(), values.size() * 2, cudaMemcpyHostToDevice));
            OCTAVO_REQUIRE(cudaMemcpy(b.data() + at, values.data(), values.size() * 2, cudaMemcpyHostToDevice));
        }
        const double ms = milliseconds(stream, [&] {
            OCTAVO_REQUIRE(
                gemm->multiply({a.data(), n, n, n}, {b.data(), n, n, n}, c.data(), n, workspace.data(), stream));
        });
        report.line("cuBLASLt 8192 x 8192 x 8192: %.0f TFLOP/s", 2.0 * n * n * double(n) / ms / 1e9);
    }
    constexpr double peak = 780e12; // what floors are counted at: bf16 products on random data reach it on an H200

    std::vector<engine::TokenId> tokens(rows);
    for (auto& token : tokens)
        token = engine::TokenId(random.below(1024));
    const engine::CudaSparse dense;
    using Times = std::array<double, offsets.size()>;
    Times whole{}, attention{}, other{};
    for (std::size_t i = 0; i < offsets.size(); ++i) {
        engine::CudaPrefill::Slice slice{tokens, offsets[i], {}, sequence.gdn, 0, nullptr};
        slice.pages.assign(sequence.pages.begin(),
                           sequence.pages.begin() + (offsets[i] + rows + rowPageTokens - 1) / rowPageTokens);
        whole[i] = milliseconds(
            stream,
            [&] {
                const auto done = prefill->run(slice, dense, stream);
                if (!done) {
                    std::printf("FATAL %s\n", done.error().message.c_str());
                    std::exit(3);
                }
            },
            2);
    }
    std::size_t freeBytes = 0, total = 0;
    OCTAVO_REQUIRE(cudaMemGetInfo(&freeBytes, &total));

    // The parts by themselves: inputs are whatever lies in one buffer, finite and random.
    DeviceArray<__nv_bfloat16> x(std::size_t(rows) * 2 * ffn), y(std::size_t(rows) * 2 * ffn),
        matrix(std::size_t(2) * ffn * hidden);
    const std::vector<__nv_bfloat16> noise = toBf16(randomBf16(random, std::size_t(rows) * 1024));
    for (std::size_t at = 0; at < x.size(); at += noise.size())
        OCTAVO_REQUIRE(
            cudaMemcpy(x.data() + at, noise.data(), std::min(noise.size(), x.size() - at) * 2, cudaMemcpyHostToDevice));
    const auto everyLinear = [&](const std::function<void(const engine::CudaLinear&)>& run) {
        for (const engine::CudaLayer& layer : model.model.layers) {
            const bool full = layer.type == engine::LayerType::FullAttention;
            run(full ? layer.queryKeyValue : layer.mix);
            run(full ? layer.attentionOut : layer.gdnOut);
            run(layer.gateUp);
            run(layer.down);
        }
    };
    const auto dequantize = [&](const engine::CudaLinear& l) {
        OCTAVO_REQUIRE(launchW4Dequantize(l.int4, 0, denseView(matrix.data(), l.outFeatures(), l.inFeatures()), stream,
                                          l.gated ? l.outFeatures() / 2 : 0));
    };
    const auto multiply = [&](const engine::CudaLinear& l) {
        const MatrixView<const __nv_bfloat16> w{matrix.data(), l.outFeatures(), l.inFeatures(), l.inFeatures()};
        OCTAVO_REQUIRE(gemm->multiply({x.data(), rows, l.inFeatures(), l.inFeatures()}, w, y.data(), l.outFeatures(),
                                      workspace.data(), stream));
    };
    const double unpacking = milliseconds(stream, [&] { everyLinear(dequantize); });
    const double products = milliseconds(stream, [&] { everyLinear(multiply); });

    DeviceArray<float> state(std::size_t(valueHeads) * 128 * 128);
    state.zero();
    DeviceArray<std::uint8_t> chunkSpace(gdnChunkBytes(rows, valueHeads));
    const GdnChunkInput chunkInput{x.data(), x.data(), x.data() + valueHeads, 2 * valueHeads, x.data(),
                                   valueDim, rows,     state.data(),          y.data()};
    const double delta =
        gdnLayers * milliseconds(stream, [&] {
            OCTAVO_REQUIRE(launchGdnChunks(chunkInput, model.model.layers[0].gdn, chunkSpace.data(), stream));
        });

    constexpr int stretchTokens = 32768;
    DeviceArray<__nv_bfloat16> keys(std::size_t(kvHeads) * stretchTokens * 256), values(keys.size());
    DeviceArray<float> sums(prefillAttentionFloats(rows, heads, kvHeads));
    const auto attend = [&](int offset, PrefillPath path) {
        const PrefillQueries queries{x.data(), x.data(), heads * 256, 256, rows, heads, kvHeads, offset};
        KvStretch stretch{keys.data(), values.data(), stretchTokens, 0, 0};
        for (int begin = 0; begin < offset + rows; begin += stretchTokens) {
            stretch.begin = begin;
            stretch.end = std::min(offset + rows, begin + stretchTokens);
            OCTAVO_REQUIRE(launchDequantizeRows({sequence.pageTable.data(), 0}, kvHeads, stretch, stream));
            OCTAVO_REQUIRE(launchPrefillAttention(queries, stretch, sums.data(), y.data(), path, stream));
        }
    };
    const auto attentionFlops = [&](int offset) { return 4.0 * heads * 256 * rows * (offset + (rows + 1) / 2.0); };
    for (std::size_t i = 0; i < offsets.size(); ++i) {
        attention[i] = attentionLayers * milliseconds(stream, [&] { attend(offsets[i], PrefillPath::Auto); });
        other[i] = whole[i] - attention[i] - products - unpacking - delta;
    }
    const double slower = milliseconds(stream, [&] { attend(offsets[1], PrefillPath::Tiles64); });
    const double rowsToBf16 = milliseconds(stream, [&] {
        OCTAVO_REQUIRE(launchDequantizeRows({sequence.pageTable.data(), 0}, kvHeads,
                                            {keys.data(), values.data(), stretchTokens, 0, stretchTokens}, stream));
    });

    const double productFlops = 2.0 * 24.35e9 * rows, deltaFlops = 0.38e9 * rows;
    report.line("slice of %d rows, ms (share of the floor at %.0f TFLOP/s)", rows, peak / 1e12);
    for (std::size_t i = 0; i < offsets.size(); ++i) {
        const double floor = (productFlops + deltaFlops + attentionFlops(offsets[i]) * attentionLayers) / peak * 1e3;
        report.line("  at %6d: %7.1f (%2.0f%%) | products %.1f (%2.0f%%), to bf16 %.1f, attention %.1f (%.0f TFLOP/s), "
                    "delta rule %.1f, rest %.1f",
                    offsets[i], whole[i], 100.0 * floor / whole[i], products,
                    100.0 * productFlops / peak * 1e3 / products, unpacking, attention[i],
                    attentionFlops(offsets[i]) * attentionLayers / attention[i] / 1e9, delta, other[i]);
    }
    report.line(
        "  attention of one layer at %d: %.2f ms, with mma.sync %.2f ms (%.0f TFLOP/s); 32,768 rows to bf16 %.3f ms",
        offsets[1], attention[1] / attentionLayers, slower, attentionFlops(offsets[1]) / slower / 1e9, rowsToBf16);
    double flops = 0.0;
    for (int at = 0; at < contextTokens; at += rows)
        flops += productFlops + deltaFlops + attentionFlops(at) * attentionLayers;
    const double seconds = integrate(whole);
    const double slices = contextTokens / rows;
    report.line("prefill of %d tokens: %.1f s (target %.0f), floor %.1f s, %.0f%% of it; products %.1f, to bf16 %.1f, "
                "attention %.1f, delta rule %.1f, rest %.1f s",
                contextTokens, seconds, targetSeconds, flops / peak, 100.0 * flops / peak / seconds,
                products * slices / 1e3, unpacking * slices / 1e3, integrate(attention), delta * slices / 1e3,
                integrate(other));
    report.line("scratch %.0f MB, %.0f MB more taken while it ran (target 2,500 MB)", double(prefill->bytes()) / 1e6,
                double(freeBefore) / 1e6 - double(freeBytes) / 1e6);
    OCTAVO_REQUIRE(cudaStreamDestroy(stream));
}

} // namespace octavo::gpu
