#include "app/octavo_commands.h"
#include "app/repository_options.h"
#include "app/window_options.h"
#include "engine/scheduler/saved_context.h"
#include "tests/agents/git_fixture.h"

#include <QDir>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QRegularExpression>
#include <QTemporaryDir>
#include <QTimer>

#include <csignal>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

using octavo::agents::tests::GitFixture;

namespace {

struct Output {
    int status = 0;
    QByteArray out, err;

    QList<QJsonObject> objects() const
    {
        QList<QJsonObject> found;
        for (const QByteArray& line : out.split('\n')) {
            if (!line.isEmpty())
                found.append(QJsonDocument::fromJson(line).object());
        }
        return found;
    }
};

Output run(const QStringList& arguments)
{
    std::vector<std::string> words;
    for (const QString& argument : arguments)
        words.push_back(argument.toStdString());
    std::istringstream in;
    std::ostringstream out, err;
    octavo::cli::Streams streams{in, out, err};
    Output result;
    result.status = octavo::cli::runCommand("octavo", octavo::app::octavoCommands(), words, streams);
    result.out = QByteArray::fromStdString(out.str());
    result.err = QByteArray::fromStdString(err.str());
    return result;
}

} // namespace

class TestOctavoCommands : public QObject
{
    Q_OBJECT

private slots:
    void initTestCase()
    {
        qputenv("OCTAVO_RESOURCES", OCTAVO_RESOURCES);
        m_fixture.write("src/join.py",
                        "def join_paths(a, b):\n    \"\"\"Joins two paths.\"\"\"\n    return a + '/' + b\n");
        m_fixture.write("logo.png", QByteArray("\x89PNG\0\0", 6));
        m_fixture.write("line\nbreak.txt", "text\n");
        m_fixture.commit();
    }

    void ingestListsEveryFile()
    {
        const Output table = run({"ingest", "--repo", m_fixture.root()});
        QCOMPARE(table.status, 0);
        QVERIFY2(table.out.contains("2 of 3 files packed, 1 left out"), table.out.constData());
        QVERIFY(table.out.contains("line\\nbreak.txt"));
        const Output json = run({"ingest", "--repo", m_fixture.root(), "--json"});
        QCOMPARE(json.status, 0);
        QCOMPARE(json.err, QByteArray());
        const auto objects = json.objects();
        QCOMPARE(objects.size(), 1);
        QCOMPARE(objects[0]["files_total"].toInt(), 3);
        QCOMPARE(objects[0]["packed"].toArray().size(), 2);
        QCOMPARE(objects[0]["skipped"].toArray()[0].toObject()["reason"].toString(), QStringLiteral("binary"));
        QCOMPARE(objects[0]["commit"].toString().size(), 40);
        QVERIFY(objects[0]["tokens"].toInt() > 20);
        QVERIFY(objects[0]["packed"].toArray()[0].toObject()["tokens"].toInt() > 0);
    }

    /// The model names the file that it is asked about, there or not; what was asked must not pass for what was read.
    /// Where the answer says that it is not there, nothing is left to be said.
    void aPathThatIsNotThereIsSaidToBeSo()
    {
        const Output asked = run({"ask", "--repo", m_fixture.root(), "--include", "src/*", "--max-tokens", "60",
                                  "What is defined in `src/nothere.py`?"});
        QCOMPARE(asked.status, 0);
        QVERIFY2(asked.out.count("nothere.py") > 1, asked.out.constData()); // not in the question alone
        QVERIFY2(asked.out.contains("path  unverified  src/nothere.py") != asked.out.contains("could not find"),
                 asked.out.constData());
    }

    void anAnswerCutAtItsLimitSaysHowToGetMore()
    {
        const Output asked = run({"ask", "--repo", m_fixture.root(), "--include", "src/*", "--max-tokens", "3",
                                  "Show `join_paths`."});
        QCOMPARE(asked.status, 0);
        QVERIFY2(asked.out.contains(
                     "Ended early: the answer has the 3 tokens that it may have; --max-tokens N allows more\n"),
                 asked.out.constData());
    }

    void globsAndBudgetAreTaken()
    {
        const auto packed = [&](const QStringList& more) {
            return run(QStringList{"ingest", "--json", "--repo", m_fixture.root()} + more)
                .objects()[0]["packed"]
                .toArray()
                .size();
        };
        QCOMPARE(packed({"--include", "*.py"}), 1);
        QCOMPARE(packed({"--exclude", "*.py", "--exclude", "*.txt"}), 0);
        QCOMPARE(packed({"--budget", "50"}), 1);
    }

