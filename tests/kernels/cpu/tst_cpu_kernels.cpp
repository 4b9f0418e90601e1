#include "kernels/cpu/kernels.h"
#include "kernels/cpu/pack.h"
#include "kernels/cpu/reference.h"

#include <QTest>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

using namespace octavo::kernels::cpu;

namespace
{

constexpr float guard = 1234.5f;
constexpr int guardSize = 32;

constexpr std::size_t count(std::int64_t n)
{
    return std::size_t(n);
}

std::vector<Path> supportedPaths()
{
    std::vector<Path> paths;
    for (Path path : {Path::Plain, Path::Avx2, Path::Avx512}) {
        if (isSupported(path))
            paths.push_back(path);
    }
    return paths;
}

std::vector<float> randomFloats(std::size_t n, unsigned seed, float scale = 1.0f)
{
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0.0f, scale);
    std::vector<float> values(n);
    for (float& value : values)
        value = normal(random);
    return values;
}

/// Floats with guard values behind them.
struct Guarded {
    explicit Guarded(std::size_t n)
        : size(n)
        , values(n + guardSize, guard)
    {
    }
    float* data() { return values.data(); }
    bool intact() const
    {
        for (std::size_t i = size; i < values.size(); ++i) {
            if (values[i] != guard)
                return false;
        }
        return true;
    }
    std::size_t size;
    std::vector<float> values;
};

/// Quantised rows and what they stand for.
struct Rows {
    Rows(const Kernels& kernels, const std::vector<float>& x, int rows, int inputs)
        : depth(paddedDepth(inputs))
        , values(count(rows) * count(depth) + 64, std::int16_t(77))
        , scales(count(rows))
    {
        std::vector<float> row(count(inputs) + 32);
        const RowTiles tiles{rows, kernels.maxTileRows};
        for (int i = 0; i < tiles.count(); ++i) {
            for (int r = tiles.begin(i); r < tiles.begin(i + 1); ++r) {
                std::copy_n(x.begin() + std::ptrdiff_t(r) * inputs, inputs, row.begin());
                kernels.quantizeRow(row.data(), inputs, depth,
                                    values.data() + std::int64_t(tiles.begin(i)) * depth + (r - tiles.begin(i)) * 8,
                                    tiles.height(i) * 8, &scales[count(r)]);
            }
        }
        view = {values.data(), scales.data(), rows, depth};
        constexpr int order[8] = {0, 4, 1, 5, 2, 6, 3, 7};
        for (int r = 0; r < rows; ++r) {
            int tile = 0;
            while (tiles.begin(tile + 1) <= r)
                ++tile;
            for (int k = 0; k < inputs; ++k) {
                const int place = int(std::find(order, order + 8, k % 8) - order);
                const std::int64_t at = std::int64_t(tiles.begin(tile)) * depth +
                                        (std::int64_t(k / 8) * tiles.height(tile) + r - tiles.begin(tile)) * 8 + place;
                exact.push_back(double(values[count(at)]) * scales[count(r)]);
            }
        }
    }
    int depth;
    std::vector<std::int16_t> values;
    std::vector<float> scales;
    std::vector<double> exact;
    QuantizedRows view;
};

double largestRelative(const std::vector<float>& found, const std::vector<double>& expected)
{
    double difference = 0.0, magnitude = 1e-30;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        if (!std::isfinite(found[i]))
            return std::numeric_limits<double>::infinity();
        difference = std::max(difference, std::abs(found[i] - expected[i]));
        magnitude = std::max(magnitude, std::abs(expected[i]));
    }
    return difference / magnitude;
}

void addPathRows()
{
    QTest::addColumn<int>("path");
    for (Path path : supportedPaths())
        QTest::addRow("%s", pathName(path).data()) << int(path);
}

} // namespace

class TestCpuKernels : public QObject
{
    Q_OBJECT

private slots:
    void theReferenceAttentionGivesNumbersWorkedByHand();
    void theReferenceDeltaRuleGivesNumbersWorkedByHand();
    void activationsKeepFifteenBits_data() { addPathRows(); }
    void activationsKeepFifteenBits();
    void aRowThatIsNotFiniteStaysVisible_data() { addPathRows(); }
    void aRowThatIsNotFiniteStaysVisible();
    void int4LinearsMatchTheReferenceAndEachOther_data();
    void int4LinearsMatchTheReferenceAndEachOther();
    void int8LinearsMatchTheReferenceAndEachOther_data() { int4LinearsMatchTheReferenceAndEachOther_data(); }
    void int8LinearsMatchTheReferenceAndEachOther();
    void denseLinearsMatchTheReference_data() { addPathRows(); }
    void denseLinearsMatchTheReference();
    void aRowsResultDoesNotDependOnTheOthers_data() { addPathRows(); }
    void aRowsResultDoesNotDependOnTheOthers();
    void productsAskForEachRangeAheadAndNothingElse_data() { addPathRows(); }
    void productsAskForEachRangeAheadAndNothingElse();
    void aRowAsksForTheNextProductWithoutReadingIt_data() { addPathRows(); }
    void aRowAsksForTheNextProductWithoutReadingIt();
    void aConvolutionStepGivesTheBitsOfAConvolution_data() { addPathRows(); }
    void aConvolutionStepGivesTheBitsOfAConvolution();
    void normsAndActivationsMatchTheReference_data() { addPathRows(); }
    void normsAndActivationsMatchTheReference();
    void panelsThatReachALogitAreFoundInOrder_data() { addPathRows(); }
    void panelsThatReachALogitAreFoundInOrder();
    void exponentialIsAccurate_data() { addPathRows(); }
    void exponentialIsAccurate();
    void attentionMatchesTheReference_data();
    void attentionMatchesTheReference();
    void rowsBeyondALimitAreNeverRead_data() { addPathRows(); }
    void rowsBeyondALimitAreNeverRead();
    void recurrentMatchesTheReference_data();
    void recurrentMatchesTheReference();
    void chunkedEqualsRecurrentAtRandomSplits_data();
    void chunkedEqualsRecurrentAtRandomSplits();
    void replayGivesTheSameBitsAsRunning_data() { addPathRows(); }
    void replayGivesTheSameBitsAsRunning();
    void rowsTogetherGiveTheSameBitsAsOneByOne_data();
    void rowsTogetherGiveTheSameBitsAsOneByOne();
};

