#include "tests/bench/cuda/benches.h"

#include "kernels/cuda/attention_decode.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/gdn_decode.h"
#include "kernels/cuda/hot_buffer.h"
#include "kernels/cuda/select.h"
#include "kernels/cuda/sketch.h"
#include "kernels/cuda/w4_gemm.h"

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
constexpr int tokens = 250000, tiles = (tokens + 15) / 16, picks = 2048, missesPerLayer = 307;
constexpr int attended = 64 + 1024 + picks, slots = 8192;
constexpr int rowBytes = kvHeads * kvHeadBytes;
constexpr int attentionLayers = layers / 4, gdnLayers = layers - attentionLayers;

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
    explicit Step(int agents, const std::uint8_t* hostRows, int hostTokens)
        : m_agents(agents)
        , m_random(21)
        , m_blocks(multiprocessors())
    {
        const std::int64_t perGdn =
            w4PackedBytes(convDim, hidden) + w4PackedBytes(valueDim, hidden) + w4PackedBytes(hidden, valueDim);
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
        }
        for (int layer = 0; layer < layers; ++layer) {
            for (int agent = 0; agent < agents; ++agent) {
                if (layer % 4 != 3) {
                    m_states.emplace_back(std::size_t(valueHeads) * 128 * 128);
                    m_states.back().zero();
                    m_histories.emplace_back(std::size_t(3) * convDim);
                    m_histories.back().zero();
                    m_convHost.push_back({m_histories.back().data(), nullptr, m_convInput.data() + agent * convDim,
                                          m_convOutput.data() + agent * convDim, 0, 1, 1});
                    m_gdnHost.push_back({m_states.back().data(), nullptr, nullptr, nullptr,
                                         m_convOutput.data() + agent * convDim, m_beta.data() + agent * valueHeads,
                                         m_decay.data() + agent * valueHeads, m_z.data() + agent * valueDim,
                                         m_gdnOut.data() + agent * valueDim, 0, 1, 1});
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
                m_sketchViews.push_back(sketch);
                m_sketchHost.push_back({sketch, m_projected[std::size_t(agent)].data(), 64, tokens - 1024,
                                        s.scores.data(), s.logSums.data(), s.keys.data(), s.histogram.data()});
                m_selectHost.push_back({s.keys.data(), 64, tokens - 1024, picks, s.histogram.data(), s.taken.data(),
                                        s.candidates.data(), s.counters.data(), s.picks.data(), s.numPicks.data()});
                m_lookupHost.push_back({h.slotOfToken.data(), h.tokenOfSlot.data(), h.marks.data(), h.hand.data(),
                                        slots, s.picks.data(), s.numPicks.data(), h.rowIds.data(), h.missTokens.data(),
                                        h.missSlots.data(), h.numMisses.data()});
                m_gatherHost.push_back({hostRows, m_pools.back().data(), m_missTokens[std::size_t(agent)].data(),
                                        m_missSlots[std::size_t(agent)].data(), m_missCount.data(),
                                        m_bytesRead.data()});
                m_attentionHost.push_back({m_pools.back().data(), m_rowIds[std::size_t(agent)].data(), attended});
            }
        }
        m_conv = DeviceArray<ConvSequence>(m_convHost);
        m_gdn = DeviceArray<GdnSequence>(m_gdnHost);
        m_sketch = DeviceArray<SketchQuery>(m_sketchHost);
        m_select = DeviceArray<SelectQuery>(m_selectHost);
        m_lookup = DeviceArray<HotLookup>(m_lookupHost);
        m_gather = DeviceArray<GatherMisses>(m_gatherHost);
        m_attentionRows = DeviceArray<AttentionRows>(m_attentionHost);
        m_parts = DeviceArray<float>(attentionWorkspaceFloats(shape()));
    }

    std::int64_t weightBytes() const { return m_weightBytes; }

    void run(cudaStream_t stream)
    {
        std::int64_t weightAt = 0;
        int gdn = 0, attention = 0;
        const auto multiply = [&](const __nv_bfloat16* x, int in, int out, void* y,
                                  GemmOutput type = GemmOutput::Bf16) {
            const W4Matrix matrix{m_weights.data() + weightAt, out, in};
            weightAt += matrix.bytes();
            const MatrixView<const __nv_bfloat16> view{x, m_agents, in, in};
            OCTAVO_REQUIRE(launchW4Gemm(view, matrix, y, out, type,
                                        W4Workspace{m_partials.data(), m_arrivals.data(), m_blocks}, stream));
        };
        const auto view = [&](const DeviceArray<__nv_bfloat16>& array) {
            return denseView(array.data(), m_agents, hidden);
        };
        const MatrixView<const __nv_bfloat16> delta{m_delta.data(), m_agents, hidden, hidden};
        const auto norm = [&] {
            OCTAVO_REQUIRE(launchAddRmsNorm(view(m_hidden), delta, m_floats.data(), 1e-6f, view(m_normed), stream));
        };
        const GdnLayer gdnLayer{keyHeads, valueHeads, m_floats.data(), m_floats.data(), m_floats.data(), 1e-6f};
        for (int layer = 0; layer < layers; ++layer) {
            norm();
            if (layer % 4 != 3) {
                multiply(m_normed.data(), hidden, convDim, m_convInput.data());
                multiply(m_normed.data(), hidden, valueDim, m_z.data());
                const MatrixView<const __nv_bfloat16> small{m_small.data(), valueHeads, hidden, hidden};
                const MatrixView<const __nv_bfloat16> x{m_normed.data(), m_agents, hidden, hidden};
                OCTAVO_REQUIRE(launchBf16Gemv(x, small, m_beta.data(), valueHeads, GemmOutput::Bf16, stream));
                OCTAVO_REQUIRE(launchBf16Gemv(x, small, m_decay.data(), valueHeads, GemmOutput::Bf16, stream));
                OCTAVO_REQUIRE(
                    launchGdnConv(m_conv.data() + gdn * m_agents, m_agents, 1, convDim, m_convWeights.data(), stream));
                OCTAVO_REQUIRE(launchGdnDecode(m_gdn.data() + gdn * m_agents, m_agents, gdnLayer, stream));
                multiply(m_gdnOut.data(), valueDim, hidden, m_delta.data());
                ++gdn;
            } else {
                multiply(m_normed.data(), hidden, attentionWidth, m_attention.data());
                attend(attention++, stream);
                multiply(m_context.data(), heads * 256, hidden, m_delta.data());
            }
            norm();
            multiply(m_normed.data(), hidden, 2 * ffn, m_gateUp.data());
            const MatrixView<const __nv_bfloat16> gateUp{m_gateUp.data(), m_agents, 2 * ffn, 2 * ffn};
            OCTAVO_REQUIRE(launchSiluMul(gateUp, denseView(m_product.data(), m_agents, ffn), stream));
            multiply(m_product.data(), ffn, hidden, m_delta.data());
        }
        norm();
        multiply(m_normed.data(), hidden, vocab, m_logits.data(), GemmOutput::Float);
    }

