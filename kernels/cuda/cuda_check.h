#pragma once

#include <cuda_runtime_api.h>

/// Returns the first error from the enclosing launcher, which itself returns cudaError_t.
#define OCTAVO_CUDA_TRY(expression)                                                                                    \
    do {                                                                                                               \
        if (const cudaError_t octavoStatus = (expression); octavoStatus != cudaSuccess)                                \
            return octavoStatus;                                                                                       \
    } while (false)
