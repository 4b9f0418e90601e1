#include "kernels/cpu/cpu_features.h"

namespace octavo::kernels::cpu {

bool isSupported(Path path)
{
#if defined(__x86_64__)
    // The compiler's check reads CPUID and XGETBV, so a system that does not save the wide registers says no.
    switch (path) {
    case Path::Plain: return true;
    case Path::Avx2:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    case Path::Avx512:
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
               && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")
               && __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bf16");
    }
    return false;
#else
    return path == Path::Plain;
#endif
}

Path bestPath()
{
    for (Path path : {Path::Avx512, Path::Avx2}) {
        if (isSupported(path))
            return path;
    }
    return Path::Plain;
}

std::string_view pathName(Path path)
{
    switch (path) {
    case Path::Plain: return "plain";
    case Path::Avx2: return "avx2";
    case Path::Avx512: return "avx512";
    }
    return "unknown";
}

} // namespace octavo::kernels::cpu
