#include "engine/memory/sparse_attention.h"

#include "kernels/cpu/sparse_boost.h"
#include "kernels/cpu/sparse_math.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>

namespace octavo::engine {

namespace cpu = kernels::cpu;

namespace {

// Rows of one task of exact attention; part of the order in which sums run, so never a function of the threads.
constexpr std::int64_t chunkRows = 128;
constexpr int maxBoost = 4, maxHeadDim = 512;
// Rows that are asked for as soon as they are picked: what a second-level cache of 1 MiB holds.
constexpr std::int64_t rowsAhead = 2048;
// Blocks of sketches that the limits of candidates are taken from: the number of candidates is right within a tenth or
// so, and they lie so far apart that each takes as long as several blocks in a row.
constexpr std::int64_t leadSample = 256;

// Every so many-th block is taken.
std::int64_t sampleStride(std::int64_t tokens)
{
    return std::max<std::int64_t>(1, tokens / cpu::sketchBlockTokens / leadSample);
}
// What leads lack is never counted as more, where no floor says so; boosts are below it.
constexpr float mostLack = 30.0f;

template <typename Body>
void spread(const ParallelFor* parallel, std::int64_t count, const Body& body)
{
    if (parallel) {
        (*parallel)(count, std::cref(body));
    } else {
        for (std::int64_t task = 0; task < count; ++task)
            body(task);
    }
}

template <typename Items>
void growTo(Items& items, std::int64_t size)
{
    if (std::int64_t(items.size()) < size)
        items.resize(std::size_t(size));
}

} // namespace

ParallelFor serialFor()
{
    return [](std::int64_t count, const std::function<void(std::int64_t)>& body) {
        for (std::int64_t i = 0; i < count; ++i)
            body(i);
    };
}

const std::vector<std::int32_t>& SparseSequence::picks(int layer, int list) const
{
    return m_layers[std::size_t(layer)].picks[std::size_t(list)];
}

Result<SparseAttention> SparseAttention::create(const SketchBasis& basis, int numHeads, const SparseSettings& settings,
                                                cpu::Path path, ParallelFor parallel)
{
    if (numHeads % basis.numKvHeads != 0)
        return Error{ErrorCode::InvalidArgument, std::to_string(numHeads) + " query heads cannot share " +
                                                     std::to_string(basis.numKvHeads) + " KV heads evenly"};
    if (numHeads > cpu::maxSharingHeads)
        return Error{ErrorCode::Unsupported, std::to_string(numHeads) + " query heads are more than the " +
                                                 std::to_string(cpu::maxSharingHeads) + " that can be picked for"};
    OCTAVO_CHECK(settings.check());
    if (basis.rank % 16 != 0 || basis.deviations.empty())
        return Error{ErrorCode::Unsupported, "the sketch basis has rank " + std::to_string(basis.rank) +
                                                 (basis.deviations.empty() ? " and no deviations" : "") +
                                                 "; a multiple of 16 and deviations are needed: write it anew with "
                                                 "octavo-engine eval fit-basis"};
    const cpu::RowShape row{basis.headDim};
    const int count = settings.perHead ? basis.numKvHeads : 1;
    const std::size_t rowsTogether = std::size_t(basis.numKvHeads / count);
    std::vector<List> lists;
    for (int i = 0; i < count; ++i) {
        OCTAVO_TRY(HotBuffer hot, HotBuffer::create(rowsTogether * row.int4Bytes(), settings.hotBufferBytes / count));
        lists.emplace_back(std::move(hot));
    }
    return SparseAttention(basis, std::move(lists), numHeads, settings, path, std::move(parallel));
}

SparseAttention::SparseAttention(const SketchBasis& basis, std::vector<List>&& lists, int numHeads,
                                 const SparseSettings& settings, cpu::Path path, ParallelFor parallel)
    : m_basis(basis)
    , m_shape{basis.numLayers, basis.numKvHeads, basis.headDim, basis.rank}
    , m_numHeads(numHeads)
    , m_settings(settings)
    , m_path(path)
    , m_parallel(std::move(parallel))
    , m_scale(1.0f / std::sqrt(float(basis.headDim)))
    , m_lists(std::move(lists))
    , m_part(numHeads, basis.headDim)
{
    for (List& list : m_lists) {
        const auto heads = std::size_t(headsPerList());
        list.sketchQueries.resize(heads);
        list.rowQueries.resize(heads);
        list.scores.resize(heads);
        list.leads.resize(heads);
        list.limits.resize(heads);
        list.units.resize(heads);
        list.boostedLimits.resize(heads * cpu::boostPeriod);
        list.logSums.resize(heads);
        list.kept.resize(heads);
    }
}

Result<std::unique_ptr<SparseSequence>> SparseAttention::createSequence(std::int64_t maxTokens)
{
    OCTAVO_TRY(HostTier tier, HostTier::create(m_shape, maxTokens));
    std::unique_ptr<SparseSequence> sequence(new SparseSequence(std::move(tier), m_shape.numLayers));
    for (auto& layer : sequence->m_layers)
        layer.picks.resize(std::size_t(lists()));
    return sequence;
}

Result<std::unique_ptr<SparseSequence>> SparseAttention::forkSequence(const SparseSequence& source, std::int64_t tokens,
                                                                      std::int64_t maxTokens)
{
    OCTAVO_TRY(HostTier tier, source.m_tier.fork(tokens, maxTokens));
    std::unique_ptr<SparseSequence> sequence(new SparseSequence(std::move(tier), m_shape.numLayers));
    for (auto& layer : sequence->m_layers)
        layer.picks.resize(std::size_t(lists()));
    return sequence;
}

void SparseAttention::prepareLists(SparseSequence& sequence)
{
    for (auto& layer : sequence.m_layers) {
        while (int(layer.lanes.size()) < lists())
            layer.lanes.push_back(m_lists[layer.lanes.size()].hot.addLane(sequence.m_tier.maxTokens()));
    }
}

void SparseAttention::destroySequence(std::unique_ptr<SparseSequence> sequence)
{
    if (!sequence)
        return;
    for (const auto& layer : sequence->m_layers) {
        for (std::size_t list = 0; list < layer.lanes.size(); ++list)
            m_lists[list].hot.removeLane(layer.lanes[list]);
    }
}

void SparseAttention::beginStep()
{
    for (List& list : m_lists)
        list.hot.beginStep();
}

SparseCounters SparseAttention::counters() const
{
    SparseCounters sum = m_tails;
    for (const List& list : m_lists) {
        sum.attends += list.counters.attends;
        sum.pickedRows += list.counters.pickedRows;
        sum.repeatedPicks += list.counters.repeatedPicks;
    }
    return sum;
}

HotCounters SparseAttention::hotCounters() const
{
    HotCounters sum;
    for (const List& list : m_lists)
        sum += list.hot.total();
    return sum;
}

std::int64_t SparseAttention::hotRowsInUse() const
{
    std::int64_t sum = 0;
    for (const List& list : m_lists)
        sum += list.hot.rowsInUse();
    return sum;
}

Result<void> SparseAttention::prepareAppend(SparseSequence& sequence, std::int64_t begin, std::int64_t count)
{
    OCTAVO_CHECK(sequence.m_tier.prepareWrite(begin, begin + count));
    for (const auto& layer : sequence.m_layers) {
        for (std::size_t list = 0; list < layer.lanes.size(); ++list)
            m_lists[list].hot.truncate(layer.lanes[list], begin);
    }
    return {};
}

void SparseAttention::append(SparseSequence& sequence, int layer, std::int64_t begin, std::int64_t count,
                             const float* keys, std::int64_t keyStride, const float* values, std::int64_t valueStride)
{
    // One task per sketch block, whose tokens share bytes.
    const std::int64_t firstBlock = begin / cpu::sketchBlockTokens;
    const std::int64_t blocks = (begin + count + cpu::sketchBlockTokens - 1) / cpu::sketchBlockTokens - firstBlock;
    m_parallel(blocks, [&](std::int64_t task) {
        const std::int64_t blockBegin = (firstBlock + task) * cpu::sketchBlockTokens;
        const std::int64_t from = std::max(begin, blockBegin);
        const std::int64_t to = std::min(begin + count, blockBegin + cpu::sketchBlockTokens);
        float coordinates[cpu::maxSketchRank], centred[maxHeadDim];
        for (std::int64_t token = from; token < to; ++token) {
            for (int head = 0; head < m_shape.numKvHeads; ++head) {
                const float* key = keys + (token - begin) * keyStride + std::int64_t(head) * m_shape.headDim;
                const float* value = values + (token - begin) * valueStride + std::int64_t(head) * m_shape.headDim;
                const float* mean = m_basis.mean(layer, head);
                for (int d = 0; d < m_shape.headDim; ++d)
                    centred[d] = key[d] - mean[d];
                sequence.m_tier.writeRow(m_path, layer, token, head, centred, value);
                cpu::project(m_path, m_shape.rank, m_shape.headDim, m_basis.basis(layer, head), nullptr, centred,
                             coordinates);
                sequence.m_tier.writeSketch(layer, token, head, coordinates, m_basis.deviation(layer, head));
            }
        }
    });
}

void SparseAttention::projectQueries(List& work, int layer, int list, const float* queries)
{
    const int group = m_numHeads / m_shape.numKvHeads, heads = headsPerList();
    float coordinates[cpu::maxSketchRank];
    for (int i = 0; i < heads; ++i) {
        const int head = list * heads + i;
        cpu::project(m_path, m_shape.rank, m_shape.headDim, m_basis.basis(layer, head / group), nullptr,
                     queries + std::int64_t(head) * m_shape.headDim, coordinates);
        work.sketchQueries[std::size_t(i)] =
            cpu::makeSketchQuery(m_shape.rank, coordinates, m_basis.deviation(layer, head / group), m_scale);
    }
}

void SparseAttention::scoreAll(List& work, const SparseSequence& sequence, int layer, int list, std::int64_t begin,
                               std::int64_t end, const ParallelFor* parallel)
{
    const int group = m_numHeads / m_shape.numKvHeads, heads = headsPerList();
    for (auto& scores : work.scores)
        growTo(scores, sequence.m_tier.maxTokens());
    const std::int64_t pageTokens = m_shape.pageTokens();
    const std::int64_t firstPage = begin / pageTokens, pages = (end + pageTokens - 1) / pageTokens - firstPage;
    growTo(work.pageSums, heads * pages);
    spread(parallel, pages * kvHeadsPerList(), [&](std::int64_t task) {
        const std::int64_t page = firstPage + task / kvHeadsPerList();
        const int first = int(task % kvHeadsPerList()) * group; // of the list's heads
        const std::int64_t from = std::max(begin, page * pageTokens), to = std::min(end, (page + 1) * pageTokens);
        const cpu::SketchView sketches = sequence.m_tier.sketches(layer, from, (list * heads + first) / group);
        for (int i = first; i < first + group; i += 4) {
            float* out[4];
            const int together = std::min(4, first + group - i);
            for (int j = 0; j < together; ++j)
                out[j] = work.scores[std::size_t(i + j)].data() + (from - begin);
            cpu::scoreSketches(m_path, m_shape.rank, sketches, (to - from) / cpu::sketchBlockTokens,
                               &work.sketchQueries[std::size_t(i)], together, out);
            for (int j = 0; j < together; ++j)
                work.pageSums[std::size_t((i + j) * pages + page - firstPage)] =
                    cpu::roughLogSum(m_path, out[j], to - from);
        }
    });
    for (int i = 0; i < heads; ++i) {
        const cpu::LogSum* sums = &work.pageSums[std::size_t(i * pages)];
        float maximum = sums[0].maximum, sum = 0.0f;
        for (std::int64_t page = 1; page < pages; ++page)
            maximum = std::max(maximum, sums[page].maximum);
        for (std::int64_t page = 0; page < pages; ++page)
            sum += sums[page].sum * cpu::expNonPositive(sums[page].maximum - maximum);
        work.logSums[std::size_t(i)] = maximum + std::log(sum);
    }
}

std::int64_t SparseAttention::mostPicksOf(std::int64_t count) const
{
    return std::min(count, picksOf(count) * (m_settings.adaptive ? maxBoost : 1));
}

bool SparseAttention::looksAtLeads(std::int64_t count, std::int64_t wanted) const
{
    return m_settings.pickRule == PickRule::Priority && m_settings.lookAt != 0.0 && kvHeadsPerList() == 1 &&
           2.0 * m_settings.lookAt * double(wanted) <= double(count);
}

void SparseAttention::askForLeads(const SparseSequence& sequence, int layer, int list, std::int64_t begin,
                                  std::int64_t end) const
{
    const std::int64_t count = end - begin;
    if (!looksAtLeads(count, mostPicksOf(count)))
        return;
    const std::int64_t step = sampleStride(count) * cpu::sketchBlockTokens;
    for (std::int64_t token = begin; token < end; token += step)
        cpu::askForLeads(m_shape.rank, sequence.m_tier.sketches(layer, token, list).leads);
    const std::int64_t pageEnd = std::min(end, (begin / m_shape.pageTokens() + 1) * m_shape.pageTokens());
    cpu::askForCandidates(m_shape.rank, sequence.m_tier.sketches(layer, begin, list),
                          (pageEnd - begin) / cpu::sketchBlockTokens);
}

void SparseAttention::sampleLeads(List& work, const SparseSequence& sequence, int layer, int list, std::int64_t begin,
                                  std::int64_t end, std::int64_t stride)
{
    const std::int64_t pageTokens = m_shape.pageTokens(), step = stride * cpu::sketchBlockTokens;
    std::int64_t sampled = 0;
    for (auto& leads : work.leads)
        growTo(leads, (end - begin + step - 1) / step * cpu::sketchBlockTokens);
    for (std::int64_t token = begin; token < end;) {
        const std::int64_t pageEnd = std::min(end, (token / pageTokens + 1) * pageTokens);
        const std::int64_t blocks = (pageEnd - token + step - 1) / step;
        std::int32_t* out[cpu::maxSharingHeads];
        for (std::size_t i = 0; i < work.leads.size(); ++i)
            out[i] = work.leads[i].data() + sampled;
        cpu::scoreLeads(m_path, m_shape.rank, sequence.m_tier.sketches(layer, token, list).leads, blocks, stride,
                        work.sketchQueries.data(), headsPerList(), out);
        sampled += blocks * cpu::sketchBlockTokens;
        token += blocks * step;
    }
}

cpu::LeadRule SparseAttention::ruleOf(List& work, double target, std::int64_t sampled, std::int64_t count)
{
    const auto wanted = std::max<std::int64_t>(1, std::llround(target * double(sampled) / double(count)));
    // So that priorityFloor of the target are candidates whatever their leads.
    const double mostForFloor = -std::log(m_settings.priorityFloor * target / double(count));
    const float most = float(std::min(double(mostLack), mostForFloor));
    for (std::size_t i = 0; i < work.limits.size(); ++i) {
        auto& leads = work.leads[i];
        work.units[i] = work.sketchQueries[i].leadUnit;
        cpu::addBoosts(m_path, work.units[i], leads.data(), sampled);
        work.limits[i] = cpu::limitReachedBy(m_path, leads.data(), sampled, wanted);
        cpu::fillBoostedLimits(m_path, work.limits[i], work.units[i], most,
                               &work.boostedLimits[i * std::size_t(cpu::boostPeriod)]);
    }
    return {work.limits.data(), work.units.data(), most, work.boostedLimits.data()};
}

void SparseAttention::sumCandidates(List& work, std::int64_t candidates)
{
    growTo(work.lifted, candidates);
    for (std::size_t i = 0; i < work.scores.size(); ++i) {
        cpu::addLifts(m_path, work.scores[i].data(), work.lacks.data(), candidates, work.lifted.data());
        const cpu::LogSum sum = cpu::roughLogSum(m_path, work.lifted.data(), candidates);
        work.logSums[i] = sum.maximum + std::log(sum.sum);
    }
}

std::int64_t SparseAttention::scoreCandidates(List& work, const SparseSequence& sequence, int layer, int list,
                                              std::int64_t begin, std::int64_t end, std::int64_t wanted,
                                              const ParallelFor* parallel)
{
    const std::int64_t count = end - begin, blocks = count / cpu::sketchBlockTokens;
    if (!looksAtLeads(count, wanted))
        return 0;
    const std::int64_t stride = sampleStride(count);
    const std::int64_t sampled = (blocks + stride - 1) / stride * cpu::sketchBlockTokens;
    sampleLeads(work, sequence, layer, list, begin, end, stride);
    const cpu::LeadRule rule = ruleOf(work, m_settings.lookAt * double(wanted), sampled, count);

    const int heads = headsPerList();
    constexpr std::int64_t slack = cpu::sketchBlockTokens; // that scoreCandidates() may write beyond what it returns
    const std::int64_t pageTokens = m_shape.pageTokens();
    const std::int64_t firstPage = begin / pageTokens, pages = (end + pageTokens - 1) / pageTokens - firstPage;
    const std::int64_t room = count + pages * slack;
    growTo(work.candidates, room);
    growTo(work.lacks, room);
    growTo(work.pageCounts, pages);
    for (auto& scores : work.scores)
        growTo(scores, room);
    const auto scorePage = [&](std::int64_t page, std::int64_t place) {
        const std::int64_t from = std::max(begin, (firstPage + page) * pageTokens);
        const std::int64_t to = std::min(end, (firstPage + page + 1) * pageTokens);
        if (to < end) // what the processor cannot foresee
            cpu::askForCandidates(m_shape.rank, sequence.m_tier.sketches(layer, to, list),
                                  std::min(pageTokens, end - to) / cpu::sketchBlockTokens);
        float* out[cpu::maxSharingHeads];
        for (int i = 0; i < heads; ++i)
            out[i] = work.scores[std::size_t(i)].data() + place;
        return cpu::scoreCandidates(m_path, m_shape.rank, sequence.m_tier.sketches(layer, from, list),
                                    (to - from) / cpu::sketchBlockTokens, work.sketchQueries.data(), heads, rule,
                                    std::int32_t(from), work.candidates.data() + place, work.lacks.data() + place, out);
    };
    std::int64_t found = 0;
    if (!parallel) { // one page's candidates behind the other's, so that few lines are written
        for (std::int64_t page = 0; page < pages; ++page)
            found += scorePage(page, found);
    } else {
        const auto placeOf = [&](std::int64_t page) {
            return std::max(begin, (firstPage + page) * pageTokens) - begin + page * slack;
        };
        spread(parallel, pages, [&](std::int64_t page) {
            work.pageCounts[std::size_t(page)] = scorePage(page, placeOf(page));
        });
        for (std::int64_t page = 0; page < pages; ++page) {
            const std::int64_t from = placeOf(page), more = work.pageCounts[std::size_t(page)];
            std::copy_n(work.candidates.begin() + from, more, work.candidates.begin() + found);
            std::copy_n(work.lacks.begin() + from, more, work.lacks.begin() + found);
            for (auto& scores : work.scores)
                std::copy_n(scores.begin() + from, more, scores.begin() + found);
            found += more;
        }
    }
    if (found < wanted) // the sample misled: rare, and true of this row alone, so it may take long
        return 0;
    sumCandidates(work, found);
    return found;
}

void SparseAttention::choose(List& work, const cpu::PriorityTokens& tokens, std::int64_t wanted)
{
    if (m_settings.pickRule == PickRule::Largest) {
        work.lifts.clear();
        cpu::selectLargest(m_path, tokens.shared, tokens.n, wanted, work.select.select, work.picks, work.kept.data());
        return;
    }
    cpu::selectByPriority(m_path, tokens, wanted, work.select, work.picks, work.lifts);
    if (m_settings.adaptive)
        cpu::sumShares(tokens.shared, work.picks, work.kept.data());
}

void SparseAttention::pick(List& work, SparseSequence& sequence, int layer, int list, std::int64_t begin,
                           std::int64_t end, const float* queries, AttentionPart& part, const ParallelFor* parallel)
{
    const std::int64_t count = end - begin;
    const int heads = headsPerList(), group = m_numHeads / m_shape.numKvHeads;
    const int most = m_settings.adaptive ? maxBoost : 1;
    std::int64_t wanted = picksOf(count);
    float* tailLog = part.tailLog.data() + list * heads;
    std::fill_n(tailLog, heads, -std::numeric_limits<float>::infinity());
    work.lifts.clear();
    if (wanted == count) {
        work.picks.resize(std::size_t(count));
        std::iota(work.picks.begin(), work.picks.end(), std::int32_t(begin));
    } else {
        projectQueries(work, layer, list, queries);
        const std::int64_t candidates =
            scoreCandidates(work, sequence, layer, list, begin, end, mostPicksOf(count), parallel);
        if (candidates == 0)
            scoreAll(work, sequence, layer, list, begin, end, parallel);
        const float* scores[cpu::maxSharingHeads];
        for (int i = 0; i < heads; ++i)
            scores[i] = work.scores[std::size_t(i)].data();
        const cpu::PriorityTokens tokens{
            .shared = {scores, work.logSums.data(), heads},
            .n = candidates > 0 ? candidates : count,
            .tokens = candidates > 0 ? work.candidates.data() : nullptr,
            .first = std::int32_t(begin),
            .lacks = candidates > 0 ? work.lacks.data() : nullptr,
            .floor = float(std::log(m_settings.priorityFloor / double(count)))};
        for (int left = most;; left /= 2, wanted = std::min(tokens.n, 2 * wanted)) {
            choose(work, tokens, wanted);
            // Of the row's own scores alone, so that the budget does not depend on what was decoded before.
            if (left == 1 || 1.0 - double(*std::ranges::min_element(work.kept)) <= m_settings.adaptiveTail)
                break;
        }
        for (int i = 0; m_settings.pickRule == PickRule::Largest && i < heads; ++i) {
            const int head = list * heads + i;
            tailLog[i] = work.logSums[std::size_t(i)] +
                         meanScore(layer, head / group, queries + std::int64_t(head) * m_shape.headDim) +
                         std::log(std::max(1.0f - work.kept[std::size_t(i)], 1e-7f));
        }
        for (std::int32_t& token : work.picks)
            token = tokens.tokens ? tokens.tokens[token] : tokens.first + token;
    }
    std::swap(sequence.m_layers[std::size_t(layer)].picks[std::size_t(list)], work.picks);
}

void SparseAttention::findRows(List& work, const SparseSequence& sequence, int layer, int list)
{
    const auto& picks = sequence.m_layers[std::size_t(layer)].picks[std::size_t(list)];
    const std::int64_t numRows = std::int64_t(picks.size());
    growTo(work.pointers, kvHeadsPerList() * numRows);
    for (int i = 0; i < kvHeadsPerList(); ++i) {
        const std::uint8_t** rows = work.pointers.data() + i * numRows;
        sequence.m_tier.rows(layer, list * kvHeadsPerList() + i, picks, rows);
        cpu::askForRows(m_shape.row(), rows, int(std::min(numRows, rowsAhead)));
    }
}

void SparseAttention::countPicks(List& work, SparseSequence& sequence, int layer, int list)
{
    const auto& state = sequence.m_layers[std::size_t(layer)];
    const auto& picks = state.picks[std::size_t(list)];
    work.counters.repeatedPicks += work.hot.read(state.lanes[std::size_t(list)], picks);
    work.counters.pickedRows += std::int64_t(picks.size());
    work.counters.attends += list == 0 ? 1 : 0;
}

void SparseAttention::attendPicked(List& work, const SparseSequence& sequence, int layer, int list,
                                   const float* queries, AttentionPart& part, const ParallelFor* parallel)
{
    const auto& picks = sequence.m_layers[std::size_t(layer)].picks[std::size_t(list)];
    const int group = m_numHeads / m_shape.numKvHeads, heads = headsPerList(), kvHeads = kvHeadsPerList();
    const std::int64_t dim = m_shape.headDim, numRows = std::int64_t(picks.size());
    const std::int64_t chunks = (numRows + chunkRows - 1) / chunkRows;
    const cpu::RowShape row = m_shape.row();
    for (int i = 0; i < heads; ++i)
        work.rowQueries[std::size_t(i)] =
            cpu::makeRowQuery(row, queries + std::int64_t(list * heads + i) * dim, m_scale);
    const std::int64_t perTask = group * (dim + 3) + cpu::attendWorkFloats(row, int(chunkRows), group);
    growTo(work.chunks, perTask * chunks * kvHeads);
    spread(parallel, chunks * kvHeads, [&](std::int64_t task) {
        const std::int64_t kvHead = task % kvHeads, from = task / kvHeads * chunkRows;
        float* context = work.chunks.data() + task * perTask;
        float* maximum = context + group * dim;
        cpu::attendRows(m_path, row, work.pointers.data() + kvHead * numRows + from,
                        work.lifts.empty() ? nullptr : work.lifts.data() + from,
                        int(std::min(numRows - from, chunkRows)), &work.rowQueries[std::size_t(kvHead * group)], group,
                        maximum + 3 * group, context, maximum, maximum + group, maximum + 2 * group);
    });
    for (int i = 0; i < heads; ++i) {
        const int head = list * heads + i;
        const std::int64_t kvHead = i / group, inGroup = i % group;
        const auto done = [&](std::int64_t chunk) { return work.chunks.data() + (chunk * kvHeads + kvHead) * perTask; };
        float highest = -std::numeric_limits<float>::infinity(), sum = 0.0f, added = 0.0f;
        float* context = part.context.data() + head * dim;
        std::fill_n(context, dim, 0.0f);
        for (std::int64_t chunk = 0; chunk < chunks; ++chunk)
            highest = std::max(highest, done(chunk)[group * dim + inGroup]);
        for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
            const float* numbers = done(chunk) + group * dim; // maxima, sums, of those what lifts added
            const float weight = cpu::expNonPositive(numbers[inGroup] - highest);
            sum += numbers[group + inGroup] * weight;
            added += numbers[2 * group + inGroup] * weight;
            for (std::int64_t d = 0; d < dim; ++d)
                context[d] += done(chunk)[inGroup * dim + d] * weight;
        }
        const float mean = meanScore(layer, list * kvHeads + int(kvHead), queries + std::int64_t(head) * dim);
        part.maximum[std::size_t(head)] = highest + mean;
        part.sum[std::size_t(head)] = sum;
        if (!work.lifts.empty())
            part.tailLog[std::size_t(head)] = highest + mean + std::log(added);
    }
}

