#include "tests/gpu/checks.h"

#include "kernels/cuda/sketch.h"
#include "kernels/cuda/sketch_pick_few.h"

#include <numeric>
#include <tuple>

namespace octavo::gpu
{

using namespace kernels::cuda;

namespace
{

/// Sketches of random keys, as launchSketchAppend() leaves them.
void checkAppend(Report& report, int heads, int kvHeads, int tokens)
{
    Random random(8);
    std::vector<float> basis(std::size_t(kvHeads) * 256 * 64), means(std::size_t(kvHeads) * 256);
    for (float& value : basis)
        value = float(random.normal() / 16.0);
    for (float& value : means)
        value = float(random.normal() * 0.2);
    const std::vector<float> keys = randomBf16(random, std::size_t(tokens) * kvHeads * 256);
    const DeviceArray<float> basisDevice(basis), meansDevice(means);
    const DeviceArray<__nv_bfloat16> keysDevice(toBf16(keys));
    const int tiles = (tokens / 64 + 2) * 4;
    DeviceArray<std::uint8_t> codes(std::size_t(kvHeads) * tiles * sketchTileBytes);
    DeviceArray<__half> scales(std::size_t(kvHeads) * tiles * 16);
    codes.zero(), scales.zero();
    const SketchView sketch{codes.data(), scales.data(), tiles};
    // One run, then single tokens: a decode step appends one.
    const int run = tokens - 3;
    for (int first = 0; first < tokens; first += first == 0 ? run : 1) {
        const MatrixView<const __nv_bfloat16> view{keysDevice.data() + std::size_t(first) * kvHeads * 256,
                                                   first == 0 ? run : 1, kvHeads * 256, kvHeads * 256};
        OCTAVO_REQUIRE(
            launchSketchAppend(view, kvHeads, basisDevice.data(), meansDevice.data(), first, sketch, nullptr));
    }
    const std::vector<std::uint8_t> gotCodes = codes.download();
    const std::vector<__half> gotScales = scales.download();
    DeviceArray<std::uint8_t> codesAtOnce(codes.size());
    codesAtOnce.zero();
    const MatrixView<const __nv_bfloat16> allKeys{keysDevice.data(), tokens, kvHeads * 256, kvHeads * 256};
    OCTAVO_REQUIRE(launchSketchAppend(allKeys, kvHeads, basisDevice.data(), meansDevice.data(), 0,
                                      SketchView{codesAtOnce.data(), scales.data(), tiles}, nullptr));
    report.expect(codesAtOnce.download() == gotCodes, "sketch heads=%d tokens=%d: depends on how keys were appended",
                  kvHeads, tokens);
    std::size_t outside = 0;
    for (int h = 0; h < kvHeads; ++h) {
        for (int token = 0; token<tokens; token += tokens> 100 ? 37 : 1) {
            double coordinates[64];
            referenceSketchToken(&keys[(std::size_t(token) * kvHeads + h) * 256], &basis[std::size_t(h) * 256 * 64],
                                 &means[std::size_t(h) * 256], coordinates);
            const float scale = __half2float(gotScales[std::size_t(h) * tiles * 16 + sketchScaleIndex(token)]);
            for (int c = 0; c < 64; ++c) {
                const int code = sketchCodeAt(&gotCodes[std::size_t(h) * tiles * sketchTileBytes], token, c) - 8;
                // Half a step, or the clipped step at the other end of the range.
                const double bound = std::abs(scale) * (coordinates[c] * scale > 0 ? 1.02 : 0.52);
                outside += !(std::abs(double(scale) * code - coordinates[c]) <= bound);
            }
        }
    }
    report.expect(outside == 0, "sketch heads=%d tokens=%d: %zu coordinates off", kvHeads, tokens, outside);

    const int queries = 2;
    const std::vector<float> query = randomBf16(random, std::size_t(queries) * heads * 256, 2.0);
    const DeviceArray<__nv_bfloat16> queryDevice(toBf16(query));
    DeviceArray<__nv_bfloat16> projected(std::size_t(queries) * heads * 64);
    OCTAVO_REQUIRE(launchSketchProject(queryDevice.data(), queries, heads, kvHeads, basisDevice.data(),
                                       projected.data(), nullptr));
    std::vector<double> wantProjected;
    for (int q = 0; q < queries; ++q)
        for (int h = 0; h < heads; ++h)
            for (int c = 0; c < 64; ++c) {
                double sum = 0.0;
                for (int d = 0; d < 256; ++d)
                    sum += double(query[(std::size_t(q) * heads + h) * 256 + d]) *
                           basis[(std::size_t(h / (heads / kvHeads)) * 256 + d) * 64 + c];
                wantProjected.push_back(sum / 16.0);
            }
    compare(report, "sketch projection", toFloat(projected.download()), wantProjected, 4e-3);
}

/// Flat: scores lie within a tenth of each other, as of heads that look nowhere; Flatter: within a hundredth. Runs: all
/// that is wanted lies together.
enum class Pattern { Random, EqualTokens, FewTokens, NoQuery, Flat, Flatter, Runs };

float randomScale(Random& random, Pattern pattern, std::size_t token)
{
    switch (pattern) {
    case Pattern::Random:
        return float(random.uniform(-0.2, 0.2));
    case Pattern::Flat:
        return float(random.uniform(-1e-3, 1e-3));
    case Pattern::Flatter:
        return float(random.uniform(-5e-5, 5e-5));
    case Pattern::Runs:
        return token / sketchBlockTokens % 16 == 5 ? 0.2f : 0.01f;
    default:
        return 0.1f;
    }
}

/// One sequence: its sketch, and queries that pick from it.
struct Sequence {
    int heads, kvHeads, begin, end, rows, k;
    double alpha = -1.0; ///< least part of an even share that a token counts for; below 0: the largest keys are picked
    int tiles = (end + rows + 63) / 64 * 4;
    std::vector<std::uint8_t> codes;
    std::vector<__half> scales;
    std::vector<float> projected; ///< (rows, heads, 64)
    DeviceArray<std::uint8_t> codesDevice;
    DeviceArray<__half> scalesDevice;
    DeviceArray<__nv_bfloat16> projectedDevice;
    struct Row {
        DeviceArray<__half> maxima;
        DeviceArray<float2> logSums, lines;
        DeviceArray<std::uint32_t> groupKeys, histogram{sketchMeetingWords};
        DeviceArray<uint2> candidates;
        DeviceArray<std::int32_t> counters{4}, picks, numPicks{1};
        DeviceArray<float> lifts;

