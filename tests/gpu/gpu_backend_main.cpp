/// gpu_backend_check MODEL_DIR PROMPTS_JSON: the CUDA backend on the demo model, without Qt.

#include "tests/gpu/check_backend.h"

int main(int argc, char** argv)
{
    if (argc != 3) {
        std::printf("gpu_backend_check MODEL_DIR PROMPTS_JSON\n");
        return 2;
    }
    if (!octavo::gpu::hasDevice()) {
        std::printf("no CUDA device\n");
        return 77;
    }
    octavo::gpu::Report report;
    octavo::gpu::checkBackend(report, argv[1], argv[2]);
    std::printf("backend: %d checks, %d failures\n%s", report.checks(), report.failures(), report.messages().c_str());
    return report.failures() == 0 ? 0 : 1;
}
