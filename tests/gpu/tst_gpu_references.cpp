/// The yardsticks of the CUDA kernels, checked by hand-worked numbers on machines that have no GPU.

#include "kernels/cuda/attention_decode.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/gdn_chunk.h"
#include "kernels/cuda/gdn_decode.h"
#include "kernels/cuda/hot_buffer.h"
#include "kernels/cuda/sketch.h"
#include "kernels/cuda/w4_gemm.h"

#include <QTest>

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <vector>

using namespace octavo::kernels::cuda;

namespace
{

constexpr std::uint16_t halfOne = 0x3c00, halfMinusTwo = 0xc000;

} // namespace

class TestGpuReferences : public QObject
{
    Q_OBJECT

private slots:
    void everyPackedWeightComesBack();
    void packedPartsShareAMatrix();
    void w4ReferenceMultipliesByHand();
    void deltaRuleStoresAndRecallsAValue();
    void chunksGiveWhatTheDeltaRuleGivesRowByRow();
    void convolutionSlidesOverItsHistory();
    void ropeRotatesPairsThirtyTwoApart();
    void rmsNormOfEqualValuesIsTheWeight();
    void everySketchCodeHasItsPlace();
    void aSketchQueryIsRoundedToAHundredTwentySeventhOfItsPeak();
    void whatTwoRowsPickIsBroughtOnce();
    void aLiftedRowStandsForOthersLikeIt();
    void boostsAreThoseOfNumbersSpreadEvenly();
};

void TestGpuReferences::everyPackedWeightComesBack()
{
    const int outFeatures = 130, inFeatures = 264, groups = 3;
    std::vector<std::uint32_t> qweight(std::size_t(inFeatures / 8) * outFeatures);
    std::vector<std::uint16_t> scales(std::size_t(groups) * outFeatures);
    for (std::size_t i = 0; i < qweight.size(); ++i)
        qweight[i] = std::uint32_t(i * 2654435761u);
    for (std::size_t i = 0; i < scales.size(); ++i)
        scales[i] = std::uint16_t(i);
    std::vector<std::uint8_t> units(std::size_t(w4PackedBytes(outFeatures, inFeatures)));
    clearW4(units);
    packW4(qweight.data(), scales.data(), outFeatures, inFeatures, units);
    for (int n = 0; n < outFeatures; ++n) {
        for (int k = 0; k < inFeatures; ++k) {
            const int code = (qweight[std::size_t(k / 8) * outFeatures + n] >> (4 * (k % 8))) & 15;
            QCOMPARE(w4CodeAt(units.data(), inFeatures, n, k), code);
            QCOMPARE(w4ScaleAt(units.data(), inFeatures, n, k), scales[std::size_t(k / 128) * outFeatures + n]);
        }
    }
    // Padding multiplies to zero: code 8 everywhere beyond the linear.
    QCOMPARE(w4CodeAt(units.data(), inFeatures, 130, 0), 8);
    QCOMPARE(w4CodeAt(units.data(), inFeatures, 0, 264), 8);
    QCOMPARE(w4ScaleAt(units.data(), inFeatures, 130, 0), std::uint16_t(0));
}

void TestGpuReferences::packedPartsShareAMatrix()
{
    const std::vector<std::uint32_t> low(4, 0x11111111u), high(4 * 3, 0xeeeeeeeeu);
    const std::vector<std::uint16_t> one(3, halfOne);
    std::vector<std::uint8_t> units(std::size_t(w4PackedBytes(4, 32)));
    clearW4(units);
    packW4(low.data(), one.data(), 1, 32, units, 0);
    packW4(high.data(), one.data(), 3, 32, units, 1);
    QCOMPARE(w4CodeAt(units.data(), 32, 0, 31), 1);
    QCOMPARE(w4CodeAt(units.data(), 32, 1, 0), 14);
    QCOMPARE(w4CodeAt(units.data(), 32, 3, 31), 14);
}

void TestGpuReferences::w4ReferenceMultipliesByHand()
{
    // One output, eight inputs with codes 0..7, so weights -8..-1 times the scale -2: 16, 14, ..., 2.
    const std::uint32_t word = 0x76543210u;
    const std::uint16_t scale = halfMinusTwo;
    std::vector<std::uint8_t> units(std::size_t(w4PackedBytes(1, 8)));
    clearW4(units);
    packW4(&word, &scale, 1, 8, units);
    const float x[8] = {1, 0, 0, 0, 0, 0, 0, 10};
    double y = 0;
    referenceW4Gemm(x, 1, units.data(), 1, 8, &y);
    QCOMPARE(y, 16.0 + 20.0);
}

