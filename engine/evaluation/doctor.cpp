#include "engine/evaluation/doctor.h"

#include "engine/memory/sketch_basis.h"
#include "engine/model/checkpoint_layout.h"
#include "engine/model/safetensors.h"
#include "engine/model/weights.h"
#include "engine/tokenizer/tokenizer.h"

#include <algorithm>

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

Result<CheckpointAudit> auditCheckpoint(const std::filesystem::path& dir)
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