        void poisonResults() { lines.poison(), picks.poison(), numPicks.poison(), lifts.poison(); }
    };
    std::vector<Row> work;

    Sequence(Random& random, int heads_, int kvHeads_, int begin_, int end_, int rows_, int k_, Pattern pattern)
        : heads(heads_)
        , kvHeads(kvHeads_)
        , begin(begin_)
        , end(end_)
        , rows(rows_)
        , k(k_)
        , codes(std::size_t(kvHeads) * tiles * sketchTileBytes)
        , scales(std::size_t(kvHeads) * tiles * 16)
    {
        for (auto& code : codes)
            code = pattern == Pattern::EqualTokens ? 0x5a : std::uint8_t(random.bits());
        if (pattern == Pattern::FewTokens) // whole tiles repeat, so that many keys are equal
            for (std::size_t i = 3 * sketchTileBytes; i < codes.size(); ++i)
                codes[i] = codes[i - 3 * sketchTileBytes];
        for (std::size_t i = 0; i < scales.size(); ++i)
            scales[i] = __float2half(randomScale(random, pattern, i % (std::size_t(tiles) * 16)));
        projected = randomBf16(random, std::size_t(rows) * heads * 64, pattern == Pattern::NoQuery ? 0.0 : 1.0);
        codesDevice = DeviceArray<std::uint8_t>(codes);
        scalesDevice = DeviceArray<__half>(scales);
        projectedDevice = DeviceArray<__nv_bfloat16>(toBf16(projected));
        for (int r = 0; r < rows; ++r) {
            Row& row = work.emplace_back();
            row.maxima = DeviceArray<__half>(std::size_t(heads) * tiles * 2);
            row.logSums = DeviceArray<float2>(std::size_t(sketchChunks(end + rows)) * heads);
            row.lines = DeviceArray<float2>(std::size_t(heads));
            row.groupKeys = DeviceArray<std::uint32_t>(std::size_t(tiles) * 2);
            row.candidates = DeviceArray<uint2>(std::size_t(sketchCandidates(k)));
            row.picks = DeviceArray<std::int32_t>(std::size_t(k) + 1);
            row.lifts = DeviceArray<float>(std::size_t(k) + 1);
            row.histogram.zero(), row.counters.zero();
        }
    }
    SketchQuery query(int r) const
    {
        const Row& row = work[std::size_t(r)];
        return {{codesDevice.data(), scalesDevice.data(), tiles},
                projectedDevice.data() + std::size_t(r) * heads * 64,
                begin,
                end + r,
                k,
                row.maxima.data(),
                row.logSums.data(),
                row.lines.data(),
                row.groupKeys.data(),
                row.histogram.data(),
                row.candidates.data(),
                row.counters.data(),
                row.picks.data(),
                row.numPicks.data(),
                priority() ? row.lifts.data() : nullptr,
                floorKey(r)};
    }
    bool priority() const { return alpha >= 0.0; }
    std::uint32_t boost(std::int32_t token) const { return priority() ? sketchBoost(token) : 0u; }
    std::uint32_t floorKey(int r) const { return alpha > 0.0 ? sketchKey(std::log(alpha / (end + r - begin))) : 0u; }
    std::vector<float> lifts(int r) const
    {
        std::vector<float> got = work[std::size_t(r)].lifts.download();
        got.resize(priority() ? std::size_t(std::min(k, end + r - begin)) : 0);
        return got;
    }
    std::vector<std::int32_t> picks(int r) const
    {
        std::vector<std::int32_t> got = work[std::size_t(r)].picks.download();
        got.resize(std::size_t(std::clamp(work[std::size_t(r)].numPicks.download()[0], 0, k)));
        return got;
    }

