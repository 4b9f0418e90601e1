#pragma once

/// Reads a long context once for several runs: what a backend holds of it is kept in a file, and a run that comes after
/// goes on from there.
///
/// File     64 bytes: "octavo reading 2", then as 64-bit numbers the hash of the backend's image format and model, the
///          hash of the tokens, their count, the bytes of the image's state, the hash of the image; zero. Then the
///          image: state, rows.

#include "engine/backend/backend.h"
#include "engine/evaluation/reading.h"
#include "engine/result.h"
#include "engine/types.h"

#include <cstdint>
#include <filesystem>
#include <span>

namespace octavo::engine
{

/// A frozen sequence of `ids`. An empty `file` reads them anew; else as many as it holds of them are taken from it, and
/// it is written (beside itself, then renamed) once all are read and every two minutes until then. A file of another
/// model, backend or text counts for nothing and is written over. `model`: the checkpoint's hash.
Result<SlotId> readOrReopen(Backend& backend, std::uint64_t model, std::span<const TokenId> ids,
                            const std::filesystem::path& file, const EvaluationHooks& hooks = {});

} // namespace octavo::engine
