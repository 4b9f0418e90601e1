#include "tests/agents/git_fixture.h"
#include "tests/engine/fake_engine.h"

#include "ui/source_viewer/editor_command.h"
#include "ui/source_viewer/source_viewer.h"
#include "ui/theme.h"

#include "agents/workbench.h"

#include <QSignalSpy>
#include <QTest>
#include <QTextBlock>
#include <QTextLayout>

using namespace octavo;
using namespace octavo::ui;
using agents::tests::GitFixture;

namespace {

const QByteArray code = "#include <cstdio>\n// a comment\nint main()\n{\n    return 0;\n}\n";

/// A workbench with one context, of the repository's first commit.
struct Bench {
    Bench()
    {
        repo.write("src/main.cpp", code);
        repo.commit();
        workbench =
            std::make_unique<agents::Workbench>(agents::WorkbenchOptions{}, std::make_unique<test::FakeEngine>());
        QSignalSpy ready(workbench.get(), &agents::Workbench::ready);
        workbench->start();
        if (!ready.wait())
            qFatal("the workbench did not become ready");
        agents::IngestOptions options;
        options.repository = repo.root();
        std::unique_ptr<agents::IngestJob> job(workbench->preview(options));
        QSignalSpy finished(job.get(), &agents::IngestJob::finished);
        if (!finished.wait())
            qFatal("the preview did not finish");
        context = workbench->addContext(options, finished[0][0].value<agents::IngestResult>());
        if (!QTest::qWaitFor([&] { return workbench->contexts().value(0).state == agents::ContextState::Read; }))
            qFatal("the context was not read");
    }

    GitFixture repo;
    std::unique_ptr<agents::Workbench> workbench;
    agents::ContextId context{};
};

} // namespace

class TestSourceViewer : public QObject
{
    Q_OBJECT

private slots:
    void initTestCase() { Theme::instance()->apply(SchemeChoice::Dark); }

    void tellsEditorsTheLine_data();
    void tellsEditorsTheLine();
    void opensTheCommitsTextAtTheCitedLines();
    void coloursByLanguage();
    void findsForwardsAndWrapsRound();
    void saysWhyAFileCannotBeShown();
    void saysThatAFileIsNotInTheWorkingFolder();
    void showsWhatWouldTurnTheDirection();
    void everyControlHasAName();
};

void TestSourceViewer::tellsEditorsTheLine_data()
{
    QTest::addColumn<QString>("visual");
    QTest::addColumn<int>("line");
    QTest::addColumn<QStringList>("command");
    QTest::newRow("code") << "code" << 12 << QStringList({"code", "--goto", "/a b.c:12"});
    QTest::newRow("code waits") << "/usr/bin/code --wait" << 12
                                << QStringList({"/usr/bin/code", "--wait", "--goto", "/a b.c:12"});
    QTest::newRow("kate") << "kate" << 3 << QStringList({"kate", "--line", "3", "/a b.c"});
    QTest::newRow("gedit") << "gedit" << 3 << QStringList({"gedit", "+3", "/a b.c"});
    QTest::newRow("zed") << "zed" << 3 << QStringList({"zed", "/a b.c:3"});
    QTest::newRow("no line") << "code" << 0 << QStringList({"code", "/a b.c"});
    QTest::newRow("unknown") << "myedit" << 3 << QStringList({"myedit", "/a b.c"});
    QTest::newRow("terminal") << "vim" << 3 << QStringList();
    QTest::newRow("emacs in a terminal") << "emacs -nw" << 3 << QStringList();
    QTest::newRow("emacs") << "emacs" << 3 << QStringList({"emacs", "+3", "/a b.c"});
    QTest::newRow("unset") << "" << 3 << QStringList();
}

void TestSourceViewer::tellsEditorsTheLine()
{
    QFETCH(QString, visual);
    QFETCH(int, line);
    QFETCH(QStringList, command);
    QCOMPARE(editorCommand(visual, QStringLiteral("/a b.c"), line), command);
}

