#pragma once

/// A file's text, read-only: line numbers, colours by language, and the cited lines marked.

#include "ui/transcript/highlighter.h"

#include <QPlainTextEdit>
#include <QSyntaxHighlighter>

namespace octavo::ui {

/// Colours a document line by line with the transcript's tokeniser.
class CodeColors final : public QSyntaxHighlighter
{
    Q_OBJECT

public:
    explicit CodeColors(QTextDocument* document);
    void setLanguage(const Language* language);

protected:
    void highlightBlock(const QString& text) override;

private:
    const Language* m_language = nullptr;
};

class CodeView final : public QPlainTextEdit
{
    Q_OBJECT

public:
    explicit CodeView(QWidget* parent = nullptr);

    void setCode(const QString& path, const QString& text);
    /// Marks lines `first` .. `last` (1-based) and brings them into view; 0 marks none.
    void markLines(int first, int last);
    int firstMarked() const { return m_first; }
    int lastMarked() const { return m_last; }

    int numbersWidth() const;
    void paintNumbers(QPaintEvent* event);

protected:
    void resizeEvent(QResizeEvent* event) override;

private:
    void restyle();

    QWidget* m_numbers;
    CodeColors* m_colors;
    int m_first = 0, m_last = 0;
};

} // namespace octavo::ui
