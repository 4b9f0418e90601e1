#include "tests/engine/fake_tokenizer.h"
#include "tests/ui/real_window.h"
#include "ui/header_bar.h"
#include "ui/notice_bar.h"
#include "ui/sidebar/commit_watch.h"
#include "ui/sidebar/context_model.h"
#include "ui/sidebar/sidebar.h"
#include "ui/source_viewer/source_viewer.h"

#include <QFileDialog>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QListView>

using namespace octavo;
using namespace octavo::ui;
using namespace octavo::agents;
using octavo::ui::test::RealWindow;

namespace {

/// Answers by what the question says: "slow" holds after the first words, anything else quotes the repository.
octavo::test::Script answer(const engine::GenerationRequest& request, const engine::Tokenizer& tokenizer)
{
    octavo::test::Script script;
    if (request.maxNewTokens == 0)
        return script;
    const std::vector<engine::TokenId> newest(request.prompt.begin() + std::ptrdiff_t(request.contextTokens),
                                              request.prompt.end());
    const std::string turns = tokenizer.decode(newest);
    const bool goesOn = turns.find("It begins") != std::string::npos;
    if (goesOn) {
        script.pieces = {" and goes on", " to its end."};
    } else if (turns.find("slow") != std::string::npos) {
        script.pieces = {"It begins", " slowly", " and ends."};
        script.waits = true;
    } else {
        script.pieces = {"`join` adds two numbers, in `src/join.cpp`:\n\n```cpp\nint join(int a, int b)\n{\n",
                         "    return a + b;\n}\n```\n"};
    }
    return script;
}

} // namespace

/// What a day's work is made of, by keys and clicks on the window that users get.
class TestJourneys : public QObject
{
    Q_OBJECT

private:
    std::unique_ptr<RealWindow> m_real;

    const Message& last(int index) const { return m_real->agent(index)->messages().back(); }
    void focus(int place) { m_real->key(QStringLiteral("Ctrl+%1").arg(place + 1)); }
    void askAndWait(int place, const QString& question)
    {
        focus(place);
        m_real->ask(question);
        QTRY_COMPARE(m_real->pane(place)->agent()->status().activity, Activity::Idle);
    }

private slots:
    void initTestCase()
    {
        QLocale::setDefault(QLocale::English);
        Theme::instance()->apply(SchemeChoice::Dark);
    }

    void init()
    {
        const auto tokenizer = std::make_shared<engine::Tokenizer>(octavo::test::fakeTokenizer());
        m_real = std::make_unique<RealWindow>(
            [tokenizer](const engine::GenerationRequest& request) { return answer(request, *tokenizer); });
        m_real->open();
        m_real->addRepository();
    }
    void cleanup() { m_real.reset(); }

    void allAreAskedAndOneIsStopped()
    {
        m_real->key(QStringLiteral("Ctrl+Shift+A"));
        m_real->ask(QStringLiteral("A slow question"));
        for (int i = 0; i < numAgents; ++i)
            QTRY_COMPARE(m_real->agent(i)->status().activity, Activity::Writing);
        focus(2);
        m_real->key(QStringLiteral("Esc"));
        QTRY_COMPARE(last(2).state, MessageState::Stopped);
        QCOMPARE(last(2).text, QStringLiteral("It begins"));
        QCOMPARE(m_real->agent(3)->status().activity, Activity::Writing);
        QVERIFY(RealWindow::says(m_real->pane(2), QStringLiteral("stopped")));
        m_real->engine->resume();
        for (int i = 0; i < numAgents; ++i) {
            QTRY_COMPARE(m_real->agent(i)->status().activity, Activity::Idle);
            if (i != 2)
                QCOMPARE(last(i).text, QStringLiteral("It begins slowly and ends."));
        }
    }

