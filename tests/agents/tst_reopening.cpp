#include "agents/workbench.h"
#include "engine/scheduler/saved_context.h"
#include "tests/agents/git_fixture.h"

#include <QDir>
#include <QSignalSpy>
#include <QTemporaryDir>

using namespace octavo;
using namespace octavo::agents;
using octavo::agents::tests::GitFixture;

/// The window's part of the program with the bundled model, closed and opened again over the same folders.
class TestReopening : public QObject
{
    Q_OBJECT

    GitFixture m_fixture;
    QTemporaryDir m_data;
    std::unique_ptr<Workbench> m_workbench;

    void open()
    {
        m_workbench.reset();
        WorkbenchOptions options;
        options.databasePath = m_data.filePath("octavo.db");
        options.engine.modelDir = OCTAVO_RESOURCES "/demo-model";
        options.engine.devices = {"cpu"};
        options.engine.threads = 2;
        options.engine.savedContexts = m_data.filePath("contexts").toStdString();
        options.maxNewTokens = 24;
        m_workbench = std::make_unique<Workbench>(options);
        QSignalSpy ready(m_workbench.get(), &Workbench::ready);
        m_workbench->start();
        QVERIFY(ready.wait(30'000));
    }

    ContextInfo context(ContextId id) const
    {
        for (const ContextInfo& info : m_workbench->contexts()) {
            if (info.id == id)
                return info;
        }
        return {};
    }

    ContextId readContext()
    {
        const ContextId id = addContext();
        if (!QTest::qWaitFor([&] { return context(id).state == ContextState::Read; }, 60'000))
            qWarning("reading did not finish");
        return id;
    }

    ContextId addContext()
    {
        IngestOptions options;
        options.repository = m_fixture.root();
        IngestResult found;
        const std::unique_ptr<IngestJob> job(m_workbench->preview(options));
        connect(job.get(), &IngestJob::finished, job.get(), [&](const IngestResult& result) { found = result; });
        if (!QTest::qWaitFor([&] { return !found.packed.isEmpty(); }, 10'000))
            qWarning("preview did not finish");
        return m_workbench->addContext(options, found);
    }

    QString answer(const QString& question)
    {
        Agent& agent = *m_workbench->agent(0);
        if (!agent.ask(question))
            return {};
        const bool ended =
            QTest::qWaitFor([&] { return agent.messages().last().state != MessageState::Pending; }, 60'000);
        return ended ? agent.messages().last().text : QString();
    }

    static QByteArray lastFile(int factor)
    {
        QByteArray code;
        for (int i = 0; i < 10; ++i)
            code += "int last" + QByteArray::number(i * factor) + "(int b) { return b - 1; }\n";
        return code;
    }

    QStringList saved() const { return QDir(m_data.filePath("contexts")).entryList({"*.context"}, QDir::Files); }

    std::int64_t tokensRead() const { return m_workbench->metrics().devices.front().backend.prefillTokens; }

private slots:
    void initTestCase()
    {
        QByteArray code;
        for (int i = 0; i < 120; ++i)
            code += "int value" + QByteArray::number(i) + "(int a) { return a + " + QByteArray::number(7 * i) + "; }\n";
        m_fixture.write("src/a.cpp", code);
        m_fixture.write("src/zz.cpp", lastFile(1)); // more than the 64 tokens between two places to resume at
        m_fixture.commit();
    }

    void aQuestionAfterOpeningAgainReadsNoMoreThanItself()
    {
        const QString question = QStringLiteral("Where is value17 defined?");
        open();
        const ContextId id = readContext();
        const qint64 tokens = context(id).tokens;
        QVERIFY(tokens > 1500);
        m_workbench->agent(0)->setContext(id);
        const QString first = answer(question);
        QVERIFY(!first.isEmpty());
        QVERIFY(tokensRead() >= tokens);
        QTRY_COMPARE_WITH_TIMEOUT(saved().size(), 1, 20'000);
        m_workbench->agent(0)->newConversation();

        open();
        QCOMPARE(m_workbench->contexts().size(), 1);
        QCOMPARE(answer(question), first);
        QVERIFY2(tokensRead() < 300, qPrintable(QString::number(tokensRead())));

        const auto file = engine::SavedContext::open(m_data.filePath("contexts/" + saved().first()).toStdString());
        QVERIFY(file);
        QCOMPARE(file->info().label.name, std::string("repo"));
        QCOMPARE(file->info().label.commit, m_workbench->contexts().first().commit.toStdString());
    }

    void aCommitThatChangesTheLastFileReusesNineTenthsAfterOpeningAgain()
    {
        m_fixture.write("src/zz.cpp", lastFile(5));
        m_fixture.commit();
        open();
        const ContextId id = readContext();
        const qint64 tokens = context(id).tokens;
        QVERIFY2(tokensRead() < tokens / 10, qPrintable(QStringLiteral("%1 of %2").arg(tokensRead()).arg(tokens)));
        QTRY_COMPARE_WITH_TIMEOUT(saved().size(), 2, 20'000);
    }

    void aReadingThatIsStoppedOrInterruptedGoesOnFromThere()
    {
        QByteArray code;
        for (int i = 0; i < 700; ++i)
            code += "int other" + QByteArray::number(i) + "(int a) { return a * " + QByteArray::number(3 * i) + "; }\n";
        m_fixture.write("src/aa.cpp", code); // before what the earlier contexts began with
        m_fixture.commit();
        open();
        const ContextId id = addContext();
        const auto readSome = [&](qint64 least) {
            return QTest::qWaitFor([&] { return context(id).readDone > least; }, 60'000) &&
                   context(id).state == ContextState::Reading;
        };
        QVERIFY(readSome(2000));
        m_workbench->cancelReading(id);
        const qint64 stoppedAt = context(id).readDone;
        QCOMPARE(context(id).state, ContextState::Ready);
        m_workbench->readContext(id);
        QVERIFY(readSome(stoppedAt + 1));
        QVERIFY2(context(id).readReused >= stoppedAt, qPrintable(QString::number(context(id).readReused)));

        const qint64 total = context(id).readTotal;
        const std::int64_t before = tokensRead();
        open(); // the program ends meanwhile, and starts again: reading goes on by itself
        QTRY_VERIFY_WITH_TIMEOUT(context(id).readReused > 0, 60'000);
        QVERIFY2(context(id).readReused >= before, qPrintable(QString::number(context(id).readReused)));
        QTRY_COMPARE_WITH_TIMEOUT(context(id).state, ContextState::Read, 120'000);
        QVERIFY2(tokensRead() <= total - before, qPrintable(QString::number(tokensRead())));
    }
};

QTEST_GUILESS_MAIN(TestReopening)
#include "tst_reopening.moc"
