#pragma once

/// Turns a series of samples into one value per chart column.
///
/// Columns stand on a fixed grid of time, so that a curve moves on by whole columns and never shimmers while it
/// scrolls, and a chart whose newest column has not changed needs no painting.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace octavo::ui {

/// The stretch of time a chart shows.
struct TimeWindow {
    double endSeconds = 0;
    double seconds = 60;
    double tickSeconds = 0.1; ///< distance of the samples; no column is narrower

    /// As many columns as fit `pixels` and the samples can fill.
    int columns(int pixels) const { return std::max(1, std::min(pixels, int(std::lround(seconds / tickSeconds)))); }
    double step(int columns) const { return seconds / columns; }
    /// Number of the newest column, counted from time 0.
    std::int64_t lastColumn(int columns) const { return std::int64_t(std::floor(endSeconds / step(columns) + 1e-9)); }
    /// Time at the middle of column `index`, in seconds before the end.
    double secondsAgo(int index, int columns) const { return (columns - 1 - index + 0.5) * step(columns); }
};

/// Means of `value(i)` over the samples of each column; NaN where there are none or none is known. A short hole (a late
/// tick) is bridged with the value before it.
///
/// `firstAfter(t)` gives the first sample later than t, `time(i)` its seconds; samples are in order of time.
template <typename FirstAfter, typename Time, typename Value>
std::vector<float> resample(const TimeWindow& window, int columns, int numSamples, const FirstAfter& firstAfter,
                            const Time& time, const Value& value)
{
    constexpr int bridgedColumns = 3;
    const double step = window.step(columns);
    const std::int64_t first = window.lastColumn(columns) - columns + 1;
    std::vector<float> sums(std::size_t(columns), 0.0F);
    std::vector<int> counts(std::size_t(columns), 0);
    std::vector<bool> seen(std::size_t(columns), false);
    for (int i = firstAfter(double(first) * step - 1e-6); i < numSamples; ++i) {
        const std::int64_t column = std::int64_t(std::floor(time(i) / step + 1e-9)) - first;
        if (column >= columns)
            break;
        if (column < 0)
            continue;
        seen[std::size_t(column)] = true;
        if (const float v = value(i); !std::isnan(v)) {
            sums[std::size_t(column)] += v;
            ++counts[std::size_t(column)];
        }
    }
    constexpr float nan = std::numeric_limits<float>::quiet_NaN();
    std::vector<float> result(std::size_t(columns), nan);
    int sinceSeen = bridgedColumns + 1;
    float last = nan;
    for (std::size_t c = 0; c < result.size(); ++c) {
        if (seen[c]) {
            last = counts[c] > 0 ? sums[c] / float(counts[c]) : nan;
            sinceSeen = 0;
        } else {
            ++sinceSeen;
        }
        result[c] = sinceSeen <= bridgedColumns ? last : nan;
    }
    return result;
}

/// The smallest of 1, 1.5, 2, 3, 4, 5, 6, 8 x 10^n that is not below `value`; 1 for nothing known.
float niceCeiling(float value);

} // namespace octavo::ui
