#pragma once

#include "engine/engine.h"

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace octavo::test {

/// Collects the events of any number of requests and counts what must not happen. Any thread.
class Recorder
{
public:
    struct Record {
        std::string text;
        std::vector<engine::TokenId> tokens;
        std::vector<engine::PrefillProgress> progress;
        std::optional<engine::Finished> finished;
        std::optional<Error> failure;
        int ends = 0;
        int afterEnd = 0; ///< events after the last one: must stay 0
        bool hasEnded() const { return ends > 0; }
    };

    engine::EventSink sink()
    {
        return [this](engine::RequestId id, engine::Event&& event) {
            {
                const std::scoped_lock lock(m_mutex);
                Record& record = m_records[id];
                if (record.ends > 0)
                    ++record.afterEnd;
                if (auto* text = std::get_if<engine::TextAppended>(&event)) {
                    record.text += text->text;
                    record.tokens.insert(record.tokens.end(), text->tokens.begin(), text->tokens.end());
                } else if (auto* progress = std::get_if<engine::PrefillProgress>(&event)) {
                    record.progress.push_back(*progress);
                } else if (auto* finished = std::get_if<engine::Finished>(&event)) {
                    record.finished = *finished;
                    ++record.ends;
                } else {
                    record.failure = std::get<engine::Failed>(event).error;
                    ++record.ends;
                }
            }
            m_changed.notify_all();
        };
    }

    Record record(engine::RequestId id) const
    {
        const std::scoped_lock lock(m_mutex);
        const auto found = m_records.find(id);
        return found == m_records.end() ? Record{} : found->second;
    }

    /// Waits until `holds` is true of the record; false after half a minute.
    bool waitFor(engine::RequestId id, const std::function<bool(const Record&)>& holds)
    {
        std::unique_lock lock(m_mutex);
        return m_changed.wait_for(lock, std::chrono::seconds(30), [&] { return holds(m_records[id]); });
    }

    bool waitForEnd(engine::RequestId id)
    {
        return waitFor(id, [](const Record& record) { return record.hasEnded(); });
    }

private:
    mutable std::mutex m_mutex;
    std::condition_variable m_changed;
    std::map<engine::RequestId, Record> m_records;
};

} // namespace octavo::test
