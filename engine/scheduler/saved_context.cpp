#include "engine/scheduler/saved_context.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <type_traits>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace octavo::engine {
namespace fs = std::filesystem;
namespace {

constexpr char magic[8] = {'O', 'C', 'T', 'V', 'C', 'T', 'X', '3'};
constexpr std::int64_t alignment = 4096, blockBytes = std::int64_t{4} << 20, sliceBytes = std::int64_t{16} << 20;

std::int64_t aligned(std::int64_t bytes)
{
    return (bytes + alignment - 1) / alignment * alignment;
}

template <std::size_t size>
void putText(char (&to)[size], const std::string& text)
{
    std::size_t length = std::min(text.size(), size - 1);
    while (length < text.size() && length > 0 && (std::uint8_t(text[length]) & 0xc0) == 0x80)
        --length; // not inside a character
    std::memcpy(to, text.data(), length);
}

template <std::size_t size>
std::string text(const char (&from)[size])
{
    return std::string(from, ::strnlen(from, size));
}

struct Mapping {
    void* data = MAP_FAILED;
    std::size_t bytes = 0;
    ~Mapping()
    {
        if (data != MAP_FAILED)
            ::munmap(data, bytes);
    }
};

Error unreadable(const fs::path& path, int code)
{
    return Error{code == ENOENT ? ErrorCode::NotFound : ErrorCode::FileUnreadable,
                 path.string() + ": the saved context cannot be read now (" + std::strerror(code) + ")"};
}

Error damaged(const fs::path& path, const std::string& why)
{
    return Error{ErrorCode::FormatInvalid, path.string() + ": the saved context is damaged (" + why + ")"};
}

} // namespace

std::uint64_t hashOf(std::span<const TokenId> tokens)
{
    return XXH3_64bits(tokens.data(), tokens.size_bytes());
}

struct SavedContext::Head {
    struct Resume {
        std::uint64_t position, tokenHash, stateBytes, stateHash, rowBytes, run;
    };
    char magic[8];
    std::uint64_t modelKey, length, rowBytes[numRuns], blocksHash, numResume;
    Resume resume[mostResumePoints];
    char model[64], name[256], commit[80];
    std::uint64_t wanted; // 0 in files from before there were parts of contexts
    char zeros[4096 - 8 * (7 + numRuns + 6 * mostResumePoints) - 400];
    std::uint64_t hash; // over all before it

    std::uint64_t ownHash() const { return XXH3_64bits(this, offsetof(Head, hash)); }
    std::int64_t tokensBytes() const { return std::int64_t(length) * std::int64_t(sizeof(TokenId)); }
    std::int64_t statesAt() const { return stateAt(0); }
    std::int64_t stateAt(std::size_t index) const
    {
        std::int64_t at = aligned(std::int64_t(sizeof(Head)) + tokensBytes());
        for (std::size_t i = 0; i < index; ++i)
            at += std::int64_t(resume[i].stateBytes);
        return at;
    }
    std::int64_t rowsAt(std::size_t run) const
    {
        std::int64_t at = stateAt(numResume);
        for (std::size_t before = 0; before < run; ++before)
            at += std::int64_t(rowBytes[before]);
        return at;
    }
    std::int64_t blocksAt() const { return rowsAt(numRuns); }
    /// Before those of a run; every run begins one of its own.
    std::int64_t blocksBefore(std::size_t run) const
    {
        std::int64_t blocks = 0;
        for (std::size_t before = 0; before < run; ++before)
            blocks += (std::int64_t(rowBytes[before]) + blockBytes - 1) / blockBytes;
        return blocks;
    }
    std::int64_t numBlocks() const { return blocksBefore(numRuns); }
    std::int64_t fileBytes() const { return blocksAt() + numBlocks() * 8; }