void TestCpuKernels::theReferenceAttentionGivesNumbersWorkedByHand()
{
    // Scores 0 and ln 3: weights 1/4 and 3/4.
    const std::vector<double> q = {1.0, 0.0}, k = {0.0, 5.0, std::log(3.0), 7.0}, v = {4.0, 0.0, 0.0, 8.0};
    const std::vector<double> context = reference::attention(q, k, v, 2, 1.0);
    QVERIFY(std::abs(context[0] - 1.0) < 1e-12);
    QVERIFY(std::abs(context[1] - 6.0) < 1e-12);
}

void TestCpuKernels::theReferenceDeltaRuleGivesNumbersWorkedByHand()
{
    reference::GdnHead head{1, 1, {8.0}};
    const float q[] = {2.0f}, k[] = {1.0f}, v[] = {10.0f};
    // State 8 halves to 4, predicts 4, takes in 0.5 * (10 - 4) = 3: 7, read as 14.
    QVERIFY(std::abs(head.step(q, k, v, std::log(0.5), 0.5)[0] - 14.0) < 1e-12);
    QVERIFY(std::abs(head.state[0] - 7.0) < 1e-12);
}

void TestCpuKernels::activationsKeepFifteenBits()
{
    QFETCH(int, path);
    for (int inputs : {8, 16, 24, 40, 512, 100}) {
        const std::vector<float> x = randomFloats(count(inputs) * 3, 5u + unsigned(inputs));
        const Rows rows(kernels(Path(path)), x, 3, inputs);
        for (std::size_t i = 0; i < x.size(); ++i)
            QVERIFY(std::abs(rows.exact[i] - x[i]) <= 0.51 * rows.scales[i / count(inputs)]);
        QCOMPARE(rows.values[count(3 * rows.depth)], std::int16_t(77)); // nothing behind the rows
    }
}

void TestCpuKernels::aRowThatIsNotFiniteStaysVisible()
{
    QFETCH(int, path);
    for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        std::vector<float> x = randomFloats(64, 3);
        x[37] = bad;
        QVERIFY(std::isnan(Rows(kernels(Path(path)), x, 1, 64).scales[0]));
    }
    QCOMPARE(Rows(kernels(Path(path)), std::vector<float>(64, 0.0f), 1, 64).scales[0], 0.0f);
}

void TestCpuKernels::int4LinearsMatchTheReferenceAndEachOther_data()
{
    QTest::addColumn<int>("rows");
    QTest::addColumn<int>("outputs");
    QTest::addColumn<int>("inputs");
    QTest::addColumn<int>("groupSize");
    QTest::addColumn<bool>("offsets");
    for (int rows : {1, 2, 3, 4, 5, 8, 12, 13, 25, 31}) {
        for (int outputs : {1, 16, 50, 80, 130}) {
            QTest::addRow("%d rows, %d outputs", rows, outputs) << rows << outputs << 128 << 64 << (outputs == 50);
        }
    }
    QTest::addRow("short last group") << 3 << 48 << 72 << 32 << true;
    QTest::addRow("one wide group") << 7 << 64 << 512 << 512 << false;
    QTest::addRow("one row, short last group") << 1 << 48 << 72 << 32 << true;
    QTest::addRow("one row, widest group") << 1 << 64 << 2048 << 1024 << true;
    QTest::addRow("one row, small groups") << 1 << 64 << 40 << 8 << false;
    QTest::addRow("one row longer than the stack may hold") << 1 << 16 << 20488 << 1024 << false;
}

