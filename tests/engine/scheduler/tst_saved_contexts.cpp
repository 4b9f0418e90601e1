#include "tests/engine/scheduler/scheduler_bench.h"

#include <QDir>
#include <QFile>
#include <QTemporaryDir>
#include <QTest>

#include <unistd.h>

using namespace octavo;
using namespace octavo::engine;
using namespace octavo::test;

class TestSavedContexts : public QObject
{
    Q_OBJECT

    QTemporaryDir m_dir;

    /// A program run of its own over the same folder.
    std::unique_ptr<Bench> start(std::int64_t quota = 1 << 30, std::uint64_t modelHash = 1)
    {
        return std::make_unique<Bench>([&](FakeDevice&, SchedulerOptions& options) {
            options.savedContexts = m_dir.filePath("contexts").toStdString();
            options.savedContextsQuota = quota;
            options.modelHash = modelHash;
        });
    }

    QStringList files() const
    {
        return QDir(m_dir.filePath("contexts")).entryList(QDir::Files, QDir::Time | QDir::Reversed);
    }

private slots:
    void init()
    {
        QDir(m_dir.filePath("contexts")).removeRecursively();
    }

    void afterARestartOnlyTheQuestionIsRead()
    {
        const auto context = someTokens(2000, 1);
        const auto prompt = context + someTokens(30, 2);
        {
            auto first = start();
            QCOMPARE(first->run(first->ask(0, prompt, 20, 2000)).tokens, fakeAnswer(prompt, 20));
            first->scheduler->flushSavedContexts();
        }
        QCOMPARE(files().size(), 1);
        auto second = start();
        const auto record = second->run(second->ask(3, prompt, 20, 2000));
        QCOMPARE(record.finished->stats.reusedTokens, 1984);
        QCOMPARE(second->device->tokensRead.load(), 2030 - 1984);
        QCOMPARE(record.tokens, fakeAnswer(prompt, 20));
    }

    void theProgramsEndWaitsForTheFileInHand()
    {
        const auto context = someTokens(2000, 1);
        {
            auto first = start();
            first->run(first->ask(0, context, 0, 2000));
        }
        auto second = start();
        QCOMPARE(second->run(second->ask(0, context, 0, 2000)).finished->stats.reusedTokens, 1984);
    }

    void aByteChangedAnywhereIsNoticedAndTheContextReadAfresh()
    {
        const auto context = someTokens(300, 1);
        const auto prompt = context + someTokens(30, 2);
        {
            auto first = start();
            first->run(first->ask(0, prompt, 5, 300));
            first->scheduler->flushSavedContexts();
        }
        const QString path = m_dir.filePath("contexts/" + files().first());
        QFile file(path);
        QVERIFY(file.open(QIODevice::ReadOnly));
        const QByteArray good = file.readAll();
        file.close();
        for (qsizetype at = 0; at < good.size(); at += at < 64 ? 1 : 131) {
            QByteArray bad = good;
            bad[at] = char(bad[at] ^ 0x10);
            QFile damaged(path);
            QVERIFY(damaged.open(QIODevice::WriteOnly));
            damaged.write(bad);
            damaged.close();
            auto second = start();
            const auto record = second->run(second->ask(0, prompt, 5, 300));
            QCOMPARE(record.finished->stats.reusedTokens, 0);
            QCOMPARE(record.tokens, fakeAnswer(prompt, 5));
        }
    }

    void aFileCutShortIsNoticed()
    {
        const auto context = someTokens(300, 1);
        {
            auto first = start();
            first->run(first->ask(0, context, 0, 300));
        }
        for (const qint64 length : {0, 10, 55, 56, 1000, 5000}) {
            QFile::resize(m_dir.filePath("contexts/" + files().first()), length);
            auto second = start();
            QCOMPARE(second->run(second->ask(0, context + someTokens(9, 2), 5, 300)).tokens,
                     fakeAnswer(context + someTokens(9, 2), 5));
            QCOMPARE(second->recorder.record(RequestId{1}).finished->stats.reusedTokens, 0);
        }
    }

    void halfWrittenFilesAreClearedAway()
    {
        QDir().mkpath(m_dir.filePath("contexts"));
        QFile part(m_dir.filePath("contexts/00-00-64.context.1-0.part"));
        QVERIFY(part.open(QIODevice::WriteOnly));
        part.write("half");
        part.close();
        start();
        QVERIFY(files().isEmpty());
    }

    void anotherModelsContextsAreNotUsed()
    {
        const auto context = someTokens(1000, 1);
        {
            auto first = start(1 << 30, 1);
            first->run(first->ask(0, context, 0, 1000));
        }
        auto other = start(1 << 30, 2);
        QCOMPARE(other->run(other->ask(0, context, 0, 1000)).finished->stats.reusedTokens, 0);
    }

    void theQuotaKeepsWhatWasUsedLast()
    {
        const std::int64_t each = 4096 * 2 + 960 * 12; // header and ids, then 960 tokens' state, at most
        auto bench = start(3 * each);
        for (int context = 0; context < 6; ++context) {
            bench->run(bench->ask(0, someTokens(960, context), 0, 960));
            bench->scheduler->flushSavedContexts();
            QVERIFY(files().size() <= 4);
            ::usleep(20'000); // file times must differ
        }
        QVERIFY(files().size() >= 3);
        auto second = start(3 * each);
        QCOMPARE(second->run(second->ask(0, someTokens(960, 5), 0, 960)).finished->stats.reusedTokens, 960);
        QCOMPARE(second->run(second->ask(0, someTokens(960, 0), 0, 960)).finished->stats.reusedTokens, 0);
    }

    void aContextLargerThanTheQuotaIsNotSaved()
    {
        auto bench = start(5000);
        bench->run(bench->ask(0, someTokens(960, 1), 0, 960));
        bench->scheduler->flushSavedContexts();
        QVERIFY(files().isEmpty());
    }

    void aFolderThatCannotBeWrittenCostsNothingElse()
    {
        QFile blocker(m_dir.filePath("contexts")); // a file where the folder should be
        QVERIFY(blocker.open(QIODevice::WriteOnly));
        blocker.close();
        auto bench = start();
        const auto prompt = someTokens(960, 1);
        QCOMPARE(bench->run(bench->ask(0, prompt, 5, 960)).tokens, fakeAnswer(prompt, 5));
        bench->scheduler->flushSavedContexts();
        bench.reset();
        blocker.remove();
    }
};

QTEST_GUILESS_MAIN(TestSavedContexts)
#include "tst_saved_contexts.moc"
