#include "engine/backend/backend_factory.h"
#include "engine/local_engine.h"
#include "engine/model/weights.h"

#include "tests/engine/scheduler/recorder.h"

#include <QFile>
#include <QTemporaryDir>
#include <QTest>

#include <nlohmann/json.hpp>

using namespace octavo;
using namespace octavo::engine;
using namespace octavo::test;

/// The demo model on the real CPU backend: the ways in which an answer can come about all give the same tokens.
class TestEngineParity : public QObject
{
    Q_OBJECT

    struct Question {
        std::vector<TokenId> prompt;
        std::int64_t contextTokens = 0;
        std::vector<TokenId> expected; ///< alone, nothing reused, no drafts
    };

    static constexpr int contexts = 8, questionsEach = 13, answerTokens = 6;

    static nlohmann::json readGoldens()
    {
        QFile file(OCTAVO_TEST_DATA "/goldens/prompts.json");
        return file.open(QIODevice::ReadOnly) ? nlohmann::json::parse(file.readAll().toStdString()) : nlohmann::json();
    }

    Result<std::unique_ptr<LocalEngine>> makeEngine(int devices, bool reuse, const QString& savedContexts = {}) const
    {
        SchedulerOptions scheduling;
        scheduling.reusePrefixes = reuse;
        scheduling.savedContexts = savedContexts.toStdString();
        scheduling.savedContextsQuota = std::int64_t{1} << 30;
        std::vector<EngineDevice> parts;
        for (int i = 0; i < devices; ++i) {
            BackendOptions options;
            options.contextLimit = m_info.contextLimit;
            OCTAVO_TRY(auto backend, makeBackend(m_config, m_weights, options));
            parts.push_back({std::move(backend), std::int64_t{256} << 20});
        }
        OCTAVO_TRY(Tokenizer tokenizer, Tokenizer::load(m_dir / "tokenizer.json"));
        return std::make_unique<LocalEngine>(m_info, m_config, std::move(tokenizer), std::move(parts), scheduling);
    }

    static GenerationRequest request(Engine& engine, const Question& question, int agent, bool drafts)
    {
        GenerationRequest request;
        request.id = engine.nextRequestId();
        request.agent = AgentId(std::uint32_t(agent));
        request.prompt = question.prompt;
        request.contextTokens = question.contextTokens;
        request.maxNewTokens = answerTokens;
        request.drafts = drafts;
        return request;
    }

    /// All questions of `questions`, eight agents at a time; false and a message where an answer differs.
    void askAll(Engine& engine, const std::vector<Question>& questions, bool drafts, std::int64_t* reused = nullptr)
    {
        Recorder recorder;
        std::vector<RequestId> ids;
        for (std::size_t i = 0; i < questions.size(); ++i) {
            GenerationRequest next = request(engine, questions[i], int(i % 8), drafts);
            ids.push_back(next.id);
            Result<void> submitted = engine.submit(next, recorder.sink());
            for (std::size_t waitFor = 0; !submitted && waitFor < i; ++waitFor) { // the mailbox is bounded
                QVERIFY(recorder.waitForEnd(ids[waitFor]));
                submitted = engine.submit(next, recorder.sink());
            }
            QVERIFY(submitted);
        }
        for (std::size_t i = 0; i < questions.size(); ++i) {
            QVERIFY(recorder.waitForEnd(ids[i]));
            const auto record = recorder.record(ids[i]);
            QVERIFY2(record.finished, record.failure ? record.failure->message.c_str() : "");
            QVERIFY2(record.tokens == questions[i].expected, qPrintable(QString("question %1").arg(i)));
            if (reused)
                *reused += record.finished->stats.reusedTokens;
        }
    }

private slots:
    void initTestCase()
    {
        auto config = ModelConfig::load(m_dir);
        QVERIFY(config);
        m_config = *config;
        auto weights = ModelWeights::open(m_dir, m_config);
        QVERIFY(weights);
        m_weights = std::make_shared<const ModelWeights>(*std::move(weights));
        m_info.contextLimit = 4096;
        m_info.bytesPerToken = 1;

        const auto goldens = readGoldens();
        // Eight contexts of 64 to 120 tokens, and the end of each golden prompt as a question about each.
        for (int context = 0; context < contexts; ++context) {
            const auto ids = goldens[std::size_t(context)]["prompt_ids"].get<std::vector<TokenId>>();
            for (int question = 0; question < questionsEach; ++question) {
                const auto other = goldens[std::size_t(question)]["prompt_ids"].get<std::vector<TokenId>>();
                Question made;
                made.contextTokens = 64 + context * 8;
                made.prompt.assign(ids.begin(), ids.begin() + made.contextTokens);
                made.prompt.insert(made.prompt.end(), other.end() - 12 - question, other.end());
                m_questions.push_back(std::move(made));
            }
        }
        QVERIFY(m_questions.size() >= 100);

        Recorder recorder;
        auto engine = makeEngine(1, false);
        QVERIFY(engine);
        for (Question& question : m_questions) { // alone, one after another
            GenerationRequest next = request(**engine, question, 0, false);
            const RequestId id = next.id;
            QVERIFY((*engine)->submit(std::move(next), recorder.sink()));
            QVERIFY(recorder.waitForEnd(id));
            question.expected = recorder.record(id).tokens;
            QCOMPARE(recorder.record(id).finished->stats.reusedTokens, 0);
        }
    }

