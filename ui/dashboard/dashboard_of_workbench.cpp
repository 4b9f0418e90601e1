#include "ui/dashboard/dashboard_panel.h"

#include "agents/workbench.h"

namespace octavo::ui {

DashboardPanel::DashboardPanel(agents::Workbench* workbench, QWidget* parent)
    : DashboardPanel([workbench] { return workbench->metrics(); }, parent)
{
    const auto takeAgents = [this, workbench] {
        const auto takeNames = [this, workbench] {
            QStringList names;
            for (int i = 0; i < agents::numAgents; ++i)
                names += workbench->agent(i)->name();
            setAgentNames(names);
        };
        for (int i = 0; i < agents::numAgents; ++i)
            connect(workbench->agent(i), &agents::Agent::nameChanged, this, takeNames);
        takeNames();
    };
    if (workbench->isReady())
        takeAgents();
    else
        connect(workbench, &agents::Workbench::ready, this, takeAgents);
}

} // namespace octavo::ui
