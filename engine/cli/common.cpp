#include "engine/cli/common.h"

#include "engine/resources.h"

#include <charconv>
#include <fstream>
#include <istream>
#include <iterator>
#include <ostream>

namespace octavo::cli {
namespace {

std::vector<std::string> splitAtCommas(const std::string& list)
{
    std::vector<std::string> parts;
    std::size_t start = 0;
    while (start <= list.size()) {
        const std::size_t comma = std::min(list.find(',', start), list.size());
        parts.push_back(list.substr(start, comma - start));
        start = comma + 1;
    }
    return parts;
}

} // namespace

OptionSpec modelOption()
{
    return {"--model", "DIR", "checkpoint in Hugging Face layout (default: the bundled demo model)"};
}

OptionSpec jsonOption()
{
    return {"--json", "", "one JSON object per line on stdout, nothing else there"};
}

std::vector<OptionSpec> engineOptions()
{
    return {
        {"--device", "D", "cpu, cuda:0, cuda:0,cuda:1 or auto (default)"},
        {"--threads", "N", "compute threads of the CPU backend (default: all)"},
        {"--context-limit", "N", "tokens that one agent may hold (default: 250000, or what the model allows)"},
        {"--cpu-path", "NAME", "force plain, avx2, avx512 or reference (default: the best there is)"},
        {"--saved-contexts", "DIR", "keep contexts that were read there, and open them again (default: keep none)"},
        {"--sparse", "MODE", "on, off or auto (default): decode reads picked rows, or all"},
    };
}

std::vector<OptionSpec> joined(std::vector<OptionSpec> options, std::vector<OptionSpec> more)
{
    options.insert(options.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
    return options;
}

Result<std::filesystem::path> modelDir(const Arguments& arguments)
{
    if (arguments.has("--model"))
        return std::filesystem::path(arguments.text("--model"));
    return engine::demoModelDir();
}

Result<engine::EngineOptions> readEngineOptions(const Arguments& arguments)
{
    engine::EngineOptions options;
    OCTAVO_TRY(options.modelDir, modelDir(arguments));
    options.devices = splitAtCommas(arguments.text("--device", "auto"));
    OCTAVO_TRY(const std::int64_t threads, arguments.integer("--threads", 0, 0, 1024));
    options.threads = int(threads);
    OCTAVO_TRY(options.contextLimit, arguments.integer("--context-limit", 0, 0));
    options.cpuPath = arguments.text("--cpu-path");
    options.savedContexts = arguments.text("--saved-contexts");
    const std::string sparse = arguments.text("--sparse", "auto");
    if (sparse == "on")
        options.sparse = engine::SparseMode::On;
    else if (sparse == "off")
        options.sparse = engine::SparseMode::Off;
    else if (sparse != "auto")
        return Error{ErrorCode::InvalidArgument, "--sparse is '" + sparse + "', must be on, off or auto"};
    return options;
}

Result<std::unique_ptr<engine::Engine>> openEngine(const Arguments& arguments, Streams& streams)
{
    OCTAVO_TRY(const engine::EngineOptions options, readEngineOptions(arguments));
    OCTAVO_TRY(auto engine, engine::Engine::create(options));
    streams.err << engine->model().name;
    for (const engine::DeviceMetrics& device : engine->metrics().devices)
        streams.err << " on " << device.device << " (" << device.description << ')';
    streams.err << '\n';
    return engine;
}

Result<std::string> readAll(std::istream& in)
{
    std::string bytes(std::istreambuf_iterator<char>(in), {});
    if (in.bad())
        return Error{ErrorCode::FileUnreadable, "the standard input could not be read"};
    return bytes;
}

Result<std::string> readFile(const std::filesystem::path& file)
{
    std::error_code ignored;
    if (std::filesystem::is_directory(file, ignored))
        return Error{ErrorCode::FileUnreadable, file.string() + ": is a folder, a file is needed"};
    std::ifstream in(file, std::ios::binary);
    if (!in)
        return Error{ErrorCode::FileUnreadable, file.string() + ": cannot be opened for reading"};
    std::string bytes(std::istreambuf_iterator<char>(in), {});
    if (in.bad())
        return Error{ErrorCode::FileUnreadable, file.string() + ": reading it failed"};
    return bytes;
}

Result<std::vector<engine::TokenId>> readIds(const std::string& file, std::istream& in)
{
    auto read = file == "-" ? readAll(in) : readFile(file);
    OCTAVO_TRY(const std::string bytes, std::move(read));
    std::vector<engine::TokenId> ids;
    const char* at = bytes.data();
    const char* const end = at + bytes.size();
    while (at < end) {
        if (std::string_view(" \t\r\n,[]").find(*at) != std::string_view::npos) {
            ++at;
            continue;
        }
        engine::TokenId id = 0;
        const auto [next, code] = std::from_chars(at, end, id);
        if (code != std::errc{})
            return Error{ErrorCode::FormatInvalid,
                         file + ": byte " + std::to_string(at - bytes.data()) + " is '" + std::string(1, *at)
                             + "', expected token ids apart by blanks or commas"};
        ids.push_back(id);
        at = next;
    }
    return ids;
}

Result<void> checkIds(std::span<const engine::TokenId> ids, engine::TokenId endId)
{
    for (std::size_t i = 0; i < ids.size(); ++i) {
        if (ids[i] < 0 || ids[i] >= endId)
            return Error{ErrorCode::InvalidArgument, "token id " + std::to_string(ids[i]) + " at index "
                                                         + std::to_string(i) + " must be between 0 and "
                                                         + std::to_string(endId - 1)};
    }
    return {};
}

} // namespace octavo::cli
