/// gpu_check [family...]: every kernel family against its reference, without Qt, so that it also runs under
/// compute-sanitizer and on machines that have nothing but a driver.

#include "tests/gpu/checks.h"

int main(int argc, char** argv)
{
    using namespace octavo::gpu;
    if (!hasDevice()) {
        std::printf("no CUDA device\n");
        return 77;
    }
    int failures = 0;
    for (const Family& family : checkFamilies()) {
        bool wanted = argc == 1;
        for (int i = 1; i < argc; ++i)
            wanted |= std::strcmp(argv[i], family.name) == 0;
        if (!wanted)
            continue;
        Report report;
        family.run(report);
        std::printf("%-16s %6d checks %4d failures\n%s", family.name, report.checks(), report.failures(),
                    report.messages().c_str());
        std::fflush(stdout);
        failures += report.failures();
    }
    return failures == 0 ? 0 : 1;
}
