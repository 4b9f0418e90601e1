#include "engine/model/checkpoint_layout.h"
#include "engine/model/weights.h"

#include <QTest>

using namespace octavo;
using namespace octavo::engine;

class TestWeights : public QObject
{
    Q_OBJECT

private slots:
    void opensTheDemoModel();
    void opensTheTinyCheckpointWithNestedNames();
    void countsThePublishedParametersOfThe27B();
};

void TestWeights::opensTheDemoModel()
{
    const auto config = ModelConfig::load(OCTAVO_RESOURCES "/demo-model");
    QVERIFY2(config, config ? "" : config.error().message.c_str());
    const auto weights = ModelWeights::open(OCTAVO_RESOURCES "/demo-model", *config);
    QVERIFY2(weights, weights ? "" : weights.error().message.c_str());
    QCOMPARE(weights->layers.size(), std::size_t(8));
    QVERIFY(!weights->lmHead);
    QVERIFY(weights->mtp);
    QVERIFY(weights->layers[0].gdn && !weights->layers[0].attention);
    QVERIFY(weights->layers[3].attention && !weights->layers[3].gdn);
    const LinearWeight& gate = weights->layers[0].mlp.gate;
    QCOMPARE(gate.format, LinearWeight::Format::Int4);
    QCOMPARE(gate.groupSize, 128);
    QVERIFY(gate.symmetric());
    QVERIFY(gate.groupOfInput.empty()); // the file's g_idx is the trivial one
    QCOMPARE(weights->layers[0].gdn->a.format, LinearWeight::Format::Bf16);
    QCOMPARE(weights->mtp->fc.format, LinearWeight::Format::Bf16);
    QCOMPARE(weights->mtp->layer.mlp.up.format, LinearWeight::Format::Int4);
    QCOMPARE(weights->parameters,
             countParameters(textTensors(*config, HeadLayout::Tied)) + countParameters(mtpTensors(*config)));
}

void TestWeights::opensTheTinyCheckpointWithNestedNames()
{
    const auto config = ModelConfig::load(OCTAVO_TEST_DATA "/goldens/tiny");
    QVERIFY2(config, config ? "" : config.error().message.c_str());
    const auto weights = ModelWeights::open(OCTAVO_TEST_DATA "/goldens/tiny", *config);
    QVERIFY2(weights, weights ? "" : weights.error().message.c_str());
    QVERIFY(weights->lmHead);
    QVERIFY(!weights->mtp);
    QCOMPARE(weights->parameters, countParameters(textTensors(*config, HeadLayout::Untied)));
}

void TestWeights::countsThePublishedParametersOfThe27B()
{
    const auto config = ModelConfig::parse(R"({"model_type": "qwen3_5", "text_config": {
        "vocab_size": 248320, "hidden_size": 5120, "intermediate_size": 17408, "num_hidden_layers": 64,
        "num_attention_heads": 24, "num_key_value_heads": 4, "head_dim": 256, "linear_num_key_heads": 16,
        "linear_num_value_heads": 48, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
        "max_position_embeddings": 262144}})",
                                           "config.json");
    QVERIFY2(config, config ? "" : config.error().message.c_str());
    const auto text = textTensors(*config, HeadLayout::Untied);
    const auto mtp = mtpTensors(*config);
    QCOMPARE(countParameters(text), 26'895'998'464);
    QCOMPARE(countParameters(mtp), 424'699'392);
    QCOMPARE(text.size(), std::size_t(851));
    QCOMPARE(mtp.size(), std::size_t(15));
}

QTEST_GUILESS_MAIN(TestWeights)
#include "tst_weights.moc"
