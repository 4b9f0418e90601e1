#include "engine/evaluation/doctor.h"

#include "engine/backend/cpu_model.h"
#include "engine/memory/sketch_basis.h"
#include "engine/model/checkpoint_layout.h"
#include "engine/model/quantized_linear.h"
#include "engine/model/safetensors.h"
#include "engine/model/weights.h"
#include "engine/tokenizer/tokenizer.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <span>

namespace octavo::engine
{

namespace
{

const char* formatName(LinearWeight::Format format)
{
    switch (format) {
    case LinearWeight::Format::Bf16:
        return "bf16";
    case LinearWeight::Format::F16:
        return "f16";
    case LinearWeight::Format::F32:
        return "f32";
    case LinearWeight::Format::Int4:
        return "int4";
    }
    return "unknown";
}

std::string withoutEnd(const std::string& text, std::string_view end)
{
    return text.substr(0, text.size() - end.size());
}

/// How many of the checkpoint's tensors are none of `specs` nor a part of a quantised one.
std::int64_t countOthers(const Checkpoint& checkpoint, const std::vector<TensorSpec>& specs)
{
    std::int64_t used = 0;
    for (const TensorSpec& spec : specs) {
        used += checkpoint.find(spec.name) != nullptr;
        if (!spec.name.ends_with(".weight"))
            continue;
        for (const char* part : {".qweight", ".scales", ".qzeros", ".g_idx"})
            used += checkpoint.find(withoutEnd(spec.name, ".weight") + part) != nullptr;
    }
    return std::int64_t(checkpoint.tensors().size()) - used;
}

void auditWeights(const ModelWeights& weights, CheckpointAudit& audit)
{
    audit.parameters = weights.parameters;
    audit.hash = weights.hash;
    audit.tiedHead = !weights.lmHead;
    audit.floatHead = canQuantize(weights.head());
    audit.mtp = weights.mtp.has_value();
    audit.mtpParameters = audit.mtp ? countParameters(mtpTensors(audit.config)) : 0;
    std::int64_t linearParameters = 0;
    for (const LinearWeight* weight : weights.linears()) {
        ++audit.formats[formatName(weight->format)];
        audit.weightBytes += weight->storedBytes();
        audit.actOrderModules += !weight->groupOfInput.empty();
        audit.asymmetricModules += weight->format == LinearWeight::Format::Int4 && !weight->symmetric();
        linearParameters += weight->parameters();
    }
    audit.weightBytes += (weights.parameters - linearParameters) * std::int64_t(sizeof(float)); // kept widened
    audit.cpuWeightBytes = audit.weightBytes;
    const auto quantize = [&audit](const LayerWeights& layer) {
        for (const LinearWeight* weight : bigLinears(layer)) {
            const std::int64_t groups = (weight->inFeatures + quantizedGroupSize - 1) / quantizedGroupSize;
            if (canQuantize(*weight))
                audit.cpuWeightBytes +=
                    weight->parameters() / 2 + groups * weight->outFeatures * 2 - weight->storedBytes();
        }
    };
    audit.cpuWeightBytes += cpuHeadBytes(weights.head()) - (audit.tiedHead ? 0 : weights.head().storedBytes());
    std::ranges::for_each(weights.layers, quantize);
    if (weights.mtp)
        quantize(weights.mtp->layer);
}

/// Counts what is neither a number nor zero among a tensor's floats.
class FiniteCheck
{
public:
    explicit FiniteCheck(CheckpointAudit& audit) : m_audit(audit) {}

    void linear(const LinearWeight& weight)
    {
        if (weight.format == LinearWeight::Format::Int4) {
            const std::size_t scales = std::size_t(weight.numGroups()) * std::size_t(weight.outFeatures);
            note(weight.name + ".scales", scales, countBad(std::span(weight.scales, scales), halfExponent));
            return;
        }
        const std::size_t values = std::size_t(weight.parameters());
        const auto* bytes = static_cast<const std::byte*>(weight.dense);
        if (weight.format == LinearWeight::Format::F32)
            note(weight.name, values, countBadFloats(bytes, values));
        else
            note(weight.name, values,
                 countBad(std::span(static_cast<const std::uint16_t*>(weight.dense), values),
                          weight.format == LinearWeight::Format::Bf16 ? bf16Exponent : halfExponent));
    }

    void vector(const std::string& name, const std::vector<float>& values)
    {
        note(name, values.size(), countBadFloats(reinterpret_cast<const std::byte*>(values.data()), values.size()));
    }

private:
    static constexpr std::uint16_t halfExponent = 0x7c00, bf16Exponent = 0x7f80;

    static std::size_t countBad(std::span<const std::uint16_t> values, std::uint16_t exponent)
    {
        return std::size_t(std::ranges::count_if(
            values, [exponent](std::uint16_t bits) { return (bits & exponent) == exponent; }));
    }

    static std::size_t countBadFloats(const std::byte* bytes, std::size_t count)
    {
        std::size_t bad = 0;
        for (std::size_t i = 0; i < count; ++i) {
            float value = 0.0f;
            std::memcpy(&value, bytes + 4 * i, 4); // the file may place them off their alignment
            bad += !std::isfinite(value);
        }
        return bad;
    }

