#pragma once

/// The file of one saved context: what it says about itself, and how it is checked, opened and written.
///
/// Layout   a head of 4 KiB (sizes, labels, the positions where a sequence can resume), the token ids, zeros up to a
///          multiple of 4 KiB, the states by position, the KV rows from the first token on, one checksum for
///          each 4 MiB of rows. The head ends in a checksum of its own and holds those of all the rest, so no byte of
///          the file can change unnoticed. Numbers are in the machine's order: a file stays where it can be used.
/// Runs     a device may lay out the rows of a long context otherwise than those of a short one. So a file has two runs
///          of rows: the whole's, and those of the longest place to resume whose rows lie in the other way. A place
///          needs the beginning of one of them; a run that nothing needs is empty.
/// Errors   FormatInvalid: the file is damaged, and stays so. Unsupported: another version of Octavo wrote it.
///          NotFound: it is gone. FileUnreadable: it cannot be read now (no descriptors or memory left, no permission,
///          a failing disk); nothing is known against its content. Messages end where the file's name and the reason
///          do.

#include "engine/backend/backend.h"
#include "engine/engine.h"
#include "engine/result.h"
#include "engine/types.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace octavo::engine {

/// XXH3 over token ids.
std::uint64_t hashOf(std::span<const TokenId> tokens);

/// Where a sequence can start again.
struct ResumePoint {
    std::int64_t position = 0;   ///< tokens before it
    std::uint64_t tokenHash = 0; ///< over their ids
};

/// What a file's head says.
struct SavedContextInfo {
    std::filesystem::path file;
    ContextLabel label;
    std::string model;                 ///< name, for people; modelKey is what counts
    std::uint64_t modelKey = 0;
    std::int64_t bytes = 0;            ///< of the file
    std::vector<ResumePoint> resume;   ///< ascending; the last one is the context's end
    std::int64_t wantedTokens = 0;     ///< where reading was left before the context's end: how many it was to be
    std::filesystem::file_time_type lastUsed;

    std::int64_t tokens() const { return resume.empty() ? 0 : resume.back().position; }
    bool isPart() const { return wantedTokens > tokens(); }
};

class SavedContext
{
public:
    /// A sequence's bytes, checked and mapped.
    struct Image {
        std::span<const std::byte> state, rows;
        std::shared_ptr<const void> storage; ///< keeps them mapped
    };

    static constexpr std::size_t mostResumePoints = 8;
    static constexpr std::size_t numRuns = 2;

    /// Reads and checks the head, and that the file is as long as it says.
    static Result<SavedContext> open(const std::filesystem::path& path);

    const SavedContextInfo& info() const { return m_info; }

    /// All token ids, checked.
    Result<std::vector<TokenId>> tokens() const;

    /// State and rows of a resume point, checked, and with them all states and checksums. `stop` is asked between
    /// blocks of 4 MiB; then ErrorCode::Cancelled.
    Result<Image> imageAt(std::int64_t position, const std::function<bool()>& stop = {}) const;

    /// Reads all of it.
    Result<void> verify() const;

    /// A file to be. The parts must stay as they are until write() returns.
    struct Content {
        std::uint64_t modelKey = 0;
        std::string model;
        ContextLabel label;
        std::span<const TokenId> tokens;
        std::int64_t wantedTokens = 0; ///< see SavedContextInfo
        struct State {
            std::int64_t position = 0;
            std::int64_t rowBytes = 0; ///< of the rows before it
            SequenceImage::Parts parts;
            int run = 0;               ///< that these are the beginning of
        };
        std::vector<State> states; ///< ascending; the last one stands at the tokens' end and needs all of run 0
        std::array<SequenceImage::Parts, numRuns> rows;

        std::int64_t fileBytes() const;
    };

    /// Writes to a temporary name that is locked while it grows, in synced slices, and renames: whoever looks sees the
    /// whole file or none. `stop` is asked between slices of 16 MiB; then ErrorCode::Cancelled.
    static Result<void> write(const std::filesystem::path& path, const Content& content,
                              const std::function<bool()>& stop);

    /// Removes what a program that was killed has left half written; what another one is writing stays.
    static void removeAbandoned(const std::filesystem::path& part);

private:
    struct Head;
    struct Descriptor;

    SavedContext() = default;
    Result<void> checkRange(std::int64_t offset, std::int64_t bytes, std::uint64_t hash, const char* what) const;
    Result<void> checkStates() const;
    Result<void> checkRows(std::size_t run, std::int64_t bytes, const std::function<bool()>& stop) const;

    SavedContextInfo m_info;
    std::shared_ptr<const Head> m_head;
    std::shared_ptr<const Descriptor> m_descriptor;
};

} // namespace octavo::engine
