#include "tests/gpu/check_backend.h"

#include <QTest>

class TestCudaBackend : public QObject
{
    Q_OBJECT

private slots:
    void initTestCase()
    {
        if (!octavo::gpu::hasDevice())
            QSKIP("no CUDA device");
    }

    void answersAsTheGoldensAndTheSameHoweverItsRun()
    {
        octavo::gpu::Report report;
        octavo::gpu::checkBackend(report, OCTAVO_RESOURCES "/demo-model", OCTAVO_TEST_DATA "/goldens/prompts.json");
        QVERIFY2(report.failures() == 0, report.messages().c_str());
    }
};

QTEST_GUILESS_MAIN(TestCudaBackend)
#include "tst_cuda_backend.moc"
