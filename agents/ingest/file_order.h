#pragma once

/// Where a file stands in a context, and which files are taken first when not all fit.

#include <QByteArray>

namespace octavo::agents {

/// What changes least comes first, so that a new commit finds the longest prefix of its context already read:
/// licences (0), vendored folders (1), all else by path (2), then what changes with nearly every commit: changelogs,
/// lock files and version files (3). Within a class by path, byte by byte, so the order depends on the paths alone.
int placeClass(const QByteArray& path);

/// For the token budget: README and the like at the top (0), what declares an interface (1), other source and documents
/// (2), what builds and keeps the repository (3), tests, examples and benchmarks (4), lock files, changelogs and licences
/// (5), vendored folders (6).
int budgetClass(const QByteArray& path);

} // namespace octavo::agents
