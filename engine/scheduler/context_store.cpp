#include "engine/scheduler/context_store.h"

#include <dirent.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iterator>
#include <system_error>
#include <unordered_map>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace octavo::engine {
namespace fs = std::filesystem;
namespace {

constexpr std::chrono::milliseconds writingAtTheEnd{1500};

/// What stands in a folder; nothing where it cannot be listed. By hand: std::filesystem's iterator ends the program
/// where memory runs out.
std::optional<std::vector<std::string>> namesIn(const fs::path& folder)
{
    const std::unique_ptr<DIR, int (*)(DIR*)> opened(::opendir(folder.c_str()), &::closedir);
    if (!opened)
        return std::nullopt;
    std::vector<std::string> names;
    for (;;) {
        errno = 0;
        const dirent* entry = ::readdir(opened.get());
        if (!entry)
            return errno == 0 ? std::optional(std::move(names)) : std::nullopt;
        names.emplace_back(entry->d_name);
    }
}

/// hashOf() of many beginnings of one prompt, in one pass.
std::unordered_map<std::int64_t, std::uint64_t> prefixHashes(std::span<const TokenId> prompt,
                                                             std::vector<std::int64_t> lengths)
{
    std::ranges::sort(lengths);
    std::unordered_map<std::int64_t, std::uint64_t> hashes;
    XXH3_state_t state;
    XXH3_INITSTATE(&state);
    XXH3_64bits_reset(&state);
    std::int64_t done = 0;
    for (const std::int64_t length : lengths) {
        XXH3_64bits_update(&state, prompt.data() + done, std::size_t(length - done) * sizeof(TokenId));
        done = length;
        hashes[length] = XXH3_64bits_digest(&state);
    }
    return hashes;
}

} // namespace

ContextStore::ContextStore(Options options)
    : m_options(std::move(options))
{
    std::error_code error;
    fs::create_directories(m_options.folder, error);
    if (!fs::is_directory(m_options.folder, error))
        spdlog::warn("{}: is no folder and cannot be made one; contexts are not saved", m_options.folder.string());
    for (const std::string& name : namesIn(m_options.folder).value_or(std::vector<std::string>())) {
        if (isStoresName(name) && name.ends_with(".part"))
            SavedContext::removeAbandoned(m_options.folder / name);
    }
    list();
    try {
        m_thread = std::thread([this] { run(); });
        m_opener = std::thread([this] { runOpenings(); });
    } catch (const std::system_error& failure) {
        spdlog::warn("contexts are not {}: no thread could be started for it ({})",
                     m_thread.joinable() ? "opened again" : "saved", failure.what());
    }
}

bool ContextStore::isStoresName(const std::string& name)
{
    constexpr const char* form = "0000000000000000-0000000000000000-"; // model, tokens
    const std::size_t length = std::strlen(form);
    if (name.size() <= length)
        return false;
    for (std::size_t i = 0; i < length; ++i) {
        if (form[i] == '-' ? name[i] != '-' : std::isxdigit(static_cast<unsigned char>(name[i])) == 0)
            return false;
    }
    return name.find(".context", length) != std::string::npos &&
           (name.ends_with(".context") || name.ends_with(".part"));
}

ContextStore::~ContextStore()
{
    {
        const std::scoped_lock lock(m_mutex);
        m_closing = true;
        m_deadline = std::chrono::steady_clock::now() + writingAtTheEnd;
        ++m_openingSerial;
    }
    m_changed.notify_all();
    for (std::thread* thread : {&m_thread, &m_opener}) {
        if (thread->joinable())
            thread->join();
    }
    try {
        reclaim(); // what the last files replace goes
    } catch (const std::exception&) { // no memory for it: it is there for longer
    }
}

