#pragma once

/// How long contexts are held and read. Takes effect at the next start.

#include "ui/controls.h"
#include "ui/settings/startup_settings.h"

#include <QComboBox>
#include <QDoubleSpinBox>
#include <QSpinBox>

namespace octavo::ui {

class MemoryPage final : public QWidget
{
    Q_OBJECT

public:
    explicit MemoryPage(const StartupSettings& settings, QWidget* parent = nullptr);

    /// Writes what is chosen here into `settings`.
    void fill(StartupSettings& settings) const;

signals:
    void changed();

private:
    QComboBox* m_sparse;
    QSpinBox* m_contextLimit;
    QDoubleSpinBox* m_budget;
};

} // namespace octavo::ui
