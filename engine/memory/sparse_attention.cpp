#include "engine/memory/sparse_attention.h"

#include "kernels/cpu/sparse_math.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

namespace octavo::engine {

namespace cpu = kernels::cpu;

namespace {

// Rows of one task of exact attention; part of the order in which sums run, so never a function of the threads.
constexpr std::int64_t chunkRows = 512;
constexpr int maxBoost = 4;

std::int64_t sharedItems(const std::vector<std::int32_t>& a, const std::vector<std::int32_t>& b)
{
    std::int64_t count = 0;
    for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
        if (a[i] < b[j]) {
            ++i;
        } else if (b[j] < a[i]) {
            ++j;
        } else {
            ++count, ++i, ++j;
        }
    }
    return count;
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
    if (settings.topK < 1)
        return Error{ErrorCode::InvalidArgument, "the number of picks must be at least 1"};
    const cpu::RowShape row{basis.headDim};
    const std::size_t rowsTogether = settings.perHead ? 1 : std::size_t(basis.numKvHeads);
    OCTAVO_TRY(HotBuffer hot, HotBuffer::create(rowsTogether * row.int8Bytes(), rowsTogether * row.int4Bytes(),
                                                settings.hotBufferBytes));
    return SparseAttention(basis, std::move(hot), numHeads, settings, path, std::move(parallel));
}

SparseAttention::SparseAttention(const SketchBasis& basis, HotBuffer&& hot, int numHeads,
                                 const SparseSettings& settings, cpu::Path path, ParallelFor parallel)
    : m_basis(basis)
    , m_shape{basis.numLayers, basis.numKvHeads, basis.headDim, basis.rank}
    , m_numHeads(numHeads)
    , m_settings(settings)
    , m_path(path)
    , m_parallel(std::move(parallel))
    , m_hot(std::move(hot))
    , m_scale(1.0f / std::sqrt(float(basis.headDim)))
    , m_queries(std::size_t(numHeads))
    , m_scores(std::size_t(numHeads))
    , m_keys(std::size_t(lists()))
    , m_logSums(std::size_t(numHeads))
    , m_select(std::size_t(lists()))
    , m_picks(std::size_t(lists()))
    , m_pointers(std::size_t(basis.numKvHeads))
{
    m_part.maximum.resize(std::size_t(numHeads));
    m_part.sum.resize(std::size_t(numHeads));
    m_part.tailLog.resize(std::size_t(numHeads));
    m_part.context.resize(std::size_t(numHeads) * std::size_t(basis.headDim));
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

void SparseAttention::addLanes(SparseSequence& sequence, int layer)
{
    auto& lanes = sequence.m_layers[std::size_t(layer)].lanes;
    while (int(lanes.size()) < lists())
        lanes.push_back(m_hot.addLane(sequence.m_tier.maxTokens()));
}

void SparseAttention::destroySequence(std::unique_ptr<SparseSequence> sequence)
{
    if (!sequence)
        return;
    for (const auto& layer : sequence->m_layers) {
        for (const HotBuffer::LaneId lane : layer.lanes)
            m_hot.removeLane(lane);
    }
}

Result<void> SparseAttention::prepareAppend(SparseSequence& sequence, std::int64_t begin, std::int64_t count)
{
    OCTAVO_CHECK(sequence.m_tier.prepareWrite(begin, begin + count));
    for (const auto& layer : sequence.m_layers) {
        for (const HotBuffer::LaneId lane : layer.lanes)
            m_hot.truncate(lane, begin);
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
        float coordinates[cpu::maxSketchRank];
        for (std::int64_t token = from; token < to; ++token) {
            for (int head = 0; head < m_shape.numKvHeads; ++head) {
                const float* key = keys + (token - begin) * keyStride + std::int64_t(head) * m_shape.headDim;
                const float* value = values + (token - begin) * valueStride + std::int64_t(head) * m_shape.headDim;
                sequence.m_tier.writeRow(layer, token, head, key, value);
                cpu::project(m_path, m_shape.rank, m_shape.headDim, m_basis.basis(layer, head),
                             m_basis.mean(layer, head), key, coordinates);
                sequence.m_tier.writeSketch(layer, token, head, coordinates);
            }
        }
    });
}

void SparseAttention::score(const SparseSequence& sequence, int layer, std::int64_t begin, std::int64_t end,
                            const float* queries)
{
    const int group = m_numHeads / m_shape.numKvHeads;
    float coordinates[cpu::maxSketchRank];
    for (int head = 0; head < m_numHeads; ++head) {
        cpu::project(m_path, m_shape.rank, m_shape.headDim, m_basis.basis(layer, head / group), nullptr,
                     queries + std::int64_t(head) * m_shape.headDim, coordinates);
        m_queries[std::size_t(head)] = cpu::makeSketchQuery(m_shape.rank, coordinates, m_scale);
        auto& scores = m_scores[std::size_t(head)];
        if (std::int64_t(scores.size()) < end - begin)
            scores.resize(std::size_t(sequence.m_tier.maxTokens()));
    }
    const std::int64_t pageTokens = m_shape.pageTokens();
    const std::int64_t firstPage = begin / pageTokens, pages = (end + pageTokens - 1) / pageTokens - firstPage;
    m_pageSums.resize(std::size_t(m_numHeads * pages));
    m_parallel(pages * m_shape.numKvHeads, [&](std::int64_t task) {
        const std::int64_t page = firstPage + task / m_shape.numKvHeads;
        const int kvHead = int(task % m_shape.numKvHeads);
        const std::int64_t from = std::max(begin, page * pageTokens), to = std::min(end, (page + 1) * pageTokens);
        const std::uint8_t* blocks =
            sequence.m_tier.sketchBlocks(layer, page, kvHead) +
            (from - page * pageTokens) / cpu::sketchBlockTokens * std::int64_t(cpu::sketchBlockBytes(m_shape.rank));
        std::vector<float*> out;
        out.reserve(std::size_t(group));
        for (int i = 0; i < group; ++i)
            out.push_back(m_scores[std::size_t(kvHead * group + i)].data() + (from - begin));
        cpu::scoreSketches(m_path, m_shape.rank, blocks, (to - from) / cpu::sketchBlockTokens,
                           &m_queries[std::size_t(kvHead * group)], group, out.data());
        for (int i = 0; i < group; ++i)
            m_pageSums[std::size_t((kvHead * group + i) * pages + page - firstPage)] =
                cpu::logSum(m_path, out[std::size_t(i)], to - from);
    });
    for (int head = 0; head < m_numHeads; ++head) {
        const cpu::LogSum* sums = &m_pageSums[std::size_t(head * pages)];
        float maximum = sums[0].maximum, sum = 0.0f;
        for (std::int64_t page = 1; page < pages; ++page)
            maximum = std::max(maximum, sums[page].maximum);
        for (std::int64_t page = 0; page < pages; ++page)
            sum += sums[page].sum * cpu::expNonPositive(sums[page].maximum - maximum);
        m_logSums[std::size_t(head)] = maximum + std::log(sum);
    }
}

void SparseAttention::pick(SparseSequence& sequence, int layer, std::int64_t begin, std::int64_t end,
                           const float* queries)
{
    auto& state = sequence.m_layers[std::size_t(layer)];
    const std::int64_t count = end - begin;
    const std::int64_t wanted = std::min<std::int64_t>(count, std::int64_t(m_settings.topK) * state.boost);
    for (auto& logs : m_part.tailLog)
        logs = -std::numeric_limits<float>::infinity();
    if (wanted == count) {
        for (auto& picks : m_picks) {
            picks.resize(std::size_t(count));
            for (std::int64_t i = 0; i < count; ++i)
                picks[std::size_t(i)] = std::int32_t(begin + i);
        }
    } else {
        score(sequence, layer, begin, end, queries);
        const std::int64_t pieces = (count + 8191) / 8192;
        for (auto& keys : m_keys) {
            if (std::int64_t(keys.size()) < count)
                keys.resize(std::size_t(sequence.m_tier.maxTokens()));
        }
        m_parallel(pieces * lists(), [&](std::int64_t task) {
            const auto list = std::size_t(task / pieces);
            const std::int64_t from = task % pieces * 8192, to = std::min(count, from + 8192);
            std::vector<const float*> scores;
            scores.reserve(std::size_t(headsPerList()));
            for (int i = 0; i < headsPerList(); ++i)
                scores.push_back(m_scores[list * std::size_t(headsPerList()) + std::size_t(i)].data() + from);
            cpu::shareKeys(m_path, scores.data(), &m_logSums[list * std::size_t(headsPerList())], headsPerList(),
                           to - from, m_keys[list].data() + from);
        });
        m_parallel(lists(), [&](std::int64_t list) {
            auto& picks = m_picks[std::size_t(list)];
            cpu::selectLargest(m_path, m_keys[std::size_t(list)].data(), count, wanted, m_select[std::size_t(list)], picks);
            // What the picks leave of each head's sum, by the sketch's own scores.
            for (int i = 0; i < headsPerList(); ++i) {
                const auto head = std::size_t(list * headsPerList() + i);
                float kept = 0.0f;
                for (const std::int32_t token : picks)
                    kept += cpu::expNonPositive(std::min(0.0f, m_scores[head][std::size_t(token)] - m_logSums[head]));
                m_part.tailLog[head] = m_logSums[head] + std::log(std::max(1.0f - kept, 1e-7f));
            }
            for (std::int32_t& token : picks)
                token += std::int32_t(begin);
        });
        // The sketch holds keys without their mean, whose product with the query all tokens share.
        const int group = m_numHeads / m_shape.numKvHeads;
        for (int head = 0; head < m_numHeads; ++head) {
            const float* mean = m_basis.mean(layer, head / group);
            float product = 0.0f;
            for (int i = 0; i < m_shape.headDim; ++i)
                product += mean[i] * queries[std::int64_t(head) * m_shape.headDim + i];
            m_part.tailLog[std::size_t(head)] += product * m_scale;
        }
    }
    for (int list = 0; list < lists(); ++list) {
        auto& before = state.picks[std::size_t(list)];
        auto& picks = m_picks[std::size_t(list)];
        m_counters.repeatedPicks += sharedItems(before, picks);
        m_counters.pickedRows += std::int64_t(picks.size());
        std::swap(before, picks);
    }
    ++m_counters.attends;
}

void SparseAttention::gather(SparseSequence& sequence, int layer, int list)
{
    auto& state = sequence.m_layers[std::size_t(layer)];
    const auto& picks = state.picks[std::size_t(list)];
    const cpu::RowShape row = m_shape.row();
    const int firstHead = m_settings.perHead ? list : 0;
    const int heads = m_settings.perHead ? 1 : m_shape.numKvHeads;
    m_rows.resize(picks.size());
    m_hot.acquire(state.lanes[std::size_t(list)], picks, m_rows);
    std::size_t homeless = 0;
    for (const HotBuffer::Row& slot : m_rows)
        homeless += slot.row ? 0 : 1;
    const std::size_t rowBytes = std::size_t(heads) * row.int8Bytes();
    // Other lists' rows may already lie in the overflow, so it grows up front and each list has its own stretch.
    const std::size_t stretch = std::size_t(m_settings.topK) * maxBoost * rowBytes;
    std::uint8_t* next = nullptr;
    if (homeless > 0) {
        if (m_overflow.size() < stretch * std::size_t(lists()))
            m_overflow.resize(stretch * std::size_t(lists()));
        next = m_overflow.data() + std::size_t(list) * stretch;
    }
    for (HotBuffer::Row& slot : m_rows) {
        if (!slot.row) {
            slot.row = next;
            next += rowBytes;
        }
    }
    const auto count = std::int64_t(picks.size());
    for (int head = 0; head < heads; ++head)
        m_pointers[std::size_t(firstHead + head)].resize(picks.size());
    m_parallel((count + 255) / 256, [&](std::int64_t task) {
        for (std::int64_t i = task * 256; i < std::min(count, (task + 1) * 256); ++i) {
            const HotBuffer::Row& slot = m_rows[std::size_t(i)];
            for (int head = 0; head < heads; ++head) {
                std::uint8_t* target = slot.row + std::size_t(head) * row.int8Bytes();
                if (slot.fill)
                    cpu::unpackRow(m_path, row, sequence.m_tier.row(layer, picks[std::size_t(i)], firstHead + head), target);
                m_pointers[std::size_t(firstHead + head)][std::size_t(i)] = target;
            }
        }
    });
}

void SparseAttention::attendPicked(SparseSequence& sequence, int layer, const float* queries)
{
    const int group = m_numHeads / m_shape.numKvHeads;
    const std::int64_t dim = m_shape.headDim;
    std::int64_t longest = 0;
    for (const auto& picks : sequence.m_layers[std::size_t(layer)].picks)
        longest = std::max(longest, std::int64_t(picks.size()));
    const std::int64_t chunks = (longest + chunkRows - 1) / chunkRows;
    // Per KV head and chunk: scores, contexts, maxima, sums of its query heads.
    const std::int64_t perTask = group * (chunkRows + dim + 2);
    if (std::int64_t(m_chunkWork.size()) < perTask * chunks * m_shape.numKvHeads)
        m_chunkWork.resize(std::size_t(perTask * chunks * m_shape.numKvHeads));
    m_parallel(chunks * m_shape.numKvHeads, [&](std::int64_t task) {
        const auto kvHead = std::size_t(task % m_shape.numKvHeads);
        const auto& rows = m_pointers[kvHead];
        const std::int64_t from = task / m_shape.numKvHeads * chunkRows;
        const std::int64_t count = std::min(std::int64_t(rows.size()) - from, chunkRows);
        float* work = m_chunkWork.data() + task * perTask;
        float* context = work + group * chunkRows;
        float* maximum = context + group * dim;
        cpu::attendRows(m_path, m_shape.row(), rows.data() + from, int(count),
                        queries + std::int64_t(kvHead) * group * dim, group, m_scale, work, context, maximum,
                        maximum + group);
    });
    for (int head = 0; head < m_numHeads; ++head) {
        const std::int64_t kvHead = head / group, inGroup = head % group;
        const auto work = [&](std::int64_t chunk) {
            return m_chunkWork.data() + (chunk * m_shape.numKvHeads + kvHead) * perTask + group * chunkRows;
        };
        float highest = -std::numeric_limits<float>::infinity(), sum = 0.0f;
        float* context = m_part.context.data() + head * dim;
        std::fill_n(context, dim, 0.0f);
        for (std::int64_t chunk = 0; chunk < chunks; ++chunk)
            highest = std::max(highest, work(chunk)[group * dim + inGroup]);
        for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
            const float weight = cpu::expNonPositive(work(chunk)[group * dim + inGroup] - highest);
            sum += work(chunk)[group * dim + group + inGroup] * weight;
            for (std::int64_t i = 0; i < dim; ++i)
                context[i] += work(chunk)[inGroup * dim + i] * weight;
        }
        m_part.maximum[std::size_t(head)] = highest;
        m_part.sum[std::size_t(head)] = sum;
    }
}

