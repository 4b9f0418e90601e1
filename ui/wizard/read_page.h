#pragma once

/// The wizard's third page: the context is being read, stage by stage; reading goes on if the window is closed.

#include "ui/controls.h"

#include "agents/values.h"

#include <QElapsedTimer>
#include <QProgressBar>

class QVBoxLayout;

namespace octavo::ui {

class ReadPage final : public QWidget
{
    Q_OBJECT

public:
    explicit ReadPage(QWidget* parent = nullptr);

    void showContext(const agents::ContextInfo& context);

signals:
    void stopRequested();
    void resumeRequested();

private:
    struct Stage {
        TextLabel* mark;
        TextLabel* name;
    };
    Stage addStage(QVBoxLayout* layout, const QString& name);
    static void setStage(const Stage& stage, bool done, bool running);

    TextLabel* m_heading;
    Stage m_packing{}, m_reading{}, m_ready{};
    QProgressBar* m_progress;
    TextLabel* m_figures;
    TextLabel* m_problem;
    QPushButton* m_stop;
    Card* m_card;
    QElapsedTimer m_clock;
    qint64 m_firstDone = -1;
    bool m_isReading = false;
};

} // namespace octavo::ui
