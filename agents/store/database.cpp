#include "agents/store/database.h"

#include <QDir>
#include <QFileInfo>

#include <sqlite3.h>

namespace octavo::agents {

namespace {

constexpr std::chrono::milliseconds lockPatience{3000};

} // namespace

void Statement::Finalize::operator()(sqlite3_stmt* statement) const
{
    sqlite3_finalize(statement);
}

Statement::Statement(const Database& database, sqlite3_stmt* statement, int prepareCode)
    : m_database(&database)
    , m_statement(statement)
    , m_code(prepareCode)
{
}

Statement& Statement::bind(qint64 value)
{
    if (m_code == SQLITE_OK)
        m_code = sqlite3_bind_int64(m_statement.get(), ++m_bound, value);
    return *this;
}

Statement& Statement::bind(double value)
{
    if (m_code == SQLITE_OK)
        m_code = sqlite3_bind_double(m_statement.get(), ++m_bound, value);
    return *this;
}

Statement& Statement::bind(const QString& value)
{
    const QByteArray utf8 = value.toUtf8();
    if (m_code == SQLITE_OK)
        m_code = sqlite3_bind_text(m_statement.get(), ++m_bound, utf8.constData(), int(utf8.size()), SQLITE_TRANSIENT);
    return *this;
}

Statement& Statement::bind(const QByteArray& value)
{
    if (m_code == SQLITE_OK)
        m_code =
            sqlite3_bind_blob(m_statement.get(), ++m_bound, value.constData(), int(value.size()), SQLITE_TRANSIENT);
    return *this;
}

Statement& Statement::bindNull()
{
    if (m_code == SQLITE_OK)
        m_code = sqlite3_bind_null(m_statement.get(), ++m_bound);
    return *this;
}

Result<bool> Statement::next()
{
    if (m_code == SQLITE_OK) {
        const int rc = sqlite3_step(m_statement.get());
        if (rc == SQLITE_ROW)
            return true;
        if (rc == SQLITE_DONE)
            return false;
        m_code = rc;
    }
    return m_database->error(m_code);
}

Result<void> Statement::run()
{
    for (;;) {
        OCTAVO_TRY(const bool row, next());
        if (!row)
            return {};
    }
}

qint64 Statement::integer(int column) const
{
    return sqlite3_column_int64(m_statement.get(), column);
}

QString Statement::text(int column) const
{
    const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(m_statement.get(), column));
    return QString::fromUtf8(bytes, sqlite3_column_bytes(m_statement.get(), column));
}

QByteArray Statement::blob(int column) const
{
    const auto* bytes = static_cast<const char*>(sqlite3_column_blob(m_statement.get(), column));
    return QByteArray(bytes, sqlite3_column_bytes(m_statement.get(), column));
}

void Database::Close::operator()(sqlite3* handle) const
{
    sqlite3_close_v2(handle);
}

Database::Database(Database&&) noexcept = default;
Database& Database::operator=(Database&&) noexcept = default;
Database::~Database() = default;

Result<Database> Database::open(const QString& path)
{
    Database out;
    out.m_path = path;
    if (!path.isEmpty() && !QDir().mkpath(QFileInfo(path).absolutePath()))
        return Error{ErrorCode::FileUnwritable,
                     "the folder of " + path.toStdString() + " cannot be made: check who may write there"};
    sqlite3* handle = nullptr;
    const QByteArray name = path.isEmpty() ? QByteArray(":memory:") : path.toUtf8();
    const int rc = sqlite3_open_v2(name.constData(), &handle,
                                   SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
    out.m_handle.reset(handle);
    if (rc != SQLITE_OK)
        return out.error(rc);
    sqlite3_extended_result_codes(handle, 1);
    out.waitForLocks(lockPatience);
    OCTAVO_CHECK(out.execute("PRAGMA journal_mode=WAL"));
    OCTAVO_CHECK(out.execute("PRAGMA synchronous=FULL"));
    OCTAVO_CHECK(out.execute("PRAGMA foreign_keys=ON"));
    return out;
}

Statement Database::prepare(const char* sql) const
{
    sqlite3_stmt* statement = nullptr;
    const int rc = sqlite3_prepare_v2(m_handle.get(), sql, -1, &statement, nullptr);
    return Statement(*this, statement, rc);
}

Result<void> Database::execute(const char* sql) const
{
    const int rc = sqlite3_exec(m_handle.get(), sql, nullptr, nullptr, nullptr);
    if (rc != SQLITE_OK)
        return error(rc);
    return {};
}

void Database::waitForLocks(std::chrono::milliseconds atMost) const
{
    sqlite3_busy_timeout(m_handle.get(), int(atMost.count()));
}

void Database::rollback() const
{
    if (sqlite3_get_autocommit(m_handle.get()) == 0) // some failures have rolled back already
        sqlite3_exec(m_handle.get(), "ROLLBACK", nullptr, nullptr, nullptr);
}

Error Database::error(int code) const
{
    const std::string name = m_path.isEmpty() ? "the session store" : m_path.toStdString();
    switch (code & 0xff) {
    case SQLITE_FULL:
        return {ErrorCode::FileUnwritable, "the disk is full, " + name + " cannot grow: free some room"};
    case SQLITE_IOERR:
        return {ErrorCode::FileUnwritable, name + " cannot be written: the disk reports a fault or is full"};
    case SQLITE_READONLY:
    case SQLITE_PERM:
        return {ErrorCode::FileUnwritable, name + " may not be written: check its permissions"};
    case SQLITE_CANTOPEN:
        return {ErrorCode::FileUnwritable, name + " cannot be opened: check folder and permissions"};
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return {ErrorCode::Busy, "another program holds " + name};
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
        return {ErrorCode::FormatInvalid, name + " is damaged: move it away and Octavo begins a new one"};
    case SQLITE_NOMEM:
        return {ErrorCode::OutOfMemory, "there is no memory left to use " + name};
    default:
        return {ErrorCode::DatabaseFailure, name + " could not be used (code " + std::to_string(code) + ")"};
    }
}

bool Database::isTransient(const Error& error)
{
    return error.code == ErrorCode::FileUnwritable || error.code == ErrorCode::Busy
        || error.code == ErrorCode::OutOfMemory;
}

} // namespace octavo::agents
