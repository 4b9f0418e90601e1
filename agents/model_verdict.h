#pragma once

/// Whether a model will run here, before it is loaded: what the settings say about a folder.
///
/// Thread   returns at once; reads headers of files on a pool thread.

#include "engine/result.h"

#include <QFuture>
#include <QList>
#include <QString>
#include <QStringList>

#include <utility>

namespace octavo::agents {

struct ModelVerdict {
    QString name;
    qint64 parameters = 0, fileBytes = 0, weightBytes = 0;
    QList<std::pair<QString, int>> formats; ///< how many modules are "int4", "bf16", ...
    qint64 contextTokens = 0; ///< per agent, that the plan was made for
    int agents = 0;
    qint64 deviceNeeded = 0, deviceTotal = 0; ///< 0 needed: the CPU; 0 total: not known
    qint64 ramNeeded = 0, ramTotal = 0;
    qint64 longestContext = 0; ///< per agent, that would fit
    bool fits = false;
    QStringList problems; ///< why it cannot run, one sentence each
};

struct DeviceChoice {
    QString device; ///< "cpu", "cuda:0"
    QString description;
    qint64 memoryTotalBytes = 0;
};

/// Fails with FileUnreadable, FormatInvalid, ShapeMismatch or Unsupported: what is wrong with the folder.
/// `contextTokens` per agent; 0: 250,000, or what the model allows.
QFuture<Result<ModelVerdict>> examineModel(const QString& folder, const QString& device, int agents,
                                           qint64 contextTokens = 0);

/// What can be named as a device here.
QFuture<QList<DeviceChoice>> deviceChoices();

} // namespace octavo::agents
