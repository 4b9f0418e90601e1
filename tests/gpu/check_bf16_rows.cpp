#include "tests/gpu/checks.h"

#include "kernels/cuda/bf16_rows.h"

#include <tuple>

namespace octavo::gpu
{

using namespace kernels::cuda;

void checkBf16Rows(Report& report)
{
    Random random(41);
    for (const auto& [outputs, k, strided] :
         {std::tuple{1, 64, false}, {100, 192, true}, {128, 512, false}, {1000, 1088, true}, {300, 5120, false}}) {
        constexpr int mostRows = 64;
        const int stride = k + (strided ? 24 : 0);
        const std::vector<float> x = randomBf16(random, std::size_t(mostRows) * stride);
        const std::vector<float> weights = randomBf16(random, std::size_t(outputs) * k, 0.05);
        const DeviceArray<__nv_bfloat16> xDevice(toBf16(x)), weightsDevice(toBf16(weights));
        const MatrixView<const __nv_bfloat16> matrix{weightsDevice.data(), outputs, k, k};
        std::vector<float> all; // of the largest number of rows
        for (const int rows : {64, 33, 32, 17, 9, 8, 3, 1}) {
            const MatrixView<const __nv_bfloat16> view{xDevice.data(), rows, k, stride};
            const std::size_t yStride = std::size_t(outputs) + 3;
            DeviceArray<float> y(std::size_t(rows) * yStride);
            DeviceArray<__nv_bfloat16> yBf16(y.size());
            OCTAVO_REQUIRE(launchBf16Rows(view, matrix, y.data(), std::int64_t(yStride), GemmOutput::Float, nullptr));
            OCTAVO_REQUIRE(
                launchBf16Rows(view, matrix, yBf16.data(), std::int64_t(yStride), GemmOutput::Bf16, nullptr));
            const std::vector<float> padded = y.download(), paddedBf16 = toFloat(yBf16.download());
            std::vector<float> got, gotBf16;
            std::vector<double> want;
            int touched = 0;
            for (int row = 0; row < rows; ++row) {
                for (int n = 0; n < int(yStride); ++n) {
                    const float value = padded[std::size_t(row) * yStride + n];
                    if (n >= outputs) {
                        touched += !std::isnan(value);
                        continue;
                    }
                    got.push_back(value);
                    gotBf16.push_back(paddedBf16[std::size_t(row) * yStride + n]);
                    double sum = 0.0;
                    for (int i = 0; i < k; ++i)
                        sum += double(x[std::size_t(row) * stride + i]) * weights[std::size_t(n) * k + i];
                    want.push_back(sum);
                }
            }
            const std::string name =
                "bf16 rows " + std::to_string(rows) + " x " + std::to_string(k) + " -> " + std::to_string(outputs);
            compare(report, name, got, want, 1e-5);
            compare(report, name + " bf16", gotBf16, want, 3e-3);
            report.expect(touched == 0, "%s: wrote between the rows", name.c_str());
            if (all.empty())
                all = got;
            report.expect(std::memcmp(all.data(), got.data(), got.size() * sizeof(float)) == 0,
                          "%s: differs from the same rows among 64", name.c_str());
        }
    }
    const MatrixView<const __nv_bfloat16> odd{nullptr, 8, 100, 104};
    report.expect(launchBf16Rows(odd, odd, nullptr, 8, GemmOutput::Float, nullptr) == cudaErrorInvalidValue,
                  "bf16 rows take what does not fit");
}

} // namespace octavo::gpu