void TestCpuKernels::int4LinearsMatchTheReferenceAndEachOther()
{
    QFETCH(int, rows);
    QFETCH(int, outputs);
    QFETCH(int, inputs);
    QFETCH(int, groupSize);
    QFETCH(bool, offsets);
    std::mt19937 random(unsigned(rows * 1000 + outputs));
    const int groups = (inputs + groupSize - 1) / groupSize, panels = panelCount(outputs);
    std::vector<std::uint32_t> qweight(count(inputs / 8) * count(outputs));
    for (std::uint32_t& word : qweight)
        word = std::uint32_t(random());
    std::vector<std::uint32_t> codes(count(panels) * 16 * count(inputs / 8));
    packInt4(qweight.data(), outputs, inputs, nullptr, 0, panels, codes.data());
    // fp16: positive and negative numbers between 2^-6 and 2^-5.
    std::vector<std::uint16_t> scales(count(panels) * 16 * count(groups));
    for (std::uint16_t& scale : scales)
        scale = std::uint16_t((random() & 0x8000u) | (9u << 10) | (random() & 1023u));
    std::vector<std::int8_t> zeros(scales.size());
    for (std::int8_t& zero : zeros)
        zero = std::int8_t(int(random() % 16) - 8);
    std::vector<double> w;
    for (int n = 0; n < outputs; ++n) {
        for (int k = 0; k < inputs; ++k) {
            const std::size_t cell = (count(n / 16) * count(groups) + count(k / groupSize)) * 16 + count(n % 16);
            const int code = int(qweight[count(k / 8 * outputs + n)] >> (4 * (k % 8)) & 15u) - 8;
            const double scale =
                ((scales[cell] & 0x8000u) ? -1.0 : 1.0) * std::ldexp(1.0 + (scales[cell] & 1023u) / 1024.0, -6);
            w.push_back(scale * (code - (offsets ? zeros[cell] : 0)));
        }
    }
    const Int4Panels panelsView{codes.data(), scales.data(), offsets ? zeros.data() : nullptr,
                                outputs,      inputs,        groupSize};
    const std::vector<float> x = randomFloats(count(rows) * count(inputs), 9);
    std::vector<float> first;
    for (Path path : supportedPaths()) {
        const Kernels& table = kernels(path);
        const Rows a(table, x, rows, inputs);
        Guarded y(count(rows) * count(outputs));
        Ahead ahead;
        table.linearInt4(panelsView, a.view, 0, panels, y.data(), outputs, ahead);
        QVERIFY2(y.intact(), pathName(path).data());
        y.values.resize(y.size);
        const double error = largestRelative(y.values, reference::linear(w, a.exact, outputs, inputs));
        QVERIFY2(error < 3e-6, qPrintable(QString::number(error)));
        if (first.empty())
            first = y.values;
        QVERIFY2(std::memcmp(first.data(), y.values.data(), first.size() * sizeof(float)) == 0, pathName(path).data());
    }
}

void TestCpuKernels::int8LinearsMatchTheReferenceAndEachOther()
{
    QFETCH(int, rows);
    QFETCH(int, outputs);
    QFETCH(int, inputs);
    const int groupSize = 128, groups = (inputs + groupSize - 1) / groupSize, panels = panelCount(outputs);
    const std::vector<float> source = randomFloats(count(outputs) * count(inputs), 4, 0.02f);
    std::vector<std::int8_t> codes(count(panels) * 16 * count(inputs));
    std::vector<float> scales(count(panels) * 16 * count(groups));
    std::vector<double> w;
    for (int n = 0; n < outputs; ++n) {
        packInt8Row(source.data() + std::ptrdiff_t(n) * inputs, n, inputs, inputs, groupSize, codes.data(),
                    scales.data());
        for (int k = 0; k < inputs; ++k) {
            const float scale = scales[(count(n / 16) * count(groups) + count(k / groupSize)) * 16 + count(n % 16)];
            w.push_back(double(scale) * codes[count(std::int64_t(n / 16) * 16 * inputs + int8PanelOffset(k, n % 16))]);
            QVERIFY(std::abs(w.back() - source[count(n * inputs + k)]) <= 0.51 * scale);
        }
    }
    const Int8Panels view{codes.data(), scales.data(), outputs, inputs, groupSize};
    const std::vector<float> x = randomFloats(count(rows) * count(inputs), 9);
    std::vector<float> first;
    for (Path path : supportedPaths()) {
        const Kernels& table = kernels(path);
        const Rows a(table, x, rows, inputs);
        Guarded y(count(rows) * count(outputs));
        Ahead ahead;
        table.linearInt8(view, a.view, 0, panels, y.data(), outputs, ahead);
        QVERIFY2(y.intact(), pathName(path).data());
        y.values.resize(y.size);
        QVERIFY(largestRelative(y.values, reference::linear(w, a.exact, outputs, inputs)) < 3e-6);
        if (first.empty())
            first = y.values;
        QVERIFY2(std::memcmp(first.data(), y.values.data(), first.size() * sizeof(float)) == 0, pathName(path).data());
    }
}

void TestCpuKernels::denseLinearsMatchTheReference()
{
    QFETCH(int, path);
    for (bool bf16 : {true, false}) {
        for (int rows : {1, 3, 12, 29}) {
            const int outputs = 50, inputs = 37, panels = panelCount(outputs);
            std::vector<float> w(count(panels) * 16 * inputs);
            std::vector<std::uint16_t> narrow(w.size());
            std::vector<double> exact;
            const std::vector<float> source = randomFloats(count(outputs * inputs), 6);
            for (int n = 0; n < outputs; ++n) {
                for (int k = 0; k < inputs; ++k) {
                    std::uint32_t bits;
                    std::memcpy(&bits, &source[count(n * inputs + k)], 4);
                    if (bf16)
                        bits &= 0xffff0000u;
                    float value;
                    std::memcpy(&value, &bits, 4);
                    exact.push_back(value);
                    const std::size_t at = count((n / 16 * inputs + k) * 16 + n % 16);
                    w[at] = value;
                    narrow[at] = std::uint16_t(bits >> 16);
                }
            }
            const std::vector<float> x = randomFloats(count(rows * inputs), 7);
            Guarded y(count(rows * outputs));
            const DensePanels view{bf16 ? static_cast<const void*>(narrow.data()) : w.data(), bf16, outputs, inputs};
            kernels(Path(path)).linearDense(view, x.data(), inputs, rows, 0, panels, y.data(), outputs);
            QVERIFY(y.intact());
            y.values.resize(y.size);
            const std::vector<double> wide(x.begin(), x.end());
            QVERIFY(largestRelative(y.values, reference::linear(exact, wide, outputs, inputs)) < 2e-6);
        }
    }
}

