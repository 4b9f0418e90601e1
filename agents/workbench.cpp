#include "agents/workbench.h"

#include "agents/ingest/repository.h"
#include "agents/ingest_jobs.h"
#include "agents/workbench_private.h"
#include "engine/backend/guarded.h"

#include <QPromise>

namespace octavo::agents {

namespace {

constexpr int flushMs = 500;
constexpr int statusMs = 200;

/// Bytes of the token that has most.
qint64 longestTokenOf(const engine::Tokenizer& tokenizer)
{
    std::size_t longest = 1;
    for (engine::TokenId id = 0; id < tokenizer.endId(); ++id)
        longest = std::max(longest, tokenizer.bytes(id).size());
    return qint64(longest);
}

} // namespace

QHash<QByteArray, qint64> StoredTokenCounts::find(const QList<QByteArray>& blobIds)
{
    std::promise<QHash<QByteArray, qint64>> found;
    m_store.read([&](SessionStore& store) {
        auto counts = store.tokenCounts(m_tokenizer, blobIds);
        found.set_value(counts ? *std::move(counts) : QHash<QByteArray, qint64>());
    });
    return found.get_future().get();
}

void StoredTokenCounts::keep(const QHash<QByteArray, qint64>& counts)
{
    m_store.write([tokenizer = m_tokenizer, counts](SessionStore& s) { return s.keepTokenCounts(tokenizer, counts); });
}

Workbench::Workbench(WorkbenchOptions options, QObject* parent)
    : Workbench(std::move(options), nullptr, parent)
{
}

Workbench::Workbench(WorkbenchOptions options, std::unique_ptr<engine::Engine> engine, QObject* parent)
    : QObject(parent)
    , d(std::make_unique<Private>(this))
{
    qRegisterMetaType<AgentStatus>();
    qRegisterMetaType<ContextInfo>();
    qRegisterMetaType<Message>();
    qRegisterMetaType<MessageId>();
    d->options = std::move(options);
    d->engine = std::move(engine);
    d->ingestPool.setMaxThreadCount(2);
    d->citationPool.setMaxThreadCount(1);
    connect(&d->flushTimer, &QTimer::timeout, this, [this] { d->tick(); });
    connect(&d->statusTimer, &QTimer::timeout, this, [this] {
        for (Agent* agent : d->agents) {
            if (agent != nullptr)
                agent->d->updateStatus();
        }
        d->watchDevices();
    });
}

Workbench::~Workbench()
{
    d->closing = true;
    d->poster.close();
    d->flushTimer.stop();
    d->statusTimer.stop();
    if (d->isReady)
        d->tick();
    for (auto& [id, entry] : d->contexts)
        entry.cancelBuild->store(true);
    for (IngestJob* job : findChildren<IngestJob*>())
        delete job;
    if (d->loader.joinable())
        d->loader.join();
    d->ingestPool.waitForDone();
    d->citationPool.waitForDone();
    for (Agent*& agent : d->agents)
        delete std::exchange(agent, nullptr);
    d->contexts.clear();
    d->store.reset(); // its last reads may still encode
    d->counts.reset();
    d->prompt.reset();
    d->engine.reset();
}

void Workbench::start()
{
    if (std::exchange(d->started, true))
        return;
    d->openStore();
    if (d->engine) {
        const qint64 longest = longestTokenOf(d->engine->tokenizer());
        d->engineLoaded(std::move(d->engine), longest);
    } else {
        d->loadEngine();
    }
}

void Workbench::Private::openStore()
{
    store = std::make_unique<StoreThread>(
        options.databasePath,
        [this](Result<SessionState> loaded) {
            poster.post([this, loaded = std::move(loaded)]() mutable {
                if (!loaded) { // go on without: nothing of the user's is lost, and they are told
                    const QString problem = QString::fromStdString(loaded.error().message);
                    store.reset();
                    options.databasePath.clear();
                    openStore();
                    emit q->saveProblem(problem);
                    return;
                }
                if (std::exchange(standIn, loaded->standIn) && isReady)
                    takeLateState(*std::move(loaded));
                else
                    takeState(*std::move(loaded));
            });
        },
        [this](const QString& problem) { poster.post([this, problem] { emit q->saveProblem(problem); }); });
}

void Workbench::Private::takeContext(StoredContext&& stored)
{
    ContextEntry& entry = contexts[stored.id];
    entry.info.id = stored.id;
    entry.info.name = stored.result.repositoryName;
    entry.info.repositoryPath = stored.result.repositoryPath;
    entry.info.ref = stored.result.ref;
    entry.info.commit = stored.result.commit;
    entry.info.tokens = stored.result.tokens;
    entry.info.files = int(stored.result.packed.size());
    entry.info.skipped = int(stored.result.skipped.size());
    entry.stored = std::move(stored);
}

void Workbench::Private::takeState(SessionState&& state)
{
    stateLoaded = false; // it may be another than before: a file that was taken up late
    paneMessages.clear();
    for (auto set = settings.cbegin(); set != settings.cend(); ++set) // set before this was read
        state.settings.insert(set.key(), set.value());
    settings = std::move(state.settings);
    conversations = std::move(state.conversations);
    panes = std::move(state.panes);
    lastContext = state.lastContext;
    lastConversation = state.lastConversation;
    lastMessage = state.lastMessage;
    for (StoredContext& stored : state.contexts)
        takeContext(std::move(stored));
    emit q->settingsRead();
    store->read([this, wanted = panes, round = ++stateRound](SessionStore& s) {
        QHash<int, QList<StoredMessage>> messages;
        for (const StoredPane& pane : wanted) {
            if (pane.index < 0 || pane.index >= numAgents)
                continue;
            if (auto found = s.messages(pane.conversation))
                messages.insert(pane.index, *std::move(found));
        }
        poster.post([this, round, messages = std::move(messages)]() mutable {
            if (round != stateRound)
                return;
            paneMessages = std::move(messages);
            stateLoaded = true;
            becomeReady();
        });
    });
}

/// The store's file could be opened only now. What was made meanwhile is written there and stays in sight.
void Workbench::Private::takeLateState(SessionState&& state)
{
    for (auto set = settings.cbegin(); set != settings.cend(); ++set)
        state.settings.insert(set.key(), set.value());
    settings = std::move(state.settings);
    emit q->settingsRead();
    conversations += state.conversations; // all of them older
    lastContext = std::max(lastContext, state.lastContext);
    lastConversation = std::max(lastConversation, state.lastConversation);
    lastMessage = std::max(lastMessage, state.lastMessage);
    for (StoredContext& stored : state.contexts) {
        const ContextId id = stored.id;
        takeContext(std::move(stored));
        ContextEntry& known = *entry(id);
        known.info.state = ContextState::Ready;
        emit q->contextAdded(known.info);
    }
    for (const StoredPane& pane : std::as_const(state.panes)) {
        if (Agent* agent = q->agent(pane.index))
            agent->d->takeLatePane(pane);
    }
    emit q->conversationsChanged();
}

void Workbench::Private::loadEngine()
{
    loader = std::thread([this] {
        auto result = engine::Engine::create(
            options.engine,
            [this](const engine::LoadProgress& p) {
                poster.post([this, stage = QString::fromStdString(p.stage), done = p.done, total = p.total] {
                    emit q->loadProgress(stage, done, total);
                });
            },
            &closing);
        auto shared = std::make_shared<Result<std::unique_ptr<engine::Engine>>>(std::move(result));
        const qint64 longest = *shared ? longestTokenOf((**shared)->tokenizer()) : 1; // not in the GUI thread: 248,000 ids
        poster.post([this, shared, longest] { engineLoaded(std::move(*shared), longest); });
    });
}

void Workbench::Private::engineLoaded(Result<std::unique_ptr<engine::Engine>> result, qint64 longest)
{
    if (!result) {
        emit q->failed(result.error());
        return;
    }
    engine = *std::move(result);
    auto builder = PromptBuilder::create(engine->tokenizer(), PromptTemplate::forModel(engine->model().dir));
    if (!builder) {
        engine.reset();
        emit q->failed(builder.error());
        return;
    }
    prompt = std::make_unique<PromptBuilder>(*std::move(builder));
    longestToken = longest;
    becomeReady();
}

/// Once the store's content is here and the model is loaded.
void Workbench::Private::becomeReady()
{
    if (!stateLoaded || !prompt || isReady)
        return;
    counts = std::make_unique<StoredTokenCounts>(*store, engine->tokenizer().hash());
    for (int i = 0; i < numAgents; ++i) {
        auto p = std::make_unique<Agent::Private>();
        p->workbench = q;
        p->index = i;
        p->name = p->defaultName();
        for (const StoredPane& pane : std::as_const(panes)) {
            if (pane.index != i)
                continue;
            p->name = pane.name;
            p->draft = pane.draft;
            p->context = entry(pane.context) != nullptr ? pane.context : ContextId{};
            p->conversation = pane.conversation;
        }
        p->fill(paneMessages.value(i));
        p->status.contextLimit = engine->model().contextLimit;
        if (const ContextEntry* known = entry(p->context))
            p->status.contextTokens = known->stored.result.tokens;
        agents[std::size_t(i)] = new Agent(std::move(p), nullptr);
    }
    ingestPool.start([this, messages = std::exchange(paneMessages, {}), builder = prompt.get()] {
        for (auto it = messages.cbegin(); it != messages.cend() && !closing; ++it) {
            poster.post([this, pane = it.key(), turns = turnsOf(*builder, it.value())] {
                Agent::Private& agent = *agents[std::size_t(pane)]->d;
                agent.countTurns(turns);
                agent.emitStatus();
            });
        }
    });
    isReady = true;
    for (auto& [id, known] : contexts) {
        known.info.panes = 0;
        for (const Agent* agent : agents)
            known.info.panes += agent->d->context == id ? 1 : 0;
    }
    flushTimer.start(flushMs);
    statusTimer.start(statusMs);
    emit q->ready();
    for (auto& [id, known] : contexts) {
        known.info.state = ContextState::Ready; // made when a pane, a question or an unfinished reading needs it
        emit q->contextAdded(known.info);
        if (known.info.panes > 0 || isWanted(id))
            build(id, true);
    }
    emit q->conversationsChanged();
}

void Workbench::Private::watchDevices()
{
    QString problem;
    for (const engine::DeviceMetrics& device : engine->metrics().devices) {
        if (device.failed)
            problem = QString::fromStdString(device.failure);
    }
    if (isReloading || problem == deviceFailure) // what reloading it ended with stays until something new happens
        return;
    deviceFailure = deviceProblem = problem;
    emit q->deviceChanged();
}

void Workbench::Private::reloaded(const Result<void>& result)
{
    isReloading = false;
    if (!result) {
        deviceProblem = QString::fromStdString(result.error().message);
        emit q->deviceChanged();
        return;
    }
    deviceProblem.clear();
    deviceFailure.clear();
    emit q->deviceChanged();
    for (auto& [id, known] : contexts) { // what is still held somewhere is found there
        const bool wasLost = known.info.state == ContextState::Failed && known.data && known.info.panes > 0;
        if (known.info.state != ContextState::Read && !wasLost)
            continue;
        known.info.problem.clear();
        known.info.state = ContextState::Ready;
        known.readForItself = known.info.panes > 0;
        if (known.readForItself)
            startReading(known);
        else
            changed(known);
    }
}

void Workbench::Private::tick()
{
    for (Agent* agent : agents)
        agent->d->flush();
}

void Workbench::Private::write(StoreThread::Write write, std::function<void(bool)> attempted)
{
    store->write(std::move(write), std::move(attempted));
}

bool Workbench::isReady() const
{
    return d->isReady;
}

engine::ModelInfo Workbench::model() const
{
    return d->engine ? d->engine->model() : engine::ModelInfo{};
}

QString Workbench::deviceProblem() const
{
    return d->deviceProblem;
}

bool Workbench::isReloading() const
{
    return d->isReloading;
}

void Workbench::reload()
{
    if (!d->isReady || d->isReloading)
        return;
    if (d->loader.joinable())
        d->loader.join(); // it has posted its end
    d->isReloading = true;
    emit deviceChanged();
    d->loader = std::thread([p = d.get()] {
        const auto report = [p](const engine::LoadProgress& now) {
            p->poster.post([p, stage = QString::fromStdString(now.stage), done = now.done, total = now.total] {
                emit p->q->loadProgress(stage, done, total);
            });
        };
        const Result<void> result = engine::guarded("the model was loaded again",
                                                    [&] { return p->engine->reload(report, &p->closing); });
        p->poster.post([p, result] { p->reloaded(result); });
    });
}

Agent* Workbench::agent(int index) const
{
    return index >= 0 && index < numAgents ? d->agents[std::size_t(index)] : nullptr;
}

engine::MetricsSnapshot Workbench::metrics() const
{
    return d->engine ? d->engine->metrics() : engine::MetricsSnapshot{};
}

IngestJob* Workbench::preview(const IngestOptions& options)
{
    return new PooledIngestJob(
        d->ingestPool,
        [options, prompt = d->prompt.get(), cache = d->counts.get(), limit = model().contextLimit](
            const PooledIngestJob::Report& report, const std::atomic<bool>& cancel) -> Result<IngestResult> {
            if (prompt == nullptr)
                return Error{ErrorCode::Busy, "the model is still being loaded: its tokenizer is needed to count"};
            IngestServices services;
            services.prompt = prompt;
            services.cache = cache;
            services.progress = report;
            services.cancel = &cancel;
            services.contextLimit = limit;
            return ingest(options, services);
        },
        this);
}

void Workbench::Private::count(const QString& question, int agent, quint64 serial)
{
    const bool isCounted = counting.contains(question);
    counting[question].append({agent, serial});
    if (isCounted)
        return;
    citationPool.start([this, question, builder = prompt.get()] {
        const auto ids = engine::guarded("a question was counted", [&]() -> Result<PromptBuilder::Ids> {
            PromptBuilder::Ids counted;
            builder->appendQuestion(counted, question.toStdString());
            return counted;
        });
        poster.post([this, question, ids] {
            for (const auto& [pane, asked] : counting.take(question))
                agents[std::size_t(pane)]->d->questionCounted(asked, ids);
        });
    });
}

AskedAll Workbench::askAll(const QString& question)
{
    AskedAll out;
    for (Agent* agent : d->agents) {
        if (agent == nullptr || agent->d->context == ContextId{})
            continue;
        if (const Result<void> taken = agent->ask(question); taken)
            ++out.asked;
        else
            out.refused.emplace_back(agent->index(), taken.error());
    }
    return out;
}

QList<ConversationInfo> Workbench::Private::infos(const QList<StoredConversation>& list) const
{
    QList<ConversationInfo> out;
    for (const StoredConversation& c : list) {
        ConversationInfo info{c.id, c.title, c.contextName, c.lastUsed, c.messages, -1};
        for (const Agent* agent : agents) {
            if (agent != nullptr && agent->d->conversation == c.id)
                info.pane = agent->index();
        }
        out.append(info);
    }
    return out;
}

QList<ConversationInfo> Workbench::conversations() const
{
    return d->infos(d->conversations);
}

QFuture<QList<ConversationInfo>> Workbench::search(const QString& text)
{
    auto promise = std::make_shared<QPromise<QList<ConversationInfo>>>();
    promise->start();
    d->store->read([promise, text, this](SessionStore& store) {
        auto found = store.search(text);
        d->poster.post([this, promise, found = std::move(found)] {
            promise->addResult(found ? d->infos(*found) : QList<ConversationInfo>());
            promise->finish();
        });
    });
    return promise->future();
}

void Workbench::Private::keepConversation(const StoredConversation& conversation)
{
    conversations.prepend(conversation);
    emit q->conversationsChanged();
}

void Workbench::Private::touchConversation(ConversationId id, int messages)
{
    for (qsizetype i = 0; i < conversations.size(); ++i) {
        if (conversations[i].id != id)
            continue;
        conversations[i].messages = messages;
        conversations[i].lastUsed = QDateTime::currentDateTimeUtc();
        conversations.move(i, 0);
        emit q->conversationsChanged();
        return;
    }
}

void Workbench::Private::leave(ConversationId id, QList<StoredMessage> messages)
{
    const quint64 serial = ++lastLeft;
    left[id] = {serial, std::move(messages)};
    store->afterWrites([this, id, serial] {
        poster.post([this, id, serial] {
            if (const auto known = left.find(id); known != left.end() && known->second.serial == serial)
                left.erase(known);
        });
    });
}

void Workbench::renameConversation(ConversationId conversation, const QString& title)
{
    for (StoredConversation& c : d->conversations) {
        if (c.id == conversation)
            c.title = title;
    }
    d->write([conversation, title](SessionStore& s) { return s.renameConversation(conversation, title); });
    emit conversationsChanged();
}

void Workbench::deleteConversation(ConversationId conversation)
{
    for (qsizetype i = 0; i < d->conversations.size(); ++i) {
        if (d->conversations[i].id != conversation)
            continue;
        d->deleted.append(d->conversations.takeAt(i));
        d->write([conversation](SessionStore& s) { return s.setDeleted(conversation, true); });
        for (Agent* agent : d->agents) {
            if (agent != nullptr && agent->d->conversation == conversation)
                agent->newConversation();
        }
        emit conversationsChanged();
        return;
    }
}

void Workbench::undoDelete(ConversationId conversation)
{
    for (qsizetype i = 0; i < d->deleted.size(); ++i) {
        if (d->deleted[i].id != conversation)
            continue;
        const StoredConversation back = d->deleted.takeAt(i);
        const auto newest = [](const StoredConversation& a, const StoredConversation& b) {
            return a.lastUsed > b.lastUsed;
        };
        d->conversations.insert(std::upper_bound(d->conversations.begin(), d->conversations.end(), back, newest), back);
        d->write([conversation](SessionStore& s) { return s.setDeleted(conversation, false); });
        emit conversationsChanged();
        return;
    }
}

engine::SamplingParams Workbench::sampling() const
{
    return d->options.sampling;
}

int Workbench::maxNewTokens() const
{
    return d->options.maxNewTokens;
}

void Workbench::setSampling(const engine::SamplingParams& sampling, int maxNewTokens)
{
    d->options.sampling = sampling;
    d->options.maxNewTokens = maxNewTokens;
}

bool Workbench::lookupDrafts() const
{
    return d->options.lookupDrafts;
}

bool Workbench::mtpDrafts() const
{
    return d->options.mtpDrafts;
}

void Workbench::setDrafts(bool lookup, bool mtp)
{
    d->options.lookupDrafts = lookup;
    d->options.mtpDrafts = mtp;
}

std::filesystem::path Workbench::savedContextsFolder() const
{
    return d->options.engine.savedContexts;
}

QString Workbench::setting(const QString& key) const
{
    return d->settings.value(key);
}

void Workbench::setSetting(const QString& key, const QString& value)
{
    if (d->settings.value(key) == value && d->settings.contains(key))
        return;
    d->settings.insert(key, value);
    if (d->store)
        d->write([key, value](SessionStore& s) { return s.saveSetting(key, value); });
}

} // namespace octavo::agents
