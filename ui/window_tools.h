#pragma once

/// The windows that the main window asks for: the wizard, settings, and the source viewer.

#include "ui/settings/startup_settings.h"

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
    /// Answers `window`'s requests for as long as it lives; `window` becomes the parent. `settings`: as read at the
    /// start.
    explicit WindowTools(MainWindow* window, const StartupSettings& settings = {});

    void openSettings();
    /// Null while there is no engine yet.
    AddRepositoryDialog* openWizard();

private:
    MainWindow* m_window;
    StartupSettings m_settings;
    QPointer<SourceViewer> m_source;
};

} // namespace octavo::ui
