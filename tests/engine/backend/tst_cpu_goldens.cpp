#include "kernels/cpu/cpu_features.h"
#include "tests/engine/backend/golden_checks.h"

using namespace octavo;
using namespace octavo::engine;
using namespace octavo::engine::test;

/// The CPU backend against reference values computed by another implementation in float32.
class TestCpuGoldens : public QObject
{
    Q_OBJECT

private slots:
    void initTestCase() { m_model = demoModel(); }
    void tinyLogitsMatchOnEveryPath_data() { addPaths(); }
    void tinyLogitsMatchOnEveryPath();
    void logProbabilitiesMatch_data() { addGoldenTexts(2); }
    void logProbabilitiesMatch();
    void greedyAnswersMatch_data() { addGoldenPrompts(4); }
    void greedyAnswersMatch();

private:
    static void addPaths()
    {
        QTest::addColumn<QString>("path");
        for (auto path : {kernels::cpu::Path::Plain, kernels::cpu::Path::Avx2, kernels::cpu::Path::Avx512}) {
            if (kernels::cpu::isSupported(path)) {
                const QString name = QString::fromLatin1(kernels::cpu::pathName(path).data());
                QTest::addRow("%s", qPrintable(name)) << name;
            }
        }
    }
    static std::unique_ptr<Backend> cpuBackend(const LoadedModel& model, const QString& path = {})
    {
        BackendOptions options;
        options.cpuPath = path.toStdString();
        auto backend = makeCpuBackend(model.config, model.weights, options);
        if (!backend)
            qFatal("%s", backend.error().message.c_str());
        return *std::move(backend);
    }

    LoadedModel m_model;
};

void TestCpuGoldens::tinyLogitsMatchOnEveryPath()
{
    QFETCH(QString, path);
    // Weights are exact here; what is left comes from int8 keys and values.
    QVERIFY(tinyLogitsError(*cpuBackend(tinyModel(), path)) <= 2e-2);
}

void TestCpuGoldens::logProbabilitiesMatch()
{
    QFETCH(int, text);
    QVERIFY(logProbDifference(*cpuBackend(m_model), text) <= 0.01);
}

void TestCpuGoldens::greedyAnswersMatch()
{
    QFETCH(QJsonObject, prompt);
    const GreedyRun run = runGreedily(*cpuBackend(m_model), prompt);
    QVERIFY(run.largestTopDifference <= 0.2);
    QCOMPARE(run.tokens, run.expected);
}

QTEST_GUILESS_MAIN(TestCpuGoldens)
#include "tst_cpu_goldens.moc"
