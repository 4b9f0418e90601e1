#pragma once

/// Sizes and strides that travel with a device pointer. `const` on what is read.

#include <cstdint>

namespace octavo::kernels::cuda
{

/// `rows` x `cols` elements on the device; row i starts at data + i * stride. Offsets are 64-bit before they multiply.
template <typename T>
struct MatrixView {
    T* data = nullptr;
    int rows = 0;
    int cols = 0;
    std::int64_t stride = 0;
};

/// What a product is stored as. Gated: outputs come as 16 gates, then the 16 values that they gate, and so on; what is
/// stored is silu(gate) * value as bf16, half as many, both rounded to bf16 before.
enum class GemmOutput { Bf16, Float, Gated };

template <typename T>
MatrixView<T> denseView(T* data, int rows, int cols)
{
    return {data, rows, cols, cols};
}

} // namespace octavo::kernels::cuda
