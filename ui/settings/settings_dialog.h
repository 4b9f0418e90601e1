#pragma once

/// Settings: how it looks, which model on which device, how answers are drawn, which keys there are. Changes hold at
/// once; those that wait for the next start say so.

#include "ui/controls.h"
#include "ui/settings/startup_settings.h"

#include <QComboBox>
#include <QDialog>
#include <QDoubleSpinBox>
#include <QListWidget>
#include <QSpinBox>
#include <QStackedWidget>

class QAction;

namespace octavo::ui {

class ModelPage;

class SettingsDialog final : public QDialog
{
    Q_OBJECT

public:
    enum Page { Appearance, Model, Answers, Shortcuts };

    /// `commands` are listed with their keys. `file`: see StartupSettings; empty for the user's own.
    SettingsDialog(agents::Workbench* workbench, const QList<QAction*>& commands, const QString& file = {},
                   QWidget* parent = nullptr);

    void setPage(Page page);
    ModelPage* modelPage() const { return m_model; }

private:
    QWidget* buildAppearance();
    QWidget* buildAnswers();
    QWidget* buildShortcuts(const QList<QAction*>& commands);
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
    QDoubleSpinBox* m_temperature = nullptr;
    QSpinBox* m_topK = nullptr;
    QDoubleSpinBox* m_topP = nullptr;
    QDoubleSpinBox* m_minP = nullptr;
    QSpinBox* m_seed = nullptr;
    QSpinBox* m_maxTokens = nullptr;
};

} // namespace octavo::ui
