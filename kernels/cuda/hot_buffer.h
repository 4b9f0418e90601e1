#pragma once

/// The hot buffer on the device: which of a step's picks are here, who makes room for the others, and the copy of those
/// straight out of pinned host memory.
///
/// Replacement is CLOCK: a hand goes round the slots, takes the mark off what has been used since its last visit and
/// evicts what has none. Slots of this step's picks are passed over. Everything is in a fixed order, so that a run can
/// be repeated.

#include "kernels/cuda/kv_rows.h"

#include <cuda_runtime_api.h>

#include <cstdint>

namespace octavo::kernels::cuda
{

inline constexpr int hotMaxPicks = 4096; ///< of one list

/// The picks of one row.
struct HotList {
    const std::int32_t* picks; ///< (numPicks), each once
    const std::int32_t* numPicks;
    std::int32_t* rowIds; ///< out (numPicks): slot of each pick
};

/// One layer's buffer of one sequence, with the picks of rows that read it together; an array of these lies on the
/// device. What several rows pick is brought once.
struct HotLookup {
    std::int32_t* slotOfToken; ///< (tokens): slot, or -1
    std::int32_t* tokenOfSlot; ///< (slots): token, or -1
    std::uint8_t* marks;       ///< (slots): 0 evictable, 1 used since the hand's last visit
    std::int32_t* hand;        ///< next slot that the hand visits
    std::int32_t slots;        ///< at least as many as all lists have picks
    const HotList* lists;      ///< (numLists), on the device
    std::int32_t numLists;
    std::int32_t* missTokens; ///< out (all picks at most): tokens that were not here, in the lists' order
    std::int32_t* missSlots;  ///< out: where they go
    std::int32_t* numMisses;  ///< out
};

/// Finds the picks and makes room for those that are missing: tables are updated, rows not yet copied.
/// Stream   enqueues on `stream` one block per lookup, after one per list where maxLists is more than 1; maxLists: no
///          lookup has more. No lookups do nothing. `lookups` and their lists' entries are read while the kernel before
///          still runs.
[[nodiscard]] cudaError_t launchHotLookup(const HotLookup* lookups, int numLookups, int maxLists, cudaStream_t stream);

/// One sequence's misses to copy; an array of these lies on the device.
struct GatherMisses {
    const std::uint8_t* hostRows; ///< mapped host memory: token t at t * rowBytes, 16-byte aligned
    std::uint8_t* rows;           ///< device: slot s at s * rowBytes
    const std::int32_t* tokens;
    const std::int32_t* slots;
    const std::int32_t* count;
    unsigned long long* bytesRead; ///< running count of bytes over the link
    RowPages pages{};              ///< where set, instead of hostRows
};

inline constexpr int gatherMaxSequences = 64;

/// Copies all sequences' missing rows (all heads of a token together) in one launch, many warps wide: the link gives
/// the more, the more reads are under way.
/// Errors   cudaErrorInvalidValue for row sizes that are no multiple of 16 or more than 64 sequences.
/// Stream   enqueues on `stream`; blocks: as many as the copy may take, 0: two per multiprocessor of an H200.
[[nodiscard]] cudaError_t launchGatherMisses(const GatherMisses* misses, int numSequences, int rowBytes, int blocks,
                                             cudaStream_t stream);

/// The lookup in plain sequential code; host pointers.
void referenceHotLookup(const HotLookup& lookup);

} // namespace octavo::kernels::cuda
