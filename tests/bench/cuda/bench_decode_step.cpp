#include "tests/bench/cuda/benches.h"

#include "kernels/cuda/attention_decode.h"
#include "kernels/cuda/attention_input.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/gdn_decode.h"
#include "kernels/cuda/hot_buffer.h"
#include "kernels/cuda/sketch.h"
#include "kernels/cuda/w4_gemm.h"

#include <cmath>
#include <numeric>

/// All kernels of one decode step of the 27B shape as one CUDA graph: random weights, 250K tokens per agent, sparse
/// attention. The picks come from real scores and the buffer's lookup runs on them; the gather copies a fixed 307 rows
/// per agent and layer (15% of 2048), since the same picks at every replay would never miss.

namespace octavo::gpu
{

using namespace kernels::cuda;

namespace
{

constexpr int hidden = 5120, ffn = 17408, vocab = 248320, layers = 64;
constexpr int heads = 24, kvHeads = 4, keyHeads = 16, valueHeads = 48;
constexpr int convDim = (2 * keyHeads + valueHeads) * 128, valueDim = valueHeads * 128;
constexpr int attentionWidth = (2 * heads + 2 * kvHeads) * 256;
constexpr int tokens = 250000, tiles = (tokens + 63) / 64 * 4, picks = 2048, missesPerLayer = 307;
constexpr int attended = 64 + 1024 + picks, slots = 8192;
constexpr int rowBytes = kvHeads * kvHeadBytes;
constexpr int attentionLayers = layers / 4, gdnLayers = layers - attentionLayers;
constexpr int mixWidth = convDim + valueDim; // query, key, value and gate of a GDN layer in one product

/// Kernels that a step can leave out, to see what they cost.
enum Kernel : unsigned {
    Norm = 1,
    Product = 2,
    Mix = 4,
    Delta = 8,
    Input = 16,
    Pick = 32,
    Lookup = 128,
    Gather = 256,
    Attend = 512
};

std::vector<std::uint8_t> randomUnits(Random& random, int count)
{
    std::vector<std::uint8_t> units(std::size_t(count) * w4UnitBytes);
    for (std::size_t i = 0; i + 8 <= units.size(); i += 8) {
        const std::uint64_t bits = random.bits();
        std::memcpy(&units[i], &bits, 8);
    }
    for (int unit = 0; unit < count; ++unit) {
        for (int i = 0; i < 128; ++i) {
            const __half scale = __float2half(random.below(2) ? 0.003f : -0.003f);
            std::memcpy(&units[std::size_t(unit) * w4UnitBytes + 8192 + 2 * std::size_t(i)], &scale, 2);
        }
    }
    return units;
}

/// The whole model and as many agents, on the device.
class Step
{
public:
    /// Dense: every agent attends to all of its rows (the same ones on every layer, to save memory), picks none.
    explicit Step(int agents, const std::uint8_t* hostRows, int hostTokens, bool dense = false)
        : m_agents(agents)
        , m_dense(dense)
        , m_random(21)
        , m_blocks(multiprocessors())
    {
        const std::int64_t perGdn = w4PackedBytes(mixWidth, hidden) + w4PackedBytes(hidden, valueDim);
        const std::int64_t perAttention = w4PackedBytes(attentionWidth, hidden) + w4PackedBytes(hidden, heads * 256);
        const std::int64_t perMlp = w4PackedBytes(2 * ffn, hidden) + w4PackedBytes(hidden, ffn);
        m_weightBytes =
            perGdn * gdnLayers + perAttention * attentionLayers + perMlp * layers + w4PackedBytes(vocab, hidden);
        m_weights = DeviceArray<std::uint8_t>(std::size_t(m_weightBytes));
        const DeviceArray<std::uint8_t> seed(randomUnits(m_random, 8192));
        for (std::int64_t at = 0; at < m_weightBytes; at += std::int64_t(seed.size()))
            OCTAVO_REQUIRE(
                cudaMemcpy(m_weights.data() + at, seed.data(),
                           std::size_t(std::min<std::int64_t>(std::int64_t(seed.size()), m_weightBytes - at)),
                           cudaMemcpyDeviceToDevice));
        m_partials.zero();
        m_arrivals.zero();
        m_hidden.upload(toBf16(randomBf16(m_random, m_hidden.size())));
        m_floats.upload(std::vector<float>(m_floats.size(), 1.0f));
        m_small.upload(toBf16(randomBf16(m_random, m_small.size(), 0.01)));
        m_basis.upload(std::vector<float>(m_basis.size(), 0.0625f));
        m_bytesRead.zero();

        std::vector<std::uint8_t> codes(std::size_t(kvHeads) * tiles * sketchTileBytes);
        for (std::size_t i = 0; i + 8 <= codes.size(); i += 8) {
            const std::uint64_t bits = m_random.bits();
            std::memcpy(&codes[i], &bits, 8);
        }
        const std::vector<__half> scales(std::size_t(kvHeads) * tiles * 16, __float2half(0.03f));
        std::vector<std::int32_t> rowIds(attended), missTokens(missesPerLayer), missSlots(missesPerLayer);
        std::iota(missSlots.begin(), missSlots.end(), 0);
        m_missCount.upload({missesPerLayer});
        m_positions.upload(std::vector<std::int32_t>(m_positions.size(), tokens - 1));
        for (int agent = 0; agent < agents; ++agent) {
            m_projected.emplace_back(toBf16(randomBf16(m_random, heads * 64)));
            for (auto& id : rowIds)
                id = m_random.below(slots);
            m_rowIds.emplace_back(rowIds);
            for (auto& token : missTokens)
                token = m_random.below(hostTokens);
            m_missTokens.emplace_back(missTokens);
            m_missSlots.emplace_back(missSlots);
            m_selections.emplace_back();
            m_readingsHost.push_back({agent, 1});
        }
        for (int layer = 0; layer < layers; ++layer) {
            for (int agent = 0; agent < agents; ++agent) {
                if (layer % 4 != 3) {
                    m_states.emplace_back(std::size_t(valueHeads) * 128 * 128);
                    m_states.back().zero();
                    m_histories.emplace_back(std::size_t(3) * convDim);
                    m_histories.back().zero();
                    m_convHost.push_back({m_histories.back().data(), nullptr, m_mixed.data() + agent * mixWidth,
                                          m_convOutput.data() + agent * convDim, 0, 1, 1, mixWidth});
                    m_gdnHost.push_back({m_states.back().data(), nullptr, nullptr, nullptr,
                                         m_convOutput.data() + agent * convDim, m_beta.data() + agent * valueHeads,
                                         m_decay.data() + agent * valueHeads,
                                         m_mixed.data() + agent * mixWidth + convDim,
                                         m_gdnOut.data() + agent * valueDim, 0, 1, 1, mixWidth});
                    continue;
                }
                m_codes.emplace_back(codes);
                m_scales.emplace_back(scales);
                m_pools.emplace_back(std::size_t(slots) * rowBytes);
                m_pools.back().zero();
                m_hot.emplace_back();
                const SketchView sketch{m_codes.back().data(), m_scales.back().data(), tiles};
                Selection& s = m_selections[std::size_t(agent)];
                Hot& h = m_hot.back();
                m_targetsHost.push_back(
                    {m_pools.back().data() + std::int64_t(agent) * rowBytes, nullptr, sketch, tokens - 1});
                m_sketchHost.push_back({sketch, m_projected[std::size_t(agent)].data(), 64, tokens - 1024, picks,
                                        s.maxima.data(), s.logSums.data(), s.lines.data(), s.groupKeys.data(),
                                        s.histogram.data(), s.candidates.data(), s.counters.data(), s.picks.data(),
                                        s.numPicks.data(), s.lifts.data(), sketchKey(std::log(0.1 / tokens))});
                m_hotLists.emplace_back(std::vector<HotList>{{s.picks.data(), s.numPicks.data(), h.rowIds.data()}});
                m_lookupHost.push_back({h.slotOfToken.data(), h.tokenOfSlot.data(), h.marks.data(), h.hand.data(),
                                        slots, m_hotLists.back().data(), 1, h.missTokens.data(), h.missSlots.data(),
                                        h.numMisses.data()});
                m_gatherHost.push_back({hostRows, m_pools.back().data(), m_missTokens[std::size_t(agent)].data(),
                                        m_missSlots[std::size_t(agent)].data(), m_missCount.data(),
                                        m_bytesRead.data()});
                AttentionRows rows;
                rows.rows = m_pools.back().data();
                rows.rowIds = m_rowIds[std::size_t(agent)].data();
                rows.count = attended;
                rows.lifts = s.lifts.data();
                if (m_dense) {
                    if (m_denseRows.size() <= std::size_t(agent))
                        m_denseRows.emplace_back(std::size_t(tokens) * rowBytes).zero();
                    rows.rows = m_denseRows[std::size_t(agent)].data();
                    rows.rowIds = nullptr;
                    rows.lifts = nullptr;
                    rows.count = tokens;
                }
                m_attentionHost.push_back(rows);
            }
        }
        m_targets = DeviceArray<RowTarget>(m_targetsHost);
        m_conv = DeviceArray<ConvSequence>(m_convHost);
        m_gdn = DeviceArray<GdnSequence>(m_gdnHost);
        m_sketch = DeviceArray<SketchQuery>(m_sketchHost);
        m_readings = DeviceArray<SketchRows>(m_readingsHost);
        m_lookup = DeviceArray<HotLookup>(m_lookupHost);
        m_gather = DeviceArray<GatherMisses>(m_gatherHost);
        m_attentionRows = DeviceArray<AttentionRows>(m_attentionHost);
        m_parts = DeviceArray<float>(attentionWorkspaceFloats(shape()));
    }

