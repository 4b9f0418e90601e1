#include "engine/scheduler/memory_budget.h"

#include <QDir>
#include <QFile>
#include <QTemporaryDir>
#include <QTest>

using namespace octavo::engine;

class TestMemoryBudget : public QObject
{
    Q_OBJECT

    static constexpr std::int64_t gib = std::int64_t{1} << 30;

    struct Root {
        QTemporaryDir dir;

        void write(const QString& path, const QByteArray& text)
        {
            QDir(dir.path()).mkpath(QFileInfo(path).path());
            QFile file(dir.filePath(path));
            QVERIFY(file.open(QIODevice::WriteOnly));
            file.write(text);
        }
        std::optional<MemoryAvailability> read() const { return availableMemory(dir.path().toStdString()); }
    };

private slots:
    void takesMemAvailableNotTheTotal()
    {
        Root root;
        root.write("proc/meminfo",
                   "MemTotal:       16777216 kB\nMemFree:         1048576 kB\nMemAvailable:    4194304 kB\n");
        QCOMPARE(root.read()->limitBytes, 16 * gib);
        QCOMPARE(root.read()->freeBytes, 4 * gib);
    }

    void aControlGroupOfVersion2Limits_data()
    {
        QTest::addColumn<QString>("folder");
        QTest::newRow("own group") << "sys/fs/cgroup/user/app";
        QTest::newRow("group above") << "sys/fs/cgroup/user";
        QTest::newRow("mounted as root of a container") << "sys/fs/cgroup";
    }

    void aControlGroupOfVersion2Limits()
    {
        QFETCH(const QString, folder);
        Root root;
        root.write("proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n");
        root.write("proc/self/cgroup", "0::/user/app\n");
        root.write("sys/fs/cgroup/user/app/memory.max", "max\n");
        root.write("sys/fs/cgroup/user/app/memory.current", "5\n");
        root.write(folder + "/memory.max", "3221225472\n");
        root.write(folder + "/memory.current", "2147483648\n");
        root.write(folder + "/memory.stat", "anon 1\ninactive_file 536870912\nactive_file 9\n");
        QCOMPARE(root.read()->limitBytes, 3 * gib);
        QCOMPARE(root.read()->freeBytes, gib + gib / 2);
    }

    void aControlGroupOfVersion1Limits()
    {
        Root root;
        root.write("proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n");
        root.write("proc/self/cgroup", "12:cpu,cpuacct:/x\n5:memory:/box\n");
        root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        root.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "99\n");
        root.write("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "2147483648\n");
        root.write("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "1073741824\n");
        QCOMPARE(root.read()->limitBytes, 2 * gib);
        QCOMPARE(root.read()->freeBytes, gib);
    }

    void aGroupOverItsLimitHasNothingFree()
    {
        Root root;
        root.write("proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n");
        root.write("proc/self/cgroup", "0::/\n");
        root.write("sys/fs/cgroup/memory.max", "1073741824\n");
        root.write("sys/fs/cgroup/memory.current", "1073749999\n");
        QCOMPARE(root.read()->freeBytes, 0);
    }

    void withoutProcNothingIsKnown()
    {
        QVERIFY(!Root().read());
    }

    void thisMachineHasMemory()
    {
        const auto memory = availableMemory();
        QVERIFY(memory);
        QVERIFY(memory->freeBytes > 0 && memory->freeBytes <= memory->limitBytes);
        QVERIFY(residentBytes() > 0);
    }

    void theDefaultLeavesSomeToTheProgram()
    {
        QCOMPARE(defaultSequenceBudget({64 * gib, 32 * gib}), 28 * gib);
        QCOMPARE(defaultSequenceBudget({4 * gib, 2 * gib}), 2 * gib - gib / 2);
        QCOMPARE(defaultSequenceBudget({4 * gib, gib / 2}), gib / 4);
        QCOMPARE(defaultSequenceBudget({4 * gib, 0}), 0);
    }
};

QTEST_GUILESS_MAIN(TestMemoryBudget)
#include "tst_memory_budget.moc"