    /// Whether sizes and positions make sense, so that no sum of them overflows.
    bool isSound() const
    {
        constexpr std::uint64_t most = std::uint64_t{1} << 46;
        if (length < 1 || length > most / 8 || numResume < 1 || numResume > mostResumePoints
            || std::ranges::any_of(rowBytes, [](std::uint64_t bytes) { return bytes > most; }))
            return false;
        std::uint64_t needed[numRuns] = {};
        for (std::size_t i = 0; i < numResume; ++i) {
            const Resume& point = resume[i];
            const bool ascends = i == 0 || point.position > resume[i - 1].position;
            if (!ascends || point.position < 1 || point.stateBytes > most || point.run >= numRuns
                || point.rowBytes < needed[point.run])
                return false;
            needed[point.run] = point.rowBytes;
        }
        const Resume& last = resume[numResume - 1];
        return last.position == length && last.run == 0 && std::ranges::equal(needed, rowBytes);
    }
};

struct SavedContext::Descriptor {
    int value = -1;
    explicit Descriptor(int opened) : value(opened) {}
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor()
    {
        if (value >= 0)
            ::close(value);
    }
};

namespace {

/// 0, an errno, or -1 where the file ends too soon.
int readAt(int descriptor, void* to, std::size_t bytes, std::int64_t offset)
{
    auto* at = static_cast<std::byte*>(to);
    while (bytes > 0) {
        const ssize_t got = ::pread(descriptor, at, bytes, offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? errno : -1;
        at += got;
        offset += got;
        bytes -= std::size_t(got);
    }
    return 0;
}

Error readFailed(const fs::path& path, int code)
{
    return code < 0 ? damaged(path, "it ends too soon") : unreadable(path, code);
}

} // namespace

// --- Reading ---------------------------------------------------------------------------------------------------------

Result<SavedContext> SavedContext::open(const fs::path& path)
{
    static_assert(sizeof(Head) == 4096 && std::has_unique_object_representations_v<Head>);
    SavedContext file;
    file.m_descriptor = std::make_shared<Descriptor>(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    const int descriptor = file.m_descriptor->value;
    struct stat status {};
    if (descriptor < 0 || ::fstat(descriptor, &status) != 0)
        return unreadable(path, errno);
    if (!S_ISREG(status.st_mode))
        return Error{ErrorCode::Unsupported, path.string() + ": this is no file, so no saved context"};
    auto head = std::make_shared<Head>();
    const int code = readAt(descriptor, head.get(), sizeof(Head), 0);
    const char version = std::memcmp(head->magic, magic, 7) == 0 ? head->magic[7] : '\0';
    if (version >= '1' && version <= '9' && version != magic[7])
        return Error{ErrorCode::Unsupported, path.string() + ": another version of Octavo saved this context"};
    if (code != 0)
        return readFailed(path, code);
    if (std::memcmp(head->magic, magic, sizeof magic) != 0 || head->hash != head->ownHash() || !head->isSound())
        return damaged(path, "its head does not match its checksum");
    if (head->fileBytes() != status.st_size)
        return damaged(path, "it has " + std::to_string(status.st_size) + " bytes, its head says "
                                 + std::to_string(head->fileBytes()));
    file.m_info = {path, {text(head->name), text(head->commit)}, text(head->model), head->modelKey, status.st_size, {},
                   {}};
    file.m_info.wantedTokens = std::int64_t(head->wanted);
    for (std::size_t i = 0; i < head->numResume; ++i)
        file.m_info.resume.push_back({std::int64_t(head->resume[i].position), head->resume[i].tokenHash});
    std::error_code ignored;
    file.m_info.lastUsed = fs::last_write_time(path, ignored);
    file.m_head = std::move(head);
    return file;
}

Result<void> SavedContext::checkRange(std::int64_t offset, std::int64_t bytes, std::uint64_t hash,
                                      const char* what) const
{
    XXH3_state_t state;
    XXH3_INITSTATE(&state);
    XXH3_64bits_reset(&state);
    std::vector<std::byte> buffer(std::size_t(std::min<std::int64_t>(bytes, 256 << 10))); // stays in the cache
    while (bytes > 0) {
        const std::size_t take = std::min(buffer.size(), std::size_t(bytes));
        if (const int code = readAt(m_descriptor->value, buffer.data(), take, offset); code != 0)
            return readFailed(m_info.file, code);
        XXH3_64bits_update(&state, buffer.data(), take);
        offset += std::int64_t(take);
        bytes -= std::int64_t(take);
    }
    if (XXH3_64bits_digest(&state) != hash)
        return damaged(m_info.file, std::string(what) + " do not match their checksum");
    return {};
}

Result<std::vector<TokenId>> SavedContext::tokens() const
{
    std::vector<TokenId> ids(m_head->length);
    const std::int64_t end = std::int64_t(sizeof(Head)) + m_head->tokensBytes();
    std::vector<std::byte> gap(std::size_t(m_head->statesAt() - end));
    int code = readAt(m_descriptor->value, ids.data(), std::size_t(m_head->tokensBytes()), sizeof(Head));
    if (code == 0)
        code = readAt(m_descriptor->value, gap.data(), gap.size(), end);
    if (code != 0)
        return readFailed(m_info.file, code);
    for (const ResumePoint& point : m_info.resume) {
        if (hashOf(std::span(ids).first(std::size_t(point.position))) != point.tokenHash)
            return damaged(m_info.file, "its token ids do not match their checksum");
    }
    if (std::ranges::any_of(gap, [](std::byte byte) { return byte != std::byte{0}; }))
        return damaged(m_info.file, "there is something between its parts");
    return ids;
}

Result<void> SavedContext::checkStates() const
{
    const Head& head = *m_head;
    ::posix_fadvise(m_descriptor->value, head.statesAt(), head.rowsAt(0) - head.statesAt(), POSIX_FADV_SEQUENTIAL);
    for (std::size_t i = 0; i < head.numResume; ++i)
        OCTAVO_CHECK(checkRange(head.stateAt(i), std::int64_t(head.resume[i].stateBytes), head.resume[i].stateHash,
                                "its states"));
    return checkRange(head.blocksAt(), head.numBlocks() * 8, head.blocksHash, "its checksums");
}

/// The first `bytes` of a run, and what stands in the block that they end in.
Result<void> SavedContext::checkRows(std::size_t run, std::int64_t bytes, const std::function<bool()>& stop) const
{
    const Head& head = *m_head;
    ::posix_fadvise(m_descriptor->value, head.rowsAt(run), bytes, POSIX_FADV_SEQUENTIAL);
    std::vector<std::uint64_t> hashes(std::size_t((bytes + blockBytes - 1) / blockBytes));
    if (const int code = readAt(m_descriptor->value, hashes.data(), hashes.size() * 8,
                                head.blocksAt() + head.blocksBefore(run) * 8);
        code != 0)
        return readFailed(m_info.file, code);
    for (std::size_t block = 0; block < hashes.size(); ++block) {
        const std::int64_t begin = std::int64_t(block) * blockBytes;
        if (stop && stop())
            return Error{ErrorCode::Cancelled, m_info.file.string() + ": it is not needed any more"};
        OCTAVO_CHECK(checkRange(head.rowsAt(run) + begin,
                                std::min(blockBytes, std::int64_t(head.rowBytes[run]) - begin), hashes[block],
                                "its keys and values"));
    }
    return {};
}

Result<SavedContext::Image> SavedContext::imageAt(std::int64_t position, const std::function<bool()>& stop) const
{
    const auto point = std::ranges::find(m_info.resume, position, &ResumePoint::position);
    if (point == m_info.resume.end())
        return Error{ErrorCode::InvalidArgument,
                     m_info.file.string() + ": no state is saved at " + std::to_string(position) + " tokens"};
    const auto index = std::size_t(point - m_info.resume.begin());
    const auto run = std::size_t(m_head->resume[index].run);
    // By read() first: a disk that fails under a map ends the program, under read() it gives an error.
    OCTAVO_CHECK(checkStates());
    OCTAVO_CHECK(checkRows(run, std::int64_t(m_head->resume[index].rowBytes), stop));
    auto mapping = std::make_shared<Mapping>();
    mapping->bytes = std::size_t(m_info.bytes);
    mapping->data = ::mmap(nullptr, mapping->bytes, PROT_READ, MAP_PRIVATE, m_descriptor->value, 0);
    if (mapping->data == MAP_FAILED)
        return unreadable(m_info.file, errno);
    const auto* bytes = static_cast<const std::byte*>(mapping->data);
    Image image;
    image.state = {bytes + m_head->stateAt(index), std::size_t(m_head->resume[index].stateBytes)};
    image.rows = {bytes + m_head->rowsAt(run), std::size_t(m_head->resume[index].rowBytes)};
    image.storage = std::move(mapping);
    return image;
}

Result<void> SavedContext::verify() const
{
    OCTAVO_CHECK(tokens());
    OCTAVO_CHECK(checkStates());
    for (std::size_t run = 0; run < numRuns; ++run)
        OCTAVO_CHECK(checkRows(run, std::int64_t(m_head->rowBytes[run]), {}));
    return {};
}

// --- Writing ---------------------------------------------------------------------------------------------------------

namespace {

/// Writes in order, syncing what it has written every so often, so that nothing at the end takes long.
class Writer
{
public:
    Writer(int descriptor, const std::function<bool()>& stop) : m_descriptor(descriptor), m_stop(stop) {}

    /// False with errno set; ECANCELED when told to stop.
    bool write(std::span<const std::byte> bytes)
    {
        while (!bytes.empty()) {
            if (m_sinceSync >= sliceBytes && !sync())
                return false;
            const auto take = std::min(bytes.size(), std::size_t(sliceBytes - m_sinceSync));
            const ssize_t written = ::pwrite(m_descriptor, bytes.data(), take, m_at);
            if (written < 0 && errno == EINTR)
                continue;
            if (written <= 0)
                return false;
            m_at += written;
            m_sinceSync += written;
            bytes = bytes.subspan(std::size_t(written));
        }
        return true;
    }

    bool sync()
    {
        m_sinceSync = 0;
        if (m_stop()) {
            errno = ECANCELED;
            return false;
        }
        return ::fdatasync(m_descriptor) == 0;
    }

    void seek(std::int64_t at) { m_at = at; }

private:
    const int m_descriptor;
    const std::function<bool()>& m_stop;
    std::int64_t m_at = 0, m_sinceSync = 0;
};

/// Hashes rows by blocks, whatever parts they come in.
class BlockHasher
{
public:
    BlockHasher()
    {
        XXH3_INITSTATE(&m_state);
        XXH3_64bits_reset(&m_state);
    }
    void add(std::span<const std::byte> bytes)
    {
        while (!bytes.empty()) {
            const auto take = std::min(bytes.size(), std::size_t(blockBytes) - m_filled);
            XXH3_64bits_update(&m_state, bytes.data(), take);
            m_filled += take;
            bytes = bytes.subspan(take);
            if (m_filled == std::size_t(blockBytes))
                endBlock();
        }
    }
    void endRun()
    {
        if (m_filled > 0)
            endBlock();
    }
    std::vector<std::uint64_t> finish() { return std::move(m_hashes); }

private:
    void endBlock()
    {
        m_hashes.push_back(XXH3_64bits_digest(&m_state));
        XXH3_64bits_reset(&m_state);
        m_filled = 0;
    }
    XXH3_state_t m_state;
    std::size_t m_filled = 0;
    std::vector<std::uint64_t> m_hashes;
};

/// Opens `path` anew and holds its lock. A file that was just made may be taken for an abandoned one and be removed
/// before it is locked; then there is another try.
int createLocked(const fs::path& path)
{
    for (int attempt = 0; attempt < 8; ++attempt) {
        const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (descriptor < 0)
            return -1;
        struct stat status {};
        const bool locked = ::flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno == ENOLCK || errno == ENOTSUP;
        if (locked && ::fstat(descriptor, &status) == 0 && status.st_nlink > 0)
            return descriptor;
        ::close(descriptor);
    }
    errno = EBUSY;
    return -1;
}

} // namespace

std::int64_t SavedContext::Content::fileBytes() const
{
    Head head{};
    head.length = tokens.size();
    head.numResume = std::min(states.size(), mostResumePoints);
    for (std::size_t i = 0; i < head.numResume; ++i)
        head.resume[i].stateBytes = std::uint64_t(SequenceImage::bytes(states[i].parts));
    for (std::size_t run = 0; run < numRuns; ++run)
        head.rowBytes[run] = std::uint64_t(SequenceImage::bytes(rows[run]));
    return head.fileBytes();
}

Result<void> SavedContext::write(const fs::path& path, const Content& content, const std::function<bool()>& stop)
{
    static std::atomic<int> parts = 0; // two stores may write the same context at once
    const fs::path part =
        path.string() + "." + std::to_string(::getpid()) + "-" + std::to_string(parts.fetch_add(1)) + ".part";
    const std::int64_t total = content.fileBytes();
    auto failed = [&](const char* what) {
        const int code = errno;
        ::unlink(part.c_str());
        if (code == ECANCELED)
            return Error{ErrorCode::Cancelled, path.string() + ": the program ended before the context was saved"};
        return Error{ErrorCode::FileUnwritable, path.string() + ": " + what + " (" + std::strerror(code) + "), "
                                                    + std::to_string((total >> 20) + 1)
                                                    + " MiB were needed; the context is not saved"};
    };
    if (content.tokens.empty() || content.states.empty() || content.states.size() > mostResumePoints
        || content.states.back().position != std::int64_t(content.tokens.size()))
        return Error{ErrorCode::InvalidArgument, path.string() + ": a context without an end cannot be saved"};

    auto head = std::make_unique<Head>(); // value-initialised: all of it is zero
    std::memcpy(head->magic, magic, sizeof magic);
    head->modelKey = content.modelKey;
    head->length = content.tokens.size();
    head->numResume = content.states.size();
    head->wanted = std::uint64_t(content.wantedTokens);
    for (std::size_t run = 0; run < numRuns; ++run)
        head->rowBytes[run] = std::uint64_t(SequenceImage::bytes(content.rows[run]));
    putText(head->model, content.model);
    putText(head->name, content.label.name);
    putText(head->commit, content.label.commit);

    const Descriptor file(createLocked(part));
    if (file.value < 0)
        return failed("cannot be created");
    if (const int code = ::posix_fallocate(file.value, 0, total); code == ENOSPC) { // reserve, then write
        errno = code;
        return failed("there is no room on the disk");
    }
    Writer writer(file.value, stop);
    writer.seek(sizeof(Head)); // the head comes last: without it, nothing here can be taken for a context
    const std::vector<std::byte> gap(std::size_t(head->statesAt() - std::int64_t(sizeof(Head)) - head->tokensBytes()));
    bool good = writer.write(std::as_bytes(content.tokens)) && writer.write(gap);
    for (std::size_t i = 0; i < content.states.size(); ++i) {
        const Content::State& state = content.states[i];
        XXH3_state_t hash;
        XXH3_INITSTATE(&hash);
        XXH3_64bits_reset(&hash);
        for (const auto& bytes : state.parts) {
            XXH3_64bits_update(&hash, bytes.data(), bytes.size());
            good = good && writer.write(bytes);
        }
        head->resume[i] = {std::uint64_t(state.position), hashOf(content.tokens.first(std::size_t(state.position))),
                           std::uint64_t(SequenceImage::bytes(state.parts)), XXH3_64bits_digest(&hash),
                           std::uint64_t(state.rowBytes), std::uint64_t(state.run)};
    }
    BlockHasher hasher;
    for (const SequenceImage::Parts& run : content.rows) {
        for (const auto& rows : run) {
            if (good)
                hasher.add(rows);
            good = good && writer.write(rows);
        }
        hasher.endRun();
    }
    const std::vector<std::uint64_t> hashes = hasher.finish();
    head->blocksHash = XXH3_64bits(hashes.data(), hashes.size() * 8);
    head->hash = head->ownHash();
    good = good && writer.write(std::as_bytes(std::span(hashes))) && writer.sync();
    writer.seek(0);
    if (!good || !writer.write(std::as_bytes(std::span(head.get(), 1))) || ::fsync(file.value) != 0)
        return failed("cannot be written");
    if (::rename(part.c_str(), path.c_str()) != 0)
        return failed("cannot be renamed");
    const Descriptor folder(::open(path.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder.value >= 0)
        ::fsync(folder.value);
    return {};
}

void SavedContext::removeAbandoned(const fs::path& part)
{
    const Descriptor file(::open(part.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.value >= 0 && ::flock(file.value, LOCK_EX | LOCK_NB) == 0)
        ::unlink(part.c_str());
}

} // namespace octavo::engine
