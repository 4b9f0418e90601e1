#pragma once

/// One pane's worth: a context, a conversation, one question at a time.
///
/// Thread   lives in the GUI thread (or the command line's main thread); every member is called and every signal
///          emitted there. Engine, git and SQL work happens on threads that the Workbench owns.

#include "agents/values.h"

#include <QObject>

#include <memory>

namespace octavo::agents {

class Workbench;

class Agent final : public QObject
{
    Q_OBJECT
    Q_DISABLE_COPY_MOVE(Agent)

public:
    ~Agent() override;

    int index() const;                        ///< 0..7: colour and place
    QString name() const;
    void setName(const QString& name);

    /// The context asked about; id 0 and an empty name where there is none.
    ContextInfo context() const;
    ConversationId conversation() const;
    AgentStatus status() const;
    const QList<Message>& messages() const;   ///< oldest first

    /// The composer's text, kept through a restart.
    QString draft() const;
    void setDraft(const QString& text);

    /// Whether the user looks at this pane before others (the current one): its next question goes first.
    void setAttended(bool attended);

    /// Stores the question, then sends it. Fails with ContextFull (used / limit / needed), Busy (one runs already),
    /// NotFound (no context); nothing is stored then. A long question is counted in the background first; where it
    /// turns out not to fit, questionRefused() follows and nothing is stored either.
    Result<void> ask(const QString& question);
    void stop();                              ///< at once for the eye; text so far is kept
    /// Lets an answer that was Stopped, Interrupted or cut at the LengthLimit go on where it ended.
    Result<void> continueAnswer();
    Result<void> regenerate();                ///< replaces the last answer
    Result<void> editLast(const QString& question); ///< replaces the last question and its answer
    void setContext(ContextId context);       ///< starts a new conversation about another context
    void newConversation();
    void openConversation(ConversationId conversation);

signals:
    void nameChanged(const QString& name);
    void contextChanged(const octavo::agents::ContextInfo& context);
    void statusChanged(const octavo::agents::AgentStatus& status);
    /// The list of messages was replaced (another conversation, an edit): show it anew.
    void conversationReset();
    void messageAdded(const octavo::agents::Message& message);
    /// At most once per frame; the text is to be added at the end of that message.
    void textAppended(octavo::agents::MessageId message, const QString& text);
    /// State, figures or citations of a message changed (not its text).
    void messageChanged(const octavo::agents::Message& message);
    void draftChanged(const QString& text);
    /// A question that was taken does not fit after all.
    void questionRefused(const QString& question, const octavo::Error& error);

private:
    friend class Workbench;
    struct Private;
    explicit Agent(std::unique_ptr<Private> d, QObject* parent);
    std::unique_ptr<Private> d;
};

} // namespace octavo::agents

Q_DECLARE_METATYPE(octavo::agents::MessageId)