    void besideSevenOthersAnswersAreTheSame()
    {
        auto engine = makeEngine(1, false);
        QVERIFY(engine);
        askAll(**engine, {m_questions.begin() + 40, m_questions.begin() + 64}, false);
    }

    void fromAContextReadBeforeAnswersAreTheSame()
    {
        auto engine = makeEngine(1, true);
        QVERIFY(engine);
        std::int64_t reused = 0;
        askAll(**engine, m_questions, false, &reused);
        QVERIFY2(reused > 80 * 64, qPrintable(QString::number(reused)));
        askAll(**engine, {m_questions.begin(), m_questions.begin() + 52}, true); // a second time, now with drafts
    }

    void onTwoDevicesAnswersAreTheSame()
    {
        auto engine = makeEngine(2, true);
        QVERIFY(engine);
        askAll(**engine, {m_questions.begin() + 60, m_questions.begin() + 86}, true);
    }

    void aContextOpenedFromDiskGivesTheSameAnswer()
    {
        const QTemporaryDir dir;
        const auto goldens = readGoldens();
        Question question;
        question.contextTokens = 448;
        const auto ids = goldens[3]["prompt_ids"].get<std::vector<TokenId>>();
        question.prompt.assign(ids.begin(), ids.begin() + question.contextTokens);
        question.prompt.insert(question.prompt.end(), ids.end() - 30, ids.end());
        for (const std::int64_t expectedReuse : {0, 448}) {
            Recorder recorder;
            auto engine = makeEngine(1, true, dir.path()); // the first one's end waits for the file
            QVERIFY(engine);
            const GenerationRequest next = request(**engine, question, 0, true);
            QVERIFY((*engine)->submit(next, recorder.sink()));
            QVERIFY(recorder.waitForEnd(next.id));
            QCOMPARE(recorder.record(next.id).finished->stats.reusedTokens, expectedReuse);
            if (expectedReuse == 0)
                question.expected = recorder.record(next.id).tokens;
            QCOMPARE(recorder.record(next.id).tokens, question.expected);
        }
    }

    void anAnswerThatQuotesIsTheSameWithDrafts()
    {
        const auto goldens = readGoldens();
        auto engine = makeEngine(1, true);
        QVERIFY(engine);
        for (const std::size_t at : {4, 5}) { // they ask for code
            std::vector<std::vector<TokenId>> answers;
            for (const bool drafts : {false, true}) {
                Recorder recorder;
                GenerationRequest next;
                next.id = (*engine)->nextRequestId();
                next.prompt = goldens[at]["prompt_ids"].get<std::vector<TokenId>>();
                next.maxNewTokens = 64;
                next.drafts = drafts;
                const RequestId id = next.id;
                QVERIFY((*engine)->submit(std::move(next), recorder.sink()));
                QVERIFY(recorder.waitForEnd(id));
                answers.push_back(recorder.record(id).tokens);
            }
            QVERIFY(!answers[0].empty());
            QCOMPARE(answers[1], answers[0]);
        }
    }

private:
    const std::filesystem::path m_dir = std::filesystem::path(OCTAVO_RESOURCES) / "demo-model";
    ModelConfig m_config;
    std::shared_ptr<const ModelWeights> m_weights;
    ModelInfo m_info;
    std::vector<Question> m_questions;
};

QTEST_GUILESS_MAIN(TestEngineParity)
#include "tst_engine_parity.moc"
