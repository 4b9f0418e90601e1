#include "tests/bench/cuda/benches.h"

#include "kernels/cuda/argmax.h"
#include "kernels/cuda/elementwise.h"

namespace octavo::gpu
{

using namespace kernels::cuda;

void benchElementwise(Report& report)
{
    Random random(3);
    for (const int tokens : {1, 8, 64, 2048}) {
        const DeviceArray<__nv_bfloat16> hidden(toBf16(randomBf16(random, std::size_t(tokens) * 5120)));
        const DeviceArray<__nv_bfloat16> delta(hidden.size()), y(hidden.size());
        OCTAVO_REQUIRE(cudaMemset(delta.data(), 0, delta.size() * 2));
        const DeviceArray<float> weight(std::vector<float>(5120, 1.0f));
        const MatrixView<const __nv_bfloat16> deltaView{delta.data(), tokens, 5120, 5120};
        bandwidthLine(report, "add + rmsnorm 5120, tokens " + std::to_string(tokens),
                      medianUs(32,
                               [&](int, cudaStream_t s) {
                                   OCTAVO_REQUIRE(launchAddRmsNorm(denseView(hidden.data(), tokens, 5120), deltaView,
                                                                   weight.data(), 1e-6f,
                                                                   denseView(y.data(), tokens, 5120), s));
                               }),
                      4.0 * 2 * tokens * 5120);

        const DeviceArray<__nv_bfloat16> gateUp(toBf16(randomBf16(random, std::size_t(tokens) * 2 * 17408)));
        const DeviceArray<__nv_bfloat16> product(std::size_t(tokens) * 17408);
        const MatrixView<const __nv_bfloat16> gateUpView{gateUp.data(), tokens, 2 * 17408, 2 * 17408};
        bandwidthLine(report, "silu mul 17408, tokens " + std::to_string(tokens),
                      medianUs(32,
                               [&](int, cudaStream_t s) {
                                   OCTAVO_REQUIRE(
                                       launchSiluMul(gateUpView, denseView(product.data(), tokens, 17408), s));
                               }),
                      3.0 * 2 * tokens * 17408);
    }
    const DeviceArray<__nv_bfloat16> x(toBf16(randomBf16(random, 64 * 5120))),
        weights(toBf16(randomBf16(random, 96 * 5120)));
    const DeviceArray<__nv_bfloat16> y(64 * 96);
    const MatrixView<const __nv_bfloat16> weightsView{weights.data(), 96, 5120, 5120};
    for (const int rows : {1, 8, 64}) {
        const MatrixView<const __nv_bfloat16> xView{x.data(), rows, 5120, 5120};
        bandwidthLine(report, "bf16 gemv 5120 -> 96, M=" + std::to_string(rows),
                      medianUs(32,
                               [&](int, cudaStream_t s) {
                                   OCTAVO_REQUIRE(
                                       launchBf16Gemv(xView, weightsView, y.data(), 96, GemmOutput::Bf16, s));
                               }),
                      2.0 * 96 * 5120);
    }
    const DeviceArray<float> logits(std::vector<float>(std::size_t(64) * 248320, 0.5f));
    const DeviceArray<std::uint64_t> parts(argmaxWorkspaceWords(64));
    const DeviceArray<std::int32_t> ids(64);
    for (const int rows : {1, 8, 64}) {
        const MatrixView<const float> view{logits.data(), rows, 248320, 248320};
        bandwidthLine(report, "argmax of 248320, rows " + std::to_string(rows),
                      medianUs(32,
                               [&](int, cudaStream_t s) {
                                   OCTAVO_REQUIRE(launchArgmax(view, 248320, parts.data(), ids.data(), s));
                               }),
                      4.0 * rows * 248320);
    }
}

} // namespace octavo::gpu
