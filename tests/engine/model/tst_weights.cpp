#include "engine/model/checkpoint_hash.h"
#include "engine/model/checkpoint_layout.h"
#include "engine/model/weights.h"
#include "tests/engine/checkpoint_writer.h"
#include "tests/engine/golden_files.h"

#include <QSet>
#include <QTemporaryDir>
#include <QTest>

using namespace octavo;
using namespace octavo::engine;
using namespace octavo::engine::test;

namespace
{

LoadedModel writtenModel(const ModelForm& form, std::size_t alignment = 8)
{
    const QTemporaryDir dir; // the map outlives the folder's name
    const std::string path = dir.path().toStdString();
    const auto config = ModelConfig::parse(smallConfigJson(form), "config.json");
    if (!config)
        qFatal("%s", config.error().message.c_str());
    ModelWriter(*config, form).write(path, alignment);
    return loadModel(path);
}

std::vector<float> dequantized(const LinearWeight& weight)
{
    std::vector<float> values(std::size_t(weight.parameters()));
    weight.dequantize(values);
    return values;
}

} // namespace

class TestWeights : public QObject
{
    Q_OBJECT

private slots:
    void opensTheDemoModel();
    void opensTheTinyCheckpointWithNestedNames();
    void countsThePublishedParametersOfThe27B();
    void findsTensorsUnderEveryPrefix_data();
    void findsTensorsUnderEveryPrefix();
    void int4FormsGiveTheWeightsTheyStandFor_data();
    void int4FormsGiveTheWeightsTheyStandFor();
    void rowsAreThoseOfTheWholeMatrix();
    void widensGatesOfEitherDtypeAndAddsOneToZeroCentredNormsOnly();
    void copiesWhatTheFilePlacesOffItsAlignment();
    void readsMixedSymmetryModuleByModule();
    void hashChangesWithConfigAndTensors();
    void hashChangesWithEveryByteOfTheWeights();
    void aLargeCheckpointsHashChangesWithBothEndsOfEveryTensor();
    void oneGroupPerOutputMustBeOne();
    void misfitsGiveOneLineWithTensorFoundAndExpected_data();
    void misfitsGiveOneLineWithTensorFoundAndExpected();
};

