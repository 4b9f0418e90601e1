#pragma once

/// Settings: how it looks, which model on which device, how answers are drawn, which keys there are. Changes hold at
/// once; those that wait for the next start say so.

#include "ui/controls.h"
#include "ui/settings/startup_settings.h"
#include "ui/switch.h"

#include <QComboBox>
#include <QDialog>
#include <QDoubleSpinBox>
#include <QListWidget>
#include <QSpinBox>
#include <QStackedWidget>

class QAction;

namespace octavo::ui {

class MemoryPage;
class ModelPage;
class SavedContextsPage;

class SettingsDialog final : public QDialog
{
    Q_OBJECT

public:
    enum Page { Appearance, Model, Answers, Memory, SavedContexts, Shortcuts };

    /// `commands` are listed with their keys. `settings` are those read at the start, or what an earlier dialog kept;
    /// they are written to `file` as they change: see StartupSettings, empty for the user's own.
    SettingsDialog(agents::Workbench* workbench, const QList<QAction*>& commands, const StartupSettings& settings,
                   const QString& file = {}, QWidget* parent = nullptr);

    void setPage(Page page);
    ModelPage* modelPage() const { return m_model; }
    const StartupSettings& settings() const { return m_settings; }

private:
    QWidget* buildAppearance();
    QWidget* buildAnswers();
    void applyTheme();
    void keep();

    agents::Workbench* m_workbench;
    QString m_file;
    StartupSettings m_settings;
    QListWidget* m_pages;
    QStackedWidget* m_stack;
    QComboBox* m_scheme = nullptr;
    QComboBox* m_textScale = nullptr;
    ModelPage* m_model = nullptr;
    MemoryPage* m_memory = nullptr;
    SavedContextsPage* m_saved = nullptr;
    QDoubleSpinBox* m_temperature = nullptr;
    QSpinBox* m_topK = nullptr;
    QDoubleSpinBox* m_topP = nullptr;
    QDoubleSpinBox* m_minP = nullptr;
    QSpinBox* m_seed = nullptr;
    QSpinBox* m_maxTokens = nullptr;
    Switch* m_lookupDrafts = nullptr;
    Switch* m_mtpDrafts = nullptr;
};

} // namespace octavo::ui
