#pragma once

/// Contexts on disk: what was read once is opened again, after a restart too, without reading it again.
///
/// A file holds the state of a frozen sequence at the context's end and at a few positions before it, so a later commit
/// that changes only its last files goes on from the position before them. A context whose reading was left may be
/// saved as far as it was read; such a file goes when one that begins with it is written, and room for it is made of
/// others' such files only, once it is written itself. Files are written in the background to a temporary name, synced
/// and renamed, so a file is whole or absent. Its key is the model, tokenizer, layout of the state and the token ids
/// themselves; the ids hold the prompt's template and the commit's text.
/// Sharing  several stores, of one program or of several, may use one folder: each looks again when it has changed.
/// Thread   one owner; a thread of its own writes, another opens. See reclaim() for what must come back to the owner.
/// Versions files of another version are not opened. They count for the quota, go as all others do and give way to a
///          file of their name; a store says so once.
/// Errors   a damaged file is refused, deleted and said so in the log; one that cannot be read now stays. The context
///          is read afresh in both cases. A full disk loses the file that was being written, nothing else; where a
///          whole has room there only without the part that was saved of it, this goes first.

#include "engine/backend/backend.h"
#include "engine/result.h"
#include "engine/scheduler/prefix_cache.h"
#include "engine/scheduler/saved_context.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace octavo::engine {

class ContextStore
{
public:
    struct Options {
        std::filesystem::path folder;
        std::int64_t quotaBytes = 0; ///< all files together, those in hand included, but not what these replace
        std::uint64_t modelKey = 0;  ///< stands for all but the tokens
        std::string modelName;       ///< for people
    };

    /// A place to start from.
    struct Hit {
        std::filesystem::path file;
        std::int64_t length = 0; ///< tokens before it
        bool isWhole = false;    ///< the context's end; what was left before it counts too
    };

    /// An opened file, mapped and verified.
    struct Opened {
        SharedTokens tokens; ///< the first Hit::length of them, at least
        SavedContext::Image image;
    };

    /// A frozen sequence to be saved, whole or on the way. The whole brings its rows, and so does the longest of those
    /// with another layout, which all have the same; the others need not.
    struct Part {
        std::int64_t length = 0;
        SequenceImage image;
    };

    /// Whether a store gave a file this name: only such files are removed. The folder may be one that holds others'
    /// too.
    static bool isStoresName(const std::string& name);

    /// Lists the folder, which is made where it is missing.
    explicit ContextStore(Options options);
    ~ContextStore(); ///< Goes on writing for a second and a half at most; what is not whole by then is not kept.

    /// The longest saved beginning of `prompt` that is no longer than `limit`.
    std::optional<Hit> longest(std::span<const TokenId> prompt, std::int64_t limit);

    /// Maps the file and checks its bytes against its checksums and the tokens against `prompt`.
    Result<Opened> open(const Hit& hit, std::span<const TokenId> prompt);

    /// Begins open() on the thread for it: one at a time. False where one is under way or there is no such thread.
    bool beginOpening(Hit hit, SharedTokens prompt);
    /// What came of it; nothing while it goes on.
    std::optional<Result<Opened>> takeOpened();
    /// Waits for it, `atMost` so long.
    void waitForOpening(std::chrono::milliseconds atMost);
    /// Forgets the one that is under way.
    void dropOpening();

    /// Queues a context for writing: `parts` ascend, the last is the whole. Shorter parts of it that wait give way.
    /// False when it is saved or queued already, or does not fit the quota.
    /// `wantedTokens`: of the context that these are the beginning of; 0: they are all of it.
    bool save(SharedTokens tokens, std::vector<Part> parts, ContextLabel label, std::int64_t wantedTokens = 0);

    /// Whether save() would take this context if there is room for it.
    bool wants(std::span<const TokenId> tokens);

    /// Lets go of the images that were written, on the owner's thread; takes finished files into the list. False when
    /// there was nothing.
    bool reclaim();

    /// Whether images are held for writing.
    bool holdsImages();

    /// Lets go of the newest image that waits to be written, which is not saved then; false when none waits. The one in
    /// hand stays.
    bool giveUpOne();

    /// Waits until all that was queued is written.
    void flush();

private:
    struct Entry {
        std::filesystem::path file;
        std::int64_t bytes = 0;
        bool isOurs = true; ///< of this model; others only count for the quota
        bool isPart = false;
        std::vector<ResumePoint> resume;
        std::filesystem::file_time_type lastUsed;
    };
    struct Job {
        SharedTokens tokens;
        std::vector<Part> parts;
        ContextLabel label;
        std::filesystem::path file;
        std::int64_t bytes = 0, wantedTokens = 0;
        std::vector<std::filesystem::path> replaces; ///< files that go when this one is in place
        bool written = false;

        std::int64_t length() const { return parts.back().length; }
        bool isPart() const { return wantedTokens > 0; }
        bool isPartOf(const Job& longer) const;
        SavedContext::Content content() const;
    };

    struct Opening {
        std::uint64_t serial = 0;
        Hit hit;
        SharedTokens prompt;
        bool isInHand = false;
        std::optional<Result<Opened>> result;
    };

    void list();
    void run();
    void runOpenings();
    Result<Opened> read(const Hit& hit, std::span<const TokenId> prompt, const std::function<bool()>& stop) const;
    Result<Opened> note(const Hit& hit, Result<Opened> opened);
    Result<void> write(const Job& job) const;
    bool isPending(const std::filesystem::path& file);
    bool makeRoom(Job& job);
    void makeRoomOnDisk(const Job& job) const;
    std::vector<std::filesystem::path> partsOf(std::span<const TokenId> tokens) const;
    std::filesystem::path fileFor(std::uint64_t tokenHash, std::int64_t length) const;
    void forget(const std::filesystem::path& file);
    bool isClosing() const { return m_deadline.load() != std::chrono::steady_clock::time_point::max(); }
    bool isOver() const { return std::chrono::steady_clock::now() >= m_deadline.load(); }

    const Options m_options;
    std::vector<Entry> m_entries; // the owner's
    std::filesystem::file_time_type m_listed = std::filesystem::file_time_type::min();
    bool m_saidOtherVersion = false;

    std::mutex m_mutex;           // guards what follows
    std::condition_variable m_changed;
    std::deque<Job> m_queue;      // the first is in hand
    std::vector<Job> m_done;
    std::optional<Opening> m_opening;
    std::atomic<std::uint64_t> m_openingSerial = 0; // of the newest one begun or dropped
    bool m_closing = false;
    std::atomic<std::chrono::steady_clock::time_point> m_deadline = std::chrono::steady_clock::time_point::max();
    std::thread m_thread, m_opener;
};

} // namespace octavo::engine
