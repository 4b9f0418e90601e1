#include "engine/cli/bench.h"
#include "engine/cli/common.h"
#include "engine/scheduler/prefix_cache.h"
#include "engine/scheduler/saved_context.h"
#include "engine/tokenizer/tokenizer.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <ostream>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

namespace octavo::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* benchName = "bench";
using engine::TokenId;
using Clock = std::chrono::steady_clock;

double msSince(Clock::time_point start)
{
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// A folder of its own that goes when this does.
class ScratchFolder
{
public:
    static Result<std::unique_ptr<ScratchFolder>> create()
    {
        std::error_code error;
        std::string name = (fs::temp_directory_path(error) / "octavo-bench-XXXXXX").string();
        if (error || !::mkdtemp(name.data()))
            return Error{ErrorCode::FileUnwritable, name + " cannot be made: " + std::strerror(errno)};
        return std::unique_ptr<ScratchFolder>(new ScratchFolder(name));
    }
    ~ScratchFolder()
    {
        std::error_code ignored;
        fs::remove_all(m_path, ignored);
    }
    const fs::path& path() const { return m_path; }

private:
    explicit ScratchFolder(fs::path path) : m_path(std::move(path)) {}
    fs::path m_path;
};

/// Asks and waits for the end.
Result<engine::GenerationStats> ask(engine::Engine& engine, std::vector<TokenId> prompt, std::int64_t contextTokens,
                                    int maxNewTokens)
{
    engine::GenerationRequest request;
    request.id = engine.nextRequestId();
    request.prompt = std::move(prompt);
    request.contextTokens = contextTokens;
    request.contextLabel = {benchName, ""};
    request.maxNewTokens = maxNewTokens;
    std::promise<Result<engine::GenerationStats>> ended;
    auto end = ended.get_future();
    OCTAVO_CHECK(engine.submit(std::move(request), [&](engine::RequestId, engine::Event&& event) {
        if (const auto* finished = std::get_if<engine::Finished>(&event))
            ended.set_value(finished->stats);
        else if (const auto* failed = std::get_if<engine::Failed>(&event))
            ended.set_value(failed->error);
    }));
    return end.get();
}

/// The file of a context of `tokens` that this command has read, once it is there and whole.
Result<fs::path> waitForSave(const fs::path& folder, std::int64_t tokens)
{
    constexpr auto patience = std::chrono::seconds(120);
    for (const auto start = Clock::now(); Clock::now() - start < patience;
         std::this_thread::sleep_for(std::chrono::milliseconds(20))) {
        for (const auto& entry : fs::directory_iterator(folder)) {
            const auto file = engine::SavedContext::open(entry.path());
            if (file && file->info().label.name == benchName && file->info().tokens() == tokens)
                return entry.path();
        }
    }
    return Error{ErrorCode::NotFound, folder.string() + ": no context was saved there; the device cannot save any, or "
                                                        "the disk has no room"};
}

/// Drops the file from the page cache where the system allows it, then reads it: what the disk needs for it.
double coldReadMs(const fs::path& file, bool measure)
{
    const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return 0.0;
    ::fdatasync(descriptor);
    ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
    const auto start = Clock::now();
    std::vector<char> block(std::size_t{1} << 20);
    while (measure && ::read(descriptor, block.data(), block.size()) > 0) {
    }
    const double ms = msSince(start);
    ::close(descriptor);
    return ms;
}

} // namespace

