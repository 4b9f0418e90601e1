#include "tests/agents/git_fixture.h"

#include "agents/ingest/clone_job.h"
#include "agents/ingest/inspect_repository.h"

#include <QSignalSpy>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace octavo;
using namespace octavo::agents;
using namespace octavo::agents::tests;

class TestChooseRepository : public QObject
{
    Q_OBJECT

private slots:
    void tellsCommitAndRefsOfARepository();
    void saysThatThereAreNoCommitsYet();
    void saysThatAFolderIsNoRepository();
    void saysThatARefDoesNotExist();
    void readsAShallowClone();
    void namesTheFolderOfAUrl_data();
    void namesTheFolderOfAUrl();
    void clonesWithProgress();
    void refusesAFolderThatIsNotEmpty();
    void saysWhyACloneFailed();
    void cancelLeavesNothingBehind();
    void cancelDoesNotWaitForASilentServer();
    void deletingAJobIsSafe();
};

void TestChooseRepository::tellsCommitAndRefsOfARepository()
{
    GitFixture repo;
    repo.write("a.txt", "one\n");
    repo.git({"add", "."});
    repo.git({"commit", "-qm", "First light"});
    repo.git({"tag", "v1"});
    repo.git({"branch", "side"});
    const auto info = inspectRepository(repo.root()).result();
    QVERIFY(info);
    QCOMPARE(info->name, QStringLiteral("repo"));
    QCOMPARE(info->head.subject, QStringLiteral("First light"));
    QVERIFY(info->hasCommits);
    QVERIFY(!info->needsTrust);
    QVERIFY(info->notes.isEmpty());
    QStringList names;
    for (const RefInfo& ref : info->refs)
        names += ref.name;
    names.sort();
    QCOMPARE(names, QStringList({"main", "side", "v1"}));
    const auto tag = inspectRepository(repo.root(), QStringLiteral("v1")).result();
    QVERIFY(tag);
    QCOMPARE(tag->head.ref, QStringLiteral("v1"));
}

void TestChooseRepository::saysThatThereAreNoCommitsYet()
{
    GitFixture repo;
    const auto info = inspectRepository(repo.root()).result();
    QVERIFY(info);
    QVERIFY(!info->hasCommits);
    QCOMPARE(info->notes.size(), 1);
    QVERIFY(info->notes[0].startsWith(QStringLiteral("There are no commits yet")));
}

void TestChooseRepository::saysThatAFolderIsNoRepository()
{
    QTemporaryDir folder;
    const auto info = inspectRepository(folder.path()).result();
    QVERIFY(!info);
    QCOMPARE(info.error().code, ErrorCode::RepositoryInvalid);
    QVERIFY(info.error().message.find("is not a git repository") != std::string::npos);
}

void TestChooseRepository::saysThatARefDoesNotExist()
{
    GitFixture repo;
    repo.write("a.txt", "one\n");
    repo.git({"add", "."});
    repo.git({"commit", "-qm", "one"});
    const auto info = inspectRepository(repo.root(), QStringLiteral("no-such-branch")).result();
    QVERIFY(!info);
    QCOMPARE(info.error().code, ErrorCode::NotFound);
}

void TestChooseRepository::readsAShallowClone()
{
    GitFixture repo;
    for (const char* content : {"one\n", "two\n"}) {
        repo.write("a.txt", content);
        repo.git({"add", "."});
        repo.git({"commit", "-qm", QString::fromLatin1(content).trimmed()});
    }
    const QString shallow = repo.sibling(QStringLiteral("shallow"));
    repo.git({"clone", "-q", "--depth", "1", QStringLiteral("file://") + repo.root(), shallow});
    const auto info = inspectRepository(shallow).result();
    QVERIFY(info);
    QVERIFY(info->shallow);
    QCOMPARE(info->head.subject, QStringLiteral("two"));
    QVERIFY(info->notes.join(u' ').contains(QStringLiteral("shallow clone")));
}

void TestChooseRepository::namesTheFolderOfAUrl_data()
{
    QTest::addColumn<QString>("url");
    QTest::addColumn<QString>("folder");
    QTest::newRow("https") << "https://github.com/fmtlib/fmt.git"
                           << "fmt";
    QTest::newRow("slash") << "https://github.com/fmtlib/fmt/"
                           << "fmt";
    QTest::newRow("ssh") << "git@github.com:fmtlib/fmt.git"
                         << "fmt";
    QTest::newRow("short ssh") << "host:fmt"
                               << "fmt";
    QTest::newRow("path") << "/src/leveldb/.git"
                          << "leveldb";
    QTest::newRow("up") << "https://host/.."
                        << "";
    QTest::newRow("nothing") << "  "
                             << "";
}

void TestChooseRepository::namesTheFolderOfAUrl()
{
    QFETCH(QString, url);
    QFETCH(QString, folder);
    QCOMPARE(folderOfUrl(url), folder);
}

