#include "app/octavo_ask.h"

#include "agents/workbench.h"
#include "app/quit_signals.h"
#include "app/repository_options.h"
#include "engine/cli/common.h"
#include "engine/counted.h"

#include <QElapsedTimer>
#include <QEventLoop>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>

#include <algorithm>
#include <iomanip>
#include <unistd.h>

namespace octavo::app {

namespace {

using agents::Agent;
using agents::CitationState;
using agents::Message;
using agents::MessageState;

const char* stateName(CitationState state)
{
    switch (state) {
    case CitationState::Verified:
        return "verified";
    case CitationState::Elsewhere:
        return "elsewhere";
    case CitationState::Unverified:
        return "unverified";
    }
    return "";
}

const char* stateName(MessageState state)
{
    switch (state) {
    case MessageState::Complete:
        return "complete";
    case MessageState::LengthLimit:
        return "length";
    case MessageState::ContextFull:
        return "context_full";
    case MessageState::Stopped:
        return "stopped";
    case MessageState::Repeated:
        return "repeats";
    default:
        return "failed";
    }
}

/// The first words of a quote, so that it is found again in the answer above.
QString beginningOf(const QString& answer, const agents::Citation& quote)
{
    constexpr qsizetype longest = 48;
    const QString line = answer.mid(quote.textStart, quote.textLength).trimmed().section(u'\n', 0, 0).simplified();
    if (line.size() <= longest)
        return line;
    const bool splits = line[longest - 2].isHighSurrogate();
    return line.left(longest - (splits ? 2 : 1)) + QChar(0x2026);
}

/// One question on its way; printed in the order they were asked.
struct Item {
    QString question;
    int agent = -1;
    Message answer;
    qsizetype printed = 0; ///< of the answer's text, on the terminal
    bool headed = false;
    bool done = false;
    std::string refusal; ///< why it was never sent
};

/// Drives a Workbench from start to the last answer. Lives in the thread of the event loop it runs.
class AskSession final : public QObject
{
public:
    AskSession(agents::WorkbenchOptions options, agents::IngestOptions repository, const QStringList& questions,
               int numAgents, bool json, cli::Streams& streams)
        : m_keeps(options.engine.savedContexts)
        , m_workbench(std::move(options))
        , m_repository(std::move(repository))
        , m_numAgents(numAgents)
        , m_json(json)
        , m_showsProgress(!json && isatty(STDERR_FILENO) != 0)
        , m_streams(streams)
    {
        for (const QString& question : questions)
            m_items.append({question, -1, {}, 0, false, false, {}});
    }

    Result<void> run()
    {
        using agents::Workbench;
        connect(&m_workbench, &Workbench::failed, this, [this](const Error& error) { end(error); });
        connect(&m_workbench, &Workbench::ready, this, [this] { preview(); });
        connect(&m_workbench, &Workbench::contextChanged, this,
                [this](const agents::ContextInfo& info) { contextChanged(info); });
        connect(&m_quit, &QuitSignals::asked, this, [this] {
            end(Error{ErrorCode::Cancelled, m_keeps.empty() ? "stopped; with --saved-contexts DIR what was read is kept"
                                                            : "stopped; what was read is kept in " + m_keeps.string()});
        });
        m_workbench.start();
        m_loop.exec();
        clearProgress();
        return m_result;
    }

private:
    void end(Result<void> result)
    {
        if (m_ended)
            return;
        m_ended = true;
        m_result = std::move(result);
        m_loop.quit();
    }

    void preview()
    {
        agents::IngestJob* job = m_workbench.preview(m_repository);
        connect(job, &agents::IngestJob::progress, this, [this](const agents::IngestProgress& now) {
            showProgress(now.stage, now.done, now.total, now.secondsLeft);
        });
        connect(job, &agents::IngestJob::failed, this,
                [this](const Error& error) { end(withHint(error, m_repository)); });
        connect(job, &agents::IngestJob::finished, this, [this, job](const agents::IngestResult& result) {
            clearProgress();
            m_streams.err << "Reading " << result.repositoryName.toStdString() << " @ " << terminalText(result.ref)
                          << ": " << result.packed.size() << " of " << result.filesTotal << " files, " << result.tokens
                          << " tokens\n";
            job->deleteLater();
            if (result.packed.isEmpty()) {
                end(Error{ErrorCode::NotFound, "no file of " + result.repositoryName.toStdString()
                                                   + " is left to read; check --include, --exclude and --budget"});
                return;
            }
            m_context = m_workbench.addContext(m_repository, result);
        });
    }

