#include "engine/backend/cpu_rough_head.h"

#include "engine/model/quantized_linear.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <string>
#include <thread>

namespace octavo::engine
{

namespace cpu = kernels::cpu;

namespace
{

/// Lengths of weights and rows below these multiply to logits that are finite.
constexpr double longestWeights = 1e9;
constexpr double longestRow = 1e18;

/// Of one token, from its weights in both forms.
double boundOf(std::span<const float> exact, std::span<const float> rough, int groups)
{
    double difference = 0.0, exactLength = 0.0, roughLength = 0.0;
    for (std::size_t k = 0; k < exact.size(); ++k) {
        const double e = double(exact[k]), r = double(rough[k]);
        difference += (e - r) * (e - r);
        exactLength += e * e;
        roughLength += r * r;
    }
    // Each group's sum is rounded when it becomes a float, when it is scaled and when it is added; a handful of
    // roundings follow, those of the comparison among them. Twice that for what was rounded on the way to here.
    const double lost = 2.0 * (3 * groups + 8) * std::ldexp(1.0, -24);
    return std::sqrt(difference) + lost * (std::sqrt(exactLength) + std::sqrt(roughLength));
}

} // namespace

std::int64_t CpuRoughHead::bytesOf(const LinearWeight& head)
{
    const std::int64_t groups = (head.inFeatures + quantizedGroupSize - 1) / quantizedGroupSize;
    const std::int64_t outputs = cpu::panelCount(head.outFeatures) * std::int64_t(cpu::panelWidth);
    return head.parameters() / 2 + groups * head.outFeatures * 2 + outputs * std::int64_t(sizeof(float));
}

Result<CpuRoughHead> CpuRoughHead::make(const LinearWeight& head, const CpuLinear& exact, int threads)
{
    OCTAVO_TRY(const QuantizedLinear quantized, quantizeInt4(head, threads, GridSearch::First));
    CpuRoughHead rough;
    OCTAVO_TRY(rough.linear, CpuLinear::pack(quantized.weight));
    const int panels = cpu::panelCount(head.outFeatures), groups = exact.int8Groups();
    rough.bounds.assign(std::size_t(panels) * cpu::panelWidth, 0.0f);
    std::atomic<int> next{0};
    std::atomic<bool> bounded{true};
    const auto work = [&] {
        std::vector<float> exactRow(std::size_t(head.inFeatures)), roughRow(exactRow.size());
        for (int panel = next.fetch_add(1); panel < panels; panel = next.fetch_add(1)) {
            for (int n = panel * cpu::panelWidth; n < std::min((panel + 1) * cpu::panelWidth, head.outFeatures); ++n) {
                exact.readInt8Row(n, exactRow);
                quantized.weight.dequantizeRow(n, roughRow);
                const double bound = boundOf(exactRow, roughRow, groups);
                if (!(bound < longestWeights))
                    bounded = false;
                rough.bounds[std::size_t(n)] = float(bound) * (1.0f + 1e-6f);
            }
        }
    };
    {
        std::vector<std::jthread> helpers;
        try {
            while (int(helpers.size()) + 1 < std::min(threads, panels))
                helpers.emplace_back(work);
        } catch (const std::system_error&) { // fewer will do
        }
        work();
    }
    if (!bounded)
        return Error{ErrorCode::Unsupported, head.name + " has weights too large to tell what an int4 copy is worth"};
    return rough;
}

float CpuRoughHead::rowLength(std::span<const float> x)
{
    double squares = 0.0;
    for (const float value : x)
        squares += double(value) * double(value);
    const double length = std::sqrt(squares);
    if (!(length < longestRow)) // a NaN neither
        return std::numeric_limits<float>::infinity();
    // Quantising moves a value by half a step, of which the largest value takes 32767.
    return float(length * (1.0 + std::sqrt(double(x.size())) / 32767.0));
}

} // namespace octavo::engine
