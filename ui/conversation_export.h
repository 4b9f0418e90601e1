#pragma once

/// A pane's conversation as a file: Markdown to read, JSON to work with.

#include "agents/agent.h"

#include <QByteArray>
#include <QString>

namespace octavo::ui {

/// Questions are block quotes that keep their lines; answers stand as they were written (a code block in which one was
/// stopped is closed), each citation with what was found.
QString conversationAsMarkdown(const agents::Agent& agent);

/// One object: context, commit, messages with times, states, figures and citations.
QByteArray conversationAsJson(const agents::Agent& agent);

} // namespace octavo::ui
