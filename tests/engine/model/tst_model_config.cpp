#include "engine/model/model_config.h"
#include "tests/engine/checkpoint_writer.h"

#include <QJsonDocument>
#include <QJsonObject>
#include <QTemporaryDir>
#include <QTest>

#include <algorithm>

using namespace octavo;
using namespace octavo::engine;
using namespace octavo::engine::test;

namespace
{

/// The small config with one key set to a JSON value; an empty value removes the key.
std::string changed(const char* key, const QByteArray& value)
{
    QJsonObject object = QJsonDocument::fromJson(QByteArray::fromStdString(smallConfigJson())).object();
    object.remove(QLatin1String(key));
    QByteArray json = QJsonDocument(object).toJson(QJsonDocument::Compact);
    if (!value.isEmpty())
        json = QByteArray("{\"") + key + "\":" + value + "," + json.mid(1);
    return json.toStdString();
}

} // namespace

class TestModelConfig : public QObject
{
    Q_OBJECT

private slots:
    void readsTheDemoModel();
    void readsNestedKeys();
    void buildsLayerTypesFromTheIntervalWhereTheyAreMissing();
    void readsRopeKeysOfOlderWriters();
    void joinsStopIdsOfAllFiles();
    void readsQuantizationFromEitherFile();
    void knowsWhichZeroConventionAPackingHas_data();
    void knowsWhichZeroConventionAPackingHas();
    void badValuesGiveOneLineWithKeyFoundAndExpected_data();
    void badValuesGiveOneLineWithKeyFoundAndExpected();
    void refusesWhatIsNoConfiguration();
};

void TestModelConfig::readsTheDemoModel()
{
    const auto config = ModelConfig::load(OCTAVO_RESOURCES "/demo-model");
    QVERIFY2(config, config ? "" : config.error().message.c_str());
    QCOMPARE(config->vocabSize, 16384);
    QCOMPARE(config->headDim, 256);
    QCOMPARE(config->rotaryDim, 64);
    QCOMPARE(config->ropeTheta, 1e7);
    QCOMPARE(config->layerTypes.size(), std::size_t(config->numLayers));
    QCOMPARE(config->layerTypes.front(), LayerType::LinearAttention);
    QCOMPARE(config->layerTypes.back(), LayerType::FullAttention);
    QCOMPARE(config->convDim(), 2048);
    QCOMPARE(config->maxPositions, 262144);
    QVERIFY(config->tiedEmbeddings);
    QCOMPARE(config->stopIds, (std::vector<TokenId>{16378, 16376}));
    QVERIFY(config->quantization.present && config->quantization.symmetric && config->quantization.zeroPointsMinusOne);
}

void TestModelConfig::readsNestedKeys()
{
    const auto config = ModelConfig::load(OCTAVO_TEST_DATA "/goldens/tiny");
    QVERIFY2(config, config ? "" : config.error().message.c_str());
    QCOMPARE(config->headDim, 32); // not hidden / heads, which would be 16
    QCOMPARE(config->rotaryDim, 8);
    QCOMPARE(config->stopIds, (std::vector<TokenId>{1}));
    QVERIFY(!config->tiedEmbeddings);
    QVERIFY(!config->quantization.present);
}

void TestModelConfig::buildsLayerTypesFromTheIntervalWhereTheyAreMissing()
{
    const auto four = ModelConfig::parse(smallConfigJson(), "c");
    QCOMPARE(std::count(four->layerTypes.begin(), four->layerTypes.end(), LayerType::FullAttention), 1);
    QCOMPARE(four->layerTypes[3], LayerType::FullAttention);
    const auto two = ModelConfig::parse(changed("full_attention_interval", "2"), "c");
    QCOMPARE(two->numFullAttentionLayers(), 2);
    const auto listed = ModelConfig::parse(
        changed("layer_types", R"(["full_attention","linear_attention","linear_attention","linear_attention"])"), "c");
    QCOMPARE(listed->layerTypes[0], LayerType::FullAttention);
    QCOMPARE(listed->numFullAttentionLayers(), 1);
}

void TestModelConfig::readsRopeKeysOfOlderWriters()
{
    const auto older = ModelConfig::parse(changed("rope_scaling", R"({"type":"mrope","rope_theta":5e5})"), "c");
    QVERIFY2(older, older ? "" : older.error().message.c_str());
    QCOMPARE(older->ropeTheta, 5e5);
    QCOMPARE(older->rotaryDim, 12); // the factor 0.5 stands beside it
    const auto newer =
        ModelConfig::parse(changed("rope_parameters", R"({"rope_theta":1e6,"partial_rotary_factor":0.25})"), "c");
    QCOMPARE(newer->ropeTheta, 1e6);
    QCOMPARE(newer->rotaryDim, 6);
    QCOMPARE(ModelConfig::parse(changed("partial_rotary_factor", ""), "c")->rotaryDim, 6); // 0.25 unless said
}

