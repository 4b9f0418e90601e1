#pragma once

/// One question, the answers of several panes in columns that scroll together.

#include "agents/workbench.h"
#include "ui/controls.h"

class QComboBox;
class QHBoxLayout;

namespace octavo::ui {

class TranscriptView;

/// Questions asked in any of `agents`, those that most panes share first, then the newest.
QStringList comparableQuestions(const QList<agents::Agent*>& agents);

/// The last answer of `agent` to `question`, or null.
const agents::Message* answerTo(const agents::Agent& agent, const QString& question);

class CompareView final : public QWidget
{
    Q_OBJECT

public:
    explicit CompareView(const QList<agents::Agent*>& agents, QWidget* parent = nullptr);

    int columnCount() const { return int(m_columns.size()); }

signals:
    void citationActivated(octavo::agents::ContextId context, const octavo::agents::Citation& citation);
    void closed();
    /// Something to tell for a moment, at the bottom of the window.
    void noticed(const QString& text);

protected:
    void paintEvent(QPaintEvent* event) override;

private:
    struct Column {
        agents::Agent* agent;
        QWidget* widget;
        TranscriptView* view;
        agents::MessageId answer{};
        bool newest = false; ///< the answer is the conversation's last message
    };
    void refreshSoon();
    void refresh();
    bool isShown(const QString& question) const;
    void showQuestion(const QString& question);
    void scrollTogether(TranscriptView* moved, int value);

    QList<agents::Agent*> m_agents;
    QComboBox* m_questions;
    QHBoxLayout* m_row;
    QList<Column> m_columns;
    QString m_newest; ///< the question that was asked last, when last looked
    bool m_scrolling = false, m_refreshing = false;
};

} // namespace octavo::ui