void TestSourceViewer::opensTheCommitsTextAtTheCitedLines()
{
    Bench bench;
    bench.repo.write("src/main.cpp", "changed since\n"); // the commit counts, not the folder
    SourceViewer viewer(bench.workbench.get());
    viewer.show();
    viewer.open(bench.context, "src/main.cpp", 3, 5);
    QTRY_COMPARE(viewer.code()->toPlainText().toUtf8(), code);
    QCOMPARE(viewer.code()->firstMarked(), 3);
    QCOMPARE(viewer.code()->lastMarked(), 5);
    QCOMPARE(viewer.code()->extraSelections().size(), 3);
    QCOMPARE(viewer.code()->textCursor().blockNumber(), 2);
    QCOMPARE(viewer.findChild<QLabel*>(QStringLiteral("sourcePath"))->text(), QStringLiteral("src/main.cpp"));
    QVERIFY(viewer.code()->isReadOnly());
}

void TestSourceViewer::coloursByLanguage()
{
    CodeView view;
    view.setCode(QStringLiteral("main.cpp"), QString::fromUtf8(code));
    const auto formats = view.document()->findBlockByNumber(1).layout()->formats();
    QCOMPARE(formats.size(), 1);
    QCOMPARE(formats[0].format.foreground().color(), colors().comment);
    view.setCode(QStringLiteral("notes.unknown"), QString::fromUtf8(code));
    QVERIFY(view.document()->findBlockByNumber(1).layout()->formats().isEmpty());
}

void TestSourceViewer::findsForwardsAndWrapsRound()
{
    Bench bench;
    SourceViewer viewer(bench.workbench.get());
    viewer.show();
    viewer.showSource({QStringLiteral("a.txt"), QStringLiteral("0123456789"), QStringLiteral("one\ntwo\none\n")}, 0, 0);
    auto* find = viewer.findChild<QLineEdit*>(QStringLiteral("find"));
    QTest::keyClicks(find, QStringLiteral("one"));
    for (int line : {0, 2, 0}) {
        QTest::keyClick(find, Qt::Key_Return);
        QCOMPARE(viewer.code()->textCursor().blockNumber(), line);
        QCOMPARE(viewer.code()->textCursor().selectedText(), QStringLiteral("one"));
    }
}

void TestSourceViewer::saysWhyAFileCannotBeShown()
{
    Bench bench;
    SourceViewer viewer(bench.workbench.get());
    viewer.show();
    viewer.open(bench.context, "no/such/file", 1);
    auto* notice = viewer.findChild<QLabel*>(QStringLiteral("notice"));
    QTRY_VERIFY(notice->isVisible());
    QVERIFY(!notice->text().isEmpty());
}

void TestSourceViewer::saysThatAFileIsNotInTheWorkingFolder()
{
    Bench bench;
    QFile::remove(bench.repo.root() + QStringLiteral("/src/main.cpp"));
    SourceViewer viewer(bench.workbench.get());
    viewer.show();
    viewer.open(bench.context, "src/main.cpp", 3);
    QTRY_COMPARE(viewer.code()->toPlainText().toUtf8(), code);
    QSignalSpy problem(&viewer, &SourceViewer::editorProblem);
    QTest::mouseClick(viewer.findChild<QPushButton*>(QStringLiteral("openInEditor")), Qt::LeftButton);
    QTRY_COMPARE(problem.size(), 1);
    QVERIFY(problem[0][0].toString().contains(QStringLiteral("not in the working folder")));
}

void TestSourceViewer::showsWhatWouldTurnTheDirection() // CVE-2021-42574
{
    CodeView view;
    view.setCode(QStringLiteral("main.c"), QStringLiteral("/*\u202E } \u2066if (admin)\u2069 */\n\tint a;\n"));
    QCOMPARE(view.toPlainText(), QStringLiteral("/*\uFFFD } \uFFFDif (admin)\uFFFD */\n\tint a;\n"));
    QCOMPARE(view.document()->defaultTextOption().textDirection(), Qt::LeftToRight);
}

void TestSourceViewer::everyControlHasAName()
{
    Bench bench;
    SourceViewer viewer(bench.workbench.get());
    for (const char* name : {"find", "openInEditor"})
        QVERIFY2(!viewer.findChild<QWidget*>(QLatin1String(name))->accessibleName().isEmpty(), name);
    QVERIFY(!viewer.code()->accessibleName().isEmpty());
}

QTEST_MAIN(TestSourceViewer)
#include "tst_source_viewer.moc"
