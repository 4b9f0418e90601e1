#pragma once

/// The number that stands for a checkpoint wherever something was derived from it: saved contexts, the sketch basis.
///
/// XXH3 over config.json and every tensor's name, dtype, shape and bytes, so a fine-tune of the same shapes is another
/// model. A checkpoint of up to `wholeUpTo` bytes is hashed whole (4 ms for 40 MB, once its pages are in memory).
/// Of a larger one each tensor gives its first and last block of 4 KiB and one more for every 8 MiB between them,
/// evenly spread; tensors up to 64 KiB give all. That is 0.1% of the bytes. Training changes weights everywhere, so no
/// fine-tune escapes it; an edit of single bytes by hand may.

#include "engine/model/safetensors.h"

#include <cstdint>
#include <string_view>

namespace octavo::engine
{

inline constexpr std::uint64_t hashedWholeUpTo = std::uint64_t{256} << 20;

/// `config`: the text of config.json.
std::uint64_t checkpointHash(const Checkpoint& checkpoint, std::string_view config,
                             std::uint64_t wholeUpTo = hashedWholeUpTo);

} // namespace octavo::engine