/// Takes in what other stores have written or removed since.
void ContextStore::list()
{
    std::error_code error;
    const auto changed = fs::last_write_time(m_options.folder, error);
    if (error || changed == m_listed)
        return;
    const auto names = namesIn(m_options.folder);
    if (!names)
        return;
    std::vector<Entry> found;
    bool isComplete = true;
    int otherVersions = 0;
    for (const std::string& name : *names) {
        if (!name.ends_with(".context"))
            continue;
        const fs::path path = m_options.folder / name;
        const auto known = std::ranges::find(m_entries, path, &Entry::file);
        if (known != m_entries.end() && !known->resume.empty()) { // another version's may have given way to one of ours
            found.push_back(*known);
            continue;
        }
        const auto file = SavedContext::open(path);
        if (file) {
            found.push_back({path, file->info().bytes, file->info().modelKey == m_options.modelKey,
                             file->info().isPart(), file->info().resume, file->info().lastUsed});
        } else if (!isStoresName(name)) { // somebody else's
            continue;
        } else if (file.error().code == ErrorCode::FormatInvalid) {
            spdlog::warn("{}; it is removed, and the context is read afresh", file.error().message);
            fs::remove(path, error);
        } else if (file.error().code == ErrorCode::Unsupported) {
            if (!fs::is_regular_file(path, error)) // a folder, say: nobody's file to remove
                continue;
            ++otherVersions; // takes room all the same
            found.push_back({path, std::int64_t(fs::file_size(path, error)), false, false, {},
                             fs::last_write_time(path, error)});
        } else if (file.error().code != ErrorCode::NotFound) {
            spdlog::warn("{}", file.error().message);
            isComplete = false; // looked at again
        }
    }
    if (otherVersions > 0 && !std::exchange(m_saidOtherVersion, true))
        spdlog::warn(
            "{}: {} of the saved contexts there are another version's of Octavo; they are not opened, and give way "
            "to those that are read now",
            m_options.folder.string(), otherVersions);
    m_entries = std::move(found);
    m_listed = isComplete ? changed : fs::file_time_type::min();
}

std::optional<ContextStore::Hit> ContextStore::longest(std::span<const TokenId> prompt, std::int64_t limit)
{
    list();
    limit = std::min(limit, std::int64_t(prompt.size()));
    std::vector<std::int64_t> lengths;
    for (const Entry& entry : m_entries) {
        for (const ResumePoint& point : entry.resume) {
            if (entry.isOurs && point.position <= limit)
                lengths.push_back(point.position);
        }
    }
    const auto hashes = prefixHashes(prompt, std::move(lengths));
    std::optional<Hit> best;
    for (const Entry& entry : m_entries) {
        for (const ResumePoint& point : entry.resume) {
            const bool isLonger = entry.isOurs && point.position <= limit && (!best || point.position > best->length);
            if (isLonger && hashes.at(point.position) == point.tokenHash)
                best = Hit{entry.file, point.position, point.position == entry.resume.back().position};
        }
    }
    return best;
}

Result<ContextStore::Opened> ContextStore::open(const Hit& hit, std::span<const TokenId> prompt)
{
    return note(hit, read(hit, prompt, {}));
}

/// Touches nothing but the file.
Result<ContextStore::Opened> ContextStore::read(const Hit& hit, std::span<const TokenId> prompt,
                                                const std::function<bool()>& stop) const
{
    OCTAVO_TRY(const SavedContext file, SavedContext::open(hit.file));
    if (file.info().modelKey != m_options.modelKey)
        return Error{ErrorCode::Unsupported, hit.file.string() + ": the saved context is another model's"};
    OCTAVO_TRY(std::vector<TokenId> tokens, file.tokens());
    const auto length = std::size_t(hit.length);
    if (tokens.size() < length || !std::ranges::equal(std::span(tokens).first(length), prompt.first(length)))
        return Error{ErrorCode::FormatInvalid, hit.file.string() + ": the saved context holds other tokens"};
    OCTAVO_TRY(SavedContext::Image image, file.imageAt(hit.length, stop));
    return Opened{std::make_shared<const std::vector<TokenId>>(std::move(tokens)), std::move(image)};
}

