#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace octavo::gpu
{

/// Copies on the multiprocessors: what the memory gives to a kernel, where cudaMemcpy may use a slower copy engine.
cudaError_t launchCopy(const void* from, void* to, std::size_t bytes, int blocks, cudaStream_t stream);

} // namespace octavo::gpu
