#pragma once

/// The contexts that were read and kept on disk, for people: listed, verified, removed. The engine finds its own.
///
/// Thread   any; all of these read or write the disk before they return.

#include "engine/result.h"

#include <QDateTime>
#include <QList>
#include <QString>

#include <filesystem>

namespace octavo::agents {

enum class SavedContextState { Saved, Verified, Damaged, AnotherVersion, Unreadable };

struct SavedContextFile {
    QString id;      ///< hex, from its content; a damaged file's is its name
    QString name;    ///< of the repository
    QString commit;  ///< hex
    QString model;
    qint64 tokens = 0, bytes = 0;
    qint64 wantedTokens = 0; ///< above `tokens` where reading was left on the way
    QDateTime lastUsed;
    std::filesystem::path file;
    SavedContextState state = SavedContextState::Saved;
    QString problem; ///< what is wrong with it, in a sentence; empty where nothing is known to be
};

/// Last used first. A folder that is missing holds none. Fails with FileUnreadable where it cannot be listed.
Result<QList<SavedContextFile>> listSavedContexts(const std::filesystem::path& folder);

/// Reads every byte against the file's checksums and says in `state` and `problem` what came of it.
SavedContextFile verifySavedContext(SavedContextFile context);

/// A file that is gone already counts as removed. What an agent has in memory stays there. Fails with FileUnwritable.
Result<void> removeSavedContext(const SavedContextFile& context);

} // namespace octavo::agents
