#pragma once

#include "engine/sampling/stop_matcher.h"
#include "engine/tokenizer/detokenizer.h"
#include "engine/types.h"

#include <string>
#include <utility>
#include <vector>

namespace octavo::engine {

/// One answer as it is written: tokens in, text out, with unfinished characters and possible stop strings held back.
/// Thread: one owner.
class Answer
{
public:
    /// Text that may be shown now, and the ids behind it since the last piece.
    struct Piece {
        std::string text;
        std::vector<TokenId> tokens;
        bool isEmpty() const { return text.empty() && tokens.empty(); }
    };

    Answer(const Tokenizer& tokenizer, std::vector<std::string> stopStrings)
        : m_detokenizer(tokenizer)
        , m_matcher(std::move(stopStrings))
    {}

    /// Adds a token; true when it completed a stop string, which ends the answer.
    bool append(TokenId id)
    {
        m_tokens.push_back(id);
        m_unsent.tokens.push_back(id);
        StopMatcher::Output output = m_matcher.append(m_detokenizer.append(id));
        m_unsent.text += output.text;
        m_stopped = output.stopped;
        return m_stopped;
    }

    /// What came since the last call; ids whose text is still held back wait for it.
    Piece takeText()
    {
        if (m_unsent.text.empty())
            return {};
        return std::exchange(m_unsent, {});
    }

    /// All that is left, with what was held back: the answer has ended.
    Piece finish()
    {
        if (!m_stopped) {
            const StopMatcher::Output output = m_matcher.append(m_detokenizer.finish());
            m_unsent.text += output.text;
            if (!output.stopped)
                m_unsent.text += m_matcher.finish();
        }
        return std::exchange(m_unsent, {});
    }

    const std::vector<TokenId>& tokens() const { return m_tokens; }

private:
    Detokenizer m_detokenizer;
    StopMatcher m_matcher;
    std::vector<TokenId> m_tokens;
    Piece m_unsent;
    bool m_stopped = false;
};

} // namespace octavo::engine