void TestWeights::opensTheDemoModel()
{
    const auto config = ModelConfig::load(OCTAVO_RESOURCES "/demo-model");
    QVERIFY2(config, config ? "" : config.error().message.c_str());
    const auto weights = ModelWeights::open(OCTAVO_RESOURCES "/demo-model", *config);
    QVERIFY2(weights, weights ? "" : weights.error().message.c_str());
    QCOMPARE(weights->layers.size(), std::size_t(config->numLayers));
    QVERIFY(!weights->lmHead);
    QVERIFY(weights->mtp);
    for (std::size_t i = 0; i < weights->layers.size(); ++i) {
        const bool full = config->layerTypes[i] == LayerType::FullAttention;
        QCOMPARE(weights->layers[i].attention.has_value(), full);
        QCOMPARE(weights->layers[i].gdn.has_value(), !full);
    }
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

void TestWeights::findsTensorsUnderEveryPrefix_data()
{
    QTest::addColumn<QByteArray>("textPrefix");
    QTest::addColumn<QByteArray>("mtpPrefix");
    for (const char* text : {"model.language_model.", "model.", "language_model.model."}) {
        for (const char* mtp : {"", "mtp.", "model.mtp.", "language_model.mtp."})
            QTest::addRow("%s %s", text, mtp) << QByteArray(text) << QByteArray(mtp);
    }
}

void TestWeights::findsTensorsUnderEveryPrefix()
{
    QFETCH(QByteArray, textPrefix);
    QFETCH(QByteArray, mtpPrefix);
    ModelForm form;
    form.textPrefix = textPrefix.toStdString();
    form.mtpPrefix = mtpPrefix.toStdString();
    form.mtp = !mtpPrefix.isEmpty();
    for (HeadLayout head : {HeadLayout::Tied, HeadLayout::Untied}) {
        form.head = head;
        const LoadedModel model = writtenModel(form);
        QCOMPARE(model.weights->mtp.has_value(), form.mtp);
        QCOMPARE(model.weights->lmHead.has_value(), head == HeadLayout::Untied);
        QCOMPARE(&model.weights->head(),
                 head == HeadLayout::Untied ? &*model.weights->lmHead : &model.weights->embedding);
        std::int64_t expected = countParameters(textTensors(model.config, head));
        if (form.mtp)
            expected += countParameters(mtpTensors(model.config));
        QCOMPARE(model.weights->parameters, expected);
    }
}

void TestWeights::int4FormsGiveTheWeightsTheyStandFor_data()
{
    QTest::addColumn<int>("zeros");
    QTest::addColumn<bool>("actOrder");
    QTest::addColumn<bool>("mtp");
    const std::pair<const char*, StoredZeros> conventions[] = {{"zeros 7", StoredZeros::AllSeven},
                                                               {"zeros 8", StoredZeros::AllEight},
                                                               {"asymmetric v1", StoredZeros::AsymmetricV1},
                                                               {"asymmetric v2", StoredZeros::AsymmetricV2}};
    for (const auto& [name, zeros] : conventions) {
        for (bool actOrder : {false, true}) {
            for (bool mtp : {false, true})
                QTest::addRow("%s, actOrder=%d, int4 mtp=%d", name, actOrder, mtp) << int(zeros) << actOrder << mtp;
        }
    }
}

void TestWeights::int4FormsGiveTheWeightsTheyStandFor()
{
    QFETCH(int, zeros);
    QFETCH(bool, actOrder);
    QFETCH(bool, mtp);
    ModelForm form;
    form.zeros = StoredZeros(zeros);
    form.actOrder = actOrder;
    const LoadedModel plain = writtenModel(form);
    form.int4 = true;
    form.int4Mtp = mtp;
    form.trivialGroups = true;
    const LoadedModel packed = writtenModel(form);

    const auto expected = plain.weights->linears(), found = packed.weights->linears();
    QCOMPARE(found.size(), expected.size());
    int int4Modules = 0, negativeScales = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
        QVERIFY2(dequantized(*found[i]) == dequantized(*expected[i]), found[i]->name.c_str());
        if (found[i]->format != LinearWeight::Format::Int4)
            continue;
        ++int4Modules;
        QCOMPARE(found[i]->groupSize, testGroupSize);
        QCOMPARE(found[i]->symmetric(), form.symmetric());
        QCOMPARE(found[i]->groupOfInput.empty(), !actOrder);
        for (int n = 0; n < found[i]->numGroups() * found[i]->outFeatures; ++n)
            negativeScales += found[i]->scales[n] >> 15;
    }
    QCOMPARE(int4Modules, 3 * 6 + 7 + (mtp ? 7 : 0));
    QVERIFY(negativeScales > 100);
}

void TestWeights::rowsAreThoseOfTheWholeMatrix()
{
    ModelForm form;
    form.int4 = true;
    form.actOrder = true;
    form.zeros = StoredZeros::AsymmetricV1;
    const LoadedModel model = writtenModel(form);
    for (const LinearWeight* weight : model.weights->linears()) {
        const std::vector<float> whole = dequantized(*weight);
        std::vector<float> row(std::size_t(weight->inFeatures));
        for (int n = 0; n < weight->outFeatures; ++n) {
            weight->dequantizeRow(n, row);
            QVERIFY(std::equal(row.begin(), row.end(), whole.begin() + std::ptrdiff_t(n) * weight->inFeatures));
        }
    }
}

