#pragma once

/// Loose objects of a git repository whose files were cut short, as a power cut or a full disk leaves them.
///
/// libgit2 (1.5 at least) inflates such a file for ever: it waits for bytes that never come, and nothing can stop it.

#include "engine/result.h"

#include <git2.h>

namespace octavo::agents {

/// Has `odb`, that of `repository`, look at a loose object's file before it is read, and report one that is cut short
/// as damaged, unless a pack has it too; by the beginning of its id even then. Files damaged in other ways are left to
/// libgit2. The odb owns what is added.
/// Errors   OutOfMemory where libgit2 takes no further backend.
Result<void> refuseCutObjects(git_odb* odb, git_repository* repository);

} // namespace octavo::agents
