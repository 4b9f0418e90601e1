#pragma once

/// One request on its way from an engine's thread to the GUI thread: events are gathered and arrive at most once per
/// frame, as one value.
///
/// Thread   sink() gives a function for any thread; all else belongs to the thread the stream lives in. After the
///          stream is gone, late events go nowhere.

#include "engine/engine.h"

#include <QObject>
#include <QString>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace octavo::agents {

/// What has come since the last delivery.
struct StreamBatch {
    QString text;
    std::vector<engine::TokenId> ids;
    std::optional<engine::PrefillProgress> progress; ///< the newest
    std::optional<engine::Finished> finished;        ///< at most one of these two, in the last batch
    std::optional<Error> failed;
};

class AnswerStream final : public QObject
{
    Q_OBJECT
    Q_DISABLE_COPY_MOVE(AnswerStream)

public:
    explicit AnswerStream(std::function<void(StreamBatch&&)> onBatch, QObject* parent = nullptr);
    ~AnswerStream() override;

    engine::EventSink sink() const;

    static constexpr int frameMs = 16;

private:
    struct Inbox;
    void deliver();

    std::function<void(StreamBatch&&)> m_onBatch;
    std::shared_ptr<Inbox> m_inbox;
};

} // namespace octavo::agents
