#pragma once

/// Writes small checkpoints for tests: any safetensors file, and whole random models in each form a loader meets.

#include "engine/model/checkpoint_layout.h"
#include "engine/model/float_formats.h"

#include <QByteArray>
#include <QFile>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace octavo::engine::test
{

inline void writeFile(const std::string& path, const std::string& bytes)
{
    QFile file(QString::fromStdString(path));
    if (!file.open(QIODevice::WriteOnly) || file.write(bytes.data(), qint64(bytes.size())) != qint64(bytes.size()))
        qFatal("%s cannot be written", path.c_str());
}

/// A safetensors file with the given header text, which is padded with blanks to a multiple of `alignment`.
inline std::string safetensorsBytes(std::string header, const std::string& data, std::size_t alignment = 8)
{
    header.resize((header.size() + alignment - 1) / alignment * alignment, ' ');
    std::string file(8, '\0');
    const std::uint64_t length = header.size();
    std::memcpy(file.data(), &length, 8);
    return file + header + data;
}

/// Collects tensors and lays them out in the order they came.
class SafetensorsWriter
{
public:
    template <typename T>
    void add(const std::string& name, const std::string& dtype, const std::vector<std::int64_t>& shape,
             const std::vector<T>& values)
    {
        std::string extents;
        for (std::int64_t extent : shape)
            extents += (extents.empty() ? "" : ",") + std::to_string(extent);
        const std::size_t begin = m_data.size();
        m_data.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
        m_header += std::string(m_header.empty() ? "" : ",") + '"' + name + R"(":{"dtype":")" + dtype +
                    R"(","shape":[)" + extents + R"(],"data_offsets":[)" + std::to_string(begin) + ',' +
                    std::to_string(m_data.size()) + "]}";
        m_names.push_back(name);
    }

    std::string bytes(std::size_t alignment = 8) const
    {
        return safetensorsBytes("{" + m_header + "}", m_data, alignment);
    }
    const std::vector<std::string>& names() const { return m_names; }

private:
    std::string m_header, m_data;
    std::vector<std::string> m_names;
};

enum class StoredZeros { AllSeven, AllEight, AsymmetricV1, AsymmetricV2 };

/// In which of its forms a random model is written. The weights are the same in all forms with the same `zeros`
/// symmetry and `actOrder`, so that forms can be compared.
struct ModelForm {
    std::string textPrefix = "model.language_model.";
    std::string mtpPrefix = "mtp.";
    HeadLayout head = HeadLayout::Untied;
    bool mtp = true;
    bool int4 = false;    ///< body linears as qweight, scales, qzeros, else as F32
    bool int4Mtp = false; ///< those of the MTP layer too
    StoredZeros zeros = StoredZeros::AllSeven;
    bool actOrder = false; ///< a g_idx that is no run of groups
    bool trivialGroups = false;
    std::string gateDtype = "F32"; ///< of A_log and linear_attn.norm: F32 or BF16

    bool symmetric() const { return zeros == StoredZeros::AllSeven || zeros == StoredZeros::AllEight; }
};

inline constexpr int testGroupSize = 16;

/// A config with four layers whose sizes are all different.
inline std::string smallConfigJson(const ModelForm& form = {})
{
    std::string json = R"({"model_type": "qwen3_5_text", "vocab_size": 48, "hidden_size": 64, "intermediate_size": 96,
        "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 24,
        "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 16,
        "max_position_embeddings": 1024, "partial_rotary_factor": 0.5, "eos_token_id": 1)";
    if (form.int4) {
        json += R"(, "quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 16, "sym": )";
        json += form.symmetric() ? "true" : "false";
        json += form.zeros == StoredZeros::AsymmetricV2 ? R"(, "checkpoint_format": "gptq_v2"})" : "}";
    }
    return json + "}";
}

/// A random model of any config; call add() per tensor through tensors().
class ModelWriter
{
public:
    ModelWriter(const ModelConfig& config, const ModelForm& form)
        : m_form(form)
    {
        for (const TensorSpec& tensor : textTensors(config, form.head, form.textPrefix))
            add(tensor, form.textPrefix, form.int4);
        if (form.mtp) {
            for (const TensorSpec& tensor : mtpTensors(config, form.mtpPrefix))
                add(tensor, form.mtpPrefix, form.int4 && form.int4Mtp);
        }
    }

    SafetensorsWriter& file() { return m_file; }

