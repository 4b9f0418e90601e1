#include "ui/settings/startup_settings.h"

#include <QCoreApplication>
#include <QSettings>
#include <QThreadPool>
#include <QtConcurrentRun>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

namespace octavo::ui {

namespace {

const QString folderKey = QStringLiteral("model/folder");
const QString deviceKey = QStringLiteral("model/device");
const QString temperatureKey = QStringLiteral("sampling/temperature");
const QString topKKey = QStringLiteral("sampling/topK");
const QString topPKey = QStringLiteral("sampling/topP");
const QString minPKey = QStringLiteral("sampling/minP");
const QString seedKey = QStringLiteral("sampling/seed");
const QString maxTokensKey = QStringLiteral("sampling/maxNewTokens");
const QString lookupDraftsKey = QStringLiteral("engine/lookupDrafts");
const QString mtpDraftsKey = QStringLiteral("engine/mtpDrafts");
const QString bothDraftsKey = QStringLiteral("engine/drafts"); // of earlier versions, which had one for both
const QString sparseKey = QStringLiteral("engine/sparse");
const QString contextLimitKey = QStringLiteral("memory/contextLimit");
const QString budgetKey = QStringLiteral("memory/budgetBytes");
const QString quotaKey = QStringLiteral("memory/savedContextsQuotaBytes");

constexpr qint64 largestBudget = qint64(4096) << 30;

const std::pair<engine::SparseMode, const char*> sparseNames[] = {
    {engine::SparseMode::Auto, "auto"}, {engine::SparseMode::On, "on"}, {engine::SparseMode::Off, "off"}};

std::unique_ptr<QSettings> settingsFile(const QString& file)
{
    return file.isEmpty() ? std::make_unique<QSettings>(QSettings::IniFormat, QSettings::UserScope,
                                                        QStringLiteral("octavo"), QStringLiteral("octavo"))
                          : std::make_unique<QSettings>(file, QSettings::IniFormat);
}

float within(const QVariant& value, float low, float high, float otherwise)
{
    bool isNumber = false;
    const float number = value.toFloat(&isNumber);
    return isNumber && std::isfinite(number) ? std::clamp(number, low, high) : otherwise;
}

qint64 wholeWithin(const QVariant& value, qint64 high, qint64 otherwise)
{
    bool isNumber = false;
    const qint64 number = value.toLongLong(&isNumber);
    return isNumber ? std::clamp(number, qint64(0), high) : otherwise;
}

/// One thread: two saves in a row must not overtake each other. What still waits is saved before the application ends:
/// later QSettings has lost its own statics.
QThreadPool& savingPool()
{
    static QThreadPool pool;
    static const bool isPrepared = [] {
        pool.setMaxThreadCount(1);
        qAddPostRoutine([] { savingPool().waitForDone(); });
        return true;
    }();
    Q_UNUSED(isPrepared)
    return pool;
}

} // namespace

StartupSettings StartupSettings::load(const QString& file)
{
    const auto settings = settingsFile(file);
    StartupSettings result;
    const engine::SamplingParams plain;
    result.modelFolder = settings->value(folderKey).toString();
    result.device = settings->value(deviceKey).toString();
    result.sampling.temperature = within(settings->value(temperatureKey), 0.0F, 2.0F, plain.temperature);
    result.sampling.topK = int(within(settings->value(topKKey), 0.0F, 1000.0F, float(plain.topK)));
    result.sampling.topP = within(settings->value(topPKey), 0.01F, 1.0F, plain.topP);
    result.sampling.minP = within(settings->value(minPKey), 0.0F, 1.0F, plain.minP);
    result.sampling.seed = settings->value(seedKey).toULongLong();
    result.maxNewTokens = int(within(settings->value(maxTokensKey), 16.0F, 32768.0F, 1024.0F));
    const bool bothDrafts = settings->value(bothDraftsKey, true).toBool();
    result.lookupDrafts = settings->value(lookupDraftsKey, bothDrafts).toBool();
    result.mtpDrafts = settings->value(mtpDraftsKey, bothDrafts).toBool();
    const QString sparse = settings->value(sparseKey).toString();
    for (const auto& [mode, name] : sparseNames) {
        if (sparse == QLatin1String(name))
            result.sparse = mode;
    }
    result.contextLimit = wholeWithin(settings->value(contextLimitKey), 1'000'000, 0);
    result.memoryBudgetBytes = wholeWithin(settings->value(budgetKey), largestBudget, 0);
    result.savedContextsQuota = wholeWithin(settings->value(quotaKey), largestBudget, result.savedContextsQuota);
    return result;
}

QFuture<void> StartupSettings::save(const QString& file) const
{
    return QtConcurrent::run(&savingPool(), [values = *this, file] {
        const auto settings = settingsFile(file);
        settings->setValue(folderKey, values.modelFolder);
        settings->setValue(deviceKey, values.device);
        settings->setValue(temperatureKey, QString::number(double(values.sampling.temperature)));
        settings->setValue(topKKey, values.sampling.topK);
        settings->setValue(topPKey, QString::number(double(values.sampling.topP)));
        settings->setValue(minPKey, QString::number(double(values.sampling.minP)));
        settings->setValue(seedKey, QString::number(values.sampling.seed));
        settings->setValue(maxTokensKey, values.maxNewTokens);
        settings->remove(bothDraftsKey);
        settings->setValue(lookupDraftsKey, values.lookupDrafts);
        settings->setValue(mtpDraftsKey, values.mtpDrafts);
        for (const auto& [mode, name] : sparseNames) {
            if (mode == values.sparse)
                settings->setValue(sparseKey, QLatin1String(name));
        }
        settings->setValue(contextLimitKey, values.contextLimit);
        settings->setValue(budgetKey, values.memoryBudgetBytes);
        settings->setValue(quotaKey, values.savedContextsQuota);
        settings->sync();
    });
}

void StartupSettings::applyTo(agents::WorkbenchOptions& options, const GivenOptions& given) const
{
    if (!given.model && !modelFolder.isEmpty())
        options.engine.modelDir = modelFolder.toStdString();
    if (!given.device && !device.isEmpty())
        options.engine.devices = {device.toStdString()};
    options.sampling = sampling;
    options.maxNewTokens = maxNewTokens;
    options.lookupDrafts = lookupDrafts;
    options.mtpDrafts = mtpDrafts;
    if (!given.sparse)
        options.engine.sparse = sparse;
    if (options.engine.contextLimit == 0) { // the setting outlives a change of model
        options.engine.contextLimit = contextLimit;
        options.engine.contextLimitIsWish = true;
    }
    if (options.engine.memoryBudgetBytes == 0)
        options.engine.memoryBudgetBytes = memoryBudgetBytes;
    options.engine.savedContextsQuota = savedContextsQuota;
}

} // namespace octavo::ui
