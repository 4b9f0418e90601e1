#pragma once

/// A linear layer as the CPU kernels want it, repacked once from the checkpoint.

#include "engine/memory/big_pages.h"
#include "engine/model/weights.h"
#include "engine/result.h"
#include "kernels/cpu/kernels.h"

#include <memory>
#include <span>
#include <vector>

namespace octavo::engine
{

class CpuLinear
{
public:
    enum class Format { Int4, Int8, Dense };

    CpuLinear() = default;

    /// Int4 weights stay int4; others stay as they are stored (fp16 becomes float). Rows of `parts` follow one another.
    /// Fails with Unsupported for a group size or input order the kernels cannot take, with OutOfMemory.
    static Result<CpuLinear> pack(std::span<const LinearWeight* const> parts);
    static Result<CpuLinear> pack(const LinearWeight& weight);
    /// Any format to int8, with a scale for each 32 inputs of a row.
    static Result<CpuLinear> packInt8(const LinearWeight& weight);
    /// What packInt8() takes for a layer of that size.
    static std::int64_t int8Bytes(int outputs, int inputs);

    Format format() const { return m_format; }
    int outputs() const { return m_outputs; }
    int inputs() const { return m_inputs; }                ///< of the model
    int slots() const { return m_slots; }                  ///< packed inputs, a multiple of 8
    bool quantized() const { return m_format != Format::Dense; }
    std::int64_t bytes() const { return std::int64_t(m_memory.bytes()); }

    /// Empty for the model's own order; otherwise the input of each slot, -1 for padding.
    const std::vector<std::int32_t>& inputOfSlot() const { return m_inputOfSlot; }
    /// Whether activations quantised for `other` serve this layer too.
    bool takesInputOf(const CpuLinear& other) const
    {
        return m_slots == other.m_slots && m_inputOfSlot == other.m_inputOfSlot;
    }

    /// What output n of a layer from packInt8() multiplies its inputs with. `row`: (inputs).
    void readInt8Row(int n, std::span<float> row) const;
    int int8Groups() const { return (m_slots + m_int8.groupSize - 1) / m_int8.groupSize; }

    /// Where the weights of a panel begin.
    const std::byte* weights(int panel) const;
    /// Outputs of panels [panelBegin, panelEnd) into out, which begins at output 16 * panelBegin. Quantised formats ask
    /// for what `ahead` names meanwhile.
    void run(const kernels::cpu::Kernels& kernels, const kernels::cpu::QuantizedRows& quantized, const float* x,
             std::int64_t xStride, int rows, int panelBegin, int panelEnd, float* out, std::int64_t outStride,
             kernels::cpu::Ahead& ahead) const;

private:
    Format m_format = Format::Dense;
    int m_outputs = 0, m_inputs = 0, m_slots = 0;
    std::vector<std::int32_t> m_inputOfSlot;
    BigPages m_memory;
    kernels::cpu::Int4Panels m_int4;
    kernels::cpu::Int8Panels m_int8;
    kernels::cpu::DensePanels m_dense;
};

} // namespace octavo::engine
