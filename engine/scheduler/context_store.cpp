#include "engine/scheduler/context_store.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace octavo::engine {
namespace fs = std::filesystem;
namespace {

constexpr char magic[8] = {'O', 'C', 'T', 'V', 'C', 'T', 'X', '1'};
constexpr std::int64_t imageAlignment = 4096;

/// The start of a file, in the machine's byte order: a file does not leave the machine that can use it.
struct Header {
    char magic[8];
    std::uint64_t modelKey, length, tokenHash, imageBytes, imageHash, headerHash; // the last over all before it
};

std::uint64_t hashOf(const Header& header)
{
    return XXH3_64bits(&header, offsetof(Header, headerHash));
}

std::uint64_t hashOf(std::span<const TokenId> tokens)
{
    return XXH3_64bits(tokens.data(), tokens.size_bytes());
}

std::int64_t imageOffset(std::int64_t length)
{
    const std::int64_t end = std::int64_t(sizeof(Header)) + length * std::int64_t(sizeof(TokenId));
    return (end + imageAlignment - 1) / imageAlignment * imageAlignment;
}

/// Closes a file, and unmaps what was mapped, when it goes.
struct File {
    int descriptor = -1;
    explicit File(int opened) : descriptor(opened) {}
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    ~File()
    {
        if (descriptor >= 0)
            ::close(descriptor);
    }
};

struct Mapping {
    void* data = MAP_FAILED;
    std::size_t bytes = 0;
    ~Mapping()
    {
        if (data != MAP_FAILED)
            ::munmap(data, bytes);
    }
};

template <typename T>
std::span<const std::byte> bytesOf(const T& value)
{
    return std::as_bytes(std::span(&value, 1));
}

bool readHeader(const fs::path& path, Header& header)
{
    const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    return file.descriptor >= 0 && ::read(file.descriptor, &header, sizeof header) == ssize_t(sizeof header)
           && std::memcmp(header.magic, magic, sizeof magic) == 0 && header.headerHash == hashOf(header);
}

} // namespace

ContextStore::ContextStore(fs::path folder, std::int64_t quotaBytes, std::uint64_t modelKey)
    : m_folder(std::move(folder))
    , m_quota(quotaBytes)
    , m_modelKey(modelKey)
{
    std::error_code error;
    fs::create_directories(m_folder, error);
    std::error_code listing; // increment() reports instead of throwing: the folder may be on a network that fails
    for (fs::directory_iterator at(m_folder, listing), end; !listing && at != end; at.increment(listing)) {
        const fs::directory_entry& found = *at;
        const fs::path& path = found.path();
        if (path.extension() == ".part") // left by a program that was killed
            fs::remove(path, error);
        Header header{};
        if (path.extension() != ".context")
            continue;
        if (!readHeader(path, header)) {
            spdlog::warn("{}: the saved context's header is damaged; the context is read afresh", path.string());
            fs::remove(path, error);
            continue;
        }
        m_entries.push_back({path, std::int64_t(header.length), std::int64_t(found.file_size(error)),
                             header.tokenHash, header.modelKey == m_modelKey, found.last_write_time(error)});
    }
    m_thread = std::thread([this] { run(); });
}

ContextStore::~ContextStore()
{
    {
        const std::scoped_lock lock(m_mutex);
        m_closing = true;
        m_deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(1500);
    }
    m_changed.notify_all();
    m_thread.join();
}

const ContextStore::Entry* ContextStore::longest(std::span<const TokenId> prompt, std::int64_t limit) const
{
    const Entry* best = nullptr;
    for (const Entry& entry : m_entries) {
        const bool isLonger = entry.isOurs && entry.length <= std::min(limit, std::int64_t(prompt.size()))
                              && (!best || entry.length > best->length);
        if (isLonger && hashOf(prompt.first(std::size_t(entry.length))) == entry.tokenHash)
            best = &entry;
    }
    return best;
}

