#include "engine/backend/cuda_backend.h"

#include "engine/backend/sequence_refusal.h"
#include "kernels/cuda/argmax.h"
#include "kernels/cuda/attention_decode.h"
#include "kernels/cuda/kv_rows.h"
#include "kernels/cuda/row_copy.h"
#include "kernels/cuda/row_peak.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <numeric>

namespace octavo::engine
{

using namespace kernels::cuda;

namespace
{

constexpr std::int64_t mostPrefillBytes = 2'500'000'000;

std::string mib(std::int64_t bytes)
{
    return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB";
}

/// "0000:01:00.0"; empty where it is not known.
std::string busId(int device)
{
    char id[32] = {};
    if (cudaDeviceGetPCIBusId(id, sizeof id, device) != cudaSuccess) {
        cudaGetLastError();
        return {};
    }
    std::string name(id);
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return char(std::tolower(c)); });
    return name;
}

/// "PCIe 4 x16", the most that the link can do; empty where the kernel does not tell.
std::string linkOf(int device)
{
    const std::string name = busId(device);
    if (name.empty())
        return {};
    const std::string folder = "/sys/bus/pci/devices/" + name + "/";
    double speed = 0.0;
    int width = 0;
    std::ifstream(folder + "max_link_speed") >> speed;
    std::ifstream(folder + "max_link_width") >> width;
    const int generation = speed >= 64 ? 6 : speed >= 32 ? 5 : speed >= 16 ? 4 : speed >= 8 ? 3 : speed >= 5 ? 2 : 1;
    return speed > 0.0 && width > 0 ? "PCIe " + std::to_string(generation) + " x" + std::to_string(width)
                                    : std::string();
}

} // namespace

std::vector<DeviceDescription> listCudaDevices()
{
    std::vector<DeviceDescription> devices;
    int count = 0, driver = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess)
        count = 0;
    cudaDriverGetVersion(&driver);
    for (int device = 0; device < count; ++device) {
        cudaDeviceProp properties{};
        if (cudaGetDeviceProperties(&properties, device) != cudaSuccess)
            continue;
        if (properties.major * 10 + properties.minor < 86)
            continue;
        DeviceDescription description;
        description.device = "cuda:" + std::to_string(device);
        description.description = properties.name;
        std::size_t freeBytes = 0, totalBytes = properties.totalGlobalMem;
        if (cudaSetDevice(device) == cudaSuccess)
            cudaMemGetInfo(&freeBytes, &totalBytes);
        description.memoryTotalBytes = std::int64_t(totalBytes);
        description.memoryFreeBytes = std::int64_t(freeBytes);
        description.link = linkOf(device);
        description.driver = "CUDA " + std::to_string(driver / 1000) + "." + std::to_string(driver % 1000 / 10);
        devices.push_back(std::move(description));
    }
    cudaGetLastError(); // "no driver" is an answer here, not a failure of the next call
    return devices;
}

Result<std::unique_ptr<Backend>> makeCudaBackend(const ModelConfig& config, std::shared_ptr<const ModelWeights> weights,
                                                 const BackendOptions& options)
{
    return CudaBackend::create(config, std::move(weights), options);
}

void resetCudaDevice(const std::string& device)
{
    int index = 0;
    if (std::sscanf(device.c_str(), "cuda:%d", &index) == 1 && cudaSetDevice(index) == cudaSuccess)
        cudaDeviceReset();
    cudaGetLastError(); // what is left of the failure is not the next backend's
}

Result<std::unique_ptr<Backend>> CudaBackend::create(const ModelConfig& config,
                                                     std::shared_ptr<const ModelWeights> weights,
                                                     const BackendOptions& options)
{
    OCTAVO_CHECK(CudaModel::check(config));
    OCTAVO_CHECK(options.sparseSettings.check());
    auto backend = std::unique_ptr<CudaBackend>(new CudaBackend(config));
    OCTAVO_CHECK(backend->initialise(*weights, options));
    return std::unique_ptr<Backend>(std::move(backend));
}

CudaBackend::CudaBackend(const ModelConfig& config)
    : m_config(config)
{
    MemoryLayout layout;
    m_gdnOffsets.state = layout.add(std::int64_t(config.linearNumValueHeads) * gdnHeadDim * gdnHeadDim * 4);
    m_gdnOffsets.history = layout.add(std::int64_t(convHistory) * config.convDim() * 2);
    m_gdnOffsets.pendingInput = layout.add(std::int64_t(maxPending) * config.convDim() * 2);
    m_gdnOffsets.pendingQkv = layout.add(std::int64_t(maxPending) * config.convDim() * 2);
    m_gdnOffsets.pendingBeta = layout.add(std::int64_t(maxPending) * config.linearNumValueHeads * 2);
    m_gdnOffsets.pendingDecay = layout.add(std::int64_t(maxPending) * config.linearNumValueHeads * 2);
    m_gdnOffsets.bytes = layout.bytes();
}

CudaBackend::~CudaBackend()
{
    cudaSetDevice(m_device); // what follows frees its memory
}

