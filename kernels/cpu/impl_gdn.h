#pragma once

/// Gated DeltaNet, recurrent and chunked, for whichever vec_*.h came before. Formulas: model-spec 3.3 and 3.4.

#include "kernels/cpu/kernels.h"

namespace {

enum class Accumulate { Set, Add };

/// C[m][n] (+)= sum_k A[m * rowStride + k * depthStride] * B[k * ldb + n] for R rows and V vectors of columns.
template <int R, int V, Accumulate Mode>
inline void gemmTile(int depth, const float* a, std::int64_t rowStride, std::int64_t depthStride, const float* b,
                     std::int64_t ldb, float* c, std::int64_t ldc)
{
    VecF acc[R][V];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v)
            acc[r][v] = Mode == Accumulate::Add ? loadF(c + r * ldc + v * 16) : zeroF();
    }
    for (int k = 0; k < depth; ++k) {
        VecF row[V];
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v)
            row[v] = loadF(b + k * ldb + v * 16);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
            const VecF value = setF(a[r * rowStride + k * depthStride]);
#pragma GCC unroll 4
            for (int v = 0; v < V; ++v)
                acc[r][v] = fma(value, row[v], acc[r][v]);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v)
            storeF(c + r * ldc + v * 16, acc[r][v]);
    }
}

template <int R, Accumulate Mode>
inline void gemmRowTile(int columns, int depth, const float* a, std::int64_t rowStride, std::int64_t depthStride,
                        const float* b, std::int64_t ldb, float* c, std::int64_t ldc)
{
    int n = 0;
    for (; n + gemmVecs * 16 <= columns; n += gemmVecs * 16)
        gemmTile<R, gemmVecs, Mode>(depth, a, rowStride, depthStride, b + n, ldb, c + n, ldc);
    for (; n < columns; n += 16)
        gemmTile<R, 1, Mode>(depth, a, rowStride, depthStride, b + n, ldb, c + n, ldc);
}

/// columns: a multiple of 16. The sum over k runs in order, whatever the tiles.
template <Accumulate Mode>
void gemm(int rows, int columns, int depth, const float* a, std::int64_t rowStride, std::int64_t depthStride,
          const float* b, std::int64_t ldb, float* c, std::int64_t ldc)
{
    int m = 0;
    for (; m + gemmRows <= rows; m += gemmRows)
        gemmRowTile<gemmRows, Mode>(columns, depth, a + m * rowStride, rowStride, depthStride, b, ldb, c + m * ldc,
                                    ldc);
    for (; m < rows; ++m)
        gemmRowTile<1, Mode>(columns, depth, a + m * rowStride, rowStride, depthStride, b, ldb, c + m * ldc, ldc);
}

inline float dotInOrder(const float* a, const float* b, int n)
{
    VecF sum = zeroF();
    for (int i = 0; i < n; i += 16)
        sum = fma(loadF(a + i), loadF(b + i), sum);
    return sumLanes(sum);
}

