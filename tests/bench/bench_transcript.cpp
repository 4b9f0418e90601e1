/// Eight panes write 20,000-token answers (a table of 80 rows, 2,000 lines of code) at a fixed rate into the real
/// window over the real workbench, whose engine is a stub; prints the longest gap of the event loop, the share of a
/// core the GUI thread took, and how far what is painted was behind what the stub had said.
///
/// bench_transcript [SECONDS [TOKENS_PER_SECOND]]

#include "agents/workbench.h"
#include "tests/engine/fake_engine.h"
#include "tests/ui/long_answer.h"
#include "ui/dashboard/dashboard_panel.h"
#include "ui/main_window.h"
#include "ui/pane/pane.h"
#include "ui/theme.h"
#include "ui/transcript/transcript_view.h"

#include <QApplication>
#include <QElapsedTimer>
#include <QFile>
#include <QProcess>
#include <QTemporaryDir>
#include <QTimer>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <thread>
#include <vector>

using namespace octavo;
using namespace octavo::ui;

namespace {

using Clock = std::chrono::steady_clock;

constexpr qsizetype charactersPerToken = 4;

double threadSeconds()
{
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
}

double quantile(const std::vector<double>& sorted, double q)
{
    return sorted.empty() ? 0.0 : sorted[std::size_t(double(sorted.size() - 1) * q)];
}

void runWhile(const std::function<bool()>& goesOn)
{
    while (goesOn())
        QCoreApplication::processEvents(QEventLoop::AllEvents | QEventLoop::WaitForMoreEvents, 20);
}

/// What one pane's answer is made of, and when which piece of it was said. The stub's thread writes a time before it
/// sends the piece, so whoever sees the piece may read it.
struct Answer {
    std::vector<std::string> pieces;  ///< the first is what the pane shows from the start
    std::vector<qsizetype> ends;      ///< in the answer's text (ASCII)
    std::vector<Clock::time_point> said;
    std::size_t painted = 1;          ///< pieces
    TranscriptView* view = nullptr;
    agents::MessageId message{};
};

/// Sees every paint event, once it is done.
class Application final : public QApplication
{
public:
    using QApplication::QApplication;

    bool notify(QObject* receiver, QEvent* event) override
    {
        const bool result = QApplication::notify(receiver, event);
        if (event->type() == QEvent::Paint)
            notePainted(receiver);
        return result;
    }

    std::array<Answer, agents::numAgents> answers;
    std::vector<double> behindMs; ///< of each token, from being said to being painted

private:
    void notePainted(const QObject* viewport)
    {
        for (Answer& answer : answers) {
            if (!answer.view || answer.view->viewport() != viewport)
                continue;
            const auto now = Clock::now();
            const qsizetype shown = answer.view->shownLength(answer.message);
            for (; answer.painted < answer.ends.size() && answer.ends[answer.painted] <= shown; ++answer.painted)
                behindMs.push_back(
                    std::chrono::duration<double, std::milli>(now - answer.said[answer.painted]).count());
        }
    }
};

/// A repository of one file, so that there is a context to ask about.
QString makeRepository(const QTemporaryDir& at)
{
    const QString root = at.filePath(QStringLiteral("sample"));
    QProcess::execute(QStringLiteral("git"), {"init", "-q", root});
    QFile file(root + QStringLiteral("/part.cpp"));
    if (!file.open(QIODevice::WriteOnly))
        return {};
    for (int i = 0; i < 2000; ++i)
        file.write(QByteArray("    f(") + QByteArray::number(i) + "); // line" + QByteArray::number(i) + '\n');
    file.close();
    QProcess::execute(QStringLiteral("git"), {"-C", root, "add", "-A"});
    QProcess::execute(QStringLiteral("git"), {"-C", root, "-c", "user.name=Ada", "-c", "user.email=ada@example.org",
                                              "commit", "-q", "-m", "a sample"});
    return root;
}

/// All panes get it as their context.
bool addContext(agents::Workbench& workbench, const QString& repository)
{
    agents::IngestOptions options;
    options.repository = repository;
    agents::IngestJob* job = workbench.preview(options);
    bool failed = false;
    QObject::connect(job, &agents::IngestJob::failed, &workbench, [&](const Error& error) {
        std::fprintf(stderr, "%s\n", error.message.c_str());
        failed = true;
    });
    QObject::connect(job, &agents::IngestJob::finished, &workbench, [&](const agents::IngestResult& found) {
        const agents::ContextId context = workbench.addContext(options, found);
        for (int i = 0; i < agents::numAgents; ++i)
            workbench.agent(i)->setContext(context);
    });
    runWhile([&] {
        const QList<agents::ContextInfo> contexts = workbench.contexts();
        return !failed && (contexts.isEmpty() || contexts[0].state != agents::ContextState::Read);
    });
    return !failed;
}

void measureLongSession(const QString& text)
{
    QList<agents::Message> session; // from the call to painted
    for (int i = 0; i < 2000; ++i) {
        agents::Message message;
        message.id = agents::MessageId{100000 + i};
        message.role = i % 2 ? agents::MessageRole::Assistant : agents::MessageRole::User;
        message.text = i % 2 ? text.mid(qsizetype(i) * 31, 600) : QStringLiteral("Question %1?").arg(i);
        session += message;
    }
    TranscriptView view;
    view.resize(460, 420);
    view.show();
    QElapsedTimer open;
    open.start();
    view.setMessages(session);
    view.viewport()->grab();
    std::printf("2,000 messages: opened and painted in %.0f ms\n", double(open.nsecsElapsed()) * 1e-6);
    open.restart();
    const int found = view.find(QStringLiteral("question 1"));
    std::printf("find in them: %d places in %.0f ms\n", found, double(open.nsecsElapsed()) * 1e-6);
}

} // namespace

