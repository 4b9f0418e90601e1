#pragma once

/// The frozen basis in which keys are sketched: for each attention layer and KV head the mean of the post-RoPE keys
/// and the eigenvectors of their covariance with the largest eigenvalues. It does not depend on the document, so
/// shared contexts keep their sketches.
///
/// File     safetensors, F32: "layers.N.basis" (numKvHeads, rank, headDim), "layers.N.mean" (numKvHeads, headDim) and
///          "layers.N.deviation" (numKvHeads, rank) for attention layers N = 0, 1, ... in order; metadata "model_hash"
///          (16 hex digits), "rank", "tokens" and "checksum" (contentHash(), 16 hex digits). Files of earlier versions
///          have no deviations, which only GPUs can do without, or no checksum: their values are checked to be such as
///          fit() gives.

#include "engine/result.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

namespace octavo::engine {

struct SketchBasis {
    int numLayers = 0, numKvHeads = 0, headDim = 0, rank = 0;
    std::uint64_t modelHash = 0;
    std::int64_t fittedTokens = 0;
    std::vector<float> vectors; ///< (numLayers, numKvHeads, rank, headDim), orthonormal rows
    std::vector<float> means;   ///< (numLayers, numKvHeads, headDim)
    std::vector<float> deviations; ///< (numLayers, numKvHeads, rank): roots of the eigenvalues; may be empty

    const float* basis(int layer, int kvHead) const;
    const float* mean(int layer, int kvHead) const;
    const float* deviation(int layer, int kvHead) const;
    /// Of vectors, means and deviations: sketches of different hashes do not mix.
    std::uint64_t contentHash() const;

    /// Fails with FileUnreadable or FormatInvalid, naming file, found and expected. Every size is checked against the
    /// file before anything is allocated.
    static Result<SketchBasis> load(const std::filesystem::path& file);

    /// Whether a basis may be written there: no other file is written over. Fails with InvalidArgument.
    static Result<void> checkReplaceable(const std::filesystem::path& file);

    /// Written beside the target and renamed over it. Fails with FileUnwritable, or as checkReplaceable() does.
    Result<void> save(const std::filesystem::path& file) const;

    /// Fails with FormatInvalid, saying what to do, where this is not the basis of the given model.
    Result<void> checkFits(std::uint64_t hash, int layers, int kvHeads, int dim) const;
};

/// Sums of keys from which a basis is fitted.
///
/// Memory   8 * headDim^2 bytes per layer and KV head.
/// Thread   add() of different (layer, kvHead) may run on several threads.
class KeyStatistics
{
public:
    KeyStatistics(int numLayers, int numKvHeads, int headDim);

    /// One post-RoPE key (headDim).
    void add(int layer, int kvHead, const float* key);
    std::int64_t tokens() const { return m_counts.empty() ? 0 : m_counts.front(); }

    /// The `rank` leading eigenvectors of each covariance. Fails with InvalidArgument below 4 * rank keys.
    Result<SketchBasis> fit(int rank, std::uint64_t modelHash) const;

    /// Share of the keys' variance that the leading `rank` vectors of `basis` hold, by (layer, kvHead).
    std::vector<double> explained(const SketchBasis& basis) const;

private:
    int m_numLayers, m_numKvHeads, m_headDim;
    std::vector<std::int64_t> m_counts; // (layers * heads)
    std::vector<double> m_sums;         // (layers * heads, headDim)
    std::vector<double> m_products;     // (layers * heads, headDim, headDim), upper triangle
};

} // namespace octavo::engine
