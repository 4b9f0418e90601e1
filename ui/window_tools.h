#pragma once

/// The windows that the main window asks for: the wizard, settings, and the source viewer.

#include <QObject>
#include <QPointer>

namespace octavo::ui {

class AddRepositoryDialog;
class MainWindow;
class SourceViewer;

class WindowTools final : public QObject
{
    Q_OBJECT

public:
    /// Answers `window`'s requests for as long as it lives; `window` becomes the parent.
    explicit WindowTools(MainWindow* window);

    void openSettings();
    /// Null while there is no engine yet.
    AddRepositoryDialog* openWizard();

private:
    MainWindow* m_window;
    QPointer<SourceViewer> m_source;
};

} // namespace octavo::ui
