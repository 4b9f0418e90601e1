#pragma once

/// What a pane says about itself, in words: no widgets, so that the words can be tested.

#include "agents/values.h"
#include "ui/theme.h"

#include <QString>

namespace octavo::ui {

struct PaneState {
    QString words;  ///< "reading 42%"
    QString detail; ///< "0:31 left", where there is room for it; may be empty
    Tone tone = Tone::Muted;
};

/// Of an agent and its context: one that is idle while its context is being read says so.
PaneState paneState(const agents::AgentStatus& status, const agents::ContextInfo& context);

/// "vllm @ 3f2a9c1"; empty for no context.
QString contextLabel(const agents::ContextInfo& context);
QString shortCommit(const QString& commit);

/// "55,020 of 131,000 tokens · 3,910 tok/s · 0:19 left"; what is not known is left out.
QString readingLine(const agents::AgentStatus& status);
/// The same of a context that is being read; where it took up what was read before, with how much that was.
QString readingLine(const agents::ContextInfo& context);

/// How full the context is: Warning while only a few answers fit (4,096 tokens, a tenth of a small context), Bad when
/// the next one may not (1,024 tokens, a 25th).
Tone contextTone(qint64 used, qint64 limit);
/// "244K / 250K", a dash for what is not known.
QString contextFigures(qint64 used, qint64 limit);

/// The first sentence of a problem, and what follows it.
struct ProblemWords {
    QString title, detail;
};
ProblemWords splitProblem(const QString& problem);

} // namespace octavo::ui