float SparseAttention::meanScore(int layer, int kvHead, const float* query) const
{
    constexpr int lanes = 16;
    const float* mean = m_basis.mean(layer, kvHead);
    float sums[lanes] = {};
    for (int d = 0; d < m_shape.headDim; d += lanes) {
        for (int l = 0; l < lanes; ++l)
            sums[l] += mean[d + l] * query[d + l];
    }
    return cpu::sumLanes(sums) * m_scale;
}

void SparseAttention::attendList(SparseSequence& sequence, int layer, int list, std::int64_t begin, std::int64_t end,
                                 const float* queries, AttentionPart& part, const ParallelFor* parallel)
{
    assert(begin < end && begin % cpu::sketchBlockTokens == 0 && end % cpu::sketchBlockTokens == 0);
    List& work = m_lists[std::size_t(list)];
    pick(work, sequence, layer, list, begin, end, queries, part, parallel);
    findRows(work, sequence, layer, list);
    countPicks(work, sequence, layer, list);
    attendPicked(work, sequence, layer, list, queries, part, parallel);
}

const AttentionPart& SparseAttention::attend(SparseSequence& sequence, int layer, std::int64_t begin, std::int64_t end,
                                             const float* queries)
{
    prepareLists(sequence);
    for (int list = 0; list < lists(); ++list)
        attendList(sequence, layer, list, begin, end, queries, m_part, &m_parallel);
    return m_part;
}

void SparseAttention::noteTail(SparseSequence& sequence, int layer, std::span<const float> tailLog,
                               std::span<const float> totalLog)
{
    auto& state = sequence.m_layers[std::size_t(layer)];
    double tail = 0.0;
    for (std::size_t head = 0; head < std::size_t(m_numHeads); ++head) {
        const double left = std::exp(std::min(80.0, double(tailLog[head]) - double(totalLog[head])));
        tail += (m_settings.pickRule == PickRule::Priority ? std::min(1.0, left) : left / (1.0 + left)) / m_numHeads;
    }
    state.tail = tail;
    m_tails.tailSum += tail;
    ++m_tails.tailCount;
}

} // namespace octavo::engine
