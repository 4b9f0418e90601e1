#pragma once

/// Repacks weights into panels, once, when a model is loaded. Plain code, any thread.

#include "kernels/cpu/panels.h"

#include <cstdint>

namespace octavo::kernels::cpu {

/// GPTQ words (k/8, outputs) into panel codes, for panels [panelBegin, panelEnd). Codes lose 8, so that the common
/// zero point needs no arithmetic. inputOfSlot: input of each packed slot, -1 for padding, null for the identity
/// (then inputs % 8 == 0 and each word is copied as it is).
void packInt4(const std::uint32_t* qweight, int outputs, int slots, const std::int32_t* inputOfSlot, int panelBegin,
              int panelEnd, std::uint32_t* codes);

/// A row-major float matrix row by row into int8 panels: scales per (output, group) are its largest magnitude / 127.
/// `row`: (inputs) values of output n. codes and scales must be zeroed for padding.
void packInt8Row(const float* row, int n, int inputs, int paddedInputs, int groupSize, std::int8_t* codes,
                 float* scales);

} // namespace octavo::kernels::cpu
