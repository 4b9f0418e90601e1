#pragma once

#include "agents/prompt/prompt_builder.h"
#include "engine/tokenizer/tokenizer.h"

#include <QtGlobal>

namespace octavo::agents::tests {

/// The demo model's tokenizer, loaded once.
inline const engine::Tokenizer& demoTokenizer()
{
    static const engine::Tokenizer tokenizer = [] {
        auto loaded = engine::Tokenizer::load(OCTAVO_RESOURCES "/demo-model/tokenizer.json");
        if (!loaded)
            qFatal("%s", loaded.error().message.c_str());
        return *std::move(loaded);
    }();
    return tokenizer;
}

inline const PromptBuilder& demoPrompt()
{
    static const PromptBuilder builder = *PromptBuilder::create(demoTokenizer());
    return builder;
}

} // namespace octavo::agents::tests