    /// Selections of row r so far that scored all groups at the end.
    int exhaustive(int r) const { return work[std::size_t(r)].counters.download()[3]; }

    /// The products of row r with all tokens, (heads, end + r): exact, before they are scaled by the head.
    std::vector<std::int32_t> products(int r) const
    {
        const int last = end + r;
        std::vector<std::int32_t> out(std::size_t(heads) * last);
        std::vector<std::int8_t> tokenCodes(64);
        for (int kvHead = 0; kvHead < kvHeads; ++kvHead) {
            for (int token = begin; token < last; ++token) {
                for (int c = 0; c < 64; ++c)
                    tokenCodes[std::size_t(c)] =
                        std::int8_t(sketchCodeAt(&codes[std::size_t(kvHead) * tiles * sketchTileBytes], token, c) - 8);
                for (int h = kvHead * (heads / kvHeads); h < (kvHead + 1) * (heads / kvHeads); ++h) {
                    const std::int8_t* q = &queryCodes[(std::size_t(r) * heads + h) * 64];
                    int sum = 0;
                    for (int c = 0; c < 64; ++c)
                        sum += q[c] * tokenCodes[std::size_t(c)];
                    out[std::size_t(h) * last + token] = sum;
                }
            }
        }
        return out;
    }
    /// In 8 bits, as referenceSketchQuery() has it.
    void quantise()
    {
        for (int i = 0; i < rows * heads; ++i) {
            double query[64];
            float peak = 0.0f;
            for (int c = 0; c < 64; ++c)
                peak = std::max(peak, std::abs(projected[std::size_t(i) * 64 + c]));
            referenceSketchQuery(&projected[std::size_t(i) * 64], query);
            peaks.push_back(peak);
            for (const double value : query)
                queryCodes.push_back(std::int8_t(peak > 0.0f ? std::lround(value / peak * 127.0) : 0));
        }
    }
    std::vector<std::int8_t> queryCodes;
    std::vector<float> peaks;
};

/// The k largest of keys[begin, end), lowest index first among equals, ascending.
template <typename Key>
std::vector<std::int32_t> largest(const std::vector<Key>& keys, int begin, int end, int k)
{
    std::vector<std::int32_t> order(std::size_t(end - begin));
    std::iota(order.begin(), order.end(), begin);
    k = std::min(k, end - begin);
    std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](int a, int b) {
        return keys[std::size_t(a)] != keys[std::size_t(b)] ? keys[std::size_t(a)] > keys[std::size_t(b)] : a < b;
    });
    order.resize(std::size_t(k));
    std::sort(order.begin(), order.end());
    return order;
}

