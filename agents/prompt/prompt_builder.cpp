#include "agents/prompt/prompt_builder.h"

#include <algorithm>
#include <fstream>
#include <iterator>

namespace octavo::agents {

using engine::SpecialTokens;
using engine::TokenId;

namespace {

constexpr std::size_t chunkBytes = 64 * 1024;
constexpr std::size_t maxAddedTokenBytes = 64;

/// Past a newline and before a visible ASCII character both pre-tokenizer regexes end a piece, and normalisation
/// joins nothing: text cut there gives the ids of the whole.
bool isCut(std::string_view text, std::size_t at)
{
    return text[at - 1] == '\n' && text[at] > ' ' && text[at] < 0x7f;
}

std::size_t nextCut(std::string_view text, std::size_t from)
{
    for (std::size_t at = from + chunkBytes; at < text.size(); ++at) {
        if (isCut(text, at))
            return at;
    }
    return text.size();
}

bool isCancelled(const std::atomic<bool>* cancel)
{
    return cancel != nullptr && cancel->load(std::memory_order_relaxed);
}

/// Calls `take` with pieces of `text` whose ids, one after another, are those of `text`.
template <typename Take>
bool forEachChunk(std::string_view text, const std::atomic<bool>* cancel, Take&& take)
{
    for (std::size_t from = 0; from < text.size();) {
        if (isCancelled(cancel))
            return false;
        const std::size_t end = nextCut(text, from);
        take(text.substr(from, end - from));
        from = end;
    }
    return true;
}

bool fileMentions(const std::filesystem::path& path, std::string_view what)
{
    std::error_code ignored;
    const auto size = std::filesystem::file_size(path, ignored);
    if (ignored || size > 4 * 1024 * 1024)
        return false;
    std::ifstream in(path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    return text.find(what) != std::string::npos;
}

} // namespace

PromptTemplate PromptTemplate::forModel(const std::filesystem::path& modelDir)
{
    PromptTemplate out;
    out.emptyThinkBlock = fileMentions(modelDir / "chat_template.jinja", "<think>") ||
                          fileMentions(modelDir / "tokenizer_config.json", "<think>\\n");
    return out;
}

PromptBuilder::PromptBuilder(const engine::Tokenizer& tokenizer, PromptTemplate promptTemplate)
    : m_tokenizer(&tokenizer)
    , m_template(std::move(promptTemplate))
{
}

Result<PromptBuilder> PromptBuilder::create(const engine::Tokenizer& tokenizer, PromptTemplate promptTemplate)
{
    PromptBuilder out(tokenizer, std::move(promptTemplate));
    const auto start = tokenizer.addedToken("<|im_start|>");
    const auto end = tokenizer.addedToken("<|im_end|>");
    if (!start || !end)
        return Error{ErrorCode::Unsupported,
                     "tokenizer.json has no <|im_start|> and <|im_end|>: Octavo needs a model that speaks ChatML"};
    out.m_start = *start;
    out.m_end = *end;
    const auto name = tokenizer.addedToken("<|repo_name|>");
    const auto separator = tokenizer.addedToken("<|file_sep|>");
    if (name && separator) {
        out.m_repositoryName = name;
        out.m_fileSeparator = separator;
    }
    out.m_think = tokenizer.addedToken("<think>");
    out.m_thinkEnd = tokenizer.addedToken("</think>");
    if (!out.m_think || !out.m_thinkEnd)
        out.m_template.emptyThinkBlock = false;
    return out;
}

namespace {

void append(PromptBuilder::Ids& ids, const engine::Tokenizer& tokenizer, std::string_view text)
{
    const auto more = tokenizer.encode(text, SpecialTokens::Plain);
    ids.insert(ids.end(), more.begin(), more.end());
}

std::string concat(std::initializer_list<std::string_view> parts)
{
    std::string out;
    for (const std::string_view part : parts)
        out += part;
    return out;
}

} // namespace

void PromptBuilder::appendContextStart(Ids& ids, std::string_view repositoryName) const
{
    ids.push_back(m_start);
    if (m_repositoryName) {
        append(ids, *m_tokenizer, concat({"system\n", m_template.system, "\n"}));
        ids.push_back(*m_repositoryName);
        append(ids, *m_tokenizer, concat({repositoryName, "\n"}));
    } else
        append(ids, *m_tokenizer, concat({"system\n", m_template.system, "\n\nRepository: ", repositoryName, "\n"}));
}

std::string PromptBuilder::fileHeader(std::string_view path) const
{
    return m_fileSeparator ? concat({path, "\n"}) : concat({"File: ", path, "\n"});
}

bool PromptBuilder::appendFile(Ids& ids, std::string_view path, std::string_view text,
                               const std::atomic<bool>* cancel) const
{
    if (m_fileSeparator)
        ids.push_back(*m_fileSeparator);
    return forEachChunk(concat({fileHeader(path), text, "\n"}), cancel,
                        [&](std::string_view chunk) { append(ids, *m_tokenizer, chunk); });
}

void PromptBuilder::appendContextEnd(Ids& ids) const
{
    ids.push_back(m_end);
    append(ids, *m_tokenizer, "\n");
}

void PromptBuilder::appendQuestion(Ids& ids, std::string_view question) const
{
    ids.push_back(m_start);
    append(ids, *m_tokenizer, concat({"user\n", question}));
    ids.push_back(m_end);
    append(ids, *m_tokenizer, "\n");
    ids.push_back(m_start);
    append(ids, *m_tokenizer, "assistant\n");
    if (m_template.emptyThinkBlock) {
        ids.push_back(*m_think);
        append(ids, *m_tokenizer, "\n\n");
        ids.push_back(*m_thinkEnd);
        append(ids, *m_tokenizer, "\n\n");
    }
}

void PromptBuilder::appendUnfinishedAnswer(Ids& ids, std::string_view text, std::span<const TokenId> answerIds) const
{
    const bool usable = !answerIds.empty() && std::none_of(answerIds.begin(), answerIds.end(), [this](TokenId id) {
        return id < 0 || id >= m_tokenizer->endId() || m_tokenizer->isAdded(id);
    });
    if (usable)
        ids.insert(ids.end(), answerIds.begin(), answerIds.end());
    else
        append(ids, *m_tokenizer, text);
}

void PromptBuilder::appendAnswer(Ids& ids, std::string_view text, std::span<const TokenId> answerIds) const
{
    appendUnfinishedAnswer(ids, text, answerIds);
    ids.push_back(m_end);
    append(ids, *m_tokenizer, "\n");
}

std::int64_t PromptBuilder::scaffoldTokens(std::string_view repositoryName) const
{
    Ids ids;
    appendContextStart(ids, repositoryName);
    appendContextEnd(ids);
    return std::int64_t(ids.size());
}

std::int64_t PromptBuilder::questionTokens(std::string_view question) const
{
    Ids ids;
    appendQuestion(ids, question);
    return std::int64_t(ids.size());
}

std::int64_t PromptBuilder::headerTokens(std::string_view path) const
{
    return std::int64_t(m_tokenizer->count(fileHeader(path), SpecialTokens::Plain)) + (m_fileSeparator ? 1 : 0);
}

std::optional<std::int64_t> PromptBuilder::textTokens(std::string_view text, const std::atomic<bool>* cancel) const
{
    std::int64_t sum = 0;
    if (!forEachChunk(concat({text, "\n"}), cancel, [&](std::string_view chunk) {
            sum += std::int64_t(m_tokenizer->count(chunk, SpecialTokens::Plain));
        }))
        return {};
    return sum;
}

std::optional<std::int64_t> PromptBuilder::fileTokens(std::string_view path, std::string_view text,
                                                      const std::atomic<bool>* cancel) const
{
    std::int64_t sum = m_fileSeparator ? 1 : 0;
    if (!forEachChunk(concat({fileHeader(path), text, "\n"}), cancel, [&](std::string_view chunk) {
            sum += std::int64_t(m_tokenizer->count(chunk, SpecialTokens::Plain));
        }))
        return {};
    return sum;
}

bool PromptBuilder::standsAlone(std::string_view text)
{
    return !text.empty() && text.front() > ' ' && text.front() < 0x7f;
}

bool PromptBuilder::holdsSpecialText(std::string_view text) const
{
    for (std::size_t at = text.find('<'); at != std::string_view::npos; at = text.find('<', at + 1)) {
        const std::string_view rest = text.substr(at, maxAddedTokenBytes);
        for (std::size_t end = rest.find('>'); end != std::string_view::npos; end = rest.find('>', end + 1)) {
            if (m_tokenizer->addedToken(rest.substr(0, end + 1)))
                return true;
        }
    }
    return false;
}

} // namespace octavo::agents
