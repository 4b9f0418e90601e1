#pragma once

/// The eight panes in a grid of one, two, four or eight, one of them current. Dragging a header moves its pane.
///
/// Where not all fit, the page that holds the current pane is shown. Order and shape are told, so that they can be
/// kept.

#include <QList>
#include <QWidget>

class QGridLayout;

namespace octavo::ui {

class Pane;

enum class GridShape { One, Two, Four, EightWide, EightTall };

QString gridShapeName(GridShape shape); ///< for settings
GridShape gridShapeFromName(const QString& name);
QString gridShapeLabel(GridShape shape); ///< "2 × 4"
int gridShapePanes(GridShape shape);

class PaneGrid final : public QWidget
{
    Q_OBJECT

public:
    explicit PaneGrid(QWidget* parent = nullptr);

    void setPanes(const QList<Pane*>& panes);
    QList<Pane*> panes() const { return m_panes; } ///< in shown order

    void setShape(GridShape shape);
    GridShape shape() const { return m_shape; }

    Pane* current() const { return m_current; }
    void setCurrent(Pane* pane);
    /// Shows the current pane alone, and back.
    void setZoomed(bool zoomed);
    bool isZoomed() const { return m_zoomed; }

    /// Moves `pane` to place `to` of the order; the others close up.
    void movePane(Pane* pane, int to);
    /// Indices of agents in shown order, as one word for settings ("01234567"); bad words change nothing.
    QString order() const;
    void setOrder(const QString& order);

    void startDrag(Pane* pane);

signals:
    void currentChanged(octavo::ui::Pane* pane);
    void shapeChanged(octavo::ui::GridShape shape);
    void orderChanged();
    void zoomChanged(bool zoomed);

protected:
    void paintEvent(QPaintEvent* event) override;
    void dragEnterEvent(QDragEnterEvent* event) override;
    void dragMoveEvent(QDragMoveEvent* event) override;
    void dragLeaveEvent(QDragLeaveEvent* event) override;
    void dropEvent(QDropEvent* event) override;

private:
    void arrange();
    Pane* paneAt(const QPoint& point) const;

    QList<Pane*> m_panes;
    GridShape m_shape = GridShape::EightWide;
    QGridLayout* m_layout;
    Pane* m_current = nullptr;
    Pane* m_dropTarget = nullptr;
    bool m_zoomed = false;
};

} // namespace octavo::ui
