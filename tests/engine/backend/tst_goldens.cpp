#include "tests/engine/backend/golden_checks.h"

using namespace octavo;
using namespace octavo::engine;
using namespace octavo::engine::test;

/// The float32 path against reference values computed by another implementation in float32.
class TestGoldens : public QObject
{
    Q_OBJECT

private slots:
    void tinyLogitsMatch();
    void logProbabilitiesMatch_data() { addGoldenTexts(1); }
    void logProbabilitiesMatch();
    void greedyAnswersMatch_data() { addGoldenPrompts(1); }
    void greedyAnswersMatch();
};

void TestGoldens::tinyLogitsMatch()
{
    QVERIFY(tinyLogitsError(*referenceBackend(tinyModel())) <= 1e-3);
}

void TestGoldens::logProbabilitiesMatch()
{
    QFETCH(int, text);
    QVERIFY(logProbDifference(*referenceBackend(demoModel()), text) <= 1e-4);
}

void TestGoldens::greedyAnswersMatch()
{
    QFETCH(QJsonObject, prompt);
    const GreedyRun run = runGreedily(*referenceBackend(demoModel()), prompt);
    QVERIFY(run.largestTopDifference <= 1e-2);
    QCOMPARE(run.tokens, run.expected);
}

QTEST_GUILESS_MAIN(TestGoldens)
#include "tst_goldens.moc"
