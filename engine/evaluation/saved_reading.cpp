#include "engine/evaluation/saved_reading.h"

#include "engine/model/mapped_file.h"

#include <xxhash.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

namespace octavo::engine
{

namespace
{

struct Header {
    char magic[16] = {'o', 'c', 't', 'a', 'v', 'o', ' ', 'r', 'e', 'a', 'd', 'i', 'n', 'g', ' ', '2'};
    std::uint64_t formatHash = 0, tokensHash = 0, tokens = 0, stateBytes = 0, imageHash = 0, unused = 0;
};
static_assert(sizeof(Header) == 64);

std::uint64_t hashOf(std::span<const std::byte> bytes, std::uint64_t seed = 0)
{
    return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

Header headerFor(const Backend& backend, std::uint64_t model, std::span<const TokenId> ids)
{
    const std::string format = backend.imageFormat();
    Header header;
    header.formatHash = hashOf(std::as_bytes(std::span(format)), model);
    header.tokensHash = hashOf(std::as_bytes(ids));
    header.tokens = ids.size();
    return header;
}

Error unwritable(const std::filesystem::path& file)
{
    return Error{ErrorCode::FileUnwritable, file.string() + " cannot be written; name another file or free space"};
}

Result<void> save(Backend& backend, std::uint64_t model, SlotId slot, std::span<const TokenId> ids,
                  const std::filesystem::path& file)
{
    OCTAVO_TRY(const SequenceImage image, backend.imageOf(slot, ImageRows::Taken));
    Header header = headerFor(backend, model, ids);
    const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
    if (!state)
        return Error{ErrorCode::OutOfMemory, "No memory was left to save what was read"};
    XXH3_64bits_reset(state.get());
    for (const auto* parts : {&image.state, &image.rows}) {
        for (const auto& part : *parts)
            XXH3_64bits_update(state.get(), part.data(), part.size());
    }
    header.stateBytes = std::uint64_t(SequenceImage::bytes(image.state));
    header.imageHash = XXH3_64bits_digest(state.get());
    std::filesystem::path written = file;
    written += ".new";
    {
        std::ofstream out(written, std::ios::binary);
        out.write(reinterpret_cast<const char*>(&header), sizeof header);
        for (const auto* parts : {&image.state, &image.rows}) {
            for (const auto& part : *parts)
                out.write(reinterpret_cast<const char*>(part.data()), std::streamsize(part.size()));
        }
        out.close();
        if (!out) {
            std::error_code ignored;
            std::filesystem::remove(written, ignored);
            return unwritable(file);
        }
    }
    std::error_code failed, ignored;
    std::filesystem::rename(written, file, failed);
    if (failed)
        std::filesystem::remove(written, ignored);
    return failed ? Result<void>(unwritable(file)) : Result<void>();
}

/// Only what was kept by an earlier reading is written over, of this version or another.
Result<void> checkReplaceable(const std::filesystem::path& file)
{
    std::error_code error;
    if (!std::filesystem::exists(file, error) ||
        (std::filesystem::is_regular_file(file, error) && std::filesystem::is_empty(file, error)))
        return {};
    constexpr std::string_view kind = "octavo reading ";
    char begin[kind.size()] = {};
    std::ifstream in(file, std::ios::binary);
    if (in.read(begin, sizeof begin) && std::string_view(begin, sizeof begin) == kind)
        return {};
    return Error{ErrorCode::InvalidArgument, file.string() + " is no reading that was kept; name another file"};
}

/// What the file holds of `ids`; nothing where it is missing or another's.
Result<ScopedSequence> reopen(Backend& backend, std::uint64_t model, std::span<const TokenId> ids,
                              const std::filesystem::path& file, std::size_t& length)
{
    const Error other{ErrorCode::NotFound, file.string() + " holds nothing of this text for this backend"};
    OCTAVO_TRY(const MappedFile mapped, MappedFile::open(file));
    Header header;
    if (mapped.bytes().size() < sizeof header)
        return other;
    std::memcpy(&header, mapped.bytes().data(), sizeof header);
    if (header.tokens < 1 || header.tokens > ids.size())
        return other;
    length = std::size_t(header.tokens);
    const Header wanted = headerFor(backend, model, ids.first(length));
    if (std::memcmp(header.magic, wanted.magic, sizeof header.magic) != 0 || header.formatHash != wanted.formatHash ||
        header.tokensHash != wanted.tokensHash)
        return other;
    const std::span<const std::byte> image = mapped.bytes().subspan(sizeof header);
    if (hashOf(image) != header.imageHash || header.stateBytes > image.size())
        return other;
    const auto stateBytes = std::size_t(header.stateBytes);
    OCTAVO_TRY(const SlotId slot, backend.restoreSequence(std::int64_t(length), image.first(stateBytes),
                                                          image.subspan(stateBytes)));
    return ScopedSequence::adopt(backend, slot);
}

} // namespace

Result<SlotId> readOrReopen(Backend& backend, std::uint64_t model, std::span<const TokenId> ids,
                            const std::filesystem::path& file, const EvaluationHooks& hooks)
{
    using Clock = std::chrono::steady_clock;
    constexpr std::chrono::minutes between{2};
    OCTAVO_CHECK(checkEvaluationIds(backend, ids, 1));
    const auto room = std::int64_t(ids.size());
    std::size_t done = 0;
    Result<ScopedSequence> held = Error{ErrorCode::NotFound, ""};
    if (!file.empty()) {
        OCTAVO_CHECK(checkReplaceable(file));
        held = reopen(backend, model, ids, file, done);
    }
    if (held && done == ids.size())
        return held->release();
    if (!held)
        done = 0;
    Result<ScopedSequence> reading =
        held ? ScopedSequence::fork(backend, held->slot(), room) : ScopedSequence::create(backend, room);
    if (!reading)
        return reading.error();
    const auto slice = std::size_t(backend.maxPrefillSlice());
    for (auto saved = Clock::now(); done < ids.size();) {
        const std::size_t rows = std::min(slice, ids.size() - done);
        OCTAVO_CHECK(readTokens(backend, reading->slot(), ids.subspan(done, rows), hooks, std::int64_t(done), room));
        done += rows;
        if (!file.empty() && (done == ids.size() || Clock::now() - saved > between)) {
            OCTAVO_CHECK(save(backend, model, reading->slot(), ids.first(done), file));
            saved = Clock::now();
        }
    }
    return reading->release();
}

} // namespace octavo::engine
