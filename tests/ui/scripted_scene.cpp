#include "tests/ui/scripted_scene.h"

#include "tests/ui/scripted_workbench.h"

namespace octavo::ui::test {
namespace {

using namespace agents;

ContextInfo context(int id, const char* name, const char* commit, const char* ref, qint64 tokens, int panes,
                    ContextState state = ContextState::Read)
{
    ContextInfo info;
    info.id = ContextId{id};
    info.name = QString::fromLatin1(name);
    info.repositoryPath = QStringLiteral("/home/me/src/") + info.name;
    info.commit = QString::fromLatin1(commit);
    info.ref = QString::fromLatin1(ref);
    info.tokens = tokens;
    info.files = int(tokens / 700);
    info.skipped = 14;
    info.panes = panes;
    info.state = state;
    return info;
}

Citation quote(const QString& answer, const char* fence, const char* path, int line)
{
    Citation citation;
    citation.kind = CitationKind::Quote;
    citation.state = CitationState::Verified;
    citation.path = path;
    citation.displayPath = QString::fromLatin1(path);
    citation.line = line;
    citation.textStart = int(answer.indexOf(QString::fromLatin1(fence)));
    citation.textLength = 12;
    return citation;
}

Citation pathMark(const QString& answer, const char* path, CitationState state = CitationState::Verified)
{
    Citation citation;
    citation.kind = CitationKind::Path;
    citation.state = state;
    citation.path = path;
    citation.displayPath = QString::fromLatin1(path);
    citation.textStart = int(answer.indexOf(QString::fromLatin1(path)));
    citation.textLength = int(qstrlen(path));
    return citation;
}

void say(Agent* agent, const QString& question, const QString& answer, const QList<Citation>& citations,
         MessageState state)
{
    addMessage(agent, MessageRole::User, question);
    addMessage(agent, MessageRole::Assistant, answer, MessageState::Pending);
    changeLast(agent, [&](Message& message) {
        message.citations = citations;
        message.state = state;
        if (state == MessageState::Complete) {
            message.figures = {96310, 96280, 214, 131, 412.0, 83.2, 92.0};
        }
    });
}

AgentStatus status(Activity activity, Outcome outcome, const char* device, double rate, double hits, qint64 used)
{
    AgentStatus s;
    s.activity = activity;
    s.outcome = outcome;
    s.device = QString::fromLatin1(device);
    s.tokensPerSecond = rate;
    s.hitRate = hits;
    s.contextTokens = used;
    s.contextLimit = 250000;
    return s;
}

} // namespace

void playScene(Workbench* workbench)
{
    engine::ModelInfo model;
    model.name = "Qwen3.5-27B W4A16";
    model.dir = "/home/me/models/Qwen3.5-27B-int4";
    model.parameters = 27'000'000'000;
    model.contextLimit = 250000;
    setModel(workbench, model);

    ContextInfo ripgrep = context(2, "ripgrep", "4649aa9c01", "14.1.1", 131004, 1, ContextState::Reading);
    ripgrep.readDone = 55020;
    ripgrep.readTotal = 131004;
    const QList<ContextInfo> contexts = {
        context(1, "vllm", "3f2a9c17d2", "main", 243812, 2),   ripgrep,
        context(3, "caddy", "91d24b0aa1", "v2.8.4", 96310, 1), context(4, "fmt", "e424e3f201", "master", 58220, 1),
        context(5, "leveldb", "7ee830d022", "main", 41077, 1), context(6, "werkzeug", "3e7ae7b931", "3.1.x", 37455, 1),
        context(7, "octavo", "8dc04cc911", "main", 22140, 1)};
    setContexts(workbench, contexts);
    const int ofPane[] = {0, 0, 1, 2, 3, 4, 5, 6};
    for (int i = 0; i < numAgents; ++i)
        setContext(workbench->agent(i), contexts[ofPane[i]]);

    const QString batch = QStringLiteral(
        "The batch is formed in `Scheduler::formBatch`, after admission:\n\n```cpp\nBatch formBatch(Budget budget) {\n"
        "  Batch batch;\n  for (auto& seq : m_running)\n    batch.add(seq, seq.draftRows());\n```\n");
    say(workbench->agent(0), QStringLiteral("Where is the decode batch formed?"), batch,
        {quote(batch, "```cpp", "engine/scheduler/scheduler.cpp", 118)}, MessageState::Pending);
    setStatus(workbench->agent(0), status(Activity::Writing, Outcome::None, "GPU 0", 71.4, 0.88, 244310));

    const QString eviction =
        QStringLiteral("Eviction runs a windowed CLOCK hand; rows picked in this step are skipped:\n\n```cpp\nwhile "
                       "(m_referenced[hand]) {\n"
                       "  m_referenced[hand] = false;\n  hand = (hand + 1) % m_capacity;\n}\n```\n");
    say(workbench->agent(1), QStringLiteral("How are pages evicted from the hot buffer?"), eviction,
        {quote(eviction, "```cpp", "engine/memory/hot_buffer.cpp", 74)}, MessageState::Pending);
    setStatus(workbench->agent(1), status(Activity::Writing, Outcome::None, "GPU 0", 69.8, 0.86, 244190));

    addMessage(workbench->agent(2), MessageRole::User,
               QStringLiteral("What does the ignore crate do with nested .gitignore files?"));
    AgentStatus reading = status(Activity::Reading, Outcome::None, "GPU 0", -1, -1, 131090);
    reading.readDone = 55020;
    reading.readTotal = 131004;
    reading.readTokensPerSecond = 3910;
    reading.secondsLeft = 19;
    setStatus(workbench->agent(2), reading);

    const QString retries = QStringLiteral("Retries are controlled by `LoadBalancing`. **TryDuration** bounds the "
                                           "total time, **TryInterval** the pause between "
                                           "tries.\n\n```go\ntype LoadBalancing struct {\n  TryDuration "
                                           "caddy.Duration\n  TryInterval caddy.Duration\n}\n```\n");
    say(workbench->agent(3), QStringLiteral("Explain reverse proxy retries."), retries,
        {quote(retries, "```go", "modules/caddyhttp/reverseproxy/reverseproxy.go", 1402)}, MessageState::Complete);
    setStatus(workbench->agent(3), status(Activity::Idle, Outcome::Done, "GPU 0", -1, 0.91, 96540));

    const QString buffer = QStringLiteral(
        "`basic_memory_buffer` in `include/fmt/format.h`:\n\n```cpp\nclass basic_memory_buffer\n    : public "
        "detail::buffer<T> {\n private:\n  T store_[SIZE];\n```\n");
    say(workbench->agent(4), QStringLiteral("Show me basic_memory_buffer."), buffer,
        {quote(buffer, "```cpp", "include/fmt/format.h", 512), pathMark(buffer, "include/fmt/format.h")},
        MessageState::Pending);
    setStatus(workbench->agent(4), status(Activity::Writing, Outcome::None, "GPU 1", 66.1, 0.84, 58410));

    const QString tests =
        QStringLiteral("Three test files touch compaction:\n\n- `db/db_test.cc`\n- `db/corruption_test.cc`\n"
                       "- `db/version_set_test.cc`\n\nThe third only checks ");
    say(workbench->agent(5), QStringLiteral("Which tests cover compaction?"), tests,
        {pathMark(tests, "db/db_test.cc"), pathMark(tests, "db/corruption_test.cc"),
         pathMark(tests, "db/version_set_test.cc")},
        MessageState::Pending);
    setStatus(workbench->agent(5), status(Activity::Writing, Outcome::None, "GPU 1", 64.9, 0.85, 41300));

    addMessage(workbench->agent(6), MessageRole::User, QStringLiteral("Where are cookies parsed?"));
    AgentStatus failed = status(Activity::Idle, Outcome::Failed, "GPU 1", -1, -1, 37455);
    failed.problem =
        QStringLiteral("GPU 1 ran out of memory while reading this context. Needed 5.1 GiB, free 3.8 GiB. The "
                       "transcript is safe.");
    setStatus(workbench->agent(6), failed);

    setStatus(workbench->agent(7), status(Activity::Idle, Outcome::None, "GPU 1", -1, -1, 22140));

    const QDateTime now = QDateTime::currentDateTime();
    const auto conversation = [&](int id, const char* title, const char* about, int minutes) {
        ConversationInfo info;
        info.id = ConversationId{id};
        info.title = QString::fromLatin1(title);
        info.contextName = QString::fromLatin1(about);
        info.lastUsed = now.addSecs(-60 * minutes);
        info.messages = 4;
        return info;
    };
    setConversations(workbench, {conversation(1, "Decode batch and fairness", "vllm", 0),
                                 conversation(2, "Hot buffer eviction", "vllm", 0),
                                 conversation(3, "Retry policy in caddy", "caddy", 12),
                                 conversation(4, "Compaction tests", "leveldb", 18),
                                 conversation(5, "Who owns the writer thread?", "leveldb", 65),
                                 conversation(6, "Format spec parsing", "fmt", 60 * 26)});
}

} // namespace octavo::ui::test
