#include "engine/evaluation/repository_questions.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <map>
#include <sstream>
#include <system_error>

namespace octavo::engine
{

namespace
{

constexpr std::uintmax_t largestFile = 1 << 20;

bool isNamePart(char c)
{
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
}

/// The name that a line defines; empty where it defines none.
std::string definedName(const std::string& line)
{
    constexpr std::array<std::string_view, 8> keywords = {"class ", "struct ",   "enum ",    "def ",
                                                          "fn ",    "func ",     "function ", "#define "};
    std::size_t at = line.find_first_not_of(" \t");
    if (at == std::string::npos)
        return {};
    for (const std::string_view modifier : {"pub ", "export ", "static ", "async ", "typedef "}) {
        if (line.compare(at, modifier.size(), modifier) == 0)
            at += modifier.size();
    }
    for (const std::string_view keyword : keywords) {
        if (line.compare(at, keyword.size(), keyword) != 0)
            continue;
        const std::size_t begin = at + keyword.size();
        std::size_t end = begin;
        while (end < line.size() && isNamePart(line[end]))
            ++end;
        // "struct Name;" and "struct Name value" define nothing.
        const char next = end < line.size() ? line[end] : '\n';
        const std::size_t after = line.find_first_not_of(' ', end);
        const bool opens = next == '(' || next == ':' || next == '<' || next == '\n' || keyword == "#define " ||
                           (after != std::string::npos && (line[after] == '{' || line[after] == ':'));
        return opens && end - begin > 4 ? line.substr(begin, end - begin) : std::string();
    }
    return {};
}

void append(std::vector<TokenId>& ids, const Tokenizer& tokenizer, const std::string& text, SpecialTokens special)
{
    const std::vector<TokenId> more = tokenizer.encode(text, special);
    ids.insert(ids.end(), more.begin(), more.end());
}

} // namespace

Result<std::vector<RepositoryFile>> readRepository(const std::filesystem::path& where)
{
    namespace fs = std::filesystem;
    std::error_code failed;
    std::vector<fs::path> paths;
    const bool folder = fs::is_directory(where, failed);
    if (folder) {
        fs::recursive_directory_iterator entry(where, fs::directory_options::skip_permission_denied, failed), end;
        for (; !failed && entry != end; entry.increment(failed)) {
            const bool hidden = entry->path().filename().string().starts_with(".");
            std::error_code ignored;
            if (hidden && entry->is_directory(ignored))
                entry.disable_recursion_pending();
            if (!hidden && !entry->is_symlink(ignored) && entry->is_regular_file(ignored))
                paths.push_back(entry->path());
        }
        std::ranges::sort(paths);
    } else {
        paths.push_back(where);
    }
    std::vector<RepositoryFile> files;
    for (const fs::path& path : paths) {
        if (folder && fs::file_size(path, failed) > largestFile)
            continue;
        std::ifstream in(path, std::ios::binary);
        std::ostringstream text;
        text << in.rdbuf();
        if (!in || text.view().empty() || text.view().find('\0') != std::string_view::npos)
            continue;
        files.push_back({folder ? path.lexically_relative(where).string() : path.filename().string(), text.str()});
    }
    if (files.empty())
        return Error{ErrorCode::FileUnreadable, where.string() + " holds no text; name a file or a folder of files"};
    return files;
}

std::vector<TokenId> repositoryIds(const Tokenizer& tokenizer, const std::string& name,
                                   const std::vector<RepositoryFile>& files)
{
    std::vector<TokenId> ids;
    append(ids, tokenizer,
           "<|im_start|>system\nYou are Octavo, a code assistant. Answer from the repository below.\n<|repo_name|>",
           SpecialTokens::Parse);
    append(ids, tokenizer, name + "\n", SpecialTokens::Plain);
    for (const RepositoryFile& file : files) {
        append(ids, tokenizer, "<|file_sep|>", SpecialTokens::Parse);
        append(ids, tokenizer, file.path + "\n" + file.text + (file.text.ends_with('\n') ? "" : "\n"),
               SpecialTokens::Plain);
    }
    return ids;
}

std::vector<Lookup> makeLookups(const Tokenizer& tokenizer, const std::vector<RepositoryFile>& files, double fraction,
                                int count)
{
    struct Definition {
        int lines = 0;
        std::size_t at = 0;
        const RepositoryFile* file = nullptr;
    };
    std::size_t total = 0;
    for (const RepositoryFile& file : files)
        total += file.text.size();
    std::map<std::string, Definition> definitions;
    std::size_t passed = 0;
    for (const RepositoryFile& file : files) {
        for (std::size_t begin = 0; begin < file.text.size();) {
            const std::size_t end = std::min(file.text.find('\n', begin), file.text.size());
            const std::string name = definedName(file.text.substr(begin, end - begin));
            if (!name.empty()) {
                Definition& definition = definitions[name];
                ++definition.lines;
                definition.at = passed + begin;
                definition.file = &file;
            }
            begin = end + 1;
        }
        passed += file.text.size();
    }
    std::vector<std::pair<std::size_t, std::string>> found;
    for (const auto& [name, definition] : definitions) {
        if (definition.lines == 1 && double(definition.at) < fraction * double(total))
            found.emplace_back(definition.at, name);
    }
    std::ranges::sort(found);
    constexpr std::array<std::array<const char*, 2>, 4> forms = {{{"Where is `", "` defined?"},
                                                                  {"Show me `", "`."},
                                                                  {"What does `", "` do?"},
                                                                  {"What is the signature of `", "`?"}}};
    std::vector<Lookup> lookups;
    const std::size_t wanted = std::min(found.size(), std::size_t(std::max(count, 0)));
    for (std::size_t i = 0; i < wanted; ++i) {
        const auto& [at, name] = found[(2 * i + 1) * found.size() / (2 * wanted)];
        Lookup lookup{name, definitions.at(name).file->path, {}, double(at) / double(total), {}};
        lookup.question = forms[i % forms.size()][0] + name + forms[i % forms.size()][1];
        append(lookup.ids, tokenizer, "<|im_end|>\n<|im_start|>user\n", SpecialTokens::Parse);
        append(lookup.ids, tokenizer, lookup.question, SpecialTokens::Plain);
        append(lookup.ids, tokenizer, "<|im_end|>\n<|im_start|>assistant\n", SpecialTokens::Parse);
        lookups.push_back(std::move(lookup));
    }
    return lookups;
}

} // namespace octavo::engine
