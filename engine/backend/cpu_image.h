#pragma once

/// What an image of a CpuBackend's sequence is made of.

#include "engine/backend/cpu_backend.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

namespace octavo::engine
{

/// All but the copies is shared with sequences, and the image's own once those are gone.
struct CpuBackend::ImageStorage {
    std::shared_ptr<BigPages> recurrent;
    KvRows kv;
    std::optional<HostTier> tier;
    std::vector<std::vector<std::byte>> lastPages; // of each layer: sharers may append to them, so they are copied

    std::int64_t copiedBytes() const
    {
        std::int64_t bytes = 0;
        for (const auto& page : lastPages)
            bytes += std::int64_t(page.size());
        return bytes;
    }
};

} // namespace octavo::engine
