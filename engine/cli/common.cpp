#include "engine/cli/common.h"

#include "engine/backend/cpu_threads.h"
#include "engine/resources.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <iterator>
#include <memory>

#include <unistd.h>

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

std::string reason(int code)
{
    return std::string(": ") + std::strerror(code);
}

/// A source that never ends must not take all memory.
constexpr std::size_t mostBytes = std::size_t{256} << 20;

template <typename Read>
Result<std::string> readUpToLimit(const std::string& name, Read&& read)
{
    std::string bytes;
    std::vector<char> block(std::size_t{1} << 16);
    while (const std::size_t got = read(block.data(), block.size())) {
        if (bytes.size() + got > mostBytes)
            return Error{ErrorCode::FormatInvalid,
                         name + " has more than the " + std::to_string(mostBytes >> 20) + " MiB that are read"};
        bytes.append(block.data(), got);
    }
    return bytes;
}

} // namespace

Result<engine::PickRule> readPickRule(const Arguments& arguments)
{
    const std::string rule = arguments.text("--pick-rule", "priority");
    if (rule != "priority" && rule != "largest")
        return Error{ErrorCode::InvalidArgument, "--pick-rule is '" + rule + "', must be priority or largest"};
    return rule == "largest" ? engine::PickRule::Largest : engine::PickRule::Priority;
}

Result<std::filesystem::path> keptFolder(const char* option, const std::string& given)
{
    const std::string name = option;
    if (given.empty())
        return Error{ErrorCode::InvalidArgument, name + " is empty, must name a folder"};
    const std::filesystem::path folder = given;
    std::error_code error, looked;
    std::filesystem::create_directories(folder, error);
    if (!std::filesystem::is_directory(folder, looked)) {
        if (!error)
            error = looked;
        return Error{ErrorCode::FileUnwritable, name + ": " + given + " is no folder and cannot be made one"
                                                    + (error ? ": " + error.message() : std::string())};
    }
    if (::access(folder.c_str(), R_OK | W_OK | X_OK) != 0)
        return Error{ErrorCode::FileUnwritable, name + ": " + given + " cannot be written to" + reason(errno)};
    return folder;
}

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
        {"--quantize", "on|off",
         "layers of a bf16, fp16 or fp32 checkpoint to int4 while loading, on the CPU (default: on)"},
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
    OCTAVO_TRY(const std::int64_t threads, arguments.integer("--threads", 0, 0, engine::mostCpuThreads()));
    options.threads = int(threads);
    OCTAVO_TRY(options.contextLimit, arguments.integer("--context-limit", 0, 0));
    options.cpuPath = arguments.text("--cpu-path");
    if (arguments.has("--saved-contexts")) {
        OCTAVO_TRY(options.savedContexts, keptFolder("--saved-contexts", arguments.text("--saved-contexts")));
    }
    const std::string sparse = arguments.text("--sparse", "auto");
    if (sparse == "on")
        options.sparse = engine::SparseMode::On;
    else if (sparse == "off")
        options.sparse = engine::SparseMode::Off;
    else if (sparse != "auto")
        return Error{ErrorCode::InvalidArgument, "--sparse is '" + sparse + "', must be on, off or auto"};
    const std::string quantize = arguments.text("--quantize", "on");
    if (quantize != "on" && quantize != "off")
        return Error{ErrorCode::InvalidArgument, "--quantize is '" + quantize + "', must be on or off"};
    options.quantize = quantize == "on";
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
    errno = 0;
    OCTAVO_TRY(std::string bytes, readUpToLimit("the standard input", [&](char* to, std::size_t size) {
                   in.read(to, std::streamsize(size));
                   return std::size_t(in.gcount());
               }));
    // std::cin takes a read that failed for the input's end; only C's stream tells.
    if (in.bad() || (&in == &std::cin && std::ferror(stdin) != 0))
        return Error{ErrorCode::FileUnreadable,
                     std::string("the standard input cannot be read") + (errno != 0 ? reason(errno) : std::string())};
    return bytes;
}

Result<std::string> readFile(const std::filesystem::path& file)
{
    std::error_code ignored;
    if (std::filesystem::is_directory(file, ignored))
        return Error{ErrorCode::FileUnreadable, file.string() + " is a folder, a file is needed"};
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> opened(std::fopen(file.c_str(), "rbe"), &std::fclose);
    if (!opened)
        return Error{ErrorCode::FileUnreadable, file.string() + " cannot be read" + reason(errno)};
    OCTAVO_TRY(std::string bytes, readUpToLimit(file.string(), [&](char* to, std::size_t size) {
                   return std::fread(to, 1, size, opened.get());
               }));
    if (std::ferror(opened.get()) != 0)
        return Error{ErrorCode::FileUnreadable, file.string() + " cannot be read" + reason(errno)};
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
        const std::string where = (file == "-" ? std::string("the standard input") : file) + ": byte "
                                  + std::to_string(at - bytes.data());
        if (code == std::errc::result_out_of_range)
            return Error{ErrorCode::FormatInvalid, where + " begins a number that is too large for a token id"};
        if (code != std::errc{}) {
            const auto byte = static_cast<unsigned char>(*at);
            const bool isPrintable = byte >= 0x20 && byte < 0x7f;
            return Error{ErrorCode::FormatInvalid,
                         where + " is " + (isPrintable ? "'" + std::string(1, *at) + "'" : std::to_string(byte))
                             + ", expected token ids apart by blanks or commas"};
        }
        ids.push_back(id);
        at = next;
    }
    if (ids.empty())
        return Error{ErrorCode::InvalidArgument,
                     (file == "-" ? std::string("the standard input") : file) + " holds no token ids"};
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
