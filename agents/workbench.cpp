#include "agents/workbench.h"

#include "agents/ingest_jobs.h"
#include "agents/workbench_private.h"
#include "engine/backend/guarded.h"

namespace octavo::agents {

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
