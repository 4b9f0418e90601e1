#include "tests/ui/scripted_workbench.h"

#include <QFutureInterface>
#include <QMap>
#include <QPointer>

#include <algorithm>

namespace octavo::agents {

using ui::test::AgentScript;

namespace {

/// Scripts by agent, for the functions that tests call.
QHash<const Agent*, AgentScript*>& scripts()
{
    static QHash<const Agent*, AgentScript*> all;
    return all;
}

struct WorkbenchScript {
    bool ready = false;
    QList<Agent*> agents;
    QList<ContextInfo> contexts;
    QList<ConversationInfo> conversations, deleted;
    QMap<QString, QString> settings;
    engine::ModelInfo model;
    engine::MetricsSnapshot metrics;
    engine::SamplingParams sampling;
    int maxNewTokens = 1024;
    bool lookupDrafts = true, mtpDrafts = true;
    QString deviceProblem;
    bool reloading = false;
    QHash<QByteArray, SourceText> sources;
};

QHash<const Workbench*, WorkbenchScript*>& workbenches()
{
    static QHash<const Workbench*, WorkbenchScript*> all;
    return all;
}

template <typename T>
QFuture<T> finishedWith(const T& value)
{
    QFutureInterface<T> future;
    future.reportStarted();
    future.reportFinished(&value);
    return future.future();
}

} // namespace

struct Agent::Private {
    AgentScript script;
    int index = 0;
    qint64 nextMessage = 1;
};

Agent::Agent(std::unique_ptr<Private> p, QObject* parent)
    : QObject(parent)
    , d(std::move(p))
{
    scripts()[this] = &d->script;
}

Agent::~Agent()
{
    scripts().remove(this);
}

int Agent::index() const
{
    return d->index;
}
QString Agent::name() const
{
    return d->script.name;
}

void Agent::setName(const QString& name)
{
    d->script.name = name;
    emit nameChanged(name);
}

ContextInfo Agent::context() const
{
    return d->script.context;
}
ConversationId Agent::conversation() const
{
    return d->script.conversation;
}
AgentStatus Agent::status() const
{
    return d->script.status;
}
const QList<Message>& Agent::messages() const
{
    return d->script.messages;
}
QString Agent::draft() const
{
    return d->script.draft;
}

void Agent::setAttended(bool) {}

void Agent::setDraft(const QString& text)
{
    d->script.draft = text;
    emit draftChanged(text);
}

Result<void> Agent::ask(const QString& question)
{
    if (std::exchange(d->script.failNextAsk, false))
        return Error{ErrorCode::ContextFull, "context full: 249,900 of 250,000 tokens used, 210 needed"};
    d->script.asked += question;
    ui::test::addMessage(this, MessageRole::User, question);
    ui::test::addMessage(this, MessageRole::Assistant, {}, MessageState::Pending);
    AgentStatus status = d->script.status;
    status.activity = Activity::Writing;
    status.outcome = Outcome::None;
    ui::test::setStatus(this, status);
    return {};
}

void Agent::stop()
{
    ++d->script.stops;
    AgentStatus status = d->script.status;
    status.activity = Activity::Idle;
    status.outcome = Outcome::Stopped;
    if (!d->script.messages.isEmpty() && d->script.messages.back().state == MessageState::Pending)
        ui::test::changeLast(this, [](Message& message) { message.state = MessageState::Stopped; });
    ui::test::setStatus(this, status);
}

Result<void> Agent::regenerate()
{
    ++d->script.regenerations;
    return {};
}

Result<void> Agent::continueAnswer()
{
    if (d->script.messages.isEmpty() || !endedEarly(d->script.messages.back().state))
        return Error{ErrorCode::NotFound, "the last answer did not end early: there is nothing to go on with"};
    ++d->script.continuations;
    return {};
}

Result<void> Agent::editLast(const QString& question)
{
    d->script.edits += question;
    return {};
}

void Agent::setContext(ContextId context)
{
    for (const ContextInfo& info : qobject_cast<Workbench*>(parent())->contexts()) {
        if (info.id == context)
            ui::test::setContext(this, info);
    }
    d->script.messages.clear();
    emit conversationReset();
}

void Agent::newConversation()
{
    d->script.messages.clear();
    emit conversationReset();
}

void Agent::openConversation(ConversationId conversation)
{
    d->script.conversation = conversation;
    d->script.messages.clear();
    emit conversationReset();
}

struct Workbench::Private {
    WorkbenchScript script;
};

Workbench::Workbench(WorkbenchOptions, QObject* parent)
    : QObject(parent)
    , d(std::make_unique<Private>())
{
    workbenches()[this] = &d->script;
    static const char* const names[] = {"Scheduler", "KV cache", "Tokenizer", "Docs",
                                        "Refactor",  "Tests",    "Security",  "Scratch"};
    for (int i = 0; i < numAgents; ++i) {
        auto p = std::make_unique<Agent::Private>();
        p->index = i;
        p->script.name = QString::fromLatin1(names[i]);
        p->script.status.contextLimit = 250000;
        d->script.agents += new Agent(std::move(p), this);
    }
}

Workbench::Workbench(WorkbenchOptions options, std::unique_ptr<engine::Engine>, QObject* parent)
    : Workbench(std::move(options), parent)
{
}

Workbench::~Workbench()
{
    qDeleteAll(d->script.agents);
    workbenches().remove(this);
}

void Workbench::start() {}
bool Workbench::isReady() const
{
    return d->script.ready;
}
engine::ModelInfo Workbench::model() const
{
    return d->script.model;
}
QString Workbench::deviceProblem() const
{
    return d->script.deviceProblem;
}
bool Workbench::isReloading() const
{
    return d->script.reloading;
}
void Workbench::reload()
{
    d->script.reloading = true;
    emit deviceChanged();
}
Agent* Workbench::agent(int index) const
{
    return d->script.agents.value(index);
}
QList<ContextInfo> Workbench::contexts() const
{
    return d->script.contexts;
}
IngestJob* Workbench::preview(const IngestOptions&)
{
    return nullptr;
}
ContextId Workbench::addContext(const IngestOptions&, const IngestResult&)
{
    return {};
}
void Workbench::cancelReading(ContextId) {}
void Workbench::readContext(ContextId) {}

IngestOptions Workbench::ingestOptions(ContextId) const
{
    return {};
}
IngestChange Workbench::changeSince(ContextId, const IngestResult&) const
{
    return {};
}

engine::SamplingParams Workbench::sampling() const
{
    return d->script.sampling;
}
int Workbench::maxNewTokens() const
{
    return d->script.maxNewTokens;
}
void Workbench::setSampling(const engine::SamplingParams& sampling, int maxNewTokens)
{
    d->script.sampling = sampling;
    d->script.maxNewTokens = maxNewTokens;
}

bool Workbench::lookupDrafts() const
{
    return d->script.lookupDrafts;
}
bool Workbench::mtpDrafts() const
{
    return d->script.mtpDrafts;
}
void Workbench::setDrafts(bool lookup, bool mtp)
{
    d->script.lookupDrafts = lookup;
    d->script.mtpDrafts = mtp;
}
std::filesystem::path Workbench::savedContextsFolder() const
{
    return {};
}

void Workbench::removeContext(ContextId context)
{
    d->script.contexts.removeIf([&](const ContextInfo& info) { return info.id == context; });
    emit contextRemoved(context);
}

QList<PackedFile> Workbench::packedFiles(ContextId) const
{
    return {};
}
QList<SkippedFile> Workbench::skippedFiles(ContextId) const
{
    return {};
}

QFuture<Result<SourceText>> Workbench::source(ContextId, const QByteArray& path)
{
    const auto found = d->script.sources.constFind(path);
    return finishedWith<Result<SourceText>>(
        found == d->script.sources.cend()
            ? Result<SourceText>(Error{ErrorCode::NotFound, path.toStdString() + ": not in this context"})
            : Result<SourceText>(*found));
}

AskedAll Workbench::askAll(const QString& question)
{
    AskedAll out;
    for (Agent* agent : d->script.agents) {
        if (agent->context().id == ContextId{})
            continue;
        const bool busy = agent->status().activity != Activity::Idle;
        const Result<void> taken = busy ? Error{ErrorCode::Busy, "still answering"} : agent->ask(question);
        if (taken)
            ++out.asked;
        else
            out.refused.emplace_back(agent->index(), taken.error());
    }
    return out;
}

QList<ConversationInfo> Workbench::conversations() const
{
    return d->script.conversations;
}

QFuture<QList<ConversationInfo>> Workbench::search(const QString& text)
{
    QList<ConversationInfo> found;
    for (const ConversationInfo& info : d->script.conversations) {
        if (info.title.contains(text, Qt::CaseInsensitive))
            found += info;
    }
    return finishedWith(found);
}

void Workbench::renameConversation(ConversationId conversation, const QString& title)
{
    for (ConversationInfo& info : d->script.conversations) {
        if (info.id == conversation)
            info.title = title;
    }
    emit conversationsChanged();
}

void Workbench::deleteConversation(ConversationId conversation)
{
    for (const ConversationInfo& info : d->script.conversations) {
        if (info.id == conversation)
            d->script.deleted += info;
    }
    d->script.conversations.removeIf([&](const ConversationInfo& info) { return info.id == conversation; });
    emit conversationsChanged();
}

void Workbench::undoDelete(ConversationId conversation)
{
    for (const ConversationInfo& info : d->script.deleted) {
        if (info.id == conversation)
            d->script.conversations.prepend(info);
    }
    emit conversationsChanged();
}

engine::MetricsSnapshot Workbench::metrics() const
{
    return d->script.metrics;
}
QString Workbench::setting(const QString& key) const
{
    return d->script.settings.value(key);
}
void Workbench::setSetting(const QString& key, const QString& value)
{
    d->script.settings[key] = value;
}

} // namespace octavo::agents