    void note(const std::string& name, std::size_t count, std::size_t bad)
    {
        if (bad > 0)
            m_audit.problems.push_back(name + ": " + std::to_string(bad) + " of its " + std::to_string(count) +
                                       " values are no finite numbers: the file is damaged, download it again");
    }

    CheckpointAudit& m_audit;
};

void auditNumbers(const ModelWeights& weights, CheckpointAudit& audit)
{
    FiniteCheck check(audit);
    for (const LinearWeight* weight : weights.linears())
        check.linear(*weight);
    check.vector("norm", weights.finalNorm);
    const auto layer = [&](const std::string& name, const LayerWeights& read) {
        check.vector(name + ".input_layernorm", read.inputNorm);
        check.vector(name + ".post_attention_layernorm", read.postAttentionNorm);
        if (read.attention) {
            check.vector(name + ".self_attn.q_norm", read.attention->qNorm);
            check.vector(name + ".self_attn.k_norm", read.attention->kNorm);
        }
        if (read.gdn) {
            check.vector(name + ".linear_attn.conv1d", read.gdn->conv);
            check.vector(name + ".linear_attn.A_log", read.gdn->aLog);
            check.vector(name + ".linear_attn.dt_bias", read.gdn->dtBias);
            check.vector(name + ".linear_attn.norm", read.gdn->norm);
        }
    };
    for (std::size_t i = 0; i < weights.layers.size(); ++i)
        layer("layers." + std::to_string(i), weights.layers[i]);
    if (weights.mtp) {
        check.vector("mtp.pre_fc_norm_embedding", weights.mtp->preFcNormEmbedding);
        check.vector("mtp.pre_fc_norm_hidden", weights.mtp->preFcNormHidden);
        check.vector("mtp.norm", weights.mtp->norm);
        layer("mtp.layers.0", weights.mtp->layer);
    }
}

void auditTokenizer(const std::filesystem::path& dir, CheckpointAudit& audit)
{
    const Result<Tokenizer> tokenizer = Tokenizer::load(dir / "tokenizer.json");
    if (!tokenizer) {
        audit.problems.push_back(tokenizer.error().message);
        return;
    }
    audit.hasTokenizer = true;
    audit.tokenizerEndId = tokenizer->endId();
    if (audit.tokenizerEndId > audit.config.vocabSize)
        audit.problems.push_back((dir / "tokenizer.json").string() + " has ids up to " +
                                 std::to_string(audit.tokenizerEndId - 1) + ", but the model's vocabulary has only " +
                                 std::to_string(audit.config.vocabSize) + " rows: it belongs to another model");
    if (audit.config.stopIds.empty() && !tokenizer->addedToken("<|im_end|>"))
        audit.problems.push_back(dir.string() + " names no stop id: answers would run to their length limit");
}

void auditBasis(const std::filesystem::path& dir, CheckpointAudit& audit)
{
    const std::filesystem::path file = dir / "basis.safetensors";
    std::error_code ignored;
    if (!std::filesystem::exists(file, ignored))
        return;
    const Result<SketchBasis> basis = SketchBasis::load(file);
    if (!basis) {
        audit.problems.push_back(basis.error().message);
        return;
    }
    const ModelConfig& c = audit.config;
    if (const auto fits = basis->checkFits(audit.hash, c.numFullAttentionLayers(), c.numKvHeads, c.headDim); !fits) {
        audit.problems.push_back(fits.error().message);
        return;
    }
    audit.basisRank = basis->rank;
}

} // namespace

Result<CheckpointAudit> auditCheckpoint(const std::filesystem::path& dir, AuditDepth depth)
{
    CheckpointAudit audit;
    OCTAVO_TRY(audit.config, ModelConfig::load(dir));
    OCTAVO_TRY(const Checkpoint checkpoint, Checkpoint::open(dir));
    OCTAVO_TRY(const ModelWeights weights, ModelWeights::open(dir, audit.config));
    std::error_code ignored;
    audit.name = std::filesystem::weakly_canonical(dir, ignored).filename().string();
    audit.tensors = std::int64_t(checkpoint.tensors().size());
    audit.fileBytes = std::int64_t(checkpoint.fileBytes());
    audit.files = int(checkpoint.numFiles());
    auditWeights(weights, audit);
    if (depth == AuditDepth::Numbers)
        auditNumbers(weights, audit);

    std::vector<TensorSpec> specs = textTensors(audit.config, audit.tiedHead ? HeadLayout::Tied : HeadLayout::Untied,
                                                withoutEnd(weights.embedding.name, "embed_tokens"));
    if (weights.lmHead)
        specs.back().name = weights.lmHead->name + ".weight";
    if (weights.mtp) {
        const std::vector<TensorSpec> more = mtpTensors(audit.config, withoutEnd(weights.mtp->fc.name, "fc"));
        specs.insert(specs.end(), more.begin(), more.end());
    }
    audit.ignoredTensors = countOthers(checkpoint, specs);
    auditTokenizer(dir, audit);

    auditBasis(dir, audit);
    return audit;
}

} // namespace octavo::engine
