#include "tests/ui/scripted_window.h"
#include "ui/header_bar.h"
#include "ui/pane/pane_header.h"
#include "ui/transcript/transcript_view.h"

#include <QAccessible>
#include <QLineEdit>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QToolButton>

using namespace octavo;
using namespace octavo::ui;
using namespace octavo::agents;

/// Names and roles for screen readers, Tab, large text.
class TestAccessibility : public test::ScriptedWindow
{
    Q_OBJECT

private slots:
    void everythingInteractiveHasANameAndARole()
    {
        int interactive = 0, links = 0;
        QStringList unnamed;
        const std::function<void(QAccessibleInterface*)> walk = [&](QAccessibleInterface* at) {
            if (!at || !at->isValid() || at->state().invisible)
                return;
            switch (at->role()) {
            case QAccessible::Button:
            case QAccessible::Link:
            case QAccessible::ButtonMenu:
            case QAccessible::CheckBox:
            case QAccessible::ComboBox:
            case QAccessible::EditableText:
            case QAccessible::List:
            case QAccessible::ListItem:
            case QAccessible::Document:
            case QAccessible::MenuItem:
            case QAccessible::Slider:
            case QAccessible::ScrollBar:
                ++interactive;
                links += at->role() == QAccessible::Link;
                if (at->text(QAccessible::Name).isEmpty() && at->role() != QAccessible::ScrollBar) {
                    const QObject* object = at->object();
                    unnamed +=
                        QStringLiteral("%1 %2 in %3")
                            .arg(QLatin1String(object ? object->metaObject()->className() : "?"),
                                 object ? object->objectName() : QString(),
                                 QLatin1String(object && object->parent() ? object->parent()->metaObject()->className()
                                                                          : "?"));
                }
                break;
            default:
                break;
            }
            for (int i = 0; i < at->childCount(); ++i)
                walk(at->child(i));
        };
        walk(QAccessible::queryAccessibleInterface(m_window.get()));
        QVERIFY2(unnamed.isEmpty(), qPrintable(unnamed.join(u'\n')));
        QVERIFY(interactive > 60);
        QVERIFY(links > 0); // of answers: painted, and yet there
    }

    void tabVisitsEveryControlOfAPane()
    {
        m_window->grid()->setShape(GridShape::One);
        m_window->header()->askField()->setFocus();
        QSet<QWidget*> visited;
        for (int i = 0; i < 200; ++i) {
            visited += QApplication::focusWidget();
            QTest::keyClick(QApplication::focusWidget(), Qt::Key_Tab);
        }
        QVERIFY(visited.contains(pane(7)->composer()->edit()));
        for (QWidget* widget : m_window->findChildren<QWidget*>()) {
            if (widget->isVisible() && widget->isEnabled() && (widget->focusPolicy() & Qt::TabFocus) &&
                !widget->focusProxy())
                QVERIFY2(visited.contains(widget), widget->metaObject()->className());
        }
    }

    void tabLeavesTheCardOfAFailedPane()
    {
        Pane* failed = nullptr;
        for (Pane* each : m_window->grid()->panes()) {
            if (each->agent()->status().outcome == Outcome::Failed)
                failed = each;
        }
        QVERIFY(failed);
        test::addMessage(failed->agent(), MessageRole::Assistant, QStringLiteral("See [a](https://b.example/)."),
                         MessageState::Failed); // things that Tab stops at, above the card
        const auto buttons = failed->transcript()->viewport()->findChildren<QPushButton*>();
        QList<QPushButton*> shown;
        for (QPushButton* button : buttons) {
            if (button->isVisible())
                shown += button;
        }
        QVERIFY(!shown.isEmpty());
        for (const char* step : {"Tab", "Shift+Tab"}) {
            shown[0]->setFocus();
            QCOMPARE(QApplication::focusWidget(), shown[0]);
            key(QString::fromLatin1(step));
            QVERIFY2(QApplication::focusWidget() != shown[0], step);
        }
        shown[0]->setFocus();
        AgentStatus idle = failed->agent()->status();
        idle.outcome = Outcome::None;
        test::setStatus(failed->agent(), idle); // the card goes
        QVERIFY(!shown[0]->isVisible());
        QVERIFY(QApplication::focusWidget() && QApplication::focusWidget()->isVisible());
    }

    void textAtTwiceTheSizeStillFits()
    {
        Theme::instance()->apply(SchemeChoice::Light, 2.0);
        m_window->grid()->setShape(GridShape::Two);
        QCoreApplication::processEvents();
        // Nothing is squeezed below what it needs: every visible button shows its whole text.
        for (const QPushButton* button : m_window->findChildren<QPushButton*>()) {
            if (button->isVisible())
                QVERIFY2(button->width() >= button->minimumSizeHint().width(), qPrintable(button->text()));
        }
        QVERIFY(m_window->width() <= 1920);
        // Names of contexts make way for names of panes.
        m_window->grid()->setShape(GridShape::EightWide);
        m_window->resize(1920, 1080);
        QTest::qWait(50);
        for (const Pane* pane : m_window->grid()->panes()) {
            const QToolButton* context = pane->findChild<PaneHeader*>()->contextButton();
            const int needed = QFontMetrics(context->font()).horizontalAdvance(context->text());
            QVERIFY2(needed <= context->width(),
                     qPrintable(QStringLiteral("%1: %2 in %3").arg(context->text()).arg(needed).arg(context->width())));
        }
        Theme::instance()->apply(SchemeChoice::Dark, 1.0);
    }
};

QTEST_MAIN(TestAccessibility)
#include "tst_accessibility.moc"
