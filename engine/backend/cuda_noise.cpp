/// Contexts that nobody read, for measuring CudaBackend: as long as wanted, of random rows and sketches.

#include "engine/backend/cuda_backend.h"

#include "kernels/cuda/kv_rows.h"

#include <algorithm>
#include <random>

namespace octavo::engine
{

using namespace kernels::cuda;

namespace
{

/// fp16 bits of a value from 0.008 to 0.016: codes times this are as large as keys.
std::uint16_t randomScale(std::mt19937_64& random)
{
    return std::uint16_t(0x2000 | (random() & 0x3ff));
}

std::vector<std::uint8_t> randomRows(std::int64_t bytes, std::mt19937_64& random)
{
    std::vector<std::uint8_t> rows(static_cast<std::size_t>(bytes));
    for (std::size_t at = 0; at < rows.size(); at += std::size_t(kvHeadBytes)) {
        for (std::size_t i = 0; i < kvHeadDim; ++i)
            rows[at + i] = std::uint8_t(random());
        auto* scales = reinterpret_cast<std::uint16_t*>(&rows[at + kvHeadDim]);
        std::generate_n(scales, (kvHeadBytes - kvHeadDim) / 2, [&] { return randomScale(random); });
    }
    return rows;
}

} // namespace

CudaBackend::MemoryParts CudaBackend::memoryParts() const
{
    MemoryParts parts;
    parts.weights = m_model.bytes();
    parts.workSpace = m_workMemory.bytes() + m_sparse.workBytes();
    parts.prefillScratch = m_prefill.bytes();
    parts.hotBuffers = m_hotBytes;
    parts.rows = m_devicePages->claimedBytes();
    for (const auto& [slot, sequence] : m_sequences)
        parts.states += sequence.memory.bytes();
    parts.sketches = m_ownBytes - parts.states - parts.hotBuffers;
    return parts;
}

Result<void> CudaBackend::appendNoise(SlotId slot, std::int64_t tokens)
{
    OCTAVO_TRY(CudaSequence * sequence, ready(slot, {}));
    if (tokens < 0 || tokens > sequence->maxTokens - sequence->length)
        return Error{ErrorCode::ContextFull, "Noise of " + std::to_string(tokens) + " tokens does not fit behind " +
                                                 std::to_string(sequence->length) + " of " +
                                                 std::to_string(sequence->maxTokens)};
    OCTAVO_CHECK(checkCuda(cudaSetDevice(m_device), "be selected"));
    OCTAVO_CHECK(fillMtp(*sequence));
    const cudaStream_t stream = m_stream.get();
    const std::int64_t pageBytes = m_devicePages->pageBytes();
    if (m_noise.bytes() == 0) {
        std::mt19937_64 random(11);
        const std::vector<std::uint8_t> rows = randomRows(pageBytes, random);
        OCTAVO_TRY(m_noise, DeviceMemory::allocate(pageBytes, "a page of noise"));
        OCTAVO_CHECK(checkCuda(cudaMemcpy(m_noise.at(), rows.data(), rows.size(), cudaMemcpyHostToDevice),
                               "take a page of noise"));
    }
    if (sequence->length == 0 && sequence->sketch) {
        std::mt19937_64 random(std::uint64_t(std::int32_t(slot)) + 17);
        const std::int64_t bytes = sequence->sketch->memory.bytes();
        const std::int64_t scales =
            reinterpret_cast<std::uint8_t*>(m_sparse.view(*sequence->sketch, 0).scales) - sequence->sketch->memory.at();
        std::vector<std::uint64_t> words(static_cast<std::size_t>((bytes + 7) / 8));
        std::ranges::generate(words, [&] { return random(); });
        auto* halves = reinterpret_cast<std::uint16_t*>(words.data());
        for (std::int64_t i = scales / 2; i < bytes / 2; ++i)
            halves[i] = std::uint16_t(0x2000 | (halves[i] & 0x3ff));
        OCTAVO_CHECK(checkCuda(
            cudaMemcpy(sequence->sketch->memory.at(), words.data(), std::size_t(bytes), cudaMemcpyHostToDevice),
            "take sketches of noise"));
    }
    while (tokens > 0) {
        const std::int64_t inPage = sequence->length % rowPageTokens, count = std::min(tokens, rowPageTokens - inPage);
        OCTAVO_CHECK(makeRoom(*sequence, sequence->length + count));
        if (inPage == 0)
            OCTAVO_CHECK(
                checkCuda(cudaMemcpyAsync(sequence->pages[sequence->length / rowPageTokens].data(), m_noise.at(),
                                          std::size_t(pageBytes), cudaMemcpyDeviceToDevice, stream),
                          "copy a page of noise"));
        sequence->length += count;
        tokens -= count;
    }
    return checkCuda(cudaStreamSynchronize(stream), "append noise");
}

} // namespace octavo::engine
