/// Paints the window with a scripted workbench and saves the pictures: octavo_shots FOLDER [NAME...].
///
/// Light and dark, at scale 1 or (QT_SCALE_FACTOR=2) 2. Not a test: somebody looks at them.

#include "tests/ui/scripted_scene.h"
#include "tests/ui/scripted_workbench.h"
#include "tests/ui/simulated_metrics.h"
#include "ui/dashboard/dashboard_panel.h"
#include "ui/header_bar.h"
#include "ui/main_window.h"
#include "ui/notice_bar.h"
#include "ui/pane/composer.h"
#include "ui/pane/pane.h"
#include "ui/theme.h"
#include "ui/transcript/transcript_view.h"
#include "ui/translation.h"

#include <QApplication>
#include <QDir>
#include <QLocale>
#include <QTest>
#include <QTextStream>

using namespace octavo;
using namespace octavo::ui;

namespace {

void save(QWidget* widget, const QString& folder, const QString& name)
{
    QTest::qWait(80);
    const QString path = QDir(folder).filePath(name + QStringLiteral(".png"));
    widget->grab().save(path);
    QTextStream(stdout) << path << "\n";
}

void flushAll(MainWindow& window)
{
    for (Pane* pane : window.grid()->panes())
        pane->transcript()->flush();
}

} // namespace

int main(int argc, char** argv)
{
    QApplication app(argc, argv);
    QLocale::setDefault(QLocale::English);
    installTranslation(QLocale(QLocale::English));
    const QStringList arguments = app.arguments();
    if (arguments.size() < 2) {
        QTextStream(stderr) << "usage: octavo_shots FOLDER\n";
        return 2;
    }
    const QString folder = arguments[1];
    QDir().mkpath(folder);
    const QString suffix = qFuzzyCompare(app.devicePixelRatio(), 1.0) ? QString() : QStringLiteral("-2x");
    for (const SchemeChoice choice : {SchemeChoice::Dark, SchemeChoice::Light, SchemeChoice::HighContrast}) {
        const QString scheme = Theme::name(choice) + suffix;
        Theme::instance()->apply(choice);
        auto workbench = test::makeWorkbench();
        test::playScene(workbench.get());
        MainWindow window(workbench.get());
        test::setContexts(workbench.get(), workbench->contexts());
        testing::SimulatedMachine machine(testing::SimulatedMachine::Kind::TwoGpus);
        engine::MetricsSnapshot snapshot;
        auto* dashboard = new DashboardPanel([&] { return snapshot; });
        QStringList names;
        for (int i = 0; i < agents::numAgents; ++i)
            names += workbench->agent(i)->name();
        dashboard->setAgentNames(names);
        window.setDashboard(dashboard);
        for (int tick = 0; tick < 700; ++tick) {
            snapshot = machine.advance(0.1);
            dashboard->tick();
        }
        window.resize(1920, 1080);
        window.show();
        flushAll(window);
        save(&window, folder, QStringLiteral("main-") + scheme);
        Theme::instance()->apply(choice, 2.0);
        QTest::qWait(100);
        flushAll(window);
        save(&window, folder, QStringLiteral("main-text200-") + scheme);
        Theme::instance()->apply(choice);
        QTest::qWait(100);
        if (choice == SchemeChoice::HighContrast)
            continue;

        // A zoomed pane with everything a transcript can hold.
        agents::Agent* agent = workbench->agent(3);
        test::addMessage(agent, agents::MessageRole::User,
                         QStringLiteral("Compare the policies, and show me how to set one."));
        test::addMessage(
            agent, agents::MessageRole::Assistant,
            QStringLiteral("## Selection policies\n\nCaddy ships these, all in `selectionpolicies.go`:\n\n"
                           "| Policy | Picks | State kept |\n| :-- | :-- | --: |\n"
                           "| `random` | any available upstream | 0 |\n| `round_robin` | the next one in turn | 1 |\n"
                           "| `least_conn` | the one with the fewest requests in flight | 1 |\n"
                           "| `ip_hash` | by the client's address, so that a client stays | 0 |\n\n"
                           "1. Pick a policy.\n2. Set it in the Caddyfile:\n\n   ```json\n   {\"load_balancing\": "
                           "{\"selection_policy\": {\"policy\": \"least_conn\"}, \"retries\": 3}}\n   ```\n\n"
                           "3. Reload; *no request is dropped*.\n\n> A policy sees only upstreams that are healthy.\n"
                           "> See [the docs](https://caddyserver.com/docs) for more.\n\n"
                           "```python\n@dataclass\nclass Upstream:\n    \"\"\"One backend.\"\"\"\n    dial: str\n"
                           "    healthy: bool = True  # set by the checker\n```\n"),
            agents::MessageState::Pending);
        test::changeLast(agent, [](agents::Message& message) {
            message.state = agents::MessageState::Complete;
            message.figures = {97102, 96540, 388, 240, 380.0, 81.7, 90.0};
            agents::Citation unverified;
            unverified.kind = agents::CitationKind::Quote;
            unverified.state = agents::CitationState::Unverified;
            unverified.textStart = int(message.text.indexOf(QStringLiteral("```python")));
            unverified.textLength = 20;
            agents::Citation elsewhere;
            elsewhere.kind = agents::CitationKind::Path;
            elsewhere.state = agents::CitationState::Elsewhere;
            elsewhere.displayPath = QStringLiteral("modules/caddyhttp/reverseproxy/selectionpolicies.go");
            elsewhere.textStart = int(message.text.indexOf(QStringLiteral("selectionpolicies.go")));
            elsewhere.textLength = 10;
            message.citations = {unverified, elsewhere};
        });
        window.grid()->setCurrent(window.grid()->panes()[3]);
        window.grid()->setZoomed(true);
        flushAll(window);
        save(&window, folder, QStringLiteral("zoom-") + scheme);
        window.grid()->setZoomed(false);
        window.grid()->setShape(GridShape::Four);
        window.grid()->setCurrent(window.grid()->panes()[0]);
        Pane* pane = window.currentPane();
        pane->composer()->setText(QStringLiteral("And what happens to sequences\nthat were cancelled in this step?"));
        pane->transcript()->setFocus();
        pane->openFind();
        window.notices()->offer(QStringLiteral("\u201cRetry policy in caddy\u201d deleted"), QStringLiteral("Undo"),
                                [] {});
        save(&window, folder, QStringLiteral("four-") + scheme);

        for (int i = 0; i < 4; ++i) {
            agents::Agent* asked = workbench->agent(i);
            test::addMessage(asked, agents::MessageRole::User, QStringLiteral("What is this project about?"));
            test::addMessage(asked, agents::MessageRole::Assistant,
                             QStringLiteral("It is about **%1**.\n\n- fast\n- small\n\n```sh\ngit clone %1 # %2\n```\n")
                                 .arg(asked->context().name)
                                 .arg(i));
        }
        window.header()->compareButton()->setChecked(true);
        save(&window, folder, QStringLiteral("compare-") + scheme);

        auto empty = test::makeWorkbench();
        engine::ModelInfo demo;
        demo.name = "demo-model";
        demo.parameters = 2'400'000;
        demo.contextLimit = 16384;
        test::setModel(empty.get(), demo);
        MainWindow first(empty.get());
        first.setDemoModel(true);
        test::becomeReady(empty.get());
        first.resize(1280, 800);
        first.show();
        save(&first, folder, QStringLiteral("first-") + scheme);
    }
    return 0;
}
