#include "engine/model/mapped_file.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace octavo::engine
{

namespace
{

struct FileDescriptor {
    int fd = -1;
    ~FileDescriptor()
    {
        if (fd >= 0)
            ::close(fd);
    }
};

Error unreadable(const std::filesystem::path& path, const std::string& why)
{
    return Error{ErrorCode::FileUnreadable, path.string() + " cannot be read: " + why};
}

/// Opens a regular file and gives its size through `size`.
Result<void> openRegular(const std::filesystem::path& path, FileDescriptor& file, std::size_t& size)
{
    file.fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file.fd < 0)
        return unreadable(path, std::strerror(errno));
    struct stat status = {};
    if (::fstat(file.fd, &status) != 0)
        return unreadable(path, std::strerror(errno));
    if (!S_ISREG(status.st_mode))
        return unreadable(path, S_ISDIR(status.st_mode) ? "it is a folder, not a file" : "it is not a regular file");
    size = std::size_t(status.st_size);
    return {};
}

} // namespace

Result<MappedFile> MappedFile::open(const std::filesystem::path& path)
{
    FileDescriptor file;
    std::size_t size = 0;
    OCTAVO_CHECK(openRegular(path, file, size));
    if (size == 0)
        return MappedFile(std::span<const std::byte>{});
    void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
    if (address == MAP_FAILED)
        return unreadable(path, std::strerror(errno));
    return MappedFile(std::span(static_cast<const std::byte*>(address), size));
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : m_bytes(std::exchange(other.m_bytes, {}))
{
}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept
{
    std::swap(m_bytes, other.m_bytes);
    return *this;
}

MappedFile::~MappedFile()
{
    if (!m_bytes.empty())
        ::munmap(const_cast<std::byte*>(m_bytes.data()), m_bytes.size());
}

void MappedFile::letGoOfPages() const
{
    if (!m_bytes.empty())
        ::madvise(const_cast<std::byte*>(m_bytes.data()), m_bytes.size(), MADV_DONTNEED);
}

Result<std::string> readTextFile(const std::filesystem::path& path, std::size_t maxBytes)
{
    FileDescriptor file;
    std::size_t size = 0;
    OCTAVO_CHECK(openRegular(path, file, size));
    if (size > maxBytes)
        return Error{ErrorCode::FormatInvalid, path.string() + " has " + std::to_string(size) +
                                                   " bytes, where at most " + std::to_string(maxBytes) +
                                                   " make sense: download it again"};
    std::string text(size, '\0');
    std::size_t done = 0;
    while (done < size) {
        const ssize_t got = ::read(file.fd, text.data() + done, size - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return unreadable(path, std::strerror(errno));
        if (got == 0)
            break;
        done += std::size_t(got);
    }
    text.resize(done);
    return text;
}

std::string_view recognisedImpostor(std::string_view head)
{
    if (head.starts_with("version https://git-lfs"))
        return "a Git LFS pointer";
    if (head.starts_with("\xef\xbb\xbf"))
        head.remove_prefix(3);
    while (!head.empty() &&
           (head.front() == ' ' || head.front() == '\n' || head.front() == '\r' || head.front() == '\t'))
        head.remove_prefix(1);
    auto beginsWith = [&](std::string_view lower) {
        if (head.size() < lower.size())
            return false;
        for (std::size_t i = 0; i < lower.size(); ++i) {
            const char c = head[i] >= 'A' && head[i] <= 'Z' ? char(head[i] - 'A' + 'a') : head[i];
            if (c != lower[i])
                return false;
        }
        return true;
    };
    for (std::string_view tag : {"<!doctype", "<html", "<head", "<?xml"}) {
        if (beginsWith(tag))
            return "a web page";
    }
    return {};
}

} // namespace octavo::engine
