#pragma once

/// What this processor can do, as far as the kernels care.

#include <string_view>

namespace octavo::kernels::cpu {

/// Kernel paths in order of preference. A path is used only where isSupported() says so.
enum class Path { Plain, Avx2, Avx512 };

/// Avx2 needs AVX2, FMA and F16C; Avx512 needs F, BW, DQ, VL, VNNI and BF16, each also enabled by the system.
bool isSupported(Path path);

/// The best supported path.
Path bestPath();

std::string_view pathName(Path path); ///< "plain", "avx2", "avx512"

} // namespace octavo::kernels::cpu
