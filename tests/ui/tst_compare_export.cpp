#include "tests/ui/scripted_window.h"
#include "ui/compare_view.h"
#include "ui/conversation_export.h"
#include "ui/header_bar.h"
#include "ui/notice_bar.h"
#include "ui/transcript/transcript_view.h"

#include <QComboBox>
#include <QLineEdit>
#include <QTemporaryDir>

using namespace octavo;
using namespace octavo::ui;
using namespace octavo::agents;

/// Answers side by side, and conversations as files.
class TestCompareExport : public test::ScriptedWindow
{
    Q_OBJECT

private slots:
    void compareAlignsAnswersToOneQuestion()
    {
        for (int i = 0; i < 3; ++i) {
            test::addMessage(agent(i), MessageRole::User, QStringLiteral("same?"));
            test::addMessage(agent(i), MessageRole::Assistant, QStringLiteral("answer %1").arg(i));
        }
        QList<Agent*> all;
        for (int i = 0; i < numAgents; ++i)
            all += agent(i);
        QCOMPARE(comparableQuestions(all).front(), QStringLiteral("same?"));
        key(QStringLiteral("Ctrl+Shift+M"));
        auto* compare = m_window->findChild<CompareView*>();
        QVERIFY(compare && compare->isVisible());
        QCOMPARE(compare->columnCount(), 3);
        // Each column's answer is its conversation's newest: it can be written anew from here.
        auto* column = compare->findChild<TranscriptView*>();
        column->setFocus();
        for (const int press : {int(Qt::Key_Tab), int(Qt::Key_Tab), int(Qt::Key_Return)})
            QTest::keyClick(column, Qt::Key(press));
        QCOMPARE(test::script(agent(0)).regenerations, 1);
        key(QStringLiteral("Esc"));
        QVERIFY(m_window->grid()->isVisible());
    }

    void compareFollowsWhatIsAskedMeanwhile()
    {
        key(QStringLiteral("Ctrl+Shift+M"));
        auto* compare = m_window->findChild<CompareView*>();
        auto* questions = compare->findChild<QComboBox*>();
        // The newest question is shown, as after asking all.
        QString newest;
        qint64 id = 0;
        for (int i = 0; i < numAgents; ++i) {
            for (const Message& message : agent(i)->messages()) {
                if (message.role == MessageRole::User && qint64(message.id) > id) {
                    id = qint64(message.id);
                    newest = message.text;
                }
            }
        }
        questions->setCurrentIndex(questions->findData(newest));
        m_window->header()->askField()->setFocus();
        type(QStringLiteral("a new one?"));
        key(QStringLiteral("Return"));
        QTRY_COMPARE(questions->currentData().toString(), QStringLiteral("a new one?"));
        QCOMPARE(compare->columnCount(), 3);
        test::appendText(agent(7), QStringLiteral("arrives"));
        const auto views = compare->findChildren<TranscriptView*>();
        QTRY_VERIFY(std::any_of(views.begin(), views.end(), [](TranscriptView* view) {
            view->flush();
            return view->plainText().contains(QStringLiteral("arrives"));
        }));
        // Who looks at an older one goes on looking at it, and the new one is in the list.
        questions->setCurrentIndex(questions->findData(newest));
        agent(7)->stop();
        QVERIFY(agent(7)->ask(QStringLiteral("one more?")));
        QTRY_VERIFY(questions->findData(QStringLiteral("one more?")) >= 0);
        QCOMPARE(questions->currentData().toString(), newest);
    }

    void exportKeepsLinesAndFences()
    {
        test::setMessages(agent(7), {});
        test::addMessage(agent(7), MessageRole::User, QStringLiteral("Why\n  x = 1\nfails?"));
        test::addMessage(agent(7), MessageRole::Assistant, QStringLiteral("So:\n\n````cpp\nint a;\n```\n"),
                         MessageState::Stopped);
        test::changeLast(agent(7), [](Message& message) {
            Citation citation;
            citation.displayPath = QStringLiteral("a`b``.cpp");
            message.citations = {citation};
        });
        test::addMessage(agent(7), MessageRole::User, QStringLiteral("and?"));
        test::addMessage(agent(7), MessageRole::Assistant, QStringLiteral("- one\n  ```\n  x\n  ```\n- `~~~` two"));
        const QString text = conversationAsMarkdown(*agent(7));
        QVERIFY2(text.contains(QStringLiteral("\n> Why  \n>   x = 1  \n> fails?\n")), qPrintable(text));
        QVERIFY2(text.contains(QStringLiteral("\nint a;\n```\n````\n")), qPrintable(text));
        QVERIFY2(text.contains(QStringLiteral("```a`b``.cpp```")), qPrintable(text));
        QVERIFY2(text.endsWith(QStringLiteral("- `~~~` two\n")), qPrintable(text)); // nothing was open there
    }

    void exportsMarkdownAndJson()
    {
        QTemporaryDir folder;
        m_window->grid()->setCurrent(pane(3));
        for (const QString& name : {QStringLiteral("a.md"), QStringLiteral("a.json")}) {
            m_window->exportTo(folder.filePath(name));
            QTRY_VERIFY(QFile::exists(folder.filePath(name)));
            QFile file(folder.filePath(name));
            QVERIFY(file.open(QIODevice::ReadOnly));
            const QByteArray content = file.readAll();
            QVERIFY(content.contains("TryDuration"));
            QVERIFY(content.contains("reverseproxy.go"));
        }
        m_window->exportTo(QStringLiteral("/nowhere/at/all.md"));
        QTRY_VERIFY(m_window->notices()->text().contains(QStringLiteral("/nowhere")));
    }
};

QTEST_MAIN(TestCompareExport)
#include "tst_compare_export.moc"
