#include "tests/bench/cuda/benches.h"

#include "kernels/cuda/w4_gemm.h"

namespace octavo::gpu
{

using namespace kernels::cuda;

void benchW4Gemm(Report& report)
{
    Random random(1);
    const int blocks = multiprocessors();
    DeviceArray<float> partials(w4PartialFloats(blocks));
    DeviceArray<int> arrivals(w4Arrivals(248320));
    partials.zero();
    arrivals.zero();

    const std::pair<int, int> shapes[] = {{34816, 5120}, {5120, 17408}, {10240, 5120}, {5120, 6144}, {248320, 5120}};
    for (const auto& [outFeatures, inFeatures] : shapes) {
        std::vector<std::uint8_t> units(w4PackedBytes(outFeatures, inFeatures));
        for (std::size_t i = 0; i + 8 <= units.size(); i += 8) {
            const std::uint64_t bits = random.bits();
            std::memcpy(units.data() + i, &bits, 8);
        }
        const __half scale = __float2half(0.01f);
        for (std::size_t unit = 0; unit < units.size(); unit += w4UnitBytes)
            for (int i = 0; i < w4TileRows; ++i)
                std::memcpy(units.data() + unit + 8192 + 2 * i, &scale, 2);
        const int copies = int(std::max<std::size_t>(1, (std::size_t(800) << 20) / units.size()));
        std::vector<DeviceArray<std::uint8_t>> weights;
        for (int i = 0; i < copies; ++i)
            weights.emplace_back(units);
        const DeviceArray<__nv_bfloat16> x(toBf16(randomBf16(random, std::size_t(64) * inFeatures)));
        const DeviceArray<__nv_bfloat16> y(std::size_t(64) * outFeatures);
        for (const int rows : {1, 8, 16, 32, 64}) {
            const W4Workspace workspace{partials.data(), arrivals.data(), blocks};
            const MatrixView<const __nv_bfloat16> view{x.data(), rows, inFeatures, inFeatures};
            const double us = medianUs(copies * 2, [&](int i, cudaStream_t stream) {
                const W4Matrix matrix{weights[i % copies].data(), outFeatures, inFeatures};
                OCTAVO_REQUIRE(launchW4Gemm(view, matrix, y.data(), outFeatures, GemmOutput::Bf16, workspace, stream));
            });
            const double bytes = double(units.size()) + 2.0 * rows * (double(inFeatures) + outFeatures);
            bandwidthLine(report,
                          "w4 gemm " + std::to_string(inFeatures) + " -> " + std::to_string(outFeatures) +
                              " M=" + std::to_string(rows),
                          us, bytes);
        }
    }
}

} // namespace octavo::gpu
