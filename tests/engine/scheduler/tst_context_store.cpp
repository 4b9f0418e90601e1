/// The store of saved contexts by itself: its quota, its queue, and parts beside wholes.

#include "tests/engine/scheduler/saved_contexts_test.h"

#include <QCoreApplication>
#include <QProcess>

#include <sys/resource.h>
#include <unistd.h>

using namespace octavo;
using namespace octavo::engine;
using namespace octavo::test;

namespace {

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

class TestContextStore : public SavedContextsTest
{
    Q_OBJECT

private slots:
    void init() { clear(); }

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
};

int main(int argc, char** argv)
{
    if (argc == 3 && std::string_view(argv[1]) == "--save-on-a-small-disk")
        return saveOnASmallDisk(argv[2]);
    QCoreApplication application(argc, argv);
    TestContextStore test;
    return QTest::qExec(&test, argc, argv);
}

#include "tst_context_store.moc"
