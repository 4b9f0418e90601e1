#include "engine/evaluation/doctor.h"
#include "engine/evaluation/fit_basis.h"
#include "engine/evaluation/memory_plan.h"
#include "engine/memory/sketch_basis.h"
#include "engine/memory/sparse_settings.h"
#include "engine/model/model_shapes.h"
#include "tests/engine/checkpoint_writer.h"
#include "tests/engine/golden_files.h"

#include <QFile>
#include <QTemporaryDir>
#include <QTest>

using namespace octavo;
using namespace octavo::engine;
using namespace octavo::engine::test;

namespace
{

constexpr std::int64_t gib = std::int64_t(1) << 30;

MemoryPlanRequest requestFor27B()
{
    const ModelShape shape = *modelShape("qwen3.5-27b");
    MemoryPlanRequest request;
    request.config = shape.config;
    request.weightBytes = int4WeightBytes(shape);
    request.agents = 8;
    request.contextTokens = 250'000;
    request.deviceBytes = 48 * gib;
    request.ramBytes = 64 * gib;
    return request;
}

} // namespace

class TestDoctor : public QObject
{
    Q_OBJECT

private slots:
    void shapesHaveThePublishedSizes();
    void memoryOfThe27BIsWhatThePagesSay();
    void readingTakesAnEighthOfWhatIsLeftAtMost();
    void theHotBufferTakesWhatIsLeft();
    void theLongestContextIsTheLastThatFits();
    void longContextsHaveRoomForTheirMorePicks();
    void theCpuBackendKeepsEverythingInRam();
    void auditsTheDemoModel();
    void namesWhatIsMissingBesideTheWeights();
    void countsFloatLayersAsWhatTheyBecomeOnTheCpu();
    void countsTensorsThatAreNotUsed();
    void namesTensorsWithValuesThatAreNoNumbers();
    void fitsABasisThatHoldsMoreWithMoreDimensions();
    void tellsABasisOfAnotherModel();
};