void TestGpuReferences::deltaRuleStoresAndRecallsAValue()
{
    // Unit key e0, beta near 1, hardly any decay: after one step the state's row 0 is the value, and reading with the
    // same direction gives it back times 128^-0.5; the gated norm then makes every equal entry 1 * silu(z).
    const float aLog = -30.0f, dtBias = 0.0f;
    const std::vector<float> norm(128, 1.0f);
    const GdnLayer layer{1, 1, &aLog, &dtBias, norm.data(), 0.0f};
    std::vector<float> qkv(3 * 128, 0.0f), gate(128, 1.0f);
    qkv[0] = 5.0f;   // q, normalised to e0
    qkv[128] = 2.0f; // k
    for (int j = 0; j < 128; ++j)
        qkv[256 + j] = 3.0f;
    const float beta = 40.0f, decay = 0.0f;
    std::vector<double> state(128 * 128, 0.0), output(128);
    referenceGdnDecode(state.data(), qkv.data(), &beta, &decay, gate.data(), 1, layer, output.data());
    QVERIFY(std::abs(state[5] - 3.0) < 1e-6);
    QVERIFY(std::abs(state[128 + 5]) < 1e-6);
    QVERIFY(std::abs(output[7] - 1.0 / (1.0 + std::exp(-1.0))) < 1e-6);
}

void TestGpuReferences::chunksGiveWhatTheDeltaRuleGivesRowByRow()
{
    constexpr int rows = 70; // a whole chunk and a part of one
    const std::vector<float> aLog = {-1.0f, 0.5f}, dtBias = {0.25f, -0.5f}, norm(128, 1.0f);
    const GdnLayer layer{1, 2, aLog.data(), dtBias.data(), norm.data(), 1e-6f};
    const auto values = [](std::size_t count, double step) {
        std::vector<float> out(count);
        for (std::size_t i = 0; i < count; ++i)
            out[i] = float(std::sin(double(i) * step) + 0.3);
        return out;
    };
    const std::vector<float> qkv = values(std::size_t(rows) * std::size_t(layer.convDim()), 0.7);
    const std::vector<float> gate = values(std::size_t(rows) * std::size_t(layer.valueDim()), 1.3);
    const std::vector<float> beta = values(2 * rows, 2.1), decay = values(2 * rows, 0.9);
    std::vector<double> state(2 * 128 * 128), output(gate.size());
    for (std::size_t i = 0; i < state.size(); ++i)
        state[i] = std::cos(double(i) * 0.11);
    std::vector<double> chunkedState = state, chunked(gate.size());
    referenceGdnDecode(state.data(), qkv.data(), beta.data(), decay.data(), gate.data(), rows, layer, output.data());
    referenceGdnChunks(chunkedState.data(), qkv.data(), beta.data(), decay.data(), gate.data(), rows, layer,
                       chunked.data());
    double worst = 0.0;
    for (std::size_t i = 0; i < state.size(); ++i)
        worst = std::max(worst, std::abs(state[i] - chunkedState[i]));
    for (std::size_t i = 0; i < output.size(); ++i)
        worst = std::max(worst, std::abs(output[i] - chunked[i]));
    QVERIFY2(worst < 1e-10, qPrintable(QString::number(worst)));
}

void TestGpuReferences::convolutionSlidesOverItsHistory()
{
    const float weights[4] = {1, 10, 100, 1000}; // oldest first
    double history[3] = {1, 2, 3};
    const float input[2] = {4, 5};
    double output[2];
    referenceGdnConv(history, input, 2, 1, weights, output);
    const double first = 1 + 20 + 300 + 4000, second = 2 + 30 + 400 + 5000;
    QVERIFY(std::abs(output[0] - first) < 1e-9); // silu(x) = x far from zero
    QVERIFY(std::abs(output[1] - second) < 1e-9);
    QCOMPARE(history[0], 3.0);
    QCOMPARE(history[2], 5.0);
}

void TestGpuReferences::ropeRotatesPairsThirtyTwoApart()
{
    std::vector<float> head(256, 0.0f), weight(256, 1.0f), frequencies(32, 0.0f);
    head[0] = 16.0f; // the mean square is then 1
    frequencies[0] = 1.5707963267948966f;
    std::vector<double> out(256);
    referenceHeadNormRope(head.data(), weight.data(), 0.0, 1, frequencies.data(), out.data());
    QVERIFY(std::abs(out[0]) < 1e-6);
    QVERIFY(std::abs(out[32] - 16.0) < 1e-6);
}

void TestGpuReferences::rmsNormOfEqualValuesIsTheWeight()
{
    double hidden[4] = {1, 1, 1, 1};
    const float delta[4] = {2, 2, 2, 2}, weight[4] = {1, 2, 3, 4};
    double y[4];
    referenceAddRmsNorm(hidden, delta, weight, 0.0, 1, 4, y);
    QCOMPARE(hidden[0], 3.0);
    QVERIFY(std::abs(y[3] - 4.0) < 1e-12);
}

