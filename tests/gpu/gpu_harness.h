#pragma once

/// What the GPU tests and benchmarks share: device arrays, random inputs as the device sees them, comparison with a
/// reference in double, timing by graph replay. Plain C++ and CUDA, so that the programs run where Qt is missing.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace octavo::gpu
{

/// Collects failures and prints lines; a family's check runs through without stopping at the first failure.
class Report
{
public:
    bool expect(bool ok, const char* format, ...) __attribute__((format(printf, 3, 4)))
    {
        ++m_checks;
        if (ok)
            return true;
        ++m_failures;
        char text[512];
        va_list args;
        va_start(args, format);
        std::vsnprintf(text, sizeof text, format, args);
        va_end(args);
        if (m_failures <= 40)
            m_messages += std::string(text) + "\n";
        return false;
    }
    void line(const char* format, ...) __attribute__((format(printf, 2, 3)))
    {
        va_list args;
        va_start(args, format);
        std::vprintf(format, args);
        va_end(args);
        std::printf("\n");
        std::fflush(stdout);
    }
    int checks() const { return m_checks; }
    int failures() const { return m_failures; }
    const std::string& messages() const { return m_messages; }

private:
    int m_checks = 0;
    int m_failures = 0;
    std::string m_messages;
};

/// A CUDA call that must succeed for the rest to make sense: ends the program with its name when it fails.
inline void require(cudaError_t status, const char* what)
{
    if (status == cudaSuccess)
        return;
    std::printf("FATAL %s: %s\n", what, cudaGetErrorString(status));
    std::fflush(stdout);
    std::exit(3);
}
#define OCTAVO_REQUIRE(call) ::octavo::gpu::require((call), #call)

inline bool hasDevice()
{
    int devices = 0;
    return cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
}

inline int multiprocessors()
{
    int count = 0;
    OCTAVO_REQUIRE(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0));
    return count;
}