/// Rows of a head through V vectors of columns, from S to `after`. In between they stand in `strip`, (keyDim, 16 * V):
/// rows of S are a power of two apart, so that a strip of them would push itself out of the first-level cache. The next
/// row reads an element of the state while the update for the one before has it in a register.
template <int V>
inline void gdnColumns(const float* S, float* after, int keyDim, int valueDim, int column, const GdnRow* rows,
                       const float* kq, int count, float* strip)
{
    constexpr int width = V * 16;
    VecF predicted[2][V], read[2][V]; // sums over even and odd i: of k_i S_i and q_i S_i
    auto empty = [&]() __attribute__((always_inline))
    {
        for (int j = 0; j < 2; ++j) {
            for (int v = 0; v < V; ++v)
                predicted[j][v] = read[j][v] = zeroF();
        }
    };
    empty();
    for (int i = 0; i < keyDim; i += 2) {
#pragma GCC unroll 2
        for (int j = 0; j < 2; ++j) {
            const VecF k = setF(rows->k[i + j]), q = setF(rows->q[i + j]);
#pragma GCC unroll 4
            for (int v = 0; v < V; ++v) {
                const VecF state = loadF(S + std::int64_t(i + j) * valueDim + column + v * 16);
                storeF(strip + (i + j) * width + v * 16, state);
                predicted[j][v] = fma(k, state, predicted[j][v]);
                read[j][v] = fma(q, state, read[j][v]);
            }
        }
    }
    for (int t = 0; t < count; ++t) {
        const GdnRow& row = rows[t];
        const VecF decay = setF(row.decay), beta = setF(row.beta), dot = setF(kq[t]);
        VecF d[V];
        for (int v = 0; v < V; ++v) {
            const VecF r = (predicted[0][v] + predicted[1][v]) * decay;
            d[v] = beta * (loadF(row.v + column + v * 16) - r);
            storeF(row.d + column + v * 16, d[v]);
            storeF(row.o + column + v * 16, fma(dot, d[v], (read[0][v] + read[1][v]) * decay));
        }
        // S = decay * S + k (outer) d.
        if (t + 1 == count) {
            for (int i = 0; i < keyDim; ++i) {
                const VecF k = setF(row.k[i]);
#pragma GCC unroll 4
                for (int v = 0; v < V; ++v)
                    storeF(after + std::int64_t(i) * valueDim + column + v * 16,
                           fma(k, d[v], loadF(strip + i * width + v * 16) * decay));
            }
            break;
        }
        const GdnRow& next = rows[t + 1];
        empty();
        for (int i = 0; i < keyDim; i += 2) {
#pragma GCC unroll 2
            for (int j = 0; j < 2; ++j) {
                const VecF k = setF(row.k[i + j]), nextK = setF(next.k[i + j]), nextQ = setF(next.q[i + j]);
#pragma GCC unroll 4
                for (int v = 0; v < V; ++v) {
                    float* near = strip + (i + j) * width + v * 16;
                    const VecF state = fma(k, d[v], loadF(near) * decay);
                    storeF(near, state);
                    predicted[j][v] = fma(nextK, state, predicted[j][v]);
                    read[j][v] = fma(nextQ, state, read[j][v]);
                }
            }
        }
    }
}

void gdnRecurrent(const float* S, float* after, int keyDim, int valueDim, const GdnRow* rows, int count, float* work)
{
    float kq[gdnChunkRows];
    for (int begin = 0; begin < count; begin += gdnChunkRows) {
        const int n = smaller(gdnChunkRows, count - begin);
        const float* from = begin == 0 ? S : after;
        for (int t = 0; t < n; ++t)
            kq[t] = dotInOrder(rows[begin + t].k, rows[begin + t].q, keyDim);
        int column = 0;
        for (; column + 32 <= valueDim; column += 32)
            gdnColumns<2>(from, after, keyDim, valueDim, column, rows + begin, kq, n, work);
        for (; column < valueDim; column += 16)
            gdnColumns<1>(from, after, keyDim, valueDim, column, rows + begin, kq, n, work);
    }
}

/// The updates of S alone: an element passes through all rows while it is in a register.
template <int V>
inline void replayColumns(float* S, int keyDim, int valueDim, int column, const GdnRow* rows, int count)
{
    for (int i = 0; i < keyDim; ++i) {
        float* s = S + std::int64_t(i) * valueDim + column;
        VecF state[V];
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v)
            state[v] = loadF(s + v * 16);
        for (int t = 0; t < count; ++t) {
            const VecF k = setF(rows[t].k[i]), decay = setF(rows[t].decay);
#pragma GCC unroll 4
            for (int v = 0; v < V; ++v)
                state[v] = fma(k, loadF(rows[t].d + column + v * 16), state[v] * decay);
        }
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v)
            storeF(s + v * 16, state[v]);
    }
}

void gdnReplay(float* S, int keyDim, int valueDim, const GdnRow* rows, int count)
{
    int column = 0;
    for (; column + 64 <= valueDim; column += 64)
        replayColumns<4>(S, keyDim, valueDim, column, rows, count);
    for (; column < valueDim; column += 16)
        replayColumns<1>(S, keyDim, valueDim, column, rows, count);
}

