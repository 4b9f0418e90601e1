#pragma once

/// A random sketch basis in a file, for models that nobody fitted one for.

#include "engine/memory/sketch_basis.h"
#include "engine/model/model_config.h"
#include "kernels/cuda/sketch.h"

#include <cstdio>
#include <filesystem>
#include <random>

#include <unistd.h>

namespace octavo::gpu
{

class TemporaryBasis
{
public:
    TemporaryBasis(const engine::ModelConfig& config, std::uint64_t modelHash)
        : m_file(std::filesystem::temp_directory_path() /
                 ("octavo-basis-" + std::to_string(::getpid()) + ".safetensors"))
    {
        engine::SketchBasis basis;
        basis.numLayers = config.numFullAttentionLayers();
        basis.numKvHeads = config.numKvHeads;
        basis.headDim = config.headDim;
        basis.rank = kernels::cuda::sketchRank;
        basis.modelHash = modelHash;
        basis.fittedTokens = 1;
        const std::size_t heads = std::size_t(basis.numLayers) * std::size_t(basis.numKvHeads);
        std::mt19937 random(3);
        std::normal_distribution<float> normal(0.0f, 0.0625f);
        basis.vectors.resize(heads * std::size_t(basis.rank) * std::size_t(basis.headDim));
        for (float& value : basis.vectors)
            value = normal(random);
        basis.means.resize(heads * std::size_t(basis.headDim));
        if (const auto saved = basis.save(m_file); !saved)
            std::printf("%s\n", saved.error().message.c_str());
    }
    TemporaryBasis(const TemporaryBasis&) = delete;
    TemporaryBasis& operator=(const TemporaryBasis&) = delete;
    ~TemporaryBasis()
    {
        std::error_code ignored;
        std::filesystem::remove(m_file, ignored);
    }
    const std::filesystem::path& file() const { return m_file; }

private:
    std::filesystem::path m_file;
};

} // namespace octavo::gpu
