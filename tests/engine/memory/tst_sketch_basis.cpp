#include "engine/memory/sketch_basis.h"

#include "engine/memory/symmetric_eigen.h"

#include <QFile>
#include <QTemporaryDir>
#include <QTest>

#include <cmath>
#include <limits>
#include <random>

using namespace octavo;
using namespace octavo::engine;

namespace {

// Keys with variance 100 along the first `strong` of random orthogonal-ish directions, 1 elsewhere.
KeyStatistics sampleStatistics(int layers, int heads, int dim, int tokens)
{
    KeyStatistics statistics(layers, heads, dim);
    std::mt19937 generator(5);
    std::normal_distribution<float> normal;
    std::vector<float> key(static_cast<std::size_t>(dim));
    for (int t = 0; t < tokens; ++t) {
        for (int layer = 0; layer < layers; ++layer) {
            for (int head = 0; head < heads; ++head) {
                for (int i = 0; i < dim; ++i)
                    key[std::size_t(i)] = 3.0f + normal(generator) * (i % 8 == head ? 10.0f : 1.0f);
                statistics.add(layer, head, key.data());
            }
        }
    }
    return statistics;
}

} // namespace

class TestSketchBasis : public QObject
{
    Q_OBJECT

private slots:
    void eigenvectorsOfATwoByTwoByHand();
    void eigenvectorsRebuildTheMatrix();
    void theBasisHoldsTheStrongDirections();
    void filesWithoutDeviationsAreRead();
    void savedAndLoadedItIsTheSame();
    void refusesAnotherModelsBasis();
    void refusesDamagedFiles_data();
    void refusesDamagedFiles();
    void damagedValuesAreRefused_data();
    void damagedValuesAreRefused();
    void theBundledBasisIsSound();
    void tooLittleTextIsRefused();
    void noOtherFileIsWrittenOver();
    void valuesThatAreNoNumbersAreRefused();
    void anUnwritablePlaceIsNamed();
};

void TestSketchBasis::eigenvectorsOfATwoByTwoByHand()
{
    const auto eigen = symmetricEigen({2, 1, 1, 2}, 2);
    QCOMPARE(eigen.values[0], 3.0);
    QCOMPARE(eigen.values[1], 1.0);
    QCOMPARE(eigen.vectors[0], std::sqrt(0.5));
    QCOMPARE(eigen.vectors[1], std::sqrt(0.5));
}

void TestSketchBasis::eigenvectorsRebuildTheMatrix()
{
    constexpr int n = 60;
    std::mt19937 generator(1);
    std::normal_distribution<double> normal;
    std::vector<double> matrix(n * n);
    for (int i = 0; i < n; ++i) {
        for (int j = i; j < n; ++j)
            matrix[std::size_t(i * n + j)] = matrix[std::size_t(j * n + i)] = normal(generator);
    }
    const auto eigen = symmetricEigen(matrix, n);
    QVERIFY(std::is_sorted(eigen.values.rbegin(), eigen.values.rend()));
    for (int i = 0; i < n; ++i) {
        for (int j = 0; j < n; ++j) {
            double rebuilt = 0, product = 0;
            for (int r = 0; r < n; ++r) {
                rebuilt += eigen.values[std::size_t(r)] * eigen.vectors[std::size_t(r * n + i)] *
                           eigen.vectors[std::size_t(r * n + j)];
                product += eigen.vectors[std::size_t(i * n + r)] * eigen.vectors[std::size_t(j * n + r)];
            }
            QVERIFY(std::abs(rebuilt - matrix[std::size_t(i * n + j)]) < 1e-10);
            QVERIFY(std::abs(product - (i == j ? 1.0 : 0.0)) < 1e-12);
        }
    }
}

void TestSketchBasis::theBasisHoldsTheStrongDirections()
{
    const KeyStatistics statistics = sampleStatistics(1, 2, 64, 4000);
    const auto basis = statistics.fit(8, 7);
    QVERIFY(basis);
    // Eight coordinates of variance 100 beside 56 of variance 1.
    for (const double share : statistics.explained(*basis))
        QVERIFY(std::abs(share - 800.0 / 856.0) < 0.02);
    QVERIFY(std::abs(basis->mean(0, 1)[5] - 3.0f) < 0.1f);
    double inside = 0;
    for (int r = 0; r < 8; ++r) {
        for (int i = 1; i < 64; i += 8)
            inside += std::pow(double(basis->basis(0, 1)[r * 64 + i]), 2);
    }
    QVERIFY(inside > 7.9);
    for (int r = 0; r < 8; ++r)
        QVERIFY(std::abs(basis->deviation(0, 1)[r] - 10.0f) < 0.5f);
}

void TestSketchBasis::filesWithoutDeviationsAreRead()
{
    QTemporaryDir dir;
    const auto path = std::filesystem::path(dir.path().toStdString()) / "basis.safetensors";
    auto basis = sampleStatistics(2, 1, 64, 40).fit(8, 3);
    QVERIFY(basis);
    basis->deviations.clear();
    QVERIFY(basis->save(path));
    const auto loaded = SketchBasis::load(path);
    QVERIFY2(loaded.has_value(), loaded ? "" : loaded.error().message.c_str());
    QCOMPARE(loaded->numLayers, 2);
    QVERIFY(loaded->vectors == basis->vectors && loaded->deviations.empty());
}

