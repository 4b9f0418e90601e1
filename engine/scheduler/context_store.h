#pragma once

/// Contexts on disk: what was read once is opened again, after a restart too, without reading it again.
///
/// A file holds the state of a frozen sequence with its token ids and checksums. It is written in the background to a
/// temporary name, synced and renamed, so a file is whole or absent. Its key is the model, tokenizer, layout of the
/// state and the token ids themselves; the ids hold the prompt's template and the commit's text.
/// Thread   one owner; a thread of its own writes. See reclaim() for what must come back to the owner.
/// Errors   a damaged file is refused, deleted and said so in the log; the context is then read afresh. A full disk
///          loses the file that was being written, nothing else.

#include "engine/backend/backend.h"
#include "engine/result.h"
#include "engine/scheduler/prefix_cache.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace octavo::engine {

class ContextStore
{
public:
    struct Entry {
        std::filesystem::path file;
        std::int64_t length = 0;      ///< tokens
        std::int64_t bytes = 0;       ///< of the file
        std::uint64_t tokenHash = 0;  ///< over the first `length` ids
        bool isOurs = true;           ///< of this model; others only count for the quota
        std::filesystem::file_time_type lastUsed;
    };

    /// An opened file, mapped and verified.
    struct Opened {
        SharedTokens tokens;
        std::span<const std::byte> image;
        std::shared_ptr<const void> storage; ///< keeps `image` mapped
    };

    /// Lists `folder`, which is made where it is missing. `modelKey` stands for all but the tokens.
    ContextStore(std::filesystem::path folder, std::int64_t quotaBytes, std::uint64_t modelKey);
    ~ContextStore(); ///< Goes on writing for a second and a half at most; what is not whole by then is not kept.

    /// The longest saved beginning of `prompt` that is no longer than `limit`; null where there is none.
    const Entry* longest(std::span<const TokenId> prompt, std::int64_t limit) const;

    /// Maps the file and checks every byte against its checksums and the tokens against `prompt`. On failure the entry
    /// is gone.
    Result<Opened> open(const Entry& entry, std::span<const TokenId> prompt);

    /// Queues a context for writing; false when it is saved or queued already, or does not fit the quota.
    bool save(SharedTokens tokens, std::int64_t length, SequenceImage image);

    /// Lets go of the images that were written, on the owner's thread; takes finished files into the list.
    void reclaim();

    /// Waits until all that was queued is written.
    void flush();

private:
    struct Job {
        SharedTokens tokens;
        std::int64_t length = 0;
        std::uint64_t tokenHash = 0;
        SequenceImage image;
        bool written = false;
    };

    void run();
    bool writeAll(int descriptor, std::span<const std::byte> bytes) const;
    Result<std::int64_t> write(const Job& job) const;
    void makeRoom(std::int64_t bytes);
    std::filesystem::path fileFor(std::uint64_t tokenHash, std::int64_t length) const;
    void forget(const std::filesystem::path& file);

    const std::filesystem::path m_folder;
    const std::int64_t m_quota;
    const std::uint64_t m_modelKey;
    std::vector<Entry> m_entries; // the owner's

    std::mutex m_mutex;           // guards what follows
    std::condition_variable m_changed;
    std::deque<Job> m_queue;
    std::vector<Job> m_done;
    bool m_busy = false, m_closing = false;
    std::atomic<std::chrono::steady_clock::time_point> m_deadline = std::chrono::steady_clock::time_point::max();
    std::thread m_thread;
};

} // namespace octavo::engine
