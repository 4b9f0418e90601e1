#include "kernels/cuda/hot_buffer.h"

#include <algorithm>
#include <vector>

namespace octavo::kernels::cuda
{

void referenceHotLookup(const HotLookup& l)
{
    std::vector<bool> picked(static_cast<std::size_t>(l.slots), false);
    *l.numMisses = 0;
    std::vector<std::int32_t> missing;
    for (int which = 0; which < l.numLists; ++which) {
        const HotList& list = l.lists[which];
        for (int i = 0; i < *list.numPicks; ++i) {
            const std::int32_t token = list.picks[i], slot = l.slotOfToken[token];
            if (slot >= 0)
                picked[std::size_t(slot)] = true;
            else if (std::find(missing.begin(), missing.end(), token) == missing.end())
                missing.push_back(token);
        }
    }
    for (const std::int32_t token : missing) {
        for (;; *l.hand = (*l.hand + 1) % l.slots) {
            const int slot = *l.hand;
            if (picked[std::size_t(slot)])
                continue;
            if (l.marks[slot] != 0) {
                l.marks[slot] = 0;
                continue;
            }
            if (l.tokenOfSlot[slot] >= 0)
                l.slotOfToken[l.tokenOfSlot[slot]] = -1;
            l.tokenOfSlot[slot] = token;
            l.slotOfToken[token] = slot;
            l.missTokens[*l.numMisses] = token;
            l.missSlots[(*l.numMisses)++] = slot;
            picked[std::size_t(slot)] = true;
            *l.hand = (slot + 1) % l.slots;
            break;
        }
    }
    for (int which = 0; which < l.numLists; ++which) {
        const HotList& list = l.lists[which];
        for (int i = 0; i < *list.numPicks; ++i) {
            list.rowIds[i] = l.slotOfToken[list.picks[i]];
            l.marks[list.rowIds[i]] = 1;
        }
    }
}

} // namespace octavo::kernels::cuda