private:
    struct Selection {
        DeviceArray<__half> scores{std::size_t(heads) * tiles * 16};
        DeviceArray<float2> logSums{std::size_t(sketchChunks(tokens)) * heads};
        DeviceArray<std::uint32_t> keys{std::size_t(tiles) * 16}, histogram{selectBins};
        DeviceArray<uint2> candidates{selectMaxCandidates};
        DeviceArray<std::int32_t> taken{selectMaxKeys / 32}, counters{2}, picks{gpu::picks}, numPicks{1};
        Selection() { histogram.zero(), taken.zero(), counters.zero(), numPicks.zero(); }
    };
    struct Hot {
        DeviceArray<std::int32_t> slotOfToken{tokens}, tokenOfSlot{slots}, hand{1};
        DeviceArray<std::uint8_t> marks{slots};
        DeviceArray<std::int32_t> rowIds{gpu::picks}, missTokens{gpu::picks}, missSlots{gpu::picks}, numMisses{1};
        Hot() { hand.zero(), marks.zero(); } // 0xff bytes: every entry -1
    };

    AttentionShape shape() const { return {m_agents, heads, kvHeads, 256, (attended + 255) / 256}; }

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
        OCTAVO_REQUIRE(launchQkNormRope(rope, stream));
        for (int agent = 0; agent < m_agents; ++agent) {
            const MatrixView<const __nv_bfloat16> key{m_key.data() + agent * 1024, 1, 1024, 1024};
            const MatrixView<const __nv_bfloat16> value{
                m_attention.data() + agent * attentionWidth + heads * 512 + 1024, 1, 1024, 1024};
            const int at = layer * m_agents + agent;
            OCTAVO_REQUIRE(launchQuantizeRows(key, value, kvHeads, nullptr, m_pools[std::size_t(at)].data(), stream));
            OCTAVO_REQUIRE(launchSketchAppend(key, kvHeads, m_basis.data(), m_floats.data(), tokens - 1,
                                              m_sketchViews[std::size_t(at)], stream));
        }
        const int first = layer * m_agents;
        OCTAVO_REQUIRE(
            launchSketchProject(m_query.data(), m_agents, heads, kvHeads, m_basis.data(), m_unused.data(), stream));
        OCTAVO_REQUIRE(launchSketchScore(m_sketch.data() + first, m_agents, heads, kvHeads, tokens, stream));
        OCTAVO_REQUIRE(launchSelect(m_select.data() + first, m_agents, tokens, SelectHistogram::Ready, stream));
        OCTAVO_REQUIRE(launchHotLookup(m_lookup.data() + first, m_agents, stream));
        OCTAVO_REQUIRE(launchGatherMisses(m_gather.data() + first, m_agents, rowBytes, 132, stream));
        OCTAVO_REQUIRE(launchAttentionDecode(m_attentionRows.data() + first, shape(), m_query.data(),
                                             m_attention.data() + 256, attentionWidth, 512, m_parts.data(),
                                             m_context.data(), stream));
    }

    const int m_agents;
    Random m_random;
    const int m_blocks;
    std::int64_t m_weightBytes = 0;
    DeviceArray<std::uint8_t> m_weights;
    static constexpr std::size_t maxAgents = 8;
    DeviceArray<__nv_bfloat16> m_hidden{maxAgents * hidden}, m_normed{maxAgents * hidden}, m_delta{maxAgents * hidden};
    DeviceArray<__nv_bfloat16> m_gateUp{maxAgents * 2 * ffn}, m_product{maxAgents * ffn};
    DeviceArray<__nv_bfloat16> m_attention{maxAgents * attentionWidth}, m_query{maxAgents * heads * 256};
    DeviceArray<__nv_bfloat16> m_key{maxAgents * kvHeads * 256}, m_context{maxAgents * heads * 256};
    DeviceArray<__nv_bfloat16> m_convInput{maxAgents * convDim}, m_convOutput{maxAgents * convDim};
    DeviceArray<__nv_bfloat16> m_beta{maxAgents * valueHeads}, m_decay{maxAgents * valueHeads};
    DeviceArray<__nv_bfloat16> m_z{maxAgents * valueDim}, m_gdnOut{maxAgents * valueDim},
        m_unused{maxAgents * heads * 64};
    DeviceArray<__nv_bfloat16> m_small{std::size_t(valueHeads) * hidden};
    DeviceArray<float> m_floats{hidden}, m_convWeights{std::vector<float>(std::size_t(convDim) * 4, 0.25f)};
    DeviceArray<float> m_basis{std::size_t(kvHeads) * 256 * 64}, m_logits{maxAgents * vocab}, m_parts;
    DeviceArray<float> m_partials{w4PartialFloats(m_blocks)};
    DeviceArray<int> m_arrivals{w4Arrivals(vocab)};
    DeviceArray<std::int32_t> m_positions{maxAgents}, m_missCount{1};
    DeviceArray<unsigned long long> m_bytesRead{1};
    std::vector<DeviceArray<float>> m_states;
    std::vector<DeviceArray<__nv_bfloat16>> m_histories, m_projected;
    std::vector<DeviceArray<std::uint8_t>> m_codes, m_pools;
    std::vector<DeviceArray<__half>> m_scales;
    std::vector<DeviceArray<std::int32_t>> m_rowIds, m_missTokens, m_missSlots;
    std::vector<Selection> m_selections;
    std::vector<Hot> m_hot;
    std::vector<SketchView> m_sketchViews;
    std::vector<ConvSequence> m_convHost;
    std::vector<GdnSequence> m_gdnHost;
    std::vector<SketchQuery> m_sketchHost;
    std::vector<SelectQuery> m_selectHost;
    std::vector<HotLookup> m_lookupHost;
    std::vector<GatherMisses> m_gatherHost;
    std::vector<AttentionRows> m_attentionHost;
    DeviceArray<ConvSequence> m_conv;
    DeviceArray<GdnSequence> m_gdn;
    DeviceArray<SketchQuery> m_sketch;
    DeviceArray<SelectQuery> m_select;
    DeviceArray<HotLookup> m_lookup;
    DeviceArray<GatherMisses> m_gather;
    DeviceArray<AttentionRows> m_attentionRows;
};

} // namespace