/// Takes note of what came of reading a file.
Result<ContextStore::Opened> ContextStore::note(const Hit& hit, Result<Opened> opened)
{
    if (!opened) {
        Error error = opened.error();
        const bool isDamaged = error.code == ErrorCode::FormatInvalid;
        if (isDamaged)
            forget(hit.file);
        else if (error.code != ErrorCode::FileUnreadable)
            std::erase_if(m_entries, [&](const Entry& entry) { return entry.file == hit.file; });
        error.message += isDamaged ? "; it is removed, and the context is read afresh" : "; the context is read afresh";
        return error;
    }
    const auto now = fs::file_time_type::clock::now();
    std::error_code ignored;
    fs::last_write_time(hit.file, now, ignored); // what counts for the quota
    for (Entry& known : m_entries) {
        if (known.file == hit.file)
            known.lastUsed = now;
    }
    return opened;
}

bool ContextStore::beginOpening(Hit hit, SharedTokens prompt)
{
    {
        const std::scoped_lock lock(m_mutex);
        if (!m_opener.joinable() || m_opening)
            return false;
        m_opening = Opening{++m_openingSerial, std::move(hit), std::move(prompt), false, std::nullopt};
    }
    m_changed.notify_all();
    return true;
}

void ContextStore::waitForOpening(std::chrono::milliseconds atMost)
{
    std::unique_lock lock(m_mutex);
    m_changed.wait_for(lock, atMost, [&] { return !m_opening || m_opening->result.has_value(); });
}

std::optional<Result<ContextStore::Opened>> ContextStore::takeOpened()
{
    std::unique_lock lock(m_mutex);
    if (!m_opening || !m_opening->result)
        return std::nullopt;
    Opening done = *std::exchange(m_opening, std::nullopt);
    lock.unlock();
    return note(done.hit, *std::move(done.result));
}

void ContextStore::dropOpening()
{
    const std::scoped_lock lock(m_mutex);
    ++m_openingSerial;
    m_opening.reset();
}

void ContextStore::runOpenings()
{
    std::unique_lock lock(m_mutex);
    for (;;) {
        m_changed.wait(lock, [&] { return (m_opening && !m_opening->isInHand) || m_closing; });
        if (m_closing)
            return;
        m_opening->isInHand = true;
        const std::uint64_t serial = m_opening->serial;
        Result<Opened> result = Error{ErrorCode::FileUnreadable, "memory ran out"}; // so short that it takes none
        try {
            const Hit hit = m_opening->hit;
            const SharedTokens prompt = m_opening->prompt;
            lock.unlock();
            result = read(hit, *prompt, [&] { return m_openingSerial != serial; });
        } catch (const std::exception&) { // nothing is known against the file
        }
        if (!lock.owns_lock())
            lock.lock();
        if (m_opening && m_opening->serial == serial)
            m_opening->result = std::move(result);
        m_changed.notify_all();
    }
}

bool ContextStore::wants(std::span<const TokenId> tokens)
{
    reclaim();
    list();
    const fs::path file = fileFor(hashOf(tokens), std::int64_t(tokens.size()));
    return m_thread.joinable() && !isPending(file)
           && std::ranges::none_of(m_entries, [&](const Entry& entry) { return entry.isOurs && entry.file == file; });
}

bool ContextStore::save(SharedTokens tokens, std::vector<Part> parts, ContextLabel label, std::int64_t wantedTokens)
{
    if (parts.empty() || std::size_t(parts.back().length) > tokens->size())
        return false;
    const auto own = std::span(*tokens).first(std::size_t(parts.back().length));
    if (!wants(own))
        return false;
    Job job{std::move(tokens), std::move(parts), std::move(label), fileFor(hashOf(own), std::int64_t(own.size())), 0,
            wantedTokens, {}, false};
    job.bytes = job.content().fileBytes();
    if (!makeRoom(job))
        return false;
    std::vector<Job> outrun; // let go of after the lock
    {
        const std::scoped_lock lock(m_mutex);
        if (!m_queue.empty()) {
            const auto first = std::stable_partition(std::next(m_queue.begin()), m_queue.end(),
                                                     [&](const Job& waiting) { return !waiting.isPartOf(job); });
            std::move(first, m_queue.end(), std::back_inserter(outrun));
            m_queue.erase(first, m_queue.end()); // from the end: the one in hand does not move
        }
        m_queue.push_back(std::move(job));
    }
    m_changed.notify_all();
    return true;
}