void TestGpuReferences::everySketchCodeHasItsPlace()
{
    std::vector<std::uint8_t> tile(sketchTileBytes);
    for (int byte = 0; byte < sketchTileBytes; ++byte) {
        for (int half = 0; half < 2; ++half) {
            std::fill(tile.begin(), tile.end(), std::uint8_t(0));
            tile[std::size_t(byte)] = std::uint8_t(half ? 0x90 : 0x09);
            int found = 0;
            for (int token = 0; token < sketchTileTokens; ++token)
                for (int c = 0; c < sketchRank; ++c)
                    found += sketchCodeAt(tile.data(), token, c) == 9;
            QCOMPARE(found, 1);
        }
    }
    std::set<std::int64_t> scales;
    for (std::int64_t token = 640; token < 640 + sketchBlockTokens; ++token)
        scales.insert(sketchScaleIndex(token));
    QCOMPARE(int(scales.size()), sketchBlockTokens);
    QCOMPARE(*scales.begin(), std::int64_t{640});
    QCOMPARE(*scales.rbegin(), std::int64_t{640 + sketchBlockTokens - 1});
}

void TestGpuReferences::aSketchQueryIsRoundedToAHundredTwentySeventhOfItsPeak()
{
    std::vector<float> projected(sketchRank, 0.0f);
    projected[3] = -2.54f, projected[4] = 0.02f, projected[5] = 0.009f, projected[6] = 1.27f;
    std::vector<double> query(sketchRank);
    referenceSketchQuery(projected.data(), query.data());
    QVERIFY(std::abs(query[3] + 2.54) < 1e-6 && std::abs(query[4] - 0.02) < 1e-6 && query[5] == 0.0);
    QVERIFY(std::abs(query[6] - 1.27) < 0.011); // 63.5 steps
    referenceSketchQuery(std::vector<float>(sketchRank, 0.0f).data(), query.data());
    QVERIFY(std::ranges::all_of(query, [](double value) { return value == 0.0; }));
}

void TestGpuReferences::whatTwoRowsPickIsBroughtOnce()
{
    // Slots 0 and 1 hold tokens 7 and 3, 2 and 3 are empty; the first row picks 3 and 5, the second 5 and 9.
    std::vector<std::int32_t> slotOfToken(10, -1), tokenOfSlot{7, 3, -1, -1}, picks{3, 5, 5, 9}, rowIds(4, -1);
    slotOfToken[7] = 0, slotOfToken[3] = 1;
    std::vector<std::uint8_t> marks{1, 1, 0, 0};
    std::int32_t hand = 0, numMisses = 0;
    std::vector<std::int32_t> counts{2, 2}, missTokens(4, -1), missSlots(4, -1);
    const std::vector<HotList> lists{{picks.data(), counts.data(), rowIds.data()},
                                     {picks.data() + 2, counts.data() + 1, rowIds.data() + 2}};
    referenceHotLookup({slotOfToken.data(), tokenOfSlot.data(), marks.data(), &hand, 4, lists.data(), 2,
                        missTokens.data(), missSlots.data(), &numMisses});
    QCOMPARE(numMisses, 2);
    QCOMPARE(missTokens[0], 5);
    QCOMPARE(missTokens[1], 9);
    QCOMPARE(rowIds, (std::vector<std::int32_t>{1, 2, 2, 3}));
    QCOMPARE(marks, (std::vector<std::uint8_t>{0, 1, 1, 1}));
    QCOMPARE(hand, 0);
}

void TestGpuReferences::aLiftedRowStandsForOthersLikeIt()
{
    // A row of score 0 and value 1, and one of score 0 and value 3 that stands for three: (1 + 3 * 3) / 4 by half.
    const std::vector<float> query(256), gate(256), keys(512), lifts{0.0f, std::log(3.0f)};
    std::vector<float> values(512, 1.0f);
    std::fill(values.begin() + 256, values.end(), 3.0f);
    std::vector<double> out(256);
    referenceAttentionHead(query.data(), gate.data(), keys.data(), values.data(), 256, 2, out.data(), lifts.data());
    QVERIFY(std::abs(out[17] - 1.25) < 1e-6);
    referenceAttentionHead(query.data(), gate.data(), keys.data(), values.data(), 256, 2, out.data());
    QVERIFY(std::abs(out[17] - 1.0) < 1e-12);
}

void TestGpuReferences::boostsAreThoseOfNumbersSpreadEvenly()
{
    // By groups: the numbers u whose -log they are fall evenly into (0, 1), in each stretch of a context.
    for (const int first : {0, 64 * 1000, 64 * 3000}) {
        std::vector<int> bins(16);
        for (int token = first; token < first + 64 * 256; token += token % 64 == 7 ? 57 : 1) {
            const double u = std::exp(-double(sketchBoost(token)) / sketchKeyUnit);
            QVERIFY(u > 0.0 && u < 1.0);
            ++bins[std::size_t(u * 16)];
            QCOMPARE(sketchBoost(token + 56), sketchBoost(token)); // of the same group
        }
        for (const int bin : bins)
            QVERIFY2(std::abs(bin - 128) <= 3, qPrintable(QString::number(bin)));
    }
    for (std::uint32_t m = 1; m < 65536; m += 2) {
        const double want = -std::log(m / 65536.0),
                     got = double(sketchNegLog(m, std::bit_width(m) - 1)) / sketchKeyUnit;
        QVERIFY2(std::abs(got - want) < 2e-3, qPrintable(QString::number(m)));
    }
}

QTEST_GUILESS_MAIN(TestGpuReferences)
#include "tst_gpu_references.moc"
