#pragma once

#include "kernels/cpu/cpu_features.h"

#include <vector>

namespace octavo::test {

/// The paths beside Plain that this machine has.
inline std::vector<kernels::cpu::Path> fasterPaths()
{
    std::vector<kernels::cpu::Path> paths;
    for (const auto path : {kernels::cpu::Path::Avx2, kernels::cpu::Path::Avx512}) {
        if (kernels::cpu::isSupported(path))
            paths.push_back(path);
    }
    return paths;
}

} // namespace octavo::test