void TestCpuKernels::aRowsResultDoesNotDependOnTheOthers()
{
    QFETCH(int, path);
    const Kernels& table = kernels(Path(path));
    const int outputs = 64, inputs = 256, rows = 29;
    const std::vector<float> source = randomFloats(count(outputs * inputs), 4),
                             x = randomFloats(count(rows * inputs), 5);
    std::vector<std::int8_t> codes(count(outputs * inputs));
    std::vector<float> scales(count(outputs) * 2);
    for (int n = 0; n < outputs; ++n)
        packInt8Row(source.data() + n * inputs, n, inputs, inputs, 128, codes.data(), scales.data());
    const Int8Panels view{codes.data(), scales.data(), outputs, inputs, 128};
    std::vector<float> together(count(rows * outputs)), alone(count(outputs));
    const Rows all(table, x, rows, inputs);
    Ahead ahead;
    table.linearInt8(view, all.view, 0, 4, together.data(), outputs, ahead);
    for (int r = 0; r < rows; ++r) {
        const Rows one(table, {x.begin() + r * inputs, x.begin() + (r + 1) * inputs}, 1, inputs);
        table.linearInt8(view, one.view, 0, 4, alone.data(), outputs, ahead);
        QVERIFY(std::memcmp(alone.data(), together.data() + r * outputs, alone.size() * sizeof(float)) == 0);
    }
}

void TestCpuKernels::productsAskForEachRangeAheadAndNothingElse()
{
    QFETCH(int, path);
    const Kernels& table = kernels(Path(path));
    const int outputs = 64, inputs = 256, rows = 8;
    std::vector<std::int8_t> codes(count(outputs * inputs), std::int8_t(3));
    const std::vector<float> scales(count(outputs) * 2, 0.5f), x = randomFloats(count(rows * inputs), 5);
    const Int8Panels view{codes.data(), scales.data(), outputs, inputs, 128};
    const Rows a(table, x, rows, inputs);
    std::vector<float> plain(count(rows * outputs)), asking(plain.size());
    Ahead none;
    table.linearInt8(view, a.view, 0, 4, plain.data(), outputs, none);
    QVERIFY(!none.next);
    const std::vector<std::byte> first(640), second(100);
    const AheadRange ranges[] = {{first.data(), 640}, {nullptr, 0}, {second.data(), 100}};
    Ahead ahead{.ranges = ranges, .rangesLeft = 3, .step = 256};
    for (int i = 0; i < 3 * panelCount(outputs); ++i)
        table.linearInt8(view, a.view, i % 4, i % 4 + 1, asking.data() + i % 4 * 16, outputs, ahead);
    QCOMPARE(ahead.rangesLeft, 0);
    QVERIFY(ahead.next >= second.data() + 100 && ahead.next < second.data() + 164);
    QVERIFY(std::memcmp(plain.data(), asking.data(), plain.size() * sizeof(float)) == 0);
}

void TestCpuKernels::aRowAsksForTheNextProductWithoutReadingIt()
{
    QFETCH(int, path);
    const Kernels& table = kernels(Path(path));
    const int outputs = 64, inputs = 256;
    std::vector<std::int8_t> bytes(count(outputs * inputs), std::int8_t(0x5a));
    const std::vector<float> scales(count(outputs) * 2, 0.5f), x = randomFloats(count(inputs), 5);
    const std::vector<std::uint16_t> halves(count(outputs) * 2, 0x3800);
    const Int8Panels int8{bytes.data(), scales.data(), outputs, inputs, 128};
    const Int4Panels int4{
        reinterpret_cast<const std::uint32_t*>(bytes.data()), halves.data(), nullptr, outputs, inputs, 128};
    const Rows a(table, x, 1, inputs);
    std::vector<float> whole(count(outputs)), part(count(outputs));
    const auto run = [&](auto&& linear, const auto& weights) {
        Ahead none, beyond{.then = reinterpret_cast<const std::byte*>(std::uintptr_t(64))}; // nobody may read there
        linear(weights, a.view, 0, 4, whole.data(), outputs, none);
        linear(weights, a.view, 1, 3, part.data(), outputs, beyond);
        QVERIFY(std::memcmp(whole.data() + 16, part.data(), 32 * sizeof(float)) == 0);
    };
    run(table.linearInt8, int8);
    run(table.linearInt4, int4);
}

void TestCpuKernels::aConvolutionStepGivesTheBitsOfAConvolution()
{
    QFETCH(int, path);
    const Kernels& table = kernels(Path(path));
    for (int width : {1, 2, 4, 5}) {
        const int n = 48, stride = 64;
        const std::vector<float> inputs = randomFloats(count(12 * stride), 21),
                                 taps = randomFloats(count(width * stride), 22);
        Guarded history(count((width - 1) * stride)), y(count(n)), expected(count(n));
        std::copy_n(inputs.begin(), (width - 1) * stride, history.values.begin());
        for (int t = width - 1; t < 12; ++t) {
            const float* rows[5];
            for (int i = 0; i < width; ++i)
                rows[i] = inputs.data() + (t - width + 1 + i) * stride;
            table.convSilu(rows, taps.data(), stride, width, n, expected.data());
            table.convStep(history.data(), stride, inputs.data() + t * stride, taps.data(), stride, width, n, y.data());
            QVERIFY(history.intact() && y.intact());
            QVERIFY(std::memcmp(y.data(), expected.data(), count(n) * sizeof(float)) == 0);
            for (int i = 1; i < width; ++i)
                QVERIFY(std::memcmp(history.data() + (i - 1) * stride, rows[i], count(n) * sizeof(float)) == 0);
            double sum = 0.0;
            for (int i = 0; i < width; ++i)
                sum += double(rows[i][7]) * double(taps[count(i * stride + 7)]);
            QVERIFY(std::abs(double(y.values[7]) - sum / (1.0 + std::exp(-sum))) < 1e-5);
        }
    }
}

