#pragma once

/// A pane's conversation as a file: Markdown to read, JSON to work with.

#include "agents/agent.h"

#include <QByteArray>
#include <QString>

namespace octavo::ui {

/// Questions are headings, answers stand as they were written, each citation with what was found.
QString conversationAsMarkdown(const agents::Agent& agent);

/// One object: context, commit, messages with times, states, figures and citations.
QByteArray conversationAsJson(const agents::Agent& agent);

} // namespace octavo::ui
