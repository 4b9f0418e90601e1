#include "kernels/cuda/hot_buffer.h"

#include <vector>

namespace octavo::kernels::cuda
{

void referenceHotLookup(const HotLookup& l)
{
    std::vector<bool> picked(static_cast<std::size_t>(l.slots), false);
    std::vector<int> missing;
    *l.numMisses = 0;
    for (int i = 0; i < *l.numPicks; ++i) {
        const int slot = l.slotOfToken[l.picks[i]];
        if (slot >= 0) {
            l.rowIds[i] = slot;
            picked[std::size_t(slot)] = true;
        } else {
            l.missTokens[missing.size()] = l.picks[i];
            missing.push_back(i);
        }
    }
    for (const int i : missing) {
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
            l.tokenOfSlot[slot] = l.picks[i];
            l.slotOfToken[l.picks[i]] = slot;
            l.rowIds[i] = slot;
            l.missSlots[(*l.numMisses)++] = slot;
            picked[std::size_t(slot)] = true;
            *l.hand = (slot + 1) % l.slots;
            break;
        }
    }
    for (int i = 0; i < *l.numPicks; ++i)
        l.marks[l.rowIds[i]] = 1;
}

} // namespace octavo::kernels::cuda