void TestCpuKernels::normsAndActivationsMatchTheReference()
{
    QFETCH(int, path);
    const Kernels& table = kernels(Path(path));
    for (int n : {16, 32, 96, 128, 256, 512}) {
        const std::vector<float> x = randomFloats(count(n), 1), w = randomFloats(count(n), 2),
                                 z = randomFloats(count(n), 3, 4.0f);
        Guarded y(count(n)), gated(count(n)), product(count(n)), context(count(n)), unit(count(n));
        table.rmsNorm(x.data(), w.data(), n, 1e-6f, y.data());
        table.gatedNorm(x.data(), w.data(), z.data(), n, 1e-6f, gated.data());
        table.siluMul(z.data(), x.data(), n, product.data());
        table.gateContext(x.data(), 2.5f, z.data(), n, context.data());
        table.l2Norm(x.data(), n, 0.5f, unit.data());
        QVERIFY(y.intact() && gated.intact() && product.intact() && context.intact() && unit.intact());
        const std::vector<double> norm = reference::rmsNorm(x, w, 1e-6);
        double squares = 1e-6;
        for (float value : x)
            squares += double(value) * value;
        for (std::size_t i = 0; i < norm.size(); ++i) {
            const double sigmoid = 1.0 / (1.0 + std::exp(-double(z[i]))), silu = z[i] * sigmoid;
            QVERIFY(std::abs(y.values[i] - norm[i]) <= 1e-6 * (1.0 + std::abs(norm[i])));
            QVERIFY(std::abs(gated.values[i] - norm[i] * silu) <= 2e-6 * (1.0 + std::abs(norm[i] * silu)));
            QVERIFY(std::abs(product.values[i] - silu * x[i]) <= 2e-6 * (1.0 + std::abs(silu * x[i])));
            QVERIFY(std::abs(context.values[i] - x[i] / 2.5 * sigmoid) <= 1e-6);
            QVERIFY(std::abs(unit.values[i] - 0.5 * x[i] / std::sqrt(squares)) <= 1e-6);
        }
    }
}

void TestCpuKernels::panelsThatReachALogitAreFoundInOrder()
{
    QFETCH(int, path);
    const Kernels& table = kernels(Path(path));
    const int panels = 27;
    std::vector<float> x = randomFloats(panels * 16, 3, 0.1f);
    const std::vector<float> slack(x.size(), 0.25f);
    QCOMPARE(table.largest(x.data(), panels * 16), *std::ranges::max_element(x));
    x[5 * 16 + 15] = 3.0f;
    x[7 * 16] = 2.5f; // reaches 3 by its slack, just so
    std::fill(x.end() - 16, x.end(), -INFINITY);
    std::vector<std::int32_t> found(panels, -1);
    QCOMPARE(table.panelsReaching(x.data(), slack.data(), 2.0f, 3.0f, panels, found.data()), 2);
    QCOMPARE(found[0], 5);
    QCOMPARE(found[1], 7);
    QCOMPARE(table.panelsReaching(x.data(), slack.data(), 0.0f, 3.0f, panels, found.data()), 1);
    QCOMPARE(table.panelsReaching(x.data(), slack.data(), 2.0f, -100.0f, panels, found.data()), panels - 1);
    QCOMPARE(found[std::size_t(panels - 2)], panels - 2);
}

void TestCpuKernels::exponentialIsAccurate()
{
    QFETCH(int, path);
    std::vector<float> x, y;
    for (float value = -86.9f; value < 88.0f; value += 0.0131f)
        x.push_back(value);
    x.resize(x.size() / 16 * 16);
    y.resize(x.size());
    kernels(Path(path)).exponential(x.data(), int(x.size()), y.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double expected = std::exp(double(x[i]));
        QVERIFY2(std::abs(y[i] - expected) <= 3e-7 * expected, qPrintable(QString::number(double(x[i]))));
    }
}

