#pragma once

/// Takes up what a worker thread found.
///
/// QFuture::then() with a context looks at the context on the worker's thread and then posts to a pointer that may be
/// gone by then (Qt 6.4). This posts under a lock, to something that the target's destructor takes away.

#include "agents/poster.h"

#include <QFuture>

namespace octavo::ui {

/// Where calls for its parent arrive; gone with it.
class Doorway final : public QObject
{
    Q_OBJECT

public:
    explicit Doorway(QObject* parent)
        : QObject(parent)
        , m_poster(this)
    {
    }
    ~Doorway() override { m_poster.close(); }
    const agents::Poster& poster() const { return m_poster; }

    static const agents::Poster& of(QObject* target)
    {
        auto* found = target->findChild<Doorway*>(QString(), Qt::FindDirectChildrenOnly);
        return (found != nullptr ? found : new Doorway(target))->poster();
    }

private:
    agents::Poster m_poster;
};

/// Calls `done` with what `future` holds, in the thread of `target` and as long as that lives. Call it there.
template <typename T, typename Done>
void takeUp(QFuture<T> future, QObject* target, Done done)
{
    future.then([post = Doorway::of(target), done = std::move(done)](const T& value) mutable {
        post.post([done = std::move(done), value]() mutable { done(value); });
    });
}

} // namespace octavo::ui
