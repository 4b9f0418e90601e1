#include "engine/model/quantized_linear.h"

#include "engine/model/float_formats.h"

#include <QTest>

#include <cmath>
#include <limits>
#include <random>

using namespace octavo;
using namespace octavo::engine;

namespace
{

/// A float layer and the values it points to.
struct Dense {
    Dense(int outputs, int inputs)
        : values(std::size_t(outputs) * std::size_t(inputs))
    {
        weight.name = "layer";
        weight.format = LinearWeight::Format::F32;
        weight.outFeatures = outputs;
        weight.inFeatures = inputs;
        weight.dense = values.data();
    }
    std::vector<float> values;
    LinearWeight weight;
};

Dense gaussian(int outputs, int inputs, unsigned seed)
{
    Dense dense(outputs, inputs);
    std::mt19937 random(seed);
    std::normal_distribution<float> values(0.0f, 0.02f);
    for (float& w : dense.values)
        w = values(random);
    return dense;
}

double squaredError(const Dense& dense, const std::vector<float>& values)
{
    double sum = 0.0;
    for (std::size_t i = 0; i < values.size(); ++i)
        sum += std::pow(double(values[i]) - double(dense.values[i]), 2);
    return sum;
}

std::vector<float> widened(const LinearWeight& weight)
{
    std::vector<float> values(std::size_t(weight.parameters()));
    weight.dequantize(values);
    return values;
}

} // namespace

class TestQuantizedLinear : public QObject
{
    Q_OBJECT

private slots:
    void errsLessThanRoundingToTheLargestValue_data()
    {
        QTest::addColumn<int>("outputs");
        QTest::addColumn<int>("inputs");
        QTest::newRow("whole groups") << 48 << 512;
        QTest::newRow("a group cut short") << 33 << 200;
    }

    void errsLessThanRoundingToTheLargestValue()
    {
        QFETCH(const int, outputs);
        QFETCH(const int, inputs);
        const Dense dense = gaussian(outputs, inputs, 1);
        const auto int4 = quantizeInt4(dense.weight, 2);
        QVERIFY(int4);
        QCOMPARE(int4->weight.numGroups(), (inputs + 127) / 128);
        QVERIFY(int4->weight.symmetric());
        std::vector<float> plain(dense.values.size()); // the largest value of a group becomes 7
        for (int n = 0; n < outputs; ++n) {
            for (int begin = 0; begin < inputs; begin += 128) {
                float* to = plain.data() + n * inputs;
                const float* from = dense.values.data() + n * inputs;
                const int end = std::min(begin + 128, inputs);
                float largest = 0.0f;
                for (int k = begin; k < end; ++k)
                    largest = std::max(largest, std::abs(from[k]));
                for (int k = begin; k < end; ++k)
                    to[k] = std::round(from[k] / (largest / 7.0f)) * (largest / 7.0f);
            }
        }
        const double error = squaredError(dense, widened(int4->weight));
        QVERIFY2(error < 0.9 * squaredError(dense, plain),
                 qPrintable(QString::number(error / squaredError(dense, plain))));
    }

    void valuesOnAGridComeBackExactly()
    {
        // Negative scales too, as some checkpoints have them; every code stands in every group.
        Dense dense(20, 384);
        for (std::size_t i = 0; i < dense.values.size(); ++i)
            dense.values[i] = (i / 384 % 2 == 0 ? 0.015625f : -0.25f) * float(int(i * 7 % 16) - 8);
        const auto int4 = quantizeInt4(dense.weight, 3);
        QVERIFY(int4);
        QVERIFY(widened(int4->weight) == dense.values);
    }

