#include "app/quit_signals.h"

#include <QSocketNotifier>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <fcntl.h>
#include <unistd.h>

namespace octavo::app {

namespace {

std::atomic<int> writeEnd = -1;
std::atomic<std::int64_t> firstMs = 0; // 0: none came yet

/// Who sends one to a process often sends it to its group too: what follows within a second is the same wish.
void tell(int number)
{
    constexpr std::int64_t sameWishMs = 1000;
    const int before = errno;
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    const std::int64_t nowMs = std::int64_t(now.tv_sec) * 1000 + now.tv_nsec / 1'000'000 + 1;
    std::int64_t first = 0;
    if (firstMs.compare_exchange_strong(first, nowMs)) {
        const char byte = 1;
        [[maybe_unused]] const auto written = ::write(writeEnd.load(), &byte, 1);
    } else if (nowMs - first > sameWishMs) {
        ::signal(number, SIG_DFL);
        ::raise(number);
    }
    errno = before;
}

} // namespace

QuitSignals::QuitSignals(QObject* parent)
    : QObject(parent)
{
    if (::pipe2(m_pipe.data(), O_CLOEXEC | O_NONBLOCK) != 0)
        return; // the program then ends as it would without this
    writeEnd = m_pipe[1];
    firstMs = 0;
    m_notifier = new QSocketNotifier(m_pipe[0], QSocketNotifier::Read, this);
    connect(m_notifier, &QSocketNotifier::activated, this, [this] {
        m_notifier->setEnabled(false);
        emit asked();
    });
    struct sigaction action {};
    action.sa_handler = tell;
    action.sa_flags = SA_RESTART;
    for (std::size_t i = 0; i < numbers.size(); ++i)
        ::sigaction(numbers[i], &action, &m_before[i]);
}

QuitSignals::~QuitSignals()
{
    if (m_pipe[0] < 0)
        return;
    for (std::size_t i = 0; i < numbers.size(); ++i)
        ::sigaction(numbers[i], &m_before[i], nullptr);
    delete m_notifier;
    writeEnd = -1;
    for (const int end : m_pipe)
        ::close(end);
}

} // namespace octavo::app