/// Lifts of a row's picks against its keys, and the mass that lifted picks stand for against what there is.
void checkLifts(Report& report, const char* what, const Sequence& s, int r, const std::vector<std::uint32_t>& keys,
                const std::vector<std::int32_t>& picks)
{
    const int last = s.end + r;
    std::uint32_t level = 0; // key of the first that is not picked
    if (s.k < last - s.begin) {
        std::vector<std::uint32_t> sorted(keys.begin() + s.begin, keys.end());
        std::nth_element(sorted.begin(), sorted.begin() + s.k, sorted.end(), std::greater<>());
        level = sorted[std::size_t(s.k)];
    }
    const auto share = [&](int token) {
        return std::exp(double(keys[std::size_t(token)] - sketchBoost(token)) / sketchKeyUnit - 48.0);
    };
    const std::vector<float> lifts = s.lifts(r);
    std::size_t off = 0;
    double estimate = 0.0, all = 0.0;
    for (std::size_t i = 0; i < picks.size(); ++i) {
        const std::uint32_t own = keys[std::size_t(picks[i])] - sketchBoost(picks[i]);
        off += lifts[i] != (own < level ? float(level - own) / float(sketchKeyUnit) : 0.0f);
        estimate += share(picks[i]) * std::exp(double(lifts[i]));
    }
    report.expect(off == 0, "sketch pick %s end=%d row %d: %zu of %zu lifts are off", what, s.end, r, off,
                  picks.size());
    for (int token = s.begin; token < last; ++token)
        all += share(token);
    report.expect(picks.size() < 512 || std::abs(estimate / all - 1.0) < 0.02,
                  "sketch pick %s end=%d row %d: picks stand for a mass of %.4f where there is %.4f", what, s.end, r,
                  estimate, all);
}

/// A row's sums against double, then its picks against keys made with those sums as the device makes them: the same
/// numbers, so that equal keys fall where they must.
void checkRow(Report& report, const char* what, const Sequence& s, int r)
{
    const int last = s.end + r, group = s.heads / s.kvHeads;
    const std::vector<std::int32_t> products = s.products(r);
    const std::vector<float2> lines = s.work[std::size_t(r)].lines.download();
    std::vector<std::uint32_t> keys(static_cast<std::size_t>(last));
    std::vector<float> best(std::size_t(last), -INFINITY);
    double worst = 0.0;
    for (int h = 0; h < s.heads; ++h) {
        const __half* scales = &s.scales[std::size_t(h / group) * s.tiles * 16];
        const double factor = double(s.peaks[std::size_t(r) * s.heads + h]) / 127.0 * 1.4426950408889634;
        double maximum = -1e300, sum = 0.0;
        const auto score = [&](int token) {
            return products[std::size_t(h) * last + token] * double(__half2float(scales[sketchScaleIndex(token)])) *
                   factor;
        };
        for (int token = s.begin; token < last; ++token)
            maximum = std::max(maximum, score(token));
        for (int token = s.begin; token < last; ++token)
            sum += std::exp2(score(token) - maximum);
        worst = std::max(worst, std::abs(double(lines[std::size_t(h)].y) + maximum + std::log2(sum)));
        for (int token = s.begin; token < last; ++token) {
            const double product = products[std::size_t(h) * last + token] *
                                   double(__half2float(scales[sketchScaleIndex(token)])) / 1024.0;
            const float rounded = __half2float(__float2half_rn(float(product)));
            best[std::size_t(token)] = std::max(best[std::size_t(token)],
                                                std::fmaf(rounded, lines[std::size_t(h)].x, lines[std::size_t(h)].y));
        }
    }
    report.expect(worst <= 2e-3, "sketch pick %s heads=%d end=%d row %d: sums off by %.3g", what, s.heads, s.end, r,
                  worst);
    for (int token = s.begin; token < last; ++token) {
        const float shifted =
            std::min(std::max(std::fmaf(best[std::size_t(token)], 0.6931471805599453f, 48.0f), 0.0f), 51.99999f);
        keys[std::size_t(token)] =
            std::max(std::uint32_t(shifted * float(sketchKeyUnit)), s.floorKey(r)) + s.boost(token);
    }
    const std::vector<std::int32_t> want = largest(keys, s.begin, last, s.k);
    if (s.priority() && s.k > 0)
        checkLifts(report, what, s, r, keys, want);
    const std::vector<std::int32_t> got = s.picks(r);
    report.expect(s.work[std::size_t(r)].numPicks.download()[0] == int(want.size()),
                  "sketch pick %s heads=%d end=%d row %d: %d picks, expected %zu", what, s.heads, s.end, r,
                  s.work[std::size_t(r)].numPicks.download()[0], want.size());
    std::size_t others = 0;
    for (const std::int32_t pick : want)
        others += std::find(got.begin(), got.end(), pick) == got.end();
    report.expect(got == want, "sketch pick %s heads=%d end=%d row %d: %zu of %zu picks are others", what, s.heads,
                  s.end, r, others, want.size());
}

