#include "engine/model/random_weights.h"
#include "tests/engine/golden_files.h"

#include <QTest>

#include <cmath>

using namespace octavo;
using namespace octavo::engine;
using namespace octavo::engine::test;

namespace
{

/// A tenth of the 0.8B in every direction but the head sizes.
ModelShape smallShape()
{
    ModelShape shape = *modelShape("qwen3.5-0.8b");
    shape.config.vocabSize = 512;
    shape.config.hiddenSize = 256;
    shape.config.intermediateSize = 384;
    shape.config.numLayers = 4;
    shape.config.layerTypes.resize(4);
    return shape;
}

} // namespace

class TestRandomWeights : public QObject
{
    Q_OBJECT

private slots:
    void haveTheShapesAndParametersOfTheModel()
    {
        for (HeadLayout head : {HeadLayout::Tied, HeadLayout::Untied}) {
            ModelShape shape = smallShape();
            shape.head = head;
            const ModelWeights weights = randomWeights(shape);
            QCOMPARE(weights.parameters,
                     countParameters(textTensors(shape.config, head)) + countParameters(mtpTensors(shape.config)));
            QCOMPARE(weights.lmHead.has_value(), head == HeadLayout::Untied);
            QCOMPARE(weights.layers[0].mlp.up.format, LinearWeight::Format::Int4);
            QCOMPARE(weights.layers[0].gdn->a.format, LinearWeight::Format::Bf16);
            QCOMPARE(weights.mtp->fc.format, LinearWeight::Format::Bf16);
            std::vector<float> row;
            for (const LinearWeight* weight : weights.linears()) { // the last row: nothing lies beyond the stretch
                row.resize(std::size_t(weight->inFeatures));
                weight->dequantizeRow(weight->outFeatures - 1, row);
                for (float value : row)
                    QVERIFY(std::abs(value) < 0.1f);
            }
        }
    }

    void runThroughABackendWithFiniteLogitsThatDependOnTheText()
    {
        const ModelShape shape = smallShape();
        const LoadedModel model{shape.config, std::make_shared<const ModelWeights>(randomWeights(shape))};
        const auto backend = referenceBackend(model);
        const std::size_t vocab = std::size_t(shape.config.vocabSize);
        std::vector<TokenId> ids;
        for (int i = 0; i < 100; ++i)
            ids.push_back(TokenId(i * 37 % 512));
        std::vector<float> logits(ids.size() * vocab);
        QVERIFY(backend->prefill(*backend->createSequence(100), ids, logits));
        double largest = 0.0;
        for (float logit : logits) {
            QVERIFY(std::isfinite(logit));
            largest = std::max(largest, double(std::abs(logit)));
        }
        QVERIFY(largest > 1e-3 && largest < 1e3);
        QVERIFY(
            !std::equal(logits.begin(), logits.begin() + std::ptrdiff_t(vocab), logits.end() - std::ptrdiff_t(vocab)));
    }

    void seedsDecide()
    {
        const ModelShape shape = smallShape();
        const ModelWeights a = randomWeights(shape, 1), b = randomWeights(shape, 1), c = randomWeights(shape, 2);
        auto first = [](const ModelWeights& weights) {
            std::vector<float> row(std::size_t(weights.layers[0].mlp.up.inFeatures));
            weights.layers[0].mlp.up.dequantizeRow(3, row);
            return row;
        };
        QCOMPARE(first(a), first(b));
        QVERIFY(first(a) != first(c));
    }
};

QTEST_GUILESS_MAIN(TestRandomWeights)
#include "tst_random_weights.moc"
