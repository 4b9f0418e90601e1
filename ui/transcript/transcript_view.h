#pragma once

/// The conversation of one pane: questions in bubbles, answers as Markdown that appears while it is written.
///
/// Cost     appending text parses only that text and lays out only the block it falls into, at most once per frame;
///          blocks out of view have no layout until they are scrolled to. Only what changed is painted.
/// Scrolling follows the end until the user moves up, and stays on the same line whatever changes above it.
/// Content  is shown as text; nothing in it can be markup, load anything, or run.

#include "agents/values.h"
#include "ui/transcript/item.h"
#include "ui/transcript/markdown.h"

#include <QAbstractScrollArea>
#include <QBasicTimer>
#include <QElapsedTimer>
#include <QPointer>

#include <memory>
#include <vector>

class QToolButton;

namespace octavo::ui {

class TranscriptView final : public QAbstractScrollArea
{
    Q_OBJECT

public:
    explicit TranscriptView(QWidget* parent = nullptr);
    ~TranscriptView() override;

    void setMessages(const QList<agents::Message>& messages);
    /// Whether the last message shown is the conversation's newest, which alone can go on or be written anew.
    void setShowsNewest(bool newest) { m_showsNewest = newest; }
    void addMessage(const agents::Message& message);
    /// Gathered and shown with the next frame, 33 ms later at most.
    void appendText(agents::MessageId id, const QString& text);
    /// State, figures or citations changed; the text is taken only where it differs from what is shown.
    void updateMessage(const agents::Message& message);
    const QList<agents::Message>& messages() const { return m_messages; }
    /// How much of a message's text stands in the view, in UTF-16 units; the rest comes with the next frame.
    qsizetype shownLength(agents::MessageId id) const;

    /// Text is laid out in a column no wider than this, in the middle where the view is wider.
    static int widestContent();

    /// A card that stands below the last item and scrolls with it (reading, failure); null for none. Not owned.
    void setTrailer(QWidget* trailer);
    /// Shows the caret after the last text.
    void setWriting(bool writing);

    bool followsEnd() const { return m_follow; }
    void jumpToEnd();

    /// Marks all places where `text` stands (without case) and goes to the one nearest; gives how many there are.
    int find(const QString& text);
    void findStep(int direction);
    int currentFound() const { return m_foundCurrent; } ///< 0-based, -1 for none
    int foundCount() const;

    bool hasSelection() const;
    QString selectedText() const;
    void selectAll();
    void copySelection() const;
    /// Everything shown, as a screen reader reads it.
    QString plainText() const;

    /// What can be pressed, in order: what a screen reader walks through. A place holds until the content changes.
    struct Pressable {
        int item = -1, action = -1;
    };
    QList<Pressable> pressables() const;
    const ItemAction* actionOf(Pressable at) const; ///< null where there is none
    QRect rectOf(Pressable at);                     ///< in the viewport; empty where there is none
    Pressable focusedPressable() const { return {m_focusItem, m_focusAction}; }
    void press(Pressable at) { activate(at.item, at.action); }

    /// Shows what has been gathered at once (tests, screenshots).
    void flush();

    QSize sizeHint() const override { return {360, 280}; }
    QSize minimumSizeHint() const override { return {160, 80}; }

signals:
    void citationActivated(const octavo::agents::Citation& citation);
    void linkActivated(const QString& target, const QString& shown);
    void copyAnswerRequested(octavo::agents::MessageId message);
    void regenerateRequested();
    void continueRequested();
    void followChanged(bool follows);
    /// An answer is whole: a screen reader is told now, and not of each token before.
    void announced();

protected:
    void paintEvent(QPaintEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;
    void scrollContentsBy(int dx, int dy) override;
    void wheelEvent(QWheelEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mouseReleaseEvent(QMouseEvent* event) override;
    void mouseDoubleClickEvent(QMouseEvent* event) override;
    void contextMenuEvent(QContextMenuEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    void focusOutEvent(QFocusEvent* event) override;
    bool focusNextPrevChild(bool next) override;
    bool eventFilter(QObject* watched, QEvent* event) override;
    void timerEvent(QTimerEvent* event) override;

private:
    int contentWidth() const;
    int contentLeft() const;
    struct Entry {                   ///< one message: its Markdown and its items' place in m_items
        markdown::Document document; ///< of an answer
        std::size_t firstItem = 0, blockItems = 0;
        bool summary = false;
    };
    struct Place {
        int item = -1, position = 0;
        auto operator<=>(const Place&) const = default;
    };
    struct Anchor { ///< a line of text and where it stands in the viewport
        int item = -1, position = 0;
        qreal offset = 0;
    };

    void rebuild();
    void appendEntry(std::size_t index);
    void syncBlocks(std::size_t index);
    void syncSummary(std::size_t index);
    void placeItems(std::size_t from);
    void layoutVisible();
    void afterChange(std::size_t firstItem);
    void placeTrailer();
    void updateScrollRange();
    void setScroll(int value);
    void setFollow(bool follow);
    Anchor anchor() const;
    void restore(const Anchor& anchor);
    int contentHeight() const;
    int itemAtY(int y) const;
    Place placeAt(const QPoint& viewportPoint) const;
    TextRange selectionIn(int item) const;
    void setSelection(Place from, Place to);
    void updateHover(const QPoint& viewportPoint);
    void activate(int item, int action);
    void ensureVisible(const QRectF& contentRect);
    QRect itemRect(int item) const;
    void refreshFound(std::size_t firstItem);
    int messageIndex(agents::MessageId id) const;

    TranscriptFonts m_fonts;
    QList<agents::Message> m_messages;
    std::vector<Entry> m_entries;
    std::vector<std::unique_ptr<Item>> m_items;
    std::vector<int> m_tops; ///< of each item, in content coordinates
    int m_contentBottom = 0;

    QPointer<QWidget> m_trailer;
    QToolButton* m_jump;
    bool m_writing = false, m_showsNewest = true;
    bool m_follow = true, m_ownScroll = false;

    QBasicTimer m_frame;
    QElapsedTimer m_sinceFrame;
    std::vector<std::pair<std::size_t, QString>> m_pending; ///< text by index of message

    Place m_selectionAnchor, m_selectionEnd;
    bool m_selecting = false;
    QPoint m_pressed;
    int m_hoverItem = -1, m_hoverAction = -1, m_focusItem = -1, m_focusAction = -1;

    QString m_findText;
    std::vector<std::vector<TextRange>> m_found; ///< per item
    int m_foundCurrent = -1;
};

/// Registers the accessible interface of TranscriptView; once per application.
void installTranscriptAccessibility();
/// Tells a screen reader that Tab has come to another action.
void announceFocusedAction(TranscriptView* view);

} // namespace octavo::ui
