#include "tests/bench/cuda/benches.h"

#include "kernels/cuda/gdn_decode.h"

namespace octavo::gpu
{

using namespace kernels::cuda;

void benchGdnDecode(Report& report)
{
    Random random(2);
    constexpr int keyHeads = 16, valueHeads = 48, layers = 24, maxRows = 8;
    const DeviceArray<float> aLog(std::vector<float>(valueHeads, 0.5f)), dtBias(std::vector<float>(valueHeads, -1.0f));
    const DeviceArray<float> norm(std::vector<float>(128, 1.0f));
    const GdnLayer layer{keyHeads, valueHeads, aLog.data(), dtBias.data(), norm.data(), 1e-6f};
    const int convDim = layer.convDim(), valueDim = layer.valueDim();
    const DeviceArray<__nv_bfloat16> qkv(toBf16(randomBf16(random, std::size_t(maxRows) * convDim)));
    const DeviceArray<__nv_bfloat16> beta(toBf16(randomBf16(random, std::size_t(maxRows) * valueHeads)));
    const DeviceArray<__nv_bfloat16> gate(toBf16(randomBf16(random, std::size_t(maxRows) * valueDim)));
    const DeviceArray<float> convWeights(std::vector<float>(std::size_t(convDim) * 4, 0.25f));
    constexpr int hidden = 5120, maxAgents = 8, projections = 2 * valueHeads;
    const DeviceArray<__nv_bfloat16> x(toBf16(randomBf16(random, std::size_t(maxAgents) * maxRows * hidden)));
    DeviceArray<__nv_bfloat16> projected(std::size_t(maxAgents) * maxRows * projections);
    // More layers than L2 holds.
    constexpr std::size_t projectionWeights = std::size_t(projections) * hidden;
    const DeviceArray<__nv_bfloat16> oneProjection(toBf16(randomBf16(random, projectionWeights)));
    DeviceArray<__nv_bfloat16> projection(projectionWeights * 3 * layers);
    for (int i = 0; i < 3 * layers; ++i)
        OCTAVO_REQUIRE(cudaMemcpy(projection.data() + i * projectionWeights, oneProjection.data(),
                                  projectionWeights * 2, cudaMemcpyDeviceToDevice));

    struct Case {
        int agents, rows, pending;
    };
    for (const auto& [agents, rows, pending] : {Case{1, 1, 0}, {4, 1, 0}, {8, 1, 0}, {4, 8, 4}, {8, 8, 4}}) {
        const std::size_t stateFloats = std::size_t(valueHeads) * 128 * 128;
        std::vector<float> initial(stateFloats);
        for (float& value : initial)
            value = float(random.uniform(-1, 1));
        DeviceArray<float> states(std::size_t(layers) * agents * stateFloats);
        DeviceArray<__nv_bfloat16> outputs(std::size_t(agents) * maxRows * valueDim);
        DeviceArray<__nv_bfloat16> histories(std::size_t(layers) * agents * 3 * convDim);
        DeviceArray<__nv_bfloat16> convolved(std::size_t(agents) * maxRows * convDim);
        histories.zero();
        std::vector<GdnSequence> sequences;
        std::vector<ConvSequence> convs;
        for (int i = 0; i < layers * agents; ++i) {
            float* state = states.data() + std::size_t(i) * stateFloats;
            OCTAVO_REQUIRE(cudaMemcpy(state, initial.data(), stateFloats * 4, cudaMemcpyHostToDevice));
            sequences.push_back({state, qkv.data(), beta.data(), beta.data(), qkv.data(), beta.data(), beta.data(),
                                 gate.data(), outputs.data() + std::size_t(i % agents) * maxRows * valueDim, pending,
                                 rows, rows == 1 ? 1 : 0, valueDim});
            convs.push_back({histories.data() + std::size_t(i) * 3 * convDim, qkv.data(), qkv.data(),
                             convolved.data() + std::size_t(i % agents) * maxRows * convDim, pending, rows,
                             rows == 1 ? 1 : 0, convDim});
        }
        const DeviceArray<GdnSequence> sequencesDevice(sequences);
        const DeviceArray<ConvSequence> convsDevice(convs);
        char suffix[64];
        std::snprintf(suffix, sizeof suffix, " %d agents x %d rows, %d replayed", agents, rows, pending);
        const double us = medianUs(layers, [&](int i, cudaStream_t stream) {
            OCTAVO_REQUIRE(launchGdnDecode(sequencesDevice.data() + i * agents, agents, layer, stream));
        });
        bandwidthLine(report, std::string("gdn") + suffix, us,
                      double(agents) *
                          (2.0 * double(stateFloats) * 4 + 2.0 * (rows + pending) * (convDim + 2 * valueDim)));
        const double inputUs = medianUs(3 * layers, [&](int i, cudaStream_t stream) {
            const GdnProjection both{{x.data(), agents * rows, hidden, hidden},
                                     projection.data() + i * projectionWeights,
                                     projected.data(),
                                     projected.data() + std::size_t(agents) * rows * valueHeads,
                                     valueHeads};
            OCTAVO_REQUIRE(launchGdnConv(convsDevice.data() + i % layers * agents, agents, rows, convDim,
                                         convWeights.data(), both, stream));
        });
        bandwidthLine(report, std::string("gdn input") + suffix, inputUs,
                      2.0 * agents * convDim * (6 + pending + 2 * rows) + 16.0 * convDim + 2.0 * projectionWeights +
                          2.0 * agents * rows * hidden);
    }
}

} // namespace octavo::gpu
