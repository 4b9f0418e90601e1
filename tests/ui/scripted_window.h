#pragma once

/// The real window over a workbench that does what the test says, in the scene of the pictures; made anew for each
/// test.

#include "tests/ui/scripted_scene.h"
#include "tests/ui/scripted_workbench.h"
#include "ui/main_window.h"
#include "ui/pane/composer.h"
#include "ui/pane/pane.h"
#include "ui/theme.h"

#include <QApplication>
#include <QLabel>
#include <QtTest>

namespace octavo::ui::test {

class ScriptedWindow : public QObject
{
    Q_OBJECT

protected:
    std::unique_ptr<agents::Workbench> m_workbench;
    std::unique_ptr<MainWindow> m_window;

    Pane* pane(int place) const { return m_window->grid()->panes()[place]; }
    agents::Agent* agent(int index) const { return m_workbench->agent(index); }
    void key(const QString& sequence)
    {
        const QKeyCombination k = QKeySequence(sequence)[0];
        QWidget* to = QApplication::focusWidget() ? QApplication::focusWidget() : m_window.get();
        QTest::keyClick(to, k.key(), k.keyboardModifiers());
    }
    void type(const QString& text) { QTest::keyClicks(QApplication::focusWidget(), text); }
    void openWindow()
    {
        m_window = std::make_unique<MainWindow>(m_workbench.get());
        m_window->resize(1600, 900);
        m_window->show();
        QApplication::setActiveWindow(m_window.get());
        QVERIFY(QTest::qWaitForWindowActive(m_window.get()));
    }

    /// What a pane shows, in labels.
    QString words(int place) const
    {
        QStringList all;
        for (const QLabel* label : pane(place)->findChildren<QLabel*>()) {
            if (label->isVisible())
                all += label->text();
        }
        return all.join(u'|');
    }

private slots:
    void initTestCase()
    {
        QLocale::setDefault(QLocale::English);
        Theme::instance()->apply(SchemeChoice::Dark);
    }

    void init()
    {
        m_workbench = makeWorkbench();
        playScene(m_workbench.get());
        openWindow();
        m_window->grid()->setCurrent(pane(7));
        pane(7)->focusComposer();
    }

    void cleanup()
    {
        m_window.reset();
        m_workbench.reset();
    }
};

} // namespace octavo::ui::test
