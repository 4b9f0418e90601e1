/// Sequences of a CudaBackend as images, for files, and back.
///
/// State  a Head, the states of the GDN layers (with the inputs of rows that wait to be applied, where there are any),
///        and the newest position's final hidden row for MTP.
/// Rows   a unit for each page: the page, then the sketches of its tokens, the codes of all layers and KV heads before
///        the scales. The last unit is as long as any other, so a shorter sequence's units are a longer one's first.

#include "engine/backend/cpu_text.h"
#include "engine/backend/cuda_backend.h"
#include "engine/memory/big_pages.h"
#include "engine/scheduler/memory_budget.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace octavo::engine
{

using namespace kernels::cuda;

namespace
{

constexpr std::int64_t keptRam = std::int64_t{1} << 30; // for all other programs

struct Head {
    std::uint32_t pendingRows = 0, reserved = 0;
};

/// What an image keeps: pages of the host tier, which it shares with the sequence, and copies of all else. So it holds
/// nothing of the device.
struct CudaImage {
    std::vector<std::shared_ptr<const SharedPage>> hostPages;
    BigPages copies;
};

} // namespace

/// GPUs of another kind or size round otherwise, and so does reading by other kernels: such rows are not continued
/// here.
std::string CudaBackend::imageFormat() const
{
    return "cuda int4 rows in pages of " + std::to_string(rowPageTokens) + ", " + m_sparse.layoutName() +
           ", float state, " + m_architecture + " of " + std::to_string(m_multiprocessors) +
           (m_prefill.available() ? ", read in blocks" : "") + (hasMtp() ? ", with MTP" : "") + ", 3";
}

std::int64_t CudaBackend::imageStateBytes(int pendingRows) const
{
    const std::int64_t states = pendingRows > 0 ? recurrentBytes() : m_gdnOffsets.pendingInput * gdnLayers();
    return std::int64_t(sizeof(Head)) + states + (hasMtp() ? hiddenBytes() : 0);
}

Result<SequenceImage> CudaBackend::imageOf(SlotId slot, ImageRows rows)
{
    OCTAVO_TRY(CudaSequence * sequence, ready(slot, {}));
    if (sequence->length == 0)
        return Error{ErrorCode::InvalidArgument, "An empty sequence has nothing to save"};
    OCTAVO_CHECK(checkCuda(cudaSetDevice(m_device), "be selected"));
    OCTAVO_CHECK(fillMtp(*sequence));
    const bool takesRows = rows == ImageRows::Taken;
    if (takesRows && m_sparse.wanted(sequence->length)) { // they will lie there anyway, and are not copied from there
        if (const auto moved = spill(*sequence, sequence->pages.size(), PagedRows::Movers::Any); !moved)
            return moved.error();
    }

    const std::int64_t pages = pagesOf(sequence->length), pageBytes = m_devicePages->pageBytes();
    const CudaSparse::SketchExtent sketch = m_sparse.extent(pages * rowPageTokens);
    std::int64_t pagesToCopy = 0;
    for (std::int64_t i = 0; i < pages; ++i)
        pagesToCopy += !sequence->pages[i].onHost();
    const std::int64_t stateBytes = imageStateBytes(sequence->pendingRows);
    const std::int64_t sketchAt = (stateBytes + 255) / 256 * 256, pagesAt = sketchAt + (takesRows ? sketch.bytes() : 0);
    const std::int64_t copyBytes = pagesAt + (takesRows ? pagesToCopy * pageBytes : 0);
    const auto refused = [&](const std::string& why) {
        return Error{ErrorCode::OutOfMemory, "Saving a context of " + std::to_string(sequence->length) +
                                                 " tokens needs " + mib(copyBytes) + " of RAM, " + why};
    };
    if (const auto available = availableMemory(); available && available->freeBytes < copyBytes + keptRam)
        return refused("but only " + mib(available->freeBytes) + " are free");
    auto storage = std::make_shared<CudaImage>();
    storage->copies = BigPages(std::size_t(copyBytes));
    if (storage->copies.empty())
        return refused("which could not be had");

    auto* const copies = storage->copies.as<std::byte>();
    const auto copied = [&](std::byte* to, const void* from, std::int64_t bytes) {
        return checkCuda(cudaMemcpyAsync(to, from, std::size_t(bytes), cudaMemcpyDeviceToHost, m_stream.get()),
                         "copy a context to RAM");
    };
    const Head head{std::uint32_t(sequence->pendingRows), 0};
    std::memcpy(copies, &head, sizeof head);
    // A sequence with room for pending rows that has none keeps the states alone, layer after layer.
    const std::int64_t states = sequence->pendingRows > 0 ? m_gdnOffsets.bytes : m_gdnOffsets.pendingInput;
    const std::int64_t stride = sequence->compact ? m_gdnOffsets.pendingInput : m_gdnOffsets.bytes;
    if (gdnLayers() > 0)
        OCTAVO_CHECK(checkCuda(cudaMemcpy2DAsync(copies + sizeof head, std::size_t(states), sequence->memory.at(),
                                                 std::size_t(stride), std::size_t(states), std::size_t(gdnLayers()),
                                                 cudaMemcpyDeviceToHost, m_stream.get()),
                               "copy a context's state to RAM"));
    if (hasMtp())
        OCTAVO_CHECK(copied(copies + stateBytes - hiddenBytes(), hiddenRow(*sequence, 0), hiddenBytes()));

    SequenceImage image;
    image.state.push_back({copies, std::size_t(stateBytes)});
    image.rowBytes = pages * imageUnitBytes();
    if (takesRows) {
        if (sequence->sketch)
            OCTAVO_CHECK(m_sparse.copyOut(*sequence->sketch, sketch, copies + sketchAt, m_stream.get()));
        std::byte* next = copies + pagesAt;
        for (std::int64_t i = 0; i < pages; ++i) {
            const SharedPage& page = sequence->pages[i];
            const auto* data = reinterpret_cast<const std::byte*>(page.data());
            if (page.onHost()) {
                storage->hostPages.push_back(sequence->pages.share(i));
            } else {
                OCTAVO_CHECK(copied(next, data, pageBytes));
                data = std::exchange(next, next + pageBytes);
            }
            image.rows.push_back({data, std::size_t(pageBytes)});
            sketch.appendUnit(image.rows, copies + sketchAt, i);
        }
    }
    OCTAVO_CHECK(checkCuda(cudaStreamSynchronize(m_stream.get()), "copy a context to RAM"));
    image.storage = std::move(storage);
    return image;
}

Result<void> CudaBackend::beginRestore(SequenceRestore& restore)
{
    if (restore.length < 1 || restore.length > m_contextLimit)
        return Error{ErrorCode::InvalidArgument, "A saved sequence has " + std::to_string(restore.length) +
                                                     " tokens, expected 1 to " + std::to_string(m_contextLimit)};
    Head head;
    if (restore.state.size() >= sizeof head)
        std::memcpy(&head, restore.state.data(), sizeof head);
    const bool known = head.pendingRows <= std::uint32_t(maxPending) && head.reserved == 0;
    const std::int64_t stateBytes = imageStateBytes(known ? int(head.pendingRows) : 0);
    const std::int64_t rowBytes = pagesOf(restore.length) * imageUnitBytes();
    if (!known || std::int64_t(restore.state.size()) != stateBytes || std::int64_t(restore.rows.size()) != rowBytes)
        return Error{ErrorCode::FormatInvalid, "A saved sequence of " + std::to_string(restore.length) +
                                                   " tokens has " + std::to_string(restore.state.size()) + " and " +
                                                   std::to_string(restore.rows.size()) + " bytes, expected " +
                                                   std::to_string(stateBytes) + " and " + std::to_string(rowBytes)};
    OCTAVO_CHECK(checkCuda(cudaSetDevice(m_device), "be selected"));
    if (!m_restoreMemory.at<std::byte>(0)) {
        OCTAVO_TRY(m_restoreMemory, PinnedMemory::allocate(imageUnitBytes(), "opening saved contexts"));
    }
    OCTAVO_TRY(restore.slot, admit([&] { return makeRestored(restore.length, restore.state, int(head.pendingRows)); }));
    return {};
}

Result<CudaSequence> CudaBackend::makeRestored(std::int64_t length, std::span<const std::byte> state, int pendingRows)
{
    const std::int64_t pages = pagesOf(length);
    const std::int64_t endOnHost = m_sparse.wanted(length) ? std::max<std::int64_t>(1, hostPagesEnd(length)) : 1;
    const std::int64_t ownBytes = pendingRows > 0 ? stateBytes() : frozenBytes();
    OCTAVO_CHECK(checkBudget(length, ownBytes + m_sparse.sketchBytes(length) +
                                         (pages - (endOnHost - 1)) * m_devicePages->pageBytes()));
    CudaSequence sequence{PagedRows(*m_devicePages, *m_hostPages)};
    sequence.maxTokens = sequence.length = length; // frozen
    sequence.pendingRows = pendingRows;
    sequence.compact = pendingRows == 0;
    OCTAVO_TRY(sequence.memory, DeviceMemory::allocate(ownBytes, "the state of a saved sequence"));
    if (m_sparse.available()) {
        OCTAVO_TRY(sequence.sketch, m_sparse.makeSketch(length));
    }
    OCTAVO_CHECK(sequence.pages.place(pages, 1, endOnHost));
    OCTAVO_CHECK(clearState(sequence));
    const auto copied = [&](void* to, const std::byte* from, std::int64_t bytes) {
        return checkCuda(cudaMemcpyAsync(to, from, std::size_t(bytes), cudaMemcpyHostToDevice, m_stream.get()),
                         "take a saved sequence's state");
    };
    const std::int64_t hidden = hasMtp() ? hiddenBytes() : 0,
                       states = std::int64_t(state.size() - sizeof(Head)) - hidden;
    OCTAVO_CHECK(copied(sequence.memory.at(), state.data() + sizeof(Head), states));
    if (hasMtp())
        OCTAVO_CHECK(copied(hiddenRow(sequence, 0), state.data() + state.size() - hidden, hidden));
    OCTAVO_CHECK(checkCuda(cudaStreamSynchronize(m_stream.get()), "take a saved sequence's state"));
    return sequence;
}

Result<void> CudaBackend::continueRestore(SequenceRestore& restore, std::int64_t atMost)
{
    const auto it = m_sequences.find(restore.slot);
    if (it == m_sequences.end())
        return Error{ErrorCode::NotFound, "There is no sequence to take saved rows"};
    OCTAVO_CHECK(checkCuda(cudaSetDevice(m_device), "be selected"));
    CudaSequence& sequence = it->second;
    const std::int64_t unit = imageUnitBytes(), pageBytes = m_devicePages->pageBytes();
    for (std::int64_t done = 0; !restore.isWhole() && (done == 0 || done + unit <= atMost); done += unit) {
        const std::int64_t index = restore.copied / unit;
        const std::byte* from = restore.rows.data() + restore.copied;
        const SharedPage& page = sequence.pages[index];
        auto* locked = m_restoreMemory.at<std::byte>(0);
        std::memcpy(page.onHost() ? reinterpret_cast<std::byte*>(page.data()) : locked, from, std::size_t(pageBytes));
        if (!page.onHost())
            OCTAVO_CHECK(checkCuda(cudaMemcpyAsync(page.data(), locked, std::size_t(pageBytes), cudaMemcpyHostToDevice,
                                                   m_stream.get()),
                                   "take saved rows"));
        if (sequence.sketch) {
            std::memcpy(locked + pageBytes, from + pageBytes, std::size_t(unit - pageBytes));
            OCTAVO_CHECK(m_sparse.copyIn(*sequence.sketch, index * rowPageTokens, rowPageTokens, locked + pageBytes,
                                         m_stream.get()));
        }
        OCTAVO_CHECK(checkCuda(cudaStreamSynchronize(m_stream.get()), "take saved rows")); // before the next takes its place
        restore.copied += unit;
    }
    return {};
}

} // namespace octavo::engine
