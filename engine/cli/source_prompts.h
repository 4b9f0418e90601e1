#pragma once

/// Prompts about real source files, for benches and parity runs: a folder's files as a context, and questions about
/// what is defined in them. Without git and ignore rules: what Octavo itself asks is made by agents/prompt.

#include "engine/result.h"
#include "engine/tokenizer/tokenizer.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace octavo::cli
{

class SourcePrompts
{
public:
    /// Reads source files under `folder`, in order of their paths, until they fill `tokens`; the last one is cut. Fails
    /// with FileUnreadable, and with Unsupported where the tokenizer has no ChatML tokens.
    static Result<SourcePrompts> read(const std::filesystem::path& folder, const engine::Tokenizer& tokenizer,
                                      std::int64_t tokens);

    /// System turn with all files: what the questions share.
    const std::vector<engine::TokenId>& context() const { return m_context; }
    /// Functions that are defined in the files that are whole, in order, each once.
    const std::vector<std::string>& functions() const { return m_functions; }

    /// The whole prompt for a question, up to where the answer begins.
    std::vector<engine::TokenId> ask(const std::string& question) const;

private:
    explicit SourcePrompts(const engine::Tokenizer& tokenizer)
        : m_tokenizer(&tokenizer)
    {
    }
    void append(std::vector<engine::TokenId>& ids, const std::string& text) const;

    const engine::Tokenizer* m_tokenizer;
    engine::TokenId m_start = -1, m_end = -1;
    std::vector<engine::TokenId> m_context;
    std::vector<std::string> m_functions;
};

} // namespace octavo::cli
