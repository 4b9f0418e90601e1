/// Devices that stop working, and loading the model on them again.

#include "agents/workbench_private.h"
#include "engine/backend/guarded.h"

namespace octavo::agents {

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
        const bool wasLost = known.info.state == ContextState::Failed && known.data &&
                             (known.info.panes > 0 || isWanted(id));
        if (known.info.state != ContextState::Read && !wasLost)
            continue;
        known.info.problem.clear();
        known.info.state = ContextState::Ready;
        known.info.readDone = known.info.readReused = 0; // the lost device held it
        known.info.secondsLeft = -1;
        known.readForItself = known.info.panes > 0 || isWanted(id);
        if (known.readForItself)
            startReading(known);
        else
            changed(known);
    }
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

} // namespace octavo::agents