void TestWeights::widensGatesOfEitherDtypeAndAddsOneToZeroCentredNormsOnly()
{
    ModelForm form;
    const LoadedModel wide = writtenModel(form);
    form.gateDtype = "BF16";
    const LoadedModel narrow = writtenModel(form);
    QCOMPARE(narrow.weights->layers[0].gdn->aLog, wide.weights->layers[0].gdn->aLog);
    QCOMPARE(narrow.weights->layers[0].gdn->norm, wide.weights->layers[0].gdn->norm);
    for (float w : wide.weights->layers[0].gdn->norm) // stored as 0.016 to 0.25, either sign
        QVERIFY(std::abs(w) < 0.3f);
    for (const std::vector<float>* norm :
         {&wide.weights->finalNorm, &wide.weights->layers[0].inputNorm, &wide.weights->layers[3].postAttentionNorm,
          &wide.weights->layers[3].attention->qNorm, &wide.weights->layers[3].attention->kNorm,
          &wide.weights->mtp->norm, &wide.weights->mtp->preFcNormEmbedding, &wide.weights->mtp->preFcNormHidden,
          &wide.weights->mtp->layer.inputNorm}) {
        for (float w : *norm)
            QVERIFY(w > 0.7f && w < 1.3f);
    }
}

void TestWeights::copiesWhatTheFilePlacesOffItsAlignment()
{
    ModelForm form;
    form.int4 = true;
    const LoadedModel aligned = writtenModel(form);
    for (std::size_t alignment : {1, 2, 3}) {
        const LoadedModel shifted = writtenModel(form, alignment);
        const auto expected = aligned.weights->linears(), found = shifted.weights->linears();
        for (std::size_t i = 0; i < found.size(); ++i) {
            QCOMPARE(reinterpret_cast<std::uintptr_t>(found[i]->qweight) % 4, 0u);
            QCOMPARE(reinterpret_cast<std::uintptr_t>(found[i]->scales) % 2, 0u);
            QVERIFY(dequantized(*found[i]) == dequantized(*expected[i]));
        }
    }
}

void TestWeights::readsMixedSymmetryModuleByModule()
{
    ModelForm form;
    form.int4 = true;
    form.zeros = StoredZeros::AsymmetricV1;
    const QTemporaryDir dir;
    const std::string path = dir.path().toStdString();
    auto config = ModelConfig::parse(smallConfigJson(form), "config.json");
    ModelWriter(*config, form).write(path);

    config->quantization.symmetric = true; // the file says "sym", its zeros say otherwise
    const auto refused = ModelWeights::open(path, *config);
    QVERIFY(!refused);
    QVERIFY2(refused.error().message.find("zero points other than all 7 or all 8") != std::string::npos,
             refused.error().message.c_str());
    config->quantization.mixedSymmetry = true; // some pattern made modules asymmetric: then the zeros decide
    const auto read = ModelWeights::open(path, *config);
    QVERIFY2(read, read ? "" : read.error().message.c_str());
    QVERIFY(!read->layers[0].mlp.up.symmetric());
    config->quantization.symmetricByModule["model.language_model.layers.0.mlp.up_proj"] = true;
    QVERIFY(!ModelWeights::open(path, *config));
}

void TestWeights::hashChangesWithConfigAndTensors()
{
    ModelForm form;
    const std::uint64_t hash = writtenModel(form).weights->hash;
    QCOMPARE(writtenModel(form).weights->hash, hash);
    form.mtp = false;
    const std::uint64_t withoutMtp = writtenModel(form).weights->hash;
    QVERIFY(withoutMtp != hash);
    form.mtp = true;
    form.gateDtype = "BF16";
    QVERIFY(writtenModel(form).weights->hash != hash);

    const QTemporaryDir dir;
    const std::string path = dir.path().toStdString();
    const auto config = ModelConfig::parse(smallConfigJson(), "config.json");
    ModelWriter(*config, ModelForm{}).write(path);
    writeFile(path + "/config.json", smallConfigJson() + " ");
    QVERIFY(ModelWeights::open(path, *config)->hash != hash);
}

