#include "tests/gpu/checks.h"

#include "kernels/cuda/bf16_gemm.h"

#include <array>

namespace octavo::gpu
{

using namespace kernels::cuda;

void checkBf16Gemm(Report& report)
{
    std::string why;
    const auto gemm = Bf16Gemm::open(256, why);
    if (!gemm) { // prefill then goes through the kernels for few rows
        report.line("no products through cuBLASLt: %s", why.c_str());
        report.expect(!why.empty(), "bf16 gemm does not say why it cannot be used");
        return;
    }
    Random random(44);
    DeviceArray<std::uint8_t> workspace(Bf16Gemm::workspaceBytes);
    for (const auto& [most, outputs, inputs] :
         {std::array{64, 8, 64}, std::array{256, 96, 128}, std::array{200, 520, 1032}}) {
        const std::vector<float> x = randomBf16(random, std::size_t(most) * inputs);
        const std::vector<float> w = randomBf16(random, std::size_t(outputs) * inputs);
        const DeviceArray<__nv_bfloat16> xDevice(toBf16(x)), wDevice(toBf16(w));
        std::vector<double> want(std::size_t(most) * outputs);
        for (int m = 0; m < most; ++m)
            for (int n = 0; n < outputs; ++n)
                for (int k = 0; k < inputs; ++k)
                    want[std::size_t(m) * outputs + n] +=
                        double(x[std::size_t(m) * inputs + k]) * w[std::size_t(n) * inputs + k];
        std::vector<float> whole;
        for (const int rows : {most, 64, 1}) {
            DeviceArray<__nv_bfloat16> y(std::size_t(rows) * outputs);
            OCTAVO_REQUIRE(gemm->multiply({xDevice.data(), rows, inputs, inputs},
                                          {wDevice.data(), outputs, inputs, inputs}, y.data(), outputs,
                                          workspace.data(), nullptr));
            const std::vector<float> got = toFloat(y.download());
            const std::string name = "bf16 gemm M=" + std::to_string(rows) + " N=" + std::to_string(outputs) +
                                     " K=" + std::to_string(inputs);
            compare(report, name, got, {want.begin(), want.begin() + std::ptrdiff_t(got.size())}, 4e-3);
            if (rows == most)
                whole = got;
            report.expect(std::equal(got.begin(), got.end(), whole.begin()), "%s: rows depend on how many there are",
                          name.c_str());
        }
    }
    report.expect(gemm->multiply({nullptr, 1, 64, 64}, {nullptr, 8, 72, 72}, nullptr, 8, workspace.data(), nullptr) ==
                      cudaErrorInvalidValue,
                  "bf16 gemm takes inputs of another width");
}

} // namespace octavo::gpu
