#include "engine/evaluation/machine_probe.h"

#include "engine/backend/compute_pool.h"
#include "engine/memory/big_pages.h"
#include "kernels/cpu/kernels.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include <pthread.h>
#include <sched.h>

namespace octavo::engine
{

namespace cpu = kernels::cpu;

namespace
{

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point start)
{
    return std::chrono::duration<double>(Clock::now() - start).count();
}

std::vector<int> allowedCpus()
{
    std::vector<int> cpus;
    cpu_set_t set;
    CPU_ZERO(&set);
    if (::sched_getaffinity(0, sizeof set, &set) == 0) {
        for (int i = 0; i < CPU_SETSIZE; ++i) {
            if (CPU_ISSET(i, &set))
                cpus.push_back(i);
        }
    }
    return cpus;
}

void pinTo(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    ::pthread_setaffinity_np(::pthread_self(), sizeof set, &set);
}

/// Weights that every token passes through, by what they take in memory on the CPU backend.
template <typename Visit>
void forEachLinear(const ModelWeights& weights, Visit&& visit)
{
    for (const LayerWeights& layer : weights.layers) {
        for (const LinearWeight* weight : {&layer.mlp.gate, &layer.mlp.up, &layer.mlp.down})
            visit(*weight);
        if (layer.attention) {
            for (const LinearWeight* weight :
                 {&layer.attention->q, &layer.attention->k, &layer.attention->v, &layer.attention->o})
                visit(*weight);
        }
        if (layer.gdn) {
            for (const LinearWeight* weight :
                 {&layer.gdn->qkv, &layer.gdn->z, &layer.gdn->b, &layer.gdn->a, &layer.gdn->out})
                visit(*weight);
        }
    }
}

} // namespace

LineCrossing measureLineCrossing()
{
    const std::vector<int> cpus = allowedCpus();
    if (cpus.size() < 2)
        return {};
    constexpr int rounds = 20000, warmUp = 2000;
    struct alignas(64) Line {
        std::atomic<int> value{0};
    };
    Line ball;
    double ns = 0.0;
    std::thread other([&] {
        pinTo(cpus[1]);
        for (int i = 0; i < rounds + warmUp; ++i) {
            while (ball.value.load(std::memory_order_acquire) != 2 * i + 1) {
            }
            ball.value.store(2 * i + 2, std::memory_order_release);
        }
    });
    std::thread first([&] {
        pinTo(cpus[0]);
        auto start = Clock::now();
        for (int i = 0; i < rounds + warmUp; ++i) {
            if (i == warmUp)
                start = Clock::now();
            ball.value.store(2 * i + 1, std::memory_order_release);
            while (ball.value.load(std::memory_order_acquire) != 2 * i + 2) {
            }
        }
        ns = secondsSince(start) * 1e9 / (2.0 * rounds);
    });
    first.join();
    other.join();
    return {ns};
}

MachineFigures measureMachine(cpu::Path path, int threads, std::int64_t bufferBytes)
{
    MachineFigures figures;
    ComputePool pool(threads);
    const cpu::Kernels& kernels = cpu::kernels(path);

    // Reading: each thread sums its part of the buffer.
    const std::int64_t part = std::max<std::int64_t>(4096, bufferBytes / threads / 4096 * 4096);
    const BigPages buffer(std::size_t(part * threads));
    std::vector<float> sums(std::size_t(threads) * 16, 0.0f);
    auto read = [&](int thread) {
        const auto* values = reinterpret_cast<const std::uint64_t*>(buffer.as<std::byte>() + part * thread);
        std::uint64_t total[8] = {};
        for (std::int64_t i = 0; i < part / 8; i += 8) {
            for (int j = 0; j < 8; ++j)
                total[j] += values[i + j];
        }
        std::uint64_t sum = 0;
        for (std::uint64_t value : total)
            sum += value;
        sums[std::size_t(thread) * 16] += float(sum & 1);
    };
    if (!buffer.empty()) {
        std::memset(buffer.as<std::byte>(), 1, buffer.bytes());
        pool.run(read);
        for (int trial = 0; trial < 5; ++trial) {
            const auto start = Clock::now();
            pool.run(read);
            figures.bytesPerSecond = std::max(figures.bytesPerSecond, double(part * threads) / secondsSince(start));
        }
    }

    // Multiplying: full row tiles on two panels, all of it in the first-level cache.
    constexpr int inputs = 256, outputs = 32, repeats = 4000;
    const int rows = kernels.maxTileRows;
    std::vector<double> rates;
    for (int trial = 0; trial < 3; ++trial) {
        const auto start = Clock::now();
        pool.run([&](int) {
            std::vector<std::int8_t> codes(inputs * outputs, std::int8_t(3));
            std::vector<float> scales(outputs * 2, 1.0f), rowScales(std::size_t(rows), 1.0f);
            std::vector<std::int16_t> values(std::size_t(rows) * inputs, std::int16_t(5));
            std::vector<float> out(std::size_t(rows) * outputs);
            const cpu::Int8Panels panels{codes.data(), scales.data(), outputs, inputs, 128};
            const cpu::QuantizedRows quantized{values.data(), rowScales.data(), rows, inputs};
            cpu::Ahead ahead;
            for (int i = 0; i < repeats; ++i)
                kernels.linearInt8(panels, quantized, 0, outputs / cpu::panelWidth, out.data(), outputs, ahead);
        });
        rates.push_back(double(rows) * inputs * outputs * repeats * threads / secondsSince(start));
    }
    figures.productsPerSecond = *std::max_element(rates.begin(), rates.end());
    return figures;
}

StepCost stepCost(const ModelConfig& config, const ModelWeights& weights, std::int64_t context, std::int64_t agents)
{
    StepCost cost;
    std::int64_t products = weights.head().parameters();
    forEachLinear(weights, [&](const LinearWeight& weight) {
        cost.weightBytes += weight.storedBytes();
        products += weight.parameters();
    });
    const bool int4Head = weights.head().format == LinearWeight::Format::Int4;
    cost.weightBytes += int4Head ? weights.head().storedBytes() : weights.head().parameters() / 2; // the rough one
    const std::int64_t attention = config.numFullAttentionLayers(), gdn = config.numLayers - attention;
    const std::int64_t stateValues =
        std::int64_t(config.linearNumValueHeads) * config.linearKeyHeadDim * config.linearValueHeadDim;
    const std::int64_t kvBytes = attention * config.numKvHeads * (2 * config.headDim + 8) * context;
    cost.bytes = cost.weightBytes + agents * (kvBytes + gdn * stateValues * 8);
    products += gdn * stateValues * 4 + attention * config.numHeads * 2 * config.headDim * context;
    cost.products = products * agents;
    return cost;
}

std::int64_t prefillProducts(const ModelConfig& config, const ModelWeights& weights, std::int64_t tokens)
{
    // The head serves one row only, and a row sees half of the tokens on average.
    const StepCost average = stepCost(config, weights, tokens / 2, 1);
    return (average.products - weights.head().parameters()) * tokens;
}

} // namespace octavo::engine