namespace
{

/// Pages of random rows for one head, and the rows they stand for.
struct KvData {
    KvData(const Kernels& table, int dim, int tokenCount, unsigned seed)
        : headDim(dim)
        , tokens(tokenCount)
    {
        const int pageCount = (tokens + pageTokens - 1) / pageTokens;
        for (int p = 0; p < pageCount; ++p) {
            // What no token has written must not matter: NaN scales and odd codes.
            keys.emplace_back(count(pageTokens) * count(dim), std::int8_t(99));
            values.emplace_back(count(pageTokens) * count(dim), std::int8_t(-55));
            scales.emplace_back(count(pageTokens) * 2, std::numeric_limits<float>::quiet_NaN());
        }
        const std::vector<float> k = randomFloats(count(tokens * dim), seed),
                                 v = randomFloats(count(tokens * dim), seed + 1);
        for (int t = 0; t < tokens; ++t) {
            const std::size_t p = count(t / pageTokens);
            const int at = t % pageTokens;
            table.writeKv(k.data() + t * dim, v.data() + t * dim, dim, at, keys[p].data(), values[p].data(),
                          scales[p].data(), scales[p].data() + pageTokens);
            for (int d = 0; d < dim; ++d) {
                exactKeys.push_back(double(scales[p][count(at)]) *
                                    keys[p][count(std::int64_t(at / 16) * 16 * dim + int8PanelOffset(d, at % 16))]);
                exactValues.push_back(
                    double(scales[p][count(pageTokens + at)]) *
                    values[p][count(std::int64_t(d / 16) * 16 * pageTokens + int8PanelOffset(at, d % 16))]);
                maxError =
                    std::max(maxError, std::abs(exactKeys.back() - k[count(t * dim + d)]) / scales[p][count(at)]);
                maxError = std::max(maxError, std::abs(exactValues.back() - v[count(t * dim + d)]) /
                                                  scales[p][count(pageTokens + at)]);
            }
        }
    }
    KvPageView page(int p) const
    {
        const std::size_t i = count(p);
        return {keys[i].data(), values[i].data(), scales[i].data(), scales[i].data() + pageTokens};
    }
    int headDim, tokens;
    std::vector<std::vector<std::int8_t>> keys, values;
    std::vector<std::vector<float>> scales;
    std::vector<double> exactKeys, exactValues;
    double maxError = 0.0; ///< of a stored value, in steps of its scale
};

/// Attention of `rows` queries, query r seeing visible[r] tokens; contexts divided by their sums.
std::vector<float> attend(const Kernels& table, const KvData& kv, const Rows& q, const std::vector<int>& visible,
                          bool mergePages)
{
    const int rows = int(visible.size()), dim = kv.headDim;
    std::vector<float> qScales = q.scales, work(count(attentionWorkFloats()));
    for (float& scale : qScales)
        scale /= std::sqrt(float(dim));
    std::vector<float> maxima(count(rows), -std::numeric_limits<float>::infinity()), sums(count(rows), 0.0f);
    std::vector<float> context(count(rows * dim), 0.0f);
    const RowTiles tiles{rows, table.maxTileRows};
    for (int p = 0; p * pageTokens < kv.tokens; ++p) {
        for (int i = 0; i < tiles.count(); ++i) {
            const int begin = tiles.begin(i), height = tiles.height(i);
            std::vector<int> limits;
            for (int r = begin; r < begin + height; ++r)
                limits.push_back(std::min(pageTokens, visible[count(r)] - p * pageTokens));
            AttentionState state{maxima.data() + begin, sums.data() + begin, context.data() + begin * dim};
            std::vector<float> m(count(height), -std::numeric_limits<float>::infinity()), s(count(height), 0.0f),
                c(count(height * dim), 0.0f);
            const AttentionState part{m.data(), s.data(), c.data()};
            table.attendPage(kv.page(p), dim, q.view.values + std::int64_t(begin) * dim, qScales.data() + begin,
                             limits.data(), height, work.data(), mergePages ? part : state);
            for (int r = 0; mergePages && r < height; ++r)
                table.mergeState(dim, {m.data() + r, s.data() + r, c.data() + r * dim},
                                 {state.maximum + r, state.sum + r, state.context + r * dim});
        }
    }
    for (int r = 0; r < rows; ++r) {
        for (int d = 0; d < dim; ++d)
            context[count(r * dim + d)] /= sums[count(r)];
    }
    return context;
}

} // namespace

void TestCpuKernels::attentionMatchesTheReference_data()
{
    QTest::addColumn<int>("path");
    QTest::addColumn<int>("headDim");
    QTest::addColumn<int>("tokens");
    QTest::addColumn<int>("rows");
    for (Path path : supportedPaths()) {
        for (int tokens : {1, 17, 511, 512, 513, 1100})
            QTest::addRow("%s, %d tokens", pathName(path).data(), tokens) << int(path) << 32 << tokens << 13;
        QTest::addRow("%s, head of 256", pathName(path).data()) << int(path) << 256 << 700 << 5;
    }
}

void TestCpuKernels::attentionMatchesTheReference()
{
    QFETCH(int, path);
    QFETCH(int, headDim);
    QFETCH(int, tokens);
    QFETCH(int, rows);
    const Kernels& table = kernels(Path(path));
    const KvData kv(table, headDim, tokens, 11);
    QVERIFY(kv.maxError < 0.51);
    const Rows q(table, randomFloats(count(rows * headDim), 21, 2.0f), rows, headDim);
    std::vector<int> visible;
    for (int r = 0; r < rows; ++r)
        visible.push_back(std::max(1, tokens - (rows - 1 - r) * 7));
    const std::vector<float> found = attend(table, kv, q, visible, false);
    for (int r = 0; r < rows; ++r) {
        const std::size_t seen = count(visible[count(r)] * headDim), at = count(r * headDim);
        const std::vector<double> expected =
            reference::attention(std::span(q.exact).subspan(at, count(headDim)), std::span(kv.exactKeys).first(seen),
                                 std::span(kv.exactValues).first(seen), headDim, 1.0 / std::sqrt(double(headDim)));
        // Probabilities carry 15 bits relative to the page's largest: over 512 tokens of like weight, whose context is
        // small, their rounding adds up to some 3e-4 of it.
        const double error = largestRelative(
            {found.begin() + std::ptrdiff_t(at), found.begin() + std::ptrdiff_t(at) + headDim}, expected);
        QVERIFY2(error < 1e-3, qPrintable(QString("row %1: %2").arg(r).arg(error)));
    }
    // Pages computed apart and merged in order give the same bits: so may threads.
    const std::vector<float> merged = attend(table, kv, q, visible, true);
    QVERIFY(std::memcmp(found.data(), merged.data(), found.size() * sizeof(float)) == 0);
    // And one row at a time.
    for (int r = 0; r < rows; ++r) {
        std::vector<float> one(count(headDim + 32));
        for (int d = 0; d < headDim; ++d)
            one[count(d)] = randomFloats(count(rows * headDim), 21, 2.0f)[count(r * headDim + d)];
        const std::vector<float> alone = attend(table, kv, Rows(table, one, 1, headDim), {visible[count(r)]}, false);
        QVERIFY(std::memcmp(alone.data(), found.data() + r * headDim, alone.size() * sizeof(float)) == 0);
    }
}