/// How many picks 8 bits of the query and fp16 of the product change, against double throughout.
void checkAgreement(Report& report, const Sequence& s)
{
    const int last = s.end, group = s.heads / s.kvHeads;
    std::vector<double> best(std::size_t(last), -1e300);
    for (int h = 0; h < s.heads; ++h) {
        const float* q = &s.projected[std::size_t(h) * 64];
        std::vector<double> score(static_cast<std::size_t>(last));
        double maximum = -1e300, sum = 0.0;
        for (int token = s.begin; token < last; ++token) {
            double dot = 0.0;
            for (int c = 0; c < 64; ++c)
                dot += double(q[c]) *
                       (sketchCodeAt(&s.codes[std::size_t(h / group) * s.tiles * sketchTileBytes], token, c) - 8);
            score[std::size_t(token)] =
                dot * __half2float(s.scales[std::size_t(h / group) * s.tiles * 16 + sketchScaleIndex(token)]);
            maximum = std::max(maximum, score[std::size_t(token)]);
        }
        for (int token = s.begin; token < last; ++token)
            sum += std::exp(score[std::size_t(token)] - maximum);
        for (int token = s.begin; token < last; ++token)
            best[std::size_t(token)] =
                std::max(best[std::size_t(token)], score[std::size_t(token)] - maximum - std::log(sum));
    }
    const std::vector<std::int32_t> want = largest(best, s.begin, last, s.k), got = s.picks(0);
    std::size_t same = 0;
    for (const std::int32_t pick : want)
        same += std::binary_search(got.begin(), got.end(), pick);
    report.line("sketch: %zu of %zu picks are those of scores in double", same, want.size());
    report.expect(same * 100 >= want.size() * 97, "sketch: only %zu of %zu picks are those of scores in double", same,
                  want.size());
}