    std::int64_t weightBytes() const { return m_weightBytes; }

    /// `without`: Kernel bits to leave out.
    void run(cudaStream_t stream, unsigned without = 0)
    {
        m_without = without | (m_dense ? Pick | Lookup | Gather : 0u);
        struct Linear {
            int out, in;
        };
        std::vector<Linear> linears;
        for (int layer = 0; layer < layers; ++layer) {
            if (layer % 4 != 3) {
                linears.push_back({mixWidth, hidden});
                linears.push_back({hidden, valueDim});
            } else {
                linears.push_back({attentionWidth, hidden});
                linears.push_back({hidden, heads * 256});
            }
            linears.push_back({2 * ffn, hidden});
            linears.push_back({hidden, ffn});
        }
        linears.push_back({vocab, hidden});
        std::size_t product = 0;
        std::int64_t weightAt = 0;
        int gdn = 0, attention = 0;
        const auto multiply = [&](const __nv_bfloat16* x, void* y, GemmOutput type = GemmOutput::Bf16,
                                  const W4Norms& norms = {}) {
            const Linear& linear = linears[product++];
            const W4Matrix matrix{m_weights.data() + weightAt, linear.out, linear.in};
            weightAt += matrix.bytes();
            if (m_without & Product)
                return;
            const MatrixView<const __nv_bfloat16> view{x, m_agents, linear.in, linear.in};
            const W4Workspace workspace{m_partials.data(), m_arrivals.data(), m_blocks};
            OCTAVO_REQUIRE(launchW4Gemm(view, matrix, y, type == GemmOutput::Gated ? linear.out / 2 : linear.out, type,
                                        workspace, stream, norms));
        };
        const auto view = [&](const DeviceArray<__nv_bfloat16>& array) {
            return denseView(array.data(), m_agents, hidden);
        };
        const MatrixView<const __nv_bfloat16> delta{m_delta.data(), m_agents, hidden, hidden};
        const auto norm = [&](const MatrixView<const __nv_bfloat16>& added) {
            if (!(m_without & Norm))
                OCTAVO_REQUIRE(launchAddRmsNorm(view(m_hidden), added, m_floats.data(), 1e-6f, view(m_normed), stream));
        };
        const GdnLayer gdnLayer{keyHeads, valueHeads, m_floats.data(), m_floats.data(), m_floats.data(), 1e-6f};
        // Only the first and the last norm are launches of their own: products take the others along.
        const W4Norms scaled{m_squares.data(), 1e-6f};
        const W4Norms residual{nullptr, 0.0f, m_hidden.data(), m_floats.data(), m_squares.data()};
        norm({nullptr, m_agents, hidden, hidden});
        for (int layer = 0; layer < layers; ++layer) {
            const W4Norms before = layer > 0 ? scaled : W4Norms{};
            if (layer % 4 != 3) {
                const GdnProjection projection{{m_normed.data(), m_agents, hidden, hidden},
                                               m_small.data(),
                                               m_beta.data(),
                                               m_decay.data(),
                                               valueHeads,
                                               before.squares,
                                               before.eps};
                multiply(m_normed.data(), m_mixed.data(), GemmOutput::Bf16, before);
                if (!(m_without & Mix))
                    OCTAVO_REQUIRE(launchGdnConv(m_conv.data() + gdn * m_agents, m_agents, 1, convDim,
                                                 m_convWeights.data(), projection, stream));
                if (!(m_without & Delta))
                    OCTAVO_REQUIRE(launchGdnDecode(m_gdn.data() + gdn * m_agents, m_agents, gdnLayer, stream));
                multiply(m_gdnOut.data(), m_normed.data(), GemmOutput::Bf16, residual);
                ++gdn;
            } else {
                multiply(m_normed.data(), m_attention.data(), GemmOutput::Bf16, before);
                attend(attention++, stream);
                multiply(m_context.data(), m_normed.data(), GemmOutput::Bf16, residual);
            }
            multiply(m_normed.data(), m_product.data(), GemmOutput::Gated, scaled);
            if (layer + 1 < layers)
                multiply(m_product.data(), m_normed.data(), GemmOutput::Bf16, residual);
            else
                multiply(m_product.data(), m_delta.data());
        }
        norm(delta);
        multiply(m_normed.data(), m_logits.data(), GemmOutput::Float);
    }

private:
    struct Selection {
        DeviceArray<__half> maxima{std::size_t(heads) * tiles * 2};
        DeviceArray<float2> logSums{std::size_t(sketchChunks(tokens)) * heads}, lines{heads};
        DeviceArray<std::uint32_t> groupKeys{std::size_t(tiles) * 2}, histogram{sketchMeetingWords};
        DeviceArray<uint2> candidates{std::size_t(sketchCandidates(gpu::picks))};
        DeviceArray<std::int32_t> counters{4}, picks{gpu::picks}, numPicks{1};
        DeviceArray<float> lifts{attended}; // of all rows that the bench attends to, which lie together
        Selection() { histogram.zero(), counters.zero(), numPicks.zero(), lifts.zero(); }
    };
    struct Hot {
        DeviceArray<std::int32_t> slotOfToken{tokens}, tokenOfSlot{slots}, hand{1};
        DeviceArray<std::uint8_t> marks{slots};
        DeviceArray<std::int32_t> rowIds{gpu::picks}, missTokens{gpu::picks}, missSlots{gpu::picks}, numMisses{1};
        Hot() { hand.zero(), marks.zero(); } // 0xff bytes: every entry -1
    };

