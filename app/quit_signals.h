#pragma once

#include <QObject>

#include <array>
#include <csignal>

class QSocketNotifier;

namespace octavo::app {

/// SIGINT and SIGTERM as a Qt signal, so that what runs can be brought to its end: what was read is kept, answers are
/// stored. One that comes a second or more after the first ends the program at once.
///
/// Thread  of the event loop; one at a time in a process. What is to be kept must be kept before it goes: signals then
/// end the program again.
class QuitSignals final : public QObject
{
    Q_OBJECT

public:
    explicit QuitSignals(QObject* parent = nullptr);
    ~QuitSignals() override;

signals:
    void asked();

private:
    static constexpr std::array<int, 2> numbers{SIGINT, SIGTERM};

    std::array<int, 2> m_pipe{-1, -1}; // read, write
    std::array<struct sigaction, 2> m_before{};
    QSocketNotifier* m_notifier = nullptr;
};

} // namespace octavo::app
