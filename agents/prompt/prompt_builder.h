#pragma once

/// From a context and a conversation to token ids.
///
/// Scaffold and content are tokenized apart: file text, questions and old answers are encoded as plain text and never
/// yield the id of an added token, whatever they hold. What is counted is what is sent: every count here is the number
/// of ids that the matching append gives.
///
/// Layout   <|im_start|>system\n SYSTEM \n <|repo_name|>NAME\n (<|file_sep|>PATH\n TEXT \n)* <|im_end|>\n
///          then per turn <|im_start|>user\n QUESTION <|im_end|>\n <|im_start|>assistant\n ANSWER <|im_end|>\n
/// Thread   immutable; any number of threads.

#include "engine/result.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/types.h"

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace octavo::agents {

/// What depends on the model.
struct PromptTemplate {
    std::string system = "You are Octavo, a code assistant. Answer from the repository below.";
    /// Answers begin with an empty think block, which is how ChatML models with a think token are told not to think.
    /// It stays in the transcript, so that a prompt is always a prefix of the next one.
    bool emptyThinkBlock = false;

    /// emptyThinkBlock is set where the folder's chat template (chat_template.jinja or tokenizer_config.json) speaks of
    /// <think>. A folder without one, like the demo model's, was trained on the bare layout.
    static PromptTemplate forModel(const std::filesystem::path& modelDir);
};

class PromptBuilder
{
public:
    using Ids = std::vector<engine::TokenId>;

    /// `tokenizer` must outlive the builder. Fails with Unsupported where it has no <|im_start|> and <|im_end|>.
    static Result<PromptBuilder> create(const engine::Tokenizer& tokenizer, PromptTemplate promptTemplate = {});

    void appendContextStart(Ids& ids, std::string_view repositoryName) const;
    /// `cancel` is looked at every 64 KiB; false: cancelled, and `ids` holds part of the file.
    bool appendFile(Ids& ids, std::string_view path, std::string_view text,
                    const std::atomic<bool>* cancel = nullptr) const;
    void appendContextEnd(Ids& ids) const;

    /// The user's turn and the opening of the assistant's.
    void appendQuestion(Ids& ids, std::string_view question) const;
    /// An answer that is to go on; see appendAnswer().
    void appendUnfinishedAnswer(Ids& ids, std::string_view text, std::span<const engine::TokenId> answerIds) const;
    /// The answer and the end of its turn. `answerIds` are the ids that the model wrote, so that memory of them is
    /// found again; where one of them is an added token, or there are none, `text` is encoded instead.
    void appendAnswer(Ids& ids, std::string_view text, std::span<const engine::TokenId> answerIds) const;

    /// Ids of a context without files.
    std::int64_t scaffoldTokens(std::string_view repositoryName) const;
    std::int64_t questionTokens(std::string_view question) const;
    /// Ids that appendFile() adds; nothing when cancelled.
    std::optional<std::int64_t> fileTokens(std::string_view path, std::string_view text,
                                           const std::atomic<bool>* cancel = nullptr) const;

    /// Ids of a file's text, apart from its header; they add up to fileTokens() where standsAlone(text).
    std::optional<std::int64_t> textTokens(std::string_view text, const std::atomic<bool>* cancel = nullptr) const;
    std::int64_t headerTokens(std::string_view path) const;
    /// Whether no token can span header and text: the text begins with neither space nor a combining mark.
    static bool standsAlone(std::string_view text);

    /// Whether `text` holds the text of one of the tokenizer's added tokens.
    bool holdsSpecialText(std::string_view text) const;

    const engine::Tokenizer& tokenizer() const { return *m_tokenizer; }

private:
    explicit PromptBuilder(const engine::Tokenizer& tokenizer, PromptTemplate promptTemplate);
    std::string fileHeader(std::string_view path) const;

    const engine::Tokenizer* m_tokenizer;
    PromptTemplate m_template;
    engine::TokenId m_start = -1, m_end = -1;
    std::optional<engine::TokenId> m_repositoryName, m_fileSeparator; ///< both or neither
    std::optional<engine::TokenId> m_think, m_thinkEnd;
};

} // namespace octavo::agents