    AttentionShape shape() const
    {
        return m_dense ? AttentionShape{m_agents, heads, kvHeads, 2048, (tokens + 2047) / 2048}
                       : AttentionShape{m_agents, heads, kvHeads, 256, (attended + 255) / 256};
    }

    void attend(int layer, cudaStream_t stream)
    {
        QkRopeArgs rope{m_attention.data(),
                        attentionWidth,
                        m_attention.data() + heads * 512,
                        attentionWidth,
                        m_floats.data(),
                        m_floats.data(),
                        m_positions.data(),
                        m_floats.data(),
                        m_query.data(),
                        m_key.data(),
                        m_agents,
                        heads,
                        kvHeads,
                        1e-6f};
        const int first = layer * m_agents;
        const AttentionInput input{rope,           m_attention.data() + heads * 512 + kvHeads * 256,
                                   attentionWidth, m_targets.data() + first,
                                   m_basis.data(), m_floats.data(),
                                   m_unused.data()};
        if (!(m_without & Input))
            OCTAVO_REQUIRE(launchAttentionInput(input, stream));
        if (!(m_without & Pick))
            OCTAVO_REQUIRE(launchSketchPick(m_sketch.data() + first, m_agents, m_readings.data(), m_agents, 1, heads,
                                            kvHeads, tokens, stream));
        if (!(m_without & Lookup))
            OCTAVO_REQUIRE(launchHotLookup(m_lookup.data() + first, m_agents, 1, stream));
        if (!(m_without & Gather))
            OCTAVO_REQUIRE(launchGatherMisses(m_gather.data() + first, m_agents, rowBytes, 132, stream));
        if (!(m_without & Attend))
            OCTAVO_REQUIRE(launchAttentionDecode(m_attentionRows.data() + first, shape(), m_query.data(),
                                                 m_attention.data() + 256, attentionWidth, 512, m_parts.data(),
                                                 m_context.data(), stream));
    }

