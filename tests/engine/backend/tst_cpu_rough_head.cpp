#include "engine/backend/cpu_rough_head.h"

#include "kernels/cpu/cpu_features.h"

#include <QTest>

#include <cmath>
#include <limits>
#include <random>

using namespace octavo;
using namespace octavo::engine;
namespace cpu = octavo::kernels::cpu;

/// Greedy steps leave out what the bound rules out, so it must hold for every row of activations, not for most.
class TestCpuRoughHead : public QObject
{
    Q_OBJECT

private slots:
    void initTestCase();
    void noLogitIsFartherOffThanItsBound_data();
    void noLogitIsFartherOffThanItsBound();
    void aRowAlongTheDifferenceComesNearTheBound();
    void theLengthOfARowIsThatOfItsIntegersAtLeast();
    void rowsWithoutALengthHaveNoBound();
    void refusesWeightsThatAreNoNumbers();

private:
    static constexpr int outputs = 4100, inputs = 256; // the last panel is not full

    /// Logits of one row by `linear`, and what the row stands for once quantised, where that is asked for.
    static std::vector<float> logits(const cpu::Kernels& kernels, const CpuLinear& linear, std::vector<float> x,
                                     std::vector<double>* quantized = nullptr)
    {
        std::vector<std::int16_t> values(inputs);
        float scale = 0.0f;
        kernels.quantizeRow(x.data(), inputs, inputs, values.data(), 8, &scale);
        std::vector<float> out(std::size_t(cpu::panelCount(outputs)) * cpu::panelWidth);
        cpu::Ahead ahead;
        linear.run(kernels, {values.data(), &scale, 1, inputs}, x.data(), inputs, 1, 0, cpu::panelCount(outputs),
                   out.data(), std::int64_t(out.size()), ahead);
        out.resize(outputs);
        for (int k = 0; quantized && k < inputs; ++k)
            quantized->push_back(double(scale) * values[std::size_t(k)]); // in the kernels' order, which a length does not ask
        return out;
    }

    std::vector<float> m_values;
    LinearWeight m_head;
    CpuLinear m_exact;
    CpuRoughHead m_rough;
};

void TestCpuRoughHead::initTestCase()
{
    std::mt19937 random(3);
    std::normal_distribution<float> value(0.0f, 0.05f);
    m_values.resize(std::size_t(outputs) * inputs);
    for (float& w : m_values)
        w = value(random);
    for (int k = 0; k < inputs; ++k) // a token of zeros, one with a value far beyond its others
        m_values[std::size_t(17 * inputs + k)] = 0.0f;
    m_values[std::size_t(18 * inputs + 40)] = 60.0f;
    m_head.name = "head";
    m_head.format = LinearWeight::Format::F32;
    m_head.outFeatures = outputs;
    m_head.inFeatures = inputs;
    m_head.dense = m_values.data();
    m_exact = *CpuLinear::packInt8(m_head);
    m_rough = *CpuRoughHead::make(m_head, m_exact, 2);
    QCOMPARE(m_rough.bounds.size(), std::size_t(cpu::panelCount(outputs)) * cpu::panelWidth);
    QCOMPARE(m_rough.bounds.back(), 0.0f);
}

void TestCpuRoughHead::noLogitIsFartherOffThanItsBound_data()
{
    QTest::addColumn<float>("size");
    QTest::addColumn<bool>("sparse");
    for (const float size : {1e-20f, 1.0f, 3e15f}) {
        for (const bool sparse : {false, true})
            QTest::addRow("values of %g%s", double(size), sparse ? ", most of them zero" : "") << size << sparse;
    }
}

void TestCpuRoughHead::noLogitIsFartherOffThanItsBound()
{
    QFETCH(float, size);
    QFETCH(bool, sparse);
    std::mt19937 random(11);
    std::normal_distribution<float> value(0.0f, size);
    for (auto path : {cpu::Path::Plain, cpu::Path::Avx2, cpu::Path::Avx512}) {
        if (!cpu::isSupported(path))
            continue;
        for (int round = 0; round < 10; ++round) {
            std::vector<float> x(inputs);
            for (float& v : x)
                v = sparse && random() % 16 != 0 ? 0.0f : value(random);
            const float length = CpuRoughHead::rowLength(x);
            const std::vector<float> exact = logits(cpu::kernels(path), m_exact, x),
                                     rough = logits(cpu::kernels(path), m_rough.linear, x);
            for (std::size_t n = 0; n < outputs; ++n)
                QVERIFY(std::abs(double(exact[n]) - double(rough[n])) <= double(m_rough.bounds[n]) * double(length));
        }
    }
}

void TestCpuRoughHead::aRowAlongTheDifferenceComesNearTheBound()
{
    // What Cauchy-Schwarz allows for is reached where the row points along the difference of the weights.
    const cpu::Kernels& kernels = cpu::kernels(cpu::bestPath());
    std::vector<float> unit(inputs), difference(inputs);
    for (const int n : {0, 18, 333, outputs - 1}) {
        m_exact.readInt8Row(n, difference);
        for (int k = 0; k < inputs; ++k) { // rough weights one by one
            std::ranges::fill(unit, 0.0f);
            unit[std::size_t(k)] = 1.0f;
            difference[std::size_t(k)] -= logits(kernels, m_rough.linear, unit)[std::size_t(n)];
        }
        const double reached = std::abs(double(logits(kernels, m_exact, difference)[std::size_t(n)]) -
                                        double(logits(kernels, m_rough.linear, difference)[std::size_t(n)]));
        const double bound = double(m_rough.bounds[std::size_t(n)]) * double(CpuRoughHead::rowLength(difference));
        QVERIFY2(reached <= bound && reached > 0.99 * bound, qPrintable(QString("%1 of %2").arg(reached).arg(bound)));
    }
}

void TestCpuRoughHead::theLengthOfARowIsThatOfItsIntegersAtLeast()
{
    std::mt19937 random(5);
    std::uniform_real_distribution<float> value(-1.0f, 1.0f);
    for (int round = 0; round < 50; ++round) {
        std::vector<float> x(inputs);
        for (float& v : x)
            v = round % 2 ? value(random) : 1.5f / 32767.0f; // half a step beyond an integer, where the largest is 1
        x[0] = 1.0f;
        std::vector<double> quantized;
        logits(cpu::kernels(cpu::bestPath()), m_exact, x, &quantized);
        double squares = 0.0;
        for (const double v : quantized)
            squares += v * v;
        QVERIFY(std::sqrt(squares) <= double(CpuRoughHead::rowLength(x)));
        QVERIFY(double(CpuRoughHead::rowLength(x)) < 1.001 * std::sqrt(squares));
    }
}

void TestCpuRoughHead::rowsWithoutALengthHaveNoBound()
{
    std::vector<float> x(inputs, 1.0f);
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 1e30f}) {
        x[77] = bad;
        QVERIFY(std::isinf(CpuRoughHead::rowLength(x)));
    }
}

void TestCpuRoughHead::refusesWeightsThatAreNoNumbers()
{
    std::vector<float> values = m_values;
    LinearWeight head = m_head;
    head.dense = values.data();
    values[12345] = std::numeric_limits<float>::quiet_NaN();
    QCOMPARE(CpuRoughHead::make(head, m_exact, 2).error().code, ErrorCode::FormatInvalid);
}

QTEST_APPLESS_MAIN(TestCpuRoughHead)
#include "tst_cpu_rough_head.moc"
