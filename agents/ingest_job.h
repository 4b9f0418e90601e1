#pragma once

/// Work that an ingestion or a clone does in the background.
///
/// Thread   lives in the GUI thread; signals are emitted there.

#include "agents/values.h"

#include <QObject>

namespace octavo::agents {

/// A running ingestion or clone. Deleted by its owner; deleting cancels.
class IngestJob : public QObject
{
    Q_OBJECT
public:
    using QObject::QObject;
    virtual void cancel() = 0; ///< failed with Error::Cancelled follows
signals:
    void progress(const octavo::agents::IngestProgress& progress);
    void finished(const octavo::agents::IngestResult& result);
    void failed(const octavo::Error& error);
};

} // namespace octavo::agents

Q_DECLARE_METATYPE(octavo::agents::IngestProgress)
Q_DECLARE_METATYPE(octavo::agents::IngestResult)
