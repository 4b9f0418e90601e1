#pragma once

/// What the tests of saved contexts share: a folder of their own, schedulers over it, and contexts made up.

#include "tests/engine/scheduler/scheduler_bench.h"

#include <QDir>
#include <QFile>
#include <QTemporaryDir>
#include <QTest>

namespace octavo::test {

/// A context of so many bytes of rows that writing it takes a while.
inline std::vector<engine::ContextStore::Part> largeParts(std::int64_t length, std::size_t bytes, int seed)
{
    auto storage = std::make_shared<std::vector<std::byte>>(bytes + 64, std::byte(seed));
    engine::SequenceImage image;
    image.state = {std::span(*storage).first(64)};
    image.rows = {std::span(*storage).subspan(64, bytes / 3), std::span(*storage).subspan(64 + bytes / 3)};
    image.rowBytes = std::int64_t(bytes);
    image.storage = storage;
    std::vector<engine::ContextStore::Part> parts;
    parts.push_back({length, std::move(image)});
    return parts;
}

inline engine::SharedTokens shared(int count, int seed)
{
    return std::make_shared<const std::vector<engine::TokenId>>(someTokens(count, seed));
}

/// The base of a test, whose init() calls clear(): each function begins with an empty folder.
class SavedContextsTest : public QObject
{
protected:
    QTemporaryDir m_dir;

    void clear() { QDir(m_dir.filePath("contexts")).removeRecursively(); }

    /// A program run of its own over the same folder.
    std::unique_ptr<Bench> start(std::int64_t quota = 1 << 30, std::uint64_t modelHash = 1,
                                 std::int64_t restoreSlice = 32 << 20)
    {
        return std::make_unique<Bench>([&](FakeDevice&, engine::SchedulerOptions& options) {
            options.savedContexts = m_dir.filePath("contexts").toStdString();
            options.savedContextsQuota = quota;
            options.modelHash = modelHash;
            options.restoreSlice = restoreSlice;
        });
    }

    QStringList files() const
    {
        return QDir(m_dir.filePath("contexts")).entryList(QDir::Files, QDir::Time | QDir::Reversed);
    }
};

} // namespace octavo::test