    /// Ctrl+C, and what a session's end sends: the reading goes on from there next time.
    void aReadingThatASignalEndsIsKept()
    {
        GitFixture large;
        for (int file = 0; file < 40; ++file) {
            QByteArray text;
            for (int i = 0; i < 90; ++i)
                text += "def step_" + QByteArray::number(file) + "_" + QByteArray::number(i) +
                        "(total):\n    return total * " + QByteArray::number(i * 7 + file) + "\n\n";
            large.write("part_" + QByteArray::number(file) + ".py", text);
        }
        large.commit();
        QTemporaryDir kept;
        std::vector<std::string> words;
        for (const QString& word :
             {QStringLiteral("ask"), QStringLiteral("--repo"), large.root(), QStringLiteral("--budget"),
              QStringLiteral("90000"), QStringLiteral("--device"), QStringLiteral("cpu"),
              QStringLiteral("--saved-contexts"), kept.path(), QStringLiteral("why?")})
            words.push_back(word.toStdString());
        std::istringstream in;
        std::ostringstream out, err;
        octavo::cli::Streams streams{in, out, err};
        QTimer timer;
        int turns = 0;
        connect(&timer, &QTimer::timeout, this, [&] {
            if (err.str().find("Reading") != std::string::npos && ++turns == 50) {
                ::raise(SIGTERM);
                ::raise(SIGTERM); // as who signals a process and its group
            }
        });
        timer.start(100);
        const int status = octavo::cli::runCommand("octavo", octavo::app::octavoCommands(), words, streams);
        QVERIFY2(status != 0 && turns == 50, err.str().c_str());
        QVERIFY2(err.str().find("stopped; what was read is kept in " + kept.path().toStdString()) != std::string::npos,
                 err.str().c_str());
        QCOMPARE(QDir(kept.path()).entryList({"*.context"}).size(), 1);
    }

    void questionsAreAnsweredInTheirOrder()
    {
        const Output asked =
            run({"ask", "--repo", m_fixture.root(), "--include", "src/*", "--json", "--agents", "2", "--max-tokens",
                 "60", "--device", "cpu", "Where is `join_paths` defined?", "hi", "Thanks!"});
        QCOMPARE(asked.status, 0);
        const auto objects = asked.objects();
        QCOMPARE(objects.size(), 3);
        QCOMPARE(objects[0]["question"].toString(), QStringLiteral("Where is `join_paths` defined?"));
        QCOMPARE(objects[2]["question"].toString(), QStringLiteral("Thanks!"));
        for (const QJsonObject& object : objects) {
            for (const char* key : {"answer", "agent", "citations", "prompt_tokens", "reused_tokens", "new_tokens",
                                    "ttft_ms", "tokens_per_s"})
                QVERIFY2(object.contains(QLatin1String(key)), key);
            QVERIFY(!object["answer"].toString().isEmpty());
            QVERIFY(object["new_tokens"].toInt() > 0);
        }
        const QJsonArray citations = objects[0]["citations"].toArray();
        QVERIFY2(!citations.isEmpty(), asked.out.constData());
        QVERIFY(citations[0].toObject().contains("verified") && citations[0].toObject().contains("line"));
    }

    void theTerminalShowsQuestionsAnswersAndWhereTheyStand()
    {
        const Output asked =
            run({"ask", "--repo", m_fixture.root(), "--include", "src/*", "--device", "cpu",
                 "Where is `join_paths` defined?", "hi"});
        QCOMPARE(asked.status, 0);
        QVERIFY(asked.out.startsWith("> Where is `join_paths` defined?\n\n"));
        QVERIFY2(asked.out.contains("src/join.py:1"), asked.out.constData());
        QVERIFY(asked.out.contains("\n> hi\n"));
        QVERIFY(asked.err.startsWith("Reading repo @ main: 1 of 3 files"));
    }

    void anEmptyRepositoryIsOneSentence() // B-02; status 1, so that no script takes silence for an answer
    {
        GitFixture empty;
        for (const QStringList& words :
             {QStringList{"ingest", "--repo", empty.root()}, QStringList{"ingest", "--repo", empty.root(), "--json"},
              QStringList{"ask", "--repo", empty.root(), "--device", "cpu", "--json", "why?"},
              QStringList{"ask", "--repo", empty.root(), "--device", "cpu", "why?"}}) {
            const Output output = run(words);
            QCOMPARE(output.status, 1);
            QVERIFY2(output.err.contains("no commits yet") && output.err.contains("--ref"), output.err.constData());
            QCOMPARE(output.err.count('\n'), 1);
            QCOMPARE(output.out, QByteArray());
        }
    }