void TestCpuKernels::rowsBeyondALimitAreNeverRead()
{
    QFETCH(int, path);
    const Kernels& table = kernels(Path(path));
    const KvData kv(table, 32, 40, 3);
    const Rows q(table, randomFloats(64, 8), 2, 32);
    // The second query sees nothing of the page; the first sees 40 of 512 tokens, beyond which scales are NaN.
    std::vector<float> maxima(2, -std::numeric_limits<float>::infinity()), sums(2, 0.0f), context(64, 0.0f);
    std::vector<float> work(count(attentionWorkFloats()));
    const int limits[] = {40, -3};
    table.attendPage(kv.page(0), 32, q.view.values, q.scales.data(), limits, 2, work.data(),
                     {maxima.data(), sums.data(), context.data()});
    for (int d = 0; d < 32; ++d) {
        QVERIFY(std::isfinite(context[count(d)]));
        QCOMPARE(context[count(32 + d)], 0.0f);
    }
    QCOMPARE(sums[1], 0.0f);
}

namespace
{

struct GdnData {
    GdnData(int keyDim, int valueDim, int heads, int rowCount, unsigned seed)
        : q(randomFloats(count(rowCount * keyDim), seed))
        , k(randomFloats(count(rowCount * keyDim), seed + 1))
        , v(randomFloats(count(rowCount * valueDim * heads), seed + 2))
        , state(randomFloats(count(keyDim * valueDim * heads), seed + 3, 0.3f))
        , dk(keyDim)
        , dv(valueDim)
        , values(heads)
        , rows(rowCount)
    {
        std::mt19937 random(seed + 4);
        std::uniform_real_distribution<float> uniform(0.0f, 1.0f);
        for (int i = 0; i < rows * heads; ++i) {
            g.push_back(-0.4f * uniform(random) * uniform(random) - (i % 50 == 7 ? 6.0f : 0.0f));
            beta.push_back(uniform(random));
        }
        for (int t = 0; t < rows; ++t) {
            kernels(Path::Plain).l2Norm(q.data() + t * dk, dk, 1.0f / std::sqrt(float(dk)), q.data() + t * dk);
            kernels(Path::Plain).l2Norm(k.data() + t * dk, dk, 1.0f, k.data() + t * dk);
        }
    }
    GdnRow row(int head, int t, float* d, float* o) const
    {
        return {q.data() + t * dk,
                k.data() + t * dk,
                v.data() + (t * values + head) * dv,
                d,
                o,
                std::exp(g[count(t * values + head)]),
                beta[count(t * values + head)]};
    }
    std::vector<float> q, k, v, state, g, beta;
    int dk, dv, values, rows;
};

void addGdnShapes()
{
    QTest::addColumn<int>("path");
    QTest::addColumn<int>("keyDim");
    QTest::addColumn<int>("valueDim");
    QTest::addColumn<int>("heads");
    for (Path path : supportedPaths()) {
        QTest::addRow("%s 128x128, 2 heads", pathName(path).data()) << int(path) << 128 << 128 << 2;
        QTest::addRow("%s 16x16, 3 heads", pathName(path).data()) << int(path) << 16 << 16 << 3;
        QTest::addRow("%s 32x48, 1 head", pathName(path).data()) << int(path) << 32 << 48 << 1;
    }
}

} // namespace

void TestCpuKernels::recurrentMatchesTheReference_data()
{
    addGdnShapes();
}

void TestCpuKernels::recurrentMatchesTheReference()
{
    QFETCH(int, path);
    QFETCH(int, keyDim);
    QFETCH(int, valueDim);
    QFETCH(int, heads);
    const GdnData data(keyDim, valueDim, heads, 40, 31);
    for (int head = 0; head < heads; ++head) {
        const auto begin = data.state.begin() + head * keyDim * valueDim;
        std::vector<float> state(begin, begin + keyDim * valueDim), d(count(valueDim)), o(count(valueDim));
        std::vector<float> work(count(gdnWorkFloats(keyDim, valueDim)));
        reference::GdnHead expected{keyDim, valueDim, {state.begin(), state.end()}};
        for (int t = 0; t < data.rows; ++t) {
            const GdnRow row = data.row(head, t, d.data(), o.data());
            kernels(Path(path)).gdnRecurrent(state.data(), state.data(), keyDim, valueDim, &row, 1, work.data());
            const std::vector<double> out =
                expected.step({row.q, count(keyDim)}, {row.k, count(keyDim)}, {row.v, count(valueDim)},
                              data.g[count(t * heads + head)], row.beta);
            QVERIFY(largestRelative(o, out) < 2e-5);
        }
        QVERIFY(largestRelative(state, expected.state) < 1e-5);
    }
}

void TestCpuKernels::chunkedEqualsRecurrentAtRandomSplits_data()
{
    addGdnShapes();
}

