#include "agents/store/session_store.h"
#include "agents/workbench.h"
#include "tests/agents/git_fixture.h"
#include "tests/engine/fake_engine.h"

#include <QCoreApplication>
#include <QElapsedTimer>
#include <QProcess>
#include <QTimer>

#include <csignal>
#include <cstdio>

using namespace octavo;
using namespace octavo::agents;
using octavo::agents::tests::GitFixture;

namespace {

constexpr int lostAtMostMs = 1000;

qint64 nowMs()
{
    return QDeadlineTimer::current(Qt::PreciseTimer).deadline();
}

/// A line for the parent: at this time, so many characters were there.
void report(qint64 characters)
{
    std::printf("%lld %lld\n", static_cast<long long>(nowMs()), static_cast<long long>(characters));
    std::fflush(stdout);
}

/// The program in the middle of something, until it is killed.
int work(const QString& what, const QString& database, const QString& repository)
{
    WorkbenchOptions options;
    options.databasePath = database;
    auto fake = std::make_unique<octavo::test::FakeEngine>([what](const engine::GenerationRequest& request) {
        octavo::test::Script script;
        script.waits = what == u"reading" && request.maxNewTokens == 0;
        script.pieces.assign(20'000, "word ");
        script.microsBetweenPieces = 2'000;
        return script;
    });
    auto workbench = std::make_unique<Workbench>(options, std::move(fake));
    Agent* agent = nullptr;
    QTimer typing;
    QString draft;
    QObject::connect(&typing, &QTimer::timeout, [&] {
        draft += u'x';
        agent->setDraft(draft);
        report(draft.size());
    });
    QObject::connect(workbench.get(), &Workbench::ready, [&] {
        agent = workbench->agent(0);
        IngestOptions from;
        from.repository = repository;
        IngestJob* job = workbench->preview(from);
        QObject::connect(job, &IngestJob::finished, [&, from](const IngestResult& result) {
            agent->setContext(workbench->addContext(from, result));
            if (what == u"typing") {
                typing.start(10);
                return;
            }
            qint64 written = 0;
            QObject::connect(agent, &Agent::textAppended, agent, [&, written](MessageId, const QString& text) mutable {
                written += text.size();
                report(written);
                if (what == u"quitting" && written > 5000)
                    QCoreApplication::quit();
            });
            if (!agent->ask(QStringLiteral("committed question")))
                std::exit(1);
            QTimer::singleShot(300, [] { report(0); }); // in "reading" nothing else is said
        });
    });
    workbench->start();
    QCoreApplication::exec();
    report(-1); // the window is closed, what is left is being written
    workbench.reset();
    return 0;
}

} // namespace

/// What is left of a session whose program was killed (B-47).
class TestCrash : public QObject
{
    Q_OBJECT

private:
    GitFixture m_repository;
    QTemporaryDir m_data;

    struct Killed {
        QList<std::pair<qint64, qint64>> said; ///< when, how many characters
        qint64 at = 0;
        /// What was there a second before the end, and so must be there now.
        qint64 safe() const
        {
            qint64 characters = 0;
            for (const auto& [time, count] : said) {
                if (time <= at - lostAtMostMs)
                    characters = std::max(characters, count);
            }
            return characters;
        }
    };

    QString database(const QString& what) const { return m_data.filePath(what + QStringLiteral(".db")); }

    /// Runs the program until `afterMs` after it first said `afterSaying`, and kills it.
    Killed kill(const QString& what, int afterMs, const char* afterSaying = "\n")
    {
        QProcess child;
        child.setProcessChannelMode(QProcess::ForwardedErrorChannel);
        child.start(QCoreApplication::applicationFilePath(),
                    {QStringLiteral("--work"), what, database(what), m_repository.root()});
        Killed out;
        QElapsedTimer since;
        QByteArray buffer;
        while (!since.isValid() || since.elapsed() < afterMs) {
            if (!child.waitForReadyRead(50) && child.state() == QProcess::NotRunning)
                break;
            buffer += child.readAll();
            if (!since.isValid() && buffer.contains(afterSaying))
                since.start();
        }
        if (child.processId() > 0)
            ::kill(pid_t(child.processId()), SIGKILL);
        out.at = nowMs();
        child.waitForFinished();
        buffer += child.readAll();
        for (const QByteArray& line : buffer.split('\n')) {
            const QList<QByteArray> words = line.split(' ');
            if (words.size() == 2)
                out.said.append({words[0].toLongLong(), words[1].toLongLong()});
        }
        return out;
    }

    struct Left {
        SessionState state;
        QList<StoredMessage> messages;
    };
    Left left(const QString& what) const
    {
        auto store = SessionStore::open(database(what));
        if (!store)
            qFatal("%s", store.error().message.c_str());
        Left out{*store->load(), {}};
        if (!out.state.conversations.isEmpty())
            out.messages = *store->messages(out.state.conversations[0].id);
        return out;
    }

private slots:
    void initTestCase()
    {
        m_repository.write("src/a.cpp", "int a;\n");
        m_repository.commit();
    }

    void inMidAnswerAtMostASecondOfTextIsLost()
    {
        const Killed killed = kill(QStringLiteral("writing"), 2500);
        QVERIFY(killed.safe() > 200);
        const Left now = left(QStringLiteral("writing"));
        QCOMPARE(now.messages.size(), 2);
        QCOMPARE(now.messages[0].message.text, QStringLiteral("committed question"));
        QCOMPARE(now.messages[1].message.state, MessageState::Interrupted);
        QVERIFY(endedEarly(now.messages[1].message.state)); // so that Continue is offered
        QVERIFY2(
            now.messages[1].message.text.size() >= killed.safe(),
            qPrintable(
                QStringLiteral("%1 characters of %2").arg(now.messages[1].message.text.size()).arg(killed.safe())));
        QVERIFY(!now.messages[1].ids.empty());
    }

    void whileTypingAtMostASecondOfTheDraftIsLost()
    {
        const Killed killed = kill(QStringLiteral("typing"), 2500);
        QVERIFY(killed.safe() > 20);
        const Left now = left(QStringLiteral("typing"));
        QVERIFY2(
            now.state.panes.value(0).draft.size() >= killed.safe(),
            qPrintable(
                QStringLiteral("%1 characters of %2").arg(now.state.panes.value(0).draft.size()).arg(killed.safe())));
    }

    void whileTheContextIsReadTheQuestionIsKept()
    {
        kill(QStringLiteral("reading"), 100);
        const Left now = left(QStringLiteral("reading"));
        QCOMPARE(now.messages.size(), 2);
        QCOMPARE(now.messages[0].message.text, QStringLiteral("committed question"));
        QCOMPARE(now.messages[1].message.state, MessageState::Interrupted);
        QCOMPARE(now.state.panes.value(0).conversation, now.state.conversations[0].id);
    }

    void whileQuittingNothingIsTorn()
    {
        const Killed killed = kill(QStringLiteral("quitting"), 0, " -1\n");
        const Left now = left(QStringLiteral("quitting"));
        QCOMPARE(now.messages.size(), 2);
        QVERIFY(now.messages[1].message.text.size() >= killed.safe());
        QVERIFY(now.messages[1].message.text.startsWith(QStringLiteral("word word ")));
        QVERIFY(killed.safe() > 200);
    }
};

int main(int argc, char** argv)
{
    QCoreApplication app(argc, argv);
    const QStringList words = app.arguments();
    if (words.size() == 5 && words[1] == u"--work")
        return work(words[2], words[3], words[4]);
    TestCrash test;
    return QTest::qExec(&test, argc, argv);
}

#include "tst_crash.moc"
