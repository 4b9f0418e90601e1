#pragma once

/// The real window over the real workbench: a git repository, a session store on disk and an engine that says what the
/// test wrote. For journeys through the program, and for watching its threads.

#include "tests/agents/git_fixture.h"
#include "tests/engine/fake_engine.h"
#include "ui/dashboard/dashboard_panel.h"
#include "ui/main_window.h"
#include "ui/pane/composer.h"
#include "ui/pane/pane.h"
#include "ui/theme.h"
#include "ui/transcript/transcript_view.h"
#include "ui/window_tools.h"
#include "ui/wizard/add_repository_dialog.h"

#include <QAction>
#include <QLabel>
#include <QLineEdit>
#include <QSignalSpy>
#include <QTest>

namespace octavo::ui::test {

class RealWindow
{
public:
    using ScriptFor = std::function<octavo::test::Script(const engine::GenerationRequest&)>;

    explicit RealWindow(ScriptFor script)
        : m_script(std::move(script))
    {
        repository.write("src/join.cpp", "#include \"join.h\"\n\nint join(int a, int b)\n{\n    return a + b;\n}\n");
        repository.write("src/join.h", "#pragma once\n\nint join(int a, int b);\n");
        repository.write("README.md", "# Sample\n\nJoins two numbers.\n");
        repository.commit(QStringLiteral("Join two numbers"));
    }
    ~RealWindow() { close(); }

    QString database() const { return data.filePath(QStringLiteral("octavo.db")); }

    /// Starts the program, as run_window.cpp does.
    void open()
    {
        agents::WorkbenchOptions options;
        options.databasePath = database();
        options.agentName = MainWindow::tr("Agent %1");
        auto fake = std::make_unique<octavo::test::FakeEngine>(m_script);
        engine = fake.get();
        workbench = std::make_unique<agents::Workbench>(options, std::move(fake));
        window = std::make_unique<MainWindow>(workbench.get());
        window->setDashboard(new DashboardPanel(workbench.get()));
        tools = new WindowTools(window.get());
        window->resize(1600, 900);
        window->show();
        QApplication::setActiveWindow(window.get());
        workbench->start();
        QTRY_VERIFY_WITH_TIMEOUT(workbench->isReady() && window->grid()->panes().size() == agents::numAgents, 20000);
        QVERIFY(QTest::qWaitForWindowActive(window.get()));
    }

    /// Ends the program as a user does.
    void close()
    {
        if (window)
            window->close();
        window.reset();
        workbench.reset();
        engine = nullptr;
    }

    /// Through the wizard, by keyboard where it has keys, to all eight panes.
    void addRepository()
    {
        key(QStringLiteral("Ctrl+O"));
        auto* wizard = window->findChild<AddRepositoryDialog*>();
        QVERIFY(wizard);
        auto* next = wizard->findChild<QPushButton*>(QStringLiteral("next"));
        auto* folder = wizard->findChild<QLineEdit*>(QStringLiteral("folder"));
        folder->setText(repository.root());
        QTRY_VERIFY_WITH_TIMEOUT(next->isEnabled(), 20000);
        next->click();
        QTRY_VERIFY_WITH_TIMEOUT(wizard->findChild<FilesPage*>()->hasFiles() && next->isEnabled(), 20000);
        next->click();
        QCOMPARE(wizard->page(), AddRepositoryDialog::Read);
        QTRY_COMPARE_WITH_TIMEOUT(workbench->contexts().value(0).state, agents::ContextState::Read, 20000);
        next->click();
        QCOMPARE(wizard->page(), AddRepositoryDialog::Panes);
        next->click(); // all panes are free, so all are ticked
        QTRY_VERIFY(!window->findChild<AddRepositoryDialog*>());
        for (int i = 0; i < agents::numAgents; ++i)
            QCOMPARE(workbench->agent(i)->context().name, QStringLiteral("repo"));
        QApplication::setActiveWindow(window.get());
    }

    Pane* pane(int place) const { return window->grid()->panes()[place]; }
    agents::Agent* agent(int index) const { return workbench->agent(index); }
    bool allIdle() const
    {
        for (int i = 0; i < agents::numAgents; ++i) {
            if (agent(i)->status().activity != agents::Activity::Idle)
                return false;
        }
        return true;
    }

    void key(const QString& sequence) const
    {
        const QKeyCombination k = QKeySequence(sequence)[0];
        QWidget* to = QApplication::focusWidget() ? QApplication::focusWidget() : window.get();
        QTest::keyClick(to, k.key(), k.keyboardModifiers());
    }
    void type(const QString& text) const { QTest::keyClicks(QApplication::focusWidget(), text); }
    void ask(const QString& question) const
    {
        type(question);
        key(QStringLiteral("Return"));
    }
    /// Whether a visible label of `in` holds `text`.
    static bool says(const QWidget* in, const QString& text)
    {
        for (const QLabel* label : in->findChildren<QLabel*>()) {
            if (label->isVisible() && label->text().contains(text))
                return true;
        }
        return false;
    }

    agents::tests::GitFixture repository;
    QTemporaryDir data;
    octavo::test::FakeEngine* engine = nullptr;
    std::unique_ptr<agents::Workbench> workbench;
    std::unique_ptr<MainWindow> window;
    WindowTools* tools = nullptr;

private:
    ScriptFor m_script;
};

} // namespace octavo::ui::test
