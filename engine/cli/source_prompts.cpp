#include "engine/cli/source_prompts.h"

#include "engine/cli/common.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <sstream>
#include <system_error>

namespace octavo::cli
{
namespace
{

constexpr std::array<std::string_view, 8> sourceEndings{".h", ".hpp", ".c", ".cc", ".cpp", ".py", ".rs", ".go"};

bool isNameCharacter(char c)
{
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
}

/// The name before the first bracket of a line that begins a definition; empty where it is none.
std::string definedFunction(const std::string& line, const std::string& next)
{
    const bool opens = line.ends_with('{') || line.ends_with(':') || next == "{";
    const std::size_t bracket = line.find('(');
    if (line.empty() || std::isspace(static_cast<unsigned char>(line[0])) || !opens || bracket == std::string::npos)
        return {};
    std::size_t begin = bracket;
    while (begin > 0 && isNameCharacter(line[begin - 1]))
        --begin;
    const bool isQualifiedOrAlone = begin == 0 || line[begin - 1] == ':' || line[begin - 1] == '~';
    return isQualifiedOrAlone || bracket - begin < 4 ? std::string() : line.substr(begin, bracket - begin);
}

} // namespace

Result<SourcePrompts> SourcePrompts::read(const std::filesystem::path& folder, const engine::Tokenizer& tokenizer,
                                          std::int64_t tokens)
{
    SourcePrompts prompts(tokenizer);
    const auto start = tokenizer.addedToken("<|im_start|>"), end = tokenizer.addedToken("<|im_end|>"),
               name = tokenizer.addedToken("<|repo_name|>"), separator = tokenizer.addedToken("<|file_sep|>");
    if (!start || !end || !name || !separator)
        return Error{ErrorCode::Unsupported, "the tokenizer has no tokens for ChatML turns and repository files"};
    prompts.m_start = *start;
    prompts.m_end = *end;

    std::vector<std::filesystem::path> files;
    std::error_code problem;
    for (std::filesystem::recursive_directory_iterator at(folder, problem), last; !problem && at != last;
         at.increment(problem)) {
        if (at->is_regular_file(problem) &&
            std::ranges::find(sourceEndings, at->path().extension()) != sourceEndings.end())
            files.push_back(at->path());
    }
    if (problem)
        return Error{ErrorCode::FileUnreadable, folder.string() + " cannot be listed: " + problem.message()};
    std::ranges::sort(files);

    prompts.m_context = {*start};
    prompts.append(prompts.m_context, "system\nYou are Octavo, a code assistant. Answer from the repository below.\n");
    prompts.m_context.push_back(*name);
    prompts.append(prompts.m_context, folder.filename().string() + "\n");
    for (const std::filesystem::path& file : files) {
        const std::int64_t left = tokens - 2 - std::int64_t(prompts.m_context.size());
        if (left < 64)
            break;
        OCTAVO_TRY(const std::string text, readFile(file));
        std::vector<engine::TokenId> ids{*separator};
        prompts.append(ids, file.lexically_relative(folder).string() + "\n" + text);
        const bool isWhole = std::int64_t(ids.size()) <= left;
        ids.resize(std::min(ids.size(), std::size_t(left)));
        prompts.m_context.insert(prompts.m_context.end(), ids.begin(), ids.end());
        std::istringstream lines(isWhole ? text : std::string());
        std::string line, next;
        for (std::getline(lines, line); std::getline(lines, next); line = next) {
            std::string function = definedFunction(line, next);
            if (!function.empty() && std::ranges::find(prompts.m_functions, function) == prompts.m_functions.end())
                prompts.m_functions.push_back(std::move(function));
        }
    }
    prompts.m_context.push_back(*end);
    prompts.append(prompts.m_context, "\n");
    return prompts;
}

void SourcePrompts::append(std::vector<engine::TokenId>& ids, const std::string& text) const
{
    const auto more = m_tokenizer->encode(text, engine::SpecialTokens::Plain);
    ids.insert(ids.end(), more.begin(), more.end());
}

std::vector<engine::TokenId> SourcePrompts::ask(const std::string& question) const
{
    std::vector<engine::TokenId> ids = m_context;
    ids.push_back(m_start);
    append(ids, "user\n" + question);
    ids.push_back(m_end);
    append(ids, "\n");
    ids.push_back(m_start);
    append(ids, "assistant\n");
    return ids;
}

} // namespace octavo::cli