/// Whether `file` is queued, in hand or just written.
bool ContextStore::isPending(const fs::path& file)
{
    const std::scoped_lock lock(m_mutex);
    return std::ranges::any_of(m_queue, [&](const Job& job) { return job.file == file; }) ||
           std::ranges::any_of(m_done, [&](const Job& job) { return job.written && job.file == file; });
}

bool ContextStore::reclaim()
{
    std::vector<Job> done;
    {
        const std::scoped_lock lock(m_mutex);
        if (m_done.empty())
            return false;
        done.swap(m_done);
    }
    m_listed = fs::file_time_type::min(); // file times are coarse: look in any case
    list();
    for (const Job& job : done) {
        if (!job.written)
            continue;
        std::vector<fs::path> gone = partsOf(std::span(*job.tokens).first(std::size_t(job.length())));
        std::erase(gone, job.file);
        gone.insert(gone.end(), job.replaces.begin(), job.replaces.end());
        std::ranges::for_each(gone, [this](const fs::path& file) { forget(file); });
    }
    return true;
}

/// Files of readings that were left, which `tokens` begin with: of no use any more once there is a file of these.
std::vector<fs::path> ContextStore::partsOf(std::span<const TokenId> tokens) const
{
    std::vector<fs::path> parts;
    for (const Entry& entry : m_entries) {
        if (!entry.isOurs || !entry.isPart || entry.resume.empty())
            continue;
        const ResumePoint end = entry.resume.back();
        if (end.position <= std::int64_t(tokens.size()) &&
            hashOf(tokens.first(std::size_t(end.position))) == end.tokenHash)
            parts.push_back(entry.file);
    }
    return parts;
}

bool ContextStore::holdsImages()
{
    const std::scoped_lock lock(m_mutex);
    return !m_queue.empty() || !m_done.empty();
}

bool ContextStore::giveUpOne()
{
    std::optional<Job> last; // let go of after the lock
    const std::scoped_lock lock(m_mutex);
    if (m_queue.size() < 2)
        return false;
    last = std::move(m_queue.back());
    m_queue.pop_back();
    spdlog::warn("a context of {} tokens is not saved: its memory is needed", last->length());
    return true;
}

void ContextStore::flush()
{
    std::unique_lock lock(m_mutex);
    m_changed.wait(lock, [&] { return m_queue.empty() || !m_thread.joinable(); });
    lock.unlock();
    reclaim();
}

void ContextStore::run()
{
    std::unique_lock lock(m_mutex);
    for (;;) {
        m_changed.wait(lock, [&] { return !m_queue.empty() || m_closing; });
        if (m_queue.empty() || isOver())
            return;
        Job& job = m_queue.front(); // stays there: others only append
        lock.unlock();
        try {
            const auto written = write(job);
            job.written = written.has_value();
            if (!written && written.error().code != ErrorCode::Cancelled)
                spdlog::warn("{}", written.error().message);
        } catch (const std::exception& thrown) {
            spdlog::warn("{}: {}; the context is not saved", job.file.string(), thrown.what());
        }
        lock.lock();
        m_done.push_back(std::move(job));
        m_queue.pop_front();
        m_changed.notify_all();
    }
}

bool ContextStore::Job::isPartOf(const Job& longer) const
{
    const auto count = std::size_t(length());
    return isPart() && length() < longer.length() &&
           std::ranges::equal(std::span(*tokens).first(count), std::span(*longer.tokens).first(count));
}

SavedContext::Content ContextStore::Job::content() const
{
    SavedContext::Content content;
    content.label = label;
    content.tokens = std::span(*tokens).first(std::size_t(length()));
    content.wantedTokens = wantedTokens;
    for (const Part& part : parts) { // the last of each layout has all of its rows
        const int run = part.image.layout == parts.back().image.layout ? 0 : 1;
        content.states.push_back({part.length, part.image.rowBytes, part.image.state, run});
        content.rows[std::size_t(run)] = part.image.rows;
    }
    return content;
}

