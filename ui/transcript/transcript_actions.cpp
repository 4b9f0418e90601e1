#include "ui/transcript/transcript_view.h"

#include "ui/controls.h"
#include "ui/transcript/transcript_metrics.h"

#include <QClipboard>
#include <QGuiApplication>
#include <QKeyEvent>
#include <QScrollBar>

#include <climits>

namespace octavo::ui {

void TranscriptView::updateHover(const QPoint& point)
{
    int item = -1, action = -1;
    if (!m_items.empty() && viewport()->rect().contains(point)) {
        const int y = point.y() + verticalScrollBar()->value();
        item = itemAtY(y);
        action =
            m_items[std::size_t(item)]->actionAt(QPointF(point.x() - contentLeft(), y - m_tops[std::size_t(item)]));
        if (action < 0)
            item = -1;
    }
    viewport()->setCursor(action >= 0 ? Qt::PointingHandCursor : Qt::IBeamCursor);
    if (item == m_hoverItem && action == m_hoverAction)
        return;
    for (const int changed : {m_hoverItem, item}) {
        if (changed >= 0 && changed < int(m_items.size()))
            viewport()->update(itemRect(changed));
    }
    m_hoverItem = item;
    m_hoverAction = action;
    viewport()->setToolTip(
        action >= 0 ? plainTip(m_items[std::size_t(item)]->actions()[std::size_t(action)].label) : QString());
}

void TranscriptView::activate(int item, int action)
{
    if (item < 0 || item >= int(m_items.size()))
        return;
    const Item& in = *m_items[std::size_t(item)];
    if (action < 0 || action >= int(in.actions().size()))
        return;
    const ItemAction chosen = in.actions()[std::size_t(action)];
    switch (chosen.kind) {
    case ItemAction::Kind::CopyCode:
        QGuiApplication::clipboard()->setText(in.text());
        break;
    case ItemAction::Kind::OpenCitation:
        emit citationActivated(chosen.citation);
        break;
    case ItemAction::Kind::OpenLink:
        emit linkActivated(chosen.target, chosen.shown);
        break;
    case ItemAction::Kind::CopyAnswer:
        emit copyAnswerRequested(in.message());
        break;
    case ItemAction::Kind::Regenerate:
        emit regenerateRequested();
        break;
    case ItemAction::Kind::Continue:
        emit continueRequested();
        break;
    }
}

QList<TranscriptView::Pressable> TranscriptView::pressables() const
{
    QList<Pressable> out;
    for (std::size_t item = 0; item < m_items.size(); ++item) {
        for (std::size_t action = 0; action < m_items[item]->actions().size(); ++action)
            out += {int(item), int(action)};
    }
    return out;
}

const ItemAction* TranscriptView::actionOf(Pressable at) const
{
    if (at.item < 0 || at.item >= int(m_items.size()) || at.action < 0 ||
        at.action >= int(m_items[std::size_t(at.item)]->actions().size()))
        return nullptr;
    return &m_items[std::size_t(at.item)]->actions()[std::size_t(at.action)];
}

QRect TranscriptView::rectOf(Pressable at)
{
    if (!actionOf(at))
        return {};
    if (!m_items[std::size_t(at.item)]->isLaidOut(contentWidth())) {
        m_items[std::size_t(at.item)]->layout(contentWidth());
        placeItems(std::size_t(at.item));
        updateScrollRange();
    }
    const int top = m_tops[std::size_t(at.item)] - verticalScrollBar()->value();
    return actionOf(at)->rect.translated(contentLeft(), top).toAlignedRect();
}

bool TranscriptView::focusNextPrevChild(bool next)
{
    if (!hasFocus()) // asked for a child (a card's button): the step is from there, not from a mark of ours
        return QAbstractScrollArea::focusNextPrevChild(next);
    const int width = contentWidth();
    int item = m_focusItem, action = m_focusAction;
    if (item < 0) {
        item = next ? itemAtY(verticalScrollBar()->value()) : int(m_items.size()) - 1;
        action = next ? -1 : INT_MAX;
    }
    while (item >= 0 && item < int(m_items.size())) {
        const int count = int(m_items[std::size_t(item)]->actions().size());
        action = next ? action + 1 : qMin(action, count) - 1;
        if (action >= 0 && action < count) {
            m_items[std::size_t(item)]->layout(width);
            placeItems(std::size_t(item));
            updateScrollRange();
            m_focusItem = item;
            m_focusAction = action;
            const QRectF rect = m_items[std::size_t(item)]->actions()[std::size_t(action)].rect;
            ensureVisible(rect.translated(0, m_tops[std::size_t(item)]));
            viewport()->update();
            announceFocusedAction(this);
            return true;
        }
        item += next ? 1 : -1;
        action = next ? -1 : INT_MAX;
    }
    m_focusItem = m_focusAction = -1;
    viewport()->update();
    return QAbstractScrollArea::focusNextPrevChild(next);
}

void TranscriptView::focusOutEvent(QFocusEvent* event)
{
    m_focusItem = m_focusAction = -1;
    viewport()->update();
    QAbstractScrollArea::focusOutEvent(event);
}

void TranscriptView::keyPressEvent(QKeyEvent* event)
{
    if (event->matches(QKeySequence::Copy)) {
        copySelection();
        return;
    }
    if (event->matches(QKeySequence::SelectAll)) {
        selectAll();
        return;
    }
    QScrollBar* bar = verticalScrollBar();
    switch (event->key()) {
    case Qt::Key_Home:
        bar->setValue(0);
        return;
    case Qt::Key_End:
        jumpToEnd();
        return;
    case Qt::Key_Space:
    case Qt::Key_Return:
    case Qt::Key_Enter:
        if (m_focusAction >= 0) {
            activate(m_focusItem, m_focusAction);
            return;
        }
        break;
    case Qt::Key_Up:
    case Qt::Key_PageUp:
        if (bar->maximum() > 0)
            setFollow(false);
        break;
    default:
        break;
    }
    QAbstractScrollArea::keyPressEvent(event);
}

} // namespace octavo::ui