Result<void> CudaBackend::initialise(const ModelWeights& weights, const BackendOptions& options)
{
    const std::string digits = options.device.substr(std::min<std::size_t>(5, options.device.size()));
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), m_device);
    if (error != std::errc() || end != digits.data() + digits.size())
        return Error{ErrorCode::InvalidArgument, "There is no device '" + options.device + "'; name one as cuda:0"};
    OCTAVO_CHECK(checkCuda(cudaSetDevice(m_device), "be selected"));
    cudaDeviceProp properties{};
    OCTAVO_CHECK(checkCuda(cudaGetDeviceProperties(&properties, m_device), "describe itself"));
    m_description = properties.name;
    m_architecture = "sm_" + std::to_string(10 * properties.major + properties.minor);
    m_link = linkOf(m_device);
    if (const std::string id = busId(m_device); !id.empty())
        m_nvml = std::make_unique<NvmlWatch>(id);
    m_memoryTotal = std::int64_t(properties.totalGlobalMem);
    m_multiprocessors = properties.multiProcessorCount;
    m_budget = options.memoryBudgetBytes;
    OCTAVO_TRY(m_stream, CudaStream::create());
    for (CudaStream& stream : m_sideStreams) {
        OCTAVO_TRY(stream, CudaStream::create());
    }
    for (CudaEvent& event : m_sideEvents) {
        OCTAVO_TRY(event, CudaEvent::create());
    }
    OCTAVO_TRY(m_model, CudaModel::load(m_config, weights, options));

    const ModelConfig& c = m_config;
    const std::int64_t limit = options.contextLimit > 0 ? options.contextLimit : c.maxPositions;
    m_contextLimit = std::min(limit, c.maxPositions);
    const int attentionLayers = c.numFullAttentionLayers();
    const std::int64_t pageBytes = layerOffset(attentionLayers + (hasMtp() ? 1 : 0));
    m_devicePages = makeDevicePages(pageBytes);
    m_hostPages = makeHostPages(pageBytes);
    std::size_t freeBytes = 0, totalBytes = 0;
    OCTAVO_CHECK(checkCuda(cudaMemGetInfo(&freeBytes, &totalBytes), "tell how much memory is free"));
    OCTAVO_TRY(m_sparse,
               CudaSparse::create(c, weights.hash, options.sparse, options.sparseSettings,
                                  options.sketchBasis.empty() ? weights.dir / "basis.safetensors" : options.sketchBasis,
                                  !options.sketchBasis.empty(), m_contextLimit));
    m_maxSplits =
        std::max((limit + maxRows + rowsPerSplit - 1) / rowsPerSplit, m_sparse.available() ? m_sparse.maxSplits() : 0);
    MemoryLayout tables;
    m_tables.ids = tables.add(maxRows * 4);
    m_tables.positions = tables.add(maxRows * 4);
    m_tables.conv = tables.add(std::int64_t(gdnLayers()) * maxRows * std::int64_t(sizeof(ConvSequence)));
    m_tables.gdn = tables.add(std::int64_t(gdnLayers()) * maxRows * std::int64_t(sizeof(GdnSequence)));
    const auto layerRows = [&](std::int64_t rows, std::size_t size) {
        return tables.add(attentionLayers * rows * std::int64_t(size));
    };
    m_tables.attention = layerRows(maxRows, sizeof(AttentionRows));
    m_tables.targets = layerRows(maxRows, sizeof(RowTarget));
    if (m_sparse.available()) {
        m_tables.sketch = layerRows(CudaSparse::maxRows, sizeof(SketchQuery));
        m_tables.lists = layerRows(CudaSparse::maxRows, sizeof(HotList));
        m_tables.lookup = layerRows(CudaSparse::maxRows, sizeof(HotLookup));
        m_tables.gather = layerRows(CudaSparse::maxRows, sizeof(GatherMisses));
        m_tables.readings = tables.add(CudaSparse::maxRows * std::int64_t(sizeof(SketchRows)));
    }
    if (hasMtp())
        m_tables.hidden = tables.add(maxRows * std::int64_t(sizeof(RowCopy)));
    m_tables.pages = tables.add(maxRows * pagesOf(m_contextLimit) * std::int64_t(sizeof(std::uint8_t*)));
    m_tables.bytes = tables.bytes();
    OCTAVO_TRY(m_tableMemory, PinnedMemory::allocate(m_tables.bytes, "the step's tables"));
    OCTAVO_TRY(m_bytesRead, PinnedMemory::allocate(CudaSparse::numCounters * 8, "counters"));
    std::fill_n(m_bytesRead.at<unsigned long long>(0), CudaSparse::numCounters, 0);
    OCTAVO_TRY(m_best, PinnedMemory::allocate(maxRows * 4, "the best tokens"));
    if (hasMtp()) {
        MemoryLayout mtp;
        m_mtpTables.ids = mtp.add(maxRows * 4);
        m_mtpTables.positions = mtp.add(maxRows * 4);
        m_mtpTables.hidden = mtp.add(maxRows * std::int64_t(sizeof(RowCopy)));
        m_mtpTables.targets = mtp.add(maxRows * std::int64_t(sizeof(RowTarget)));
        m_mtpTables.attention = mtp.add(maxRows * std::int64_t(sizeof(AttentionRows)));
        m_mtpTables.pages = mtp.add(maxRows * mtpPages * std::int64_t(sizeof(std::uint8_t*)));
        m_mtpTables.bytes = mtp.bytes();
        m_mtpTables.peaks = mtp.add(maxRows * std::int64_t(sizeof(RowPeak)));
        OCTAVO_TRY(m_mtpMemory, PinnedMemory::allocate(mtp.bytes(), "the tables of drafts"));
    }

    MemoryLayout work;
    const auto rowsOf = [&](std::int64_t columns) { return work.add(maxRows * columns * 2); };
    m_work.hidden = rowsOf(c.hiddenSize);
    m_work.normed = rowsOf(c.hiddenSize);
    m_work.delta = rowsOf(c.hiddenSize);
    m_work.squares = work.add(std::int64_t(maxRows) * c.hiddenSize / w4SquareValues * 4);
    m_work.gateUp = rowsOf(2 * std::int64_t(c.intermediateSize));
    m_work.product = rowsOf(c.intermediateSize);
    m_work.attention = rowsOf((2 * std::int64_t(c.numHeads) + 2 * c.numKvHeads) * c.headDim);
    m_work.query = rowsOf(std::int64_t(c.numHeads) * c.headDim);
    m_work.key = rowsOf(std::int64_t(c.numKvHeads) * c.headDim);
    m_work.projected = rowsOf(std::int64_t(c.numHeads) * sketchRank);
    m_work.context = rowsOf(std::int64_t(c.numHeads) * c.headDim);
    m_work.mixed = rowsOf(std::int64_t(c.convDim()) + c.valueDim());
    m_work.convOutput = rowsOf(c.convDim());
    m_work.beta = rowsOf(c.linearNumValueHeads);
    m_work.decay = rowsOf(c.linearNumValueHeads);
    m_work.gdnOut = rowsOf(c.valueDim());
    m_work.logits = work.add(std::int64_t(maxRows) * c.vocabSize * 4);
    m_work.partials = work.add(std::int64_t(w4PartialFloats(m_multiprocessors)) * 4);
    m_work.arrivals = work.add(std::int64_t(w4Arrivals(m_model.widestLinear())) * 4);
    const AttentionShape shape{queriesPerLaunch, c.numHeads, c.numKvHeads, rowsPerSplit, int(m_maxSplits)};
    m_work.attentionParts = work.add(std::int64_t(attentionWorkspaceFloats(shape)) * 4);
    m_work.tables = work.add(m_tables.bytes);
    m_work.best = work.add(maxRows * 4);
    m_work.bestParts = work.add(std::int64_t(std::max(argmaxWorkspaceWords(maxRows) * 8, peakWorkspaceBytes(maxRows))));
    if (hasMtp()) {
        m_work.mtpHidden = rowsOf(c.hiddenSize);
        m_work.mtpInput = rowsOf(2 * std::int64_t(c.hiddenSize));
        m_work.mtpX = rowsOf(c.hiddenSize);
        m_work.mtpNormed = rowsOf(c.hiddenSize);
        m_work.mtpFinal = rowsOf(c.hiddenSize);
        m_work.mtpTables = work.add(m_mtpTables.bytes);
        m_work.peaks = work.add(maxRows * std::int64_t(sizeof(RowPeak)));
    }
    OCTAVO_TRY(m_workMemory, DeviceMemory::allocate(work.bytes(), "work space"));
    OCTAVO_CHECK(checkCuda(cudaMemset(m_workMemory.at(), 0, std::size_t(work.bytes())), "clear its work space"));

    OCTAVO_CHECK(checkCuda(cudaMemGetInfo(&freeBytes, &totalBytes), "tell how much memory is free"));
    CudaPrefillPaths paths;
    paths.blocks = options.prefillBlocks;
    OCTAVO_TRY(m_prefill, CudaPrefill::create(c, m_model, m_sparse.available(), m_contextLimit,
                                              std::min(mostPrefillBytes, std::int64_t(freeBytes) / 8), paths));
    if (options.prefillBlocks && !m_prefill.available())
        spdlog::warn("Contexts are read through the kernels for few rows: {}", m_prefill.why());
    return shareRest(options);
}

