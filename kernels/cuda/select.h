#pragma once

/// The k largest of many keys, exactly and always the same: of equal keys the lower index wins, and the picks come out
/// in ascending order of index.

#include <cuda_runtime_api.h>
#include <vector_types.h>

#include <cstddef>
#include <cstdint>

namespace octavo::kernels::cuda
{

inline constexpr int selectBins = 4096;           ///< of key >> 20
inline constexpr int selectMaxKeys = 1 << 18;     ///< highest index + 1
inline constexpr int selectMaxCandidates = 16384; ///< beyond that the last kernel reads all keys once more

/// One selection; an array of these lies on the device. Buffers of different queries do not overlap.
struct SelectQuery {
    const std::uint32_t* keys; ///< indexed by [begin, end)
    std::int32_t begin, end;
    std::int32_t k;
    std::uint32_t* histogram; ///< (4096): counts of key >> 20 when counted before, else zero. Zero again afterwards
    std::int32_t* taken;      ///< (selectMaxKeys / 32 words): work space, zero at the start and again afterwards
    uint2* candidates;        ///< (selectMaxCandidates), work space: keys and indices
    std::int32_t* counters;   ///< (2), zero at the start and again afterwards
    std::int32_t* picks;      ///< (k): out
    std::int32_t* numPicks;   ///< out: min(k, end - begin)
};

enum class SelectHistogram { Ready, Missing };

/// Errors   cudaErrorInvalidValue where maxKeys is beyond selectMaxKeys.
/// Stream   enqueues two or three kernels on `stream`; maxKeys: no query's `end` is larger. No queries do nothing.
[[nodiscard]] cudaError_t launchSelect(const SelectQuery* queries, int numQueries, std::int64_t maxKeys,
                                       SelectHistogram histogram, cudaStream_t stream);

} // namespace octavo::kernels::cuda