    void aStoppedAnswerGoesOnIsWrittenAnewAndItsQuestionChanged()
    {
        focus(0);
        m_real->ask(QStringLiteral("A slow question"));
        QTRY_COMPARE(last(0).text, QStringLiteral("It begins"));
        m_real->key(QStringLiteral("Esc"));
        QTRY_COMPARE(last(0).state, MessageState::Stopped);

        m_real->key(QStringLiteral("Ctrl+Return"));
        QTRY_COMPARE(last(0).state, MessageState::Complete);
        QCOMPARE(last(0).text, QStringLiteral("It begins and goes on to its end."));
        QVERIFY(m_real->pane(0)->transcript()->plainText().contains(QStringLiteral("and goes on to its end.")));

        m_real->engine->resume();
        m_real->key(QStringLiteral("Ctrl+R"));
        QTRY_COMPARE(last(0).text, QStringLiteral("It begins slowly and ends."));
        QCOMPARE(m_real->agent(0)->messages().size(), 2);

        m_real->key(QStringLiteral("Ctrl+Shift+E"));
        QCOMPARE(m_real->pane(0)->composer()->text(), QStringLiteral("A slow question"));
        m_real->key(QStringLiteral("Ctrl+A"));
        m_real->ask(QStringLiteral("Where is join?"));
        QTRY_VERIFY_WITH_TIMEOUT(last(0).text.startsWith(QStringLiteral("`join` adds")), 30000);
        QCOMPARE(m_real->agent(0)->messages().size(), 2);
        QCOMPARE(m_real->agent(0)->messages()[0].text, QStringLiteral("Where is join?"));
    }

    void aPaneIsZoomedAndComesBack()
    {
        focus(4);
        m_real->key(QStringLiteral("F11"));
        QVERIFY(m_real->pane(4)->isVisible() && !m_real->pane(0)->isVisible());
        askAndWait(4, QStringLiteral("Where is join?"));
        QVERIFY(m_real->pane(4)->isVisible() && !m_real->pane(0)->isVisible());
        m_real->key(QStringLiteral("F11"));
        QVERIFY(m_real->pane(0)->isVisible());
        QVERIFY(m_real->pane(4)->transcript()->plainText().contains(QStringLiteral("adds two numbers")));
    }

    void aConversationIsFoundByItsWordsAndOpened()
    {
        askAndWait(0, QStringLiteral("Where is join, my heron?"));
        askAndWait(1, QStringLiteral("Another matter"));
        focus(0);
        m_real->key(QStringLiteral("Ctrl+N"));
        QVERIFY(m_real->agent(0)->messages().isEmpty());
        m_real->key(QStringLiteral("Ctrl+Shift+F"));
        m_real->type(QStringLiteral("heron"));
        QListView* history = m_real->window->sidebar()->historyView();
        QTRY_COMPARE(history->model()->rowCount(), 1);
        m_real->key(QStringLiteral("Down"));
        QTest::keyClick(history, Qt::Key_Return);
        QTRY_COMPARE(m_real->agent(0)->messages().size(), 2);
        QCOMPARE(m_real->agent(0)->messages()[0].text, QStringLiteral("Where is join, my heron?"));
        QVERIFY(m_real->pane(0)->transcript()->plainText().contains(QStringLiteral("my heron")));
    }

    void aCitationLeadsIntoTheSourceOfTheCommit()
    {
        askAndWait(0, QStringLiteral("Where is join?"));
        QCOMPARE(last(0).citations.size(), 2);
        // The working folder has moved on; what is shown is what was read.
        m_real->repository.write("src/join.cpp", "// rewritten\n");
        TranscriptView* transcript = m_real->pane(0)->transcript();
        transcript->setFocus();
        for (int i = 0; i < 8 && !m_real->window->findChild<SourceViewer*>(); ++i) {
            QTest::keyClick(transcript, Qt::Key_Tab);
            QTest::keyClick(transcript, Qt::Key_Return);
        }
        auto* viewer = m_real->window->findChild<SourceViewer*>();
        QVERIFY(viewer);
        QTRY_VERIFY(viewer->code()->toPlainText().contains(QStringLiteral("return a + b;")));
        QVERIFY(RealWindow::says(viewer, QStringLiteral("src/join.cpp")));
    }

