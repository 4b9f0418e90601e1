#pragma once

/// Small git repositories for tests, made with the git command line.

#include <QByteArray>
#include <QDir>
#include <QFile>
#include <QProcess>
#include <QTemporaryDir>
#include <QtTest>

#include <filesystem>

namespace octavo::agents::tests {

class GitFixture
{
public:
    explicit GitFixture(bool init = true)
    {
        Q_ASSERT(m_dir.isValid());
        if (init)
            git({"init", "-q", "-b", "main", root()});
    }

    ~GitFixture()
    {
        std::error_code ignored; // QTemporaryDir leaves names that are not UTF-8
        std::filesystem::remove_all(m_dir.path().toStdString(), ignored);
    }
    Q_DISABLE_COPY_MOVE(GitFixture)

    QString root() const { return m_dir.filePath(QStringLiteral("repo")); }
    QString sibling(const QString& name) const { return m_dir.filePath(name); }

    /// Paths are bytes: written with the C library's own names, whatever the locale.
    void write(const QByteArray& path, const QByteArray& content) const
    {
        const QByteArray full = QFile::encodeName(root()) + '/' + path;
        QDir().mkpath(QFile::decodeName(full.left(full.lastIndexOf('/'))));
        FILE* file = fopen(full.constData(), "wb");
        QVERIFY2(file != nullptr, full.constData());
        fwrite(content.constData(), 1, std::size_t(content.size()), file);
        fclose(file);
    }

    void link(const QByteArray& path, const QByteArray& target) const
    {
        const QByteArray full = QFile::encodeName(root()) + '/' + path;
        QDir().mkpath(QFile::decodeName(full.left(full.lastIndexOf('/'))));
        QCOMPARE(symlink(target.constData(), full.constData()), 0);
    }

    QByteArray git(const QStringList& arguments, const QByteArray& input = {}) const
    {
        QProcess process;
        QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
        environment.insert("GIT_CONFIG_GLOBAL", "/dev/null");
        environment.insert("GIT_CONFIG_NOSYSTEM", "1");
        for (const char* who : {"AUTHOR", "COMMITTER"}) {
            environment.insert(QStringLiteral("GIT_%1_NAME").arg(who), "Ada");
            environment.insert(QStringLiteral("GIT_%1_EMAIL").arg(who), "ada@example.org");
            environment.insert(QStringLiteral("GIT_%1_DATE").arg(who), "2026-01-02T03:04:05+01:00");
        }
        process.setProcessEnvironment(environment);
        if (QDir(root()).exists())
            process.setWorkingDirectory(root());
        process.start(QStringLiteral("git"), QStringList{"-c", "protocol.file.allow=always"} + arguments);
        process.waitForStarted();
        process.write(input);
        process.closeWriteChannel();
        process.waitForFinished(30'000);
        if (process.exitStatus() != QProcess::NormalExit || process.exitCode() != 0)
            qWarning("git %s: %s", qPrintable(arguments.join(u' ')), process.readAllStandardError().constData());
        return process.readAllStandardOutput().trimmed();
    }

    QByteArray commit(const QString& subject = QStringLiteral("a commit")) const
    {
        git({"add", "-A"});
        git({"commit", "-q", "--allow-empty", "-m", subject});
        return git({"rev-parse", "HEAD"});
    }

private:
    QTemporaryDir m_dir;
};

} // namespace octavo::agents::tests
