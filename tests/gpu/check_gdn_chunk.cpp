#include "tests/gpu/checks.h"

#include "kernels/cuda/gdn_chunk.h"

namespace octavo::gpu
{
namespace
{

using namespace kernels::cuda;

struct Shape {
    int keyHeads, valueHeads, rows;
    double keyMean; ///< of every key and query: the larger, the more alike they are
};

} // namespace

/// The chunked kernels against the rule row by row in double.
void checkGdnChunks(Report& report)
{
    Random random(43);
    for (const Shape& shape : {Shape{1, 1, 1, 0.0}, Shape{1, 2, 64, 0.0}, Shape{2, 6, 65, 0.5}, Shape{1, 3, 130, 1.0},
                               Shape{2, 2, 192, 3.0}}) {
        GdnLayer layer{shape.keyHeads, shape.valueHeads, nullptr, nullptr, nullptr, 1e-6f};
        std::vector<float> aLog(std::size_t(shape.valueHeads)), dtBias(aLog.size()), norm(128);
        for (std::size_t h = 0; h < aLog.size(); ++h) {
            aLog[h] = float(random.uniform(-5.0, 0.5)); // from hardly any decay to nearly all
            dtBias[h] = float(random.uniform(-1.0, 1.0));
        }
        for (float& w : norm)
            w = float(random.uniform(0.5, 1.5));
        const DeviceArray<float> aLogDevice(aLog), dtBiasDevice(dtBias), normDevice(norm);
        GdnLayer onDevice = layer;
        onDevice.aLog = aLogDevice.data(), onDevice.dtBias = dtBiasDevice.data(), onDevice.norm = normDevice.data();
        layer.aLog = aLog.data(), layer.dtBias = dtBias.data(), layer.norm = norm.data();

        const std::size_t rows = std::size_t(shape.rows), heads = std::size_t(shape.valueHeads);
        std::vector<float> qkv = randomBf16(random, rows * layer.convDim());
        for (std::size_t r = 0; r < rows; ++r)
            for (int c = 0; c < 2 * shape.keyHeads * 128; ++c) {
                float& x = qkv[r * layer.convDim() + c];
                x = __bfloat162float(__float2bfloat16(x + float(shape.keyMean)));
            }
        const std::vector<float> gate = randomBf16(random, rows * layer.valueDim());
        const std::vector<float> small = randomBf16(random, rows * 2 * heads); // b, then a of a row
        std::vector<float> beta, decay;
        for (std::size_t r = 0; r < rows; ++r) {
            beta.insert(beta.end(), &small[r * 2 * heads], &small[r * 2 * heads] + heads);
            decay.insert(decay.end(), &small[r * 2 * heads + heads], &small[r * 2 * heads] + 2 * heads);
        }
        std::vector<float> state(heads * 128 * 128);
        for (float& value : state)
            value = float(random.normal() * 0.3);

        std::vector<double> wantState(state.begin(), state.end()), want(gate.size());
        referenceGdnDecode(wantState.data(), qkv.data(), beta.data(), decay.data(), gate.data(), shape.rows, layer,
                           want.data());
        const DeviceArray<__nv_bfloat16> qkvDevice(toBf16(qkv)), gateDevice(toBf16(gate)), smallDevice(toBf16(small));
        DeviceArray<std::uint8_t> workspace(gdnChunkBytes(shape.rows, shape.valueHeads));
        const std::string name =
            "gdn chunks heads=" + std::to_string(shape.valueHeads) + " rows=" + std::to_string(shape.rows);
        std::vector<float> states[2], outputs[2];
        for (int cut = 0; cut < 2; ++cut) { // in one slice, and in slices of 64 rows
            DeviceArray<float> stateDevice(state);
            DeviceArray<__nv_bfloat16> output(gate.size());
            const int most = cut == 0 ? shape.rows : 64;
            for (int first = 0; first < shape.rows; first += most) {
                const GdnChunkInput input{qkvDevice.data() + std::int64_t{first} * layer.convDim(),
                                          smallDevice.data() + std::int64_t{first} * 2 * shape.valueHeads,
                                          smallDevice.data() + (std::int64_t{first} * 2 + 1) * shape.valueHeads,
                                          2 * shape.valueHeads,
                                          gateDevice.data() + std::int64_t{first} * layer.valueDim(),
                                          layer.valueDim(),
                                          std::min(most, shape.rows - first),
                                          stateDevice.data(),
                                          output.data() + std::int64_t{first} * layer.valueDim()};
                OCTAVO_REQUIRE(launchGdnChunks(input, onDevice, workspace.data(), nullptr));
            }
            states[cut] = stateDevice.download();
            outputs[cut] = toFloat(output.download());
        }
        compare(report, name + " state", states[0], wantState, 2e-5);
        // The state as read, D and the weights of a chunk's rows are rounded to bf16, then o and the store.
        compare(report, name, outputs[0], want, 8e-3);
        report.expect(states[1] == states[0] && outputs[1] == outputs[0], "%s depends on the slices", name.c_str());
    }
    const GdnLayer odd{2, 3, nullptr, nullptr, nullptr, 1e-6f};
    GdnChunkInput input;
    input.rows = 1;
    input.smallStride = 8;
    report.expect(launchGdnChunks(input, odd, nullptr, nullptr) == cudaErrorInvalidValue,
                  "gdn chunks take heads that don't divide");
}

} // namespace octavo::gpu