    void contextChanged(const agents::ContextInfo& info)
    {
        if (info.id != m_context)
            return;
        if (info.state == agents::ContextState::Reading)
            showProgress(QStringLiteral("Reading"), info.readDone, info.readTotal, info.secondsLeft);
        else if (info.state == agents::ContextState::Failed)
            end(Error{ErrorCode::DeviceFailure, info.problem.toStdString()});
        else if (info.state == agents::ContextState::Read && !m_asking) {
            m_asking = true;
            clearProgress();
            for (int i = 0; i < m_numAgents; ++i) {
                Agent* agent = m_workbench.agent(i);
                agent->setContext(m_context);
                connect(agent, &Agent::textAppended, this, [this, i](agents::MessageId, const QString& text) {
                    if (Item* item = itemOf(i)) {
                        item->answer.text += text;
                        print();
                    }
                });
                connect(agent, &Agent::statusChanged, this, [this, i, agent](const agents::AgentStatus& status) {
                    Item* item = itemOf(i);
                    if (item == nullptr || status.activity != agents::Activity::Idle)
                        return;
                    item->answer = agent->messages().last();
                    item->done = true;
                    print();
                    // After the signal: an agent may not be asked from within its own.
                    QMetaObject::invokeMethod(
                        this, [this, i] { askNext(i); }, Qt::QueuedConnection);
                });
            }
            for (int i = 0; i < m_numAgents; ++i)
                askNext(i);
        }
    }

    Item* itemOf(int agent)
    {
        for (Item& item : m_items) {
            if (item.agent == agent && !item.done)
                return &item;
        }
        return nullptr;
    }

    void askNext(int i)
    {
        while (m_next < m_items.size()) {
            Item& item = m_items[m_next++];
            Agent* agent = m_workbench.agent(i);
            agent->newConversation();
            const auto taken = agent->ask(item.question);
            if (taken) {
                item.agent = i;
                return;
            }
            item.refusal = taken.error().message;
            item.done = true;
            print();
        }
        if (std::all_of(m_items.cbegin(), m_items.cend(), [](const Item& item) { return item.done; }))
            end(firstFailure());
    }

    Result<void> firstFailure() const
    {
        for (const Item& item : m_items) {
            if (!item.refusal.empty())
                return Error{ErrorCode::ContextFull, item.refusal};
            if (item.answer.state == MessageState::Failed)
                return Error{ErrorCode::DeviceFailure, item.answer.problem.toStdString()};
        }
        return {};
    }

    /// Prints what may be shown now: the first unfinished answer streams, later ones wait for their turn.
    void print()
    {
        while (m_printing < m_items.size()) {
            Item& item = m_items[m_printing];
            if (m_json) {
                if (!item.done)
                    return;
                printJson(item);
            } else {
                if (item.agent < 0 && !item.done)
                    return;
                if (!std::exchange(item.headed, true))
                    m_streams.out << (m_printing > 0 ? "\n" : "") << "> " << terminalText(item.question) << "\n\n";
                m_streams.out << terminalText(item.answer.text.mid(item.printed));
                m_streams.out.flush();
                item.printed = item.answer.text.size();
                if (!item.done)
                    return;
                printEnd(item);
            }
            m_streams.out.flush();
            ++m_printing;
        }
    }

    /// Why an answer ended before the model ended it, and what can be done.
    std::string reasonOf(MessageState state) const
    {
        switch (state) {
        case MessageState::LengthLimit:
            return "the answer has the " + engine::counted(m_workbench.maxNewTokens(), "token")
                   + " that it may have; --max-tokens N allows more";
        case MessageState::ContextFull:
            return "the context is full; --budget N or --include GLOB reads less of the repository and leaves more "
                   "room";
        case MessageState::Repeated:
            return "the answer began to repeat itself";
        default:
            return "it was stopped";
        }
    }

    void printEnd(const Item& item)
    {
        std::ostream& out = m_streams.out;
        out << "\n\n";
        if (!item.refusal.empty())
            out << "Not answered: " << item.refusal << '\n';
        else if (item.answer.state == MessageState::Failed)
            out << "Broke off: " << terminalText(item.answer.problem) << '\n';
        else if (item.answer.state != MessageState::Complete)
            out << "Ended early: " << reasonOf(item.answer.state) << '\n';
        int quote = 0;
        for (const agents::Citation& citation : item.answer.citations) {
            if (citation.kind != agents::CitationKind::Quote)
                continue;
            out << "  quote " << ++quote << "  " << stateName(citation.state);
            if (!citation.path.isEmpty()) {
                out << "  " << citation.displayPath.toStdString() << ':' << citation.line;
                if (citation.lastLine > citation.line)
                    out << '-' << citation.lastLine;
            }
            out << "  " << terminalText(beginningOf(item.answer.text, citation)) << '\n';
        }
        QStringList unknown; // paths that stand in no file that was read
        for (const agents::Citation& citation : item.answer.citations) {
            if (citation.kind == agents::CitationKind::Path && citation.state != CitationState::Verified)
                unknown.append(item.answer.text.mid(citation.textStart, citation.textLength));
        }
        unknown.removeDuplicates();
        for (const QString& path : unknown)
            out << "  path  unverified  " << terminalText(path) << "  is not among the files that were read\n";
        const agents::AnswerFigures& f = item.answer.figures;
        if (f.newTokens > 0)
            out << "  " << engine::counted(f.newTokens, "token") << std::fixed << std::setprecision(1)
                << ", first after " << f.ttftMs / 1000 << " s, " << f.tokensPerSecond << " tokens/s, " << f.reusedTokens
                << " of " << f.promptTokens << " read before\n";
    }