void checkPicks(Report& report)
{
    Random random(9);
    struct Case {
        const char* what;
        Pattern pattern;
        int heads, kvHeads, begin, end, rows, k;
        double alpha = -1.0;
    };
    const Case cases[] = {
        {"by priority", Pattern::Random, 24, 4, 64, 60003, 1, 2048, 0.1},
        {"by priority", Pattern::Random, 24, 4, 64, 60003, 1, 3072, 0.0},
        {"by priority", Pattern::Random, 24, 4, 64, 60003, 1, 4096, 0.5},
        {"by priority", Pattern::Random, 4, 2, 64, 9000, 8, 512, 0.1},
        {"by priority", Pattern::Random, 8, 1, 16, 4097, 3, 3072, 0.1},
        {"by priority", Pattern::Random, 8, 1, 0, 2048, 3, 2048, 0.1}, // all, then one and two fewer than there are
        {"by priority", Pattern::Random, 3, 3, 0, 33, 2, 2048, 0.1},
        {"by priority", Pattern::Random, 10, 2, 112, 12345, 4, 77, 0.1},
        {"by priority", Pattern::Random, 24, 4, 64, 4090, 8, 1, 0.0},
        {"by priority", Pattern::Random, 24, 4, 64, 3000, 5, 0, 0.1},
        {"by priority, equal tokens", Pattern::EqualTokens, 24, 4, 64, 40000, 1, 2048, 0.1},
        {"by priority, below the floor", Pattern::EqualTokens, 24, 4, 64, 40000, 1, 2048, 4.0},
        {"by priority, few tokens", Pattern::FewTokens, 24, 4, 64, 30000, 3, 2048, 0.1},
        {"by priority, no query", Pattern::NoQuery, 24, 4, 64, 250000, 1, 4096, 0.1},
        {"by priority, flat", Pattern::Flat, 24, 4, 64, 70000, 2, 2048, 0.1},
        {"by priority, flatter", Pattern::Flatter, 24, 4, 64, 70000, 1, 2048, 0.1},
        {"by priority, flatter", Pattern::Flatter, 24, 4, 64, 250000, 1, 3072, 0.1},
        {"by priority, runs", Pattern::Runs, 24, 4, 64, 70000, 2, 2048, 0.1},
        {"random", Pattern::Random, 24, 4, 64, 60003, 1, 2048},
        {"random", Pattern::Random, 24, 4, 64, 20480, 8, 2048},
        {"random", Pattern::Random, 4, 2, 64, 9000, 8, 512},
        {"random", Pattern::Random, 3, 3, 0, 33, 2, 2048},
        {"random", Pattern::Random, 8, 1, 16, 4097, 3, 2048},
        {"random", Pattern::Random, 10, 2, 112, 12345, 4, 77},
        {"random", Pattern::Random, 24, 4, 64, 4090, 8, 1},
        {"random", Pattern::Random, 24, 4, 64, 3000, 5, 0},
        {"equal tokens", Pattern::EqualTokens, 4, 2, 64, 3000, 2, 2048},
        {"equal tokens", Pattern::EqualTokens, 24, 4, 64, 40000, 1, 2048},
        {"few tokens", Pattern::FewTokens, 24, 4, 64, 30000, 3, 2048},
        {"no query", Pattern::NoQuery, 24, 4, 64, 33000, 1, 2048},
        {"flat", Pattern::Flat, 24, 4, 64, 70000, 2, 2048},
        {"flatter", Pattern::Flatter, 24, 4, 64, 70000, 1, 2048},
        {"runs", Pattern::Runs, 24, 4, 64, 70000, 2, 2048},
    };
    for (const Case& c : cases) {
        Sequence s(random, c.heads, c.kvHeads, c.begin, c.end, c.rows, c.k, c.pattern);
        s.alpha = c.alpha;
        s.quantise();
        std::vector<SketchQuery> queries;
        for (int r = 0; r < c.rows; ++r)
            queries.push_back(s.query(r));
        const DeviceArray<SketchQuery> queriesDevice(queries);
        const DeviceArray<SketchRows> together(std::vector<SketchRows>{{0, c.rows}});
        std::vector<SketchRows> each;
        for (int r = 0; r < c.rows; ++r)
            each.push_back({r, 1});
        const DeviceArray<SketchRows> apart(each);
        std::vector<std::vector<std::int32_t>> first;
        std::vector<std::vector<float2>> firstLines;
        std::vector<std::vector<float>> firstLifts;
        const auto asFirst = [&](int r) {
            const std::vector<float2> lines = s.work[std::size_t(r)].lines.download();
            return s.picks(r) == first[std::size_t(r)] && s.lifts(r) == firstLifts[std::size_t(r)] &&
                   (c.k == 0 ||
                    std::memcmp(lines.data(), firstLines[std::size_t(r)].data(), lines.size() * sizeof(float2)) == 0);
        };
        for (int round = 0; round < 3; ++round) { // together, again with the work space as it was left, apart
            OCTAVO_REQUIRE(launchSketchPick(queriesDevice.data(), c.rows, round < 2 ? together.data() : apart.data(),
                                            round < 2 ? 1 : c.rows, round < 2 ? c.rows : 1, c.heads, c.kvHeads,
                                            c.end + c.rows, nullptr, SketchWay::Kernels));
            for (int r = 0; r < c.rows; ++r) {
                if (round == 0) {
                    checkRow(report, c.what, s, r);
                    first.push_back(s.picks(r));
                    firstLifts.push_back(s.lifts(r));
                    firstLines.push_back(s.work[std::size_t(r)].lines.download());
                    continue;
                }
                report.expect(asFirst(r), "sketch pick %s heads=%d end=%d: round %d differs in row %d", c.what, c.heads,
                              c.end, round, r);
            }
        }
        if (c.rows == 1 && c.pattern == Pattern::Random && !s.priority())
            checkAgreement(report, s);
        // Only equal keys are worth a look at every group; boosts leave few of them.
        const bool equal = (c.pattern == Pattern::EqualTokens || c.pattern == Pattern::NoQuery) &&
                           c.end - c.begin > sketchCandidates(c.k) && !s.priority();
        for (int r = 0; r < c.rows && c.pattern != Pattern::FewTokens; ++r)
            report.expect(s.exhaustive(r) == (equal ? 3 : 0),
                          "sketch pick %s heads=%d end=%d row %d: %d of 3 selections scored all groups", c.what,
                          c.heads, c.end, r, s.exhaustive(r));
        if (isLargeSm90() && c.k > 0) { // the way of few queries itself, which launchSketchPick() may leave out
            s.work.front().poisonResults();
            report.expect(launchSketchPickFew(queriesDevice.data(), 1, c.heads, c.kvHeads, c.end + c.rows, nullptr) ==
                                  cudaSuccess &&
                              asFirst(0),
                          "sketch pick %s heads=%d end=%d: not in one launch", c.what, c.heads, c.end);
        }
        // As few queries as go in one launch: one and two by turns, time after time.
        for (int r = 0, few = 1; r < c.rows; r += few, few = std::min(3 - few, c.rows - r)) {
            for (int time = 0; time < 3; ++time) {
                for (int q = r; q < r + few; ++q)
                    s.work[std::size_t(q)].poisonResults();
                OCTAVO_REQUIRE(launchSketchPick(queriesDevice.data() + r, few, apart.data(), few, 1, c.heads, c.kvHeads,
                                                c.end + c.rows, nullptr));
                for (int q = r; q < r + few; ++q)
                    report.expect(asFirst(q), "sketch pick %s heads=%d end=%d: row %d differs, %d together, time %d",
                                  c.what, c.heads, c.end, q, few, time);
            }
        }
    }
}

