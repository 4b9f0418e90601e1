#include "engine/cli/eval_parity.h"

#include "engine/cli/common.h"
#include "engine/cli/source_prompts.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <ostream>
#include <system_error>
#include <utility>

#include <unistd.h>

namespace octavo::cli
{
namespace
{

using engine::Engine;
using engine::EngineOptions;
using engine::TokenId;
using Json = nlohmann::ordered_json;

constexpr std::int64_t shortestContext = 1024, longestReadForEach = 4096;
constexpr int answerTokens = 24;
constexpr std::array questionForms{"Show me `", "Where is `", "What does `"};
constexpr std::array questionEnds{"`.", "` defined?", "` do?"};

struct Question {
    std::vector<TokenId> prompt;
    std::int64_t contextTokens = 0;
    std::vector<TokenId> expected;
    bool isExpectationFresh = false;
};

struct Way {
    const char* name;
    std::int64_t asked = 0, different = 0, reusedTokens = 0;
};

/// Asks up to `together` questions at a time and keeps their answers.
class Asker
{
public:
    explicit Asker(Engine& engine)
        : m_engine(engine)
    {
    }

    Result<std::vector<std::vector<TokenId>>> ask(const std::vector<const Question*>& questions, int together,
                                                  bool drafts, std::int64_t& reused)
    {
        std::vector<engine::RequestId> ids;
        for (std::size_t i = 0; i < questions.size(); ++i) {
            wait([&] { return m_open < together; });
            engine::GenerationRequest request;
            request.id = m_engine.nextRequestId();
            request.agent = engine::AgentId(std::uint32_t(i % std::size_t(together)));
            request.prompt = questions[i]->prompt;
            request.contextTokens = questions[i]->contextTokens;
            request.maxNewTokens = answerTokens;
            request.drafts = drafts;
            ids.push_back(request.id);
            {
                const std::scoped_lock lock(m_mutex);
                ++m_open;
            }
            OCTAVO_CHECK(m_engine.submit(std::move(request), sink()));
        }
        wait([&] { return m_open == 0; });
        if (m_failure)
            return *m_failure;
        std::vector<std::vector<TokenId>> answers;
        for (const engine::RequestId id : ids)
            answers.push_back(m_answers[id]);
        reused += std::exchange(m_reused, 0);
        return answers;
    }

private:
    engine::EventSink sink()
    {
        return [this](engine::RequestId id, engine::Event&& event) {
            const std::scoped_lock lock(m_mutex);
            if (const auto* text = std::get_if<engine::TextAppended>(&event)) {
                m_answers[id].insert(m_answers[id].end(), text->tokens.begin(), text->tokens.end());
            } else if (const auto* finished = std::get_if<engine::Finished>(&event)) {
                m_reused += finished->stats.reusedTokens;
                --m_open;
            } else if (const auto* failed = std::get_if<engine::Failed>(&event)) {
                m_failure = failed->error;
                --m_open;
            }
            m_changed.notify_all();
        };
    }

    template <typename Condition>
    void wait(Condition holds)
    {
        std::unique_lock lock(m_mutex);
        m_changed.wait(lock, holds);
    }

