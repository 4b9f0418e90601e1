#include "agents/ingest/path_text.h"
#include "agents/ingest/repository.h"
#include "agents/workbench_private.h"
#include "engine/backend/guarded.h"

#include <QPromise>

namespace octavo::agents {

namespace {

/// Contexts read as agents of their own, past the panes' numbers, so that no pane's memory is taken for them.
engine::AgentId readerOf(ContextId id)
{
    return engine::AgentId(quint32(numAgents) + quint32(id));
}

QString wantedKey(ContextId id)
{
    return QStringLiteral("contexts/wanted/%1").arg(qint64(id));
}

} // namespace

ContextEntry* Workbench::Private::entry(ContextId id)
{
    const auto found = contexts.find(id);
    return found != contexts.end() ? &found->second : nullptr;
}

void Workbench::Private::changed(ContextEntry& entry)
{
    emit q->contextChanged(entry.info);
    for (Agent* agent : agents) {
        if (agent != nullptr && agent->d->context == entry.info.id)
            emit agent->contextChanged(entry.info);
    }
}

void Workbench::Private::countPanes()
{
    for (auto& [id, known] : contexts) {
        int panes = 0;
        for (const Agent* agent : agents)
            panes += agent != nullptr && agent->d->context == id ? 1 : 0;
        if (panes == known.info.panes)
            continue;
        known.info.panes = panes;
        emit q->contextChanged(known.info);
    }
}

/// Makes ids and index in the background; reads them when asked to, or when questions wait by then.
void Workbench::Private::build(ContextId id, bool readThen)
{
    ContextEntry& known = *entry(id);
    known.info.state = ContextState::Preparing;
    known.info.problem.clear();
    changed(known);
    ingestPool.start([this, id, readThen, stored = known.stored, cancel = known.cancelBuild, builder = prompt.get()] {
        auto built = engine::guarded("the files were tokenized", [&] {
            return buildContext(stored.options, stored.result, *builder, cancel.get());
        });
        poster.post([this, id, readThen, built = std::move(built)] {
            ContextEntry* target = entry(id);
            if (target == nullptr)
                return;
            if (!built) {
                target->info.state = ContextState::Failed;
                target->info.problem = QString::fromStdString(built.error().message);
                changed(*target);
                readEnded(*target, built.error());
                return;
            }
            target->data = *built;
            target->info.state = ContextState::Ready;
            target->readForItself = readThen;
            if (readThen || !target->waiting.isEmpty())
                startReading(*target);
            else
                changed(*target);
        });
    });
}

void Workbench::Private::startReading(ContextEntry& known)
{
    engine::GenerationRequest request;
    request.id = known.request = engine->nextRequestId();
    request.agent = readerOf(known.info.id);
    request.prompt = known.data->ids;
    request.contextTokens = qint64(request.prompt.size());
    request.contextLabel = {known.info.name.toStdString(), known.info.commit.toStdString()};
    request.maxNewTokens = 0;
    request.priority = readingPriority(known);
    known.reading = std::make_unique<AnswerStream>(
        [this, id = known.info.id](StreamBatch&& batch) { takeReading(id, std::move(batch)); });
    known.info.state = ContextState::Reading;
    known.info.problem.clear();
    known.info.readDone = known.info.readReused = 0;
    known.info.readTotal = qint64(known.data->ids.size());
    known.info.secondsLeft = -1;
    known.firstDone = -1;
    known.clock.start();
    changed(known);
    const auto accepted = engine->submit(std::move(request), known.reading->sink());
    if (!accepted) {
        known.info.state = ContextState::Failed;
        known.info.problem = QString::fromStdString(accepted.error().message);
        changed(known);
        readEnded(known, accepted.error());
    }
}

void Workbench::Private::takeReading(ContextId id, StreamBatch&& batch)
{
    ContextEntry* known = entry(id);
    if (known == nullptr || known->info.state != ContextState::Reading)
        return;
    if (batch.progress) {
        if (known->firstDone < 0) {
            known->firstDone = batch.progress->done;
            known->clock.start();
        }
        known->info.readDone = batch.progress->done;
        known->info.readReused = batch.progress->reused;
        known->info.readTotal = batch.progress->total;
        const qint64 read = batch.progress->done - known->firstDone;
        if (read > 0)
            known->info.secondsLeft = double(batch.progress->total - batch.progress->done) / double(read) *
                                      double(known->clock.elapsed()) / 1000.0;
    }
    if (batch.failed) {
        known->info.state = ContextState::Failed;
        known->info.problem = QString::fromStdString(batch.failed->message);
    } else if (batch.finished) {
        const bool read = batch.finished->reason != engine::FinishReason::Cancelled;
        known->info.state = read ? ContextState::Read : ContextState::Ready;
        if (read)
            known->info.readDone = known->info.readTotal;
        known->info.secondsLeft = -1;
    }
    if (batch.failed || batch.finished)
        engine->releaseAgent(readerOf(id)); // what was read stays, as a context
    changed(*known);
    if (batch.failed)
        readEnded(*known, *batch.failed);
    else if (batch.finished && known->info.state == ContextState::Ready)
        readEnded(*known, Error{ErrorCode::Cancelled, "reading the context was cancelled"});
    else if (batch.finished)
        readEnded(*known, {});
}

void Workbench::Private::keepWanted(ContextId id, bool wanted)
{
    if (wanted || isWanted(id))
        q->setSetting(wantedKey(id), wanted ? QStringLiteral("1") : QString());
}

bool Workbench::Private::isWanted(ContextId id) const
{
    return !settings.value(wantedKey(id)).isEmpty();
}

/// Lets the questions go on that wait for this context.
void Workbench::Private::readEnded(ContextEntry& known, const Result<void>& result)
{
    known.readForItself = false;
    if (result || result.error().code != ErrorCode::DeviceFailure) // what a lost device was reading is still wanted
        keepWanted(known.info.id, false);
    const auto waiting = std::exchange(known.waiting, {});
    for (const auto& [agent, serial] : waiting)
        agents[std::size_t(agent)]->d->contextRead(serial, result);
}

void Workbench::Private::waitForContext(ContextId id, int agent, quint64 serial)
{
    ContextEntry* known = entry(id);
    if (known == nullptr) {
        agents[std::size_t(agent)]->d->contextRead(serial, Error{ErrorCode::NotFound, "the context was removed"});
        return;
    }
    switch (known->info.state) {
    case ContextState::Read:
        agents[std::size_t(agent)]->d->contextRead(serial, {});
        return;
    case ContextState::Preparing:
        known->waiting.append({agent, serial});
        return;
    case ContextState::Reading:
        known->waiting.append({agent, serial});
        engine->setPriority(known->request, readingPriority(*known));
        return;
    case ContextState::Ready:
    case ContextState::Failed:
        known->waiting.append({agent, serial});
        if (known->data)
            startReading(*known);
        else
            build(id, false);
        return;
    }
}

int Workbench::Private::readingPriority(const ContextEntry& known) const
{
    int priority = backgroundPriority;
    for (const auto& [agent, serial] : known.waiting)
        priority = std::min(priority, agents[std::size_t(agent)]->d->priority());
    return priority;
}

/// A question was stopped while it waited. What was read for questions alone stops with the last of them.
void Workbench::Private::stopWaiting(ContextId id, int agent)
{
    ContextEntry* known = entry(id);
    if (known == nullptr)
        return;
    known->waiting.removeIf([agent](const auto& w) { return w.first == agent; });
    if (known->info.state != ContextState::Reading)
        return;
    if (known->waiting.isEmpty() && !known->readForItself)
        stopReading(*known);
    else
        engine->setPriority(known->request, readingPriority(*known));
}

/// At once: the engine ends its slice later, and what still comes of that reading goes nowhere.
void Workbench::Private::stopReading(ContextEntry& known)
{
    engine->cancel(known.request);
    engine->releaseAgent(readerOf(known.info.id));
    known.reading.reset();
    known.info.state = ContextState::Ready;
    known.info.secondsLeft = -1;
    changed(known);
    readEnded(known, Error{ErrorCode::Cancelled, "reading the context was cancelled"});
}

QList<ContextInfo> Workbench::contexts() const
{
    QList<ContextInfo> out;
    for (const auto& [id, known] : d->contexts)
        out.append(known.info);
    return out;
}

ContextId Workbench::addContext(const IngestOptions& options, const IngestResult& result)
{
    const auto id = ContextId(++d->lastContext);
    ContextEntry& known = d->contexts[id];
    known.stored = {id, options, result};
    if (known.stored.options.repository.isEmpty())
        known.stored.options.repository = result.repositoryPath;
    known.info.id = id;
    known.info.name = result.repositoryName;
    known.info.repositoryPath = result.repositoryPath;
    known.info.ref = result.ref;
    known.info.commit = result.commit;
    known.info.tokens = result.tokens;
    known.info.files = int(result.packed.size());
    known.info.skipped = int(result.skipped.size());
    d->write([stored = known.stored](SessionStore& s) { return s.addContext(stored); });
    d->keepWanted(id, true);
    emit contextAdded(known.info);
    d->build(id, true);
    return id;
}

void Workbench::cancelReading(ContextId context)
{
    ContextEntry* known = d->entry(context);
    if (known != nullptr && known->info.state == ContextState::Reading)
        d->stopReading(*known);
}

void Workbench::readContext(ContextId context)
{
    ContextEntry* known = d->entry(context);
    if (known == nullptr || (known->info.state != ContextState::Ready && known->info.state != ContextState::Failed))
        return;
    d->keepWanted(context, true);
    if (known->data) {
        known->readForItself = true;
        d->startReading(*known);
    } else {
        d->build(context, true);
    }
}

void Workbench::removeContext(ContextId context)
{
    ContextEntry* known = d->entry(context);
    if (known == nullptr)
        return;
    for (Agent* agent : d->agents) {
        if (agent->d->context == context)
            agent->setContext(ContextId{});
    }
    for (QList<StoredConversation>* list : {&d->conversations, &d->deleted}) { // a deleted one may come back
        for (StoredConversation& conversation : *list) {
            if (conversation.context == context)
                conversation.context = ContextId{};
        }
    }
    known->cancelBuild->store(true);
    if (known->info.state == ContextState::Reading)
        d->engine->cancel(known->request);
    d->engine->releaseAgent(readerOf(context));
    d->contexts.erase(context);
    d->keepWanted(context, false);
    d->write([context](SessionStore& s) { return s.removeContext(context); });
    emit contextRemoved(context);
}

QList<PackedFile> Workbench::packedFiles(ContextId context) const
{
    const ContextEntry* known = d->entry(context);
    return known != nullptr ? known->stored.result.packed : QList<PackedFile>();
}

QList<SkippedFile> Workbench::skippedFiles(ContextId context) const
{
    const ContextEntry* known = d->entry(context);
    return known != nullptr ? known->stored.result.skipped : QList<SkippedFile>();
}

IngestOptions Workbench::ingestOptions(ContextId context) const
{
    const ContextEntry* known = d->entry(context);
    return known != nullptr ? known->stored.options : IngestOptions();
}

IngestChange Workbench::changeSince(ContextId context, const IngestResult& newer) const
{
    const ContextEntry* known = d->entry(context);
    return compareIngests(known != nullptr ? known->stored.result : IngestResult(), newer);
}

QFuture<Result<SourceText>> Workbench::source(ContextId context, const QByteArray& path)
{
    auto promise = std::make_shared<QPromise<Result<SourceText>>>();
    promise->start();
    const auto finish = [promise](Result<SourceText> result) {
        promise->addResult(std::move(result));
        promise->finish();
    };
    const ContextEntry* known = d->entry(context);
    const PackedFile* file = nullptr;
    if (known != nullptr) {
        for (const PackedFile& packed : known->stored.result.packed) {
            if (packed.path == path)
                file = &packed;
        }
    }
    if (file == nullptr) {
        finish(Error{ErrorCode::NotFound, displayPath(path).toStdString() + " is not in this context"});
        return promise->future();
    }
    d->ingestPool.start([finish, options = known->stored.options, commit = known->stored.result.commit, file = *file] {
        const auto repository = Repository::open(options.repository, options.trusted);
        if (!repository) {
            finish(repository.error());
            return;
        }
        const auto content = repository->blob(file.blobId);
        if (!content)
            finish(content.error());
        else
            finish(SourceText{file.displayPath, commit, QString::fromUtf8(*content)});
    });
    return promise->future();
}

} // namespace octavo::agents