/// Launches whose blocks wait for each other, on two streams at once, one and two queries each.
void checkBesideEachOther(Report& report)
{
    Random random(34);
    constexpr int heads = 24, kvHeads = 4, end = 60000, rounds = 200;
    struct Side {
        Sequence sequence;
        DeviceArray<SketchQuery> queries;
        DeviceArray<SketchRows> each;
        std::vector<std::vector<std::int32_t>> want;
        cudaStream_t stream = nullptr;
    };
    std::vector<Side> sides;
    for (const int rows : {1, 2}) {
        sides.push_back({Sequence(random, heads, kvHeads, 64, end, rows, 2048, Pattern::Random), {}, {}, {}});
        Side& side = sides.back();
        side.sequence.alpha = 0.1;
        side.sequence.quantise();
        std::vector<SketchQuery> queries;
        std::vector<SketchRows> each;
        for (int r = 0; r < rows; ++r) {
            queries.push_back(side.sequence.query(r));
            each.push_back({r, 1});
        }
        side.queries = DeviceArray<SketchQuery>(queries);
        side.each = DeviceArray<SketchRows>(each);
        OCTAVO_REQUIRE(cudaStreamCreateWithFlags(&side.stream, cudaStreamNonBlocking));
    }
    const auto pick = [&](Side& side, SketchWay way) {
        OCTAVO_REQUIRE(launchSketchPick(side.queries.data(), side.sequence.rows, side.each.data(), side.sequence.rows,
                                        1, heads, kvHeads, end + 2, side.stream, way));
    };
    for (Side& side : sides) {
        pick(side, SketchWay::Kernels);
        for (int r = 0; r < side.sequence.rows; ++r)
            side.want.push_back(side.sequence.picks(r));
    }
    for (int round = 0; round < rounds; ++round)
        for (Side& side : sides)
            pick(side, SketchWay::Best);
    for (Side& side : sides) {
        for (int r = 0; r < side.sequence.rows; ++r)
            report.expect(side.sequence.picks(r) == side.want[std::size_t(r)],
                          "sketch pick: row %d of %d differs beside another stream's picks", r, side.sequence.rows);
        OCTAVO_REQUIRE(cudaStreamDestroy(side.stream));
    }
}

