#include "ui/transcript/transcript_view.h"

#include "ui/controls.h"

#include <QAccessible>
#include <QClipboard>
#include <QContextMenuEvent>
#include <QGuiApplication>
#include <QMenu>
#include <QMouseEvent>
#include <QPainter>
#include <QScrollBar>
#include <QTimerEvent>
#include <QToolButton>
#include <QWheelEvent>

#include <algorithm>
#include <cmath>

namespace octavo::ui {
namespace {

constexpr int sideMargin = 12, topMargin = 10, bottomMargin = 12;
constexpr int frameMs = 33;
constexpr int betweenBlocks = 8, betweenListItems = 3, beforeAnswer = 8, beforeQuestion = 16;

int marginBefore(const markdown::Block& block, const markdown::Block* before)
{
    if (!before)
        return beforeAnswer;
    if (block.kind == markdown::BlockKind::Heading)
        return betweenBlocks + 6;
    const bool list = block.listDepth > 0 && before->listDepth > 0 && block.kind == markdown::BlockKind::Paragraph &&
                      before->kind == markdown::BlockKind::Paragraph;
    return list ? betweenListItems : betweenBlocks;
}

} // namespace

TranscriptView::TranscriptView(QWidget* parent)
    : QAbstractScrollArea(parent)
    , m_fonts(TranscriptFonts::fromTheme())
    , m_jump(new QToolButton(viewport()))
{
    installTranscriptAccessibility();
    setFrameShape(QFrame::NoFrame);
    setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    setFocusPolicy(Qt::StrongFocus);
    viewport()->setMouseTracking(true);
    viewport()->setAutoFillBackground(false);
    viewport()->setAttribute(Qt::WA_OpaquePaintEvent);
    verticalScrollBar()->setSingleStep(int(m_fonts.bodyPitch) * 2);
    verticalScrollBar()->setAccessibleName(tr("Scroll the transcript"));

    m_jump->setIcon(icon(QStringLiteral("down")));
    m_jump->setText(tr("Jump to end"));
    m_jump->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
    m_jump->setAccessibleName(tr("Jump to end"));
    m_jump->setCursor(Qt::ArrowCursor);
    setButtonKind(m_jump, ButtonKind::Normal);
    m_jump->hide();
    connect(m_jump, &QToolButton::clicked, this, &TranscriptView::jumpToEnd);

    connect(verticalScrollBar(), &QScrollBar::valueChanged, this, [this](int value) {
        if (!m_ownScroll)
            setFollow(value >= verticalScrollBar()->maximum() - 1);
    });
    connect(Theme::instance(), &Theme::changed, this, [this] {
        m_fonts = TranscriptFonts::fromTheme();
        verticalScrollBar()->setSingleStep(int(m_fonts.bodyPitch) * 2);
        rebuild();
    });
}

TranscriptView::~TranscriptView() = default;

int TranscriptView::contentWidth() const
{
    return qMax(40, viewport()->width() - 2 * sideMargin);
}

int TranscriptView::contentHeight() const
{
    int height = m_contentBottom;
    if (m_writing)
        height += int(m_fonts.bodyPitch) + 4;
    if (m_trailer)
        height += m_trailer->height() + betweenBlocks;
    return height + bottomMargin;
}

// ---------------------------------------------------------------- messages

int TranscriptView::messageIndex(agents::MessageId id) const
{
    for (qsizetype i = m_messages.size() - 1; i >= 0; --i) { // the one written to is the last, nearly always
        if (m_messages[i].id == id)
            return int(i);
    }
    return -1;
}

void TranscriptView::setMessages(const QList<agents::Message>& messages)
{
    m_pending.clear();
    m_messages = messages;
    m_follow = true;
    m_selectionAnchor = m_selectionEnd = {};
    rebuild();
    emit followChanged(true);
}

void TranscriptView::rebuild()
{
    const Anchor kept = m_follow ? Anchor() : anchor();
    m_items.clear();
    m_entries.clear();
    m_tops.clear();
    m_hoverItem = m_focusItem = -1;
    for (std::size_t i = 0; i < std::size_t(m_messages.size()); ++i)
        appendEntry(i);
    placeItems(0);
    refreshFound(0);
    updateScrollRange();
    layoutVisible();
    if (kept.item >= 0 && kept.item < int(m_items.size()))
        restore(kept);
    viewport()->update();
}

void TranscriptView::appendEntry(std::size_t index)
{
    const agents::Message& message = m_messages[qsizetype(index)];
    m_entries.emplace_back();
    Entry& entry = m_entries.back();
    entry.firstItem = m_items.size();
    if (message.role == agents::MessageRole::User) {
        m_items.push_back(makeQuestionItem(m_fonts, message));
        m_items.back()->setTopMargin(index == 0 ? 0 : beforeQuestion);
        entry.blockItems = 1;
        return;
    }
    entry.document.append(message.text);
    if (message.state != agents::MessageState::Pending)
        entry.document.finish();
    syncBlocks(index);
    syncSummary(index);
}

void TranscriptView::syncBlocks(std::size_t index)
{
    Entry& entry = m_entries[index];
    const auto& blocks = entry.document.blocks();
    const std::size_t first = qMin(std::size_t(entry.document.takeFirstChanged()), entry.blockItems);
    const agents::Message& message = m_messages[qsizetype(index)];

    // Blocks taken back (an incomplete line that turned out otherwise).
    if (entry.blockItems > blocks.size()) {
        const auto from = m_items.begin() + std::ptrdiff_t(entry.firstItem + blocks.size());
        const auto to = m_items.begin() + std::ptrdiff_t(entry.firstItem + entry.blockItems);
        const std::size_t gone = entry.blockItems - blocks.size();
        m_items.erase(from, to);
        for (std::size_t later = index + 1; later < m_entries.size(); ++later)
            m_entries[later].firstItem -= gone;
        entry.blockItems = blocks.size();
    }
    for (std::size_t b = first; b < blocks.size(); ++b) {
        const std::size_t at = entry.firstItem + b;
        if (b < entry.blockItems) {
            if (!m_items[at]->update(blocks[b]))
                m_items[at] = makeBlockItem(m_fonts, message.id, blocks[b]);
        } else {
            m_items.insert(m_items.begin() + std::ptrdiff_t(at), makeBlockItem(m_fonts, message.id, blocks[b]));
            ++entry.blockItems;
            for (std::size_t later = index + 1; later < m_entries.size(); ++later)
                ++m_entries[later].firstItem;
        }
        m_items[at]->setTopMargin(marginBefore(blocks[b], b > 0 ? &blocks[b - 1] : nullptr));
        if (!message.citations.isEmpty())
            m_items[at]->setCitations(message.citations);
    }
}

void TranscriptView::syncSummary(std::size_t index)
{
    Entry& entry = m_entries[index];
    const agents::Message& message = m_messages[qsizetype(index)];
    const auto at = m_items.begin() + std::ptrdiff_t(entry.firstItem + entry.blockItems);
    const bool wanted =
        message.role == agents::MessageRole::Assistant && message.state != agents::MessageState::Pending;
    const auto shift = [&](int by) {
        for (std::size_t later = index + 1; later < m_entries.size(); ++later)
            m_entries[later].firstItem = std::size_t(int(m_entries[later].firstItem) + by);
    };
    if (entry.summary) {
        m_items.erase(at);
        entry.summary = false;
        shift(-1);
    }
    if (!wanted)
        return;
    const bool last = qsizetype(index) + 1 == m_messages.size();
    auto item = makeSummaryItem(m_fonts, message, last);
    item->setTopMargin(betweenBlocks);
    m_items.insert(m_items.begin() + std::ptrdiff_t(entry.firstItem + entry.blockItems), std::move(item));
    entry.summary = true;
    shift(1);
}

void TranscriptView::addMessage(const agents::Message& message)
{
    flush();
    m_messages += message;
    const std::size_t index = m_entries.size();
    const std::size_t firstItem = m_items.size();
    if (index > 0 && m_messages[qsizetype(index) - 1].role == agents::MessageRole::Assistant)
        syncSummary(index - 1); // it is no longer the last one
    appendEntry(index);
    if (message.role == agents::MessageRole::User)
        m_follow = true; // who asks wants to see the answer
    afterChange(index > 0 ? m_entries[index - 1].firstItem : firstItem);
}

void TranscriptView::appendText(agents::MessageId id, const QString& text)
{
    const int index = messageIndex(id);
    if (index < 0 || text.isEmpty())
        return;
    m_messages[index].text += text;
    if (!m_pending.empty() && m_pending.back().first == std::size_t(index))
        m_pending.back().second += text;
    else
        m_pending.emplace_back(std::size_t(index), text);
    if (!m_frame.isActive()) {
        const qint64 since = m_sinceFrame.isValid() ? m_sinceFrame.elapsed() : frameMs;
        m_frame.start(int(qBound<qint64>(qint64(0), frameMs - since, qint64(frameMs))), Qt::PreciseTimer, this);
    }
}

void TranscriptView::timerEvent(QTimerEvent* event)
{
    if (event->timerId() == m_frame.timerId())
        flush();
    else
        QAbstractScrollArea::timerEvent(event);
}

void TranscriptView::flush()
{
    m_frame.stop();
    if (m_pending.empty())
        return;
    m_sinceFrame.start();
    std::size_t firstItem = m_items.size();
    for (const auto& [index, text] : std::exchange(m_pending, {})) {
        Entry& entry = m_entries[index];
        const std::size_t before = entry.document.blocks().size();
        entry.document.append(text);
        firstItem = qMin(firstItem, entry.firstItem + (before > 1 ? before - 2 : 0));
        syncBlocks(index);
    }
    afterChange(firstItem);
}

void TranscriptView::updateMessage(const agents::Message& message)
{
    flush();
    const int index = messageIndex(message.id);
    if (index < 0)
        return;
    const agents::Message before = std::exchange(m_messages[index], message);
    Entry& entry = m_entries[std::size_t(index)];
    if (message.role == agents::MessageRole::User || before.text != message.text) {
        if (message.text != before.text)
            rebuild();
        return;
    }
    const bool ended = message.state != agents::MessageState::Pending;
    if (ended && before.state == agents::MessageState::Pending) {
        entry.document.finish();
        syncBlocks(std::size_t(index));
    }
    for (std::size_t b = 0; b < entry.blockItems; ++b)
        m_items[entry.firstItem + b]->setCitations(message.citations);
    syncSummary(std::size_t(index));
    afterChange(entry.firstItem);
    if (ended && before.state == agents::MessageState::Pending) { // read out once, when it is whole
        QAccessibleEvent event(this, QAccessible::Alert);
        QAccessible::updateAccessibility(&event);
    }
}

// ---------------------------------------------------------------- layout and scrolling

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
    m_trailer->setGeometry(sideMargin, m_items.empty() ? topMargin : top, width, height);
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
    const bool sideways = event->angleDelta().x() != 0 || (event->modifiers() & Qt::ShiftModifier);
    if (sideways && !m_items.empty()) {
        const int delta = event->angleDelta().x() != 0 ? event->angleDelta().x() : event->angleDelta().y();
        const int item = itemAtY(int(event->position().y()) + verticalScrollBar()->value());
        if (m_items[std::size_t(item)]->scrollSideways(-delta / 2))
            viewport()->update(itemRect(item));
        event->accept();
        return;
    }
    if (event->angleDelta().y() > 0 && verticalScrollBar()->maximum() > 0)
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

// ---------------------------------------------------------------- painting

QRect TranscriptView::itemRect(int item) const
{
    const int top = m_tops[std::size_t(item)] - verticalScrollBar()->value();
    return QRect(0, top - 4, viewport()->width(), m_items[std::size_t(item)]->height(contentWidth()) + 8);
}

void TranscriptView::paintEvent(QPaintEvent* event)
{
    QPainter painter(viewport());
    painter.fillRect(event->rect(), colors().panel);
    painter.setRenderHint(QPainter::Antialiasing);
    const int scroll = verticalScrollBar()->value();
    const int width = contentWidth();
    const QRect dirty = event->rect();
    int seen = 0; // matches in the items before
    if (m_foundCurrent >= 0) {
        for (int i = 0; i < itemAtY(dirty.top() + scroll) && i < int(m_found.size()); ++i)
            seen += int(m_found[std::size_t(i)].size());
    }
    for (std::size_t i = m_items.empty() ? 0 : std::size_t(itemAtY(dirty.top() + scroll)); i < m_items.size(); ++i) {
        const int top = m_tops[i] - scroll;
        if (top > dirty.bottom())
            break;
        if (!m_items[i]->isLaidOut(width))
            m_items[i]->layout(width);
        ItemPaint paint;
        paint.clip = QRectF(dirty).translated(-sideMargin, -top);
        paint.selection = selectionIn(int(i));
        if (i < m_found.size()) {
            paint.found = &m_found[i];
            paint.currentFound = m_foundCurrent - seen;
            seen += int(m_found[i].size());
        }
        paint.hoveredAction = m_hoverItem == int(i) ? m_hoverAction : -1;
        paint.focusedAction = m_focusItem == int(i) && hasFocus() ? m_focusAction : -1;
        painter.save();
        painter.translate(sideMargin, top);
        m_items[i]->paint(painter, paint);
        painter.restore();
    }
    if (m_writing) {
        QRectF caret(sideMargin, m_contentBottom - scroll + 4, 7, m_fonts.bodyPitch);
        if (!m_items.empty() && !m_entries.empty() && m_messages.back().role == agents::MessageRole::Assistant) {
            const QRectF end = m_items.back()->endRect();
            if (!end.isNull() && end.right() <= width)
                caret = end.translated(sideMargin, m_tops.back() - scroll);
        }
        painter.fillRect(caret.adjusted(0, 2, 0, -2), colors().accent);
    }
}

// ---------------------------------------------------------------- selection

TranscriptView::Place TranscriptView::placeAt(const QPoint& point) const
{
    if (m_items.empty())
        return {};
    const int y = point.y() + verticalScrollBar()->value();
    const int item = itemAtY(y);
    const auto i = std::size_t(item);
    if (y > m_tops[i] + m_items[i]->height(contentWidth()) && i + 1 == m_items.size())
        return {item, int(m_items[i]->text().size())};
    return {item, m_items[i]->positionAt(QPointF(point.x() - sideMargin, y - m_tops[i]))};
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

// ---------------------------------------------------------------- actions and keys

void TranscriptView::updateHover(const QPoint& point)
{
    int item = -1, action = -1;
    if (!m_items.empty() && viewport()->rect().contains(point)) {
        const int y = point.y() + verticalScrollBar()->value();
        item = itemAtY(y);
        action = m_items[std::size_t(item)]->actionAt(QPointF(point.x() - sideMargin, y - m_tops[std::size_t(item)]));
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
        emit linkActivated(chosen.target);
        break;
    case ItemAction::Kind::CopyAnswer:
        emit copyAnswerRequested(in.message());
        break;
    case ItemAction::Kind::Regenerate:
    case ItemAction::Kind::Continue:
        emit regenerateRequested();
        break;
    }
}

bool TranscriptView::focusNextPrevChild(bool next)
{
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

// ---------------------------------------------------------------- find

void TranscriptView::refreshFound(std::size_t firstItem)
{
    if (m_findText.isEmpty()) {
        m_found.clear();
        m_foundCurrent = -1;
        return;
    }
    m_found.resize(m_items.size());
    for (std::size_t i = qMin(firstItem, m_items.size()); i < m_items.size(); ++i) {
        m_found[i].clear();
        const QString& text = m_items[i]->text();
        for (qsizetype at = text.indexOf(m_findText, 0, Qt::CaseInsensitive); at >= 0;
             at = text.indexOf(m_findText, at + m_findText.size(), Qt::CaseInsensitive))
            m_found[i].push_back({int(at), int(m_findText.size())});
    }
}

int TranscriptView::foundCount() const
{
    int count = 0;
    for (const auto& found : m_found)
        count += int(found.size());
    return count;
}

int TranscriptView::find(const QString& text)
{
    m_findText = text;
    refreshFound(0);
    m_foundCurrent = -1;
    const int count = foundCount();
    if (count > 0) {
        // Begin at what is in view, not at the far top.
        int before = 0;
        const int item = m_items.empty() ? 0 : itemAtY(verticalScrollBar()->value());
        for (int i = 0; i < item; ++i)
            before += int(m_found[std::size_t(i)].size());
        m_foundCurrent = (before % count) - 1;
        findStep(1);
    }
    viewport()->update();
    return count;
}

void TranscriptView::findStep(int direction)
{
    const int count = foundCount();
    if (count == 0)
        return;
    m_foundCurrent = (m_foundCurrent + direction + count) % count;
    int index = m_foundCurrent;
    for (std::size_t i = 0; i < m_found.size(); ++i) {
        if (index >= int(m_found[i].size())) {
            index -= int(m_found[i].size());
            continue;
        }
        setFollow(false);
        m_items[i]->layout(contentWidth());
        placeItems(i);
        updateScrollRange();
        ensureVisible(m_items[i]->lineRect(m_found[i][std::size_t(index)].start).translated(0, m_tops[i]));
        break;
    }
    viewport()->update();
}

} // namespace octavo::ui
