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

/// What a product is stored as.
enum class GemmOutput { Bf16, Float };

template <typename T>
MatrixView<T> denseView(T* data, int rows, int cols)
{
    return {data, rows, cols, cols};
}

} // namespace octavo::kernels::cuda