/// Sequences of different lengths and numbers of rows in one launch give what each gives alone, time after time.
void checkBatches(Report& report)
{
    Random random(32);
    constexpr int heads = 24, kvHeads = 4, k = 2048;
    std::vector<Sequence> sequences;
    // So many that a block of a query takes several rounds of its groups, where a query alone has a block for each.
    for (const auto& [begin, end, rows] : {std::tuple{64, 30000, 1},
                                           {0, 9000, 8},
                                           {128, 16385, 3},
                                           {64, 70000, 2},
                                           {16384, 100001, 8},
                                           {50000, 66000, 8},
                                           {0, 98304, 8}})
        sequences.emplace_back(random, heads, kvHeads, begin, end, rows, k, Pattern::Random);
    std::vector<SketchQuery> queries;
    std::vector<SketchRows> rows;
    std::vector<std::vector<std::int32_t>> want;
    std::vector<std::vector<float>> wantLifts;
    for (std::size_t s = 0; s < sequences.size(); s += 2)
        sequences[s].alpha = 0.1;
    for (const Sequence& s : sequences) {
        rows.push_back({std::int32_t(queries.size()), s.rows});
        for (int r = 0; r < s.rows; ++r) {
            queries.push_back(s.query(r));
            const DeviceArray<SketchQuery> one(std::vector<SketchQuery>{s.query(r)});
            const DeviceArray<SketchRows> alone(std::vector<SketchRows>{{0, 1}});
            OCTAVO_REQUIRE(launchSketchPick(one.data(), 1, alone.data(), 1, 1, heads, kvHeads, s.end + r, nullptr));
            want.push_back(s.picks(r));
            wantLifts.push_back(s.lifts(r));
        }
    }
    const DeviceArray<SketchQuery> queriesDevice(queries);
    const DeviceArray<SketchRows> rowsDevice(rows);
    for (int round = 0; round < 5; ++round) {
        OCTAVO_REQUIRE(launchSketchPick(queriesDevice.data(), int(queries.size()), rowsDevice.data(), int(rows.size()),
                                        8, heads, kvHeads, 100008, nullptr));
        std::size_t at = 0;
        for (std::size_t s = 0; s < sequences.size(); ++s) {
            for (int r = 0; r < sequences[s].rows; ++r, ++at)
                report.expect(sequences[s].picks(r) == want[at] && sequences[s].lifts(r) == wantLifts[at],
                              "sketch pick, batch, round %d: row %d of sequence %zu differs", round, r, s);
        }
    }
    report.expect(launchSketchPick(nullptr, 1, nullptr, 1, 9, heads, kvHeads, 64, nullptr) == cudaErrorInvalidValue &&
                      launchSketchPick(nullptr, 1, nullptr, 1, 1, heads, kvHeads, sketchMaxTokens + 1, nullptr) ==
                          cudaErrorInvalidValue &&
                      launchSketchPick(nullptr, 1, nullptr, 1, 1, 34, 17, 64, nullptr) == cudaErrorInvalidValue,
                  "sketch pick takes what does not fit");
}

} // namespace

void checkSketch(Report& report)
{
    for (const auto& [heads, kvHeads, tokens] : {std::tuple{4, 2, 1000}, {24, 4, 5003}, {3, 3, 40}, {8, 1, 2100}})
        checkAppend(report, heads, kvHeads, tokens);
    checkPicks(report);
    checkBesideEachOther(report);
    checkBatches(report);
}

} // namespace octavo::gpu