void benchDecodeStep(Report& report)
{
    constexpr int hostTokens = 1 << 20;
    std::uint8_t* hostRows = nullptr;
    OCTAVO_REQUIRE(
        cudaHostAlloc(reinterpret_cast<void**>(&hostRows), std::size_t(hostTokens) * rowBytes, cudaHostAllocMapped));
    std::memset(hostRows, 0x11, std::size_t(hostTokens) * rowBytes);
    for (const int agents : {1, 4, 8}) {
        Step step(agents, hostRows, hostTokens);
        const double us = medianUs(
            1, [&](int, cudaStream_t stream) { step.run(stream); }, 9);
        const double perAgent = double(tokens) * kvHeads * 34 * attentionLayers +
                                double(attended) * rowBytes * attentionLayers +
                                2.0 * gdnLayers * valueHeads * 128 * 128 * 4;
        const double floorUs = (double(step.weightBytes()) + agents * perAgent) / copyBandwidth() / 1e3 +
                               double(agents) * attentionLayers * missesPerLayer * rowBytes / 55e3;
        report.line("27B decode step, %d agents x 250K sparse: %.2f ms, floor %.2f ms (%.0f%%), %.0f tokens/s", agents,
                    us / 1e3, floorUs / 1e3, 100.0 * floorUs / us, agents * 1e6 / us);
    }
    OCTAVO_REQUIRE(cudaFreeHost(hostRows));
}

} // namespace octavo::gpu
