#include "tests/gpu/checks.h"

#include <QTest>

class TestGpuKernels : public QObject
{
    Q_OBJECT

private slots:
    void initTestCase()
    {
        if (!octavo::gpu::hasDevice())
            QSKIP("no CUDA device");
    }

    void familyMatchesItsReference_data()
    {
        QTest::addColumn<int>("index");
        int index = 0;
        for (const auto& family : octavo::gpu::checkFamilies())
            QTest::newRow(family.name) << index++;
    }

    void familyMatchesItsReference()
    {
        QFETCH(int, index);
        octavo::gpu::Report report;
        octavo::gpu::checkFamilies()[std::size_t(index)].run(report);
        QVERIFY2(report.failures() == 0, report.messages().c_str());
        QVERIFY(report.checks() > 0);
    }
};

QTEST_GUILESS_MAIN(TestGpuKernels)
#include "tst_gpu_kernels.moc"
