#pragma once

/// Owners of CUDA resources, and CUDA's error codes as sentences.

#include "engine/result.h"

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
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

/// A recorded step.
class CudaGraph
{
public:
    CudaGraph() = default;
    CudaGraph(CudaGraph&& other) noexcept
        : m_exec(std::exchange(other.m_exec, nullptr))
    {
    }
    CudaGraph& operator=(CudaGraph&& other) noexcept
    {
        std::swap(m_exec, other.m_exec);
        return *this;
    }
    ~CudaGraph()
    {
        if (m_exec)
            cudaGraphExecDestroy(m_exec);
    }

    /// Records what `enqueue` puts on the stream, which must be idle, instead of running it.
    template <typename Enqueue>
    static Result<CudaGraph> record(cudaStream_t stream, Enqueue&& enqueue)
    {
        OCTAVO_CHECK(checkCuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "record a step"));
        const Result<void> enqueued = enqueue();
        cudaGraph_t graph = nullptr;
        const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
        CudaGraph recorded;
        const cudaError_t made =
            enqueued && ended == cudaSuccess ? cudaGraphInstantiate(&recorded.m_exec, graph, 0) : cudaSuccess;
        if (graph)
            cudaGraphDestroy(graph);
        OCTAVO_CHECK(enqueued);
        OCTAVO_CHECK(checkCuda(ended, "record a step"));
        OCTAVO_CHECK(checkCuda(made, "prepare a recorded step"));
        return recorded;
    }
    Result<void> launch(cudaStream_t stream) const
    {
        return checkCuda(cudaGraphLaunch(m_exec, stream), "launch a step");
    }

private:
    cudaGraphExec_t m_exec = nullptr;
};

class CudaStream
{
public:
    CudaStream() = default;
    CudaStream(CudaStream&& other) noexcept
        : m_stream(std::exchange(other.m_stream, nullptr))
    {
    }
    CudaStream& operator=(CudaStream&& other) noexcept
    {
        std::swap(m_stream, other.m_stream);
        return *this;
    }
    ~CudaStream()
    {
        if (m_stream)
            cudaStreamDestroy(m_stream);
    }
    static Result<CudaStream> create()
    {
        CudaStream stream;
        OCTAVO_CHECK(checkCuda(cudaStreamCreateWithFlags(&stream.m_stream, cudaStreamNonBlocking), "create a stream"));
        return stream;
    }
    cudaStream_t get() const { return m_stream; }

private:
    cudaStream_t m_stream = nullptr;
};

/// A place in a stream that others wait for.
class CudaEvent
{
public:
    CudaEvent() = default;
    CudaEvent(CudaEvent&& other) noexcept
        : m_event(std::exchange(other.m_event, nullptr))
    {
    }
    CudaEvent& operator=(CudaEvent&& other) noexcept
    {
        std::swap(m_event, other.m_event);
        return *this;
    }
    ~CudaEvent()
    {
        if (m_event)
            cudaEventDestroy(m_event);
    }
    static Result<CudaEvent> create()
    {
        CudaEvent event;
        OCTAVO_CHECK(checkCuda(cudaEventCreateWithFlags(&event.m_event, cudaEventDisableTiming), "create an event"));
        return event;
    }
    /// What `later` takes from here on waits for all that `earlier` was given so far.
    Result<void> order(cudaStream_t earlier, cudaStream_t later) const
    {
        OCTAVO_CHECK(checkCuda(cudaEventRecord(m_event, earlier), "order two streams"));
        return checkCuda(cudaStreamWaitEvent(later, m_event), "order two streams");
    }

private:
    cudaEvent_t m_event = nullptr;
};

} // namespace octavo::engine
