/// An answer while it comes and as it ends, and what the pane says of it.

#include "agents/agent_private.h"
#include "agents/workbench_private.h"

#include <new>

namespace octavo::agents {

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
        case engine::FinishReason::Repeats:
            outcome = MessageState::Repeated;
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
    if (run->waitsForContext && !run->stopping) {
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

} // namespace octavo::agents