void TestSketchBasis::savedAndLoadedItIsTheSame()
{
    QTemporaryDir dir;
    const auto path = std::filesystem::path(dir.path().toStdString()) / "basis.safetensors";
    // More than ten layers, whose names sort apart from their numbers.
    const auto basis = sampleStatistics(12, 2, 64, 40).fit(8, 0xFEDCBA9876543210u);
    QVERIFY(basis);
    QVERIFY(basis->save(path));
    const auto loaded = SketchBasis::load(path);
    QVERIFY2(loaded.has_value(), loaded ? "" : loaded.error().message.c_str());
    QCOMPARE(loaded->modelHash, basis->modelHash);
    QCOMPARE(loaded->rank, 8);
    QCOMPARE(loaded->fittedTokens, std::int64_t(40));
    QVERIFY(loaded->vectors == basis->vectors);
    QVERIFY(loaded->means == basis->means);
    QVERIFY(loaded->deviations == basis->deviations);
    QCOMPARE(loaded->contentHash(), basis->contentHash());
    QVERIFY(loaded->checkFits(basis->modelHash, 12, 2, 64));
}

void TestSketchBasis::refusesAnotherModelsBasis()
{
    const auto basis = sampleStatistics(1, 1, 64, 40).fit(8, 1);
    QVERIFY(basis);
    for (const auto& result :
         {basis->checkFits(2, 1, 1, 64), basis->checkFits(1, 2, 1, 64), basis->checkFits(1, 1, 1, 128)}) {
        QVERIFY(!result);
        QVERIFY(result.error().message.find("eval fit-basis") != std::string::npos);
    }
}

void TestSketchBasis::refusesDamagedFiles_data()
{
    QTest::addColumn<QByteArray>("find");
    QTest::addColumn<QByteArray>("replace");
    QTest::newRow("no hash") << QByteArray("model_hash") << QByteArray("other_hash");
    QTest::newRow("hash of letters") << QByteArray("00000000000000ab") << QByteArray("zz000000000000ab");
    QTest::newRow("another rank") << QByteArray("\"rank\":\"8\"") << QByteArray("\"rank\":\"9\"");
    QTest::newRow("tensor renamed") << QByteArray("layers.0.mean") << QByteArray("layers.0.meal");
    QTest::newRow("deviations renamed") << QByteArray("layers.0.deviation") << QByteArray("layers.0.deviatiom");
    QTest::newRow("another type") << QByteArray("F32") << QByteArray("I32");
    QTest::newRow("another shape") << QByteArray("[1,8,64]") << QByteArray("[1,64,8]");
    QTest::newRow("cut") << QByteArray() << QByteArray();
}

void TestSketchBasis::refusesDamagedFiles()
{
    QFETCH(QByteArray, find);
    QFETCH(QByteArray, replace);
    QTemporaryDir dir;
    const QString path = dir.filePath(QStringLiteral("basis.safetensors"));
    QVERIFY(sampleStatistics(1, 1, 64, 40).fit(8, 0xAB)->save(path.toStdString()));
    QFile file(path);
    QVERIFY(file.open(QIODevice::ReadWrite));
    QByteArray content = file.readAll();
    if (find.isEmpty()) {
        content.chop(4);
    } else {
        QVERIFY(content.contains(find));
        content.replace(find, replace);
    }
    file.resize(0);
    file.write(content);
    file.close();
    const auto loaded = SketchBasis::load(path.toStdString());
    QVERIFY(!loaded);
    QCOMPARE(loaded.error().code, ErrorCode::FormatInvalid);
    QVERIFY(loaded.error().message.find("basis.safetensors") != std::string::npos);
}

void TestSketchBasis::damagedValuesAreRefused_data()
{
    QTest::addColumn<bool>("hasChecksum"); // files of earlier versions have none
    QTest::addColumn<QString>("tensor");   // of (1, 8, 64), (1, 64) and (1, 8)
    QTest::addColumn<int>("byte");
    QTest::addColumn<int>("length");
    QTest::addColumn<int>("flip"); // bits; 0: the bytes become zero
    QTest::addColumn<bool>("isRefused");
    QTest::newRow("as it was written") << true << "basis" << 0 << 0 << 0 << false;
    QTest::newRow("lowest bit of a vector") << true << "basis" << 400 << 1 << 1 << true;
    QTest::newRow("lowest bit of a mean") << true << "mean" << 8 << 1 << 1 << true;
    QTest::newRow("lowest bit of a deviation") << true << "deviation" << 8 << 1 << 1 << true;
    QTest::newRow("zeroed means") << true << "mean" << 0 << 256 << 0 << true;
    QTest::newRow("earlier, as it was written") << false << "basis" << 0 << 0 << 0 << false;
    QTest::newRow("earlier, exponent of a vector") << false << "basis" << 403 << 1 << 0x40 << true;
    QTest::newRow("earlier, a zeroed vector") << false << "basis" << 512 << 256 << 0 << true;
    QTest::newRow("earlier, exponent of a mean") << false << "mean" << 11 << 1 << 0x20 << true;
    QTest::newRow("earlier, sign of a deviation") << false << "deviation" << 31 << 1 << 0x80 << true;
    QTest::newRow("earlier, exponent of a deviation") << false << "deviation" << 19 << 1 << 0x02 << true;
}

