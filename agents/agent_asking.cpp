/// From a question to a request: room is checked, the question stored, its context waited for.

#include "agents/agent_private.h"
#include "agents/workbench_private.h"

namespace octavo::agents {

namespace {

constexpr qsizetype maxTitle = 80;
constexpr qint64 smallestAnswer = 16;       // tokens
constexpr qsizetype longQuestion = 8 << 10; // bytes; counting more would hold up the GUI thread, with eight panes

QString titleOf(const QString& question)
{
    QString title = question.trimmed().section(u'\n', 0, 0).simplified();
    if (title.size() > maxTitle)
        title = title.left(maxTitle - 1) + QChar(0x2026);
    return title.isEmpty() ? QStringLiteral("Conversation") : title;
}

} // namespace

Result<void> Agent::ask(const QString& question)
{
    return d->begin(question, Private::Replaces::Nothing);
}

Result<void> Agent::continueAnswer()
{
    if (d->busy())
        return Error{ErrorCode::Busy, d->name.toStdString() + " is still answering: stop it first"};
    if (d->messages.isEmpty() || !endedEarly(d->messages.last().state))
        return Error{ErrorCode::NotFound, "the last answer did not end early: there is nothing to go on with"};
    const qint64 nothing = qint64(d->workbench->d->prompt->questionTokens({}));
    OCTAVO_TRY(const qint64 tokens, d->checkRoom(nothing, d->messages.size()));
    d->abandon();
    Message& answer = d->messages.last();
    d->turns.remove(answer.id);
    answer.state = MessageState::Pending;
    answer.problem.clear();
    AnswerRun prepared;
    prepared.answer = answer.id;
    prepared.continues = true;
    d->start(std::move(prepared), tokens);
    const Message copy = answer;
    emit messageChanged(copy);
    d->workbench->d->write([copy](SessionStore& s) { return s.updateMessage(copy); },
                           [p = d.get(), serial = d->run->serial, post = *d->poster](bool) {
                               post.post([p, serial] { p->proceed(serial); });
                           });
    return {};
}

Result<void> Agent::regenerate()
{
    if (d->busy())
        return Error{ErrorCode::Busy, d->name.toStdString() + " is still answering: stop it first"};
    if (d->messages.size() < 2 || d->messages.last().role != MessageRole::Assistant)
        return Error{ErrorCode::NotFound, "there is no answer yet to be written anew"};
    const QString question = d->messages[d->messages.size() - 2].text;
    return d->begin(question, Private::Replaces::LastAnswer);
}

Result<void> Agent::editLast(const QString& question)
{
    if (d->busy())
        return Error{ErrorCode::Busy, d->name.toStdString() + " is still answering: stop it first"};
    if (d->messages.size() < 2 || d->messages.last().role != MessageRole::Assistant)
        return Error{ErrorCode::NotFound, "there is no question yet to be changed"};
    return d->begin(question, Private::Replaces::LastTurn);
}

/// Ids of the first `numMessages` messages, as the engine has seen them.
PromptBuilder::Ids Agent::Private::conversationIds(qsizetype numMessages)
{
    PromptBuilder::Ids out;
    for (qsizetype i = 0; i < numMessages; ++i) {
        const Message& m = messages[i];
        auto known = turns.constFind(m.id);
        if (known == turns.constEnd())
            known = turns.insert(m.id, turnIds(*workbench->d->prompt, m, ids.value(m.id)));
        out.insert(out.end(), known->begin(), known->end());
    }
    return out;
}

/// How many tokens of context and conversation go before a question.
Result<qint64> Agent::Private::roomUsed(qsizetype keptMessages)
{
    const ContextEntry* entry = workbench->d->entry(context);
    if (entry == nullptr)
        return Error{ErrorCode::NotFound, name.toStdString() + " has no context: choose a repository first"};
    if (entry->info.state == ContextState::Failed && !entry->data)
        return Error{ErrorCode::NotFound, entry->info.problem.toStdString()};
    return entry->stored.result.tokens + qint64(conversationIds(keptMessages).size());
}

/// How many tokens the prompt would have.
Result<qint64> Agent::Private::checkRoom(qint64 questionTokens, qsizetype keptMessages)
{
    OCTAVO_TRY(const qint64 used, roomUsed(keptMessages));
    const qint64 limit = workbench->d->engine->model().contextLimit, needed = questionTokens + smallestAnswer;
    if (used + needed > limit)
        return Error{
            ErrorCode::ContextFull,
            "the context is full: " + std::to_string(used) + " of " + std::to_string(limit) +
                " tokens are used, this question needs " + std::to_string(needed) + " (with a shortest answer): " +
                (keptMessages > 0 ? "begin a new conversation" : "ask less at once or take a smaller context")};
    return used + questionTokens;
}

/// Starts an answer, at once or when a long question is counted.
Result<void> Agent::Private::begin(const QString& question, Replaces replaces)
{
    const Workbench::Private& w = *workbench->d;
    if (busy())
        return Error{ErrorCode::Busy, name.toStdString() + " is still answering: stop it first"};
    if (question.trimmed().isEmpty())
        return Error{ErrorCode::InvalidArgument, "the question is empty"};
    const qsizetype kept = messages.size() - (replaces == Replaces::Nothing ? 0 : 2);
    PromptBuilder::Ids ids;
    if (replaces == Replaces::LastAnswer)
        ids = turns.value(messages[kept].id);
    const std::string text = question.toStdString();
    if (ids.empty() && qsizetype(text.size()) > longQuestion) {
        OCTAVO_CHECK(checkRoom(qint64(text.size()) / w.longestToken, kept)); // it has no fewer
        opening = 0; // as start() has it
        counted = Counted{nextSerial++, question, replaces};
        status.outcome = Outcome::None;
        setActivity(Activity::Queued);
        workbench->d->count(question, index, counted->serial);
        return {};
    }
    if (ids.empty())
        w.prompt->appendQuestion(ids, text);
    OCTAVO_TRY(const qint64 tokens, checkRoom(qint64(ids.size()), kept));
    begin(question, replaces, ids, tokens);
    return {};
}

void Agent::Private::questionCounted(quint64 serial, const Result<PromptBuilder::Ids>& ids)
{
    if (!counted || counted->serial != serial)
        return;
    const Counted asked = *std::exchange(counted, std::nullopt);
    const qsizetype kept = messages.size() - (asked.replaces == Replaces::Nothing ? 0 : 2);
    const auto tokens = ids ? checkRoom(qint64(ids->size()), kept) : Result<qint64>(ids.error());
    if (tokens) {
        begin(asked.question, asked.replaces, *ids, *tokens);
        return;
    }
    status.outcome = Outcome::Failed;
    status.problem = QString::fromStdString(tokens.error().message);
    setActivity(Activity::Idle);
    emit q->questionRefused(asked.question, tokens.error());
}

/// What an answer replaces goes and what is new comes in one transaction.
void Agent::Private::begin(const QString& question, Replaces replaces, const PromptBuilder::Ids& questionIds,
                           qint64 promptTokens)
{
    Workbench::Private& w = *workbench->d;
    abandon();

    const QDateTime now = QDateTime::currentDateTimeUtc();
    QList<MessageId> removed;
    QList<StoredMessage> added;
    for (int i = replaces == Replaces::LastTurn ? 2 : replaces == Replaces::LastAnswer ? 1 : 0; i > 0; --i) {
        removed.append(messages.last().id);
        forget(messages.last().id);
        messages.removeLast();
    }
    if (!removed.isEmpty())
        emit q->conversationReset();
    if (replaces != Replaces::LastAnswer) {
        StoredMessage asked;
        asked.message.id = MessageId(++w.lastMessage);
        asked.message.role = MessageRole::User;
        asked.message.text = question;
        asked.message.time = now;
        added.append(asked);
        turns.insert(asked.message.id, questionIds);
    }
    StoredMessage answer;
    answer.message.id = MessageId(++w.lastMessage);
    answer.message.role = MessageRole::Assistant;
    answer.message.state = MessageState::Pending;
    answer.message.time = now;
    added.append(answer);

    StoredConversation created;
    if (conversation == ConversationId{}) {
        conversation = ConversationId(++w.lastConversation);
        created.id = conversation;
        created.context = context;
        created.title = titleOf(question);
        created.contextName = w.entry(context)->info.name;
        created.lastUsed = now;
        w.keepConversation(created);
    }

    for (const StoredMessage& stored : std::as_const(added)) {
        messages.append(stored.message);
        emit q->messageAdded(stored.message);
    }
    w.touchConversation(conversation, int(messages.size()));

    if (draft.trimmed() == question.trimmed()) { // what was asked; another text that is being written stays
        draft.clear();
        draftDirty = false;
        emit q->draftChanged(draft);
    }
    AnswerRun prepared;
    prepared.answer = answer.message.id;
    start(std::move(prepared), promptTokens);

    // The question is committed before the engine sees it; should the disk refuse, the answer still comes.
    const quint64 serial = run->serial;
    w.write(
        [created, removed, added, id = conversation, stored = pane()](SessionStore& s) -> Result<void> {
            if (created.id != ConversationId{})
                OCTAVO_CHECK(s.addConversation(created));
            OCTAVO_CHECK(s.removeMessages(removed));
            OCTAVO_CHECK(s.addMessages(id, added));
            return s.savePane(stored);
        },
        [this, serial, post = *poster](bool) { post.post([this, serial] { proceed(serial); }); });
}

void Agent::Private::start(AnswerRun&& prepared, qint64 promptTokens)
{
    Workbench::Private& w = *workbench->d;
    opening = 0; // what is asked now stays, however late an older conversation arrives
    run = std::make_unique<AnswerRun>(std::move(prepared));
    run->serial = nextSerial++;
    run->clock.start();
    if (const ContextEntry* entry = w.entry(context); entry != nullptr && entry->data)
        run->scanner = std::make_shared<CitationScanner>(entry->data->index);
    status = AgentStatus{};
    status.activity = Activity::Queued;
    status.contextTokens = promptTokens;
    status.contextLimit = w.engine->model().contextLimit;
    emitStatus();
}

void Agent::Private::proceed(quint64 serial)
{
    if (!run || run->serial != serial || run->stopping)
        return;
    run->waitsForContext = true;
    workbench->d->waitForContext(context, index, serial);
}

void Agent::Private::contextRead(quint64 serial, const Result<void>& result)
{
    if (!run || run->serial != serial || run->stopping)
        return;
    run->waitsForContext = false;
    if (!result) {
        engineDone(MessageState::Failed, QString::fromStdString(result.error().message), {});
        return;
    }
    submit();
}

void Agent::Private::submit()
{
    Workbench::Private& w = *workbench->d;
    const ContextEntry& entry = *w.entry(context);
    if (!run->scanner)
        run->scanner = std::make_shared<CitationScanner>(entry.data->index);
    engine::GenerationRequest request;
    request.id = run->request = w.engine->nextRequestId();
    request.agent = engine::AgentId(quint32(index));
    request.prompt = entry.data->ids;
    const auto turns = conversationIds(messages.size() - 1); // up to the question
    request.prompt.insert(request.prompt.end(), turns.begin(), turns.end());
    if (run->continues) {
        const Message& answer = messages.last();
        w.prompt->appendUnfinishedAnswer(request.prompt, answer.text.toStdString(), ids.value(answer.id));
    }
    request.contextTokens = qint64(entry.data->ids.size());
    request.contextLabel = {entry.info.name.toStdString(), entry.info.commit.toStdString()};
    request.maxNewTokens = w.options.maxNewTokens;
    request.sampling = w.options.sampling;
    request.drafts = w.options.lookupDrafts || w.options.mtpDrafts;
    if (request.drafts && w.options.lookupDrafts != w.options.mtpDrafts)
        request.draftSources = w.options.lookupDrafts ? engine::DraftSources::Lookup : engine::DraftSources::Mtp;
    request.endsLoops = true;
    request.priority = priority();
    const quint64 serial = run->serial;
    run->stream =
        std::make_unique<AnswerStream>([this, serial](StreamBatch&& batch) { take(serial, std::move(batch)); });
    setActivity(Activity::Queued);
    const auto accepted = w.engine->submit(std::move(request), run->stream->sink());
    if (!accepted) {
        engineDone(accepted.error().code == ErrorCode::ContextFull ? MessageState::ContextFull : MessageState::Failed,
                   QString::fromStdString(accepted.error().message), {});
        return;
    }
    run->submitted = true;
}

int Agent::Private::priority() const
{
    return attended ? attendedPriority : questionPriority;
}

} // namespace octavo::agents