    const int m_agents;
    const bool m_dense;
    unsigned m_without = 0;
    Random m_random;
    const int m_blocks;
    std::int64_t m_weightBytes = 0;
    DeviceArray<std::uint8_t> m_weights;
    static constexpr std::size_t maxAgents = 8;
    DeviceArray<__nv_bfloat16> m_hidden{maxAgents * hidden}, m_normed{maxAgents * hidden}, m_delta{maxAgents * hidden};
    DeviceArray<__nv_bfloat16> m_product{maxAgents * ffn};
    DeviceArray<__nv_bfloat16> m_attention{maxAgents * attentionWidth}, m_query{maxAgents * heads * 256};
    DeviceArray<__nv_bfloat16> m_key{maxAgents * kvHeads * 256}, m_context{maxAgents * heads * 256};
    DeviceArray<__nv_bfloat16> m_mixed{maxAgents * mixWidth}, m_convOutput{maxAgents * convDim};
    DeviceArray<__nv_bfloat16> m_beta{maxAgents * valueHeads}, m_decay{maxAgents * valueHeads};
    DeviceArray<__nv_bfloat16> m_gdnOut{maxAgents * valueDim}, m_unused{maxAgents * heads * 64};
    DeviceArray<__nv_bfloat16> m_small{2 * std::size_t(valueHeads) * hidden};
    DeviceArray<float> m_floats{hidden}, m_convWeights{std::vector<float>(std::size_t(convDim) * 4, 0.25f)};
    DeviceArray<float> m_basis{std::size_t(kvHeads) * 256 * 64}, m_squares{maxAgents * hidden / w4SquareValues},
        m_logits{maxAgents * vocab}, m_parts;
    DeviceArray<float> m_partials{w4PartialFloats(m_blocks)};
    DeviceArray<int> m_arrivals{w4Arrivals(vocab)};
    DeviceArray<std::int32_t> m_positions{maxAgents}, m_missCount{1};
    DeviceArray<unsigned long long> m_bytesRead{1};
    std::vector<DeviceArray<float>> m_states;
    std::vector<DeviceArray<__nv_bfloat16>> m_histories, m_projected;
    std::vector<DeviceArray<std::uint8_t>> m_codes, m_pools, m_denseRows;
    std::vector<DeviceArray<__half>> m_scales;
    std::vector<DeviceArray<std::int32_t>> m_rowIds, m_missTokens, m_missSlots;
    std::vector<Selection> m_selections;
    std::vector<Hot> m_hot;
    std::vector<RowTarget> m_targetsHost;
    std::vector<ConvSequence> m_convHost;
    std::vector<GdnSequence> m_gdnHost;
    std::vector<SketchQuery> m_sketchHost;
    std::vector<SketchRows> m_readingsHost;
    std::vector<DeviceArray<HotList>> m_hotLists;
    std::vector<HotLookup> m_lookupHost;
    std::vector<GatherMisses> m_gatherHost;
    std::vector<AttentionRows> m_attentionHost;
    DeviceArray<RowTarget> m_targets;
    DeviceArray<ConvSequence> m_conv;
    DeviceArray<GdnSequence> m_gdn;
    DeviceArray<SketchQuery> m_sketch;
    DeviceArray<SketchRows> m_readings;
    DeviceArray<HotLookup> m_lookup;
    DeviceArray<GatherMisses> m_gather;
    DeviceArray<AttentionRows> m_attentionRows;
};

} // namespace

namespace
{

constexpr int hostTokens = 1 << 20;

/// Pinned rows that misses are read from.
class HostRows
{
public:
    HostRows()
    {
        const std::size_t bytes = std::size_t(hostTokens) * rowBytes;
        OCTAVO_REQUIRE(cudaHostAlloc(reinterpret_cast<void**>(&m_rows), bytes, cudaHostAllocMapped));
        std::memset(m_rows, 0x11, bytes);
    }
    ~HostRows() { cudaFreeHost(m_rows); }
    const std::uint8_t* data() const { return m_rows; }

private:
    std::uint8_t* m_rows = nullptr;
};

double missBytes(int agents)
{
    return double(agents) * attentionLayers * missesPerLayer * rowBytes;
}

double floorUs(const Step& step, int agents)
{
    const double perAgent = double(tokens) * kvHeads * 34 * attentionLayers +
                            double(attended) * rowBytes * attentionLayers +
                            2.0 * gdnLayers * valueHeads * 128 * 128 * 4;
    return (double(step.weightBytes()) + agents * perAgent) / copyBandwidth() / 1e3 + missBytes(agents) / 55e3;
}

double stepUs(Step& step, unsigned without = 0, int replays = 9)
{
    return medianUs(
        1, [&](int, cudaStream_t stream) { step.run(stream, without); }, replays);
}

} // namespace

void benchDecodeStep(Report& report)
{
    const HostRows hostRows;
    for (const int agents : {1, 4, 8}) {
        Step step(agents, hostRows.data(), hostTokens);
        const double us = stepUs(step), floor = floorUs(step, agents);
        report.line("27B decode step, %d agents x 250K sparse: %.2f ms, floor %.2f ms (%.0f%%), %.0f tokens/s", agents,
                    us / 1e3, floor / 1e3, 100.0 * floor / us, agents * 1e6 / us);
        std::string parts = "  without each of";
        const std::pair<unsigned, const char*> kernels[] = {
            {Norm, "norms"}, {Product, "products"}, {Mix, "convolution"}, {Delta, "delta rule"}, {Input, "head norms"},
            {Pick, "picks"}, {Lookup, "lookup"},    {Gather, "gather"},   {Attend, "attention"}};
        for (const auto& [kernel, name] : kernels) {
            char text[64];
            std::snprintf(text, sizeof text, "%s %s %.2f", kernel == Norm ? "" : ",", name,
                          (us - stepUs(step, kernel)) / 1e3);
            parts += text;
        }
        report.line("%s ms less", parts.c_str());
    }
    Step dense(8, hostRows.data(), hostTokens, true);
    report.line("27B decode step, 8 agents x 250K dense: %.2f ms", stepUs(dense) / 1e3);
}

void benchDecodeSteady(Report& report)
{
    const HostRows hostRows;
    for (const int agents : {4, 8}) {
        Step step(agents, hostRows.data(), hostTokens);
        const double us = stepUs(step, 0, 400);
        report.line("27B decode step over 400 steps, %d agents x 250K sparse: %.2f ms, %.0f tokens/s, misses %.2f GB/s",
                    agents, us / 1e3, agents * 1e6 / us, missBytes(agents) / us / 1e3);
    }
}

} // namespace octavo::gpu
