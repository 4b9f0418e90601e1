#pragma once

/// How a backend compares with the reference values of tests/data/goldens. The bounds are each test's own.

#include "engine/evaluation/log_probs.h"
#include "tests/engine/golden_files.h"

#include <QJsonObject>
#include <QTest>

#include <algorithm>
#include <cmath>
#include <limits>

namespace octavo::engine::test
{

/// OCTAVO_ALL_GOLDENS=1 runs the long texts and prompts as well (a few minutes).
inline bool allGoldens()
{
    return qEnvironmentVariableIntValue("OCTAVO_ALL_GOLDENS") != 0;
}

/// Rows "text" 0 .. `few` - 1, or all of them.
inline void addGoldenTexts(int few)
{
    QTest::addColumn<int>("text");
    for (int text = 0; text < (allGoldens() ? 4 : few); ++text)
        QTest::addRow("text %d", text) << text;
}

/// Rows "prompt": the first `few`, or all of them.
inline void addGoldenPrompts(int few)
{
    QTest::addColumn<QJsonObject>("prompt");
    int number = 0;
    for (const QJsonValue& value : readJson(goldenPath("prompts.json")).array()) {
        const QJsonObject prompt = value.toObject();
        const qsizetype tokens = prompt["prompt_ids"].toArray().size();
        if (allGoldens() || number < few)
            QTest::addRow("prompt %d, %d tokens", number, int(tokens)) << prompt;
        ++number;
    }
}

/// |logits - reference| / |reference| of the tiny model; infinite where the backend fails.
inline double tinyLogitsError(Backend& backend)
{
    const std::vector<TokenId> ids = readTensor<TokenId>(goldenPath("tiny/logits.safetensors"), "ids");
    const std::vector<float> expected = readTensor<float>(goldenPath("tiny/logits.safetensors"), "logits");
    std::vector<float> logits(expected.size());
    const auto slot = backend.createSequence(std::int64_t(ids.size()));
    if (!slot || !backend.prefill(*slot, ids, logits))
        return std::numeric_limits<double>::infinity();
    double difference = 0.0, magnitude = 0.0;
    for (std::size_t i = 0; i < logits.size(); ++i) {
        difference += std::pow(double(logits[i]) - double(expected[i]), 2);
        magnitude += std::pow(double(expected[i]), 2);
    }
    const double relative = std::sqrt(difference / magnitude);
    qInfo("relative error %.2e", relative);
    return relative;
}

/// Mean |difference| of the log-probabilities of a golden text; not finite where any of them is not, or is missing.
inline double logProbDifference(Backend& backend, int text)
{
    const std::string number = std::to_string(text);
    const std::vector<TokenId> ids = tokenIds(readJson(goldenPath("logprobs_ids" + number + ".json")).array());
    const std::vector<float> expected = readTensor<float>(goldenPath("logprobs.safetensors"), "prompt" + number);
    const auto found = evaluateLogProbs(backend, ids);
    if (!found || found->values.size() != expected.size())
        return std::numeric_limits<double>::infinity();
    double sum = 0.0, largest = 0.0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const double difference = std::abs(double(found->values[i]) - double(expected[i]));
        sum += difference; // takes a NaN
        largest = std::max(largest, difference);
    }
    qInfo("mean |difference| %.2e, largest %.2e", sum / double(expected.size()), largest);
    return sum / double(expected.size());
}

struct GreedyRun {
    double largestTopDifference = std::numeric_limits<double>::infinity(); ///< of the first row's top logits
    std::vector<TokenId> tokens, expected;
};

/// Reads a golden prompt and writes greedily, one row at a time, as long as the reference did.
inline GreedyRun runGreedily(Backend& backend, const QJsonObject& prompt)
{
    GreedyRun run;
    const std::vector<TokenId> ids = tokenIds(prompt["prompt_ids"].toArray());
    run.expected = tokenIds(prompt["greedy_ids"].toArray());
    const std::size_t slice = std::size_t(backend.maxPrefillSlice());
    const auto slot = backend.createSequence(std::int64_t(ids.size() + run.expected.size()));
    if (!slot)
        return run;
    std::vector<float> logits(std::size_t(backend.config().vocabSize));
    for (std::size_t i = 0; i < ids.size(); i += slice) {
        if (!backend.prefill(*slot, std::span(ids).subspan(i, std::min(slice, ids.size() - i)), logits))
            return run;
    }
    const QJsonArray topIds = prompt["top_ids"].toArray(), topLogits = prompt["top_logits"].toArray();
    double largest = 0.0;
    for (qsizetype i = 0; i < topIds.size(); ++i)
        largest = std::max(largest, std::abs(topLogits[i].toDouble() - double(logits[std::size_t(topIds[i].toInt())])));
    qInfo("largest difference of a top logit %.2e", largest);
    run.largestTopDifference = largest;
    for (std::size_t i = 0; i < run.expected.size(); ++i) {
        run.tokens.push_back(TokenId(std::max_element(logits.begin(), logits.end()) - logits.begin()));
        const StepEntry entry{*slot, std::span(run.tokens).last(1)};
        if (i + 1 < run.expected.size() && !backend.step({&entry, 1}, logits))
            return run;
    }
    return run;
}

} // namespace octavo::engine::test