void TestDoctor::shapesHaveThePublishedSizes()
{
    QCOMPARE(modelShapeNames().size(), std::size_t(4));
    const ModelShape large = *modelShape("qwen3.5-27b");
    QCOMPARE(countParameters(textTensors(large.config, large.head)), 26'895'998'464);
    QCOMPARE(countParameters(mtpTensors(large.config)), 424'699'392);
    QCOMPARE(large.config.numFullAttentionLayers(), 16);
    QCOMPARE(modelShape("qwen3.5-9b")->config.numFullAttentionLayers(), 8);
    QCOMPARE(modelShape("qwen3.5-0.8b")->config.convDim(), 6144);
    // 18.53 GB with 16-bit head, embedding and MTP, no zero points (model-spec 8.1)
    QCOMPARE(int4WeightBytes(large) / 10'000'000, 1853);
    QCOMPARE(modelShape("qwen3.5-1b").error().code, ErrorCode::InvalidArgument);
}

void TestDoctor::memoryOfThe27BIsWhatThePagesSay()
{
    const MemoryPlan plan = planMemory(requestFor27B());
    QCOMPARE(plan.hostBytesPerToken, 16 * 4 * 272);
    QCOMPARE(plan.ram.hostTier, 8 * 250'000 * std::int64_t(16 * 4 * 272));
    QCOMPARE(plan.device.sketch, 8 * 250'048 * std::int64_t(16 * 4 * 34));     // whole blocks of 64
    QCOMPARE(plan.device.recent, 8 * 8 * 512 * std::int64_t(16 * 4 * 272));    // eight pages of int4 rows each
    QCOMPARE(plan.stateBytesPerSequence, 150'994'944 + 2'949'120);            // S, and the convolution's inputs in bf16
    const std::int64_t pending = 48 * 32 * std::int64_t(4 * (10'240 + 48)); // of a step that checks drafts
    QCOMPARE(plan.device.state, 8 * (plan.stateBytesPerSequence + pending));
    QCOMPARE(plan.device.checkpoints, 16 * plan.stateBytesPerSequence);
    QCOMPARE(plan.ram.checkpoints, 0);
    QCOMPARE(plan.device.weights, requestFor27B().weightBytes);
    QVERIFY(plan.device.fits());

    MemoryPlanRequest drafts = requestFor27B(); // by 98,304 outputs of the head in int4, on cards with room for it
    drafts.mtp = drafts.floatHead = true;
    QCOMPARE(planMemory(drafts).device.weights, drafts.weightBytes + 98'304 * std::int64_t(5'120) * 33 / 64);
    drafts.deviceBytes = 24 * gib;
    QCOMPARE(planMemory(drafts).device.weights, drafts.weightBytes);
}

void TestDoctor::readingTakesAnEighthOfWhatIsLeftAtMost()
{
    MemoryPlanRequest request = requestFor27B();
    request.deviceBytes = 140 * gib; // 853 MB were taken on such a card, slices of 2,048 rows
    const std::int64_t whole = planMemory(request).device.reading;
    QVERIFY2(std::abs(whole - 853'000'000) < 43'000'000, qPrintable(QString::number(whole)));
    std::int64_t last = whole;
    for (const std::int64_t size : {24, 22, 20}) {
        request.deviceBytes = size * gib;
        const DevicePlan device = planMemory(request).device;
        QVERIFY(device.reading <= last && device.reading * 8 <= device.total - device.weights - device.workSpace);
        last = device.reading;
    }
    QVERIFY(last < whole);
}

void TestDoctor::theHotBufferTakesWhatIsLeft()
{
    MemoryPlanRequest request = requestFor27B();
    const MemoryPlan plan = planMemory(request);
    QCOMPARE(plan.device.hotBuffer, plan.device.total - plan.device.needed() - gib);
    QVERIFY(plan.device.hotShare > 0.0 && plan.device.hotShare < 1.0);
    request.deviceBytes = 1000 * gib; // more than all rows: not more than these
    QCOMPARE(planMemory(request).device.hotShare, 1.0);
    request.deviceBytes = 16 * gib;
    QVERIFY(!planMemory(request).device.fits());
    QCOMPARE(planMemory(request).device.hotBuffer, 0);
    QVERIFY(!planMemory(request).fits());
}

void TestDoctor::theLongestContextIsTheLastThatFits()
{
    MemoryPlanRequest request = requestFor27B();
    request.ramBytes = 32 * gib;
    const std::int64_t longest = planMemory(request).longestContext;
    QVERIFY(longest > 0 && longest < request.config.maxPositions);
    request.contextTokens = longest;
    QVERIFY(planMemory(request).fits());
    request.contextTokens = longest + 1;
    QVERIFY(!planMemory(request).fits());
    request.ramBytes = 1000 * gib;
    request.deviceBytes = 1000 * gib;
    QCOMPARE(planMemory(request).longestContext, request.config.maxPositions);
    request.ramBytes = 0;
    QCOMPARE(planMemory(request).longestContext, 0);
}

void TestDoctor::longContextsHaveRoomForTheirMorePicks()
{
    SparseSettings settings;
    QCOMPARE(settings.topKOf(settings.longRange - 1), settings.topK);
    QCOMPARE(settings.topKOf(settings.longRange), settings.longTopK);
    const std::int64_t more = settings.longTopK - settings.topK;
    MemoryPlanRequest request = requestFor27B();
    request.contextTokens = settings.longRange - 1;
    const std::int64_t below = planMemory(request).device.workSpace;
    request.contextTokens = settings.longRange;
    const std::int64_t grown = planMemory(request).device.workSpace - below;
    // For each of 64 rows, 12 candidates of 8 bytes a pick and five numbers; what another token takes is far less.
    QVERIFY(grown >= 64 * more * (12 * 8 + 5 * 4) && grown < 64 * more * (12 * 8 + 5 * 4) * 11 / 10);

    settings.longTopK = 0;
    QCOMPARE(settings.topKOf(settings.longRange), settings.topK);
    settings.topK = 4096;
    settings.longTopK = 3584;
    QCOMPARE(settings.topKOf(settings.longRange), 4096);
}

void TestDoctor::theCpuBackendKeepsEverythingInRam()
{
    MemoryPlanRequest request = requestFor27B();
    request.deviceBytes = 0;
    const MemoryPlan plan = planMemory(request);
    QCOMPARE(plan.stateBytesPerSequence, 150'994'944 + 2 * 2'949'120); // the convolution's inputs in float32
    const std::int64_t rowBytes = 4 * (10'240 + 2048 + 48 * (128 + 16)); // what a drafted row leaves in a layer
    QCOMPARE(plan.device.state, 8 * (2 * plan.stateBytesPerSequence + 8 * 48 * rowBytes));
    QCOMPARE(plan.device.recent, 8 * 1088 * std::int64_t(16 * 4 * 528));
    QCOMPARE(plan.ram.device, plan.device.needed());
    QCOMPARE(plan.ram.needed(), plan.ram.hostTier + plan.ram.checkpoints + plan.device.needed());
}

void TestDoctor::auditsTheDemoModel()
{
    const auto audit = auditCheckpoint(OCTAVO_RESOURCES "/demo-model");
    QVERIFY2(audit, audit ? "" : audit.error().message.c_str());
    QCOMPARE(audit->name, std::string("demo-model"));
    const auto config = ModelConfig::load(OCTAVO_RESOURCES "/demo-model");
    QVERIFY2(config, config ? "" : config.error().message.c_str());
    const int full = config->numFullAttentionLayers(), linear = config->numLayers - full;
    QCOMPARE(audit->ignoredTensors, 0);
    QCOMPARE(audit->formats.at("int4"), linear * 6 + full * 7 + 7);
    QCOMPARE(audit->formats.at("bf16"), 1 + linear * 2 + 1);
    // An int4 matrix is 4 tensors. Besides matrices a DeltaNet layer has 6, an attention layer 4; 4 norms stand apart.
    QCOMPARE(audit->tensors, 4 * audit->formats.at("int4") + audit->formats.at("bf16") + linear * 6 + full * 4 + 4 + 4);
    QVERIFY(audit->tiedHead && audit->mtp && audit->hasTokenizer);
    QVERIFY(audit->tokenizerEndId > 16000 && audit->tokenizerEndId <= 16384);
    QVERIFY(audit->weightBytes < audit->fileBytes);
    // Layers are in int4 already; the head, which is the embedding, becomes int8 with a scale for 32, and int4 with a
    // bound for each token.
    const std::int64_t head = std::int64_t(config->vocabSize) * config->hiddenSize;
    QCOMPARE(audit->cpuWeightBytes, audit->weightBytes + head + head / 32 * 4 + head / 2 + head / 128 * 2 +
                                         config->vocabSize * 4);
    QVERIFY2(audit->problems.empty(), audit->problems.empty() ? "" : audit->problems[0].c_str());
}

void TestDoctor::namesWhatIsMissingBesideTheWeights()
{
    const QTemporaryDir dir;
    const std::string path = dir.path().toStdString();
    const auto config = ModelConfig::parse(smallConfigJson(), "config.json");
    ModelWriter(*config, ModelForm{}).write(path);
    const auto without = auditCheckpoint(path);
    QVERIFY2(without, without ? "" : without.error().message.c_str());
    QCOMPARE(without->problems.size(), std::size_t(1));
    QVERIFY(without->problems[0].starts_with(path + "/tokenizer.json"));

    QVERIFY(QFile::copy(OCTAVO_RESOURCES "/demo-model/tokenizer.json", dir.filePath("tokenizer.json")));
    writeFile(path + "/basis.safetensors", safetensorsBytes("{}", ""));
    const auto larger = auditCheckpoint(path);
    QCOMPARE(larger->basisRank, 0);
    QCOMPARE(larger->problems.size(), std::size_t(2));
    QVERIFY2(larger->problems[1].starts_with(path + "/basis.safetensors"), larger->problems[1].c_str());
    QVERIFY2(larger->problems[0].find("the model's vocabulary has only 48 rows") != std::string::npos,
             larger->problems[0].c_str());
    QVERIFY(!auditCheckpoint(path + "/none"));
}

void TestDoctor::countsFloatLayersAsWhatTheyBecomeOnTheCpu()
{
    const QTemporaryDir dir;
    const std::string path = dir.path().toStdString();
    std::string json = smallConfigJson();
    json.replace(json.find("\"hidden_size\": 64"), 17, "\"hidden_size\": 256");
    const auto config = ModelConfig::parse(json, "config.json");
    QVERIFY(config);
    ModelWriter(*config, ModelForm{}).write(path);
    writeFile(path + "/config.json", json);
    const auto audit = auditCheckpoint(path);
    QVERIFY2(audit, audit ? "" : audit.error().message.c_str());
    // Layers with 256 inputs take 4.125 bits a value in place of 32; those with 96 and fewer stay.
    std::int64_t saved = 0;
    for (const TensorSpec& tensor : textTensors(*config, HeadLayout::Untied)) {
        const bool isBig = tensor.kind == TensorSpec::Kind::Linear && tensor.shape[1] == 256 && tensor.shape[0] > 4;
        saved += isBig ? tensor.parameters() * 4 - tensor.parameters() / 2 - tensor.shape[0] * 2 * 2 : 0;
    }
    for (const TensorSpec& tensor : mtpTensors(*config)) {
        const bool isBig = tensor.kind == TensorSpec::Kind::Linear && tensor.shape[1] == 256;
        saved += isBig ? tensor.parameters() * 4 - tensor.parameters() / 2 - tensor.shape[0] * 2 * 2 : 0;
    }
    QVERIFY(saved > 0);
    QCOMPARE(audit->cpuWeightBytes, audit->weightBytes - saved);
}

void TestDoctor::countsTensorsThatAreNotUsed()
{
    const QTemporaryDir dir;
    const std::string path = dir.path().toStdString();
    ModelForm form;
    form.int4 = true;
    form.textPrefix = "language_model.model.";
    form.mtpPrefix = "model.mtp.";
    const auto config = ModelConfig::parse(smallConfigJson(form), "config.json");
    ModelWriter writer(*config, form);
    const std::size_t used = writer.file().names().size();
    writer.file().add<float>("model.visual.patch_embed.weight", "F32", {1}, {1.0f});
    writer.file().add<float>("model.visual.blocks.0.bias", "F32", {1}, {1.0f});
    writer.write(path);
    const auto audit = auditCheckpoint(path);
    QVERIFY2(audit, audit ? "" : audit.error().message.c_str());
    QCOMPARE(audit->tensors, std::int64_t(used) + 2);
    QCOMPARE(audit->ignoredTensors, 2);
}

void TestDoctor::namesTensorsWithValuesThatAreNoNumbers()
{
    const QTemporaryDir dir;
    const std::string path = dir.path().toStdString();
    ModelForm form;
    form.int4 = true;
    const auto config = ModelConfig::parse(smallConfigJson(form), "config.json");
    ModelWriter(*config, form).write(path);
    QVERIFY(auditCheckpoint(path));
    const std::size_t before = auditCheckpoint(path)->problems.size(); // it has no tokenizer
    const auto checkpoint = Checkpoint::open(path);
    QVERIFY(checkpoint);
    const TensorView* scales = checkpoint->find("model.language_model.layers.1.mlp.up_proj.scales");
    const TensorView* norm = checkpoint->find("model.language_model.norm.weight");
    QVERIFY(scales && norm);
    QFile file(dir.filePath("model.safetensors"));
    QVERIFY(file.open(QIODevice::ReadWrite));
    const QByteArray bytes = file.readAll();
    const auto poke = [&](const TensorView& tensor, std::uint16_t bits) {
        const QByteArray content(reinterpret_cast<const char*>(tensor.bytes.data()), qsizetype(tensor.bytes.size()));
        file.seek(bytes.indexOf(content) + 2);
        file.write(reinterpret_cast<const char*>(&bits), 2);
        file.flush();
    };
    poke(*scales, 0x7e00); // a NaN in half
    poke(*norm, 0xff80);   // minus infinity in bf16
    const auto audit = auditCheckpoint(path);
    QVERIFY2(audit, audit ? "" : audit.error().message.c_str());
    QCOMPARE(audit->problems.size(), before + 2);
    const std::string all = audit->problems[0] + audit->problems[1];
    QVERIFY2(all.find("layers.1.mlp.up_proj.scales: 1 of its") != std::string::npos, all.c_str());
    QVERIFY2(all.find("norm: 1 of its 64 values are no finite numbers") != std::string::npos, all.c_str());
}

void TestDoctor::fitsABasisThatHoldsMoreWithMoreDimensions()
{
    const QTemporaryDir dir;
    const std::string path = dir.path().toStdString();
    for (const char* file : {"config.json", "model.safetensors"})
        QVERIFY(QFile::copy(QString::fromStdString(goldenPath(std::string("tiny/") + file)), dir.filePath(file)));
    const LoadedModel model = loadModel(path);
    const std::vector<TokenId> ids = readTensor<TokenId>(goldenPath("tiny/logits.safetensors"), "ids");
    const auto fitted = fitBasis(model.config, model.weights, ids, 8);
    QVERIFY2(fitted, fitted ? "" : fitted.error().message.c_str());
    QCOMPARE(fitted->basis.fittedTokens, std::int64_t(ids.size()));
    QCOMPARE(fitted->explained.size(), std::size_t(2));                        // two attention layers of one KV head
    QVERIFY(fitted->leastExplained() > 0.3 && fitted->meanExplained() <= 1.0); // 8 of 32 dimensions
    QVERIFY(fitBasis(model.config, model.weights, ids, 16)->leastExplained() > fitted->leastExplained());
    QCOMPARE(fitBasis(model.config, model.weights, std::span(ids).first(31), 8).error().code,
             ErrorCode::InvalidArgument);
}

void TestDoctor::tellsABasisOfAnotherModel()
{
    const QTemporaryDir dir;
    const std::string path = dir.path().toStdString();
    for (const char* file : {"config.json", "model.safetensors", "tokenizer.json"})
        QVERIFY(QFile::link(QString(OCTAVO_RESOURCES "/demo-model/") + file, dir.filePath(file)));
    const auto without = auditCheckpoint(path);
    QVERIFY2(without, without ? "" : without.error().message.c_str());
    QCOMPARE(without->basisRank, 0);
    const ModelConfig& config = without->config;
    SketchBasis basis;
    basis.numLayers = config.numFullAttentionLayers();
    basis.numKvHeads = config.numKvHeads;
    basis.headDim = config.headDim;
    basis.rank = 8;
    basis.modelHash = without->hash;
    basis.fittedTokens = 100;
    const auto heads = std::size_t(basis.numLayers * basis.numKvHeads), dim = std::size_t(basis.headDim);
    basis.vectors.assign(heads * 8 * dim, 0.5f);
    basis.means.assign(heads * dim, 0.25f);
    QVERIFY(basis.save(path + "/basis.safetensors"));
    const auto own = auditCheckpoint(path);
    QVERIFY2(own->basisRank == 8, own->problems.empty() ? "" : own->problems.back().c_str());
    QCOMPARE(own->problems.size(), without->problems.size());

    ++basis.modelHash;
    QVERIFY(basis.save(path + "/basis.safetensors"));
    const auto others = auditCheckpoint(path);
    QCOMPARE(others->basisRank, 0);
    QCOMPARE(others->problems.size(), without->problems.size() + 1);
    QVERIFY2(others->problems.back().find("fit-basis") != std::string::npos, others->problems.back().c_str());
}

QTEST_GUILESS_MAIN(TestDoctor)
#include "tst_doctor.moc"
