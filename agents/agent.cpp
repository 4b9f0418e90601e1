#include "agents/agent.h"

#include "agents/agent_private.h"
#include "agents/workbench_private.h"

#include <new>

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

Agent::Agent(std::unique_ptr<Private> p, QObject* parent)
    : QObject(parent)
    , d(std::move(p))
{
    d->q = this;
    d->poster = std::make_unique<Poster>(this);
}

Agent::~Agent()
{
    d->poster->close();
}

int Agent::index() const
{
    return d->index;
}

QString Agent::name() const
{
    return d->name;
}

void Agent::setName(const QString& name)
{
    if (name == d->name)
        return;
    d->name = name;
    d->savePane();
    emit nameChanged(name);
}

ContextInfo Agent::context() const
{
    const ContextEntry* entry = d->workbench->d->entry(d->context);
    return entry != nullptr ? entry->info : ContextInfo{};
}

ConversationId Agent::conversation() const
{
    return d->conversation;
}

AgentStatus Agent::status() const
{
    return d->status;
}

const QList<Message>& Agent::messages() const
{
    return d->messages;
}

QString Agent::draft() const
{
    return d->draft;
}

void Agent::setAttended(bool attended)
{
    d->attended = attended;
}

void Agent::setDraft(const QString& text)
{
    if (text == d->draft)
        return;
    d->draft = text;
    d->draftDirty = true;
    emit draftChanged(text);
}

Result<void> Agent::ask(const QString& question)
{
    return d->begin(question, Private::Replaces::Nothing);
}

