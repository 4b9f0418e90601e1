#pragma once

/// The CPU kernels, once per instruction set. One table per path, chosen at run time; each path is one translation unit
/// with compile flags of its own, and all are built from the same templates over sixteen lanes (vec_*.h).
///
/// Numerics integer sums are exact, so the linear and attention products agree on every path; float operations are in
///          the same order everywhere, with fused multiply-add on AVX2 and AVX-512 and two roundings on the plain path.
/// Thread   pure functions on the caller's buffers; callers split panels, heads or rows between threads.
/// Floats   buffers must be readable and writable in multiples of 16 values where a size says "padded".

#include "kernels/cpu/ahead.h"
#include "kernels/cpu/cpu_features.h"
#include "kernels/cpu/panels.h"

#include <cstdint>

namespace octavo::kernels::cpu {

/// Tokens in one KV page: the unit of attention's partial softmax, sharing and copy on write.
inline constexpr int pageTokens = 512;

/// One KV head of one page, int8 with one scale per token.
struct KvPageView {
    const std::int8_t* keys = nullptr;   ///< [token/16] panels of headDim inputs
    const std::int8_t* values = nullptr; ///< [dim/16] panels of pageTokens inputs
    const float* keyScales = nullptr;    ///< (pageTokens)
    const float* valueScales = nullptr;  ///< (pageTokens)
};

/// Running softmax state of query rows.
struct AttentionState {
    float* maximum = nullptr; ///< (rows), -inf at the start
    float* sum = nullptr;     ///< (rows), 0 at the start
    float* context = nullptr; ///< (rows, headDim), 0 at the start; divide by sum at the end
};

/// One row of a Gated DeltaNet head.
struct GdnRow {
    const float* q = nullptr; ///< (keyDim), normalised and scaled
    const float* k = nullptr; ///< (keyDim), normalised
    const float* v = nullptr; ///< (valueDim)
    float* d = nullptr;       ///< (valueDim), out: beta * (v - decay * S^T k), what the state takes in
    float* o = nullptr;       ///< (valueDim), out
    float decay = 1.0f;       ///< exp(g)
    float beta = 0.0f;
};

struct Kernels {
    Path path;
    int maxTileRows; ///< height of activation tiles that the linear kernels of this path expect

    /// Row scale and integers of x (n). `dst`: eight inputs at a time, `stride` int16 apart; padded with zeros to
    /// `inputs`. A NaN or infinity in x makes the scale NaN. x is read in full 16s: padded.
    void (*quantizeRow)(const float* x, int n, int inputs, std::int16_t* dst, std::int64_t stride, float* scale);

    /// out[m][n - 16 * panelBegin] for the outputs of panels [panelBegin, panelEnd). Asks for what `ahead` names.
    void (*linearInt4)(const Int4Panels& w, const QuantizedRows& a, int panelBegin, int panelEnd, float* out,
                       std::int64_t outStride, Ahead& ahead);
    void (*linearInt8)(const Int8Panels& w, const QuantizedRows& a, int panelBegin, int panelEnd, float* out,
                       std::int64_t outStride, Ahead& ahead);
    void (*linearDense)(const DensePanels& w, const float* x, std::int64_t xStride, int rows, int panelBegin,
                        int panelEnd, float* out, std::int64_t outStride);

