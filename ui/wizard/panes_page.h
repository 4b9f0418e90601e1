#pragma once

/// The wizard's last page: which panes ask about the new context.

#include "ui/controls.h"

#include <QCheckBox>

#include <QList>

class QGridLayout;

namespace octavo::ui {

/// A pane as the page shows it.
struct PaneChoice {
    QString name;
    QString about; ///< "vllm @ 3f2a9c1", or "no context yet"
    bool chosen = false;
    bool busy = false; ///< an answer is being written: it cannot change now
};

class PanesPage final : public QWidget
{
    Q_OBJECT

public:
    explicit PanesPage(QWidget* parent = nullptr);

    void setPanes(const QString& context, const QList<PaneChoice>& panes);
    QList<int> chosen() const;

signals:
    void choiceChanged();

private:
    TextLabel* m_heading;
    QGridLayout* m_grid;
    QList<QCheckBox*> m_boxes;
};

} // namespace octavo::ui