/// Hot buffers get what is left once everything else has its place, unless the settings name a size.
Result<void> CudaBackend::shareRest(const BackendOptions& options)
{
    const std::int64_t asked = options.sparseSettings.hotBufferBytes;
    if (!m_sparse.available() || asked != SparseSettings{}.hotBufferBytes)
        return {};
    std::size_t freeBytes = 0, totalBytes = 0;
    OCTAVO_CHECK(checkCuda(cudaMemGetInfo(&freeBytes, &totalBytes), "tell how much memory is free"));
    std::int64_t left = std::int64_t(freeBytes);
    if (m_budget > 0)
        left = std::min(left, m_budget);
    const std::int64_t checkpoints = checkpointsPerSequence * frozenBytes();
    const std::int64_t own =
        stateBytes() + m_sparse.sketchBytes(m_contextLimit) + freshPages * m_devicePages->pageBytes();
    const std::int64_t sequences = std::max(1, options.sequences);
    m_sparse.setHotBytes(std::max(asked, (left - keptFreeBytes) / sequences - own - checkpoints));
    return {};
}

BackendInfo CudaBackend::info() const
{
    return {"cuda:" + std::to_string(m_device), m_description, "cuda", m_model.bytes()};
}

BackendStats CudaBackend::stats() const
{
    BackendStats stats;
    stats.memoryUsedBytes =
        m_model.bytes() + m_workMemory.bytes() + m_prefill.bytes() + m_sparse.workBytes() + m_sequenceBytes;
    stats.memoryTotalBytes = m_memoryTotal;
    stats.prefillTokens = m_prefillTokens;
    stats.decodeTokens = m_decodeTokens;
    stats.denseSteps = m_denseSteps;
    stats.sparseSteps = m_sparseSteps;
    stats.hostTierBytes = m_hostBytes;
    stats.hotBufferBytes = m_hotBytes;
    stats.pickedRows = m_picked;
    stats.tierBytesRead = m_tierBytes;
    stats.hotMisses = m_misses;
    stats.hotHits = m_picked - m_misses;
    return stats;
}