    /// y = x * rsqrt(mean(x^2) + eps) * w.
    void (*rmsNorm)(const float* x, const float* w, int n, float eps, float* y);
    /// y = x * rsqrt(sum(x^2) + 1e-6) * scale.
    void (*l2Norm)(const float* x, int n, float scale, float* y);
    /// y = rmsNorm(x, w) * silu(z).
    void (*gatedNorm)(const float* x, const float* w, const float* z, int n, float eps, float* y);
    /// y += x.
    void (*add)(const float* x, int n, float* y);
    /// y = silu(gate) * up.
    void (*siluMul)(const float* gate, const float* up, int n, float* y);
    /// y = x / sum * sigmoid(gate).
    void (*gateContext)(const float* x, float sum, const float* gate, int n, float* y);
    /// y[c] = silu(sum_i taps[i][c] * rows[i][c]), i < width, oldest row first. taps: (width, tapStride).
    void (*convSilu)(const float* const* rows, const float* taps, std::int64_t tapStride, int width, int n, float* y);
    /// convSilu for one row x behind `width - 1` earlier ones, whose places then move on by one; the same bits.
    /// history: (width - 1, historyStride), oldest row first.
    void (*convStep)(float* history, std::int64_t historyStride, const float* x, const float* taps,
                     std::int64_t tapStride, int width, int n, float* y);
    /// Rotates pairs (i, i + rotaryDim / 2) of x by the angles whose cosines and sines are given.
    void (*rope)(float* x, const float* cosines, const float* sines, int rotaryDim);

    /// Quantises one key and one value row (headDim) and writes them at `token` of a page.
    void (*writeKv)(const float* k, const float* v, int headDim, int token, std::int8_t* keys, std::int8_t* values,
                    float* keyScales, float* valueScales);

    /// Adds one page to the softmax state of up to maxTileRows query rows.
    /// q: one activation tile of `rows`; qScales: its scales times headDim^-0.5; limits[r]: tokens of the page that row
    /// r may see (<= 0: none). work: attentionWorkFloats() floats.
    void (*attendPage)(const KvPageView& page, int headDim, const std::int16_t* q, const float* qScales,
                       const int* limits, int rows, float* work, const AttentionState& state);
    /// state = merge(state, other) for one row.
    void (*mergeState)(int headDim, const AttentionState& other, const AttentionState& state);

    /// Runs rows one after another through a head's state S (keyDim, valueDim); `after`, which may be S, takes the
    /// state behind the last. work: gdnWorkFloats() floats.
    void (*gdnRecurrent)(const float* S, float* after, int keyDim, int valueDim, const GdnRow* rows, int count,
                         float* work);
    /// Only the state updates of rows that gdnRecurrent has run: S = decay * S + k (outer) d, bit for bit the same.
    void (*gdnReplay)(float* S, int keyDim, int valueDim, const GdnRow* rows, int count);
    /// The chunked form for up to 64 rows: `values` heads share one key head. q, k: rows `qkStride` apart, normalised;
    /// v, o: rows vStride, oStride apart, head h at h * valueDim; g, beta: [head][64]; S: [head][keyDim][valueDim].
    /// work: gdnWorkFloats() floats.
    void (*gdnChunk)(float* S, int keyDim, int valueDim, int values, int rows, const float* q, const float* k,
                     std::int64_t qkStride, const float* v, std::int64_t vStride, const float* g, const float* beta,
                     float* o, std::int64_t oStride, float* work);

    /// The largest of x, which holds no NaN; n: a multiple of 16.
    float (*largest)(const float* x, int n);
    /// Panels of 16 of which some x[i] + slack[i] * factor reaches `least`, in order, into `found`; how many.
    int (*panelsReaching)(const float* x, const float* slack, float factor, float least, int panels,
                          std::int32_t* found);

    /// y = exp(x), relative error below 2e-7 for x in [-87, 88]; smaller x gives about 1e-38.
    void (*exponential)(const float* x, int n, float* y);
};

inline constexpr int gdnChunkRows = 64;

constexpr std::int64_t attentionWorkFloats()
{
    return std::int64_t(maxTileRows) * pageTokens * 3 / 2 + std::int64_t(maxTileRows) * 64;
}
constexpr std::int64_t gdnWorkFloats(int keyDim, int valueDim)
{
    return std::int64_t(gdnChunkRows) * (4 * gdnChunkRows + 3 * keyDim + 2 * valueDim) + 4 * gdnChunkRows;
}

/// The table of a path. Only for paths that isSupported() allows; others give the plain one.
const Kernels& kernels(Path path);

namespace detail {
const Kernels& plainKernels();
const Kernels& avx2Kernels();
const Kernels& avx512Kernels();
} // namespace detail

} // namespace octavo::kernels::cpu
