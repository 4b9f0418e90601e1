#pragma once

#include "tests/gpu/gpu_harness.h"

namespace octavo::gpu
{

/// Device-to-device copy in GB/s, read and write counted: the ceiling that percentages refer to.
double copyBandwidth();
void measureCopy(Report& report);

void benchW4Gemm(Report& report);
void benchGdnDecode(Report& report);
void benchElementwise(Report& report);
void benchSketch(Report& report);
void benchAttentionDecode(Report& report);
void benchGather(Report& report);
void benchDecodeStep(Report& report);
void benchDecodeSteady(Report& report);
void benchPrefill(Report& report);

std::span<const Family> benchFamilies();

/// Prints name, time, GB/s of `bytes` and the share of the copy's bandwidth.
void bandwidthLine(Report& report, const std::string& name, double us, double bytes);

} // namespace octavo::gpu
