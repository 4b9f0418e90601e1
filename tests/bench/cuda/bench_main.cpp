/// gpu_bench [family...]: every kernel family at the 27B model's sizes against the hardware's floor.
///
/// Each figure is the median of graph replays over inputs that rotate through more memory than L2 holds. GB/s counts
/// each input byte once and each output byte once; the percentage is of the device-to-device copy measured first.

#include "tests/bench/cuda/benches.h"

int main(int argc, char** argv)
{
    using namespace octavo::gpu;
    if (!hasDevice()) {
        std::printf("no CUDA device\n");
        return 77;
    }
    Report report;
    cudaDeviceProp properties{};
    OCTAVO_REQUIRE(cudaGetDeviceProperties(&properties, 0));
    report.line("device %s, %d multiprocessors, L2 %d MB", properties.name, properties.multiProcessorCount,
                properties.l2CacheSize >> 20);
    measureCopy(report);
    for (const Family& family : benchFamilies()) {
        bool wanted = argc == 1;
        for (int i = 1; i < argc; ++i)
            wanted |= std::strcmp(argv[i], family.name) == 0;
        if (wanted)
            family.run(report);
    }
    return 0;
}
