#include "tests/engine/scheduler/scheduler_bench.h"

#include <QCoreApplication>
#include <QDir>
#include <QFile>
#include <QProcess>
#include <QRandomGenerator>
#include <QTemporaryDir>
#include <QTest>

#include <fcntl.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sstream>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

using namespace octavo;
using namespace octavo::engine;
using namespace octavo::test;

namespace {

/// A context of so many bytes of rows that writing it takes a while.
std::vector<ContextStore::Part> largeParts(std::int64_t length, std::size_t bytes, int seed)
{
    auto storage = std::make_shared<std::vector<std::byte>>(bytes + 64, std::byte(seed));
    SequenceImage image;
    image.state = {std::span(*storage).first(64)};
    image.rows = {std::span(*storage).subspan(64, bytes / 3), std::span(*storage).subspan(64 + bytes / 3)};
    image.rowBytes = std::int64_t(bytes);
    image.storage = storage;
    std::vector<ContextStore::Part> parts;
    parts.push_back({length, std::move(image)});
    return parts;
}

SharedTokens shared(int count, int seed)
{
    return std::make_shared<const std::vector<TokenId>>(someTokens(count, seed));
}

/// What the test starts as a program of its own, to be killed: saves contexts until then.
int saveUntilKilled(const char* folder)
{
    ContextStore store({folder, std::int64_t{1} << 40, 1, "fake"});
    for (int seed = 0;; ++seed) {
        store.save(shared(500, seed), largeParts(500, std::size_t{6} << 20, seed), {"repo", "c0ffee"});
        store.flush();
    }
}

/// What the test starts on a disk that has no room for a part beside the whole: 0 if the whole is all that is left.
int saveOnASmallDisk(const char* folder)
{
    const auto tokens = shared(1000, 1);
    ContextStore store({folder, std::int64_t{1} << 40, 1, "fake"});
    store.save(tokens, largeParts(600, 1'200'000, 1), {}, 1000);
    store.flush();
    const auto part = store.longest(*tokens, 1000);
    store.save(tokens, largeParts(1000, 2'500'000, 1), {});
    store.flush();
    const auto whole = store.longest(*tokens, 1000);
    const bool isGood = part && part->length == 600 && whole && whole->length == 1000 && !store.longest(*tokens, 600);
    return isGood ? 0 : 3;
}

} // namespace

class TestSavedContexts : public QObject
{
    Q_OBJECT

    QTemporaryDir m_dir;