HardwareReading CudaBackend::hardware() const
{
    HardwareReading reading = m_nvml ? m_nvml->newest() : HardwareReading{};
    if (reading.link.empty())
        reading.link = m_link;
    return reading;
}

std::int64_t CudaBackend::tierBytesRead(SlotId slot) const
{
    const auto it = m_sequences.find(slot);
    if (it == m_sequences.end() || !it->second.hot)
        return -1;
    const CudaHotBuffer& hot = *it->second.hot;
    return std::int64_t(m_bytesRead.at<unsigned long long>(0)[*hot.counter]) - hot.counted;
}

std::int64_t CudaBackend::pagesOf(std::int64_t tokens)
{
    return (tokens + rowPageTokens - 1) / rowPageTokens;
}

std::int64_t CudaBackend::layerOffset(int attentionLayer) const
{
    return std::int64_t(attentionLayer) * rowPageTokens * m_config.numKvHeads * kvHeadBytes;
}

std::int64_t CudaBackend::sequenceBytes(std::int64_t tokens) const
{
    return pagesOnDevice(pagesOf(tokens), m_sparse.wanted(tokens)) * m_devicePages->pageBytes() + stateBytes() +
           m_sparse.sketchBytes(tokens) + m_sparse.hotBytes(tokens);
}

bool CudaBackend::prepareSequence(std::int64_t newTokens, int parts)
{
    const bool fits = m_budget == 0 || sequenceBytes(newTokens) <= m_budget - m_sequenceBytes;
    if (!m_sparse.wanted(newTokens) || !fits || !checkCuda(cudaSetDevice(m_device), "be selected"))
        return true; // nothing to prepare, or nothing that would be used
    m_preparedPages = pagesOf(newTokens);
    const Result<bool> done = m_hostPages->prepare(m_preparedPages, parts);
    m_hostBytes = m_hostPages->bytes();
    return !done || *done;
}

Result<SlotId> CudaBackend::createSequence(std::int64_t maxTokens)
{
    return addSequence(maxTokens, nullptr);
}

Result<SlotId> CudaBackend::forkSequence(SlotId source, std::int64_t maxTokens)
{
    OCTAVO_TRY(CudaSequence * sequence, ready(source, {}));
    OCTAVO_CHECK(fillMtp(*sequence));
    return addSequence(maxTokens, sequence);
}

Result<SlotId> CudaBackend::addSequence(std::int64_t maxTokens, const CudaSequence* source)
{
    return admit([&] { return makeSequence(maxTokens, source); });
}

Result<SlotId> CudaBackend::admit(const std::function<Result<CudaSequence>()>& make)
{
    Result<CudaSequence> made = make();
    // Rows that went to the host tier or were let go of may have left slabs behind that nobody uses.
    if (!made && made.error().code == ErrorCode::DeviceOutOfMemory && m_devicePages->shrink() > 0)
        made = make();
    if (!made)
        return made.error();
    m_preparedPages = 0; // it has what was made ready
    const SlotId slot{m_nextSlot++};
    m_sequences.emplace(slot, *std::move(made));
    countMemory();
    return slot;
}

Result<void> CudaBackend::checkBudget(std::int64_t tokens, std::int64_t bytes) const
{
    const std::int64_t used = m_sequenceBytes;
    if (m_budget > 0 && bytes > m_budget - used)
        return Error{ErrorCode::DeviceOutOfMemory, "A sequence of " + std::to_string(tokens) + " tokens needs " +
                                                       mib(bytes) + ", but of " + mib(m_budget) +
                                                       " for sequences only " + mib(m_budget - used) + " are free"};
    return {};
}

