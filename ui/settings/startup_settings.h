#pragma once

/// Settings that are needed before anything is loaded: model, device, memory and how answers are drawn. Kept in the
/// user's configuration file, beside the session store and not in it.

#include "agents/workbench.h"

#include <QFuture>
#include <QString>

namespace octavo::ui {

/// What the command line named, though it may be what would have been taken anyway: settings change none of it.
struct GivenOptions {
    bool model = false, device = false, sparse = false;
};

struct StartupSettings {
    QString modelFolder; ///< empty: the demo model
    QString device;      ///< empty: automatic
    engine::SamplingParams sampling;
    int maxNewTokens = 1024;
    bool lookupDrafts = true, mtpDrafts = true;
    engine::SparseMode sparse = engine::SparseMode::Auto;
    qint64 contextLimit = 0;      ///< tokens per agent; 0: what the model allows
    qint64 memoryBudgetBytes = 0; ///< 0: what is free
    qint64 savedContextsQuota = engine::EngineOptions{}.savedContextsQuota; ///< bytes; 0: none are kept

    /// Reads the file: call before the window opens. What is missing or out of range keeps its default.
    static StartupSettings load(const QString& file = {});
    /// Writes on another thread; what is saved last is written last.
    QFuture<void> save(const QString& file = {}) const;

    /// Fills in what the command line has left open: what was not given, and no limit.
    void applyTo(agents::WorkbenchOptions& options, const GivenOptions& given) const;
};

} // namespace octavo::ui
