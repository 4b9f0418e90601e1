#pragma once

#include <QMetaObject>
#include <QObject>

#include <memory>
#include <mutex>

namespace octavo::agents {

/// Sends calls to an object's thread for as long as the object wants them. Copies share one address.
/// Thread   post(): any; close(): the object's own, in its destructor at the latest. Nothing arrives after close().
class Poster
{
public:
    explicit Poster(QObject* target)
        : m_state(std::make_shared<State>())
    {
        m_state->target = target;
    }

    template <typename Call>
    void post(Call&& call) const
    {
        const std::lock_guard lock(m_state->mutex);
        if (m_state->target == nullptr)
            return;
        QMetaObject::invokeMethod(
            m_state->target,
            [state = m_state, call = std::forward<Call>(call)]() mutable {
                if (state->target != nullptr) // close() runs in this thread, so no lock is needed to ask
                    call();
            },
            Qt::QueuedConnection);
    }

    void close()
    {
        const std::lock_guard lock(m_state->mutex);
        m_state->target = nullptr;
    }

private:
    struct State {
        std::mutex mutex;
        QObject* target = nullptr;
    };
    std::shared_ptr<State> m_state;
};

} // namespace octavo::agents
