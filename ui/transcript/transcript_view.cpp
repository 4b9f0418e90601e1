#include "ui/transcript/transcript_view.h"

#include "ui/controls.h"
#include "ui/transcript/transcript_metrics.h"

#include <QAccessible>
#include <QPainter>
#include <QScrollBar>
#include <QTimerEvent>
#include <QToolButton>

namespace octavo::ui {
namespace {

constexpr int frameMs = 33;
constexpr int beforeAnswer = 8, beforeQuestion = 16;

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

int TranscriptView::widestContent()
{
    return int(widestColumn * Theme::instance()->textScale());
}

int TranscriptView::contentWidth() const
{
    return qBound(40, viewport()->width() - 2 * sideMargin, widestContent());
}

int TranscriptView::contentLeft() const
{
    return qMax(sideMargin, (viewport()->width() - contentWidth()) / 2);
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
    const bool last = m_showsNewest && qsizetype(index) + 1 == m_messages.size();
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

qsizetype TranscriptView::shownLength(agents::MessageId id) const
{
    const int index = messageIndex(id);
    if (index < 0)
        return 0;
    qsizetype length = m_messages[index].text.size();
    for (const auto& [pending, text] : m_pending)
        length -= pending == std::size_t(index) ? text.size() : 0;
    return length;
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
    // Marks make blocks taller: what is being read further down stays where it is.
    Anchor kept = m_follow ? Anchor() : anchor();
    const std::size_t itemsBefore = m_items.size();
    if (ended && before.state == agents::MessageState::Pending) {
        entry.document.finish();
        syncBlocks(std::size_t(index));
    }
    for (std::size_t b = 0; b < entry.blockItems; ++b)
        m_items[entry.firstItem + b]->setCitations(message.citations);
    syncSummary(std::size_t(index));
    if (kept.item >= int(entry.firstItem + entry.blockItems))
        kept.item += int(m_items.size()) - int(itemsBefore);
    afterChange(entry.firstItem);
    if (kept.item >= 0 && kept.item < int(m_items.size())) {
        restore(kept);
        viewport()->update();
    }
    if (ended && before.state == agents::MessageState::Pending) {
        emit announced();
        QAccessibleEvent event(this, QAccessible::Alert);
        QAccessible::updateAccessibility(&event);
    }
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
        paint.clip = QRectF(dirty).translated(-contentLeft(), -top);
        paint.selection = selectionIn(int(i));
        if (i < m_found.size()) {
            paint.found = &m_found[i];
            paint.currentFound = m_foundCurrent - seen;
            seen += int(m_found[i].size());
        }
        paint.hoveredAction = m_hoverItem == int(i) ? m_hoverAction : -1;
        paint.focusedAction = m_focusItem == int(i) && hasFocus() ? m_focusAction : -1;
        painter.save();
        painter.translate(contentLeft(), top);
        m_items[i]->paint(painter, paint);
        painter.restore();
    }
    if (m_writing) {
        QRectF caret(contentLeft(), m_contentBottom - scroll + 4, 7, m_fonts.bodyPitch);
        if (!m_items.empty() && !m_entries.empty() && m_messages.back().role == agents::MessageRole::Assistant) {
            const QRectF end = m_items.back()->endRect();
            if (!end.isNull() && end.right() <= width)
                caret = end.translated(contentLeft(), m_tops.back() - scroll);
        }
        painter.fillRect(caret.adjusted(0, 2, 0, -2), colors().accent);
    }
}

} // namespace octavo::ui