int main(int argc, char** argv)
{
    Application app(argc, argv);
    const double seconds = argc > 1 ? atof(argv[1]) : 12;
    const double rate = argc > 2 ? atof(argv[2]) : 50;
    Theme::instance()->apply(SchemeChoice::Dark);
    const QTemporaryDir folder;

    // Each pane begins at another place of the answer, so that table, code and prose are all being written at once.
    const QString text = ui::test::longAnswer(20000);
    const auto wanted = qsizetype(seconds * rate) * charactersPerToken;
    for (std::size_t pane = 0; pane < app.answers.size(); ++pane) {
        Answer& answer = app.answers[pane];
        qsizetype at = 1 + text.size() * qsizetype(pane) / qsizetype(app.answers.size());
        answer.pieces.push_back(text.left(at).toStdString());
        answer.ends.push_back(at);
        const qsizetype end = std::min(at + wanted, text.size());
        while (at < end) {
            const QString piece = text.mid(at, charactersPerToken);
            answer.pieces.push_back(piece.toStdString());
            answer.ends.push_back(at += piece.size());
        }
        answer.said.resize(answer.pieces.size());
    }
    std::atomic<Clock::time_point> start{};
    auto stub = std::make_unique<octavo::test::FakeEngine>([&](const engine::GenerationRequest& request) {
        octavo::test::Script script;
        const auto pane = std::size_t(request.agent);
        if (pane >= app.answers.size() || request.maxNewTokens == 0)
            return script;
        script.pieces = app.answers[pane].pieces;
        script.waits = true; // after the first piece
        script.beforePiece = [&, pane](std::size_t piece) {
            if (piece > 0) {
                const double due = (double(piece - 1) + double(pane) / double(app.answers.size())) / rate;
                std::this_thread::sleep_until(start.load() + std::chrono::duration_cast<Clock::duration>(
                                                                 std::chrono::duration<double>(due)));
            }
            app.answers[pane].said[piece] = Clock::now();
        };
        return script;
    });
    octavo::test::FakeEngine& engine = *stub;
    agents::WorkbenchOptions options;
    options.databasePath = folder.filePath(QStringLiteral("octavo.db"));
    agents::Workbench workbench(options, std::move(stub));
    MainWindow window(&workbench);
    window.setDashboard(new DashboardPanel(&workbench));
    window.resize(1920, 1080);
    window.show();
    workbench.start();
    runWhile([&] { return !workbench.isReady(); });
    if (!addContext(workbench, makeRepository(folder)))
        return 1;
    const agents::AskedAll asked = workbench.askAll(QStringLiteral("A long one, please."));
    if (asked.asked != agents::numAgents)
        return 1;
    for (Pane* pane : window.grid()->panes()) {
        Answer& answer = app.answers[std::size_t(pane->agent()->index())];
        answer.message = pane->agent()->messages().last().id;
        runWhile([&] { return pane->transcript()->shownLength(answer.message) < answer.ends[0]; });
        answer.view = pane->transcript();
    }
    QElapsedTimer settle;
    settle.start();
    runWhile([&] { return settle.elapsed() < 1000; });

    QElapsedTimer clock;
    clock.start();
    std::vector<double> gaps;
    double last = 0;
    QTimer beat; // every turn of the loop, as often as it will
    QObject::connect(&beat, &QTimer::timeout, &app, [&] {
        const double now = double(clock.nsecsElapsed()) * 1e-6;
        gaps.push_back(now - last);
        last = now;
    });
    beat.setTimerType(Qt::PreciseTimer);
    beat.start(2);
    const double cpuBefore = threadSeconds();
    QTimer::singleShot(int(seconds * 1000), &app, &QApplication::quit);
    start = Clock::now();
    engine.resume();
    QApplication::exec();
    const double wall = double(clock.nsecsElapsed()) * 1e-9;
    const double cpu = threadSeconds() - cpuBefore;
    beat.stop();
    std::sort(gaps.begin(), gaps.end());
    std::sort(app.behindMs.begin(), app.behindMs.end());
    const std::size_t shown = app.behindMs.size();
    std::printf("panes 8, %.1f tok/s each (%.0f asked), %lld characters in an answer, %zu tokens painted\n",
                double(shown) / agents::numAgents / wall, rate, static_cast<long long>(text.size()), shown);
    std::printf("event-loop gap: median %.1f ms, 99%% %.1f ms, longest %.1f ms\n", quantile(gaps, 0.5),
                quantile(gaps, 0.99), quantile(gaps, 1.0));
    std::printf("GUI thread: %.1f%% of a core over %.1f s\n", 100 * cpu / wall, wall);
    std::printf("painted text behind the stub: median %.1f ms, 99%% %.1f ms, worst %.1f ms\n",
                quantile(app.behindMs, 0.5), quantile(app.behindMs, 0.99), quantile(app.behindMs, 1.0));
    measureLongSession(text);
    return 0;
}