Result<CudaSequence> CudaBackend::makeSequence(std::int64_t maxTokens, const CudaSequence* source)
{
    const std::int64_t held = source ? source->length : 0;
    if (maxTokens < std::max<std::int64_t>(held, source ? 0 : 1) || maxTokens > m_contextLimit)
        return sequenceRefusal(maxTokens, held, m_contextLimit);
    const bool frozen = source && maxTokens == held; // reads what it shares and writes nothing
    const std::int64_t shared = frozen ? pagesOf(held) : held / rowPageTokens;
    const std::int64_t newPages = pagesOf(maxTokens) - shared;
    const bool tiered = !frozen && m_sparse.wanted(maxTokens);
    const std::int64_t needed = pagesOnDevice(newPages, tiered) * m_devicePages->pageBytes() +
                                (frozen && source->pendingRows == 0 ? frozenBytes() : stateBytes()) +
                                (frozen ? 0 : m_sparse.sketchBytes(maxTokens)) +
                                (tiered ? m_sparse.hotBytes(maxTokens) : 0);
    OCTAVO_CHECK(checkBudget(maxTokens, needed));
    OCTAVO_CHECK(checkCuda(cudaSetDevice(m_device), "be selected"));
    const cudaStream_t stream = m_stream.get();
    CudaSequence sequence{PagedRows(*m_devicePages, *m_hostPages)};
    sequence.maxTokens = maxTokens;
    // What is frozen never verifies drafts: without pending rows it keeps states alone.
    sequence.compact = frozen && source->pendingRows == 0;
    OCTAVO_TRY(sequence.memory,
               DeviceMemory::allocate(sequence.compact ? frozenBytes() : stateBytes(), "the state of a sequence"));
    if (tiered) {
        OCTAVO_TRY(sequence.hot, m_sparse.makeHotBuffer(maxTokens, stream));
        sequence.hot->counted = std::int64_t(m_bytesRead.at<unsigned long long>(0)[*sequence.hot->counter]);
    }
    if (frozen) {
        sequence.sketch = source->sketch;
    } else if (m_sparse.available()) {
        OCTAVO_TRY(sequence.sketch, m_sparse.makeSketch(maxTokens));
    }
    OCTAVO_CHECK(sequence.pages.reserve(source ? &source->pages : nullptr, shared, newPages, tiered, freshPages));
    OCTAVO_CHECK(source ? copyState(*source, sequence, frozen) : clearState(sequence));
    OCTAVO_CHECK(checkCuda(cudaStreamSynchronize(stream), "set up a sequence"));
    return sequence;
}

void CudaBackend::countMemory()
{
    std::int64_t bytes = 0, hot = 0;
    std::vector<const CudaSketch*> sketches;
    for (const auto& [slot, sequence] : m_sequences) {
        bytes += sequence.memory.bytes();
        hot += sequence.hot ? sequence.hot->memory.bytes() : 0;
        if (sequence.sketch)
            sketches.push_back(sequence.sketch.get());
    }
    std::ranges::sort(sketches);
    const auto repeated = std::ranges::unique(sketches);
    sketches.erase(repeated.begin(), repeated.end());
    for (const CudaSketch* sketch : sketches)
        bytes += sketch->memory.bytes();
    m_ownBytes = bytes + hot;
    m_sequenceBytes = m_ownBytes + m_devicePages->claimedBytes();
    m_hotBytes = hot;
    m_hostBytes = m_hostPages->bytes();
}

Result<void> CudaBackend::clearState(CudaSequence& sequence)
{
    return checkCuda(cudaMemsetAsync(sequence.memory.at(), 0, std::size_t(sequence.memory.bytes()), m_stream.get()),
                     "clear a sequence's state");
}

Result<void> CudaBackend::copyState(const CudaSequence& source, CudaSequence& target, bool frozen)
{
    const cudaStream_t stream = m_stream.get();
    target.length = source.length;
    target.pendingRows = source.pendingRows;
    const auto stride = [&](const CudaSequence& sequence) {
        return sequence.compact ? m_gdnOffsets.pendingInput : m_gdnOffsets.bytes;
    };
    if (gdnLayers() > 0)
        OCTAVO_CHECK(checkCuda(cudaMemcpy2DAsync(target.memory.at(), std::size_t(stride(target)), source.memory.at(),
                                                 std::size_t(stride(source)),
                                                 std::size_t(std::min(stride(source), stride(target))),
                                                 std::size_t(gdnLayers()), cudaMemcpyDeviceToDevice, stream),
                               "copy a sequence's state"));
    if (hasMtp())
        OCTAVO_CHECK(checkCuda(cudaMemcpyAsync(hiddenRow(target, 0), hiddenRow(source, 0), std::size_t(hiddenBytes()),
                                               cudaMemcpyDeviceToDevice, stream),
                               "copy a sequence's newest row"));
    if (frozen)
        return {};
    if (target.sketch)
        OCTAVO_CHECK(m_sparse.copySketch(*source.sketch, *target.sketch, source.length, stream));
    if (source.length % rowPageTokens == 0)
        return {};
    OCTAVO_CHECK(makeRoom(target, source.length));
    return checkCuda(cudaMemcpyAsync(target.pages[target.pages.size() - 1].data(),
                                     source.pages[source.length / rowPageTokens].data(),
                                     std::size_t(m_devicePages->pageBytes()), cudaMemcpyDefault, stream),
                     "copy a sequence's rows");
}