void TestChooseRepository::clonesWithProgress()
{
    GitFixture repo;
    for (int i = 0; i < 50; ++i)
        repo.write("f" + QByteArray::number(i) + ".txt", QByteArray(2000, char('a' + i % 26)) + QByteArray::number(i));
    repo.git({"add", "."});
    repo.git({"commit", "-qm", "fifty"});
    QObject owner;
    IngestJob* job =
        cloneRepository(QStringLiteral("file://") + repo.root(), repo.sibling(QStringLiteral("copy")), &owner);
    QSignalSpy progress(job, &IngestJob::progress);
    QSignalSpy finished(job, &IngestJob::finished);
    QSignalSpy failed(job, &IngestJob::failed);
    QTRY_COMPARE_WITH_TIMEOUT(finished.size() + failed.size(), 1, 20000);
    QVERIFY2(failed.isEmpty(), failed.isEmpty() ? "" : failed[0][0].value<Error>().message.c_str());
    QVERIFY(!progress.isEmpty());
    const auto result = finished[0][0].value<IngestResult>();
    QCOMPARE(result.repositoryName, QStringLiteral("copy"));
    QVERIFY(QFile::exists(repo.sibling(QStringLiteral("copy/f49.txt"))));
    QVERIFY(inspectRepository(result.repositoryPath).result());
}

void TestChooseRepository::refusesAFolderThatIsNotEmpty()
{
    GitFixture repo;
    repo.write("a.txt", "one\n");
    QObject owner;
    IngestJob* job = cloneRepository(repo.root(), repo.root(), &owner);
    QSignalSpy failed(job, &IngestJob::failed);
    QTRY_COMPARE(failed.size(), 1);
    QCOMPARE(failed[0][0].value<Error>().code, ErrorCode::FileUnwritable);
    QVERIFY(QFile::exists(repo.root() + QStringLiteral("/a.txt")));
}

void TestChooseRepository::saysWhyACloneFailed()
{
    QTemporaryDir folder;
    QObject owner;
    IngestJob* job =
        cloneRepository(folder.filePath(QStringLiteral("nothing-here")), folder.filePath(QStringLiteral("to")), &owner);
    QSignalSpy failed(job, &IngestJob::failed);
    QTRY_COMPARE(failed.size(), 1);
    const auto error = failed[0][0].value<Error>();
    QCOMPARE(error.code, ErrorCode::RepositoryInvalid);
    QVERIFY2(error.message.find("could not be cloned: ") != std::string::npos, error.message.c_str());
    QVERIFY(!QFile::exists(folder.filePath(QStringLiteral("to"))));
}

void TestChooseRepository::cancelLeavesNothingBehind()
{
    GitFixture repo;
    repo.write("a.txt", "one\n");
    repo.git({"add", "."});
    repo.git({"commit", "-qm", "one"});
    const QString target = repo.sibling(QStringLiteral("never"));
    QObject owner;
    IngestJob* job = cloneRepository(QStringLiteral("file://") + repo.root(), target, &owner);
    QSignalSpy failed(job, &IngestJob::failed);
    job->cancel();
    QTRY_COMPARE(failed.size(), 1);
    QCOMPARE(failed[0][0].value<Error>().code, ErrorCode::Cancelled);
    QVERIFY(!QFile::exists(target));
}

void TestChooseRepository::cancelDoesNotWaitForASilentServer()
{
    // Connections are taken up by the system; nobody ever answers.
    const int server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    QCOMPARE(::bind(server, reinterpret_cast<sockaddr*>(&address), length), 0);
    QCOMPARE(::listen(server, 4), 0);
    QCOMPARE(::getsockname(server, reinterpret_cast<sockaddr*>(&address), &length), 0);
    const QString port = QString::number(ntohs(address.sin_port));
    for (const char* scheme : {"git", "http"}) {
        QTemporaryDir folder;
        const QString target = folder.filePath(QStringLiteral("never"));
        const QString url = QStringLiteral("%1://127.0.0.1:%2/x.git").arg(QLatin1String(scheme), port);
        QObject owner;
        IngestJob* job = cloneRepository(url, target, &owner);
        QSignalSpy failed(job, &IngestJob::failed);
        pollfd connected{server, POLLIN, 0};
        QCOMPARE(::poll(&connected, 1, 10'000), 1);
        QTest::qWait(100); // until it waits for the answer
        QCOMPARE(failed.size(), 0);
        job->cancel();
        QTRY_COMPARE(failed.size(), 1);
        QCOMPARE(failed[0][0].value<Error>().code, ErrorCode::Cancelled);
        QVERIFY(!QFile::exists(target));
        // At the end of the program nobody cancels first.
        delete cloneRepository(url, target, nullptr);
        QTRY_VERIFY(!QFile::exists(target));
    }
    ::close(server);
}

void TestChooseRepository::deletingAJobIsSafe()
{
    GitFixture repo;
    repo.write("a.txt", "one\n");
    repo.git({"add", "."});
    repo.git({"commit", "-qm", "one"});
    const QString target = repo.sibling(QStringLiteral("gone"));
    delete cloneRepository(QStringLiteral("file://") + repo.root(), target, nullptr);
    QCoreApplication::processEvents();
    QVERIFY(!QFile::exists(target));
}

QTEST_GUILESS_MAIN(TestChooseRepository)
#include "tst_choose_repository.moc"
