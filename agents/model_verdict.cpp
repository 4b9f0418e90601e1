#include "agents/model_verdict.h"

#include "engine/backend/backend_factory.h"
#include "engine/evaluation/doctor.h"
#include "engine/evaluation/memory_plan.h"
#include "engine/scheduler/memory_budget.h"

#include <QtConcurrentRun>

#include <algorithm>

namespace octavo::agents {

namespace {

constexpr qint64 contextGoal = 250'000;

qint64 deviceBytes(const std::string& device)
{
    for (const engine::DeviceDescription& known : engine::listDevices()) {
        if (known.device == device)
            return known.memoryTotalBytes;
    }
    return 0;
}

Result<ModelVerdict> examine(const QString& folder, const QString& device, int agents, qint64 contextTokens)
{
    OCTAVO_TRY(const engine::CheckpointAudit audit,
               engine::auditCheckpoint(folder.toStdString(), engine::AuditDepth::Headers));
    OCTAVO_TRY(const std::vector<std::string> devices, engine::resolveDevices({device.toStdString()}));
    engine::MemoryPlanRequest request;
    request.config = audit.config;
    request.weightBytes = audit.weightBytes;
    request.mtp = audit.mtp;
    request.floatHead = audit.floatHead;
    request.agents = agents;
    request.contextTokens =
        std::min<qint64>(contextTokens > 0 ? contextTokens : contextGoal, audit.config.maxPositions);
    request.ramBytes = engine::availableMemory().value_or(engine::MemoryAvailability{}).freeBytes;
    const std::string& first = devices.front();
    if (first != "cpu")
        request.deviceBytes = deviceBytes(first);
    else
        request.weightBytes = audit.cpuWeightBytes;
    const engine::MemoryPlan plan = engine::planMemory(request);

    ModelVerdict verdict;
    verdict.name = QString::fromStdString(audit.name);
    verdict.parameters = audit.parameters;
    verdict.fileBytes = audit.fileBytes;
    verdict.weightBytes = audit.weightBytes;
    for (const auto& [format, modules] : audit.formats)
        verdict.formats += {QString::fromStdString(format), modules};
    verdict.contextTokens = request.contextTokens;
    verdict.agents = agents;
    if (first != "cpu") {
        verdict.deviceNeeded = plan.device.needed();
        verdict.deviceTotal = plan.device.total;
    }
    verdict.ramNeeded = plan.ram.needed();
    verdict.ramTotal = plan.ram.total;
    verdict.longestContext = plan.longestContext;
    verdict.fits = plan.fits() && audit.problems.empty();
    for (const std::string& problem : audit.problems)
        verdict.problems += QString::fromStdString(problem);
    return verdict;
}

} // namespace

QFuture<Result<ModelVerdict>> examineModel(const QString& folder, const QString& device, int agents,
                                           qint64 contextTokens)
{
    return QtConcurrent::run([=] { return examine(folder, device, agents, contextTokens); });
}

QFuture<QList<DeviceChoice>> deviceChoices()
{
    return QtConcurrent::run([] {
        QList<DeviceChoice> choices;
        for (const engine::DeviceDescription& device : engine::listDevices())
            choices += {QString::fromStdString(device.device), QString::fromStdString(device.description),
                        device.memoryTotalBytes};
        return choices;
    });
}

} // namespace octavo::agents