void Agent::stop()
{
    if (d->counted) {
        const QString question = std::exchange(d->counted, std::nullopt)->question;
        d->status.outcome = Outcome::Stopped;
        d->setActivity(Activity::Idle);
        emit questionRefused(question, Error{ErrorCode::Cancelled, "the question was stopped before it was asked"});
    }
    if (!d->run || d->run->stopping || d->run->finishing)
        return;
    AnswerRun& run = *d->run;
    run.stopping = true;
    d->setActivity(Activity::Stopping);
    if (run.submitted) {
        d->workbench->d->engine->cancel(run.request);
        return;
    }
    if (run.waitsForContext)
        d->workbench->d->stopWaiting(d->context, d->index);
    d->engineDone(MessageState::Stopped, {}, {});
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

void Agent::setContext(ContextId context)
{
    if (context == d->context || (context != ContextId{} && d->workbench->d->entry(context) == nullptr))
        return;
    d->reset(context);
}

void Agent::newConversation()
{
    d->reset(d->context);
}

void Agent::openConversation(ConversationId conversation)
{
    if (conversation == d->conversation || conversation == ConversationId{})
        return;
    Workbench::Private& workbench = *d->workbench->d;
    for (Agent* other : workbench.agents) { // a conversation is in one pane at a time
        if (other != this && other->d->conversation == conversation)
            other->newConversation();
    }
    const quint64 serial = d->opening = d->nextSerial++;
    std::optional<QList<StoredMessage>> known; // reads go past writes that still wait
    if (const auto left = workbench.left.find(conversation); left != workbench.left.end())
        known = left->second.messages;
    workbench.store->read(
        [this, poster = *d->poster, prompt = workbench.prompt.get(), conversation, serial, known](SessionStore& store) {
            auto messages = known ? Result<QList<StoredMessage>>(*known) : store.messages(conversation);
            if (!messages)
                return;
            auto turns = turnsOf(*prompt, *messages);
            poster.post([this, conversation, serial, messages = *std::move(messages), turns = std::move(turns)] {
                if (serial == d->opening)
                    d->showConversation(conversation, messages, turns);
            });
        });
}

Message* Agent::Private::message(MessageId id)
{
    for (auto it = messages.rbegin(); it != messages.rend(); ++it) {
        if (it->id == id)
            return &*it;
    }
    return nullptr;
}

PromptBuilder::Ids turnIds(const PromptBuilder& prompt, const Message& message,
                           const std::vector<engine::TokenId>& answerIds)
{
    PromptBuilder::Ids out;
    if (message.role == MessageRole::User)
        prompt.appendQuestion(out, message.text.toStdString());
    else
        prompt.appendAnswer(out, message.text.toStdString(), answerIds);
    return out;
}

TurnIds turnsOf(const PromptBuilder& prompt, const QList<StoredMessage>& messages)
{
    TurnIds out;
    for (const StoredMessage& stored : messages)
        out.insert(stored.message.id, turnIds(prompt, stored.message, stored.ids));
    return out;
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

void Agent::Private::fill(QList<StoredMessage> stored)
{
    for (StoredMessage& s : stored) {
        if (!s.ids.empty())
            ids.insert(s.message.id, std::move(s.ids));
        messages.append(std::move(s.message));
    }
}

void Agent::Private::countTurns(TurnIds known)
{
    for (const Message& m : std::as_const(messages)) {
        if (const auto turn = known.constFind(m.id); turn != known.constEnd() && !turns.contains(m.id)) {
            status.contextTokens += qint64(turn->size());
            turns.insert(m.id, *turn);
        }
    }
}

void Agent::Private::forget(MessageId message)
{
    ids.remove(message);
    turns.remove(message);
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

void Agent::Private::take(quint64 serial, StreamBatch&& batch)
{
    if (!run || run->serial != serial || run->finishing)
        return;
    if (batch.progress && !run->stopping) {
        const auto& p = *batch.progress;
        if (run->readStartMs < 0) {
            run->readStartMs = run->clock.elapsed();
            run->readStartDone = p.done;
        }
        status.readDone = p.done;
        status.readTotal = p.total;
        const double seconds = double(run->clock.elapsed() - run->readStartMs) / 1000.0;
        if (p.done > run->readStartDone && seconds > 0.05) {
            status.readTokensPerSecond = double(p.done - run->readStartDone) / seconds;
            status.secondsLeft = double(p.total - p.done) / status.readTokensPerSecond;
        }
        if (status.activity == Activity::Queued || status.activity == Activity::Reading)
            setActivity(Activity::Reading);
    }
    if ((!batch.text.isEmpty() || !batch.ids.empty()) && !run->stopping) {
        status.contextTokens += qint64(batch.ids.size());
        run->recent.emplace_back(run->clock.elapsed(), int(batch.ids.size()));
        if (status.activity != Activity::Writing)
            setActivity(Activity::Writing);
        appendText(batch.text, std::move(batch.ids));
    }
    if (batch.failed)
        engineDone(MessageState::Failed, QString::fromStdString(batch.failed->message), {});
    else if (batch.finished) {
        const auto& stats = batch.finished->stats;
        AnswerFigures figures;
        figures.promptTokens = stats.promptTokens;
        figures.reusedTokens = stats.reusedTokens;
        figures.newTokens = stats.newTokens;
        figures.acceptedDrafts = stats.acceptedDrafts;
        if (stats.newTokens > 0) {
            figures.ttftMs = stats.ttftMs;
            figures.tokensPerSecond = stats.decodeMs > 0 ? stats.decodeTokensPerSecond() : -1;
            figures.worstGapMs = stats.worstGapMs;
        }
        MessageState outcome = MessageState::Complete;
        switch (batch.finished->reason) {
        case engine::FinishReason::Stop:
            break;
        case engine::FinishReason::Length:
            outcome = MessageState::LengthLimit;
            break;
        case engine::FinishReason::ContextFull:
            outcome = MessageState::ContextFull;
            break;
        case engine::FinishReason::Cancelled:
            outcome = MessageState::Stopped;
            break;
        }
        engineDone(run->stopping ? MessageState::Stopped : outcome, {}, figures);
    }
}

void Agent::Private::appendText(const QString& text, std::vector<engine::TokenId> newIds)
{
    auto& known = ids[run->answer];
    known.insert(known.end(), newIds.begin(), newIds.end());
    run->unsavedIds.insert(run->unsavedIds.end(), newIds.begin(), newIds.end());
    if (text.isEmpty())
        return;
    run->unsavedText += text;
    message(run->answer)->text += text;
    emit q->textAppended(run->answer, text);
    postCitations(text, false);
}

void Agent::Private::postCitations(const QString& text, bool last)
{
    // The first piece brings what an answer that goes on had already.
    const QString piece = std::exchange(run->scanned, true) ? text : message(run->answer)->text;
    workbench->d->citationPool.start([this, piece, last, scanner = run->scanner, serial = run->serial, post = *poster] {
        qsizetype before = 0;
        QList<Citation> found;
        bool known = scanner != nullptr;
        if (known) {
            try {
                before = scanner->citations().size();
                scanner->append(piece);
                if (last)
                    scanner->finish();
                found = scanner->citations();
            } catch (const std::bad_alloc&) { // the answer stays without this piece's marks
                known = false;
            }
        }
        if (!last && found.size() == before)
            return;
        post.post([this, serial, last, found, known] {
            if (!run || run->serial != serial)
                return;
            Message* answer = message(run->answer);
            if (known)
                answer->citations = found;
            if (last)
                finish();
            else
                emit q->messageChanged(*answer);
        });
    });
}

void Agent::Private::engineDone(MessageState outcome, const QString& problem, const AnswerFigures& figures)
{
    run->finishing = true;
    run->outcome = outcome;
    run->problem = problem;
    message(run->answer)->figures = figures;
    postCitations({}, true);
}

void Agent::Private::finish()
{
    Message& answer = *message(run->answer);
    answer.state = run->outcome;
    answer.problem = run->problem;
    const Message copy = answer;
    const auto ended = std::exchange(run, nullptr);
    workbench->d->write([copy, text = ended->unsavedText, newIds = ended->unsavedIds](SessionStore& s) -> Result<void> {
        if (!text.isEmpty() || !newIds.empty())
            OCTAVO_CHECK(s.appendText(copy.id, text, newIds));
        return s.updateMessage(copy);
    });
    status.activity = counted ? Activity::Queued : Activity::Idle;
    status.outcome = copy.state == MessageState::Failed    ? Outcome::Failed
                     : copy.state == MessageState::Stopped ? Outcome::Stopped
                                                           : Outcome::Done;
    status.problem = copy.problem;
    status.secondsLeft = status.readTokensPerSecond = -1;
    status.tokensPerSecond = -1;
    emit q->messageChanged(copy);
    emitStatus();
}

void Agent::Private::flush()
{
    if (draftDirty)
        savePane();
    if (!run || (run->unsavedText.isEmpty() && run->unsavedIds.empty()))
        return;
    workbench->d->write(
        [id = run->answer, text = std::exchange(run->unsavedText, {}),
         newIds = std::exchange(run->unsavedIds, {})](SessionStore& s) { return s.appendText(id, text, newIds); });
}

/// Ends what runs without waiting for the engine: its message is Stopped, and what still comes is not for us.
void Agent::Private::abandon()
{
    if (counted)
        emit q->questionRefused(std::exchange(counted, std::nullopt)->question,
                                Error{ErrorCode::Cancelled, "the question was left before it was asked"});
    if (!run)
        return;
    if (run->submitted && !run->finishing)
        workbench->d->engine->cancel(run->request);
    if (run->waitsForContext)
        workbench->d->stopWaiting(context, index);
    if (!run->finishing)
        run->outcome = MessageState::Stopped;
    finish();
}

void Agent::Private::setActivity(Activity activity)
{
    status.activity = activity;
    emitStatus();
}

/// What changes by itself while an answer runs.
void Agent::Private::updateStatus()
{
    if (!run)
        return;
    const qint64 now = run->clock.elapsed();
    while (!run->recent.empty() && run->recent.front().first < now - 1000)
        run->recent.pop_front();
    int tokens = 0;
    for (const auto& [time, count] : run->recent)
        tokens += count;
    status.tokensPerSecond = status.activity == Activity::Writing && !run->recent.empty()
                                 ? 1000.0 * tokens / double(std::max<qint64>(now - run->recent.front().first, 100))
                                 : -1;
    if (run->waitsForContext) {
        const ContextEntry* entry = workbench->d->entry(context);
        if (entry != nullptr && entry->info.state == ContextState::Reading) {
            status.activity = Activity::Reading;
            status.readDone = entry->info.readDone;
            status.readTotal = entry->info.readTotal;
            status.secondsLeft = entry->info.secondsLeft;
            const double seconds = double(entry->clock.elapsed()) / 1000.0;
            status.readTokensPerSecond =
                entry->firstDone >= 0 && seconds > 0 ? double(status.readDone - entry->firstDone) / seconds : -1;
        }
    }
    readMetrics();
    emitStatus();
}

/// What only the engine knows of: the device, and how many picked rows were near.
void Agent::Private::readMetrics()
{
    const engine::MetricsSnapshot now = workbench->d->engine->metrics();
    for (const engine::DeviceMetrics& device : now.devices) {
        for (const engine::AgentMetrics& agent : device.agents) {
            if (agent.agent != engine::AgentId(quint32(index)))
                continue;
            status.device = QString::fromStdString(device.device);
            const qint64 hits = device.backend.hotHits - run->hotHits,
                         misses = device.backend.hotMisses - run->hotMisses;
            if (run->hotHits >= 0 && hits + misses > 0)
                status.hitRate = double(hits) / double(hits + misses);
            run->hotHits = device.backend.hotHits;
            run->hotMisses = device.backend.hotMisses;
        }
    }
}

void Agent::Private::emitStatus()
{
    emit q->statusChanged(status);
}

/// Ends what runs and shows an empty conversation about `newContext`.
void Agent::Private::reset(ContextId newContext)
{
    abandon();
    opening = 0;
    const bool contextDiffers = newContext != context;
    if (conversation != ConversationId{})
        workbench->d->leave(conversation, storedMessages());
    context = newContext;
    conversation = ConversationId{};
    messages.clear();
    ids.clear();
    turns.clear();
    status = AgentStatus{};
    Workbench::Private& w = *workbench->d;
    const ContextEntry* entry = w.entry(context);
    status.contextTokens = entry != nullptr ? entry->stored.result.tokens : 0;
    status.contextLimit = w.engine->model().contextLimit;
    w.engine->releaseAgent(engine::AgentId(quint32(index)));
    savePane();
    emit q->conversationReset();
    emitStatus();
    if (contextDiffers) {
        emit q->contextChanged(q->context());
        w.countPanes();
        // One from an earlier session that no pane has used since: made and read now, as those in use are at the start.
        if (entry != nullptr && entry->info.state == ContextState::Ready && !entry->data)
            w.build(context, true);
    }
    emit w.q->conversationsChanged();
}

void Agent::Private::showConversation(ConversationId id, QList<StoredMessage> stored, TurnIds known)
{
    Workbench::Private& w = *workbench->d;
    ContextId about = context;
    for (const StoredConversation& listed : std::as_const(w.conversations)) {
        if (listed.id == id)
            about = listed.context;
    }
    reset(about);
    conversation = id;
    fill(std::move(stored));
    countTurns(std::move(known));
    savePane();
    emit q->conversationReset();
    emitStatus();
    emit w.q->conversationsChanged();
}

QList<StoredMessage> Agent::Private::storedMessages() const
{
    QList<StoredMessage> out;
    for (const Message& m : messages)
        out.append({m, ids.value(m.id)});
    return out;
}

void Agent::Private::takeLatePane(const StoredPane& pane)
{
    if (name == defaultName())
        q->setName(pane.name);
    if (!pane.draft.isEmpty() && pane.draft != draft)
        q->setDraft(draft.isEmpty() ? pane.draft : pane.draft + QStringLiteral("\n\n") + draft);
    if (context != ContextId{} || conversation != ConversationId{} || run)
        return; // in use by now; what was in it is in the history
    if (pane.conversation != ConversationId{})
        q->openConversation(pane.conversation);
    else if (pane.context != ContextId{})
        q->setContext(pane.context);
}

StoredPane Agent::Private::pane() const
{
    return {index, name, draft, context, conversation};
}

void Agent::Private::savePane()
{
    draftDirty = false;
    workbench->d->write([stored = pane()](SessionStore& s) { return s.savePane(stored); });
}

} // namespace octavo::agents