Result<void> CudaBackend::makeRoom(CudaSequence& sequence, std::int64_t tokens)
{
    if (sequence.pages.size() >= pagesOf(tokens))
        return {};
    while (sequence.pages.size() < pagesOf(tokens)) {
        const std::int64_t needed = m_ownBytes + m_devicePages->claimedBytes() + m_devicePages->pageBytes();
        const bool spare = m_budget == 0 || needed <= m_budget;
        if (sequence.pages.append(spare))
            continue;
        OCTAVO_TRY(const std::int64_t moved, spill(sequence, 1));
        if (moved == 0)
            return Error{ErrorCode::DeviceOutOfMemory,
                         "The GPU has no room for the rows of token " + std::to_string(tokens) +
                             " and none of this sequence's may leave it; close other contexts"};
    }
    countMemory();
    return {};
}

Result<std::int64_t> CudaBackend::spill(CudaSequence& sequence, std::int64_t most, PagedRows::Movers movers)
{
    const std::int64_t end = hostPagesEnd(sequence.length);
    const std::size_t pageBytes = std::size_t(m_hostPages->pageBytes());
    OCTAVO_TRY(const std::int64_t moved,
               sequence.pages.spill(
                   1, end, most, movers,
                   [&](std::uint8_t* to, const std::uint8_t* from) {
                       return checkCuda(cudaMemcpyAsync(to, from, pageBytes, cudaMemcpyDeviceToHost, m_stream.get()),
                                        "move rows to the host tier");
                   },
                   [&] { return checkCuda(cudaStreamSynchronize(m_stream.get()), "move rows to the host tier"); }));
    if (moved > 1) { // one page alone makes room for the next
        m_devicePages->shrink();
        countMemory();
    }
    return moved;
}

void CudaBackend::destroySequence(SlotId slot)
{
    const auto it = m_sequences.find(slot);
    if (it == m_sequences.end())
        return;
    cudaSetDevice(m_device);
    m_sequences.erase(it);
    // Locked RAM is nobody else's. To let go of a slab takes milliseconds, and the next sequence may want some.
    m_hostPages->shrink(std::max(spareHostBytes, m_preparedPages * m_hostPages->pageBytes()), hostSlabsAtOnce);
    countMemory();
}

std::int64_t CudaBackend::length(SlotId slot) const
{
    const auto it = m_sequences.find(slot);
    return it == m_sequences.end() ? 0 : it->second.length + it->second.unconfirmedRows;
}

Result<CudaSequence*> CudaBackend::ready(SlotId slot, std::span<const TokenId> tokens)
{
    const auto it = m_sequences.find(slot);
    if (it == m_sequences.end())
        return Error{ErrorCode::NotFound, "There is no sequence " + std::to_string(std::int32_t(slot))};
    CudaSequence& sequence = it->second;
    if (sequence.unconfirmedRows > 0)
        return Error{ErrorCode::InvalidArgument, "Sequence " + std::to_string(std::int32_t(slot)) + " has " +
                                                     std::to_string(sequence.unconfirmedRows) +
                                                     " rows that were not committed"};
    for (const TokenId token : tokens) {
        if (token < 0 || token >= m_config.vocabSize)
            return Error{ErrorCode::InvalidArgument, "Token id " + std::to_string(token) +
                                                         " is not below the vocabulary's " +
                                                         std::to_string(m_config.vocabSize)};
    }
    if (std::int64_t(tokens.size()) > sequence.maxTokens - sequence.length)
        return Error{ErrorCode::ContextFull, "The context holds " + std::to_string(sequence.length) + " of " +
                                                 std::to_string(sequence.maxTokens) + " tokens, " +
                                                 std::to_string(tokens.size()) + " more do not fit"};
    return &sequence;
}

