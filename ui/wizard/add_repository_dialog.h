#pragma once

/// From a repository to panes that ask about it, in four steps: source, files and budget, reading, panes.
///
/// Nothing is kept before "Read ... tokens" is pressed. From then on closing the window is safe: reading goes on.
/// Thread   GUI thread; git and counting run elsewhere.

#include "ui/wizard/files_page.h"
#include "ui/wizard/panes_page.h"
#include "ui/wizard/read_page.h"
#include "ui/wizard/source_page.h"

#include "agents/values.h"

#include <QDialog>

#include <functional>

namespace octavo::agents {
class Workbench;
}

namespace octavo::ui {

class AddRepositoryDialog final : public QDialog
{
    Q_OBJECT

public:
    enum Page { Source, Files, Read, Panes };

    explicit AddRepositoryDialog(agents::Workbench* workbench, QWidget* parent = nullptr);
    ~AddRepositoryDialog() override;

    void setFolder(const QString& path);
    /// Begins with what `context` was made from, at its branch's newest commit, and says what has changed since.
    void startFrom(agents::ContextId context);
    Page page() const;

signals:
    /// The context was given to these panes, first one first.
    void contextAssigned(octavo::agents::ContextId context, const QList<int>& panes);

protected:
    void keyPressEvent(QKeyEvent* event) override;

private:
    class StepList;
    void build();
    void goTo(Page page);
    void goOn();
    void goBack();
    void showButtons();
    void startPreview();
    void stopPreview();
    void read();
    void showContext(const agents::ContextInfo& context);
    void fillPanes();
    void showChange();
    void finish();
    double tokensPerSecond() const;

    agents::Workbench* m_workbench;
    agents::IngestJob* m_preview = nullptr;
    agents::ContextId m_context{};
    agents::ContextInfo m_contextInfo;
    bool m_added = false;
    std::optional<agents::ContextId> m_basis; ///< the context that this one follows

    StepList* m_steps = nullptr;
    QStackedWidget* m_pages = nullptr;
    SourcePage* m_source = nullptr;
    FilesPage* m_files = nullptr;
    ReadPage* m_read = nullptr;
    PanesPage* m_panes = nullptr;
    QPushButton* m_back = nullptr;
    QPushButton* m_cancel = nullptr;
    QPushButton* m_next = nullptr;
};

} // namespace octavo::ui
