#include "ui/transcript/transcript_view.h"

#include "ui/transcript/transcript_metrics.h"

#include <QResizeEvent>
#include <QScrollBar>
#include <QToolButton>
#include <QWheelEvent>

#include <algorithm>
#include <cmath>

namespace octavo::ui {

void TranscriptView::placeItems(std::size_t from)
{
    m_tops.resize(m_items.size());
    const int width = contentWidth();
    int y = topMargin;
    if (from > 0)
        y = m_tops[from - 1] + m_items[from - 1]->height(width);
    for (std::size_t i = from; i < m_items.size(); ++i) {
        y += m_items[i]->topMargin();
        m_tops[i] = y;
        y += m_items[i]->height(width);
    }
    m_contentBottom = m_items.empty() ? 0 : y;
}

int TranscriptView::itemAtY(int y) const
{
    const auto after = std::upper_bound(m_tops.begin(), m_tops.end(), y);
    return qMax(0, int(std::distance(m_tops.begin(), after)) - 1);
}

void TranscriptView::layoutVisible()
{
    if (m_items.empty() || viewport()->height() <= 0)
        return;
    const int width = contentWidth();
    for (int round = 0; round < 8; ++round) {
        const int top = verticalScrollBar()->value();
        const int bottom = top + viewport()->height();
        int shift = 0;
        std::size_t firstChanged = m_items.size();
        for (std::size_t i = std::size_t(itemAtY(top)); i < m_items.size() && m_tops[i] <= bottom; ++i) {
            if (m_items[i]->isLaidOut(width))
                continue;
            const int guessed = m_items[i]->height(width);
            m_items[i]->layout(width);
            const int grown = m_items[i]->height(width) - guessed;
            // What stands above the first line in view grows upwards.
            if (m_tops[i] < top && m_tops[i] + guessed <= bottom)
                shift += grown;
            firstChanged = qMin(firstChanged, i);
        }
        if (firstChanged == m_items.size())
            return;
        placeItems(firstChanged);
        updateScrollRange();
        if (!m_follow && shift != 0)
            setScroll(top + shift);
    }
}

void TranscriptView::updateScrollRange()
{
    m_ownScroll = true;
    QScrollBar* bar = verticalScrollBar();
    bar->setPageStep(viewport()->height());
    bar->setRange(0, qMax(0, contentHeight() - viewport()->height()));
    if (m_follow)
        bar->setValue(bar->maximum());
    m_ownScroll = false;
    placeTrailer();
    const bool away = !m_follow && bar->value() < bar->maximum() - 1;
    if (away) {
        m_jump->adjustSize();
        m_jump->move((viewport()->width() - m_jump->width()) / 2, viewport()->height() - m_jump->height() - 8);
        m_jump->raise();
    }
    m_jump->setVisible(away);
}

void TranscriptView::setScroll(int value)
{
    m_ownScroll = true;
    verticalScrollBar()->setValue(value);
    m_ownScroll = false;
}

void TranscriptView::setFollow(bool follow)
{
    if (m_follow == follow)
        return;
    m_follow = follow;
    updateScrollRange();
    emit followChanged(follow);
}

void TranscriptView::jumpToEnd()
{
    m_follow = true;
    layoutVisible();
    updateScrollRange();
    layoutVisible();
    updateScrollRange();
    viewport()->update();
    emit followChanged(true);
}

/// Shows a change that begins at `firstItem`; everything before keeps its pixels.
void TranscriptView::afterChange(std::size_t firstItem)
{
    firstItem = qMin(firstItem, m_items.empty() ? std::size_t(0) : m_items.size() - 1);
    const int width = contentWidth();
    const int top = verticalScrollBar()->value();
    // Blocks in view are laid out first, so that the range is right before the view moves along.
    for (std::size_t i = m_items.size(); i-- > firstItem;) {
        const int itemTop = i < m_tops.size() ? m_tops[i] : m_contentBottom;
        if (m_follow || itemTop <= top + viewport()->height())
            m_items[i]->layout(width);
        if (m_items.size() - i > 200)
            break;
    }
    placeItems(firstItem);
    refreshFound(firstItem);
    updateScrollRange();
    layoutVisible();
    if (m_items.empty()) {
        viewport()->update();
        return;
    }
    const int from = m_tops[firstItem] - m_items[firstItem]->topMargin() - verticalScrollBar()->value() - 4;
    viewport()->update(QRect(0, qMax(0, from), viewport()->width(), viewport()->height() - qMax(0, from)));
}

TranscriptView::Anchor TranscriptView::anchor() const
{
    Anchor a;
    if (m_items.empty())
        return a;
    const int top = verticalScrollBar()->value();
    a.item = itemAtY(top);
    const auto& item = *m_items[std::size_t(a.item)];
    const int itemTop = m_tops[std::size_t(a.item)];
    a.position = item.positionAt(QPointF(0, top - itemTop));
    a.offset = itemTop + item.lineRect(a.position).top() - top;
    return a;
}

void TranscriptView::restore(const Anchor& a)
{
    Item& item = *m_items[std::size_t(a.item)];
    item.layout(contentWidth());
    placeItems(std::size_t(a.item));
    updateScrollRange();
    setScroll(int(std::lround(m_tops[std::size_t(a.item)] + item.lineRect(a.position).top() - a.offset)));
    layoutVisible();
}

void TranscriptView::resizeEvent(QResizeEvent* event)
{
    QAbstractScrollArea::resizeEvent(event);
    if (event->oldSize().width() == event->size().width()) {
        updateScrollRange();
        layoutVisible();
        return;
    }
    // The layouts still have the old width here, so the line at the top can be told.
    const Anchor kept = m_follow ? Anchor() : anchor();
    placeItems(0);
    if (m_trailer)
        placeTrailer();
    updateScrollRange();
    layoutVisible();
    updateScrollRange();
    if (kept.item >= 0)
        restore(kept);
    viewport()->update();
}

void TranscriptView::scrollContentsBy(int, int dy)
{
    viewport()->scroll(0, dy);
    m_jump->move((viewport()->width() - m_jump->width()) / 2, viewport()->height() - m_jump->height() - 8);
    if (!m_ownScroll)
        layoutVisible();
    placeTrailer();
}

void TranscriptView::setTrailer(QWidget* trailer)
{
    if (m_trailer == trailer)
        return;
    if (m_trailer)
        m_trailer->hide();
    m_trailer = trailer;
    if (m_trailer) {
        m_trailer->setParent(viewport());
        m_trailer->installEventFilter(this);
        m_trailer->show();
    }
    updateScrollRange();
}

void TranscriptView::placeTrailer()
{
    if (!m_trailer)
        return;
    const int width = contentWidth();
    const int height =
        m_trailer->hasHeightForWidth() ? m_trailer->heightForWidth(width) : m_trailer->sizeHint().height();
    const int top = m_contentBottom + betweenBlocks - verticalScrollBar()->value();
    m_trailer->setGeometry(contentLeft(), m_items.empty() ? topMargin : top, width, height);
}

bool TranscriptView::eventFilter(QObject* watched, QEvent* event)
{
    if (watched == m_trailer && event->type() == QEvent::LayoutRequest)
        updateScrollRange();
    return QAbstractScrollArea::eventFilter(watched, event);
}

void TranscriptView::setWriting(bool writing)
{
    if (m_writing == writing)
        return;
    m_writing = writing;
    updateScrollRange();
    viewport()->update();
}

void TranscriptView::wheelEvent(QWheelEvent* event)
{
    // Touchpads send both axes: a swipe goes where it goes most.
    const QPoint delta = event->angleDelta();
    const bool across = std::abs(delta.x()) > std::abs(delta.y());
    if ((across || (event->modifiers() & Qt::ShiftModifier)) && !m_items.empty()) {
        const int item = itemAtY(int(event->position().y()) + verticalScrollBar()->value());
        if (m_items[std::size_t(item)]->scrollSideways(-(across ? delta.x() : delta.y()) / 2)) {
            viewport()->update(itemRect(item));
            event->accept();
            return;
        }
    }
    if (!across && delta.y() > 0 && verticalScrollBar()->maximum() > 0)
        setFollow(false); // at once, before the next text moves the view
    QAbstractScrollArea::wheelEvent(event);
}

void TranscriptView::ensureVisible(const QRectF& r)
{
    const int top = verticalScrollBar()->value();
    const int margin = int(m_fonts.bodyPitch) * 2;
    int to = top;
    if (r.top() < top + margin)
        to = int(r.top()) - margin;
    else if (r.bottom() > top + viewport()->height() - margin)
        to = int(r.bottom()) - viewport()->height() + margin;
    if (to == top)
        return;
    setFollow(false);
    setScroll(to);
    layoutVisible();
    setFollow(verticalScrollBar()->value() >= verticalScrollBar()->maximum() - 1);
}

} // namespace octavo::ui