Result<void> CudaBackend::prefill(SlotId slot, std::span<const TokenId> tokens, std::span<float> logitsOut)
{
    const std::size_t vocab = std::size_t(m_config.vocabSize), rows = tokens.size();
    if (rows < 1 || rows > std::size_t(maxPrefillSlice()))
        return Error{ErrorCode::InvalidArgument, "A slice has " + std::to_string(rows) + " tokens, expected 1 to " +
                                                     std::to_string(maxPrefillSlice())};
    if (!logitsOut.empty() && logitsOut.size() != vocab && logitsOut.size() != rows * vocab)
        return Error{ErrorCode::InvalidArgument, "The logits of a slice take " + std::to_string(vocab) + " or " +
                                                     std::to_string(rows * vocab) + " floats, found " +
                                                     std::to_string(logitsOut.size())};
    OCTAVO_TRY(CudaSequence * sequence, ready(slot, tokens));
    OCTAVO_CHECK(fillMtp(*sequence));
    const std::scoped_lock turn(deviceTurn(m_device));
    const bool everyRow = logitsOut.size() == rows * vocab;
    for (std::size_t first = 0; first < rows;) {
        const std::size_t left = rows - first;
        if (const int blocks = m_prefill.blockRows(sequence->length, left); blocks > 0) {
            const bool wanted = everyRow || (!logitsOut.empty() && std::size_t(blocks) == left);
            OCTAVO_TRY(const int read,
                       readBlocks(*sequence, tokens.subspan(first, std::size_t(blocks)), everyRow,
                                  wanted ? logitsOut.data() + (everyRow ? first * vocab : 0) : nullptr));
            first += std::size_t(read);
            continue;
        }
        std::size_t most = maxRows;
        if (m_prefill.available()) // up to where the next block begins
            most = std::min<std::size_t>(most, CudaPrefill::blockTokens -
                                                   std::size_t(sequence->length % CudaPrefill::blockTokens));
        const Part part{sequence, tokens.subspan(first, std::min(most, left)), true};
        OCTAVO_CHECK(forward(std::span(&part, 1), false));
        OCTAVO_CHECK(readMtp(*sequence, part.tokens, m_workMemory.at<__nv_bfloat16>(m_work.normed)));
        const int count = int(part.tokens.size());
        if (everyRow)
            OCTAVO_CHECK(logits(0, count, logitsOut.data() + first * vocab));
        else if (!logitsOut.empty() && part.tokens.size() == left)
            OCTAVO_CHECK(logits(count - 1, 1, logitsOut.data()));
        else // the tables of this pass are still being read
            OCTAVO_CHECK(checkCuda(cudaStreamSynchronize(m_stream.get()), "read a slice"));
        sequence->length += count;
        sequence->pendingRows = 0;
        first += std::size_t(count);
    }
    m_prefillTokens += std::int64_t(rows);
    return {};
}

Result<int> CudaBackend::readBlocks(CudaSequence& sequence, std::span<const TokenId> tokens, bool everyRow,
                                    float* logitsOut)
{
    OCTAVO_CHECK(checkCuda(cudaSetDevice(m_device), "be selected"));
    int rows = int(tokens.size());
    Result<void> room = makeRoom(sequence, sequence.length + rows);
    while (!room && rows > rowPageTokens) { // fewer pages at a time may move out of the way
        rows = rows / 2 / CudaPrefill::blockTokens * CudaPrefill::blockTokens;
        room = makeRoom(sequence, sequence.length + rows);
    }
    OCTAVO_CHECK(room);
    CudaPrefill::Slice slice;
    slice.tokens = tokens.first(std::size_t(rows));
    slice.position = sequence.length;
    slice.pendingRows = sequence.pendingRows;
    slice.sketch = sequence.sketch.get();
    for (std::int64_t i = 0; i < pagesOf(sequence.length + rows); ++i)
        slice.pages.push_back(sequence.pages[i].data());
    for (int layer = 0; layer < gdnLayers(); ++layer) {
        const auto at = [&](std::int64_t offset) {
            return sequence.memory.at<__nv_bfloat16>(layer * m_gdnOffsets.bytes + offset);
        };
        slice.gdn.push_back({sequence.memory.at<float>(layer * m_gdnOffsets.bytes + m_gdnOffsets.state),
                             at(m_gdnOffsets.history), at(m_gdnOffsets.pendingInput), at(m_gdnOffsets.pendingQkv),
                             at(m_gdnOffsets.pendingBeta), at(m_gdnOffsets.pendingDecay)});
    }
    if (hasMtp() && sequence.length > 0)
        slice.lastFinal = reinterpret_cast<const __nv_bfloat16*>(hiddenRow(sequence, 0));
    OCTAVO_CHECK(m_prefill.run(slice, m_sparse, m_stream.get()));
    const std::int64_t rowBytes = std::int64_t(m_config.hiddenSize) * 2;
    if (hasMtp())
        OCTAVO_CHECK(checkCuda(cudaMemcpyAsync(hiddenRow(sequence, 0),
                                               m_prefill.normed() + std::int64_t(rows - 1) * m_config.hiddenSize,
                                               std::size_t(rowBytes), cudaMemcpyDeviceToDevice, m_stream.get()),
                               "keep the newest row"));

    for (int first = 0; logitsOut && first < rows; first += maxRows) {
        const bool last = first + maxRows >= rows;
        if (!everyRow && !last)
            continue;
        const int from = everyRow ? first : rows - 1, count = everyRow ? std::min(maxRows, rows - first) : 1;
        OCTAVO_CHECK(checkCuda(cudaMemcpyAsync(m_workMemory.at(m_work.normed),
                                               m_prefill.normed() + std::int64_t(from) * m_config.hiddenSize,
                                               std::size_t(count * rowBytes), cudaMemcpyDeviceToDevice, m_stream.get()),
                               "keep the rows that logits are wanted of"));
        OCTAVO_CHECK(logits(0, count, logitsOut + (everyRow ? std::int64_t(first) * m_config.vocabSize : 0)));
    }
    OCTAVO_CHECK(checkCuda(cudaStreamSynchronize(m_stream.get()), "read a slice"));
    sequence.length += rows;
    sequence.pendingRows = 0;
    return rows;
}

