#include "engine/evaluation/log_probs.h"
#include "kernels/cpu/cpu_features.h"
#include "tests/engine/golden_files.h"

#include <QJsonObject>
#include <QTest>

#include <algorithm>
#include <cmath>

using namespace octavo;
using namespace octavo::engine;
using namespace octavo::engine::test;

/// The CPU backend against reference values computed by another implementation in float32.
/// OCTAVO_ALL_GOLDENS=1 runs every text and prompt on the best path.
class TestCpuGoldens : public QObject
{
    Q_OBJECT

private slots:
    void initTestCase() { m_model = demoModel(); }
    void tinyLogitsMatchOnEveryPath_data() { addPaths(); }
    void tinyLogitsMatchOnEveryPath();
    void logProbabilitiesMatch_data();
    void logProbabilitiesMatch();
    void greedyAnswersMatch_data();
    void greedyAnswersMatch();

private:
    static bool allGoldens() { return qEnvironmentVariableIntValue("OCTAVO_ALL_GOLDENS") != 0; }
    static void addPaths()
    {
        QTest::addColumn<QString>("path");
        for (auto path : {kernels::cpu::Path::Plain, kernels::cpu::Path::Avx2, kernels::cpu::Path::Avx512}) {
            if (kernels::cpu::isSupported(path)) {
                const QString name = QString::fromLatin1(kernels::cpu::pathName(path).data());
                QTest::addRow("%s", qPrintable(name)) << name;
            }
        }
    }
    static std::unique_ptr<Backend> cpuBackend(const LoadedModel& model, const QString& path = {})
    {
        BackendOptions options;
        options.cpuPath = path.toStdString();
        auto backend = makeCpuBackend(model.config, model.weights, options);
        if (!backend)
            qFatal("%s", backend.error().message.c_str());
        return *std::move(backend);
    }

    LoadedModel m_model;
};

void TestCpuGoldens::tinyLogitsMatchOnEveryPath()
{
    QFETCH(QString, path);
    const LoadedModel model = tinyModel();
    const auto backend = cpuBackend(model, path);
    const std::vector<TokenId> ids = readTensor<TokenId>(goldenPath("tiny/logits.safetensors"), "ids");
    const std::vector<float> expected = readTensor<float>(goldenPath("tiny/logits.safetensors"), "logits");
    std::vector<float> logits(expected.size());
    const SlotId slot = *backend->createSequence(std::int64_t(ids.size()));
    QVERIFY(backend->prefill(slot, ids, logits));
    double difference = 0.0, magnitude = 0.0;
    for (std::size_t i = 0; i < logits.size(); ++i) {
        difference += std::pow(double(logits[i]) - double(expected[i]), 2);
        magnitude += std::pow(double(expected[i]), 2);
    }
    // Weights are exact here; what is left comes from int8 keys and values.
    const double relative = std::sqrt(difference / magnitude);
    qInfo("relative error %.2e", relative);
    QVERIFY(relative <= 2e-2);
}

void TestCpuGoldens::logProbabilitiesMatch_data()
{
    QTest::addColumn<int>("text");
    for (int text = 0; text < (allGoldens() ? 4 : 2); ++text)
        QTest::addRow("text %d", text) << text;
}

void TestCpuGoldens::logProbabilitiesMatch()
{
    QFETCH(int, text);
    const auto backend = cpuBackend(m_model);
    const std::string number = std::to_string(text);
    const std::vector<TokenId> ids = tokenIds(readJson(goldenPath("logprobs_ids" + number + ".json")).array());
    const std::vector<float> expected = readTensor<float>(goldenPath("logprobs.safetensors"), "prompt" + number);
    const auto found = evaluateLogProbs(*backend, ids);
    QVERIFY2(found, found ? "" : found.error().message.c_str());
    QCOMPARE(found->values.size(), expected.size());
    double sum = 0.0, largest = 0.0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const double difference = std::abs(double(found->values[i]) - double(expected[i]));
        QVERIFY(std::isfinite(difference));
        sum += difference;
        largest = std::max(largest, difference);
    }
    qInfo("mean |difference| %.5f, largest %.4f", sum / double(expected.size()), largest);
    QVERIFY(sum / double(expected.size()) <= 0.01);
}

void TestCpuGoldens::greedyAnswersMatch_data()
{
    QTest::addColumn<QJsonObject>("prompt");
    int number = 0;
    for (const QJsonValue& value : readJson(goldenPath("prompts.json")).array()) {
        const QJsonObject prompt = value.toObject();
        const qsizetype tokens = prompt["prompt_ids"].toArray().size();
        if (allGoldens() || number < 4)
            QTest::addRow("prompt %d, %d tokens", number, int(tokens)) << prompt;
        ++number;
    }
}

void TestCpuGoldens::greedyAnswersMatch()
{
    QFETCH(QJsonObject, prompt);
    const auto backend = cpuBackend(m_model);
    const std::vector<TokenId> ids = tokenIds(prompt["prompt_ids"].toArray());
    const std::vector<TokenId> expected = tokenIds(prompt["greedy_ids"].toArray());
    const std::size_t slice = std::size_t(backend->maxPrefillSlice());
    const SlotId slot = *backend->createSequence(std::int64_t(ids.size() + expected.size()));
    std::vector<float> logits(std::size_t(m_model.config.vocabSize));
    for (std::size_t i = 0; i < ids.size(); i += slice)
        QVERIFY(backend->prefill(slot, std::span(ids).subspan(i, std::min(slice, ids.size() - i)), logits));

    const QJsonArray topIds = prompt["top_ids"].toArray(), topLogits = prompt["top_logits"].toArray();
    double largest = 0.0;
    for (qsizetype i = 0; i < topIds.size(); ++i)
        largest = std::max(largest, std::abs(topLogits[i].toDouble() - double(logits[std::size_t(topIds[i].toInt())])));
    qInfo("largest difference of a top logit %.4f", largest);
    QVERIFY(largest <= 0.2);

    std::vector<TokenId> greedy;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        greedy.push_back(TokenId(std::max_element(logits.begin(), logits.end()) - logits.begin()));
        const StepEntry entry{slot, std::span(greedy).last(1)};
        if (i + 1 < expected.size())
            QVERIFY(backend->step({&entry, 1}, logits));
    }
    QCOMPARE(greedy, expected);
}

QTEST_GUILESS_MAIN(TestCpuGoldens)
#include "tst_cpu_goldens.moc"
