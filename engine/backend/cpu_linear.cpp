#include "engine/backend/cpu_linear.h"

#include "engine/model/float_formats.h"
#include "kernels/cpu/pack.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

namespace octavo::engine
{

namespace cpu = kernels::cpu;

namespace
{

constexpr int int8GroupSize = 32; // 128 costs a third more error in the log-probabilities
constexpr int largestInt4Group = 1024;

std::size_t aligned(std::size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

Error noMemory(const LinearWeight& weight, std::size_t bytes)
{
    return {ErrorCode::OutOfMemory, weight.name + " needs " + std::to_string(bytes) + " bytes, which could not be had"};
}

/// Slots sorted by group, each group padded to its full size; empty when the inputs stand in that order already.
Result<std::vector<std::int32_t>> slotsByGroup(const LinearWeight& weight)
{
    std::vector<std::int32_t> slots;
    if (weight.groupOfInput.empty())
        return slots;
    bool inOrder = weight.inFeatures % cpu::panelDepth == 0;
    for (int k = 0; k < weight.inFeatures && inOrder; ++k)
        inOrder = weight.groupOfInput[std::size_t(k)] == k / weight.groupSize;
    if (inOrder)
        return slots;
    slots.assign(std::size_t(weight.numGroups()) * std::size_t(weight.groupSize), -1);
    std::vector<int> filled(std::size_t(weight.numGroups()), 0);
    for (int k = 0; k < weight.inFeatures; ++k) {
        const int group = weight.groupOfInput[std::size_t(k)];
        int& count = filled[std::size_t(group)];
        if (count == weight.groupSize)
            return Error{ErrorCode::Unsupported, weight.name + ": g_idx puts more than " +
                                                     std::to_string(weight.groupSize) + " inputs into group " +
                                                     std::to_string(group) + ", which the CPU backend cannot run"};
        slots[std::size_t(group) * std::size_t(weight.groupSize) + std::size_t(count++)] = k;
    }
    return slots;
}

} // namespace

Result<CpuLinear> CpuLinear::pack(const LinearWeight& weight)
{
    const LinearWeight* one = &weight;
    return pack(std::span(&one, 1));
}

Result<CpuLinear> CpuLinear::pack(std::span<const LinearWeight* const> parts)
{
    const LinearWeight& weight = *parts.front();
    CpuLinear linear;
    linear.m_inputs = weight.inFeatures;
    for (const LinearWeight* part : parts)
        linear.m_outputs += part->outFeatures;
    const int panels = cpu::panelCount(linear.m_outputs);

    if (weight.format != LinearWeight::Format::Int4) {
        linear.m_format = Format::Dense;
        linear.m_slots = weight.inFeatures;
        bool bf16 = true;
        for (const LinearWeight* part : parts)
            bf16 = bf16 && part->format == LinearWeight::Format::Bf16;
        const std::size_t values = std::size_t(panels) * cpu::panelWidth * std::size_t(weight.inFeatures);
        const std::size_t bytes = values * (bf16 ? 2 : 4);
        linear.m_memory = BigPages(bytes);
        if (linear.m_memory.empty())
            return noMemory(weight, bytes);
        std::vector<float> row(std::size_t(weight.inFeatures));
        std::int64_t n = 0;
        for (const LinearWeight* part : parts) {
            for (int i = 0; i < part->outFeatures; ++i, ++n) {
                part->dequantizeRow(i, row);
                const std::int64_t base =
                    n / cpu::panelWidth * cpu::panelWidth * weight.inFeatures + n % cpu::panelWidth;
                for (std::int64_t k = 0; k < weight.inFeatures; ++k) {
                    if (bf16)
                        linear.m_memory.as<std::uint16_t>()[base + k * cpu::panelWidth] =
                            std::uint16_t(std::bit_cast<std::uint32_t>(row[std::size_t(k)]) >> 16);
                    else
                        linear.m_memory.as<float>()[base + k * cpu::panelWidth] = row[std::size_t(k)];
                }
            }
        }
        linear.m_dense = {linear.m_memory.as<void>(), bf16, linear.m_outputs, linear.m_inputs};
        return linear;
    }

    if (parts.size() != 1)
        return Error{ErrorCode::Unsupported, weight.name + ": int4 modules are packed one by one"};
    OCTAVO_TRY(linear.m_inputOfSlot, slotsByGroup(weight));
    linear.m_format = Format::Int4;
    linear.m_slots = linear.m_inputOfSlot.empty() ? weight.inFeatures : int(linear.m_inputOfSlot.size());
    // A group that spans many inputs (a scale per row) is cut, so that integer sums stay in range.
    int group = std::min(weight.groupSize, linear.m_slots);
    while (group > largestInt4Group && group % 2 == 0)
        group /= 2;
    if (group % cpu::panelDepth != 0 || group > largestInt4Group || weight.groupSize % group != 0 ||
        linear.m_slots % cpu::panelDepth != 0)
        return Error{ErrorCode::Unsupported, weight.name + ": group size " + std::to_string(weight.groupSize) +
                                                 " over " + std::to_string(weight.inFeatures) +
                                                 " inputs is not a multiple of 8, which the CPU backend needs"};
    const int groups = (linear.m_slots + group - 1) / group, cut = weight.groupSize / group;
    const std::size_t cells = std::size_t(panels) * cpu::panelWidth * std::size_t(groups);
    const std::size_t codeBytes = aligned(std::size_t(panels) * cpu::panelWidth * std::size_t(linear.m_slots) / 2);
    const std::size_t scaleBytes = aligned(cells * 2), offsetBytes = weight.symmetric() ? 0 : aligned(cells);
    linear.m_memory = BigPages(codeBytes + scaleBytes + offsetBytes);
    if (linear.m_memory.empty())
        return noMemory(weight, codeBytes + scaleBytes + offsetBytes);
    auto* codes = linear.m_memory.as<std::uint32_t>();
    auto* scales = reinterpret_cast<std::uint16_t*>(linear.m_memory.as<std::byte>() + codeBytes);
    auto* offsets = reinterpret_cast<std::int8_t*>(linear.m_memory.as<std::byte>() + codeBytes + scaleBytes);
    cpu::packInt4(weight.qweight, weight.outFeatures, linear.m_slots,
                  linear.m_inputOfSlot.empty() ? nullptr : linear.m_inputOfSlot.data(), 0, panels, codes);
    for (int n = 0; n < weight.outFeatures; ++n) {
        for (int g = 0; g < groups; ++g) {
            const std::size_t from = std::size_t(g / cut) * std::size_t(weight.outFeatures) + std::size_t(n);
            const std::size_t to =
                (std::size_t(n / cpu::panelWidth) * std::size_t(groups) + std::size_t(g)) * cpu::panelWidth +
                std::size_t(n % cpu::panelWidth);
            std::memcpy(scales + to, weight.scales + from, sizeof(std::uint16_t));
            if (!weight.symmetric())
                offsets[to] = std::int8_t(int(weight.zeros[from]) - 8);
        }
    }
    linear.m_int4 = {codes, scales, weight.symmetric() ? nullptr : offsets, linear.m_outputs, linear.m_slots, group};
    return linear;
}

std::int64_t CpuLinear::int8Bytes(int outputs, int inputs)
{
    const std::int64_t slots = cpu::paddedDepth(inputs), groups = (slots + int8GroupSize - 1) / int8GroupSize;
    return cpu::panelCount(outputs) * std::int64_t(cpu::panelWidth) * (slots + groups * std::int64_t(sizeof(float)));
}

Result<CpuLinear> CpuLinear::packInt8(const LinearWeight& weight)
{
    CpuLinear linear;
    linear.m_format = Format::Int8;
    linear.m_outputs = weight.outFeatures;
    linear.m_inputs = weight.inFeatures;
    linear.m_slots = cpu::paddedDepth(weight.inFeatures);
    const int panels = cpu::panelCount(linear.m_outputs), groups = (linear.m_slots + int8GroupSize - 1) / int8GroupSize;
    const std::size_t codeBytes = aligned(std::size_t(panels) * cpu::panelWidth * std::size_t(linear.m_slots));
    const std::size_t scaleBytes = std::size_t(panels) * std::size_t(groups) * cpu::panelWidth * sizeof(float);
    linear.m_memory = BigPages(codeBytes + scaleBytes);
    if (linear.m_memory.empty())
        return noMemory(weight, codeBytes + scaleBytes);
    auto* codes = linear.m_memory.as<std::int8_t>();
    auto* scales = reinterpret_cast<float*>(linear.m_memory.as<std::byte>() + codeBytes);
    std::vector<float> row(std::size_t(weight.inFeatures));
    for (int n = 0; n < weight.outFeatures; ++n) {
        weight.dequantizeRow(n, row);
        cpu::packInt8Row(row.data(), n, weight.inFeatures, linear.m_slots, int8GroupSize, codes, scales);
    }
    linear.m_int8 = {codes, scales, linear.m_outputs, linear.m_slots, int8GroupSize};
    return linear;
}

void CpuLinear::readInt8Row(int n, std::span<float> row) const
{
    const int lane = n % cpu::panelWidth;
    const std::int64_t panel = n / cpu::panelWidth;
    const std::int8_t* codes = m_int8.codes + panel * cpu::panelWidth * m_slots;
    const float* scales = m_int8.scales + panel * int8Groups() * cpu::panelWidth;
    for (int k = 0; k < m_inputs; ++k)
        row[std::size_t(k)] =
            float(codes[cpu::int8PanelOffset(k, lane)]) * scales[k / m_int8.groupSize * cpu::panelWidth + lane];
}

const std::byte* CpuLinear::weights(int panel) const
{
    const std::int64_t first = std::int64_t(panel) * cpu::panelWidth * m_slots;
    switch (m_format) {
    case Format::Int4:
        return m_memory.as<std::byte>() + first / 2;
    case Format::Int8:
        return m_memory.as<std::byte>() + first;
    case Format::Dense:
        break;
    }
    return m_memory.as<std::byte>() + first * (m_dense.bf16 ? 2 : 4);
}

void CpuLinear::run(const cpu::Kernels& kernels, const cpu::QuantizedRows& quantized, const float* x,
                    std::int64_t xStride, int rows, int panelBegin, int panelEnd, float* out,
                    std::int64_t outStride, cpu::Ahead& ahead) const
{
    if (panelBegin >= panelEnd || rows == 0)
        return;
    switch (m_format) {
    case Format::Int4:
        kernels.linearInt4(m_int4, quantized, panelBegin, panelEnd, out, outStride, ahead);
        return;
    case Format::Int8:
        kernels.linearInt8(m_int8, quantized, panelBegin, panelEnd, out, outStride, ahead);
        return;
    case Format::Dense:
        kernels.linearDense(m_dense, x, xStride, rows, panelBegin, panelEnd, out, outStride);
        return;
    }
}

} // namespace octavo::engine
