#pragma once

/// One check per kernel family: the launcher against its reference over awkward sizes.

#include "tests/gpu/gpu_harness.h"

namespace octavo::gpu
{

void checkArgmax(Report& report);
void checkRowCopy(Report& report);
void checkRowPeak(Report& report);
void checkW4Gemm(Report& report);
void checkGdnDecode(Report& report);
void checkElementwise(Report& report);
void checkKvRows(Report& report);
void checkAttentionDecode(Report& report);
void checkSketch(Report& report);
void checkAttentionInput(Report& report);
void checkHotBuffer(Report& report);
void checkPrefillAttention(Report& report);
void checkGdnChunks(Report& report);
void checkBf16Gemm(Report& report);
void checkBf16Rows(Report& report);

} // namespace octavo::gpu