    void sixteenBitFormsGiveWhatTheirValuesGive()
    {
        Dense dense = gaussian(17, 256, 2);
        std::vector<std::uint16_t> bf16, half;
        for (float& w : dense.values) { // bf16 holds these exactly, and so does fp16
            w = std::ldexp(std::round(std::ldexp(w, 10)), -10);
            bf16.push_back(std::uint16_t(std::bit_cast<std::uint32_t>(w) >> 16));
            half.push_back(halfFromFloat(w));
            QCOMPARE(floatFromHalf(half.back()), w);
            QCOMPARE(floatFromBf16(bf16.back()), w);
        }
        const auto expected = quantizeInt4(dense.weight, 1);
        for (const auto& [format, data] :
             {std::pair(LinearWeight::Format::Bf16, bf16.data()), std::pair(LinearWeight::Format::F16, half.data())}) {
            LinearWeight stored = dense.weight;
            stored.format = format;
            stored.dense = data;
            const auto int4 = quantizeInt4(stored, 1);
            QVERIFY(int4->codes == expected->codes && int4->scales == expected->scales);
        }
    }

    void theNumberOfThreadsChangesNothing()
    {
        const Dense dense = gaussian(100, 384, 3);
        const auto one = quantizeInt4(dense.weight, 1);
        for (const int threads : {2, 3, 16, 200}) {
            const auto many = quantizeInt4(dense.weight, threads);
            QVERIFY(many->codes == one->codes && many->scales == one->scales);
        }
    }

    void groupsOfZerosAndTinyValuesStayFinite()
    {
        Dense dense(3, 256);
        for (int k = 0; k < 256; ++k)
            dense.values[256 + std::size_t(k)] = k % 2 == 0 ? 1e-30f : -1e-9f; // below what a scale can hold
        dense.values[512] = 3e38f;                                            // above it
        const auto int4 = quantizeInt4(dense.weight, 2);
        QVERIFY(int4);
        const std::vector<float> values = widened(int4->weight);
        for (std::size_t i = 0; i < 512; ++i)
            QVERIFY(std::abs(values[i]) <= 1e-7f);
        for (const float w : values)
            QVERIFY(std::isfinite(w));
        QVERIFY(values[512] > 0.0f && values[513] == 0.0f);
    }

    void whatIsNoNumberIsRefused()
    {
        for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
            Dense dense = gaussian(40, 256, 4);
            dense.values[5000] = bad;
            const auto refused = quantizeInt4(dense.weight, 2);
            QVERIFY(!refused);
            QCOMPARE(refused.error().code, ErrorCode::FormatInvalid);
            QVERIFY(refused.error().message.find("layer") == 0);
        }
    }

    void takesBigFloatLayersAlone()
    {
        Dense small(64, 64), odd(64, 130), fits(64, 136);
        QVERIFY(!canQuantize(small.weight));
        QVERIFY(!canQuantize(odd.weight));
        QVERIFY(canQuantize(fits.weight));
        QVERIFY(!canQuantize(quantizeInt4(fits.weight, 1)->weight));
    }

    void halvesAreRoundedToTheNearest()
    {
        for (int bits = 0; bits < 0x10000; ++bits) { // every half is its own
            const float value = floatFromHalf(std::uint16_t(bits));
            if (!std::isnan(value))
                QCOMPARE(halfFromFloat(value), std::uint16_t(bits));
        }
        QCOMPARE(halfFromFloat(65519.0f), std::uint16_t(0x7bff));
        QCOMPARE(halfFromFloat(65520.0f), std::uint16_t(0x7c00));
        QCOMPARE(halfFromFloat(1.0f + 0x1p-11f), std::uint16_t(0x3c00)); // ties go to even
        QCOMPARE(halfFromFloat(1.0f + 0x3p-11f), std::uint16_t(0x3c02));
        QCOMPARE(halfFromFloat(0x1p-25f), std::uint16_t(0));
        QCOMPARE(halfFromFloat(0x3p-25f), std::uint16_t(2));
        QVERIFY(std::isnan(floatFromHalf(halfFromFloat(std::numeric_limits<float>::quiet_NaN()))));
    }
};

QTEST_GUILESS_MAIN(TestQuantizedLinear)
#include "tst_quantized_linear.moc"
