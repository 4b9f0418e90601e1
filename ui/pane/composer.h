#pragma once

/// Where a question is written: one line that grows to six, with history and a button that sends or stops.
///
/// Enter sends, Shift+Enter breaks the line; while an input method composes, every key is its own. Up on the first line
/// and Down on the last walk through what was asked before; what was typed stays the draft and comes back at the end.
/// Page Up and Page Down are for the answers above.

#include <QPlainTextEdit>
#include <QTimer>

class QPushButton;

namespace octavo::ui {

/// The text field inside; separate so that keys can be told from the field's own.
class ComposerEdit final : public QPlainTextEdit
{
    Q_OBJECT

public:
    explicit ComposerEdit(QWidget* parent = nullptr);
    bool isComposing() const { return m_composing; }

signals:
    void sendRequested();
    void historyRequested(int step);
    void pageRequested(int step); ///< -1: up

protected:
    void keyPressEvent(QKeyEvent* event) override;
    void inputMethodEvent(QInputMethodEvent* event) override;

private:
    bool m_composing = false;
};

class Composer final : public QWidget
{
    Q_OBJECT

public:
    enum class Mode { Send, Stop, Stopping, Disabled };

    explicit Composer(QWidget* parent = nullptr);

    void setMode(Mode mode);
    Mode mode() const { return m_mode; }
    void setPlaceholder(const QString& text);
    QString text() const;
    void setText(const QString& text);
    /// What is to be kept: what was typed, also while an old question is shown over it.
    QString draft() const;
    /// What was typed before an old question was fetched; empty where none is shown.
    QString typedBefore() const { return m_historyAt < 0 ? QString() : m_typed; }
    /// What Up walks through, oldest first. A walk goes on where its question is still in its place.
    void setHistory(const QStringList& questions);
    ComposerEdit* edit() const { return m_edit; }
    void setName(const QString& name); ///< of the pane, for screen readers

signals:
    void sent(const QString& text);
    void sentTooSoon(); ///< Enter, while an answer is still being made
    void pageRequested(int step);
    void stopRequested();
    void draftEdited(const QString& text); ///< a little after the first key since the last time

protected:
    void paintEvent(QPaintEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    void send();
    void fitHeight();
    void walkHistory(int step);
    void showText(const QString& text);
    void restyle();

    ComposerEdit* m_edit;
    QPushButton* m_button;
    QTimer m_draftTimer;
    Mode m_mode = Mode::Send;
    QStringList m_history;
    int m_historyAt = -1; ///< -1: what is being typed
    QString m_typed;
};

} // namespace octavo::ui
