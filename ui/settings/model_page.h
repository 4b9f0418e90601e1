#pragma once

/// Which model on which device, and whether that will run, before anything is loaded.

#include "ui/charts/segment_bar.h"
#include "ui/controls.h"
#include "ui/settings/startup_settings.h"

#include "agents/model_verdict.h"

#include <QComboBox>
#include <QLineEdit>
#include <QTimer>

namespace octavo::ui {

class ModelPage final : public QWidget
{
    Q_OBJECT

public:
    /// `running` is the folder of the model that is loaded; it stands for an empty choice.
    ModelPage(const StartupSettings& settings, const QString& running, QWidget* parent = nullptr);

    QString folder() const;
    QString device() const;
    void showVerdict(const Result<agents::ModelVerdict>& verdict);

signals:
    void changed();

private:
    void examine();
    void browse();

    QString m_running;
    qint64 m_contextLimit;
    int m_round = 0;
    QTimer m_timer;
    QLineEdit* m_folder;
    QComboBox* m_device;
    Card* m_card;
    TextLabel* m_headline;
    TextLabel* m_details;
    TextLabel* m_memoryName;
    SegmentBar* m_memory;
    TextLabel* m_memoryFigure;
    TextLabel* m_problems;
};

} // namespace octavo::ui