void TestCpuKernels::chunkedEqualsRecurrentAtRandomSplits()
{
    QFETCH(int, path);
    QFETCH(int, keyDim);
    QFETCH(int, valueDim);
    QFETCH(int, heads);
    const Kernels& table = kernels(Path(path));
    const GdnData data(keyDim, valueDim, heads, 150, 77);
    const std::size_t outSize = count(data.rows * heads * valueDim);
    std::vector<float> expectedState = data.state, expected(outSize), d(count(valueDim));
    std::vector<float> ownWork(count(gdnWorkFloats(keyDim, valueDim)));
    for (int head = 0; head < heads; ++head) {
        for (int t = 0; t < data.rows; ++t) {
            const GdnRow row = data.row(head, t, d.data(), expected.data() + (t * heads + head) * valueDim);
            float* state = expectedState.data() + head * keyDim * valueDim;
            table.gdnRecurrent(state, state, keyDim, valueDim, &row, 1, ownWork.data());
        }
    }
    std::mt19937 random(5);
    for (int trial = 0; trial < 6; ++trial) {
        std::vector<float> state = data.state, work(count(gdnWorkFloats(keyDim, valueDim)));
        Guarded out(outSize);
        for (int begin = 0; begin < data.rows;) {
            const int height = std::min(data.rows - begin, trial == 0 ? 64 : 1 + int(random() % 64));
            std::vector<float> g(count(heads * 64), -99.0f),
                beta(count(heads * 64), 99.0f); // beyond height: never used
            for (int head = 0; head < heads; ++head) {
                for (int t = 0; t < height; ++t) {
                    g[count(head * 64 + t)] = data.g[count((begin + t) * heads + head)];
                    beta[count(head * 64 + t)] = data.beta[count((begin + t) * heads + head)];
                }
            }
            table.gdnChunk(state.data(), keyDim, valueDim, heads, height, data.q.data() + begin * keyDim,
                           data.k.data() + begin * keyDim, keyDim, data.v.data() + begin * heads * valueDim,
                           heads * valueDim, g.data(), beta.data(), out.data() + begin * heads * valueDim,
                           heads * valueDim, work.data());
            begin += height;
        }
        QVERIFY(out.intact());
        out.values.resize(out.size);
        QVERIFY(largestRelative(out.values, {expected.begin(), expected.end()}) < 5e-5);
        QVERIFY(largestRelative(state, {expectedState.begin(), expectedState.end()}) < 5e-5);
    }
}

void TestCpuKernels::replayGivesTheSameBitsAsRunning()
{
    QFETCH(int, path);
    const Kernels& table = kernels(Path(path));
    const GdnData data(128, 128, 1, 8, 13);
    std::vector<float> run = data.state, replayed = data.state, d(8 * 128), o(128);
    std::vector<float> work(count(gdnWorkFloats(128, 128)));
    std::vector<GdnRow> rows;
    for (int t = 0; t < 8; ++t) {
        rows.push_back(data.row(0, t, d.data() + t * 128, o.data()));
        table.gdnRecurrent(run.data(), run.data(), 128, 128, &rows.back(), 1, work.data());
        table.gdnReplay(replayed.data(), 128, 128, &rows.back(), 1);
        QVERIFY(std::memcmp(run.data(), replayed.data(), run.size() * sizeof(float)) == 0);
    }
    std::vector<float> together = data.state;
    table.gdnReplay(together.data(), 128, 128, rows.data(), 8);
    QVERIFY(std::memcmp(run.data(), together.data(), run.size() * sizeof(float)) == 0);
}

void TestCpuKernels::rowsTogetherGiveTheSameBitsAsOneByOne_data()
{
    addGdnShapes();
}

void TestCpuKernels::rowsTogetherGiveTheSameBitsAsOneByOne()
{
    QFETCH(int, path);
    QFETCH(int, keyDim);
    QFETCH(int, valueDim);
    const Kernels& table = kernels(Path(path));
    constexpr int rows = 70; // more than are run at once
    const GdnData data(keyDim, valueDim, 1, rows, 21);
    const std::size_t floats = count(keyDim * valueDim);
    std::vector<float> state(data.state.begin(), data.state.begin() + std::ptrdiff_t(floats)),
        work(count(gdnWorkFloats(keyDim, valueDim)));
    const std::vector<float> before = state;
    std::vector<float> d(count(rows * valueDim)), o(d.size()), expectedD(d.size()), expectedO(d.size());
    std::vector<GdnRow> all;
    for (int t = 0; t < rows; ++t) {
        all.push_back(data.row(0, t, d.data() + t * valueDim, o.data() + t * valueDim));
        const GdnRow row = data.row(0, t, expectedD.data() + t * valueDim, expectedO.data() + t * valueDim);
        table.gdnRecurrent(state.data(), state.data(), keyDim, valueDim, &row, 1, work.data());
    }
    std::vector<float> untouched = before, after(floats);
    table.gdnRecurrent(untouched.data(), after.data(), keyDim, valueDim, all.data(), rows, work.data());
    QVERIFY(untouched == before);
    QVERIFY(after == state);
    QVERIFY(d == expectedD);
    QVERIFY(o == expectedO);
    table.gdnRecurrent(untouched.data(), untouched.data(), keyDim, valueDim, all.data(), rows, work.data());
    QVERIFY(untouched == state);
}

QTEST_GUILESS_MAIN(TestCpuKernels)
#include "tst_cpu_kernels.moc"
