#pragma once

/// Owners of CUDA resources, and CUDA's error codes as sentences.

#include "engine/result.h"

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>

namespace octavo::engine
{

/// Success, or DeviceFailure (DeviceOutOfMemory for a failed allocation) that names what was tried. Clears the error
/// that the runtime keeps, so that it does not turn up in an innocent call.
inline Result<void> checkCuda(cudaError_t status, const std::string& what)
{
    if (status == cudaSuccess)
        return {};
    cudaGetLastError();
    return Error{status == cudaErrorMemoryAllocation ? ErrorCode::DeviceOutOfMemory : ErrorCode::DeviceFailure,
                 "The GPU failed to " + what + ": " + cudaGetErrorString(status)};
}

/// Held by a backend while its kernels run: blocks of a matrix product wait for each other, so those of two backends on
/// one GPU must not fill it by halves.
inline std::mutex& deviceTurn(int device)
{
    static std::mutex guard;
    static std::map<int, std::mutex> turns;
    const std::scoped_lock lock(guard);
    return turns[device];
}

/// Memory on the device that was current when it was taken.
class DeviceMemory
{
public:
    DeviceMemory() = default;
    DeviceMemory(DeviceMemory&& other) noexcept
        : m_data(std::exchange(other.m_data, nullptr))
        , m_bytes(std::exchange(other.m_bytes, 0))
    {
    }
    DeviceMemory& operator=(DeviceMemory&& other) noexcept
    {
        std::swap(m_data, other.m_data);
        std::swap(m_bytes, other.m_bytes);
        return *this;
    }
    ~DeviceMemory() { cudaFree(m_data); }

    /// Fails with DeviceOutOfMemory; the message gives what for, the bytes asked for and the bytes free.
    static Result<DeviceMemory> allocate(std::int64_t bytes, const std::string& what)
    {
        DeviceMemory memory;
        if (const cudaError_t status = cudaMalloc(&memory.m_data, std::size_t(bytes)); status != cudaSuccess) {
            cudaGetLastError();
            memory.m_data = nullptr;
            std::size_t freeBytes = 0, totalBytes = 0;
            cudaMemGetInfo(&freeBytes, &totalBytes);
            return Error{status == cudaErrorMemoryAllocation ? ErrorCode::DeviceOutOfMemory : ErrorCode::DeviceFailure,
                         "The GPU has no room for " + what + ": needed " + std::to_string(bytes >> 20) + " MiB, free " +
                             std::to_string(freeBytes >> 20) + " MiB (" + cudaGetErrorString(status) + ")"};
        }
        memory.m_bytes = bytes;
        return memory;
    }

    std::int64_t bytes() const { return m_bytes; }
    template <typename T = std::uint8_t>
    T* at(std::int64_t byteOffset = 0) const
    {
        return reinterpret_cast<T*>(static_cast<std::uint8_t*>(m_data) + byteOffset);
    }

private:
    void* m_data = nullptr;
    std::int64_t m_bytes = 0;
};

/// Lays out parts of one allocation, each on 256 bytes.
class MemoryLayout
{
public:
    std::int64_t add(std::int64_t bytes)
    {
        const std::int64_t offset = m_bytes;
        m_bytes += (bytes + 255) / 256 * 256;
        return offset;
    }
    std::int64_t bytes() const { return m_bytes; }

private:
    std::int64_t m_bytes = 0;
};

/// Page-locked host memory for the step's tables.
class PinnedMemory
{
public:
    PinnedMemory() = default;
    PinnedMemory(PinnedMemory&& other) noexcept
        : m_data(std::exchange(other.m_data, nullptr))
    {
    }
    PinnedMemory& operator=(PinnedMemory&& other) noexcept
    {
        std::swap(m_data, other.m_data);
        return *this;
    }
    ~PinnedMemory() { cudaFreeHost(m_data); }

    static Result<PinnedMemory> allocate(std::int64_t bytes, const std::string& what)
    {
        PinnedMemory memory;
        OCTAVO_CHECK(checkCuda(cudaHostAlloc(&memory.m_data, std::size_t(bytes), cudaHostAllocDefault),
                               "page-lock " + std::to_string(bytes >> 10) + " KiB for " + what));
        return memory;
    }
    template <typename T>
    T* at(std::int64_t byteOffset) const
    {
        return reinterpret_cast<T*>(static_cast<std::uint8_t*>(m_data) + byteOffset);
    }

private:
    void* m_data = nullptr;
};

/// Ends what the runtime's `destroy` ends, for std::unique_ptr.
template <auto destroy>
struct CudaDestroy {
    template <typename T>
    void operator()(T* handle) const
    {
        destroy(handle);
    }
};
template <typename Handle, auto destroy>
using CudaHandle = std::unique_ptr<std::remove_pointer_t<Handle>, CudaDestroy<destroy>>;

/// A recorded step.
class CudaGraph
{
public:
    /// Records what `enqueue` puts on the stream, which must be idle, instead of running it.
    template <typename Enqueue>
    static Result<CudaGraph> record(cudaStream_t stream, Enqueue&& enqueue)
    {
        OCTAVO_CHECK(checkCuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "record a step"));
        const Result<void> enqueued = enqueue();
        cudaGraph_t graph = nullptr;
        const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
        cudaGraphExec_t exec = nullptr;
        const cudaError_t made =
            enqueued && ended == cudaSuccess ? cudaGraphInstantiate(&exec, graph, 0) : cudaSuccess;
        CudaGraph recorded;
        recorded.m_exec.reset(exec);
        if (graph)
            cudaGraphDestroy(graph);
        OCTAVO_CHECK(enqueued);
        OCTAVO_CHECK(checkCuda(ended, "record a step"));
        OCTAVO_CHECK(checkCuda(made, "prepare a recorded step"));
        return recorded;
    }
    Result<void> launch(cudaStream_t stream) const
    {
        return checkCuda(cudaGraphLaunch(m_exec.get(), stream), "launch a step");
    }

private:
    CudaHandle<cudaGraphExec_t, cudaGraphExecDestroy> m_exec;
};

class CudaStream
{
public:
    static Result<CudaStream> create()
    {
        cudaStream_t created = nullptr;
        OCTAVO_CHECK(checkCuda(cudaStreamCreateWithFlags(&created, cudaStreamNonBlocking), "create a stream"));
        CudaStream stream;
        stream.m_stream.reset(created);
        return stream;
    }
    cudaStream_t get() const { return m_stream.get(); }

private:
    CudaHandle<cudaStream_t, cudaStreamDestroy> m_stream;
};

/// A place in a stream that others wait for.
class CudaEvent
{
public:
    static Result<CudaEvent> create()
    {
        cudaEvent_t created = nullptr;
        OCTAVO_CHECK(checkCuda(cudaEventCreateWithFlags(&created, cudaEventDisableTiming), "create an event"));
        CudaEvent event;
        event.m_event.reset(created);
        return event;
    }
    /// What `later` takes from here on waits for all that `earlier` was given so far.
    Result<void> order(cudaStream_t earlier, cudaStream_t later) const
    {
        OCTAVO_CHECK(checkCuda(cudaEventRecord(m_event.get(), earlier), "order two streams"));
        return checkCuda(cudaStreamWaitEvent(later, m_event.get()), "order two streams");
    }

private:
    CudaHandle<cudaEvent_t, cudaEventDestroy> m_event;
};

} // namespace octavo::engine