Result<ContextStore::Opened> ContextStore::open(const Entry& entry, std::span<const TokenId> prompt)
{
    const fs::path path = entry.file;
    const auto length = entry.length;
    auto refuse = [&](const std::string& why) {
        forget(path);
        return Error{ErrorCode::FormatInvalid, path.string() + ": " + why + "; the context is read afresh"};
    };
    const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat status {};
    if (file.descriptor < 0 || ::fstat(file.descriptor, &status) != 0)
        return refuse("the saved context cannot be opened");
    Header header{};
    if (!readHeader(path, header) || header.modelKey != m_modelKey || std::int64_t(header.length) != length)
        return refuse("the saved context's header is damaged");
    const std::int64_t offset = imageOffset(length);
    if (header.imageBytes > std::uint64_t(status.st_size) || offset + std::int64_t(header.imageBytes) != status.st_size)
        return refuse("the saved context has " + std::to_string(status.st_size) + " bytes, its header says "
                      + std::to_string(std::uint64_t(offset) + header.imageBytes));

    auto mapping = std::make_shared<Mapping>();
    mapping->bytes = std::size_t(status.st_size);
    mapping->data = ::mmap(nullptr, mapping->bytes, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file.descriptor, 0);
    if (mapping->data == MAP_FAILED)
        return refuse("the saved context cannot be mapped");
    const auto* bytes = static_cast<const std::byte*>(mapping->data);
    const std::span tokens(reinterpret_cast<const TokenId*>(bytes + sizeof(Header)), std::size_t(length));
    const std::span image(bytes + offset, std::size_t(header.imageBytes));
    const std::span gap(bytes + sizeof(Header) + tokens.size_bytes(), bytes + offset);
    const bool gapIsZero = std::ranges::all_of(gap, [](std::byte byte) { return byte == std::byte{0}; });
    if (!gapIsZero || !std::ranges::equal(tokens, prompt.first(std::size_t(length)))
        || XXH3_64bits(image.data(), image.size()) != header.imageHash)
        return refuse("the saved context does not match its checksum");

    std::error_code ignored;
    fs::last_write_time(path, fs::file_time_type::clock::now(), ignored); // what counts for the quota
    for (Entry& known : m_entries) {
        if (known.file == path)
            known.lastUsed = fs::file_time_type::clock::now();
    }
    return Opened{std::make_shared<const std::vector<TokenId>>(tokens.begin(), tokens.end()), image,
                  std::move(mapping)};
}

bool ContextStore::save(SharedTokens tokens, std::int64_t length, SequenceImage image)
{
    reclaim();
    const std::uint64_t tokenHash = hashOf(std::span(*tokens).first(std::size_t(length)));
    const auto isSame = [&](const auto& other) { return other.length == length && other.tokenHash == tokenHash; };
    const auto isKept = [&](const Entry& entry) { return entry.isOurs && isSame(entry); };
    if (std::ranges::any_of(m_entries, isKept) || imageOffset(length) + image.bytes() > m_quota)
        return false;
    makeRoom(imageOffset(length) + image.bytes());
    {
        const std::scoped_lock lock(m_mutex);
        if (std::ranges::any_of(m_queue, isSame))
            return false;
        m_queue.push_back({std::move(tokens), length, tokenHash, std::move(image)});
    }
    m_changed.notify_all();
    return true;
}

void ContextStore::reclaim()
{
    std::vector<Job> done;
    {
        const std::scoped_lock lock(m_mutex);
        if (m_done.empty())
            return;
        done.swap(m_done);
    }
    for (const Job& job : done) {
        if (!job.written)
            continue;
        m_entries.push_back({fileFor(job.tokenHash, job.length), job.length,
                             imageOffset(job.length) + job.image.bytes(), job.tokenHash, true,
                             fs::file_time_type::clock::now()});
    }
}

void ContextStore::flush()
{
    std::unique_lock lock(m_mutex);
    m_changed.wait(lock, [&] { return m_queue.empty() && !m_busy; });
    lock.unlock();
    reclaim();
}

void ContextStore::run()
{
    std::unique_lock lock(m_mutex);
    for (;;) {
        m_changed.wait(lock, [&] { return !m_queue.empty() || m_closing; });
        if (m_queue.empty() || std::chrono::steady_clock::now() >= m_deadline.load())
            return;
        Job job = std::move(m_queue.front());
        m_queue.pop_front();
        m_busy = true;
        lock.unlock();
        const auto written = write(job);
        if (!written)
            spdlog::warn("{}", written.error().message);
        job.written = written.has_value();
        lock.lock();
        m_busy = false;
        m_done.push_back(std::move(job));
        m_changed.notify_all();
    }
}

