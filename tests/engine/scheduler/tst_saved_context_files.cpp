/// Files of saved contexts: what they say, and what becomes of damaged, half-written and foreign ones.

#include "tests/engine/scheduler/saved_contexts_test.h"

#include <QCoreApplication>
#include <QProcess>
#include <QRandomGenerator>

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

/// What the test starts as a program of its own, to be killed: saves contexts until then.
int saveUntilKilled(const char* folder)
{
    ContextStore store({folder, std::int64_t{1} << 40, 1, "fake"});
    for (int seed = 0;; ++seed) {
        store.save(shared(500, seed), largeParts(500, std::size_t{6} << 20, seed), {"repo", "c0ffee"});
        store.flush();
    }
}

} // namespace

class TestSavedContextFiles : public SavedContextsTest
{
    Q_OBJECT

private slots:
    void init() { clear(); }

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

    void whatAnotherProgramIsWritingStays()
    {
        QDir().mkpath(m_dir.filePath("contexts"));
        const QByteArray path =
            m_dir.filePath("contexts/0000000000000001-0000000000000002-64.context.1-0.part").toLocal8Bit();
        const int descriptor = ::open(path.constData(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        QCOMPARE(::flock(descriptor, LOCK_EX | LOCK_NB), 0);
        start();
        QVERIFY(QFile::exists(QString::fromLocal8Bit(path)));
        ::close(descriptor);
        start();
        QVERIFY(!QFile::exists(QString::fromLocal8Bit(path)));
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
            clear();
        }
        QVERIFY(whole > 0); // or nothing was tried
    }
};

int main(int argc, char** argv)
{
    if (argc == 3 && std::string_view(argv[1]) == "--save-until-killed")
        return saveUntilKilled(argv[2]);
    QCoreApplication application(argc, argv);
    TestSavedContextFiles test;
    return QTest::qExec(&test, argc, argv);
}

#include "tst_saved_context_files.moc"
