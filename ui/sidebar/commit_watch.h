#pragma once

/// Looks whether repositories have moved on since they were read: on the branch that was chosen, is there another
/// commit now?
///
/// Thread   GUI thread; repositories are opened on a pool thread, and only read.

#include "agents/workbench.h"

#include <QElapsedTimer>
#include <QHash>

namespace octavo::ui {

class CommitWatch final : public QObject
{
    Q_OBJECT

public:
    explicit CommitWatch(agents::Workbench* workbench, QObject* parent = nullptr);

    /// Looks at every context, unless that was done less than `leastPauseMs` ago. Cheap enough for each time the window
    /// comes to the front.
    void look();
    void setLeastPause(int ms) { m_leastPauseMs = ms; }

    /// The newest commit of a context's branch where that is not the one that was read; empty otherwise.
    QString newer(agents::ContextId context) const { return m_newer.value(context); }

signals:
    void changed(octavo::agents::ContextId context);
    /// A look at the context's repository is over, whatever it found.
    void looked(octavo::agents::ContextId context);

private:
    agents::Workbench* m_workbench;
    QHash<agents::ContextId, QString> m_newer;
    QElapsedTimer m_sinceLook;
    int m_leastPauseMs = 10'000;
};

} // namespace octavo::ui
