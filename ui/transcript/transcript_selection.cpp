#include "ui/transcript/transcript_view.h"

#include "ui/controls.h"
#include "ui/transcript/transcript_metrics.h"

#include <QClipboard>
#include <QContextMenuEvent>
#include <QGuiApplication>
#include <QMenu>
#include <QMouseEvent>
#include <QScrollBar>

namespace octavo::ui {

TranscriptView::Place TranscriptView::placeAt(const QPoint& point) const
{
    if (m_items.empty())
        return {};
    const int y = point.y() + verticalScrollBar()->value();
    const int item = itemAtY(y);
    const auto i = std::size_t(item);
    if (y > m_tops[i] + m_items[i]->height(contentWidth()) && i + 1 == m_items.size())
        return {item, int(m_items[i]->text().size())};
    return {item, m_items[i]->positionAt(QPointF(point.x() - contentLeft(), y - m_tops[i]))};
}

TextRange TranscriptView::selectionIn(int item) const
{
    const Place from = qMin(m_selectionAnchor, m_selectionEnd), to = qMax(m_selectionAnchor, m_selectionEnd);
    if (from.item < 0 || item < from.item || item > to.item)
        return {};
    const int size = int(m_items[std::size_t(item)]->text().size());
    const int start = item == from.item ? qMin(from.position, size) : 0;
    const int end = item == to.item ? qMin(to.position, size) : size;
    return {start, qMax(0, end - start)};
}

void TranscriptView::setSelection(Place from, Place to)
{
    m_selectionAnchor = from;
    m_selectionEnd = to;
    viewport()->update();
}

bool TranscriptView::hasSelection() const
{
    return m_selectionAnchor.item >= 0 && m_selectionAnchor != m_selectionEnd;
}

QString TranscriptView::selectedText() const
{
    if (!hasSelection())
        return {};
    const Place from = qMin(m_selectionAnchor, m_selectionEnd), to = qMax(m_selectionAnchor, m_selectionEnd);
    QString result;
    for (int i = from.item; i <= qMin(to.item, int(m_items.size()) - 1); ++i) {
        const TextRange range = selectionIn(i);
        const QString piece = m_items[std::size_t(i)]->copyText(range);
        if (piece.isEmpty())
            continue;
        if (!result.isEmpty())
            result += m_items[std::size_t(i)]->topMargin() <= betweenListItems ? QStringLiteral("\n")
                                                                               : QStringLiteral("\n\n");
        result += piece;
    }
    return result;
}

void TranscriptView::selectAll()
{
    if (!m_items.empty())
        setSelection({0, 0}, {int(m_items.size()) - 1, int(m_items.back()->text().size())});
}

void TranscriptView::copySelection() const
{
    if (hasSelection())
        QGuiApplication::clipboard()->setText(selectedText());
}

QString TranscriptView::plainText() const
{
    QStringList pieces;
    for (const auto& item : m_items)
        pieces += item->text();
    return pieces.join(u'\n');
}

void TranscriptView::mousePressEvent(QMouseEvent* event)
{
    if (event->button() != Qt::LeftButton)
        return;
    m_pressed = event->position().toPoint();
    m_focusItem = m_focusAction = -1;
    updateHover(m_pressed);
    if (m_hoverAction >= 0)
        return;
    const Place place = placeAt(m_pressed);
    m_selecting = place.item >= 0;
    setSelection(event->modifiers() & Qt::ShiftModifier && m_selectionAnchor.item >= 0 ? m_selectionAnchor : place,
                 place);
}

void TranscriptView::mouseMoveEvent(QMouseEvent* event)
{
    const QPoint point = event->position().toPoint();
    if (!m_selecting || !(event->buttons() & Qt::LeftButton)) {
        updateHover(point);
        return;
    }
    if ((point - m_pressed).manhattanLength() > 3)
        setFollow(false); // what is being selected stays where it is
    if (point.y() < 0 || point.y() > viewport()->height())
        verticalScrollBar()->setValue(verticalScrollBar()->value() +
                                      (point.y() < 0 ? point.y() : point.y() - viewport()->height()) / 2);
    const Place place = placeAt(point);
    if (place.item >= 0)
        setSelection(m_selectionAnchor, place);
}

void TranscriptView::mouseReleaseEvent(QMouseEvent* event)
{
    if (event->button() != Qt::LeftButton)
        return;
    const QPoint point = event->position().toPoint();
    if (!m_selecting) {
        updateHover(point);
        if (m_hoverAction >= 0 && (point - m_pressed).manhattanLength() < 6)
            activate(m_hoverItem, m_hoverAction);
        return;
    }
    m_selecting = false;
    if (hasSelection() && QGuiApplication::clipboard()->supportsSelection())
        QGuiApplication::clipboard()->setText(selectedText(), QClipboard::Selection);
    if (!hasSelection() && verticalScrollBar()->value() >= verticalScrollBar()->maximum() - 1)
        setFollow(true);
}

void TranscriptView::mouseDoubleClickEvent(QMouseEvent* event)
{
    const Place place = placeAt(event->position().toPoint());
    if (place.item < 0)
        return;
    const QString& text = m_items[std::size_t(place.item)]->text();
    const auto word = [&](int i) {
        return i >= 0 && i < text.size() && (text[i].isLetterOrNumber() || text[i] == u'_');
    };
    int start = place.position, end = place.position;
    while (word(start - 1))
        --start;
    while (word(end))
        ++end;
    setFollow(false);
    setSelection({place.item, start}, {place.item, end});
}

void TranscriptView::contextMenuEvent(QContextMenuEvent* event)
{
    QMenu menu(this);
    QAction* copy = menu.addAction(icon(QStringLiteral("copy")), tr("Copy"), QKeySequence::Copy, this,
                                   &TranscriptView::copySelection);
    copy->setEnabled(hasSelection());
    menu.addAction(tr("Select all"), QKeySequence::SelectAll, this, &TranscriptView::selectAll);
    if (!m_items.empty()) {
        const int item = itemAtY(viewport()->mapFromGlobal(event->globalPos()).y() + verticalScrollBar()->value());
        const agents::MessageId id = m_items[std::size_t(item)]->message();
        const int index = messageIndex(id);
        if (index >= 0 && m_messages[index].role == agents::MessageRole::Assistant)
            menu.addAction(tr("Copy answer as Markdown"), this, [this, id] { emit copyAnswerRequested(id); });
    }
    menu.exec(event->globalPos());
}

} // namespace octavo::ui