/// False with errno set; ECANCELED when the store closes and its time is up.
bool ContextStore::writeAll(int descriptor, std::span<const std::byte> bytes) const
{
    constexpr std::size_t atOnce = std::size_t{4} << 20;
    while (!bytes.empty()) {
        if (std::chrono::steady_clock::now() >= m_deadline.load()) {
            errno = ECANCELED;
            return false;
        }
        const ssize_t written = ::write(descriptor, bytes.data(), std::min(bytes.size(), atOnce));
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        bytes = bytes.subspan(std::size_t(written));
    }
    return true;
}

Result<std::int64_t> ContextStore::write(const Job& job) const
{
    static std::atomic<int> parts = 0; // two stores may write the same context at once
    const fs::path path = fileFor(job.tokenHash, job.length);
    const fs::path part =
        path.string() + "." + std::to_string(::getpid()) + "-" + std::to_string(parts.fetch_add(1)) + ".part";
    const std::int64_t total = imageOffset(job.length) + job.image.bytes();
    auto failed = [&](const char* what) {
        const std::string why = std::strerror(errno);
        ::unlink(part.c_str());
        return Error{ErrorCode::FileUnwritable,
                     path.string() + ": " + what + " (" + why + "), " + std::to_string(total >> 20)
                         + " MiB were needed; the context is not saved"};
    };
    Header header{};
    std::memcpy(header.magic, magic, sizeof magic);
    header.modelKey = m_modelKey;
    header.length = std::uint64_t(job.length);
    header.tokenHash = job.tokenHash;
    header.imageBytes = std::uint64_t(job.image.bytes());
    XXH3_state_t* state = XXH3_createState();
    XXH3_64bits_reset(state);
    for (const auto& bytes : job.image.parts)
        XXH3_64bits_update(state, bytes.data(), bytes.size());
    header.imageHash = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    header.headerHash = hashOf(header);

    const File file(::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (file.descriptor < 0)
        return failed("cannot be created");
    if (const int code = ::posix_fallocate(file.descriptor, 0, total); code == ENOSPC) { // reserve, then write
        errno = code;
        return failed("there is no room on the disk");
    }
    const std::span tokens = std::span(*job.tokens).first(std::size_t(job.length));
    const std::vector<std::byte> gap(
        std::size_t(imageOffset(job.length)) - sizeof header - tokens.size_bytes());
    bool good = writeAll(file.descriptor, bytesOf(header)) && writeAll(file.descriptor, std::as_bytes(tokens))
                && writeAll(file.descriptor, gap);
    for (const auto& bytes : job.image.parts)
        good = good && writeAll(file.descriptor, bytes);
    if (!good || ::fsync(file.descriptor) != 0)
        return failed("cannot be written");
    if (::rename(part.c_str(), path.c_str()) != 0)
        return failed("cannot be renamed");
    if (const File folder(::open(m_folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)); folder.descriptor >= 0)
        ::fsync(folder.descriptor);
    return total;
}

void ContextStore::makeRoom(std::int64_t bytes)
{
    std::int64_t used = bytes;
    for (const Entry& entry : m_entries)
        used += entry.bytes;
    while (used > m_quota && !m_entries.empty()) {
        const auto oldest = std::ranges::min_element(m_entries, {}, &Entry::lastUsed);
        used -= oldest->bytes;
        forget(fs::path(oldest->file));
    }
}

fs::path ContextStore::fileFor(std::uint64_t tokenHash, std::int64_t length) const
{
    char name[64];
    std::snprintf(name, sizeof name, "%016llx-%016llx-%lld.context", static_cast<unsigned long long>(m_modelKey),
                  static_cast<unsigned long long>(tokenHash), static_cast<long long>(length));
    return m_folder / name;
}

void ContextStore::forget(const fs::path& file)
{
    std::error_code ignored;
    fs::remove(file, ignored);
    std::erase_if(m_entries, [&](const Entry& entry) { return entry.file == file; });
}

} // namespace octavo::engine