void TestSketchBasis::damagedValuesAreRefused()
{
    QFETCH(bool, hasChecksum);
    QFETCH(QString, tensor);
    QFETCH(int, byte);
    QFETCH(int, length);
    QFETCH(int, flip);
    QFETCH(bool, isRefused);
    const QTemporaryDir dir;
    const QString path = dir.filePath(QStringLiteral("basis.safetensors"));
    QVERIFY(sampleStatistics(1, 1, 64, 400).fit(8, 0xAB)->save(path.toStdString()));
    QFile file(path);
    QVERIFY(file.open(QIODevice::ReadWrite));
    QByteArray content = file.readAll();
    QVERIFY(content.contains("\"checksum\""));
    if (!hasChecksum)
        content.replace("\"checksum\"", "\"unknown_\"");
    qsizetype at = content.size() - 4 * (8 * 64 + 64 + 8) + byte;
    if (tensor != QStringLiteral("basis"))
        at += 4 * 8 * 64;
    if (tensor == QStringLiteral("deviation"))
        at += 4 * 64;
    for (qsizetype i = at; i < at + length; ++i)
        content[i] = flip == 0 ? '\0' : char(content[i] ^ flip);
    QVERIFY(file.seek(0) && file.write(content) == content.size());
    file.close();
    const auto loaded = SketchBasis::load(path.toStdString());
    QCOMPARE(loaded.has_value(), !isRefused);
    if (isRefused)
        QVERIFY2(loaded.error().message.find("is damaged") != std::string::npos, loaded.error().message.c_str());
}

void TestSketchBasis::theBundledBasisIsSound()
{
    const auto loaded = SketchBasis::load(OCTAVO_RESOURCES "/demo-model/basis.safetensors");
    QVERIFY2(loaded.has_value(), loaded ? "" : loaded.error().message.c_str());
}

void TestSketchBasis::tooLittleTextIsRefused()
{
    QVERIFY(!sampleStatistics(1, 1, 64, 31).fit(8, 0));
    QVERIFY(!sampleStatistics(1, 1, 64, 40).fit(7, 0));
    QVERIFY(!sampleStatistics(1, 1, 64, 400).fit(72, 0));
}

void TestSketchBasis::noOtherFileIsWrittenOver()
{
    const QTemporaryDir dir;
    const std::string path = dir.filePath("mine.txt").toStdString();
    QFile mine(dir.filePath("mine.txt"));
    QVERIFY(mine.open(QIODevice::WriteOnly) && mine.write("notes") == 5);
    mine.close();
    const auto basis = sampleStatistics(1, 1, 64, 40).fit(8, 1);
    QVERIFY(basis);
    const auto saved = basis->save(path);
    QVERIFY(!saved);
    QCOMPARE(saved.error().code, ErrorCode::InvalidArgument);
    QVERIFY(mine.open(QIODevice::ReadOnly));
    QCOMPARE(mine.readAll(), QByteArray("notes"));
    QVERIFY(!SketchBasis::checkReplaceable(OCTAVO_RESOURCES "/demo-model/model.safetensors"));
    QVERIFY(SketchBasis::checkReplaceable(OCTAVO_RESOURCES "/demo-model/basis.safetensors"));
    QVERIFY(SketchBasis::checkReplaceable(dir.filePath("new").toStdString()));
}

void TestSketchBasis::valuesThatAreNoNumbersAreRefused()
{
    const QTemporaryDir dir;
    const std::string path = dir.filePath("basis.safetensors").toStdString();
    auto basis = sampleStatistics(1, 1, 64, 40).fit(8, 1);
    QVERIFY(basis);
    basis->means.back() = std::numeric_limits<float>::quiet_NaN();
    QVERIFY(basis->save(path));
    const auto loaded = SketchBasis::load(path);
    QVERIFY(!loaded);
    QVERIFY2(loaded.error().message.find("no finite numbers") != std::string::npos, loaded.error().message.c_str());
}

void TestSketchBasis::anUnwritablePlaceIsNamed()
{
    const auto result = sampleStatistics(1, 1, 64, 40).fit(8, 0)->save("/nonexistent/basis.safetensors");
    QVERIFY(!result);
    QCOMPARE(result.error().code, ErrorCode::FileUnwritable);
    QVERIFY(!SketchBasis::load("/nonexistent/basis.safetensors"));
}

QTEST_GUILESS_MAIN(TestSketchBasis)
#include "tst_sketch_basis.moc"
