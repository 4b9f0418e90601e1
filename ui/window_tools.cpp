#include "ui/window_tools.h"

#include "ui/main_window.h"
#include "ui/settings/settings_dialog.h"
#include "ui/source_viewer/source_viewer.h"
#include "ui/wizard/add_repository_dialog.h"

namespace octavo::ui {

WindowTools::WindowTools(MainWindow* window, const StartupSettings& settings)
    : QObject(window)
    , m_window(window)
    , m_settings(settings)
{
    connect(window, &MainWindow::addRepositoryRequested, this, [this] { openWizard(); });
    connect(window, &MainWindow::changeContextRequested, this, [this](agents::ContextId context) {
        if (AddRepositoryDialog* dialog = openWizard())
            dialog->startFrom(context);
    });
    connect(window, &MainWindow::chooseFilesRequested, this, [this](const QString& folder) {
        if (AddRepositoryDialog* dialog = openWizard())
            dialog->setFolder(folder);
    });
    connect(window, &MainWindow::settingsRequested, this, &WindowTools::openSettings);
    connect(window, &MainWindow::citationActivated, this,
            [this](agents::ContextId context, const agents::Citation& citation) {
                if (!m_source) {
                    m_source = new SourceViewer(m_window->workbench(), m_window);
                    m_source->setAttribute(Qt::WA_DeleteOnClose);
                }
                m_source->open(context, citation.path, citation.line, citation.lastLine);
                m_source->show();
                m_source->raise();
                m_source->activateWindow();
            });
}

AddRepositoryDialog* WindowTools::openWizard()
{
    if (!m_window->workbench()->isReady())
        return nullptr;
    auto* dialog = new AddRepositoryDialog(m_window->workbench(), m_window);
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    dialog->open();
    return dialog;
}

void WindowTools::openSettings()
{
    auto* dialog = new SettingsDialog(m_window->workbench(), m_window->commands(), m_settings, {}, m_window);
    connect(dialog, &QDialog::finished, this, [this, dialog] { m_settings = dialog->settings(); });
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    dialog->open();
}

} // namespace octavo::ui
