#pragma once

/// All KV rows of one sequence, int4, and the sketches of their keys, in RAM.
///
/// Layout   per attention layer pages of about 2 MiB: first rows, token-major with all KV heads of a token together
///          (one pick of a shared list is one contiguous read of numKvHeads * 272 bytes), then sketches: the leads of
///          each KV head, then the rests of each.
/// Memory   bytes(maxTokens), taken in create() in pieces that the system may back with big pages. Nothing is
///          allocated while tokens are written, save for the copy of a page that is shared.
/// Sharing  fork() shares pages. Rows beyond a fork's length are not its own and are never read, so of those who share
///          a page the first to append goes on in place; whoever writes where another has written copies the page
///          first.
/// Thread   one owner; write() of different tokens may run on several threads between two other calls.

#include "engine/result.h"
#include "kernels/cpu/cpu_features.h"
#include "kernels/cpu/sparse_rows.h"
#include "kernels/cpu/sparse_sketch.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace octavo::engine {

struct TierShape {
    int numLayers = 0; ///< attention layers
    int numKvHeads = 0;
    int headDim = 0;   ///< a multiple of 64, at most 512
    int rank = 64;     ///< of the sketch, a multiple of 16

    kernels::cpu::RowShape row() const { return {headDim}; }
    /// Of one layer and token, rows and sketch.
    std::int64_t tokenBytes() const;
    /// Of one page; a multiple of 2 MiB.
    std::int64_t pageBytes() const;
    /// Tokens in one page; a multiple of 16.
    std::int64_t pageTokens() const;
    /// What create() takes for `tokens`.
    std::int64_t bytes(std::int64_t tokens) const;
};

class TierPage;

class HostTier
{
public:
    /// Room for `maxTokens`. Fails with OutOfMemory, naming what was asked for.
    static Result<HostTier> create(const TierShape& shape, std::int64_t maxTokens);

    /// Shares the pages that the first `tokens` tokens touch and takes new ones up to `maxTokens`.
    Result<HostTier> fork(std::int64_t tokens, std::int64_t maxTokens) const;

    const TierShape& shape() const { return m_shape; }
    std::int64_t maxTokens() const { return m_maxTokens; }
    /// Pages of this sequence alone, and its share in pages held by several.
    std::int64_t ownedBytes() const;

    /// Makes tokens [begin, end) of every layer writable. Fails with OutOfMemory where a shared page cannot be copied;
    /// what it held is then as it was.
    Result<void> prepareWrite(std::int64_t begin, std::int64_t end);

    /// Quantises one row. `key` after RoPE, less what all keys of the head have in common, and `value`: (headDim).
    void writeRow(kernels::cpu::Path path, int layer, std::int64_t token, int kvHead, const float* key,
                  const float* value);
    /// Writes the key's sketch; tokens of one block of 16 must come from one thread. `coordinates`, `deviations`:
    /// (rank).
    void writeSketch(int layer, std::int64_t token, int kvHead, const float* coordinates, const float* deviations);

    /// The int4 row of a token and KV head; the token's next head follows it.
    const std::uint8_t* row(int layer, std::int64_t token, int kvHead) const;
    /// The rows of one KV head of `tokens`, ascending. out: (tokens).
    void rows(int layer, int kvHead, std::span<const std::int32_t> tokens, const std::uint8_t** out) const;
    /// The sketches of one KV head from a token on, which begins a block, to the end of its page.
    kernels::cpu::SketchView sketches(int layer, std::int64_t token, int kvHead) const;

    std::int64_t pagesPerLayer() const { return m_pagesPerLayer; }
    /// A page as it is; what lies beyond this sequence's tokens may change.
    std::span<const std::byte> pageBytes(int layer, std::int64_t page) const;
    /// Copies what one page holds of the first `tokens` tokens, rows and sketches, and zeros for the rest.
    /// Shapes   bytes: (pageBytes)
    void copyPage(int layer, std::int64_t page, std::int64_t tokens, std::byte* bytes) const;
    /// The inverse, after prepareWrite().
    void restorePage(int layer, std::int64_t page, const std::byte* bytes);

private:
    HostTier(const TierShape& shape, std::int64_t maxTokens);
    std::shared_ptr<TierPage>& page(int layer, std::int64_t token);
    const TierPage& page(int layer, std::int64_t token) const;

    TierShape m_shape;
    std::int64_t m_maxTokens = 0;
    std::int64_t m_pageTokens = 1, m_pagesPerLayer = 0;
    std::vector<std::shared_ptr<TierPage>> m_pages; // (numLayers, pagesPerLayer)
};

} // namespace octavo::engine
