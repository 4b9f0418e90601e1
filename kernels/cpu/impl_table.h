#pragma once

/// Fills the table of the path whose vec_*.h came before.

#include "kernels/cpu/impl_linear.h"
#include "kernels/cpu/impl_elementwise.h"
#include "kernels/cpu/impl_attention.h"
#include "kernels/cpu/impl_gdn.h"

namespace {

constexpr Kernels makeKernels(Path path)
{
    return {.path = path,
            .maxTileRows = maxRowTile,
            .quantizeRow = quantizeRow,
            .linearInt4 = linearInt4,
            .linearInt8 = linearInt8,
            .linearDense = linearDense,
            .rmsNorm = rmsNorm,
            .l2Norm = l2Norm,
            .gatedNorm = gatedNorm,
            .add = add,
            .siluMul = siluMul,
            .gateContext = gateContext,
            .convSilu = convSilu,
            .convStep = convStep,
            .rope = rope,
            .writeKv = writeKv,
            .attendPage = attendPage,
            .mergeState = mergeState,
            .gdnRecurrent = gdnRecurrent,
            .gdnReplay = gdnReplay,
            .gdnChunk = gdnChunk,
            .largest = largest,
            .panelsReaching = panelsReaching,
            .exponential = exponential};
}

} // namespace