Result<void> ContextStore::write(const Job& job) const
{
    SavedContext::Content content = job.content();
    content.modelKey = m_options.modelKey;
    content.model = m_options.modelName;
    if (!job.isPart() && !isClosing())
        makeRoomOnDisk(job);
    return SavedContext::write(job.file, content, [this] { return isOver(); });
}

/// Where a full disk has no room for a whole beside the parts of its own, these go first.
void ContextStore::makeRoomOnDisk(const Job& job) const
{
    std::error_code error;
    const fs::space_info disk = fs::space(m_options.folder, error);
    if (error || std::int64_t(disk.available) >= job.bytes)
        return;
    std::int64_t freed = 0;
    for (const fs::path& file : job.replaces) {
        const std::uintmax_t bytes = fs::file_size(file, error);
        freed += error ? 0 : std::int64_t(bytes);
    }
    if (std::int64_t(disk.available) + freed < job.bytes)
        return;
    for (const fs::path& file : job.replaces)
        fs::remove(file, error);
}

/// Finds room for `job` in the quota; false, and nothing has changed, where there is none. For a whole the oldest files
/// go, at once. For a part only other prompts' parts do, and a whole counts the parts of its own as room: such files go
/// when `job` is written, so nothing is lost where the program ends before that.
bool ContextStore::makeRoom(Job& job)
{
    std::int64_t used = job.bytes;
    std::vector<fs::path> settled; // files that are counted as queued ones, or that these or the job replace
    std::vector<fs::path> leaving, own;
    {
        const std::scoped_lock lock(m_mutex);
        const auto count = [&](const Job& queued, bool goes) {
            if (goes)
                leaving.push_back(queued.file);
            else
                used += queued.bytes;
            settled.push_back(queued.file);
            settled.insert(settled.end(), queued.replaces.begin(), queued.replaces.end());
        };
        for (const Job& queued : m_queue) {
            const bool isInHand = &queued == &m_queue.front(), goes = queued.isPartOf(job);
            if (isInHand || !goes) // the others give way at once
                count(queued, goes && !job.isPart());
        }
        for (const Job& done : m_done) {
            if (done.written)
                count(done, done.isPartOf(job) && !job.isPart());
        }
    }
    if (used > m_options.quotaBytes)
        return false;

    if (job.isPart()) {
        own = partsOf(*job.tokens);
    } else {
        for (fs::path& part : partsOf(std::span(*job.tokens).first(std::size_t(job.length()))))
            leaving.push_back(std::move(part));
        settled.insert(settled.end(), leaving.begin(), leaving.end());
    }
    const auto isIn = [](const std::vector<fs::path>& files, const Entry& entry) {
        return std::ranges::find(files, entry.file) != files.end();
    };
    std::vector<const Entry*> candidates;
    for (const Entry& entry : m_entries) {
        if (isIn(settled, entry))
            continue;
        used += entry.bytes;
        if (!job.isPart() || (entry.isPart && !isIn(own, entry)))
            candidates.push_back(&entry);
    }
    std::ranges::stable_sort(candidates, {}, [](const Entry* entry) { return entry->lastUsed; });
    std::vector<fs::path> oldest;
    for (const Entry* entry : candidates) {
        if (used <= m_options.quotaBytes)
            break;
        used -= entry->bytes;
        oldest.push_back(entry->file);
    }
    if (used > m_options.quotaBytes)
        return false;
    job.replaces = job.isPart() ? std::move(oldest) : std::move(leaving);
    if (!job.isPart())
        std::ranges::for_each(oldest, [this](const fs::path& file) { forget(file); });
    return true;
}

fs::path ContextStore::fileFor(std::uint64_t tokenHash, std::int64_t length) const
{
    char name[64];
    std::snprintf(name, sizeof name, "%016llx-%016llx-%lld.context",
                  static_cast<unsigned long long>(m_options.modelKey), static_cast<unsigned long long>(tokenHash),
                  static_cast<long long>(length));
    return m_options.folder / name;
}

void ContextStore::forget(const fs::path& file)
{
    std::error_code ignored;
    fs::remove(file, ignored);
    std::erase_if(m_entries, [&](const Entry& entry) { return entry.file == file; });
}

} // namespace octavo::engine
