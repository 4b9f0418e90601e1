#pragma once

/// SQLite with errors as sentences. SQL text and SQLite's own words never reach a user.

#include "engine/result.h"

#include <QByteArray>
#include <QString>

#include <chrono>
#include <memory>

struct sqlite3;
struct sqlite3_stmt;

namespace octavo::agents {

class Database;

/// One prepared statement, bound from left to right, stepped, dropped.
class Statement
{
public:
    Statement(Statement&&) noexcept = default;

    Statement& bind(qint64 value);
    Statement& bind(int value) { return bind(qint64(value)); }
    Statement& bind(double value);
    Statement& bind(const QString& value);
    Statement& bind(const QByteArray& value); ///< as a BLOB
    Statement& bindNull();

    Result<bool> next(); ///< true: there is a row
    Result<void> run();  ///< to the end, rows are dropped

    qint64 integer(int column) const;
    QString text(int column) const;
    QByteArray blob(int column) const;

private:
    friend class Database;
    struct Finalize {
        void operator()(sqlite3_stmt* statement) const;
    };
    Statement(const Database& database, sqlite3_stmt* statement, int prepareCode);

    const Database* m_database;
    std::unique_ptr<sqlite3_stmt, Finalize> m_statement;
    int m_code; ///< the first thing that went wrong
    int m_bound = 0;
};

/// A connection. Thread: one at a time.
class Database
{
public:
    /// Opens or makes the file, in WAL mode, every commit synced, foreign keys on. An empty path: in memory.
    static Result<Database> open(const QString& path);

    Database(Database&&) noexcept;
    Database& operator=(Database&&) noexcept;
    ~Database();

    Statement prepare(const char* sql) const;
    Result<void> execute(const char* sql) const;

    /// Runs `body` as one transaction that takes the write lock at its beginning; rolled back where body fails.
    template <typename Body>
    Result<void> transaction(Body&& body) const
    {
        OCTAVO_CHECK(execute("BEGIN IMMEDIATE"));
        Result<void> result = body();
        if (result)
            result = execute("COMMIT");
        if (!result)
            rollback();
        return result;
    }

    /// How long the next statements wait for another program's lock. From open() on: three seconds.
    void waitForLocks(std::chrono::milliseconds atMost) const;

    /// DatabaseFailure, FileUnwritable or FormatInvalid with a sentence that names the file.
    Error error(int code) const;
    /// Whether trying again later may help: disk full, locked, not writable just now, memory short.
    static bool isTransient(const Error& error);

private:
    struct Close {
        void operator()(sqlite3* handle) const;
    };
    Database() = default;
    void rollback() const;

    std::unique_ptr<sqlite3, Close> m_handle;
    QString m_path;
};

} // namespace octavo::agents
