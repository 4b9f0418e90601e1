#include "kernels/cpu/kernels.h"

namespace octavo::kernels::cpu {

const Kernels& kernels(Path path)
{
#if defined(__x86_64__)
    if (isSupported(path)) {
        if (path == Path::Avx512)
            return detail::avx512Kernels();
        if (path == Path::Avx2)
            return detail::avx2Kernels();
    }
#endif
    (void)path;
    return detail::plainKernels();
}

} // namespace octavo::kernels::cpu
