#pragma once

/// A file mapped read-only into memory.
///
/// Thread   immutable; any thread may read. Life: the bytes are valid as long as the object (moving keeps them).
/// Limits   the file must not be truncated while it is mapped: reading past its new end raises SIGBUS.

#include "engine/result.h"

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace octavo::engine
{

class MappedFile
{
public:
    /// Fails with FileUnreadable for a missing, unreadable or irregular file. An empty file gives empty bytes.
    static Result<MappedFile> open(const std::filesystem::path& path);

    MappedFile(MappedFile&& other) noexcept;
    MappedFile& operator=(MappedFile&& other) noexcept;
    ~MappedFile();

    std::span<const std::byte> bytes() const { return m_bytes; }

    /// Takes what was read out of this process's memory; what is touched again comes back, from the system's cache as a
    /// rule.
    void letGoOfPages() const;

private:
    explicit MappedFile(std::span<const std::byte> bytes)
        : m_bytes(bytes)
    {
    }
    std::span<const std::byte> m_bytes;
};

/// Reads a small text file whole. Fails with FileUnreadable, or with FormatInvalid when it is longer than `maxBytes`.
Result<std::string> readTextFile(const std::filesystem::path& path, std::size_t maxBytes);

/// What a file that should be something else looks like from its first bytes: "a web page", "a Git LFS pointer", or
/// nothing. Both are what a failed download leaves behind.
std::string_view recognisedImpostor(std::string_view head);

} // namespace octavo::engine