    void printJson(const Item& item)
    {
        QJsonArray citations;
        for (const agents::Citation& citation : item.answer.citations)
            citations.append(QJsonObject{
                {"kind", citation.kind == agents::CitationKind::Path ? "path" : "quote"},
                {"path", citation.displayPath},
                {"line", citation.line},
                {"last_line", citation.lastLine},
                {"verified", citation.state == CitationState::Verified},
                {"state", stateName(citation.state)},
                {"start", citation.textStart}, // in the answer, in UTF-16 units
                {"length", citation.textLength},
            });
        const agents::AnswerFigures& f = item.answer.figures;
        const auto known = [](double value) { return value < 0 ? QJsonValue() : QJsonValue(value); };
        QJsonObject object{{"question", item.question},
                           {"answer", item.answer.text},
                           {"agent", item.agent},
                           {"state", item.refusal.empty() ? stateName(item.answer.state) : "refused"},
                           {"citations", citations},
                           {"prompt_tokens", f.promptTokens},
                           {"reused_tokens", f.reusedTokens},
                           {"new_tokens", f.newTokens},
                           {"accepted_drafts", f.acceptedDrafts},
                           {"ttft_ms", known(f.ttftMs)},
                           {"tokens_per_s", known(f.tokensPerSecond)}};
        if (const QString problem = item.refusal.empty() ? item.answer.problem : QString::fromStdString(item.refusal);
            !problem.isEmpty())
            object["problem"] = problem;
        m_streams.out << QJsonDocument(object).toJson(QJsonDocument::Compact).constData() << '\n';
    }

    void showProgress(const QString& stage, qint64 done, qint64 total, double secondsLeft)
    {
        if (!m_showsProgress)
            return;
        m_streams.err << "\r\033[K" << stage.toStdString();
        if (total > 0)
            m_streams.err << ' ' << 100 * done / total << "% (" << done << " of " << total << ')';
        if (secondsLeft >= 0)
            m_streams.err << ", " << qint64(secondsLeft + 0.5) << " s left";
        m_streams.err.flush();
        m_progressShown = true;
    }

    void clearProgress()
    {
        if (std::exchange(m_progressShown, false))
            m_streams.err << "\r\033[K" << std::flush;
    }

    const std::filesystem::path m_keeps; ///< where what was read is kept; empty: nowhere
    const QuitSignals m_quit;            ///< longer than the workbench, which keeps what was read as it goes
    agents::Workbench m_workbench;
    const agents::IngestOptions m_repository;
    const int m_numAgents;
    const bool m_json, m_showsProgress;
    cli::Streams& m_streams;
    QEventLoop m_loop;
    agents::ContextId m_context{};
    QList<Item> m_items;
    qsizetype m_next = 0, m_printing = 0;
    bool m_asking = false, m_ended = false, m_progressShown = false;
    Result<void> m_result;
};

Result<void> runAsk(const cli::Arguments& arguments, cli::Streams& streams)
{
    OCTAVO_TRY(agents::IngestOptions repository, readRepositoryOptions(arguments));
    agents::WorkbenchOptions options;
    OCTAVO_TRY(options.engine, cli::readEngineOptions(arguments));
    OCTAVO_TRY(const std::int64_t maxTokens, arguments.integer("--max-tokens", options.maxNewTokens, 1, 1'000'000));
    options.maxNewTokens = int(maxTokens);
    QStringList questions;
    for (const std::string& question : arguments.positional())
        questions.append(QString::fromStdString(question));
    if (std::ranges::any_of(questions, [](const QString& question) { return question.trimmed().isEmpty(); }))
        return Error{ErrorCode::InvalidArgument, "a question is empty: put each in quotes at the end"};
    if (questions.isEmpty())
        return Error{ErrorCode::InvalidArgument, "there is no question: put each in quotes at the end"};
    const auto defaultAgents = std::min<std::int64_t>(questions.size(), agents::numAgents);
    OCTAVO_TRY(const std::int64_t numAgents, arguments.integer("--agents", defaultAgents, 1, agents::numAgents));
    return AskSession(std::move(options), std::move(repository), questions, int(numAgents), arguments.has("--json"),
                      streams)
        .run();
}

} // namespace

cli::Command askCommand()
{
    cli::Command out;
    out.name = "ask";
    out.summary = "answers questions about a repository, several agents at once, with verified citations";
    out.positional = "QUESTION...";
    out.options = cli::joined(
        repositoryOptions(), cli::joined({{"--agents", "N", "agents at work at once, 1 to 8 (default: one a question)"},
                                          {"--max-tokens", "N", "longest answer (default: 1024)"},
                                          cli::modelOption(),
                                          cli::jsonOption()},
                                         cli::engineOptions()));
    out.run = runAsk;
    return out;
}

} // namespace octavo::app
