#pragma once

/// What the driver says of one card, once a second: temperature, power, clocks, the link and what goes over it.
///
/// NVIDIA's management library is loaded while the program runs and never required: without it, or where a card cannot
/// tell something, values stay empty. Some of its calls take tens of milliseconds, so it is asked on a thread of its
/// own.

#include "engine/backend/backend.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace octavo::engine
{

class NvmlWatch
{
public:
    /// `pciBusId`: of the card, as "0000:01:00.0".
    explicit NvmlWatch(std::string pciBusId, std::string library = "libnvidia-ml.so.1",
                       std::chrono::milliseconds every = std::chrono::seconds(1));
    /// Waits for the call in hand.
    ~NvmlWatch();
    NvmlWatch(const NvmlWatch&) = delete;
    NvmlWatch& operator=(const NvmlWatch&) = delete;

    /// Any thread; never waits for the library.
    HardwareReading newest() const;

private:
    void run(const std::string& pciBusId, const std::string& library, std::chrono::milliseconds every);
    bool waitForNext(std::chrono::milliseconds every);

    mutable std::mutex m_mutex;
    std::condition_variable m_stopped;
    bool m_stop = false;
    HardwareReading m_newest;
    std::thread m_thread; // declared last: it uses all of the above
};

} // namespace octavo::engine