void gdnChunk(float* S, int keyDim, int valueDim, int values, int rows, const float* q, const float* k,
              std::int64_t qkStride, const float* v, std::int64_t vStride, const float* g, const float* beta, float* o,
              std::int64_t oStride, float* work)
{
    constexpr int L = gdnChunkRows;
    float* kTransposed = work;                 // (keyDim, L)
    float* kk = kTransposed + keyDim * L;      // (L, L): k_i . k_j
    float* qk = kk + L * L;                    // (L, L): q_i . k_j
    float* lower = qk + L * L;                 // (L, L): -A, then the decayed q.k
    float* decays = lower + L * L;             // (L, L): exp(G_i - G_j)
    float* scaled = decays + L * L;            // (L, keyDim): rows of q or k times a decay
    float* d = scaled + std::int64_t(L) * keyDim; // (L, valueDim)
    float* fromStart = d + std::int64_t(L) * valueDim; // exp(G_i)
    float* cumulative = fromStart + L;         // G_i

    for (int i = 0; i < keyDim; ++i) {
        for (int j = 0; j < L; ++j)
            kTransposed[i * L + j] = j < rows ? k[j * qkStride + i] : 0.0f;
    }
    gemm<Accumulate::Set>(rows, L, keyDim, k, qkStride, 1, kTransposed, L, kk, L);
    gemm<Accumulate::Set>(rows, L, keyDim, q, qkStride, 1, kTransposed, L, qk, L);

    for (int head = 0; head < values; ++head) {
        float* state = S + std::int64_t(head) * keyDim * valueDim;
        const float* gHead = g + head * L;
        const float* betaHead = beta + head * L;
        float sum = 0.0f;
        for (int i = 0; i < L; ++i)
            cumulative[i] = sum += i < rows ? gHead[i] : 0.0f;
        exponential(cumulative, L, fromStart);
        for (int i = 0; i < rows; ++i) {
            // Above the diagonal the exponent is positive and may overflow: cut before exp, masked after.
            const VecF gi = setF(cumulative[i]), negativeBeta = setF(-betaHead[i]);
            for (int j = 0; j < L; j += 16) {
                const VecF decay = expF(minF(zeroF(), gi - loadF(cumulative + j)));
                const VecF strict = firstLanes(i - j, decay, zeroF());
                storeF(decays + i * L + j, firstLanes(i + 1 - j, decay, zeroF()));
                storeF(lower + i * L + j, strict * negativeBeta * loadF(kk + i * L + j));
            }
        }
        // D = beta * (V - exp(G) K S), then (I + A) D' = D by forward substitution in blocks of 16 rows.
        gemm<Accumulate::Set>(rows, valueDim, keyDim, k, qkStride, 1, state, valueDim, d, valueDim);
        for (int i = 0; i < rows; ++i) {
            const VecF decay = setF(fromStart[i]), b = setF(betaHead[i]);
            const float* vRow = v + i * vStride + std::int64_t(head) * valueDim;
            float* dRow = d + std::int64_t(i) * valueDim;
            for (int c = 0; c < valueDim; c += 16)
                storeF(dRow + c, b * (loadF(vRow + c) - decay * loadF(dRow + c)));
        }
        for (int block = 0; block < rows; block += 16) {
            const int height = smaller(16, rows - block);
            if (block > 0)
                gemm<Accumulate::Add>(height, valueDim, block, lower + block * L, L, 1, d, valueDim,
                                      d + std::int64_t(block) * valueDim, valueDim);
            for (int i = block + 1; i < block + height; ++i)
                gemmRowTile<1, Accumulate::Add>(valueDim, i - block, lower + i * L + block, L, 1,
                                                d + std::int64_t(block) * valueDim, valueDim,
                                                d + std::int64_t(i) * valueDim, valueDim);
        }
        // O = exp(G) Q S + (decay . QK) D.
        for (int i = 0; i < rows; ++i) {
            const VecF decay = setF(fromStart[i]);
            for (int c = 0; c < keyDim; c += 16)
                storeF(scaled + std::int64_t(i) * keyDim + c, decay * loadF(q + i * qkStride + c));
            for (int j = 0; j < L; j += 16)
                storeF(lower + i * L + j, loadF(decays + i * L + j) * loadF(qk + i * L + j));
        }
        float* out = o + std::int64_t(head) * valueDim;
        gemm<Accumulate::Set>(rows, valueDim, keyDim, scaled, keyDim, 1, state, valueDim, out, oStride);
        for (int block = 0; block < rows; block += 16) {
            const int height = smaller(16, rows - block);
            gemm<Accumulate::Add>(height, valueDim, block + height, lower + block * L, L, 1, d, valueDim,
                                  out + block * oStride, oStride);
        }
        // S = exp(G_L) S + sum_j exp(G_L - G_j) k_j (outer) d_j.
        for (int j = 0; j < rows; ++j) {
            const VecF decay = setF(decays[(rows - 1) * L + j]);
            for (int c = 0; c < keyDim; c += 16)
                storeF(scaled + std::int64_t(j) * keyDim + c, decay * loadF(k + j * qkStride + c));
        }
        const VecF toEnd = setF(fromStart[rows - 1]);
        for (std::int64_t i = 0; i < std::int64_t(keyDim) * valueDim; i += 16)
            storeF(state + i, loadF(state + i) * toEnd);
        gemm<Accumulate::Add>(keyDim, valueDim, rows, scaled, 1, keyDim, d, valueDim, state, valueDim);
    }
}

} // namespace
