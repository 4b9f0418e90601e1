#include "engine/model/quantized_linear.h"

#include "engine/model/float_formats.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <span>
#include <system_error>
#include <thread>

namespace octavo::engine
{

namespace
{

constexpr int outputsPerTask = 16; // a cache line of each row of codes
constexpr float mostScale = 65504.0f;

/// To the nearest integer, for |x| below 2^22: what the compiler turns into two additions of many lanes.
float rounded(float x)
{
    constexpr float shift = 12582912.0f; // 1.5 * 2^23
    return (x + shift) - shift;
}

float codeOf(float scaled)
{
    return std::clamp(rounded(scaled), -8.0f, 7.0f);
}

/// The scale with the least squared error over a group. The largest value goes near one end of the grid; how near is
/// tried, as one large value need not be worth the precision of all the others.
float bestScale(std::span<const float> group, int grids)
{
    float largest = 0.0f;
    for (const float w : group)
        largest = std::abs(w) > std::abs(largest) ? w : largest;
    if (largest == 0.0f)
        return 0.0f;
    float best = 0.0f, gain = 0.0f;
    for (int i = 0; i < grids; ++i) {
        const float inverse = -(7.0f + 0.25f * float(i)) / largest;
        float products = 0.0f, squares = 0.0f;
        for (const float w : group) {
            const float code = codeOf(w * inverse);
            products += w * code;
            squares += code * code;
        }
        // With its best scale, products / squares, a set of codes takes this much off the sum of squares.
        if (squares > 0.0f && products * products > gain * squares) {
            gain = products * products / squares;
            best = products / squares;
        }
    }
    return std::clamp(best, -mostScale, mostScale);
}

/// Calls task(i, thread) for i below `count` on so many threads, this one included.
template <typename Task>
void spread(int count, int threads, const Task& task)
{
    std::atomic<int> next{0};
    const auto work = [&](int thread) {
        for (int i = next.fetch_add(1); i < count; i = next.fetch_add(1))
            task(i, thread);
    };
    std::vector<std::jthread> helpers;
    try {
        while (int(helpers.size()) + 1 < std::min(threads, count))
            helpers.emplace_back(work, int(helpers.size()) + 1);
    } catch (const std::system_error&) { // fewer will do
    }
    work(0);
}

} // namespace

std::vector<const LinearWeight*> bigLinears(const LayerWeights& layer)
{
    std::vector<const LinearWeight*> all{&layer.mlp.gate, &layer.mlp.up, &layer.mlp.down};
    if (layer.attention)
        all.insert(all.end(), {&layer.attention->q, &layer.attention->k, &layer.attention->v, &layer.attention->o});
    if (layer.gdn)
        all.insert(all.end(), {&layer.gdn->qkv, &layer.gdn->z, &layer.gdn->out});
    return all;
}

bool canQuantize(const LinearWeight& weight)
{
    return weight.format != LinearWeight::Format::Int4 && weight.inFeatures >= quantizedGroupSize &&
           weight.inFeatures % 8 == 0;
}

Result<QuantizedLinear> quantizeInt4(const LinearWeight& weight, int threads, GridSearch search)
{
    const int grids = search == GridSearch::Best ? 10 : 1;
    const std::size_t inputs = std::size_t(weight.inFeatures), outputs = std::size_t(weight.outFeatures);
    const std::size_t groups = (inputs + quantizedGroupSize - 1) / quantizedGroupSize;
    QuantizedLinear result;
    result.codes.resize(inputs / 8 * outputs);
    result.scales.resize(groups * outputs);
    const int tasks = (weight.outFeatures + outputsPerTask - 1) / outputsPerTask;
    std::vector<float> rows(std::size_t(std::clamp(threads, 1, std::max(1, tasks))) * inputs);
    std::atomic<bool> finite{true};
    const auto quantizeRow = [&](std::size_t n, std::span<float> row) {
        weight.dequantizeRow(int(n), row);
        float sum = 0.0f; // 0 * x is 0 for every finite x, and no number otherwise
        for (const float w : row)
            sum += 0.0f * w;
        if (sum != 0.0f) {
            finite = false;
            return;
        }
        for (std::size_t g = 0; g < groups; ++g) {
            const std::size_t first = g * quantizedGroupSize;
            const std::span group = row.subspan(first, std::min<std::size_t>(quantizedGroupSize, inputs - first));
            const std::uint16_t scale = halfFromFloat(bestScale(group, grids));
            const float stored = floatFromHalf(scale), inverse = stored != 0.0f ? 1.0f / stored : 0.0f;
            result.scales[g * outputs + n] = scale;
            for (std::size_t k = 0; k < group.size(); k += 8) {
                std::uint32_t word = 0;
                for (std::size_t j = 0; j < 8; ++j)
                    word |= std::uint32_t(int(codeOf(group[k + j] * inverse)) + 8) << (4 * j);
                result.codes[(first + k) / 8 * outputs + n] = word;
            }
        }
    };
    spread(tasks, threads, [&](int task, int thread) {
        const std::span row = std::span(rows).subspan(std::size_t(thread) * inputs, inputs);
        const std::size_t begin = std::size_t(task) * outputsPerTask;
        for (std::size_t n = begin; n < std::min(begin + outputsPerTask, outputs); ++n)
            quantizeRow(n, row);
    });
    if (!finite)
        return Error{ErrorCode::FormatInvalid, weight.name +
                                                   " holds a weight that is no finite number, so it cannot be "
                                                   "quantised: download the model again"};
    result.weight.name = weight.name;
    result.weight.format = LinearWeight::Format::Int4;
    result.weight.outFeatures = weight.outFeatures;
    result.weight.inFeatures = weight.inFeatures;
    result.weight.groupSize = quantizedGroupSize;
    result.weight.qweight = result.codes.data();
    result.weight.scales = result.scales.data();
    return result;
}

} // namespace octavo::engine
