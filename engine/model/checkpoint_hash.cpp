#include "engine/model/checkpoint_hash.h"

#include <algorithm>
#include <memory>

#include <xxhash.h>

namespace octavo::engine
{

namespace
{

constexpr std::size_t blockBytes = 4096, bytesPerBlock = std::size_t{8} << 20, smallTensor = std::size_t{64} << 10;

class Hasher
{
public:
    Hasher()
        : m_state(XXH3_createState(), &XXH3_freeState)
    {
        if (m_state)
            XXH3_64bits_reset(m_state.get());
    }

    void addBytes(const void* data, std::size_t size)
    {
        if (m_state && size > 0)
            XXH3_64bits_update(m_state.get(), data, size);
    }

    /// With its length, so that two neighbours cannot trade bytes.
    template <typename Values>
    void add(const Values& values)
    {
        const std::uint64_t count = values.size();
        addBytes(&count, sizeof count);
        addBytes(values.data(), values.size() * sizeof *values.data());
    }

    std::uint64_t digest() const { return m_state ? XXH3_64bits_digest(m_state.get()) : 0; }

private:
    std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> m_state;
};

void addSamples(Hasher& hasher, std::span<const std::byte> bytes)
{
    const std::size_t last = bytes.size() - blockBytes, gaps = 1 + bytes.size() / bytesPerBlock;
    for (std::size_t i = 0; i <= gaps; ++i)
        hasher.addBytes(bytes.data() + last / gaps * i + (i == gaps ? last % gaps : 0), blockBytes);
}

} // namespace

std::uint64_t checkpointHash(const Checkpoint& checkpoint, std::string_view config, std::uint64_t wholeUpTo)
{
    const bool whole = checkpoint.fileBytes() <= wholeUpTo;
    Hasher hasher;
    hasher.add(config);
    for (const auto& [name, tensor] : checkpoint.tensors()) {
        hasher.add(name);
        hasher.add(dtypeName(tensor.dtype));
        hasher.add(tensor.shape);
        if (whole || tensor.bytes.size() <= smallTensor)
            hasher.addBytes(tensor.bytes.data(), tensor.bytes.size());
        else
            addSamples(hasher, tensor.bytes);
    }
    return hasher.digest();
}

} // namespace octavo::engine
