/// Sequences of a CpuBackend as images, for files, and back.

#include "engine/backend/cpu_backend.h"
#include "engine/backend/cpu_image.h"
#include "engine/backend/cpu_text.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace octavo::engine
{

namespace cpu = kernels::cpu;

/// The kernel path is part of it: rows read on another path differ in their last bits.
std::string CpuBackend::imageFormat() const
{
    const std::string layout = m_sparse.layoutName();
    if (layout.empty()) // the basis will be fitted from the first context: sketches of the next process may not fit it
        return {};
    return "cpu int8 rows in pages of " + std::to_string(cpu::pageTokens) + ", " + layout + ", float state, " +
           std::string(cpu::pathName(m_kernels.path)) + (hasMtp() ? ", with MTP" : "") +
           (m_model.quantized ? ", quantised at load" : "") + ", 5";
}

/// State: the recurrent one, then the int8 pages from the tier's end on. Rows: the first int8 page, then the tier's
/// pages, all layers of one before the next; or, where no row is in the tier, all int8 pages.
Result<SequenceImage> CpuBackend::imageOf(SlotId slot, ImageRows rows)
{
    OCTAVO_TRY(CpuSequence* const sequence, ready(slot, {}));
    OCTAVO_CHECK(fillMtp(*sequence));
    const int tierPages = m_sparse.tierPages(sequence->length);
    const std::int64_t tierTokens = std::int64_t(tierPages) * cpu::pageTokens;
    if (tierTokens > sequence->tierTokens) // the page moves with the row that comes next
        return Error{ErrorCode::InvalidArgument, name(slot) + " of " + std::to_string(sequence->length) +
                                                     " tokens cannot be saved; a multiple of 64 can"};
    const bool takesRows = rows == ImageRows::Taken;
    std::int64_t copies = sequence->isFrozen() ? 0 : m_recurrent.totalFloats() * std::int64_t(sizeof(float));
    if (tierPages > 0 && takesRows && tierTokens % m_sparse.attention()->shape().pageTokens() > 0)
        copies += m_model.attentionLayers * m_sparse.attention()->shape().pageBytes();
    if (const std::int64_t budget = this->budget(); copies > 0 && copies > budget - m_reservedBytes)
        return Error{ErrorCode::OutOfMemory, "Saving " + name(slot) + " needs " + mib(copies) + ", but of " +
                                                 mib(budget) + " for sequences only " + mib(budget - m_reservedBytes) +
                                                 " are free"};
    const auto storage = newImage(*sequence);
    if (storage->recurrent->empty() && m_recurrent.totalFloats() > 0)
        return Error{ErrorCode::OutOfMemory,
                     "Saving " + name(slot) + " needs " + mib(copies) + ", which could not be had"};
    SequenceImage image;
    image.layout = tierPages > 0 ? 1 : 0;
    image.state.push_back(
        {storage->recurrent->as<std::byte>(), std::size_t(m_recurrent.totalFloats()) * sizeof(float)});
    for (int page = 0; page < storage->kv.pages(); ++page) {
        const bool isRow = page == 0 || tierPages == 0;
        if (isRow) {
            image.rowBytes += m_pages.shape().pageBytes();
            if (takesRows)
                image.rows.push_back(storage->kv.pageBytes(page));
        } else if (page >= tierPages) {
            image.state.push_back(storage->kv.pageBytes(page));
        }
    }
    if (tierPages > 0) {
        image.rowBytes += m_sparse.attention()->shape().bytes(tierTokens);
        if (takesRows) {
            OCTAVO_TRY(storage->tier, sequence->sparse->tier().fork(tierTokens, tierTokens));
            const HostTier& tier = *storage->tier;
            for (std::int64_t page = 0; page < tier.pagesPerLayer(); ++page) {
                for (int layer = 0; layer < tier.shape().numLayers; ++layer) {
                    if ((page + 1) * tier.shape().pageTokens() <= tierTokens) {
                        image.rows.push_back(tier.pageBytes(layer, page));
                        continue;
                    }
                    auto& copy = storage->lastPages.emplace_back(std::size_t(tier.shape().pageBytes()));
                    tier.copyPage(layer, page, tierTokens, copy.data());
                    image.rows.push_back(copy);
                }
            }
        }
    }
    image.storage = storage;
    countTier();
    countMemory();
    return image;
}

/// Shares what a sequence holds, and lists it among the images until it is let go of.
std::shared_ptr<CpuBackend::ImageStorage> CpuBackend::newImage(const CpuSequence& sequence)
{
    const auto letGo = [owner = std::weak_ptr(m_self)](ImageStorage* image) {
        delete image;
        if (const auto backend = owner.lock()) {
            std::erase_if((*backend)->m_images, [](const auto& weak) { return weak.expired(); });
            (*backend)->countTier();
            (*backend)->countMemory();
        }
    };
    std::shared_ptr<ImageStorage> storage(new ImageStorage{sequence.recurrentPages, KvRows(m_pages), std::nullopt, {}},
                                          letGo);
    storage->kv.shareFrom(sequence.kv, sequence.length); // whoever writes to them next copies first
    if (!sequence.isFrozen()) { // its state moves on
        storage->recurrent = std::make_shared<BigPages>(sequence.recurrentPages->bytes());
        if (!storage->recurrent->empty())
            std::copy_n(sequence.recurrent(), m_recurrent.totalFloats(), storage->recurrent->as<float>());
    }
    m_images.push_back(storage);
    return storage;
}

Result<void> CpuBackend::beginRestore(SequenceRestore& restore)
{
    const auto& [length, state, rows, slot, copied] = restore;
    if (length < 1 || length > m_model.config.maxPositions)
        return Error{ErrorCode::InvalidArgument, "A saved sequence has " + std::to_string(length) +
                                                     " tokens, expected 1 to " +
                                                     std::to_string(m_model.config.maxPositions)};
    const std::int64_t pages = (length + cpu::pageTokens - 1) / cpu::pageTokens;
    const std::int64_t recurrentBytes = m_recurrent.totalFloats() * std::int64_t(sizeof(float));
    const std::int64_t pageBytes = m_pages.shape().pageBytes();
    const int tierPages = m_sparse.tierPages(length);
    const std::int64_t stateBytes = recurrentBytes + (tierPages > 0 ? pages - tierPages : 0) * pageBytes;
    const std::int64_t rowBytes =
        tierPages > 0 ? pageBytes + m_sparse.attention()->shape().bytes(std::int64_t(tierPages) * cpu::pageTokens)
                      : pages * pageBytes;
    if (std::int64_t(state.size()) != stateBytes || std::int64_t(rows.size()) != rowBytes)
        return Error{ErrorCode::FormatInvalid, "A saved sequence of " + std::to_string(length) + " tokens has " +
                                                   std::to_string(state.size()) + " and " +
                                                   std::to_string(rows.size()) + " bytes, expected " +
                                                   std::to_string(stateBytes) + " and " + std::to_string(rowBytes)};
    OCTAVO_TRY(restore.slot, createSequence(length));
    CpuSequence& sequence = *m_sequences.at(slot);
    sequence.length = length; // frozen from here on, so it takes no more than its image
    const bool room = sequence.kv.prepareWithHole(length, 1, tierPages);
    if (const auto tier = m_sparse.prepareRestore(sequence, length); !tier || !room) {
        destroySequence(std::exchange(restore.slot, noSlot));
        return tier ? Error{ErrorCode::OutOfMemory, "No memory was left for a saved sequence of " +
                                                        std::to_string(length) + " tokens"}
                    : tier.error();
    }
    std::memcpy(sequence.recurrentPages->as<std::byte>(), state.data(), std::size_t(recurrentBytes));
    if (tierPages > 0) { // the recent pages change with every token, so they are of the state
        m_forward.parallel()(pages - tierPages, [&](std::int64_t page) {
            std::memcpy(sequence.kv.pageData(tierPages + int(page)), state.data() + recurrentBytes + page * pageBytes,
                        std::size_t(pageBytes));
        });
    }
    countTier();
    countMemory();
    return {};
}

/// Rows are the int8 pages, all of them or the first alone, then the tier's pages.
Result<void> CpuBackend::continueRestore(SequenceRestore& restore, std::int64_t atMost)
{
    OCTAVO_TRY(CpuSequence * sequence, find(restore.slot));
    const std::int64_t pageBytes = m_pages.shape().pageBytes();
    const std::int64_t pages = sequence->sparse ? 1 : (restore.length + cpu::pageTokens - 1) / cpu::pageTokens;
    const std::byte* rows = restore.rows.data();
    if (restore.copied < pages * pageBytes) {
        const std::int64_t first = restore.copied / pageBytes;
        const std::int64_t count = std::min(pages - first, std::max<std::int64_t>(atMost / pageBytes, 1));
        m_forward.parallel()(count, [&](std::int64_t i) {
            std::memcpy(sequence->kv.pageData(int(first + i)), rows + (first + i) * pageBytes, std::size_t(pageBytes));
        });
        restore.copied += count * pageBytes;
        return {};
    }
    HostTier& tier = sequence->sparse->tier();
    const std::int64_t layers = tier.shape().numLayers, unit = tier.shape().pageBytes();
    const std::int64_t first = (restore.copied - pageBytes) / unit;
    const std::int64_t count =
        std::min(tier.pagesPerLayer() * layers - first, std::max<std::int64_t>(atMost / unit, 1));
    m_forward.parallel()(count, [&](std::int64_t i) {
        const std::int64_t index = first + i;
        tier.restorePage(int(index % layers), index / layers, rows + pageBytes + index * unit);
    });
    restore.copied += count * unit;
    return {};
}

} // namespace octavo::engine
