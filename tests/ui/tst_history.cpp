#include "tests/ui/scripted_window.h"
#include "ui/notice_bar.h"
#include "ui/sidebar/sidebar.h"

#include <QAbstractItemModelTester>
#include <QListView>

using namespace octavo;
using namespace octavo::ui;
using namespace octavo::agents;

/// The lists on the left, and what undoes a deletion.
class TestHistory : public test::ScriptedWindow
{
    Q_OBJECT

private slots:
    void aDeletedConversationComesBackWithUndo()
    {
        QListView* history = m_window->sidebar()->historyView();
        QCOMPARE(history->model()->rowCount(), 6);
        history->setCurrentIndex(history->model()->index(2, 0));
        history->setFocus();
        QTest::keyClick(history, Qt::Key_Delete);
        QCOMPARE(history->model()->rowCount(), 5);
        QVERIFY(m_window->notices()->isVisible());
        m_window->notices()->button()->click();
        QCOMPARE(history->model()->rowCount(), 6);
    }

    void noDeletionIsLostToTheNextNotice()
    {
        QListView* history = m_window->sidebar()->historyView();
        NoticeBar* notices = m_window->notices();
        QTest::mouseMove(m_window.get(), QPoint(5, 5)); // under the pointer a notice stays
        for (int i = 0; i < 3; ++i) {
            history->setFocus();
            history->setCurrentIndex(history->model()->index(0, 0));
            QTest::keyClick(history, Qt::Key_Delete);
        }
        QCOMPARE(history->model()->rowCount(), 3);
        const QString offered = notices->text();
        notices->tell(QStringLiteral("Answer copied"));
        QCOMPARE(notices->text(), QStringLiteral("Answer copied"));
        QTRY_COMPARE_WITH_TIMEOUT(notices->text(), offered, 20000); // back by itself
        notices->button()->click();
        QCOMPARE(history->model()->rowCount(), 4);
        QVERIFY(notices->isVisible() && notices->text() != offered); // the one below it
        key(QStringLiteral("Ctrl+Shift+T"));
        key(QStringLiteral("Ctrl+Shift+T"));
        QCOMPARE(history->model()->rowCount(), 6);
        QVERIFY(!notices->isVisible()); // nothing is left to be undone
        key(QStringLiteral("Ctrl+Shift+T"));
        QCOMPARE(history->model()->rowCount(), 6);
        QVERIFY(notices->isVisible());
    }

    void anOfferStaysWhileItsButtonHasTheFocus()
    {
        NoticeBar* notices = m_window->notices();
        QTest::mouseMove(m_window.get(), QPoint(5, 5));
        notices->offer(QStringLiteral("deleted"), QStringLiteral("Undo"), [] {});
        notices->button()->setFocus();
        QVERIFY(!notices->isCounting());
        pane(7)->focusComposer();
        QVERIFY(notices->isCounting());
    }

    void theHistoryIsSearchedWhileTyping()
    {
        key(QStringLiteral("Ctrl+Shift+F"));
        type(QStringLiteral("compaction"));
        QListView* history = m_window->sidebar()->historyView();
        QTRY_COMPARE(history->model()->rowCount(), 1);
        QTest::keyClick(QApplication::focusWidget(), Qt::Key_Down);
        QTest::keyClick(history, Qt::Key_Return);
    }

    void listModelsKeepTheirRules()
    {
        QAbstractItemModelTester contexts(m_window->sidebar()->contextView()->model(),
                                          QAbstractItemModelTester::FailureReportingMode::QtTest);
        QAbstractItemModelTester history(m_window->sidebar()->historyView()->model(),
                                         QAbstractItemModelTester::FailureReportingMode::QtTest);
        ContextInfo info = m_workbench->contexts()[1];
        info.state = ContextState::Read;
        emit m_workbench->contextChanged(info);
        m_workbench->removeContext(info.id);
        QCOMPARE(m_window->sidebar()->contextView()->model()->rowCount(), 6);
        m_workbench->renameConversation(ConversationId{3}, QStringLiteral("renamed"));
        m_workbench->deleteConversation(ConversationId{2});
        QCOMPARE(m_window->sidebar()->historyView()->model()->rowCount(), 5);
    }

    void aContextIsGivenToThePaneOrToAll()
    {
        QListView* contexts = m_window->sidebar()->contextView();
        const QModelIndex fmt = contexts->model()->index(3, 0);
        QTest::mouseClick(contexts->viewport(), Qt::LeftButton, {}, contexts->visualRect(fmt).center());
        QCOMPARE(agent(7)->context().name, QStringLiteral("fmt"));
        emit m_window->sidebar()->contextForAllRequested(ContextId{1});
        QCOMPARE(agent(7)->context().name, QStringLiteral("vllm"));
        QCOMPARE(agent(4)->context().name, QStringLiteral("fmt")); // writing: left alone
    }
};

QTEST_MAIN(TestHistory)
#include "tst_history.moc"