Result<void> runBenchReopen(const Arguments& arguments, Streams& streams)
{
    constexpr std::int64_t questionTokens = 32;
    OCTAVO_TRY(engine::EngineOptions options, readEngineOptions(arguments));
    OCTAVO_TRY(const std::int64_t context, arguments.integer("--context", 65'536, 1024, longestContext));
    OCTAVO_TRY(const std::int64_t changed,
               arguments.integer("--changed", std::max<std::int64_t>(context / 50, 64), 1, context / 2));
    std::unique_ptr<ScratchFolder> scratch;
    if (options.savedContexts.empty()) { // where one is named, the next run finds the context read
        OCTAVO_TRY(scratch, ScratchFolder::create());
        options.savedContexts = scratch->path();
    }
    const fs::path& folder = options.savedContexts;
    const std::int64_t savedTokens = engine::roundDownToStride(context);

    std::vector<TokenId> known, question;
    double readMs = 0.0;
    {
        OCTAVO_TRY(const auto engine, engine::Engine::create(options));
        known = uniqueTokens(context, engine->tokenizer().endId(), 1);
        question = uniqueTokens(questionTokens, engine->tokenizer().endId(), 2);
        OCTAVO_TRY(const engine::GenerationStats read, ask(*engine, known, context, 0));
        readMs = read.prefillMs;
        OCTAVO_CHECK(waitForSave(folder, savedTokens));
    }
    OCTAVO_TRY(const fs::path file, waitForSave(folder, savedTokens));
    const auto fileBytes = std::int64_t(fs::file_size(file));
    const auto questioned = [&](const std::vector<TokenId>& first) {
        std::vector<TokenId> prompt = first;
        prompt.insert(prompt.end(), question.begin(), question.end());
        return prompt;
    };

    // In a program of its own each time; what is timed begins with the question.
    engine::GenerationStats cold, warm, later;
    const double diskMs = coldReadMs(file, true);
    coldReadMs(file, false);
    for (engine::GenerationStats* stats : {&cold, &warm}) {
        OCTAVO_TRY(const auto engine, engine::Engine::create(options));
        OCTAVO_TRY(*stats, ask(*engine, questioned(known), context, 2));
    }
    {
        OCTAVO_TRY(const auto engine, engine::Engine::create(options));
        std::vector<TokenId> commit(known.begin(), known.end() - changed);
        const auto file2 = uniqueTokens(changed, engine->tokenizer().endId(), 3);
        commit.insert(commit.end(), file2.begin(), file2.end());
        OCTAVO_TRY(later, ask(*engine, questioned(commit), 0, 2)); // as no context, so that it is not saved
    }

    const double reusedShare = double(later.reusedTokens) / double(context);
    const std::string command = "octavo-engine bench reopen --context " + std::to_string(context) + " --changed "
                                + std::to_string(changed);
    if (arguments.has("--json")) {
        const nlohmann::ordered_json line{{"bench", "reopen"},
                                          {"context", context},
                                          {"read_ms", readMs},
                                          {"file_bytes", fileBytes},
                                          {"disk_read_ms", diskMs},
                                          {"ttft_cold_ms", cold.ttftMs},
                                          {"ttft_warm_ms", warm.ttftMs},
                                          {"tokens_read", warm.promptTokens - warm.reusedTokens},
                                          {"question_tokens", questionTokens},
                                          {"changed_tokens", changed},
                                          {"reused_after_change", reusedShare},
                                          {"ttft_after_change_ms", later.ttftMs},
                                          {"command", command}};
        streams.out << line.dump() << '\n';
        return {};
    }
    streams.out << context << " tokens, read in " << readMs << " ms, saved in " << (fileBytes >> 20) << " MiB\n"
                << "  the disk reads the file in       " << diskMs << " ms\n"
                << "  first token, file on the disk    " << cold.ttftMs << " ms\n"
                << "  first token, file in memory      " << warm.ttftMs << " ms\n"
                << "  tokens read for it               " << warm.promptTokens - warm.reusedTokens << " ("
                << questionTokens << " are the question)\n"
                << "  last " << changed << " tokens changed: reused " << 100.0 * reusedShare << "%, first token "
                << later.ttftMs << " ms\n"
                << command << '\n';
    return {};
}

Result<void> runBenchCancel(const Arguments& arguments, Streams& streams)
{
    OCTAVO_TRY(const std::int64_t context, arguments.integer("--context", 16'384, 1024, longestContext));
    OCTAVO_TRY(const std::int64_t agents, arguments.integer("--agents", 1, 1, 8));
    OCTAVO_TRY(const std::int64_t rounds, arguments.integer("--rounds", 20, 1, 1000));
    OCTAVO_TRY(const auto engine, openEngine(arguments, streams));
    const TokenId endId = engine->tokenizer().endId();
    std::uint64_t seed = 1;

    // Cancels all agents at once, `afterMs` after the first sign of work, and waits for the last end.
    const auto cancelled = [&](bool inDecode, double afterMs) -> Result<double> {
        struct Watched {
            engine::RequestId id{};
            std::promise<void> works;
            std::promise<Result<void>> ended;
            bool seen = false;
        };
        std::vector<std::unique_ptr<Watched>> all;
        for (std::int64_t agent = 0; agent < agents; ++agent) {
            auto& watched = *all.emplace_back(std::make_unique<Watched>());
            engine::GenerationRequest request;
            request.id = watched.id = engine->nextRequestId();
            request.agent = engine::AgentId(std::uint32_t(agent));
            request.prompt = uniqueTokens(inDecode ? 512 : context, endId, ++seed);
            request.maxNewTokens = int(context);
            request.drafts = false;
            request.sampling.temperature = 1.0f;
            request.sampling.seed = seed;
            OCTAVO_CHECK(engine->submit(std::move(request), [&watched, inDecode](engine::RequestId,
                                                                                 engine::Event&& event) {
                const bool works = inDecode ? std::holds_alternative<engine::TextAppended>(event)
                                            : std::holds_alternative<engine::PrefillProgress>(event);
                if (const auto* failed = std::get_if<engine::Failed>(&event)) {
                    watched.ended.set_value(failed->error);
                } else if (std::holds_alternative<engine::Finished>(event)) {
                    watched.ended.set_value(Result<void>());
                } else if (works && !std::exchange(watched.seen, true)) {
                    watched.works.set_value();
                }
            }));
        }
        all.front()->works.get_future().wait_for(std::chrono::seconds(60));
        std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(afterMs));
        const auto start = Clock::now();
        for (const auto& watched : all)
            engine->cancel(watched->id);
        for (const auto& watched : all)
            OCTAVO_CHECK(watched->ended.get_future().get());
        return msSince(start);
    };
    std::vector<double> decode, prefill;
    for (std::int64_t round = 0; round < rounds; ++round) {
        const double afterMs = 3.0 + 17.0 * double(round % 8); // at different places of a slice or step
        OCTAVO_TRY(const double writing, cancelled(true, afterMs));
        OCTAVO_TRY(const double reading, cancelled(false, afterMs));
        decode.push_back(writing);
        prefill.push_back(reading);
    }
    std::ranges::sort(decode);
    std::ranges::sort(prefill);
    const std::string command = "octavo-engine bench cancel --context " + std::to_string(context) + " --agents "
                                + std::to_string(agents) + " --rounds " + std::to_string(rounds);
    const std::string device = engine->metrics().devices.front().device;
    if (arguments.has("--json")) {
        const nlohmann::ordered_json line{{"bench", "cancel"},
                                          {"device", device},
                                          {"context", context},
                                          {"agents", agents},
                                          {"decode_ms_median", decode[decode.size() / 2]},
                                          {"decode_ms_worst", decode.back()},
                                          {"prefill_ms_median", prefill[prefill.size() / 2]},
                                          {"prefill_ms_worst", prefill.back()},
                                          {"command", command}};
        streams.out << line.dump() << '\n';
        return {};
    }
    streams.out << "cancel to idle on " << device << ", " << agents << " agents, " << rounds << " times each\n"
                << "  while writing   median " << decode[decode.size() / 2] << " ms, worst " << decode.back() << " ms\n"
                << "  while reading   median " << prefill[prefill.size() / 2] << " ms, worst " << prefill.back()
                << " ms\n"
                << command << '\n';
    return {};
}

} // namespace octavo::cli