Result<int> CudaBackend::prepareStep(std::span<const StepEntry> entries, std::size_t room, std::vector<Part>& parts)
{
    std::size_t rows = 0;
    for (const StepEntry& entry : entries) {
        OCTAVO_TRY(CudaSequence * sequence, ready(entry.slot, entry.tokens));
        if (entry.tokens.empty() || std::ranges::any_of(parts, [&](const Part& p) { return p.sequence == sequence; }))
            return Error{ErrorCode::InvalidArgument, "A step needs at least one token for each of different sequences"};
        if (entry.tokens.size() > std::size_t(maxPending))
            return Error{ErrorCode::InvalidArgument, "A step of " + std::to_string(entry.tokens.size()) +
                                                         " rows of one sequence, at most " +
                                                         std::to_string(maxPending)};
        parts.push_back({sequence, entry.tokens, entry.tokens.size() == 1});
        rows += entry.tokens.size();
    }
    if (rows > std::size_t(maxStepRows()) || room != rows)
        return Error{ErrorCode::InvalidArgument, "A step of " + std::to_string(rows) + " rows (at most " +
                                                     std::to_string(maxStepRows()) + ") came with room for " +
                                                     std::to_string(room) + " rows of what it gives"};
    for (const Part& part : parts) {
        if (part.sequence->unfilled() + std::int64_t(part.tokens.size()) > mostUnfilled)
            OCTAVO_CHECK(fillMtp(*part.sequence));
    }
    return int(rows);
}

void CudaBackend::take(CudaSequence& sequence, std::span<const TokenId> tokens) const
{
    for (const TokenId token : tokens) {
        if (hasMtp() && sequence.length > 0)
            sequence.unfilledTokens.push_back(token);
        ++sequence.length;
    }
}

void CudaBackend::finishStep(std::span<const Part> parts)
{
    for (const Part& part : parts) {
        CudaSequence& sequence = *part.sequence;
        sequence.pendingRows = 0;
        if (part.final) {
            take(sequence, part.tokens);
        } else {
            sequence.unconfirmedRows = int(part.tokens.size());
            sequence.unconfirmedTokens.assign(part.tokens.begin(), part.tokens.end());
        }
        m_decodeTokens += std::int64_t(part.tokens.size());
    }
    if (parts.empty())
        return;
    ++(m_sparseRows > 0 ? m_sparseSteps : m_denseSteps);
    const auto* counters = m_bytesRead.at<unsigned long long>(0);
    m_tierBytes = std::int64_t(std::accumulate(counters, counters + CudaSparse::numCounters, 0ULL));
    m_misses = m_tierBytes / (std::int64_t(m_config.numKvHeads) * kvHeadBytes);
}

Result<void> CudaBackend::step(std::span<const StepEntry> entries, std::span<float> logitsOut)
{
    const std::size_t vocab = std::size_t(m_config.vocabSize);
    std::vector<Part> parts;
    OCTAVO_TRY(const int rows, prepareStep(entries, logitsOut.size() / vocab, parts));
    if (rows > 0) {
        const std::scoped_lock turn(deviceTurn(m_device));
        OCTAVO_CHECK(forward(parts, true));
        OCTAVO_CHECK(logits(0, rows, logitsOut.data()));
    }
    finishStep(parts);
    return {};
}

Result<void> CudaBackend::stepBest(std::span<const StepEntry> entries, TokenId endId, std::span<TokenId> best)
{
    std::vector<Part> parts;
    OCTAVO_TRY(const int rows, prepareStep(entries, best.size(), parts));
    if (rows > 0) {
        const std::scoped_lock turn(deviceTurn(m_device));
        OCTAVO_CHECK(forward(parts, true));
        OCTAVO_CHECK(bestTokens(rows, endId));
        std::copy_n(m_best.at<std::int32_t>(0), rows, best.begin());
    }
    finishStep(parts);
    return {};
}

Result<void> CudaBackend::commit(SlotId slot, int keptRows)
{
    const auto it = m_sequences.find(slot);
    if (it == m_sequences.end())
        return Error{ErrorCode::NotFound, "There is no sequence " + std::to_string(std::int32_t(slot))};
    CudaSequence& sequence = it->second;
    const int rows = std::max(1, sequence.unconfirmedRows);
    if (keptRows < 1 || keptRows > rows)
        return Error{ErrorCode::InvalidArgument,
                     std::to_string(keptRows) + " rows were to be kept, expected 1 to " + std::to_string(rows)};
    if (sequence.unconfirmedRows == 0)
        return {};
    sequence.unconfirmedRows = 0;
    sequence.pendingRows = keptRows;
    take(sequence, std::span(sequence.unconfirmedTokens).first(std::size_t(keptRows)));
    return {};
}

} // namespace octavo::engine
