#include "app/octavo_commands.h"
#include "app/repository_options.h"
#include "app/window_options.h"
#include "tests/agents/git_fixture.h"

#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>

#include <sstream>

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

    void questionsAreAnsweredInTheirOrder()
    {
        const Output asked = run({"ask", "--repo", m_fixture.root(), "--json", "--agents", "2", "--max-tokens", "60",
                                  "--device", "cpu", "Where is `join_paths` defined?", "hi", "Thanks!"});
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
            run({"ask", "--repo", m_fixture.root(), "--device", "cpu", "Where is `join_paths` defined?", "hi"});
        QCOMPARE(asked.status, 0);
        QVERIFY(asked.out.startsWith("> Where is `join_paths` defined?\n\n"));
        QVERIFY2(asked.out.contains("src/join.py:1"), asked.out.constData());
        QVERIFY(asked.out.contains("\n> hi\n"));
        QVERIFY(asked.err.startsWith("Reading repo @ main: 2 of 3 files"));
    }

    void anEmptyRepositoryIsNoFailure() // B-02
    {
        GitFixture empty;
        for (const QStringList& words : {QStringList{"ingest", "--repo", empty.root()},
                                         QStringList{"ask", "--repo", empty.root(), "--device", "cpu", "why?"}}) {
            const Output output = run(words);
            QCOMPARE(output.status, 0);
            QVERIFY2(output.err.contains("no commits yet"), output.err.constData());
            QCOMPARE(output.err.count('\n'), 1);
            QCOMPARE(output.out, QByteArray());
        }
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
        QTest::newRow("no question") << QStringList{"ask", "--repo", repo} << 2;
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

    void repositoriesCannotSteerTheTerminal()
    {
        QCOMPARE(octavo::app::terminalText(QString::fromUtf8("a\x1b[31mb\tc\n\xc2\x9b")),
                 std::string("a\xef\xbf\xbd[31mb\tc\n\xef\xbf\xbd"));
    }

    void onlyCommandsKeepTheWindowShut()
    {
        QVERIFY(octavo::app::isCommand({"ask"}));
        QVERIFY(octavo::app::isCommand({"--help"}));
        QVERIFY(!octavo::app::isCommand({}));
        QVERIFY(!octavo::app::isCommand({"/some/repository"}));
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
        QCOMPARE(octavo::app::readWindowOptions({"frobnicate"}).error().code, octavo::ErrorCode::NotFound);
        QCOMPARE(octavo::app::readWindowOptions({"--frobnicate"}).error().code, octavo::ErrorCode::InvalidArgument);
    }

private:
    GitFixture m_fixture;
};

QTEST_GUILESS_MAIN(TestOctavoCommands)
#include "tst_octavo_commands.moc"
