#pragma once

/// Watches which threads call into SQLite, libgit2 and the file system. Linked into a test, its functions of the same
/// names stand before the libraries' own, note a call from the watched thread, hold up any other, and go on to the
/// real one.

#include <string>
#include <vector>

namespace octavo::ui::test {

/// From now on a call by the calling thread is an offence, and one by any other takes `delayMs` more, the first of its
/// name `firstDelayMs`. Of file calls only those below one of `folders` count, so that the desktop's fonts and icons do
/// not.
void watchCalls(std::vector<std::string> folders, int delayMs, int firstDelayMs);
void stopWatching();

/// What the watched thread called, each once: "sqlite3_step", "open /tmp/x/octavo.db".
std::vector<std::string> offences();
/// How many calls other threads have made meanwhile: none would mean that nothing is watched.
int heldCalls();

} // namespace octavo::ui::test