void TestModelConfig::joinsStopIdsOfAllFiles()
{
    const QTemporaryDir dir;
    const std::string path = dir.path().toStdString();
    writeFile(path + "/config.json", changed("eos_token_id", "[3, 1]"));
    writeFile(path + "/generation_config.json", R"({"eos_token_id": [1, 7], "temperature": 0.6})");
    const auto config = ModelConfig::load(path);
    QVERIFY2(config, config ? "" : config.error().message.c_str());
    QCOMPARE(config->stopIds, (std::vector<TokenId>{3, 1, 7}));
}

void TestModelConfig::readsQuantizationFromEitherFile()
{
    const QTemporaryDir dir;
    const std::string path = dir.path().toStdString();
    writeFile(path + "/config.json", smallConfigJson());
    QVERIFY(!ModelConfig::load(path)->quantization.present);
    writeFile(path + "/quantization_config.json",
              R"({"quant_method": "auto-round", "bits": 4, "group_size": 32, "sym": true,
                  "packing_format": "auto_round:auto_gptq", "extra_config": {"model.layers.1.mlp.up_proj": {"sym": false},
                  "model.layers.2.mlp.up_proj": {"bits": 16}}})");
    const auto config = ModelConfig::load(path);
    QVERIFY2(config, config ? "" : config.error().message.c_str());
    QCOMPARE(config->quantization.method, std::string("auto-round"));
    QCOMPARE(config->quantization.groupSize, 32);
    QVERIFY(config->quantization.mixedSymmetry);
    QCOMPARE(config->quantization.symmetricByModule.size(), std::size_t(1));
    QVERIFY(!config->quantization.symmetricByModule.at("model.layers.1.mlp.up_proj"));
}

void TestModelConfig::knowsWhichZeroConventionAPackingHas_data()
{
    QTest::addColumn<QByteArray>("quantization");
    QTest::addColumn<bool>("minusOne");
    QTest::newRow("gptq") << QByteArray(R"({"quant_method":"gptq"})") << true;
    QTest::newRow("gptq v1") << QByteArray(R"({"quant_method":"gptq","checkpoint_format":"gptq"})") << true;
    QTest::newRow("gptq v2") << QByteArray(R"({"quant_method":"gptq","checkpoint_format":"gptq_v2"})") << false;
    QTest::newRow("auto-round as GPTQ")
        << QByteArray(R"({"quant_method":"auto-round","packing_format":"auto_round:auto_gptq"})") << true;
    QTest::newRow("older auto-round")
        << QByteArray(R"({"quant_method":"intel/auto-round","backend":"auto_round:gptq:exllamav2"})") << true;
    QTest::newRow("plain auto-round") << QByteArray(R"({"quant_method":"auto-round","packing_format":"auto_round"})")
                                      << false;
    QTest::newRow("gptqmodel") << QByteArray(R"({"quant_method":"auto-round","packing_format":"auto_round:gptqmodel"})")
                               << false;
}

void TestModelConfig::knowsWhichZeroConventionAPackingHas()
{
    QFETCH(QByteArray, quantization);
    QFETCH(bool, minusOne);
    const auto config = ModelConfig::parse(changed("quantization_config", quantization), "c");
    QVERIFY2(config, config ? "" : config.error().message.c_str());
    QCOMPARE(config->quantization.zeroPointsMinusOne, minusOne);
    QVERIFY(config->quantization.symmetric);
}

