#pragma once

/// What this machine can do at most, and what a token costs: the two sides of a roofline.

#include "engine/backend/backend.h"
#include "engine/model/weights.h"
#include "kernels/cpu/cpu_features.h"

#include <cstdint>

namespace octavo::engine
{

/// The way of one cache line from a core to another, by a ping-pong of two threads on the first two allowed CPUs.
/// Virtual cores may move between "near" (one third-level cache) and "far" for seconds at a time; threaded figures
/// compare only within one state.
struct LineCrossing {
    double ns = 0.0; ///< 0: only one CPU
    const char* state() const { return ns <= 0.0 ? "single" : ns < 100.0 ? "near" : "far"; }
};
LineCrossing measureLineCrossing();

struct MachineFigures {
    double bytesPerSecond = 0.0;    ///< all threads reading a buffer of the size asked for, again and again
    double productsPerSecond = 0.0; ///< all threads: the path's own 16-bit multiply-adds on first-level cache data
};
/// Takes about 0.2 s.
MachineFigures measureMachine(kernels::cpu::Path path, int threads, std::int64_t bufferBytes);

/// What one greedy step of `agents` rows costs at `context` tokens each, on the CPU backend's formats.
struct StepCost {
    std::int64_t weightBytes = 0;   ///< read once for all rows
    std::int64_t bytes = 0;         ///< with each row's keys, values and recurrent state
    std::int64_t products = 0;      ///< multiply-adds of all rows
};
StepCost stepCost(const ModelConfig& config, const ModelWeights& weights, std::int64_t context, std::int64_t agents);
/// Multiply-adds of reading `tokens` tokens from an empty sequence on.
std::int64_t prefillProducts(const ModelConfig& config, const ModelWeights& weights, std::int64_t tokens);

} // namespace octavo::engine