    /// DIR/config.json and DIR/model.safetensors.
    void write(const std::string& dir, std::size_t alignment = 8) const
    {
        writeFile(dir + "/config.json", smallConfigJson(m_form));
        writeFile(dir + "/model.safetensors", m_file.bytes(alignment));
    }

private:
    static bool endsWith(const std::string& text, const char* end)
    {
        return QByteArray::fromStdString(text).endsWith(end);
    }

    void add(const TensorSpec& tensor, const std::string& prefix, bool int4)
    {
        const std::string bare = tensor.name.substr(tensor.name.rfind(prefix, 0) == 0 ? prefix.size() : 0);
        m_random.seed(std::uint32_t(qHash(QByteArray::fromStdString(bare), 7))); // same tensor, same values in any form
        const bool quantized = tensor.kind == TensorSpec::Kind::Linear && !endsWith(bare, "in_proj_a.weight") &&
                               !endsWith(bare, "in_proj_b.weight") && !endsWith(bare, "fc.weight");
        if (quantized)
            return addLinear(tensor, int4);
        std::vector<std::uint16_t> values(std::size_t(tensor.parameters()));
        for (std::uint16_t& value : values)
            value = std::uint16_t((m_random() & 1) << 15 | (0x3c80 + m_random() % 0x200)); // bf16, 0.016 to 0.25
        const bool gate = endsWith(bare, "A_log") || endsWith(bare, "linear_attn.norm.weight");
        if (gate && m_form.gateDtype == "F32") {
            std::vector<float> wide(values.size());
            std::transform(values.begin(), values.end(), wide.begin(), floatFromBf16);
            m_file.add(tensor.name, "F32", tensor.shape, wide);
        } else {
            m_file.add(tensor.name, "BF16", tensor.shape, values);
        }
    }

    void addLinear(const TensorSpec& tensor, bool int4)
    {
        const std::size_t outputs = std::size_t(tensor.shape[0]), inputs = std::size_t(tensor.shape[1]);
        const std::size_t groups = inputs / testGroupSize;
        std::vector<std::uint16_t> scales(groups * outputs); // fp16, signed
        std::vector<std::uint32_t> zeros(groups * outputs, 8), codes(inputs * outputs);
        std::vector<std::int32_t> groupOf(inputs);
        for (std::uint16_t& scale : scales)
            scale = std::uint16_t((m_random() & 1) << 15 | 8 << 10 | (m_random() & 1023));
        for (std::uint32_t& code : codes)
            code = m_random() & 15;
        for (std::uint32_t& zero : zeros) {
            const std::uint32_t drawn = 1 + m_random() % 15;
            zero = m_form.symmetric() ? 8 : drawn;
        }
        for (std::size_t k = 0; k < inputs; ++k)
            groupOf[k] = std::int32_t(k / testGroupSize);
        if (m_form.actOrder)
            std::shuffle(groupOf.begin(), groupOf.end(), m_random);

        const std::string module = tensor.name.substr(0, tensor.name.size() - std::strlen(".weight"));
        const std::int64_t n = tensor.shape[0], k = tensor.shape[1], g = std::int64_t(groups);
        if (!int4) {
            std::vector<float> values(inputs * outputs);
            for (std::size_t row = 0; row < outputs; ++row) {
                for (std::size_t column = 0; column < inputs; ++column) {
                    const std::size_t at = std::size_t(groupOf[column]) * outputs + row;
                    values[row * inputs + column] =
                        floatFromHalf(scales[at]) * float(int(codes[column * outputs + row]) - int(zeros[at]));
                }
            }
            m_file.add(tensor.name, "F32", tensor.shape, values);
            return;
        }
        std::vector<std::uint32_t> qweight(inputs / 8 * outputs), qzeros(groups * outputs / 8);
        for (std::size_t at = 0; at < codes.size(); ++at)
            qweight[at / outputs / 8 * outputs + at % outputs] |= codes[at] << (4 * (at / outputs % 8));
        const bool minusOne = m_form.zeros == StoredZeros::AllSeven || m_form.zeros == StoredZeros::AsymmetricV1;
        for (std::size_t at = 0; at < zeros.size(); ++at)
            qzeros[at / 8] |= (zeros[at] - (minusOne ? 1 : 0)) << (4 * (at % 8));
        m_file.add(module + ".qweight", "I32", {k / 8, n}, qweight);
        m_file.add(module + ".qzeros", "I32", {g, n / 8}, qzeros);
        m_file.add(module + ".scales", "F16", {g, n}, scales);
        if (m_form.actOrder || m_form.trivialGroups)
            m_file.add(module + ".g_idx", "I32", {k}, groupOf);
    }

    ModelForm m_form;
    SafetensorsWriter m_file;
    std::mt19937 m_random;
};

} // namespace octavo::engine::test
