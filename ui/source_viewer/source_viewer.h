#pragma once

/// A file of a context's commit, opened at the lines an answer cites. Not modal; one window is used again.

#include "ui/controls.h"
#include "ui/source_viewer/code_view.h"

#include "agents/values.h"

#include <QDialog>
#include <QLineEdit>

namespace octavo::agents {
class Workbench;
struct SourceText;
} // namespace octavo::agents

namespace octavo::ui {

class SourceViewer final : public QDialog
{
    Q_OBJECT

public:
    explicit SourceViewer(agents::Workbench* workbench, QWidget* parent = nullptr);

    /// Reads the file in the background and shows it; lines are 1-based, 0 for the file as a whole.
    void open(agents::ContextId context, const QByteArray& path, int line = 0, int lastLine = 0);
    void showSource(const agents::SourceText& source, int line, int lastLine);

    CodeView* code() const { return m_code; }

signals:
    /// "Open in editor" could not: why, in a sentence.
    void editorProblem(const QString& problem);

private:
    void openInEditor();
    void find(bool backward);

    agents::Workbench* m_workbench;
    QString m_repositoryPath;
    QByteArray m_path;
    int m_round = 0;

    TextLabel* m_title;
    TextLabel* m_where;
    TextLabel* m_notice;
    QLineEdit* m_find;
    CodeView* m_code;
    QPushButton* m_editor;
};

} // namespace octavo::ui
