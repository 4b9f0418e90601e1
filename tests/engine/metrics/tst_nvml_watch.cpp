#include "engine/metrics/nvml_watch.h"

#include <QTest>

#include <dlfcn.h>

using namespace octavo::engine;

class TestNvmlWatch : public QObject
{
    Q_OBJECT

private slots:
    void initTestCase()
    {
        m_library = dlopen(OCTAVO_FAKE_NVML, RTLD_NOW | RTLD_LOCAL);
        QVERIFY2(m_library, dlerror());
    }

    void init()
    {
        number("fakeNvmlPowerMilliwatts") = 123'400;
        number("fakeNvmlInitResult") = 0;
        QCOMPARE(number("fakeNvmlUsers"), 0);
    }

    void readsWhatTheCardTells()
    {
        const NvmlWatch watch("0000:41:00.0", OCTAVO_FAKE_NVML, std::chrono::milliseconds(1));
        QTRY_VERIFY(!watch.newest().link.empty());
        const HardwareReading reading = watch.newest();
        QCOMPARE(reading.temperatureC, 61.0);
        QCOMPARE(reading.powerW, 123.4);
        QCOMPARE(reading.computeClockMHz, 1980.0);
        QCOMPARE(reading.memoryClockMHz, 9501.0);
        QCOMPARE(reading.link, std::string("PCIe 4 x16"));
        QCOMPARE(reading.linkReadBytesPerSecond, 2048.0 * 1024.0);
        QCOMPARE(reading.linkWriteBytesPerSecond, 512.0 * 1024.0);
    }

    void goesOnReading()
    {
        const NvmlWatch watch("0000:41:00.0", OCTAVO_FAKE_NVML, std::chrono::milliseconds(1));
        QTRY_COMPARE(watch.newest().powerW, 123.4);
        number("fakeNvmlPowerMilliwatts") = 95'000;
        QTRY_COMPARE(watch.newest().powerW, 95.0);
    }

    void whatACardCannotTellStaysEmpty()
    {
        number("fakeNvmlPowerMilliwatts") = -1;
        const NvmlWatch watch("0000:41:00.0", OCTAVO_FAKE_NVML, std::chrono::milliseconds(1));
        QTRY_COMPARE(watch.newest().temperatureC, 61.0);
        QVERIFY(watch.newest().powerW < 0.0);
    }

    void withoutLibraryOrCardAllStaysEmpty_data()
    {
        QTest::addColumn<QString>("card");
        QTest::addColumn<QString>("library");
        QTest::addColumn<int>("initResult");
        const QString fake = QStringLiteral(OCTAVO_FAKE_NVML);
        QTest::newRow("no library") << "0000:41:00.0" << "libnvidia-ml-that-is-not-there.so.1" << 0;
        QTest::newRow("a library of something else") << "0000:41:00.0" << "libm.so.6" << 0;
        QTest::newRow("no driver") << "0000:41:00.0" << fake << 9;
        QTest::newRow("another card") << "0000:42:00.0" << fake << 0;
    }

    void withoutLibraryOrCardAllStaysEmpty()
    {
        QFETCH(QString, card);
        QFETCH(QString, library);
        QFETCH(int, initResult);
        number("fakeNvmlInitResult") = initResult;
        const int reads = number("fakeNvmlReads");
        {
            const NvmlWatch watch(card.toStdString(), library.toStdString(), std::chrono::milliseconds(1));
            QTest::qWait(20);
            const HardwareReading reading = watch.newest();
            QVERIFY(reading.link.empty() && reading.powerW < 0.0 && reading.temperatureC < 0.0 &&
                    reading.computeClockMHz < 0.0 && reading.linkReadBytesPerSecond < 0.0);
        }
        QCOMPARE(number("fakeNvmlReads"), reads);
        QCOMPARE(number("fakeNvmlUsers"), 0);
    }

private:
    int& number(const char* name) { return *static_cast<int*>(dlsym(m_library, name)); }

    void* m_library = nullptr;
};

QTEST_GUILESS_MAIN(TestNvmlWatch)
#include "tst_nvml_watch.moc"
