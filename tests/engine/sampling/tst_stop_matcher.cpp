#include "engine/sampling/stop_matcher.h"

#include <QTest>

using namespace octavo::engine;

class TestStopMatcher : public QObject
{
    Q_OBJECT

private slots:
    void findsAStopStringAcrossPieces()
    {
        StopMatcher matcher({"<end>"});
        QCOMPARE(matcher.append("abc <e").text, std::string("abc "));
        QCOMPARE(matcher.append("n").text, std::string());
        const auto output = matcher.append("d> more");
        QVERIFY(output.stopped);
        QCOMPARE(output.text, std::string());
        QVERIFY(matcher.append("still").stopped);
        QCOMPARE(matcher.append("still").text, std::string());
        QCOMPARE(matcher.finish(), std::string());
    }

    void releasesWhatTurnsOutToBeText()
    {
        StopMatcher matcher({"<end>", "\n\n"});
        QCOMPARE(matcher.append("a<en").text, std::string("a"));
        QCOMPARE(matcher.append("ter\n").text, std::string("<enter"));
        QCOMPARE(matcher.append("b<").text, std::string("\nb"));
        QCOMPARE(matcher.finish(), std::string("<"));
    }

    void holdsBackNoMoreThanItMust()
    {
        StopMatcher matcher({"aab"});
        QCOMPARE(matcher.append("aaaa").text, std::string("aa"));
        const auto output = matcher.append("b");
        QVERIFY(output.stopped);
        QCOMPARE(output.text, std::string());
    }

    void doesNotDependOnHowTheTextIsCut()
    {
        const std::string text = "xxabcaababcb";
        const std::vector<std::string> stops = {"abcb", "abab", "bca", "ca"};
        const auto run = [&](std::size_t step) {
            StopMatcher matcher(stops);
            std::string shown;
            for (std::size_t i = 0; i < text.size(); i += step) {
                const auto output = matcher.append(std::string_view(text).substr(i, step));
                shown += output.text;
                if (output.stopped)
                    return shown + "|";
            }
            return shown + matcher.finish();
        };
        QCOMPARE(run(1), std::string("xxa|"));
        for (std::size_t step = 2; step <= text.size(); ++step)
            QCOMPARE(run(step), run(1));
    }

    void withoutStopStringsEverythingPasses()
    {
        StopMatcher matcher({""});
        QCOMPARE(matcher.append("text").text, std::string("text"));
        QVERIFY(!matcher.append("").stopped);
    }
};

QTEST_GUILESS_MAIN(TestStopMatcher)
#include "tst_stop_matcher.moc"
