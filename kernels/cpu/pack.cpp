#include "kernels/cpu/pack.h"

#include <algorithm>
#include <cmath>

namespace octavo::kernels::cpu {

void packInt4(const std::uint32_t* qweight, int outputs, int slots, const std::int32_t* inputOfSlot, int panelBegin,
              int panelEnd, std::uint32_t* codes)
{
    constexpr std::uint32_t minusEight = 0x88888888u; // flipping the top bit of a nibble takes 8 from it
    const int blocks = slots / panelDepth;
    for (int panel = panelBegin; panel < panelEnd; ++panel) {
        const int first = panel * panelWidth, valid = std::min(panelWidth, outputs - first);
        std::uint32_t* out = codes + std::int64_t(panel) * blocks * panelWidth;
        for (int b = 0; b < blocks; ++b, out += panelWidth) {
            std::fill(out, out + panelWidth, 0u);
            for (int lane = 0; lane < valid; ++lane) {
                std::uint32_t word = 0;
                if (!inputOfSlot) {
                    word = qweight[std::int64_t(b) * outputs + first + lane] ^ minusEight;
                } else {
                    for (int i = 0; i < panelDepth; ++i) {
                        const std::int32_t k = inputOfSlot[b * panelDepth + i];
                        const std::uint32_t code =
                            k < 0 ? 8u : (qweight[std::int64_t(k / 8) * outputs + first + lane] >> (4 * (k % 8))) & 15u;
                        word |= (code ^ 8u) << (4 * i);
                    }
                }
                out[lane] = word;
            }
        }
    }
}

void packInt8Row(const float* row, int n, int inputs, int paddedInputs, int groupSize, std::int8_t* codes,
                 float* scales)
{
    const int groups = (paddedInputs + groupSize - 1) / groupSize, panel = n / panelWidth, lane = n % panelWidth;
    std::int8_t* out = codes + std::int64_t(panel) * paddedInputs * panelWidth;
    for (int g = 0; g < groups; ++g) {
        const int begin = g * groupSize, end = std::min(inputs, begin + groupSize);
        float largest = 0.0f;
        for (int k = begin; k < end; ++k)
            largest = std::max(largest, std::fabs(row[k]));
        const float scale = largest / 127.0f, inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
        scales[(std::int64_t(panel) * groups + g) * panelWidth + lane] = scale;
        for (int k = begin; k < end; ++k)
            out[int8PanelOffset(k, lane)] = std::int8_t(std::clamp(std::lrint(row[k] * inverse), -127l, 127l));
    }
}

} // namespace octavo::kernels::cpu
