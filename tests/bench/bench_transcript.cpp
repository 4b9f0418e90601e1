/// Eight panes write 20,000-token answers (a table of 80 rows, 2,000 lines of code) at a fixed rate into the real
/// window; prints the longest gap of the event loop, the share of a core the GUI thread took, and how far text was
/// behind.
///
/// bench_transcript [SECONDS [TOKENS_PER_SECOND]]

#include "tests/ui/scripted_scene.h"
#include "tests/ui/scripted_workbench.h"
#include "ui/main_window.h"
#include "ui/pane/pane.h"
#include "ui/theme.h"
#include "ui/transcript/transcript_view.h"

#include <QApplication>
#include <QElapsedTimer>
#include <QTimer>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <vector>

using namespace octavo;
using namespace octavo::ui;

namespace {

double threadSeconds()
{
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
}

} // namespace

int main(int argc, char** argv)
{
    QApplication app(argc, argv);
    const double seconds = argc > 1 ? atof(argv[1]) : 12;
    const double rate = argc > 2 ? atof(argv[2]) : 50;
    Theme::instance()->apply(SchemeChoice::Dark);
    auto workbench = test::makeWorkbench();
    test::playScene(workbench.get());
    MainWindow window(workbench.get());
    window.resize(1920, 1080);
    window.show();

    // Each pane begins at another place of the answer, so that table, code and prose are all being written at once.
    const QString text = test::longAnswer(20000);
    std::vector<qsizetype> at;
    for (int i = 0; i < agents::numAgents; ++i) {
        agents::Agent* agent = workbench->agent(i);
        test::addMessage(agent, agents::MessageRole::User, QStringLiteral("A long one, please."));
        test::addMessage(agent, agents::MessageRole::Assistant, {}, agents::MessageState::Pending);
        agents::AgentStatus status = agent->status();
        status.activity = agents::Activity::Writing;
        test::setStatus(agent, status);
        at.push_back(text.size() * i / agents::numAgents);
        test::appendText(agent, text.left(at.back()));
    }
    QCoreApplication::processEvents();

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
    const qsizetype charactersPerToken = 4;
    QTimer tokens;
    tokens.setTimerType(Qt::PreciseTimer);
    QObject::connect(&tokens, &QTimer::timeout, &app, [&] {
        for (int i = 0; i < agents::numAgents; ++i) {
            auto& place = at[std::size_t(i)];
            if (place >= text.size())
                continue;
            test::appendText(workbench->agent(i), text.mid(place, charactersPerToken));
            place += charactersPerToken;
            // As the agents do, the figures change a few times a second.
        }
    });
    tokens.start(int(1000 / rate));
    const double cpuBefore = threadSeconds();
    QTimer::singleShot(int(seconds * 1000), &app, &QApplication::quit);
    QApplication::exec();
    const double wall = double(clock.nsecsElapsed()) * 1e-9;
    const double cpu = threadSeconds() - cpuBefore;
    std::sort(gaps.begin(), gaps.end());
    const auto quantile = [&](double q) { return gaps.empty() ? 0.0 : gaps[std::size_t(double(gaps.size() - 1) * q)]; };
    std::printf("panes 8, %.0f tok/s each, %lld characters shown per pane at the start\n", rate,
                static_cast<long long>(text.size()));
    std::printf("event-loop gap: median %.1f ms, 99%% %.1f ms, longest %.1f ms\n", quantile(0.5), quantile(0.99),
                quantile(1.0));
    std::printf("GUI thread: %.1f%% of a core over %.1f s\n", 100 * cpu / wall, wall);

    // A session of 2,000 messages: from the call to painted.
    QList<agents::Message> session;
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
    return 0;
}