    void aNewCommitIsNoticedAndTaken()
    {
        m_real->repository.write("src/more.cpp", "int more;\n");
        const QString commit = QString::fromLatin1(m_real->repository.commit(QStringLiteral("More")));
        QAbstractItemModel* contexts = m_real->window->sidebar()->contextView()->model();
        CommitWatch* watch = m_real->window->sidebar()->commitWatch();
        watch->setLeastPause(0);
        watch->look();
        QTRY_COMPARE(contexts->index(0, 0).data(ContextModel::NewerRole).toString(), commit.left(7));
        QVERIFY(
            contexts->index(0, 0).data(ContextModel::FiguresRole).toString().contains(QStringLiteral("new commit")));
        emit m_real->window->changeContextRequested(m_real->workbench->contexts()[0].id);
        auto* wizard = m_real->window->findChild<AddRepositoryDialog*>();
        auto* next = wizard->findChild<QPushButton*>(QStringLiteral("next"));
        QTRY_VERIFY(next->isEnabled());
        next->click();
        QTRY_VERIFY(wizard->findChild<FilesPage*>()->hasFiles() && next->isEnabled());
        QVERIFY(RealWindow::says(wizard, QStringLiteral("1 added")));
        next->click();
        QTRY_COMPARE(m_real->workbench->contexts().value(1).state, ContextState::Read);
        next->click();
        next->click();
        for (int i = 0; i < numAgents; ++i)
            QCOMPARE(m_real->agent(i)->context().commit, commit);
        QList<ContextId> looked;
        connect(watch, &CommitWatch::looked, this, [&looked](ContextId id) { looked << id; });
        watch->look();
        QTRY_VERIFY(looked.contains(m_real->workbench->contexts()[1].id));
        watch->disconnect(this);
        QVERIFY(contexts->index(1, 0).data(ContextModel::NewerRole).toString().isEmpty());
    }

    void aConversationIsExported()
    {
        askAndWait(0, QStringLiteral("Where is join?"));
        QTemporaryDir folder;
        for (const char* name : {"a.md", "a.json"}) {
            m_real->key(QStringLiteral("Ctrl+S"));
            auto* dialog = m_real->window->findChild<QFileDialog*>();
            QVERIFY(dialog);
            emit dialog->fileSelected(folder.filePath(QLatin1String(name))); // the desktop's own dialog, chosen in
            delete dialog;
            QTRY_VERIFY(QFile::exists(folder.filePath(QLatin1String(name))));
        }
        const auto content = [&](const char* name) {
            QFile file(folder.filePath(QLatin1String(name)));
            return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
        };
        QVERIFY(content("a.md").contains("```cpp\nint join(int a, int b)\n"));
        const QJsonObject json = QJsonDocument::fromJson(content("a.json")).object();
        QVERIFY(QJsonDocument(json).toJson().contains("src/join.cpp"));
    }

    void everythingIsThereAgainAfterClosing()
    {
        askAndWait(0, QStringLiteral("Where is join?"));
        askAndWait(1, QStringLiteral("And again?"));
        const QString first = last(0).text;
        focus(5);
        m_real->type(QStringLiteral("half a question"));
        focus(1);
        m_real->key(QStringLiteral("F2"));
        m_real->type(QStringLiteral("Joiner"));
        m_real->key(QStringLiteral("Return"));
        focus(1);
        m_real->key(QStringLiteral("Alt+Shift+Left"));
        m_real->window->grid()->setShape(GridShape::EightTall);

        m_real->close();
        m_real->open();
        QCOMPARE(m_real->window->grid()->order(), QStringLiteral("10234567"));
        QCOMPARE(m_real->window->grid()->shape(), GridShape::EightTall);
        QCOMPARE(m_real->window->currentPane()->agent()->index(), 1);
        QCOMPARE(m_real->agent(1)->name(), QStringLiteral("Joiner"));
        QCOMPARE(m_real->agent(0)->messages().size(), 2);
        QCOMPARE(last(0).text, first);
        QCOMPARE(last(0).citations.size(), 2);
        QCOMPARE(m_real->pane(5)->composer()->text(), QStringLiteral("half a question"));
        QCOMPARE(m_real->agent(0)->context().name, QStringLiteral("repo"));
        QVERIFY(m_real->pane(1)->transcript()->plainText().contains(QStringLiteral("adds two numbers")));
        QCOMPARE(m_real->window->sidebar()->historyView()->model()->rowCount(), 2);
        // And it goes on from there.
        QTRY_COMPARE(m_real->workbench->contexts()[0].state, ContextState::Read);
        askAndWait(0, QStringLiteral("Once more?"));
        QCOMPARE(m_real->agent(1)->messages().size(), 4);
    }
};

QTEST_MAIN(TestJourneys)
#include "tst_journeys.moc"
