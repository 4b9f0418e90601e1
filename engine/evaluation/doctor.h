#pragma once

/// Examines a checkpoint folder without loading it: what is there, in which formats, and what does not fit.

#include "engine/model/model_config.h"
#include "engine/result.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace octavo::engine
{

struct CheckpointAudit {
    std::string name; ///< of the folder
    ModelConfig config;
    std::int64_t tensors = 0;        ///< in the files, quantised modules counted by their parts
    std::int64_t ignoredTensors = 0; ///< of them, those the text model and MTP have no use for (vision)
    std::int64_t fileBytes = 0;
    int files = 0;
    std::int64_t parameters = 0;        ///< text model and MTP
    std::int64_t mtpParameters = 0;     ///< of them, MTP's
    std::int64_t weightBytes = 0;       ///< as the files store them, zero points of symmetric modules left out
    std::int64_t cpuWeightBytes = 0;    ///< the same once float layers are quantised, as they are on the CPU
    std::map<std::string, int> formats; ///< linear modules by format: "int4", "bf16", ...
    int actOrderModules = 0, asymmetricModules = 0;
    bool tiedHead = false;
    bool floatHead = false; ///< one that is not in int4
    bool mtp = false;
    std::uint64_t hash = 0;

    bool hasTokenizer = false;
    std::int64_t tokenizerEndId = 0;   ///< one past the last id
    int basisRank = 0;                 ///< of DIR/basis.safetensors; 0: there is none that fits
    std::vector<std::string> problems; ///< each one line; empty: the checkpoint can be run
};

/// Shapes, or also every value of 16 and 32 bits: that reads all of such a checkpoint, 54 GB of a 27B in bf16.
enum class AuditDepth { Headers, Numbers };

/// Fails as ModelConfig::load() and ModelWeights::open() do; what is wrong beside the weights becomes a problem.
Result<CheckpointAudit> auditCheckpoint(const std::filesystem::path& dir, AuditDepth depth = AuditDepth::Numbers);

} // namespace octavo::engine