void TestModelConfig::badValuesGiveOneLineWithKeyFoundAndExpected_data()
{
    QTest::addColumn<QByteArray>("key");
    QTest::addColumn<QByteArray>("value");
    QTest::addColumn<QByteArray>("found");
    auto add = [](const char* name, const char* key, const char* value, const char* found) {
        QTest::newRow(name) << QByteArray(key) << QByteArray(value) << QByteArray(found);
    };
    add("missing", "hidden_size", "", "is missing, expected a whole number from 1 to 65536");
    add("null", "hidden_size", "null", "is missing");
    add("zero", "hidden_size", "0", "is 0, expected a whole number from 1");
    add("negative", "num_hidden_layers", "-1", "is -1, expected");
    add("huge", "vocab_size", "99999999999999999999", "expected a whole number");
    add("2^63", "vocab_size", "9223372036854775808", "is 9223372036854775808, expected");
    add("a fraction", "head_dim", "25.5", "is 25.5, expected");
    add("a text", "head_dim", "\"256\"", "is \"256\", expected");
    add("too many layers", "num_hidden_layers", "100000", "is 100000, expected a whole number from 1 to 512");
    add("heads not in groups", "num_attention_heads", "5", "is 5, expected a multiple of num_key_value_heads, 2");
    add("value heads not in groups", "linear_num_value_heads", "3",
        "is 3, expected a multiple of linear_num_key_heads, 2");
    add("no attention layer", "full_attention_interval", "512", "no layer of 4 with full_attention");
    add("attention only", "full_attention_interval", "1", "no layer of 4 with linear_attention");
    add("layer types too short", "layer_types", R"(["full_attention"])", "is 1 long, expected one entry for each of 4");
    add("unknown layer type", "layer_types", R"(["full_attention","a","b","c"])",
        "is \"a\", expected \"linear_attention\"");
    add("no epsilon", "rms_norm_eps", "0", "is 0, expected a number from");
    add("theta", "rope_theta", "-5", "is -5, expected a number from");
    add("odd rotary dimensions", "partial_rotary_factor", "0.125", "expected one that rotates an even number");
    add("scaled positions", "rope_parameters", R"({"rope_type":"yarn"})", "is \"yarn\", expected \"default\"");
    add("stop id beyond the vocabulary", "eos_token_id", "[1, 48]", "is 48, expected an id below the vocabulary's 48");
    add("stop id negative", "eos_token_id", "-2", "is -2, expected");
    add("experts", "model_type", "\"qwen3_5_moe\"", "is \"qwen3_5_moe\", expected \"qwen3_5\"");
    add("another family", "model_type", "\"llama\"", "is \"llama\", expected \"qwen3_5\"");
    add("biases", "attention_bias", "true", "is true, expected false");
    add("activation", "hidden_act", "\"gelu\"", "is \"gelu\", expected \"silu\"");
    add("awq", "quantization_config", R"({"quant_method":"awq"})", "is \"awq\", expected gptq or auto-round");
    add("awq packing", "quantization_config", R"({"quant_method":"auto-round","packing_format":"auto_round:auto_awq"})",
        "expected GPTQ packing");
    add("8 bits", "quantization_config", R"({"quant_method":"gptq","bits":8})", "is 8, expected 4");
    add("group size", "quantization_config", R"({"quant_method":"gptq","group_size":0})", "is 0, expected");
    add("act order of another type", "quantization_config", R"({"quant_method":"gptq","desc_act":"yes"})",
        "desc_act\" is \"yes\", expected");
    add("group size of another type", "quantization_config", R"({"quant_method":"gptq","group_size":"128"})",
        "is \"128\", expected");
    add("long text", "hidden_act", QByteArray("\"" + QByteArray(5000, 'x') + "\"").constData(),
        "xxx..., expected \"silu\"");
}

void TestModelConfig::badValuesGiveOneLineWithKeyFoundAndExpected()
{
    QFETCH(QByteArray, key);
    QFETCH(QByteArray, value);
    QFETCH(QByteArray, found);
    const auto config = ModelConfig::parse(changed(key.constData(), value), "DIR/config.json");
    QVERIFY(!config);
    const QByteArray message = QByteArray::fromStdString(config.error().message);
    QVERIFY2(message.startsWith("DIR/config.json: "), message.constData());
    QVERIFY2(message.contains(found), message.constData());
    QVERIFY(!message.contains('\n') && message.size() < 300);
}

void TestModelConfig::refusesWhatIsNoConfiguration()
{
    const std::pair<std::string, const char*> cases[] = {
        {"", "it is empty"},
        {"<!DOCTYPE html><html></html>", "it is a web page"},
        {"version https://git-lfs.github.com/spec/v1\n", "it is a Git LFS pointer"},
        {"{\"a\": ", "it is not JSON"},
        {"[1, 2]", "it is not a JSON object"},
        {std::string(100000, '['), "it is nested more than 64 levels deep"},
        {std::string("{\"a\":") + std::string(70, '[') + std::string(70, ']') + "}",
         "it is nested more than 64 levels"},
    };
    for (const auto& [text, says] : cases) {
        const auto config = ModelConfig::parse(text, "config.json");
        QVERIFY(!config);
        QCOMPARE(config.error().code, ErrorCode::FormatInvalid);
        QVERIFY2(config.error().message.find(says) != std::string::npos, config.error().message.c_str());
        QVERIFY(config.error().message.ends_with("download it again"));
    }
    const auto missing = ModelConfig::load("/nonexistent");
    QCOMPARE(missing.error().code, ErrorCode::FileUnreadable);
    QVERIFY(missing.error().message.starts_with("/nonexistent is not a folder: name a model's folder"));
    const QTemporaryDir folder;
    const auto empty = ModelConfig::load(folder.path().toStdString());
    QCOMPARE(empty.error().code, ErrorCode::FileUnreadable);
    QVERIFY(empty.error().message.find(" holds no config.json: name a model's folder") != std::string::npos);
    const QString loop = folder.filePath(QStringLiteral("loop"));
    QVERIFY(QFile::link(loop, loop));
    const auto unreadable = ModelConfig::load(loop.toStdString());
    QCOMPARE(unreadable.error().code, ErrorCode::FileUnreadable);
    QVERIFY2(unreadable.error().message.find("config.json cannot be read") != std::string::npos,
             unreadable.error().message.c_str());
}

QTEST_GUILESS_MAIN(TestModelConfig)
#include "tst_model_config.moc"