    Engine& m_engine;
    std::mutex m_mutex;
    std::condition_variable m_changed;
    int m_open = 0;
    std::int64_t m_reused = 0;
    std::map<engine::RequestId, std::vector<TokenId>> m_answers;
    std::optional<Error> m_failure;
};

/// A folder for saved contexts that goes when this does.
struct ScratchFolder {
    std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("octavo-parity-" + std::to_string(::getpid()));
    ~ScratchFolder()
    {
        std::error_code ignored;
        std::filesystem::remove_all(path, ignored);
    }
};

Result<std::vector<Question>> makeQuestions(const Arguments& arguments, const engine::Tokenizer& tokenizer,
                                            std::int64_t longest, std::int64_t each)
{
    std::vector<Question> questions;
    // The longest context's functions, in all: what a shorter one does not hold makes a question like any other.
    OCTAVO_TRY(const SourcePrompts whole, SourcePrompts::read(arguments.text("--files"), tokenizer, longest));
    const auto& names = whole.functions();
    if (names.empty())
        return Error{ErrorCode::NotFound,
                     arguments.text("--files") + " has no whole source file with a function to ask about in " +
                         std::to_string(longest) + " tokens; name another folder of C, C++, Python, Rust or Go files"};
    for (std::int64_t context = shortestContext; context <= longest; context *= 2) {
        OCTAVO_TRY(const SourcePrompts prompts,
                   SourcePrompts::read(arguments.text("--files"), tokenizer, context - 64)); // 64 for the question
        for (std::int64_t i = 0; i < each; ++i) {
            Question question;
            const std::size_t form = std::size_t(i) % questionForms.size();
            question.prompt = prompts.ask(
                questionForms[form] + names[std::size_t(i) * names.size() / std::size_t(each)] + questionEnds[form]);
            question.contextTokens = std::int64_t(prompts.context().size());
            questions.push_back(std::move(question));
        }
    }
    return questions;
}

} // namespace

Result<Json> evalParity(const Arguments& arguments, Streams& streams)
{
    if (!arguments.has("--files"))
        return Error{ErrorCode::InvalidArgument, "--files is needed: a folder of source files to ask about"};
    OCTAVO_TRY(const std::int64_t longest, arguments.integer("--context", 65'536, shortestContext, longestContext));
    OCTAVO_TRY(const std::int64_t each, arguments.integer("--samples", 15, 1, 1000));
    OCTAVO_TRY(EngineOptions options, readEngineOptions(arguments));
    options.contextLimit = 0;
    OCTAVO_TRY(auto engine, Engine::create(options));
    OCTAVO_TRY(std::vector<Question> questions, makeQuestions(arguments, engine->tokenizer(), longest, each));
    std::vector<const Question*> all;
    for (const Question& question : questions)
        all.push_back(&question);

    std::array ways{Way{"in an engine of its own"}, Way{"after the others, the context reused"},
                    Way{"a second time"},           Way{"with drafts"},
                    Way{"beside seven others"},     Way{"from disk after a restart"},
                    Way{"on two workers"}};
    auto take = [&](Way& way, const std::vector<std::vector<TokenId>>& answers) {
        for (std::size_t i = 0; i < answers.size(); ++i)
            way.different += answers[i] != questions[i].expected;
        way.asked += std::int64_t(answers.size());
        streams.err << way.name << ": " << way.asked << " asked, " << way.different << " differ\n";
    };

    // Reading long contexts again and again takes most of the time: of those, one question each.
    for (std::size_t i = 0; i < questions.size(); ++i) {
        if (questions[i].contextTokens > longestReadForEach && i % std::size_t(each) != std::size_t(each) / 2)
            continue;
        OCTAVO_TRY(engine, Engine::create(options));
        OCTAVO_TRY(const auto answers, Asker(*engine).ask({all[i]}, 1, false, ways[0].reusedTokens));
        questions[i].expected = answers.front();
        questions[i].isExpectationFresh = true;
        ++ways[0].asked;
    }
    const ScratchFolder folder;
    options.savedContexts = folder.path;
    OCTAVO_TRY(engine, Engine::create(options));
    OCTAVO_TRY(const auto reused, Asker(*engine).ask(all, 1, false, ways[1].reusedTokens));
    for (std::size_t i = 0; i < questions.size(); ++i) {
        if (!questions[i].isExpectationFresh)
            questions[i].expected = reused[i];
    }
    take(ways[1], reused);
    const std::array<std::pair<int, bool>, 3> again{{{1, false}, {1, true}, {8, true}}}; // together, drafts
    for (std::size_t i = 0; i < again.size(); ++i) {
        OCTAVO_TRY(const auto answers,
                   Asker(*engine).ask(all, again[i].first, again[i].second, ways[i + 2].reusedTokens));
        take(ways[i + 2], answers);
    }
    engine.reset(); // which ends when its contexts are on disk
    OCTAVO_TRY(engine, Engine::create(options));
    OCTAVO_TRY(const auto reopened, Asker(*engine).ask(all, 1, true, ways[5].reusedTokens));
    take(ways[5], reopened);
    engine.reset();
    options.devices = {options.devices.front(), options.devices.front()};
    OCTAVO_TRY(engine, Engine::create(options));
    OCTAVO_TRY(const auto onTwo, Asker(*engine).ask(all, 8, true, ways[6].reusedTokens));
    take(ways[6], onTwo);

    Json found = Json::array();
    std::int64_t different = 0;
    for (const Way& way : ways) {
        found.push_back({{"way", way.name},
                         {"asked", way.asked},
                         {"different", way.different},
                         {"reused_tokens", way.reusedTokens}});
        different += way.different;
    }
    return Json{{"eval", "parity"},           {"prompts", questions.size()}, {"shortest_context", shortestContext},
                {"longest_context", longest}, {"different", different},      {"ways", found}};
}

} // namespace octavo::cli
