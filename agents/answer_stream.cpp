#include "agents/answer_stream.h"

#include <QTimer>

#include <chrono>
#include <mutex>

namespace octavo::agents {

using Clock = std::chrono::steady_clock;

struct AnswerStream::Inbox {
    std::mutex mutex;
    AnswerStream* target = nullptr;
    bool scheduled = false;
    Clock::time_point lastDelivery;
    std::string text;
    StreamBatch batch;
};

AnswerStream::AnswerStream(std::function<void(StreamBatch&&)> onBatch, QObject* parent)
    : QObject(parent)
    , m_onBatch(std::move(onBatch))
    , m_inbox(std::make_shared<Inbox>())
{
    m_inbox->target = this;
}

AnswerStream::~AnswerStream()
{
    const std::lock_guard lock(m_inbox->mutex);
    m_inbox->target = nullptr;
}

engine::EventSink AnswerStream::sink() const
{
    return [inbox = m_inbox](engine::RequestId, engine::Event&& event) {
        const std::lock_guard lock(inbox->mutex);
        if (inbox->target == nullptr)
            return;
        if (auto* text = std::get_if<engine::TextAppended>(&event)) {
            inbox->text += text->text;
            inbox->batch.ids.insert(inbox->batch.ids.end(), text->tokens.begin(), text->tokens.end());
        } else if (auto* progress = std::get_if<engine::PrefillProgress>(&event))
            inbox->batch.progress = *progress;
        else if (auto* finished = std::get_if<engine::Finished>(&event))
            inbox->batch.finished = *finished;
        else
            inbox->batch.failed = std::get<engine::Failed>(event).error;
        if (!inbox->scheduled) {
            inbox->scheduled = true;
            AnswerStream* target = inbox->target;
            QMetaObject::invokeMethod(
                target, [target] { target->deliver(); }, Qt::QueuedConnection);
        }
    };
}

void AnswerStream::deliver()
{
    StreamBatch batch;
    {
        const std::lock_guard lock(m_inbox->mutex);
        const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - m_inbox->lastDelivery);
        if (since.count() < frameMs && !m_inbox->batch.finished && !m_inbox->batch.failed) {
            QTimer::singleShot(frameMs - int(since.count()), Qt::PreciseTimer, this, &AnswerStream::deliver);
            return;
        }
        batch = std::exchange(m_inbox->batch, {});
        batch.text = QString::fromStdString(std::exchange(m_inbox->text, {}));
        m_inbox->scheduled = false;
        m_inbox->lastDelivery = Clock::now();
    }
    m_onBatch(std::move(batch));
}

} // namespace octavo::agents