    /// A program run of its own over the same folder.
    std::unique_ptr<Bench> start(std::int64_t quota = 1 << 30, std::uint64_t modelHash = 1,
                                 std::int64_t restoreSlice = 32 << 20)
    {
        return std::make_unique<Bench>([&](FakeDevice&, SchedulerOptions& options) {
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

    void aReadingThatIsLeftGoesOnFromThere_data()
    {
        QTest::addColumn<QString>("leftBy");
        for (const char* how : {"stop", "the end of the program", "a crash"})
            QTest::newRow(how) << QString::fromLatin1(how);
    }
    void aReadingThatIsLeftGoesOnFromThere()
    {
        QFETCH(const QString, leftBy);
        const auto context = someTokens(12'000, 1);
        const std::int64_t whole = roundDownToStride(12'000);
        std::int64_t read = 0;
        {
            auto first = std::make_unique<Bench>([&](FakeDevice&, SchedulerOptions& options) {
                options.savedContexts = m_dir.filePath("contexts").toStdString();
                options.savedContextsQuota = 1 << 30;
                options.modelHash = 1;
                options.checkpointInterval = 1024;
                options.saveReadingEveryUs = leftBy == u"a crash" ? 0 : std::int64_t{1} << 50;
            });
            const RequestId reading = first->ask(0, context, 0, 12'000);
            while (first->device->tokensRead < 7'000)
                first->scheduler->runRound();
            read = first->device->tokensRead;
            QVERIFY(read < whole);
            if (leftBy == u"stop") {
                first->scheduler->cancel(reading);
                QCOMPARE(first->recorder.record(reading).finished->reason, FinishReason::Cancelled);
                const auto again = first->run(first->ask(1, context, 0, 12'000)); // from memory
                QCOMPARE(again.finished->stats.reusedTokens, read);
                QCOMPARE(first->device->tokensRead.load(), whole);
                return;
            }
            first->scheduler->flushSavedContexts();
            if (leftBy == u"a crash") { // what is on disk now is all there is
                QCOMPARE(files().size(), 1); // older parts are gone
                QVERIFY(QDir(m_dir.path()).rename("contexts", "kept"));
                first.reset();
                QDir(m_dir.filePath("contexts")).removeRecursively();
                QVERIFY(QDir(m_dir.path()).rename("kept", "contexts"));
            }
        }
        QCOMPARE(files().size(), 1);
        const auto part = SavedContext::open(m_dir.filePath("contexts/" + files()[0]).toStdString());
        QVERIFY(part && part->info().isPart());
        QCOMPARE(part->info().wantedTokens, whole);
        if (leftBy == u"the end of the program")
            QCOMPARE(part->info().tokens(), read);
        QVERIFY(part->info().tokens() > read / 2 && part->info().tokens() <= read);
        auto second = start();
        const auto prompt = context + someTokens(30, 2);
        second->run(second->ask(1, context, 0, 12'000));
        QCOMPARE(second->device->tokensRead.load(), whole - part->info().tokens());
        QCOMPARE(second->run(second->ask(2, prompt, 5, 12'000)).tokens, fakeAnswer(prompt, 5));
        second->scheduler->flushSavedContexts();
        QCOMPARE(files().size(), 1); // the part went with the whole
        const auto saved = SavedContext::open(m_dir.filePath("contexts/" + files()[0]).toStdString());
        QVERIFY(saved && !saved->info().isPart());
        QCOMPARE(saved->info().tokens(), whole);
    }

    void aSavedContextOpensBesideWriters() // B-24
    {
        const auto context = someTokens(12'000, 1);
        {
            auto first = start();
            first->run(first->ask(0, context, 0, 12'000));
        }
        auto second = start(1 << 30, 1, 4096);
        const auto written = someTokens(100, 2);
        const RequestId writer = second->ask(0, written, 15'000);
        while (second->recorder.record(writer).tokens.empty())
            second->scheduler->runRound();
        std::vector<int> stepsAt;
        second->device->onCall = [&](const std::string& call) {
            if (call == "restore")
                stepsAt.push_back(second->device->steps);
            else if (call == "step")
                ::usleep(200); // so that the file is checked before the answer ends
        };
        const auto prompt = context + someTokens(30, 3);
        const auto record = second->run(second->ask(1, prompt, 5, 12'000));
        QCOMPARE(record.tokens, fakeAnswer(prompt, 5));
        QCOMPARE(record.finished->stats.reusedTokens, 11'968);
        QCOMPARE(stepsAt.size(), std::size_t(12)); // of 47,872 bytes
        for (std::size_t part = 1; part < stepsAt.size(); ++part)
            QCOMPARE_GT(stepsAt[part], stepsAt[part - 1]); // the other pane wrote between any two
        QVERIFY(!second->recorder.record(writer).hasEnded());
        second->scheduler->cancel(writer);
        const auto tokens = second->recorder.record(writer).tokens;
        QCOMPARE(tokens, fakeAnswer(written, int(tokens.size())));
    }

    void roomForASavedContextComesInPartsBesideWriters()
    {
        const auto context = someTokens(4'000, 1);
        {
            auto first = start();
            first->run(first->ask(0, context, 0, 4'000));
        }
        auto second = start();
        second->device->prepareCalls = 40;
        second->device->prepareUs = 30'000;
        const RequestId writer = second->ask(0, someTokens(64, 2), 15'000);
        while (second->recorder.record(writer).tokens.empty())
            second->scheduler->runRound();
        second->device->onCall = [](const std::string& call) {
            if (call == "step")
                ::usleep(200); // so that the file is checked before the answer ends
        };
        const auto prompt = context + someTokens(30, 3);
        const auto record = second->run(second->ask(1, prompt, 5, 4'000));
        QCOMPARE(record.tokens, fakeAnswer(prompt, 5));
        QCOMPARE(record.finished->stats.reusedTokens, roundDownToStride(4'000));
        second->scheduler->cancel(writer);
        const double gap = second->recorder.record(writer).finished->stats.worstGapMs;
        QVERIFY2(gap >= 30.0 && gap <= 250.0, qPrintable(QString::number(gap))); // of 1,200 ms in all
    }

    /// Where saving on the way would slow the reading down, only what ends it early keeps what was read.
    void aDeviceThatLosesBySavingIsNotAskedToWhileItReads()
    {
        const auto context = someTokens(12'000, 1);
        {
            Bench bench([&](FakeDevice& device, SchedulerOptions& options) {
                options.savedContexts = m_dir.filePath("contexts").toStdString();
                options.savedContextsQuota = 1 << 30;
                options.modelHash = 1;
                options.checkpointInterval = 1024;
                options.saveReadingEveryUs = 0;
                device.savesWhileReading = false;
            });
            bench.ask(0, context, 0, 12'000);
            while (bench.device->tokensRead < 7'000)
                bench.scheduler->runRound();
            bench.scheduler->flushSavedContexts();
            QCOMPARE(files().size(), 0);
        }
        QCOMPARE(files().size(), 1);
    }

    void whatIsOpenedIsLetGoOfWhenNobodyWaitsForIt()
    {
        const auto context = someTokens(4000, 1);
        {
            auto first = start();
            first->run(first->ask(0, context, 0, 4000));
        }
        for (int rounds = 0; rounds < 12; ++rounds) {
            auto second = start(1 << 30, 1, 4096);
            const RequestId id = second->ask(0, context + someTokens(30, 2), 5, 4000);
            for (int round = 0; round < rounds; ++round)
                second->scheduler->runRound();
            second->scheduler->cancel(id);
            QCOMPARE(second->recorder.record(id).ends, 1);
            second->runAll();
            // Another one opens it all the same, and the first's sequences are gone.
            const auto prompt = context + someTokens(30, 3);
            const auto record = second->run(second->ask(1, prompt, 5, 4000));
            QCOMPARE(record.finished->stats.reusedTokens, 3968);
            QCOMPARE(record.tokens, fakeAnswer(prompt, 5));
            second->scheduler->releaseAgent(AgentId{0});
            second->scheduler->releaseAgent(AgentId{1});
            QVERIFY(second->device->liveSlots <= 8);
            second->scheduler.reset();
            QCOMPARE(second->device->liveSlots.load(), 0);
            QCOMPARE(second->device->misuses.load(), 0);
        }
    }

    void aFaultWhileAContextIsOpenedCostsNoMoreThanReadingIt()
    {
        const auto context = someTokens(4000, 1);
        {
            auto first = start();
            first->run(first->ask(0, context, 0, 4000));
        }
        const auto prompt = context + someTokens(30, 2);
        for (const int call : {1, 2, 3}) { // begin, room, the first part
            auto second = start(1 << 30, 1, 4096);
            second->device->fault = ErrorCode::OutOfMemory;
            second->device->failAt = call;
            const auto record = second->run(second->ask(0, prompt, 5, 4000));
            QCOMPARE(second->device->failAt.load(), 0);
            QVERIFY2(record.finished, record.failure ? record.failure->message.c_str() : "");
            QCOMPARE(record.tokens, fakeAnswer(prompt, 5));
            QCOMPARE(record.finished->stats.reusedTokens, 0);
        }
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
        QFile part(m_dir.filePath("contexts/0000000000000001-0000000000000002-64.context.1-0.part"));
        QVERIFY(part.open(QIODevice::WriteOnly));
        part.write("half");
        part.close();
        start();
        QVERIFY(files().isEmpty());
    }

    void filesOfOthersInTheFolderStay()
    {
        QDir().mkpath(m_dir.filePath("contexts"));
        const QStringList names{"film.mkv.part", "trip.context", "trip.context.part", "0000000000000001-notes.context"};
        for (const QString& name : names) {
            QFile file(m_dir.filePath("contexts/" + name));
            QVERIFY(file.open(QIODevice::WriteOnly));
            file.write("somebody else's");
        }
        start();
        QStringList left = QDir(m_dir.filePath("contexts")).entryList(QDir::Files);
        for (const QString& name : names)
            QVERIFY2(left.contains(name), qPrintable(name));
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
        std::int64_t each = 0;
        {
            auto bench = start();
            bench->run(bench->ask(0, someTokens(960, 9), 0, 960));
            bench->scheduler->flushSavedContexts();
            each = QFileInfo(m_dir.filePath("contexts/" + files().first())).size();
            init();
        }
        auto bench = start(3 * each);
        for (int context = 0; context < 6; ++context) {
            bench->run(bench->ask(0, someTokens(960, context), 0, 960));
            bench->scheduler->flushSavedContexts();
            QVERIFY(files().size() <= 3);
            ::usleep(20'000); // file times must differ
        }
        QCOMPARE(files().size(), 3);
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

    void aLaterCommitGoesOnBeforeItsFirstChange_data()
    {
        QTest::addColumn<int>("changed"); // of 4000 tokens, at the end
        for (const int changed : {40, 100, 200, 400, 1000})
            QTest::addRow("%d", changed) << changed;
    }

    void aLaterCommitGoesOnBeforeItsFirstChange()
    {
        QFETCH(int, changed);
        const auto kept = someTokens(4000 - changed, 1);
        {
            auto first = start();
            first->run(first->ask(0, kept + someTokens(changed, 2), 0, 4000));
        }
        const auto prompt = kept + someTokens(changed, 3) + someTokens(30, 4);
        auto second = start();
        const auto record = second->run(second->ask(0, prompt, 20, 4000));
        const int least = 4000 - 2 * std::max(changed, 4000 / 64) - 64; // read again: twice the change, or a 32nd
        QVERIFY(record.finished->stats.reusedTokens >= least);
        QVERIFY(record.finished->stats.reusedTokens <= 4000 - changed);
        QCOMPARE(record.tokens, fakeAnswer(prompt, 20));
        // In memory it does so too, and both commits are saved now.
        const auto third = kept + someTokens(changed, 5);
        QVERIFY(second->run(second->ask(1, third, 5, 4000)).finished->stats.reusedTokens >= least);
        second->scheduler->flushSavedContexts();
        QCOMPARE(files().size(), 3);
    }

    void aLaterCommitGoesOnWhereRowsLieOtherwiseThanTheWholes_data()
    {
        QTest::addColumn<int>("changed"); // of 4000 tokens, at the end; from 3000 on rows lie in another way
        QTest::addColumn<int>("least");
        QTest::newRow("behind") << 200 << 3500;
        QTest::newRow("before") << 1100 << 1800;
        QTest::newRow("far before") << 2100 << 960;
    }

    void aLaterCommitGoesOnWhereRowsLieOtherwiseThanTheWholes()
    {
        QFETCH(int, changed);
        QFETCH(int, least);
        const auto start = [this] {
            return std::make_unique<Bench>([&](FakeDevice& device, SchedulerOptions& options) {
                options.savedContexts = m_dir.filePath("contexts").toStdString();
                options.savedContextsQuota = 1 << 30;
                options.checkpointInterval = 512;
                device.otherRowsFrom = 3000;
            });
        };
        const auto kept = someTokens(4000 - changed, 1);
        {
            auto first = start();
            first->run(first->ask(0, kept + someTokens(changed, 2), 0, 4000));
        }
        const auto file = SavedContext::open(m_dir.filePath("contexts/" + files().first()).toStdString());
        QVERIFY(file && file->verify());
        const auto prompt = kept + someTokens(changed, 3) + someTokens(30, 4);
        auto second = start();
        const auto record = second->run(second->ask(0, prompt, 20, 4000));
        QVERIFY2(record.finished->stats.reusedTokens >= least, qPrintable(QString::number(record.finished->stats.reusedTokens)));
        QCOMPARE(record.tokens, fakeAnswer(prompt, 20));
    }

    void contextsThatWaitToBeSavedGiveWayToRequests()
    {
        // An image takes nearly all there is, and goes on taking it until it is written.
        Bench bench([&](FakeDevice& device, SchedulerOptions& options) {
            options.savedContexts = m_dir.filePath("contexts").toStdString();
            options.savedContextsQuota = 1 << 30;
            options.memoryBudgetBytes = 200'000;
            options.checkpointInterval = 4096; // one image a context
            device.imageBytes = 150'000;
        });
        for (int context = 0; context < 5; ++context) {
            const auto prompt = someTokens(4000, context) + someTokens(30, 9);
            const RequestId id = bench.ask(0, prompt, 20, 4000);
            QTRY_VERIFY_WITH_TIMEOUT((bench.scheduler->runRound(), bench.recorder.record(id).hasEnded()), 20'000);
            const auto record = bench.recorder.record(id);
            QVERIFY2(record.finished, record.failure ? record.failure->message.c_str() : "");
            QCOMPARE(record.tokens, fakeAnswer(prompt, 20));
        }
        bench.scheduler->flushSavedContexts();
        QVERIFY(!files().isEmpty());
        QVERIFY(bench.backend->stats().memoryUsedBytes <= 200'000);
    }

    void leavingAReadingCostsNoSavedContext()
    {
        const auto whole = someTokens(12'000, 1), left = someTokens(12'000, 2);
        {
            auto first = start();
            first->run(first->ask(0, whole, 0, 12'000));
        }
        QCOMPARE(files().size(), 1);
        const QString kept = files().first();
        const qint64 bytes = QFileInfo(m_dir.filePath("contexts/" + kept)).size();
        {
            auto second = start(bytes * 5 / 4);
            second->ask(0, left, 0, 12'000);
            while (second->device->tokensRead < 7'000)
                second->scheduler->runRound();
            QVERIFY(second->device->tokensRead < roundDownToStride(12'000));
        }
        QCOMPARE(files(), QStringList(kept));
    }

    void aPartTakesNoRoomFromWholesNorFromItsOwnOlderPart()
    {
        ContextStore store({m_dir.filePath("contexts").toStdString(), 2'500'000, 1, "fake"});
        const auto other = shared(500, 1), tokens = shared(1000, 2);
        QVERIFY(store.save(other, largeParts(500, 1'000'000, 1), {}));
        QVERIFY(store.save(tokens, largeParts(400, 1'000'000, 2), {}, 1000));
        store.flush();
        QVERIFY(!store.save(tokens, largeParts(800, 1'000'000, 2), {}, 1000));
        store.flush();
        QCOMPARE(files().size(), 2);
        QCOMPARE(store.longest(*tokens, 1000)->length, 400);
        QVERIFY(store.longest(*other, 500)->isWhole);
        QVERIFY(!store.save(tokens, largeParts(1000, 3'000'000, 2), {})); // nor does a whole that is larger than all
        QCOMPARE(files().size(), 2);
    }

    void theRoomOfAPartIsMadeOfOthersWhenItIsWritten_data()
    {
        QTest::addColumn<bool>("fails");
        QTest::newRow("is written") << false;
        QTest::newRow("cannot be") << true;
    }
    void theRoomOfAPartIsMadeOfOthersWhenItIsWritten()
    {
        QFETCH(const bool, fails);
        const auto whole = shared(500, 1), other = shared(500, 2), tokens = shared(1000, 3);
        const QString folder = m_dir.filePath("contexts");
        ContextStore store({folder.toStdString(), 2'500'000, 1, "fake"});
        QVERIFY(store.save(whole, largeParts(500, 1'000'000, 1), {}));
        store.flush();
        ::usleep(20'000); // file times must differ
        QVERIFY(store.save(other, largeParts(400, 1'000'000, 2), {}, 500));
        store.flush();
        if (fails) { // a folder has its name
            const auto hash = hashOf(std::span(*tokens).first(800));
            const QString name = QStringLiteral("0000000000000001-%1-800.context").arg(hash, 16, 16, QLatin1Char('0'));
            QVERIFY(QDir().mkpath(folder + u'/' + name + QStringLiteral("/taken")));
        }
        QVERIFY(store.save(tokens, largeParts(800, 1'000'000, 3), {}, 1000));
        store.flush();
        QVERIFY(store.longest(*whole, 500));
        QCOMPARE(store.longest(*tokens, 1000).has_value(), !fails);
        QCOMPARE(store.longest(*other, 500).has_value(), fails);
        QCOMPARE(files().size(), 2);
    }

    void aWholeTakesTheRoomOfItsOwnPartFirst()
    {
        ContextStore store({m_dir.filePath("contexts").toStdString(), 2'500'000, 1, "fake"});
        const auto other = shared(500, 1), tokens = shared(1000, 2);
        QVERIFY(store.save(other, largeParts(500, 1'000'000, 1), {}));
        store.flush();
        ::usleep(20'000); // file times must differ
        QVERIFY(store.save(tokens, largeParts(600, 800'000, 2), {}, 1000));
        store.flush();
        QVERIFY(store.save(tokens, largeParts(1000, 1'300'000, 2), {}));
        store.flush();
        QVERIFY(store.longest(*other, 500));
        QVERIFY(store.longest(*tokens, 1000)->isWhole);
        QCOMPARE(store.longest(*tokens, 1000)->length, 1000);
        QCOMPARE(files().size(), 2);
    }

    void onAFullDiskAWholeTakesThePlaceOfItsOwnPart()
    {
        const QString folder = m_dir.filePath("contexts");
        QVERIFY(QDir().mkpath(folder));
        const auto onASmallDisk = [&](const QString& command) {
            const QString all = QStringLiteral("mount -t tmpfs -o size=3m none \"$1\" && ") + command;
            const QString self = QCoreApplication::applicationFilePath();
            return QProcess::execute("unshare", {"-rm", "sh", "-c", all, self, folder});
        };
        if (onASmallDisk(QStringLiteral("true")) != 0)
            QSKIP("a small disk cannot be made here");
        QCOMPARE(onASmallDisk(QStringLiteral("\"$0\" --save-on-a-small-disk \"$1\"")), 0);
    }

    void partsThatWaitGiveWayToTheWhole()
    {
        constexpr std::size_t inHand = std::size_t{40} << 20, each = 1'000'000;
        ContextStore store({m_dir.filePath("contexts").toStdString(), std::int64_t(inHand + 3 * each / 2), 1, "fake"});
        const auto other = shared(500, 1), tokens = shared(1000, 2);
        auto slow = largeParts(500, inHand, 1);
        QVERIFY(store.save(other, std::move(slow), {}));
        QVERIFY(store.save(tokens, largeParts(400, 4 * each / 10, 2), {}, 1000));
        QVERIFY(store.save(tokens, largeParts(600, 6 * each / 10, 2), {}, 1000));
        QVERIFY(store.save(tokens, largeParts(1000, each, 2), {}));
        store.flush();
        QCOMPARE(files().size(), 2);
        QVERIFY(store.longest(*other, 500));
        QCOMPARE(store.longest(*tokens, 1000)->length, 1000);
    }

    void aWholeWrittenAtTheProgramsEndTakesItsPartAway()
    {
        const auto tokens = shared(1000, 1);
        {
            ContextStore store({m_dir.filePath("contexts").toStdString(), 1 << 30, 1, "fake"});
            QVERIFY(store.save(tokens, largeParts(600, 1000, 1), {}, 1000));
            store.flush();
            QCOMPARE(files().size(), 1);
            QVERIFY(store.save(tokens, largeParts(1000, 1000, 1), {}));
        }
        QCOMPARE(files().size(), 1);
        const auto file = SavedContext::open(m_dir.filePath("contexts/" + files().first()).toStdString());
        QVERIFY(file && !file->info().isPart());
    }

    void anImageThatWaitsIsGivenUpTheOneInHandIsNot()
    {
        ContextStore store({m_dir.filePath("contexts").toStdString(), 1 << 30, 1, "fake"});
        QVERIFY(!store.holdsImages() && !store.giveUpOne());
        for (int seed = 0; seed < 3; ++seed)
            QVERIFY(store.save(shared(500, seed), largeParts(500, std::size_t{40} << 20, seed), {}));
        QVERIFY(store.holdsImages());
        int given = 0;
        while (store.giveUpOne())
            ++given;
        QVERIFY(given <= 2);
        store.flush();
        QCOMPARE(files().size(), 3 - given);
        QVERIFY(!store.holdsImages());
    }

    void aFileSaysWhatItHolds()
    {
        {
            auto first = start();
            GenerationRequest request;
            request.prompt = someTokens(2000, 1);
            request.contextTokens = 2000;
            request.maxNewTokens = 0;
            request.contextLabel = {"r\u00e9po", "0123456789abcdef0123456789abcdef01234567"};
            first->run(first->submit(std::move(request)));
        }
        const auto file = SavedContext::open(m_dir.filePath("contexts/" + files().first()).toStdString());
        QVERIFY2(file, file ? "" : file.error().message.c_str());
        QCOMPARE(file->info().label.name, std::string("r\u00e9po"));
        QCOMPARE(file->info().label.commit, std::string("0123456789abcdef0123456789abcdef01234567"));
        QCOMPARE(file->info().tokens(), 1984);
        QVERIFY(file->verify());
        const auto tokens = someTokens(2000, 1);
        QCOMPARE(*file->tokens(), std::vector<TokenId>(tokens.begin(), tokens.begin() + 1984));
    }

    void damageInAnyPartIsToldAndTheFileRemoved()
    {
        const auto tokens = shared(2000, 1);
        const std::string folder = m_dir.filePath("contexts").toStdString();
        ContextStore::Options options{folder, 1 << 30, 1, "fake"};
        auto parts = largeParts(2000, 9'000'000, 3);
        {
            ContextStore store(options);
            QVERIFY(store.save(tokens, parts, {}));
            store.flush();
        }
        const std::string path = m_dir.filePath("contexts/" + files().first()).toStdString();
        QFile file(QString::fromStdString(path));
        QVERIFY(file.open(QIODevice::ReadWrite));
        const qint64 size = file.size(), states = (4096 + 8000 + 4095) / 4096 * 4096, rows = states + 64;
        const struct {
            const char* part;
            qint64 at;
        } places[] = {{"magic", 0}, {"sizes", 20}, {"label", 2000}, {"head's end", 4095}, {"tokens", 4096},
                      {"last token", 4096 + 7999}, {"gap", 4096 + 8000}, {"state", states}, {"state's end", rows - 1},
                      {"rows", rows}, {"second block", rows + (4 << 20)}, {"rows' end", rows + 8'999'999},
                      {"checksums", rows + 9'000'000}, {"file's end", size - 1}};
        for (const auto& place : places) {
            char byte = 0;
            file.seek(place.at);
            QVERIFY(file.getChar(&byte));
            file.seek(place.at);
            file.putChar(char(byte ^ 1));
            file.flush();
            const auto opened = SavedContext::open(path);
            const auto checked = opened ? opened->verify() : Result<void>(opened.error());
            QVERIFY2(!checked, place.part);
            QCOMPARE(checked.error().code, ErrorCode::FormatInvalid);
            QVERIFY2(checked.error().message.find("damaged") != std::string::npos, checked.error().message.c_str());
            file.seek(place.at);
            file.putChar(byte);
            file.flush();
        }
        ContextStore store(options);
        const auto hit = store.longest(*tokens, 2000);
        QVERIFY(hit && hit->isWhole);
        QVERIFY(store.open(*hit, *tokens));
        file.seek(rows + 5);
        file.putChar('x');
        file.close();
        const auto refused = store.open(*hit, *tokens);
        QVERIFY(!refused);
        QVERIFY(refused.error().message.find("read afresh") != std::string::npos);
        QVERIFY(!QFile::exists(QString::fromStdString(path)));
        QVERIFY(!store.longest(*tokens, 2000));
    }

    void aFileThatCannotBeReadNowStaysAndIsUsedLater()
    {
        const auto tokens = shared(2000, 1);
        ContextStore store({m_dir.filePath("contexts").toStdString(), 1 << 30, 1, "fake"});
        QVERIFY(store.save(tokens, largeParts(2000, 100'000, 3), {}));
        store.flush();
        const auto hit = store.longest(*tokens, 2000);
        QVERIFY(hit);
        rlimit before{};
        QCOMPARE(::getrlimit(RLIMIT_NOFILE, &before), 0);
        rlimit none = before;
        none.rlim_cur = 0; // every open() fails with EMFILE
        QCOMPARE(::setrlimit(RLIMIT_NOFILE, &none), 0);
        const auto refused = store.open(*hit, *tokens);
        ::setrlimit(RLIMIT_NOFILE, &before);
        QVERIFY(!refused);
        QCOMPARE(refused.error().code, ErrorCode::FileUnreadable);
        QVERIFY(refused.error().message.find("Too many open files") != std::string::npos);
        QCOMPARE(files().size(), 1);
        const auto again = store.longest(*tokens, 2000);
        QVERIFY(again && store.open(*again, *tokens));
    }

    void filesOfAnotherVersionGiveWayAndAStoreSaysSoOnce()
    {
        std::ostringstream said;
        const auto usual = spdlog::default_logger();
        spdlog::set_default_logger(
            std::make_shared<spdlog::logger>("said", std::make_shared<spdlog::sinks::ostream_sink_mt>(said)));
        const ContextStore::Options options{m_dir.filePath("contexts").toStdString(), 1 << 30, 1, "fake"};
        const auto tokens = shared(700, 1);
        {
            ContextStore store(options);
            QVERIFY(store.save(tokens, largeParts(700, 1000, 1), {}));
            store.flush();
        }
        QCOMPARE(said.str(), std::string());
        const QString name = files().first();
        QFile file(m_dir.filePath("contexts/" + name));
        QVERIFY(file.open(QIODevice::ReadWrite) && file.seek(7) && file.putChar('1')); // its magic's version
        file.close();
        const QString folder = m_dir.filePath("contexts/0000000000000001-0000000000000002-64.context");
        QVERIFY(QDir().mkdir(folder));
        {
            ContextStore store(options);
            QVERIFY(!store.longest(*tokens, 700));
            QVERIFY(store.save(shared(600, 2), largeParts(600, 1000, 1), {}));
            store.flush();
            QVERIFY(store.save(tokens, largeParts(700, 1000, 1), {}));
            store.flush();
            QVERIFY(store.longest(*tokens, 700)); // in the place of the old one
        }
        spdlog::set_default_logger(usual);
        QCOMPARE(QString::fromStdString(said.str()).count(QStringLiteral("another version")), 1);
        QVERIFY(said.str().find(": 1 of the saved contexts") != std::string::npos);
        QVERIFY(QDir(folder).exists());
    }

    void whatAnotherProgramIsWritingStays()
    {
        QDir().mkpath(m_dir.filePath("contexts"));
        const QByteArray path = m_dir.filePath("contexts/0000000000000001-0000000000000002-64.context.1-0.part").toLocal8Bit();
        const int descriptor = ::open(path.constData(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        QCOMPARE(::flock(descriptor, LOCK_EX | LOCK_NB), 0);
        start();
        QVERIFY(QFile::exists(QString::fromLocal8Bit(path)));
        ::close(descriptor);
        start();
        QVERIFY(!QFile::exists(QString::fromLocal8Bit(path)));
    }

    void theQuotaCountsWhatIsQueuedAndNothingIsSavedTwice()
    {
        constexpr std::size_t each = 3 << 20;
        ContextStore store({m_dir.filePath("contexts").toStdString(), std::int64_t(2.5 * each), 1, "fake"});
        int taken = 0;
        for (int seed = 0; seed < 6; ++seed) { // faster than they are written
            for (int twice = 0; twice < 2; ++twice)
                taken += store.save(shared(500, seed), largeParts(500, each, seed), {}) ? 1 : 0;
        }
        QVERIFY(taken >= 2 && taken <= 6);
        store.flush();
        std::int64_t bytes = 0;
        for (const QString& file : files())
            bytes += QFileInfo(m_dir.filePath("contexts/" + file)).size();
        QVERIFY(bytes <= std::int64_t(2.5 * each));
        QVERIFY(!files().isEmpty());
    }

    void twoStoresOfOneFolderSeeEachOthersContexts()
    {
        const ContextStore::Options options{m_dir.filePath("contexts").toStdString(), 1 << 30, 1, "fake"};
        ContextStore one(options), other(options);
        const auto tokens = shared(700, 1);
        QVERIFY(one.save(tokens, largeParts(700, 1000, 1), {}));
        one.flush();
        QVERIFY(other.longest(*tokens, 700));
        QVERIFY(!other.wants(*tokens));
        QVERIFY(!other.save(tokens, largeParts(700, 1000, 1), {}));
    }

    void aSaveThatIsStoppedLeavesNothing()
    {
        QDir().mkpath(m_dir.filePath("contexts"));
        const auto tokens = someTokens(500, 1);
        const auto parts = largeParts(500, std::size_t{40} << 20, 1);
        for (int stopAt = 1; stopAt < 4; ++stopAt) {
            SavedContext::Content content;
            content.tokens = tokens;
            content.rows[0] = parts[0].image.rows;
            content.states = {{500, parts[0].image.rowBytes, parts[0].image.state, 0}};
            int asked = 0;
            const auto written = SavedContext::write(m_dir.filePath("contexts/a.context").toStdString(), content,
                                                     [&] { return ++asked == stopAt; });
            QVERIFY(!written);
            QCOMPARE(written.error().code, ErrorCode::Cancelled);
            QVERIFY(files().isEmpty());
        }
    }

    void aProgramKilledWhileItSavesLeavesNoHalfFileThatLoads()
    {
        const auto aFileIsWhole = [this] {
            const QStringList now = files();
            return std::ranges::any_of(now, [](const QString& name) { return name.endsWith(".context"); });
        };
        int whole = 0;
        for (int round = 0; round < 25; ++round) {
            QProcess saver;
            saver.start(QCoreApplication::applicationFilePath(), {"--save-until-killed", m_dir.filePath("contexts")});
            QVERIFY(saver.waitForStarted());
            if (round % 3 == 2) // while it saves another; the rest may come before the first file, on a busy machine
                QTRY_VERIFY_WITH_TIMEOUT(aFileIsWhole(), 60'000);
            QTest::qWait(10 + QRandomGenerator::global()->bounded(60));
            saver.kill();
            QVERIFY(saver.waitForFinished());
            QCOMPARE(saver.exitStatus(), QProcess::CrashExit);
            const QStringList left = files();
            for (const QString& name : left) {
                if (!name.endsWith(".context"))
                    continue;
                const auto file = SavedContext::open(m_dir.filePath("contexts/" + name).toStdString());
                QVERIFY2(file, file ? "" : file.error().message.c_str());
                const auto sound = file->verify();
                QVERIFY2(sound, sound ? "" : sound.error().message.c_str());
                ++whole;
            }
            ContextStore reopened({m_dir.filePath("contexts").toStdString(), std::int64_t{1} << 40, 1, "fake"});
            for (const QString& name : files())
                QVERIFY2(name.endsWith(".context"), qPrintable(name));
            init();
        }
        QVERIFY(whole > 0); // or nothing was tried
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

int main(int argc, char** argv)
{
    if (argc == 3 && std::string_view(argv[1]) == "--save-until-killed")
        return saveUntilKilled(argv[2]);
    if (argc == 3 && std::string_view(argv[1]) == "--save-on-a-small-disk")
        return saveOnASmallDisk(argv[2]);
    QCoreApplication application(argc, argv);
    TestSavedContexts test;
    return QTest::qExec(&test, argc, argv);
}

#include "tst_saved_contexts.moc"
