#include "engine/cli/arguments.h"

#include <QTest>

using namespace octavo;
using namespace octavo::cli;

class TestArguments : public QObject
{
    Q_OBJECT

    const std::vector<OptionSpec> m_options{
        {"--model", "DIR", ""}, {"--json", "", ""}, {"--stop", "TEXT", "", true}, {"--max", "N", ""}};

    Result<Arguments> parse(const std::vector<std::string>& words) const { return Arguments::parse(m_options, words); }

private slots:
    void takesValuesSwitchesAndPositionals()
    {
        const auto arguments = parse({"a", "--model", "x/y", "--json", "b", "--max=7", "--stop", "1", "--stop=2", "-"});
        QVERIFY(arguments);
        QCOMPARE(arguments->text("--model"), std::string("x/y"));
        QVERIFY(arguments->has("--json"));
        QCOMPARE(*arguments->integer("--max", 1), 7);
        QCOMPARE(arguments->texts("--stop"), (std::vector<std::string>{"1", "2"}));
        QCOMPARE(arguments->positional(), (std::vector<std::string>{"a", "b", "-"}));
    }

    void listsWhatWasGivenByName()
    {
        QCOMPARE(parse({"--stop", "1", "a", "--json", "--stop", "2"})->given(),
                 (std::vector<std::string>{"--json", "--stop"}));
        QVERIFY(parse({"a"})->given().empty());
    }

    void afterTwoDashesNothingIsAnOption()
    {
        QCOMPARE(parse({"--", "--json"})->positional(), (std::vector<std::string>{"--json"}));
        QVERIFY(!parse({"--", "--json"})->has("--json"));
    }

    void aValueMayBeEmptyOrLookLikeAnOption()
    {
        QCOMPARE(parse({"--model="})->text("--model", "other"), std::string());
        QCOMPARE(parse({"--stop", "--json"})->text("--stop"), std::string("--json"));
    }

    void namesWhatIsWrong_data()
    {
        QTest::addColumn<QStringList>("words");
        QTest::addColumn<QString>("part");
        QTest::newRow("unknown") << QStringList{"--modle", "x"} << "--modle";
        QTest::newRow("short") << QStringList{"-x"} << "-x";
        QTest::newRow("twice") << QStringList{"--json", "--json"} << "twice";
        QTest::newRow("no value") << QStringList{"--model"} << "needs a value (DIR)";
        QTest::newRow("value for a switch") << QStringList{"--json=1"} << "takes no value";
    }

    void namesWhatIsWrong()
    {
        QFETCH(const QStringList, words);
        QFETCH(const QString, part);
        std::vector<std::string> given;
        for (const QString& word : words)
            given.push_back(word.toStdString());
        const auto arguments = parse(given);
        QVERIFY(!arguments);
        QCOMPARE(arguments.error().code, ErrorCode::InvalidArgument);
        QVERIFY2(arguments.error().message.find(part.toStdString()) != std::string::npos,
                 arguments.error().message.c_str());
    }

    void numbersAreCheckedAgainstTheirRange()
    {
        for (const char* bad : {"", "x", "7x", "1.5", "-1", "101", "99999999999999999999"})
            QVERIFY2(!parse({std::string("--max=") + bad})->integer("--max", 1, 0, 100), bad);
        for (const char* bad : {"", "x", "nan", "inf", "1e400", "-0.1", "1.1"})
            QVERIFY2(!parse({std::string("--max=") + bad})->number("--max", 1, 0, 1), bad);
        QCOMPARE(*parse({"--max", "0.25"})->number("--max", 1, 0, 1), 0.25);
        QCOMPARE(*parse({})->integer("--max", 5), 5);
    }
};

QTEST_GUILESS_MAIN(TestArguments)
#include "tst_arguments.moc"
