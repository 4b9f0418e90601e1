/// From nothing to ready: the store is opened and read, the model loaded, the agents made.

#include "agents/workbench_private.h"

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
            p->name = p->nameFrom(pane.name);
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
        known.info.state = ContextState::Ready; // made when a pane, a question or an unfinished reading needs it
        known.info.panes = 0;
        for (const Agent* agent : agents)
            known.info.panes += agent->d->context == id ? 1 : 0;
    }
    flushTimer.start(flushMs);
    statusTimer.start(statusMs);
    emit q->ready();
    for (auto& [id, known] : contexts) {
        emit q->contextAdded(known.info);
        if (known.info.panes > 0 || isWanted(id))
            build(id, true);
    }
    emit q->conversationsChanged();
}

} // namespace octavo::agents
