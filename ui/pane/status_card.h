#pragma once

/// The card below the last question while there is no answer yet: waiting, reading with progress, or what failed.

#include "agents/values.h"
#include "ui/controls.h"

class QBoxLayout;

namespace octavo::ui {

class StatusCard final : public Card
{
    Q_OBJECT

public:
    explicit StatusCard(int agent, QWidget* parent = nullptr);

    /// Shows what `status` calls for; gives false where that is nothing.
    bool show(const agents::AgentStatus& status, const agents::ContextInfo& context);

signals:
    void retryRequested();
    void changeContextRequested();

protected:
    void resizeEvent(QResizeEvent* event) override;

private:
    int m_agent;
    TextLabel* m_title;
    TextLabel* m_detail;
    Meter* m_meter;
    QWidget* m_buttons;
    QBoxLayout* m_row;
};

} // namespace octavo::ui
