#include "ui/pane_grid.h"

#include "agents/agent.h"
#include "ui/pane/pane.h"
#include "ui/theme.h"

#include <QDrag>
#include <QDragEnterEvent>
#include <QGridLayout>
#include <QMimeData>
#include <QPainter>

namespace octavo::ui {
namespace {

const QString paneMime = QStringLiteral("application/x-octavo-pane");

struct ShapeWords {
    GridShape shape;
    const char* name;
    const char* label;
    int rows, columns;
};

constexpr ShapeWords shapes[] = {
    {GridShape::One, "1", "1", 1, 1},
    {GridShape::Two, "2", "1 \u00d7 2", 1, 2},
    {GridShape::Four, "4", "2 \u00d7 2", 2, 2},
    {GridShape::EightWide, "2x4", "2 \u00d7 4", 2, 4},
    {GridShape::EightTall, "4x2", "4 \u00d7 2", 4, 2},
};

const ShapeWords& wordsOf(GridShape shape)
{
    return shapes[int(shape)];
}

} // namespace

QString gridShapeName(GridShape shape)
{
    return QString::fromUtf8(wordsOf(shape).name);
}

GridShape gridShapeFromName(const QString& name)
{
    for (const ShapeWords& words : shapes) {
        if (QString::fromUtf8(words.name) == name)
            return words.shape;
    }
    return GridShape::EightWide;
}

QString gridShapeLabel(GridShape shape)
{
    return QString::fromUtf8(wordsOf(shape).label);
}

int gridShapePanes(GridShape shape)
{
    return wordsOf(shape).rows * wordsOf(shape).columns;
}

PaneGrid::PaneGrid(QWidget* parent)
    : QWidget(parent)
    , m_layout(new QGridLayout(this))
{
    m_layout->setContentsMargins(metrics::gap, metrics::gap, metrics::gap, metrics::gap);
    m_layout->setSpacing(metrics::gap);
    setAcceptDrops(true);
    connect(Theme::instance(), &Theme::changed, this, qOverload<>(&QWidget::update));
}

void PaneGrid::setPanes(const QList<Pane*>& panes)
{
    m_panes = panes;
    for (Pane* pane : m_panes)
        pane->setParent(this);
    m_current = nullptr;
    setCurrent(m_panes.value(0));
    arrange();
}

void PaneGrid::setShape(GridShape shape)
{
    if (m_shape == shape && !m_zoomed)
        return;
    m_shape = shape;
    m_zoomed = false;
    arrange();
    emit shapeChanged(shape);
    emit zoomChanged(false);
}

void PaneGrid::setCurrent(Pane* pane)
{
    if (!pane || m_current == pane)
        return;
    if (m_current) {
        m_current->setCurrent(false);
        m_current->agent()->setAttended(false);
    }
    m_current = pane;
    m_current->setCurrent(true);
    m_current->agent()->setAttended(true);
    if (m_current->isHidden())
        arrange();
    emit currentChanged(pane);
}

void PaneGrid::setZoomed(bool zoomed)
{
    if (m_zoomed == zoomed)
        return;
    m_zoomed = zoomed;
    arrange();
    emit zoomChanged(zoomed);
}

void PaneGrid::arrange()
{
    setUpdatesEnabled(false);
    const ShapeWords& words = wordsOf(m_zoomed ? GridShape::One : m_shape);
    const int count = words.rows * words.columns;
    const int current = qMax(0, int(m_panes.indexOf(m_current)));
    const int first = current / count * count;
    for (Pane* pane : m_panes)
        m_layout->removeWidget(pane);
    for (int i = 0; i < 4; ++i) {
        m_layout->setRowStretch(i, i < words.rows ? 1 : 0);
        m_layout->setColumnStretch(i, i < words.columns ? 1 : 0);
    }
    for (int i = 0; i < m_panes.size(); ++i) {
        const bool shown = i >= first && i < first + count;
        if (shown)
            m_layout->addWidget(m_panes[i], (i - first) / words.columns, (i - first) % words.columns);
        m_panes[i]->setVisible(shown);
        m_panes[i]->setZoomed(m_zoomed && m_panes[i] == m_current);
    }
    // Tab walks the panes as they are shown.
    for (int i = 1; i < m_panes.size(); ++i)
        QWidget::setTabOrder(m_panes[i - 1], m_panes[i]);
    setUpdatesEnabled(true);
}

void PaneGrid::movePane(Pane* pane, int to)
{
    const int from = int(m_panes.indexOf(pane));
    to = qBound(0, to, int(m_panes.size()) - 1);
    if (from < 0 || from == to)
        return;
    m_panes.move(from, to);
    arrange();
    emit orderChanged();
}

QString PaneGrid::order() const
{
    QString order;
    for (const Pane* pane : m_panes)
        order += QString::number(pane->agent()->index());
    return order;
}

void PaneGrid::setOrder(const QString& order)
{
    QList<Pane*> sorted;
    for (const QChar c : order) {
        for (Pane* pane : m_panes) {
            if (pane->agent()->index() == c.digitValue() && !sorted.contains(pane))
                sorted += pane;
        }
    }
    if (sorted.size() != m_panes.size())
        return;
    m_panes = sorted;
    arrange();
}

// ---------------------------------------------------------------- dragging

void PaneGrid::startDrag(Pane* pane)
{
    auto* mime = new QMimeData;
    mime->setData(paneMime, QByteArray::number(pane->agent()->index()));
    auto* drag = new QDrag(pane);
    drag->setMimeData(mime);
    const QPixmap picture = pane->grab(QRect(0, 0, pane->width(), qMin(pane->height(), 120)));
    drag->setPixmap(picture);
    drag->setHotSpot(QPoint(40, 16));
    drag->exec(Qt::MoveAction);
}

Pane* PaneGrid::paneAt(const QPoint& point) const
{
    for (Pane* pane : m_panes) {
        if (pane->isVisible() && pane->geometry().contains(point))
            return pane;
    }
    return nullptr;
}

void PaneGrid::dragEnterEvent(QDragEnterEvent* event)
{
    if (event->mimeData()->hasFormat(paneMime))
        event->acceptProposedAction();
}

void PaneGrid::dragMoveEvent(QDragMoveEvent* event)
{
    m_dropTarget = paneAt(event->position().toPoint());
    event->setAccepted(m_dropTarget != nullptr);
    update();
}

void PaneGrid::dragLeaveEvent(QDragLeaveEvent*)
{
    m_dropTarget = nullptr;
    update();
}

void PaneGrid::dropEvent(QDropEvent* event)
{
    Pane* target = paneAt(event->position().toPoint());
    const int agent = event->mimeData()->data(paneMime).toInt();
    for (Pane* pane : m_panes) {
        if (target && pane->agent()->index() == agent) {
            movePane(pane, int(m_panes.indexOf(target)));
            setCurrent(pane);
            break;
        }
    }
    m_dropTarget = nullptr;
    event->acceptProposedAction();
    update();
}

void PaneGrid::paintEvent(QPaintEvent*)
{
    QPainter painter(this);
    painter.fillRect(rect(), colors().background);
    if (m_dropTarget) {
        painter.setRenderHint(QPainter::Antialiasing);
        painter.setPen(QPen(colors().accent, 2, Qt::DashLine));
        painter.drawRoundedRect(QRectF(m_dropTarget->geometry()).adjusted(-3, -3, 3, 3), metrics::cardRadius + 2,
                                metrics::cardRadius + 2);
    }
}

} // namespace octavo::ui
