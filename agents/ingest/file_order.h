#pragma once

/// Where a file stands in a context, and which files are taken first when not all fit.

#include <QByteArray>

namespace octavo::agents {

/// What changes least comes first, so that a new commit finds the longest prefix of its context already read:
/// licences (0), vendored folders (1), all else by path (2), then what changes with nearly every commit: changelogs,
/// lock files and version files (3). Within a class by path, byte by byte, so the order depends on the paths alone.
int placeClass(const QByteArray& path);

/// For the token budget: README and the like at the top (0), the interface for others, in include folders (1), other
/// headers (2), source and documents (3), what builds and keeps the repository (4), tests, examples and benchmarks (5),
/// lock files, changelogs and licences (6), vendored folders (7).
int budgetClass(const QByteArray& path);

} // namespace octavo::agents
