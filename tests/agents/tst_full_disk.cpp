#include "engine/scheduler/saved_context.h"
#include "tests/agents/workbench_bench.h"

#include <QDir>

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

using namespace octavo;
using namespace octavo::agents;
using octavo::agents::tests::Bench;
using octavo::test::Script;

namespace {

/// A file system of 32 MiB that only this process sees; false where the system does not allow one.
bool mountSmallDisk(const char* folder)
{
    return unshare(CLONE_NEWNS) == 0 && mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           mount("octavo", folder, "tmpfs", 0, "size=32m") == 0;
}

QString disk; // empty: there is none

void fill()
{
    const QByteArray name = QFile::encodeName(disk + QStringLiteral("/filler"));
    const int file = ::open(name.constData(), O_CREAT | O_WRONLY | O_APPEND, 0600);
    QVERIFY(file >= 0);
    const QByteArray block(4096, 'x');
    while (::write(file, block.constData(), std::size_t(block.size())) > 0) {}
    ::close(file);
}

void makeRoom()
{
    QVERIFY(QFile::remove(disk + QStringLiteral("/filler")));
}

const std::string longText(400'000, 'w');

Script answer(const engine::GenerationRequest& request)
{
    Script script;
    if (request.maxNewTokens > 0) {
        script.pieces = {"It begins. ", longText, " It ends."};
        script.waits = true;
    }
    return script;
}

} // namespace

/// The disk is full, for real (B-48): what cannot be saved is said, kept, and saved once there is room.
class TestFullDisk : public QObject
{
    Q_OBJECT

    std::unique_ptr<Bench> m_bench;

    void open() { m_bench->open(); }
    Workbench& workbench() const { return *m_bench->workbench; }
    bool hasProblem() const { return !m_bench->saveProblems.isEmpty() && !m_bench->saveProblems.last().isEmpty(); }

private slots:
    void initTestCase()
    {
        if (disk.isEmpty())
            QSKIP("no file system of its own can be mounted here");
    }

    void init()
    {
        m_bench = std::make_unique<Bench>(answer);
        m_bench->database = disk + QStringLiteral("/octavo.db");
    }

    void cleanup()
    {
        m_bench.reset();
        for (const QString& name : QDir(disk).entryList(QDir::Files))
            QFile::remove(disk + u'/' + name);
    }

    void inMidAnswerNothingIsLost()
    {
        open();
        const ContextId context = m_bench->addContext();
        QTRY_COMPARE(workbench().contexts()[0].state, ContextState::Read);
        Agent& agent = *workbench().agent(0);
        agent.setContext(context);
        QVERIFY(agent.ask(QStringLiteral("how?")));
        QTRY_COMPARE(agent.messages().last().text, QStringLiteral("It begins. "));
        QTest::qWait(700); // that much is saved
        fill();
        m_bench->engine->resume();
        QTRY_COMPARE(agent.status().outcome, Outcome::Done);
        QTRY_VERIFY_WITH_TIMEOUT(hasProblem(), 10'000);
        QVERIFY2(m_bench->saveProblems.last().contains(QStringLiteral("full")),
                 qPrintable(m_bench->saveProblems.last()));
        QVERIFY(agent.messages().last().text.endsWith(QStringLiteral("It ends."))); // shown all the same
        makeRoom();
        QTRY_VERIFY_WITH_TIMEOUT(!hasProblem(), 10'000);
        open();
        QCOMPARE(workbench().agent(0)->messages().size(), 2);
        const Message& kept = workbench().agent(0)->messages().last();
        QCOMPARE(kept.state, MessageState::Complete);
        QCOMPARE(kept.text.size(), qsizetype(longText.size()) + 20);
    }

    void whileARepositoryIsReadTheContextComesBack()
    {
        open();
        const IngestResult found = m_bench->preview();
        fill();
        IngestOptions options;
        options.repository = m_bench->fixture.root();
        for (int i = 0; i < 40; ++i) // more than what the log has room for
            options.exclude += QString(50'000, u'x');
        const ContextId context = workbench().addContext(options, found);
        QTRY_COMPARE(workbench().contexts()[0].state, ContextState::Read); // reading needs no disk
        QTRY_VERIFY_WITH_TIMEOUT(hasProblem(), 10'000);
        makeRoom();
        QTRY_VERIFY_WITH_TIMEOUT(!hasProblem(), 10'000);
        open();
        QCOMPARE(workbench().contexts().size(), 1);
        QCOMPARE(workbench().contexts()[0].id, context);
        QCOMPARE(workbench().packedFiles(context).size(), 2);
    }

    void aSavedContextIsWholeOrAbsent()
    {
        const std::filesystem::path file = std::filesystem::path(disk.toStdString()) / "a.context";
        const std::vector<engine::TokenId> ids(1000, 7);
        const std::vector<std::byte> state(512, std::byte(1)), rows(2'000'000, std::byte(2));
        engine::SavedContext::Content content;
        content.modelKey = 1;
        content.model = "demo-model";
        content.label = {"repo", "0123456789abcdef"};
        content.tokens = ids;
        content.states = {{1000, std::int64_t(rows.size()), {state}}};
        content.rows[0] = {rows};
        fill();
        const auto written = engine::SavedContext::write(file, content, [] { return false; });
        QVERIFY(!written);
        QCOMPARE(written.error().code, ErrorCode::FileUnwritable);
        QCOMPARE(QDir(disk).entryList(QDir::Files), QStringList{QStringLiteral("filler")});
        makeRoom();
        QVERIFY(engine::SavedContext::write(file, content, [] { return false; }));
        QVERIFY(engine::SavedContext::open(file)->verify());
    }
};

int main(int argc, char** argv)
{
    char folder[] = "/tmp/octavo-disk-XXXXXX";
    const bool made = mkdtemp(folder) != nullptr;
    if (made && mountSmallDisk(folder)) // before there is a second thread
        disk = QString::fromLatin1(folder);
    int result = 0;
    {
        QCoreApplication app(argc, argv);
        TestFullDisk test;
        result = QTest::qExec(&test, argc, argv);
    }
    if (made && !disk.isEmpty())
        umount2(folder, MNT_DETACH);
    if (made)
        rmdir(folder);
    return result;
}

#include "tst_full_disk.moc"
