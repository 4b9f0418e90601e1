#include "tests/gpu/checks.h"

#include "kernels/cuda/w4_gemm.h"

namespace octavo::gpu
{
namespace
{

using namespace kernels::cuda;

struct PackedLinear {
    std::vector<std::uint8_t> units;
    int outFeatures, inFeatures;
};

/// Random codes, signed scales as AutoRound makes them.
PackedLinear randomLinear(Random& random, int outFeatures, int inFeatures)
{
    const int groups = (inFeatures + 127) / 128;
    std::vector<std::uint32_t> qweight(std::size_t(inFeatures / 8) * outFeatures);
    std::vector<std::uint16_t> scales(std::size_t(groups) * outFeatures);
    for (auto& word : qweight)
        word = std::uint32_t(random.bits());
    for (auto& scale : scales) {
        const __half value = __float2half(float(random.uniform(0.002, 0.01) * (random.below(2) ? 1 : -1)));
        std::memcpy(&scale, &value, 2);
    }
    PackedLinear linear{std::vector<std::uint8_t>(w4PackedBytes(outFeatures, inFeatures)), outFeatures, inFeatures};
    clearW4(linear.units);
    packW4(qweight.data(), scales.data(), outFeatures, inFeatures, linear.units);
    return linear;
}

/// Many units to a block, and weights that come out of memory, not L2, in whatever order: stages go round the ring
/// often, and now and then one is late.
void checkFarWeights(Report& report, Random& random)
{
    constexpr int outFeatures = 16384, inFeatures = 2048, mostRows = 32;
    const std::vector<std::uint8_t> units = randomLinear(random, outFeatures, inFeatures).units;
    const DeviceArray<std::uint8_t> onDevice(units);
    DeviceArray<std::uint8_t> everythingElse(std::size_t(300) << 20);
    const std::vector<float> x = randomBf16(random, std::size_t(mostRows) * inFeatures);
    const DeviceArray<__nv_bfloat16> rows(toBf16(x));
    DeviceArray<float> y(std::size_t(mostRows) * outFeatures);
    std::vector<double> want(outFeatures);
    referenceW4Gemm(x.data(), 1, units.data(), outFeatures, inFeatures, want.data());
    for (const int blocks : {8, multiprocessors()}) {
        const DeviceArray<float> partials(w4PartialFloats(blocks));
        DeviceArray<int> arrivals(w4Arrivals(outFeatures));
        arrivals.zero();
        const W4Workspace workspace{partials.data(), arrivals.data(), blocks};
        for (const int count : {1, 8, 9, 32}) {
            std::vector<float> first;
            for (int turn = 0; turn < 5; ++turn) {
                everythingElse.poison();
                y.poison();
                OCTAVO_REQUIRE(launchW4Gemm({rows.data(), count, inFeatures, inFeatures},
                                            {onDevice.data(), outFeatures, inFeatures}, y.data(), outFeatures,
                                            GemmOutput::Float, workspace, nullptr));
                std::vector<float> got = y.download();
                got.resize(std::size_t(count) * outFeatures);
                if (turn == 0)
                    compare(report, "w4 gemm, far weights", {got.begin(), got.begin() + outFeatures}, want, 1e-5);
                else
                    report.expect(got == first, "w4 gemm, far weights, %d rows: other bits in turn %d", count, turn);
                if (turn == 0)
                    first = std::move(got);
            }
        }
    }
}

} // namespace

void checkW4Gemm(Report& report)
{
    Random random(1);
    const int blocks = multiprocessors();
    DeviceArray<float> partials(w4PartialFloats(blocks));
    DeviceArray<int> arrivals(w4Arrivals(248320));
    arrivals.zero();
    W4Workspace workspace{partials.data(), arrivals.data(), blocks};

    const std::pair<int, int> shapes[] = {{1, 8},     {128, 128},  {130, 136}, {48, 384},
                                          {512, 512}, {257, 1000}, {640, 5120}};
    for (const auto& [outFeatures, inFeatures] : shapes) {
        const PackedLinear linear = randomLinear(random, outFeatures, inFeatures);
        const DeviceArray<std::uint8_t> units(linear.units);
        const W4Matrix weights{units.data(), outFeatures, inFeatures};
        const std::int64_t stride = outFeatures + 3;
        const std::vector<float> x = randomBf16(random, std::size_t(64) * inFeatures);
        const DeviceArray<__nv_bfloat16> xDevice(toBf16(x));
        std::vector<double> want(std::size_t(64) * outFeatures);
        referenceW4Gemm(x.data(), 64, linear.units.data(), outFeatures, inFeatures, want.data());

        for (const W4Path path : {W4Path::Portable, W4Path::Auto}) {
            workspace.path = path;
            std::vector<float> widest;
            for (const int rows : {64, 33, 32, 17, 16, 9, 8, 7, 3, 1, 0}) {
                const std::string name = "w4 gemm M=" + std::to_string(rows) + " N=" + std::to_string(outFeatures) +
                                         " K=" + std::to_string(inFeatures);
                DeviceArray<float> y(std::size_t(65) * stride);
                const MatrixView<const __nv_bfloat16> view{xDevice.data(), rows, inFeatures, inFeatures};
                OCTAVO_REQUIRE(launchW4Gemm(view, weights, y.data(), stride, GemmOutput::Float, workspace, nullptr));
                const std::vector<float> got = y.download();
                std::vector<float> dense;
                bool guarded = true;
                for (int row = 0; row < 65; ++row) {
                    for (int column = 0; column < stride; ++column) {
                        const float value = got[std::size_t(row) * stride + column];
                        if (row < rows && column < outFeatures)
                            dense.push_back(value);
                        else
                            guarded &= std::isnan(value);
                    }
                }
                report.expect(guarded, "%s wrote outside its rows or columns", name.c_str());
                // fp32 sums of up to 5120 products: far below 1e-5.
                compare(report, name, dense, {want.begin(), want.begin() + std::ptrdiff_t(dense.size())}, 1e-5);
                if (rows == 64)
                    widest = dense;
                else
                    report.expect(std::equal(dense.begin(), dense.end(), widest.begin()),
                                  "%s: rows differ from the same rows in a batch of 64", name.c_str());
            }
        }

        if (outFeatures % 32 == 0) {
            std::vector<double> gated;
            for (int row = 0; row < 21; ++row) {
                for (int n = 0; n < outFeatures; n += n % 32 == 15 ? 17 : 1) {
                    const double* gate = &want[std::size_t(row) * outFeatures + n];
                    gated.push_back(gate[0] / (1.0 + std::exp(-gate[0])) * gate[16]);
                }
            }
            for (const W4Path path : {W4Path::Portable, W4Path::Auto}) {
                workspace.path = path;
                DeviceArray<__nv_bfloat16> y(gated.size());
                const MatrixView<const __nv_bfloat16> view{xDevice.data(), 21, inFeatures, inFeatures};
                OCTAVO_REQUIRE(
                    launchW4Gemm(view, weights, y.data(), outFeatures / 2, GemmOutput::Gated, workspace, nullptr));
                compare(report, "w4 gemm gated", toFloat(y.download()), gated, 1e-2);
            }
        } else {
            report.expect(launchW4Gemm({xDevice.data(), 1, inFeatures, inFeatures}, weights, xDevice.data(),
                                       outFeatures, GemmOutput::Gated, workspace, nullptr) == cudaErrorInvalidValue,
                          "w4 gemm gates %d outputs", outFeatures);
        }

        DeviceArray<__nv_bfloat16> y(std::size_t(5) * outFeatures);
        const MatrixView<const __nv_bfloat16> view{xDevice.data(), 5, inFeatures, inFeatures};
        OCTAVO_REQUIRE(launchW4Gemm(view, weights, y.data(), outFeatures, GemmOutput::Bf16, workspace, nullptr));
        compare(report, "w4 gemm bf16 out", toFloat(y.download()),
                {want.begin(), want.begin() + std::ptrdiff_t(5) * outFeatures}, 4e-3);

        DeviceArray<__nv_bfloat16> dequantized(std::size_t(outFeatures) * inFeatures);
        for (int first = 0; first < outFeatures; first += 100) {
            const int count = std::min(100, outFeatures - first);
            OCTAVO_REQUIRE(launchW4Dequantize(
                weights, first, denseView(dequantized.data() + std::size_t(first) * inFeatures, count, inFeatures),
                nullptr));
        }
        const std::vector<__nv_bfloat16> values = dequantized.download();
        std::size_t wrong = 0;
        for (int n = 0; n < outFeatures; ++n) {
            for (int k = 0; k < inFeatures; ++k) {
                const __half_raw scale{w4ScaleAt(linear.units.data(), inFeatures, n, k)};
                const float value =
                    __half2float(__half(scale)) * float(w4CodeAt(linear.units.data(), inFeatures, n, k) - 8);
                wrong += __bfloat162float(values[std::size_t(n) * inFeatures + k]) !=
                         __bfloat162float(__float2bfloat16(value));
            }
        }
        report.expect(wrong == 0, "w4 dequantize N=%d K=%d: %zu values differ", outFeatures, inFeatures, wrong);
        if (outFeatures % 32 == 0) {
            DeviceArray<__nv_bfloat16> parted(dequantized.size());
            OCTAVO_REQUIRE(launchW4Dequantize(weights, 0, denseView(parted.data(), outFeatures, inFeatures), nullptr,
                                              outFeatures / 2));
            const std::vector<float> whole = toFloat(values), got = toFloat(parted.download());
            std::size_t astray = 0;
            for (int n = 0; n < outFeatures; ++n)
                astray +=
                    !std::equal(&whole[std::size_t(n) * inFeatures], &whole[std::size_t(n) * inFeatures] + inFeatures,
                                &got[std::size_t(gatedRow(n, outFeatures / 2)) * inFeatures]);
            report.expect(astray == 0, "w4 dequantize gated N=%d: %zu outputs astray", outFeatures, astray);
        }
    }

    checkFarWeights(report, random);

    const W4Matrix weights{nullptr, 128, 128};
    const MatrixView<const __nv_bfloat16> tooMany{nullptr, 65, 128, 128}, tooNarrow{nullptr, 1, 120, 120};
    report.expect(launchW4Gemm(tooMany, weights, nullptr, 128, GemmOutput::Bf16, workspace, nullptr) ==
                      cudaErrorInvalidValue,
                  "w4 gemm takes 65 rows");
    report.expect(launchW4Gemm(tooNarrow, weights, nullptr, 128, GemmOutput::Bf16, workspace, nullptr) ==
                      cudaErrorInvalidValue,
                  "w4 gemm takes inputs of another width");
}

} // namespace octavo::gpu
