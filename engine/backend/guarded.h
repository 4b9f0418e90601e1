#pragma once

/// Where exceptions end: a call into a backend that throws becomes an error of the request it was made for.

#include "engine/result.h"

#include <exception>
#include <new>
#include <string>

namespace octavo::engine {

/// Whether freeing memory may help, of the host or of a device.
inline bool isOutOfMemory(const Error& error)
{
    return error.code == ErrorCode::OutOfMemory || error.code == ErrorCode::DeviceOutOfMemory;
}

/// call()'s Result, or what it threw: OutOfMemory for a failed allocation, DeviceFailure for anything else, since
/// nobody knows what state the device is in then. `doing` ends "memory ran out while ...".
template <typename Call>
auto guarded(const char* doing, Call&& call) -> decltype(call())
{
    try {
        return call();
    } catch (const std::bad_alloc&) {
        return Error{ErrorCode::OutOfMemory, std::string("memory ran out while ") + doing
                                                 + "; close other agents' contexts or ask about fewer files"};
    } catch (const std::exception& thrown) {
        return Error{ErrorCode::DeviceFailure, std::string("an error while ") + doing + ": " + thrown.what()};
    }
}

} // namespace octavo::engine