/// Whether the device is an sm_90 with the multiprocessors of a whole card, so that what needs room has it.
inline bool isLargeSm90()
{
    int major = 0;
    OCTAVO_REQUIRE(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
    return major == 9 && multiprocessors() >= 128;
}

/// Device memory of `count` elements, filled with 0xff bytes (NaN in every float format) unless given values.
template <typename T>
class DeviceArray
{
public:
    DeviceArray() = default;
    explicit DeviceArray(std::size_t count)
        : m_count(count)
    {
        OCTAVO_REQUIRE(cudaMalloc(reinterpret_cast<void**>(&m_data), std::max<std::size_t>(1, count) * sizeof(T)));
        poison();
    }
    explicit DeviceArray(const std::vector<T>& values)
        : DeviceArray(values.size())
    {
        upload(values);
    }
    ~DeviceArray() { cudaFree(m_data); }
    DeviceArray(DeviceArray&& other) noexcept
        : m_data(other.m_data)
        , m_count(other.m_count)
    {
        other.m_data = nullptr;
    }
    DeviceArray& operator=(DeviceArray&& other) noexcept
    {
        std::swap(m_data, other.m_data);
        std::swap(m_count, other.m_count);
        return *this;
    }

    T* data() const { return m_data; }
    std::size_t size() const { return m_count; }
    void poison() { OCTAVO_REQUIRE(cudaMemset(m_data, 0xff, m_count * sizeof(T))); }
    void zero() { OCTAVO_REQUIRE(cudaMemset(m_data, 0, m_count * sizeof(T))); }
    void upload(const std::vector<T>& values)
    {
        OCTAVO_REQUIRE(cudaMemcpy(m_data, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    }
    std::vector<T> download() const
    {
        std::vector<T> values(m_count);
        OCTAVO_REQUIRE(cudaDeviceSynchronize());
        OCTAVO_REQUIRE(cudaMemcpy(values.data(), m_data, m_count * sizeof(T), cudaMemcpyDeviceToHost));
        return values;
    }

private:
    T* m_data = nullptr;
    std::size_t m_count = 0;
};

/// SplitMix64: the same numbers everywhere for a seed.
class Random
{
public:
    explicit Random(std::uint64_t seed)
        : m_state(seed)
    {
    }
    std::uint64_t bits()
    {
        std::uint64_t z = (m_state += 0x9e3779b97f4a7c15ull);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        return z ^ (z >> 31);
    }
    double uniform() { return double(bits() >> 11) * 0x1p-53; }
    double uniform(double low, double high) { return low + (high - low) * uniform(); }
    int below(int n) { return int(bits() % std::uint64_t(n)); }
    double normal() { return std::sqrt(-2.0 * std::log(1.0 - uniform())) * std::cos(6.283185307179586 * uniform()); }

private:
    std::uint64_t m_state;
};

inline std::vector<__nv_bfloat16> toBf16(const std::vector<float>& values)
{
    std::vector<__nv_bfloat16> out(values.size());
    for (std::size_t i = 0; i < values.size(); ++i)
        out[i] = __float2bfloat16(values[i]);
    return out;
}

inline std::vector<float> toFloat(const std::vector<__nv_bfloat16>& values)
{
    std::vector<float> out(values.size());
    for (std::size_t i = 0; i < values.size(); ++i)
        out[i] = __bfloat162float(values[i]);
    return out;
}

/// Normal values times `scale`, already rounded to bf16, so that the reference sees what the device sees.
inline std::vector<float> randomBf16(Random& random, std::size_t count, double scale = 1.0)
{
    std::vector<float> out(count);
    for (float& value : out)
        value = __bfloat162float(__float2bfloat16(float(random.normal() * scale)));
    return out;
}

/// ||got - want|| / ||want|| within `bound`, every value finite. On failure names the worst index and both values.
inline bool compare(Report& report, const std::string& what, const std::vector<float>& got,
                    const std::vector<double>& want, double bound)
{
    if (!report.expect(got.size() == want.size(), "%s: %zu values, expected %zu", what.c_str(), got.size(),
                       want.size()))
        return false;
    if (got.empty())
        return true;
    double difference = 0.0, norm = 0.0, worst = -1.0;
    std::size_t at = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        const double d = std::abs(double(got[i]) - want[i]);
        if (!(d <= worst)) // also true for NaN
            worst = d, at = i;
        if (!std::isfinite(got[i]))
            return report.expect(false, "%s: [%zu] is %g, expected %g", what.c_str(), i, double(got[i]), want[i]);
        difference += d * d;
        norm += want[i] * want[i];
    }
    const double relative = norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
    return report.expect(relative <= bound, "%s: relative error %.3g above %.3g; worst at [%zu]: %g, expected %g",
                         what.c_str(), relative, bound, at, double(got[at]), want[at]);
}

/// Median microseconds of one launch: `launches` of them in a graph (rotate over inputs by the index), replayed.
inline double medianUs(int launches, const std::function<void(int, cudaStream_t)>& launch, int replays = 15)
{
    cudaStream_t stream;
    cudaEvent_t start, stop;
    OCTAVO_REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OCTAVO_REQUIRE(cudaEventCreate(&start));
    OCTAVO_REQUIRE(cudaEventCreate(&stop));
    launch(0, stream);
    OCTAVO_REQUIRE(cudaStreamSynchronize(stream));
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    OCTAVO_REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < launches; ++i)
        launch(i, stream);
    OCTAVO_REQUIRE(cudaStreamEndCapture(stream, &graph));
    OCTAVO_REQUIRE(cudaGraphInstantiate(&exec, graph, 0));
    std::vector<double> times;
    for (int replay = -2; replay < replays; ++replay) {
        OCTAVO_REQUIRE(cudaEventRecord(start, stream));
        OCTAVO_REQUIRE(cudaGraphLaunch(exec, stream));
        OCTAVO_REQUIRE(cudaEventRecord(stop, stream));
        OCTAVO_REQUIRE(cudaStreamSynchronize(stream));
        float ms = 0;
        OCTAVO_REQUIRE(cudaEventElapsedTime(&ms, start, stop));
        if (replay >= 0)
            times.push_back(ms * 1000.0 / launches);
    }
    OCTAVO_REQUIRE(cudaGraphExecDestroy(exec));
    OCTAVO_REQUIRE(cudaGraphDestroy(graph));
    OCTAVO_REQUIRE(cudaEventDestroy(start));
    OCTAVO_REQUIRE(cudaEventDestroy(stop));
    OCTAVO_REQUIRE(cudaStreamDestroy(stream));
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

/// A kernel family's check or benchmark, by name.
struct Family {
    const char* name;
    void (*run)(Report&);
};

/// Every check in tests/gpu, in order; `quick` families are small enough for compute-sanitizer.
std::span<const Family> checkFamilies();

} // namespace octavo::gpu