    void onlyADamagedHeadAsksForAnotherRef()
    {
        GitFixture fixture;
        fixture.write("src/a.c", "int a;\n");
        fixture.commit();
        const auto damage = [&](const QString& file, const QByteArray& content) {
            QFile::setPermissions(file, QFile::ReadOwner | QFile::WriteOwner);
            QFile opened(file);
            return opened.open(QIODevice::WriteOnly | QIODevice::Truncate) && opened.write(content) == content.size();
        };
        const QByteArray id = fixture.git({"rev-parse", "HEAD:src"}).trimmed();
        QVERIFY(damage(fixture.root() + "/.git/objects/" + id.left(2) + "/" + id.mid(2), "no zlib"));
        const Output folder = run({"ingest", "--repo", fixture.root()});
        QCOMPARE(folder.status, 1);
        QVERIFY2(folder.err.contains("folder src is damaged") && !folder.err.contains("--ref"), folder.err.constData());
        QVERIFY(damage(fixture.root() + "/.git/HEAD", "garbage\n"));
        const Output head = run({"ingest", "--repo", fixture.root()});
        QVERIFY2(head.err.contains("name a branch, tag or commit with --ref"), head.err.constData());
    }

    void failuresAreOneLine_data()
    {
        QTest::addColumn<QStringList>("words");
        QTest::addColumn<int>("status");
        const QString repo = m_fixture.root();
        QTest::newRow("not a repository") << QStringList{"ingest", "--repo", "/nonexistent"} << 1;
        QTest::newRow("no such ref") << QStringList{"ingest", "--repo", repo, "--ref", "nope"} << 1;
        QTest::newRow("no such model") << QStringList{"ingest", "--repo", repo, "--model", "/nonexistent"} << 1;
        QTest::newRow("ask without model") << QStringList{"ask", "--repo", repo, "--model", "/nonexistent", "q"} << 1;
        QTest::newRow("ask not a repository") << QStringList{"ask", "--repo", "/nonexistent", "q"} << 1;
        QTest::newRow("no repository named") << QStringList{"ingest"} << 2;
        QTest::newRow("broken glob") << QStringList{"ingest", "--repo", repo, "--include", "[x"} << 2;
        QTest::newRow("empty ref") << QStringList{"ingest", "--repo", repo, "--ref", ""} << 2;
        QTest::newRow("ask with an empty ref") << QStringList{"ask", "--repo", repo, "--ref", " ", "q"} << 2;
        QTest::newRow("empty glob") << QStringList{"ingest", "--repo", repo, "--exclude", ""} << 2;
        QTest::newRow("backward range") << QStringList{"ingest", "--repo", repo, "--include", "[z-a]"} << 2;
        QTest::newRow("lone backslash") << QStringList{"ingest", "--repo", repo, "--include", "\\"} << 2;
        QTest::newRow("no action") << QStringList{"contexts"} << 2;
        QTest::newRow("remove nothing") << QStringList{"contexts", "remove"} << 2;
        QTest::newRow("remove all and some") << QStringList{"contexts", "remove", "--all", "x"} << 2;
        QTest::newRow("no such context") << QStringList{"contexts", "remove", "none"} << 1;
        QTest::newRow("no question") << QStringList{"ask", "--repo", repo} << 2;
        QTest::newRow("empty question") << QStringList{"ask", "--repo", repo, "q", " "} << 2;
        QTest::newRow("nine agents") << QStringList{"ask", "--repo", repo, "--agents", "9", "q"} << 2;
        QTest::newRow("unknown option") << QStringList{"ask", "--frobnicate"} << 2;
        QTest::newRow("unknown command") << QStringList{"frobnicate"} << 2;
    }

    void failuresAreOneLine()
    {
        QFETCH(QStringList, words);
        const Output output = run(words);
        QTEST(output.status, "status");
        QCOMPARE(output.out, QByteArray());
        QVERIFY2(output.err.count('\n') == 1 && output.err.startsWith("octavo"), output.err.constData());
    }

    void anotherUsersRepositoryNamesTheOptionThatReadsIt()
    {
        if (::geteuid() != 0)
            QSKIP("only root can give files away");
        GitFixture fixture;
        fixture.write("a.c", "int a;\n");
        fixture.commit();
        for (const QString& path : QStringList{fixture.root(), fixture.root() + QStringLiteral("/.git")})
            QCOMPARE(::chown(QFile::encodeName(path).constData(), 12345, 12345), 0);
        const Output refused = run({"ingest", "--repo", fixture.root()});
        QCOMPARE(refused.status, 1);
        QVERIFY2(refused.err.contains("--trust"), refused.err.constData());
        QCOMPARE(run({"ingest", "--repo", fixture.root(), "--trust"}).status, 0);
    }