const AttentionPart& SparseAttention::attend(SparseSequence& sequence, int layer, std::int64_t begin, std::int64_t end,
                                             const float* queries)
{
    assert(begin < end && begin % cpu::sketchBlockTokens == 0 && end % cpu::sketchBlockTokens == 0);
    addLanes(sequence, layer);
    pick(sequence, layer, begin, end, queries);
    for (int list = 0; list < lists(); ++list)
        gather(sequence, layer, list);
    attendPicked(sequence, layer, queries);
    return m_part;
}

void SparseAttention::noteTail(SparseSequence& sequence, int layer, std::span<const float> tailLog,
                               std::span<const float> totalLog)
{
    auto& state = sequence.m_layers[std::size_t(layer)];
    double tail = 0.0;
    for (std::size_t head = 0; head < std::size_t(m_numHeads); ++head) {
        const double left = std::exp(std::min(80.0, double(tailLog[head]) - double(totalLog[head])));
        tail += left / (1.0 + left) / m_numHeads;
    }
    state.tail = tail;
    m_counters.tailSum += tail;
    ++m_counters.tailCount;
    if (m_settings.adaptive) {
        if (tail > m_settings.adaptiveTail)
            state.boost = std::min(maxBoost, state.boost * 2);
        else if (tail < m_settings.adaptiveTail / 2)
            state.boost = std::max(1, state.boost / 2);
    }
}

} // namespace octavo::engine
