#include "ui/source_viewer/code_view.h"

#include "ui/shown_text.h"
#include "ui/theme.h"

#include <QPainter>
#include <QScrollBar>
#include <QTextBlock>

namespace octavo::ui {

namespace {

class NumberColumn final : public QWidget
{
public:
    explicit NumberColumn(CodeView* view)
        : QWidget(view)
        , m_view(view)
    {
    }
    QSize sizeHint() const override { return {m_view->numbersWidth(), 0}; }

protected:
    void paintEvent(QPaintEvent* event) override { m_view->paintNumbers(event); }
    void wheelEvent(QWheelEvent* event) override { event->ignore(); }

private:
    CodeView* m_view;
};

QColor colorOf(TokenKind kind)
{
    const Colors& c = colors();
    switch (kind) {
    case TokenKind::Keyword:
        return c.keyword;
    case TokenKind::Type:
        return c.type;
    case TokenKind::Function:
        return c.function;
    case TokenKind::String:
        return c.string;
    case TokenKind::Number:
        return c.number;
    case TokenKind::Comment:
        return c.comment;
    }
    return c.text;
}

} // namespace

CodeColors::CodeColors(QTextDocument* document)
    : QSyntaxHighlighter(document)
{
}

void CodeColors::setLanguage(const Language* language)
{
    m_language = language;
    rehighlight();
}

void CodeColors::highlightBlock(const QString& text)
{
    std::vector<CodeToken> tokens;
    setCurrentBlockState(highlightLine(m_language, text, std::max(0, previousBlockState()), tokens));
    for (const CodeToken& token : tokens)
        setFormat(token.start, token.length, colorOf(token.kind));
}

CodeView::CodeView(QWidget* parent)
    : QPlainTextEdit(parent)
{
    setReadOnly(true);
    setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
    setLineWrapMode(QPlainTextEdit::NoWrap);
    setFrameShape(QFrame::NoFrame);
    setAccessibleName(tr("Source"));
    QTextOption option = document()->defaultTextOption();
    option.setTextDirection(Qt::LeftToRight);
    document()->setDefaultTextOption(option);
    m_numbers = new NumberColumn(this);
    m_colors = new CodeColors(document());
    connect(this, &QPlainTextEdit::blockCountChanged, this, [this] { setViewportMargins(numbersWidth(), 0, 0, 0); });
    connect(this, &QPlainTextEdit::updateRequest, this, [this](const QRect& rect, int dy) {
        if (dy != 0)
            m_numbers->scroll(0, dy);
        else
            m_numbers->update(0, rect.y(), m_numbers->width(), rect.height());
    });
    connect(Theme::instance(), &Theme::changed, this, &CodeView::restyle);
    restyle();
}

void CodeView::restyle()
{
    QPalette p = palette();
    p.setColor(QPalette::Base, colors().codeBlock);
    p.setColor(QPalette::Text, colors().text);
    setPalette(p);
    setFont(ui::font(TextRole::Code));
    setTabStopDistance(4 * fontMetrics().horizontalAdvance(u' '));
    setViewportMargins(numbersWidth(), 0, 0, 0);
    m_colors->rehighlight();
    markLines(m_first, m_last);
}

void CodeView::setCode(const QString& path, const QString& text)
{
    m_first = m_last = 0;
    setPlainText(shownText(text));
    m_colors->setLanguage(languageOfFile(path));
    setExtraSelections({});
}

void CodeView::markLines(int first, int last)
{
    m_first = first;
    m_last = std::max(first, last);
    QList<QTextEdit::ExtraSelection> marks;
    QTextBlock block = first > 0 ? document()->findBlockByNumber(first - 1) : QTextBlock();
    if (block.isValid()) {
        for (; block.isValid() && block.blockNumber() < m_last; block = block.next()) {
            QTextEdit::ExtraSelection mark;
            mark.cursor = QTextCursor(block);
            mark.format.setBackground(mixed(colors().codeBlock, colors().accent, 0.16));
            mark.format.setProperty(QTextFormat::FullWidthSelection, true);
            marks += mark;
        }
        setTextCursor(QTextCursor(document()->findBlockByNumber(first - 1)));
        centerCursor();
    }
    setExtraSelections(marks);
    m_numbers->update();
}

int CodeView::numbersWidth() const
{
    const int digits = std::max<int>(3, int(QString::number(std::max(1, blockCount())).size()));
    return digits * fontMetrics().horizontalAdvance(u'0') + 28;
}

void CodeView::resizeEvent(QResizeEvent* event)
{
    QPlainTextEdit::resizeEvent(event);
    const QRect area = contentsRect();
    m_numbers->setGeometry(area.left(), area.top(), numbersWidth(), area.height());
}

void CodeView::paintNumbers(QPaintEvent* event)
{
    QPainter painter(m_numbers);
    const Colors& c = colors();
    painter.fillRect(event->rect(), c.codeBlock);
    painter.setFont(font());
    QTextBlock block = firstVisibleBlock();
    double top = blockBoundingGeometry(block).translated(contentOffset()).top();
    const int height = fontMetrics().height();
    for (; block.isValid() && top <= event->rect().bottom(); block = block.next()) {
        const double bottom = top + blockBoundingRect(block).height();
        if (block.isVisible() && bottom >= event->rect().top()) {
            const int line = block.blockNumber() + 1;
            const bool marked = m_first > 0 && line >= m_first && line <= m_last;
            if (marked)
                painter.fillRect(QRectF(0, top, 3, bottom - top), c.accent);
            painter.setPen(marked ? c.accentText : c.muted);
            painter.drawText(QRectF(0, top, m_numbers->width() - 14, height), Qt::AlignRight, QString::number(line));
        }
        top = bottom;
    }
}

} // namespace octavo::ui