void TestWeights::hashChangesWithEveryByteOfTheWeights()
{
    const QTemporaryDir dir;
    const std::string path = dir.path().toStdString();
    SafetensorsWriter writer;
    writer.add("a", "U8", {100}, std::vector<std::uint8_t>(100, 1));
    writer.add("b", "U8", {7, 3}, std::vector<std::uint8_t>(21, 1));
    const std::string good = writer.bytes();
    auto hashWith = [&](std::size_t changed) {
        std::string bytes = good;
        if (changed < bytes.size())
            bytes[changed] ^= 1;
        writeFile(path + "/model.safetensors", bytes);
        const auto checkpoint = Checkpoint::open(path);
        return checkpoint ? checkpointHash(*checkpoint, "{}") : 0;
    };
    QSet<std::uint64_t> hashes{0, hashWith(good.size())};
    QCOMPARE(hashes.size(), 2);
    for (std::size_t back = 1; back <= 121; ++back)
        hashes.insert(hashWith(good.size() - back));
    QCOMPARE(hashes.size(), 2 + 121);
}

void TestWeights::aLargeCheckpointsHashChangesWithBothEndsOfEveryTensor()
{
    constexpr std::size_t large = (std::size_t{20} << 20) + 77; // blocks at its ends and two between
    const QTemporaryDir dir;
    const std::string path = dir.path().toStdString();
    SafetensorsWriter writer;
    writer.add("a", "U8", {large}, std::vector<std::uint8_t>(large, 1));
    writer.add("b", "U8", {70'000}, std::vector<std::uint8_t>(70'000, 1));
    writer.add("norm", "U8", {500}, std::vector<std::uint8_t>(500, 1));
    const std::string good = writer.bytes();
    const std::size_t start = good.size() - large - 70'000 - 500;
    QFile file(QString::fromStdString(path + "/model.safetensors"));
    writeFile(file.fileName().toStdString(), good);
    QVERIFY(file.open(QIODevice::ReadWrite));
    auto hashWith = [&](std::size_t at) { // the map shows what is written to the file
        file.seek(qint64(at));
        file.write(QByteArray(1, char(good[at] ^ 1)));
        file.flush();
        const auto checkpoint = Checkpoint::open(path);
        const std::uint64_t hash = checkpoint ? checkpointHash(*checkpoint, "{}", 0) : 0;
        file.seek(qint64(at));
        file.write(QByteArray(1, good[at]));
        file.flush();
        return hash;
    };
    const auto checkpoint = Checkpoint::open(path);
    QVERIFY(checkpoint);
    const std::uint64_t hash = checkpointHash(*checkpoint, "{}", 0);
    const std::size_t third = (large - 4096) / 3;
    for (const std::size_t at : {start, start + 4095, start + third, start + 2 * third + 4095, start + large - 1,
                                 start + large, start + large + 69'999, good.size() - 500, good.size() - 1})
        QVERIFY2(hashWith(at) != hash, qPrintable(QStringLiteral("byte %1").arg(at - start)));
    QCOMPARE(hashWith(start + 5000), hash); // what is not sampled: the price of not reading 16 GB
}

void TestWeights::oneGroupPerOutputMustBeOne()
{
    ModelForm form;
    form.int4 = true;
    const QTemporaryDir dir;
    const std::string path = dir.path().toStdString();
    std::string json = smallConfigJson(form);
    const std::string size = "\"group_size\": 16";
    QVERIFY(json.find(size) != std::string::npos);
    json.replace(json.find(size), size.size(), "\"group_size\": -1");
    const auto config = ModelConfig::parse(json, "config.json");
    QVERIFY(config);
    ModelWriter(*config, form).write(path); // with 16 inputs a group
    const auto weights = ModelWeights::open(path, *config);
    QVERIFY(!weights);
    QVERIFY2(weights.error().message.find("expected 1: config.json's group_size is -1") != std::string::npos,
             weights.error().message.c_str());
}

void TestWeights::misfitsGiveOneLineWithTensorFoundAndExpected_data()
{
    QTest::addColumn<QByteArray>("from");
    QTest::addColumn<QByteArray>("to");
    QTest::addColumn<QByteArray>("says");
    auto add = [](const char* name, const char* from, const char* to, const char* says) {
        QTest::newRow(name) << QByteArray(from) << QByteArray(to) << QByteArray(says);
    };
    // Each replaces a piece of the header.
    add("tensor missing", "layers.2.mlp.down_proj.qweight", "layers.9.mlp.down_proj.qweight",
        "lacks the tensor \"model.language_model.layers.2.mlp.down_proj.weight\"");
    add("scales missing", "layers.2.mlp.down_proj.scales", "layers.9.mlp.down_proj.scales",
        "lacks the tensor \"model.language_model.layers.2.mlp.down_proj.scales\"");
    add("no embedding", "embed_tokens", "embed_tokenz",
        "lacks the tensor \"model.language_model.embed_tokens.weight\"");
    add("embedding transposed", "[48,64]", "[64,48]", "has shape [64, 48], expected [48, 64] by config.json");
    add("qweight transposed", "\"shape\":[12,64]", "\"shape\":[64,12]",
        "down_proj.qweight\" has shape [64, 12], expected [12, 64]");
    add("scales of another shape", "\"F16\",\"shape\":[6,64]", "\"F16\",\"shape\":[3,128]",
        "down_proj.scales\" has shape [3, 128], expected [3, 64]");
    add("scales in BF16", "\"F16\",\"shape\":[6,64]", "\"I16\",\"shape\":[6,64]",
        "down_proj.scales\" is stored as I16, expected F16");
    add("zeros of another shape", "\"I32\",\"shape\":[6,8]", "\"I32\",\"shape\":[8,6]",
        "down_proj.qzeros\" has shape [8, 6], expected [6, 8]");
    add("norm in I16", "\"BF16\",\"shape\":[64]", "\"I16\", \"shape\":[64]",
        "layernorm.weight\" is stored as I16, expected F32, BF16 or F16");
    add("linear in I16", "\"BF16\",\"shape\":[4,64]", "\"I16\", \"shape\":[4,64]",
        "is stored as I16, expected BF16, F16, F32 or GPTQ int4");
    add("a bias", "layers.0.mlp.up_proj.g_idx", "layers.0.mlp.up_proj.bias", "has a bias");
}

void TestWeights::misfitsGiveOneLineWithTensorFoundAndExpected()
{
    QFETCH(QByteArray, from);
    QFETCH(QByteArray, to);
    QFETCH(QByteArray, says);
    ModelForm form;
    form.int4 = true;
    form.trivialGroups = true;
    const QTemporaryDir dir;
    const std::string path = dir.path().toStdString();
    const auto config = ModelConfig::parse(smallConfigJson(form), "config.json");
    ModelWriter writer(*config, form);
    writer.write(path);
    const std::string file = writer.file().bytes();
    std::uint64_t headerBytes = 0;
    std::memcpy(&headerBytes, file.data(), 8);
    std::string header = file.substr(8, headerBytes);
    const std::size_t at = header.find(from.toStdString());
    QVERIFY(at != std::string::npos);
    header.replace(at, std::size_t(from.size()), to.toStdString());
    writeFile(path + "/model.safetensors", safetensorsBytes(header, file.substr(8 + headerBytes)));
    const auto weights = ModelWeights::open(path, *config);
    QVERIFY(!weights);
    const QByteArray message = QByteArray::fromStdString(weights.error().message);
    QVERIFY2(message.contains(says) && message.startsWith(dir.path().toUtf8()), message.constData());
    QVERIFY(!message.contains('\n'));
}

QTEST_GUILESS_MAIN(TestWeights)
#include "tst_weights.moc"
