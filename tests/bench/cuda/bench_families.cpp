#include "tests/bench/cuda/benches.h"

#include "tests/bench/cuda/copy_kernel.h"

namespace octavo::gpu
{
namespace
{

double measuredCopy = 0.0;

} // namespace

double copyBandwidth()
{
    return measuredCopy;
}

void measureCopy(Report& report)
{
    const std::size_t bytes = std::size_t(2) << 30;
    const DeviceArray<std::uint8_t> from(bytes), to(bytes);
    // Spins the clocks up first: an idle card starts at a fifth of its rate.
    for (int i = 0; i < 100; ++i)
        OCTAVO_REQUIRE(cudaMemcpy(to.data(), from.data(), bytes, cudaMemcpyDeviceToDevice));
    const double us = medianUs(4, [&](int, cudaStream_t stream) {
        OCTAVO_REQUIRE(launchCopy(from.data(), to.data(), bytes, 4 * multiprocessors(), stream));
    });
    measuredCopy = 2.0 * double(bytes) / us / 1e3;
    report.line("copy 2 GiB device to device: %.0f GB/s read and written", measuredCopy);
}

void bandwidthLine(Report& report, const std::string& name, double us, double bytes)
{
    const double rate = bytes / us / 1e3;
    report.line("%-52s %9.2f us %8.0f GB/s %6.1f%% of copy", name.c_str(), us, rate, 100.0 * rate / measuredCopy);
}

std::span<const Family> benchFamilies()
{
    static const Family families[] = {
        {"w4_gemm", benchW4Gemm},
        {"gdn_decode", benchGdnDecode},
        {"elementwise", benchElementwise},
        {"sketch", benchSketch},
        {"attention_decode", benchAttentionDecode},
        {"gather", benchGather},
        {"decode_step", benchDecodeStep},
        {"decode_steady", benchDecodeSteady},
        {"prefill", benchPrefill},
    };
    return families;
}

} // namespace octavo::gpu