    void savedContextsAreListedVerifiedAndRemoved()
    {
        const QTemporaryDir folder;
        const auto contexts = [&](QStringList words) {
            return run(QStringList{"contexts"} + words + QStringList{"--saved-contexts", folder.path(), "--json"});
        };
        QCOMPARE(contexts({"list"}).status, 0);
        QCOMPARE(contexts({"list"}).out, QByteArray());
        const Output none = run({"contexts", "list", "--saved-contexts", folder.path()});
        QCOMPARE(none.out, QByteArray());
        QVERIFY2(none.err.contains(QByteArray("no contexts are saved in ").append(folder.path().toUtf8())),
                 none.err.constData());
        const auto file = [&](const QString& end) {
            return folder.filePath("0123456789abcdef-0000000000000280-" + end + ".context");
        };
        QFile foreign(folder.filePath("notes.context")); // has the ending, but no store's name
        QVERIFY(foreign.open(QIODevice::WriteOnly) && foreign.write("mine") == 4);
        foreign.close();
        for (const int seed : {1, 2}) {
            const std::vector<octavo::engine::TokenId> tokens(640, seed);
            const std::vector<std::byte> bytes(100'000, std::byte(seed));
            octavo::engine::SavedContext::Content content;
            content.modelKey = 7;
            content.model = "demo";
            content.label = {seed == 1 ? "first" : "second", "0123456789abcdef0123456789abcdef01234567"};
            content.tokens = tokens;
            content.rows[0] = {bytes};
            content.states = {{640, 100'000, {std::span(bytes).first(64)}}};
            QVERIFY(octavo::engine::SavedContext::write(file(QString::number(seed)).toStdString(),
                                                        content, [] { return false; }));
        }
        const auto listed = contexts({"list"}).objects();
        QCOMPARE(listed.size(), 2);
        for (const QJsonObject& object : listed) {
            for (const char* key : {"id", "name", "commit", "tokens", "bytes", "last_used", "model", "state"})
                QVERIFY2(object.contains(QLatin1String(key)), key);
            QCOMPARE(object["tokens"].toInt(), 640);
        }
        QVERIFY(run({"contexts", "list", "--saved-contexts", folder.path()}).out.contains("first @ 01234567"));
        QCOMPARE(contexts({"verify"}).status, 0);
        QFile damaged(file("1"));
        QVERIFY(damaged.open(QIODevice::ReadWrite) && damaged.seek(20'000) && damaged.putChar('x'));
        damaged.close();
        const Output verified = contexts({"verify"});
        QCOMPARE(verified.status, 1);
        QVERIFY2(verified.out.contains("\"state\":\"damaged\""), verified.out.constData());
        QVERIFY2(verified.out.contains("\"state\":\"verified\""), verified.out.constData());
        QCOMPARE(contexts({"verify", "second"}).status, 0);
        QCOMPARE(contexts({"remove", "first"}).status, 0);
        QCOMPARE(contexts({"list"}).objects().size(), 1);
        QCOMPARE(contexts({"remove", contexts({"list"}).objects()[0]["id"].toString().left(8)}).status, 0);
        QCOMPARE(contexts({"list"}).objects().size(), 0);
        QCOMPARE(contexts({"remove", "--all"}).status, 0);
        QVERIFY(foreign.exists());
    }

    void aFolderInASavedContextsPlaceHasNoSize()
    {
        const QTemporaryDir folder;
        QVERIFY(QDir(folder.path()).mkdir("0123456789abcdef-0000000000000280-1.context"));
        const auto listed = run({"contexts", "list", "--saved-contexts", folder.path(), "--json"}).objects();
        QCOMPARE(listed.size(), 1);
        QCOMPARE(listed[0]["bytes"].toInt(-2), 0);
        QVERIFY(listed[0]["problem"].toString().contains(QStringLiteral("is no file")));
    }

    void aFolderForContextsThatCannotBeLookedAtIsOneSentence()
    {
        QCOMPARE(run({"contexts", "verify", "--saved-contexts", "/nonexistent"}).status, 1);
        const Output refused = run({"contexts", "list", "--saved-contexts", "/tmp/" + QString(300, 'x')});
        QVERIFY(refused.status != 0);
        QVERIFY2(!refused.err.contains("an error inside"), refused.err.constData());
        QVERIFY(!octavo::app::readWindowOptions({"--saved-contexts", "/tmp/" + std::string(300, 'x')}));
    }

    void repositoriesCannotSteerTheTerminal()
    {
        QCOMPARE(octavo::app::terminalText(QString::fromUtf8("a\x1b[31mb\tc\n\xc2\x9b")),
                 std::string("a\xef\xbf\xbd[31mb\tc\n\xef\xbf\xbd"));
        for (const char32_t mark : {0x202a, 0x202e, 0x2066, 0x2069, 0x200e, 0x200f, 0x061c}) {
            const QString code = QString::number(uint(mark), 16).toUpper().rightJustified(4, u'0');
            QCOMPARE(octavo::app::terminalText(u'a' + QString::fromUcs4(&mark, 1) + u'b'),
                     QStringLiteral("a<U+%1>b").arg(code).toStdString());
        }
        const QString joined = QString::fromUtf8("\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb \xd7\x90"); // an emoji, a letter
        QCOMPARE(octavo::app::terminalText(joined), joined.toStdString());
    }

    void onlyCommandsKeepTheWindowShut()
    {
        QVERIFY(octavo::app::isCommand({"ask"}));
        QVERIFY(octavo::app::isCommand({"--help"}));
        QVERIFY(octavo::app::isCommand({"--version"}));
        QVERIFY(octavo::app::asksForHelp({"--model", "X", "--help"}));
        QVERIFY(!octavo::app::asksForHelp({"ask", "--help"})); // the command's own
        QVERIFY(!octavo::app::asksForHelp({"--", "--help"}));
        std::ostringstream help;
        octavo::app::printWindowHelp(help);
        QVERIFY(help.str().find("--model DIR") != std::string::npos);
        // The window keeps contexts without being told where, a command does not.
        QVERIFY2(help.str().find("(default: " + octavo::app::defaultSavedContexts().string() + ")") !=
                         std::string::npos &&
                     help.str().find("keep none") == std::string::npos,
                 help.str().c_str());
        QVERIFY(run({"ask", "--help"}).out.contains("open them again (default: keep none)"));
        QVERIFY(!octavo::app::isCommand({}));
        QVERIFY(!octavo::app::isCommand({"/some/repository"}));
    }

    void saysWhichVersionItIs()
    {
        const Output version = run({"--version"});
        QCOMPARE(version.status, 0);
        static const QRegularExpression line(QStringLiteral("^octavo \\d+\\.\\d+\\.\\d+\n$"));
        QVERIFY2(line.match(QString::fromLatin1(version.out)).hasMatch(), version.out.constData());
    }

    void aFolderThatIsNotUtf8IsOneSentence()
    {
        const std::string folder = m_fixture.sibling(QStringLiteral("o")).toStdString() + "\xff";
        QCOMPARE(::mkdir(folder.c_str(), 0700), 0);
        const auto opened = octavo::app::readWindowOptions({folder});
        QVERIFY(!opened && opened.error().message.find("not UTF-8") != std::string::npos);
        std::istringstream in;
        std::ostringstream out, err;
        octavo::cli::Streams streams{in, out, err};
        const std::vector<std::string> words{"ingest", "--repo", folder};
        QCOMPARE(octavo::cli::runCommand("octavo", octavo::app::octavoCommands(), words, streams), 1);
        QVERIFY2(err.str().find("not UTF-8") != std::string::npos, err.str().c_str());
    }

    void theWindowTakesRepositoriesThatExist()
    {
        const auto options =
            octavo::app::readWindowOptions({"--device", "cpu,cpu", m_fixture.root().toStdString()});
        QVERIFY(options);
        QCOMPARE(options->repositories, QStringList{m_fixture.root()});
        QCOMPARE(options->workbench.engine.devices, (std::vector<std::string>{"cpu", "cpu"}));
        QVERIFY(options->workbench.databasePath.endsWith("/octavo/octavo.db"));
        QVERIFY(options->workbench.engine.savedContexts.native().ends_with("/octavo/contexts"));
        QCOMPARE(octavo::app::readWindowOptions({"frobnicate"}).error().code, octavo::ErrorCode::InvalidArgument);
        QCOMPARE(octavo::app::readWindowOptions({"/frob/nicate"}).error().code, octavo::ErrorCode::NotFound);
        QCOMPARE(octavo::app::readWindowOptions({"--frobnicate"}).error().code, octavo::ErrorCode::InvalidArgument);
    }

private:
    GitFixture m_fixture;
};

QTEST_GUILESS_MAIN(TestOctavoCommands)
#include "tst_octavo_commands.moc"