namespace octavo::ui::test {

using namespace agents;

AgentScript& script(Agent* agent)
{
    return *scripts().value(agent);
}

void setStatus(Agent* agent, const AgentStatus& status)
{
    script(agent).status = status;
    emit agent->statusChanged(status);
}

void setContext(Agent* agent, const ContextInfo& context)
{
    script(agent).context = context;
    emit agent->contextChanged(context);
}

void setMessages(Agent* agent, const QList<Message>& messages)
{
    script(agent).messages = messages;
    emit agent->conversationReset();
}

MessageId addMessage(Agent* agent, MessageRole role, const QString& text, MessageState state)
{
    static qint64 next = 1000;
    Message message;
    message.id = MessageId{++next};
    message.role = role;
    message.text = text;
    message.state = state;
    script(agent).messages += message;
    emit agent->messageAdded(message);
    return message.id;
}

void appendText(Agent* agent, const QString& text)
{
    Message& message = script(agent).messages.back();
    message.text += text;
    emit agent->textAppended(message.id, text);
}

void changeLast(Agent* agent, const std::function<void(Message&)>& change)
{
    Message& message = script(agent).messages.back();
    change(message);
    emit agent->messageChanged(message);
}

std::unique_ptr<Workbench> makeWorkbench()
{
    auto workbench = std::make_unique<Workbench>(WorkbenchOptions{});
    workbenches()[workbench.get()]->ready = true;
    return workbench;
}

void becomeReady(Workbench* workbench)
{
    workbenches()[workbench]->ready = true;
    emit workbench->ready();
}

void readSettings(Workbench* workbench)
{
    emit workbench->settingsRead();
}

void reportLoad(Workbench* workbench, const QString& stage, qint64 done, qint64 total)
{
    workbenches()[workbench]->ready = false;
    emit workbench->loadProgress(stage, done, total);
}

void failLoading(Workbench* workbench, const Error& error)
{
    emit workbench->failed(error);
}
void setModel(Workbench* workbench, const engine::ModelInfo& model)
{
    workbenches()[workbench]->model = model;
}

void setContexts(Workbench* workbench, const QList<ContextInfo>& contexts)
{
    workbenches()[workbench]->contexts = contexts;
    for (const ContextInfo& context : contexts)
        emit workbench->contextAdded(context);
}

void setConversations(Workbench* workbench, const QList<ConversationInfo>& conversations)
{
    workbenches()[workbench]->conversations = conversations;
    emit workbench->conversationsChanged();
}

void setMetrics(Workbench* workbench, const engine::MetricsSnapshot& metrics)
{
    workbenches()[workbench]->metrics = metrics;
}

void setSource(Workbench* workbench, const QByteArray& path, const SourceText& text)
{
    workbenches()[workbench]->sources[path] = text;
}

void reportSaveProblem(Workbench* workbench, const QString& problem)
{
    emit workbench->saveProblem(problem);
}

void reportDevice(Workbench* workbench, const QString& problem)
{
    WorkbenchScript& script = *workbenches()[workbench];
    script.deviceProblem = problem;
    script.reloading = false;
    emit workbench->deviceChanged();
}

} // namespace octavo::ui::test
