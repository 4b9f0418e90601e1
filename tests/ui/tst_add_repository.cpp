#include "tests/agents/git_fixture.h"
#include "tests/engine/fake_engine.h"

#include "ui/charts/segment_bar.h"
#include "ui/theme.h"
#include "ui/wizard/add_repository_dialog.h"
#include "ui/wizard/selection.h"

#include "agents/workbench.h"

#include <QDir>
#include <QLineEdit>
#include <QSignalSpy>
#include <QTest>
#include <QTreeView>

using namespace octavo;
using namespace octavo::ui;
using agents::tests::GitFixture;

namespace {

/// A small repository and a started workbench on a fake engine.
struct Bench {
    GitFixture repo;
    test::FakeEngine* engine = nullptr;
    std::unique_ptr<agents::Workbench> workbench;

    explicit Bench(std::int64_t contextLimit = 250'000, bool readingWaits = false)
    {
        repo.write("src/join.cpp", "int join(int a, int b)\n{\n    return a + b;\n}\n");
        repo.write("src/deep/er/far.cpp", QByteArray("int far() { return 1; }\n").repeated(20));
        repo.write("tests/tst_join.cpp", QByteArray("assert(join(1, 2) == 3);\n").repeated(30));
        repo.write("README.md", "# Sample\n");
        repo.write("logo.png", QByteArray("\x89PNG\0\0\0\1", 8));
        repo.commit(QStringLiteral("Join two numbers"));
        auto fake = std::make_unique<test::FakeEngine>(
            [readingWaits](const engine::GenerationRequest&) {
                test::Script script;
                script.waits = readingWaits;
                return script;
            },
            contextLimit);
        engine = fake.get();
        workbench = std::make_unique<agents::Workbench>(agents::WorkbenchOptions{}, std::move(fake));
        QSignalSpy ready(workbench.get(), &agents::Workbench::ready);
        workbench->start();
        if (!ready.wait())
            qFatal("the workbench did not become ready");
    }

    agents::ContextInfo context() const { return workbench->contexts().value(0); }
};

struct Wizard {
    explicit Wizard(Bench& bench)
        : dialog(bench.workbench.get())
    {
        dialog.show();
    }

    QPushButton* button(const char* name) { return dialog.findChild<QPushButton*>(QLatin1String(name)); }
    QString text(const char* name) { return dialog.findChild<QLabel*>(QLatin1String(name))->text(); }
    QLineEdit* edit(const char* name) { return dialog.findChild<QLineEdit*>(QLatin1String(name)); }
    void next() { QTest::mouseClick(button("next"), Qt::LeftButton); }
    FileTreeModel& tree() { return dialog.findChild<FilesPage*>()->tree(); }

    /// Up to the second page, with the files counted.
    void toFiles(const QString& folder)
    {
        dialog.setFolder(folder);
        QTRY_VERIFY(button("next")->isEnabled());
        next();
        QCOMPARE(dialog.page(), AddRepositoryDialog::Files);
        QTRY_VERIFY(dialog.findChild<FilesPage*>()->hasFiles());
    }

    AddRepositoryDialog dialog;
};

} // namespace

class TestAddRepository : public QObject
{
    Q_OBJECT

private slots:
    void initTestCase() { Theme::instance()->apply(SchemeChoice::Dark); }

    void splitsGlobsAtCommasOutsideOfBraces();
    void keepsSourcesBeforeTestsWhereNotAllFits();
    void saysWhatReadingCosts();

    void goesFromAFolderToPanes();
    void goesTheWholeWayByKeyboard();
    void saysInPlainWordsWhatIsWrongWithAFolder();
    void choosesAnotherBranch();
    void globsHaveEffectAsTheyAreTyped();
    void saysWhichGlobIsWrong();
    void choosesWhatFitsASmallContext();
    void refusesToReadTooMuch();
    void previewCountEqualsWhatIsSent();
    void saysWhatChangedSinceAnEarlierContext();
    void showsTheLargestFirstWhenAsked();
    void goingBackStopsCounting();
    void whatCouldNotBeCountedIsNotSaidToBeCounted();
    void stopsAndResumesReading();
    void closingInMidCountIsSafe();
    void everyControlHasAName();
};

void TestAddRepository::splitsGlobsAtCommasOutsideOfBraces()
{
    QCOMPARE(splitGlobs(QStringLiteral("**/*.py, csrc/**/*.{cu,cuh,h}  tests/**")),
             QStringList({"**/*.py", "csrc/**/*.{cu,cuh,h}", "tests/**"}));
    QCOMPARE(splitGlobs(QStringLiteral("a\\,b,{c,{d,e}}")), QStringList({"a\\,b", "{c,{d,e}}"}));
    QCOMPARE(splitGlobs(QStringLiteral(" , ")), QStringList());
}

void TestAddRepository::keepsSourcesBeforeTestsWhereNotAllFits()
{
    QList<agents::PackedFile> files;
    const std::pair<const char*, qint64> entries[] = {
        {"README.md", 10}, {"src/a.cpp", 50}, {"tests/tst_a.cpp", 30}, {"third_party/b.c", 30}};
    for (const auto& [path, tokens] : entries) {
        agents::PackedFile file;
        file.path = path;
        file.tokens = tokens;
        files += file;
    }
    QVERIFY(uncheckedToFit(files, 120).isEmpty());
    QCOMPARE(uncheckedToFit(files, 95), QSet<QByteArray>({"third_party/b.c"}));
    QCOMPARE(uncheckedToFit(files, 65), QSet<QByteArray>({"tests/tst_a.cpp", "third_party/b.c"}));
    QCOMPARE(uncheckedToFit(files, 5).size(), 4);
}

void TestAddRepository::saysWhatReadingCosts()
{
    QCOMPARE(costText(243812, 3932, 18000),
             QStringLiteral("reads in about 62 s · %1 of RAM · shared by all panes on this commit")
                 .arg(bytesText(243812LL * 18000)));
    QVERIFY(costText(243812, 1000, 0).startsWith(QStringLiteral("reads in about 4 min · %1 of RAM").arg(dash())));
    QVERIFY(costText(10, 0, 0).startsWith(QStringLiteral("reading time not known yet")));
}

void TestAddRepository::goesFromAFolderToPanes()
{
    Bench bench;
    Wizard wizard(bench);
    QVERIFY(!wizard.button("next")->isEnabled());
    wizard.toFiles(bench.repo.root());

    QCOMPARE(wizard.text("repositoryName"), QStringLiteral("repo"));
    QVERIFY(wizard.text("leftOutSummary").startsWith(QStringLiteral("1 of 5 · packed 4 · unchecked 0")));
    const qint64 tokens = wizard.dialog.findChild<FilesPage*>()->chosenTokens();
    QCOMPARE(wizard.button("next")->text(), QStringLiteral("Read %1 tokens").arg(countText(tokens)));
    QVERIFY(bench.workbench->contexts().isEmpty());

    wizard.next();
    QCOMPARE(wizard.dialog.page(), AddRepositoryDialog::Read);
    QCOMPARE(bench.workbench->contexts().size(), 1);
    QTRY_COMPARE(bench.context().state, agents::ContextState::Read);
    QCOMPARE(bench.context().tokens, tokens);
    wizard.next();
    QCOMPARE(wizard.dialog.page(), AddRepositoryDialog::Panes);
    for (int pane : {1, 3, 4, 5, 6, 7})
        QTest::mouseClick(wizard.dialog.findChild<QCheckBox*>(QStringLiteral("pane%1").arg(pane)), Qt::LeftButton, {},
                          {8, 10});
    QSignalSpy assigned(&wizard.dialog, &AddRepositoryDialog::contextAssigned);
    wizard.next();
    QCOMPARE(assigned.size(), 1);
    QCOMPARE(assigned[0][1].value<QList<int>>(), QList<int>({0, 2}));
    QCOMPARE(bench.workbench->agent(0)->context().id, bench.context().id);
    QCOMPARE(bench.workbench->agent(2)->context().id, bench.context().id);
    QCOMPARE(bench.workbench->agent(1)->context().id, agents::ContextId{});
    QVERIFY(!wizard.dialog.isVisible());
}

void TestAddRepository::goesTheWholeWayByKeyboard()
{
    Bench bench;
    Wizard wizard(bench);
    QApplication::setActiveWindow(&wizard.dialog);
    QTest::keyClicks(wizard.edit("folder"), bench.repo.root());
    QTRY_VERIFY(wizard.button("next")->isEnabled());
    QTest::keyClick(wizard.edit("folder"), Qt::Key_Return);
    QTRY_VERIFY(wizard.dialog.findChild<FilesPage*>()->hasFiles());
    auto* view = wizard.dialog.findChild<QTreeView*>();
    QTest::keyClick(view, Qt::Key_Space); // the repository's own box
    QCOMPARE(wizard.tree().packedFiles(), 0);
    QVERIFY(!wizard.button("next")->isEnabled());
    QCOMPARE(wizard.text("note"), QStringLiteral("No file is chosen."));
    QTest::keyClick(view, Qt::Key_Space);
    QCOMPARE(wizard.tree().packedFiles(), 4);
    QTest::keyClick(&wizard.dialog, Qt::Key_Return);
    QCOMPARE(wizard.dialog.page(), AddRepositoryDialog::Read);
    QTest::keyClick(&wizard.dialog, Qt::Key_Return);
    QCOMPARE(wizard.dialog.page(), AddRepositoryDialog::Panes);
    QTest::keyClick(&wizard.dialog, Qt::Key_Return);
    QVERIFY(!wizard.dialog.isVisible());
    QCOMPARE(bench.context().panes, 8);
}

void TestAddRepository::saysInPlainWordsWhatIsWrongWithAFolder()
{
    Bench bench;
    Wizard wizard(bench);
    QTemporaryDir plain;
    wizard.dialog.setFolder(plain.path());
    QTRY_VERIFY(wizard.text("notes").contains(QStringLiteral("is not a git repository")));
    QVERIFY(!wizard.button("next")->isEnabled());

    GitFixture empty;
    wizard.dialog.setFolder(empty.root());
    QTRY_VERIFY(wizard.text("notes").contains(QStringLiteral("There are no commits yet")));
    QVERIFY(!wizard.button("next")->isEnabled());
}

void TestAddRepository::choosesAnotherBranch()
{
    Bench bench;
    bench.repo.git({"checkout", "-q", "-b", "side"});
    bench.repo.write("side.txt", "only here\n");
    bench.repo.commit(QStringLiteral("Aside"));
    bench.repo.git({"checkout", "-q", "main"});
    Wizard wizard(bench);
    wizard.dialog.setFolder(bench.repo.root());
    QTRY_VERIFY(wizard.button("next")->isEnabled());
    auto* refs = wizard.dialog.findChild<QComboBox*>(QStringLiteral("refs"));
    QCOMPARE(refs->currentText(), QStringLiteral("main"));
    refs->lineEdit()->selectAll();
    QTest::keyClicks(refs->lineEdit(), QStringLiteral("nowhere"));
    QTest::keyClick(refs->lineEdit(), Qt::Key_Return);
    QTRY_VERIFY(wizard.text("notes").contains(QStringLiteral("nowhere")));
    QVERIFY(!wizard.button("next")->isEnabled());
    refs->lineEdit()->selectAll();
    QTest::keyClicks(refs->lineEdit(), QStringLiteral("side"));
    QTest::keyClick(refs->lineEdit(), Qt::Key_Return);
    QTRY_VERIFY(wizard.button("next")->isEnabled());
    wizard.next();
    QTRY_VERIFY(wizard.dialog.findChild<FilesPage*>()->hasFiles());
    QCOMPARE(wizard.tree().packedFiles(), 5);
}

void TestAddRepository::globsHaveEffectAsTheyAreTyped()
{
    Bench bench;
    Wizard wizard(bench);
    wizard.toFiles(bench.repo.root());
    QTest::keyClicks(wizard.edit("exclude"), QStringLiteral("tests/**"));
    QTRY_COMPARE(wizard.tree().packedFiles(), 3);
    QTest::keyClicks(wizard.edit("include"), QStringLiteral("*.cpp"));
    QTRY_COMPARE(wizard.tree().packedFiles(), 2);
    QVERIFY(wizard.text("leftOutSummary").startsWith(QStringLiteral("1 of 5 · packed 2 · unchecked 2")));
    const agents::IngestResult chosen = wizard.dialog.findChild<FilesPage*>()->chosen();
    QCOMPARE(chosen.packed.size() + chosen.skipped.size(), chosen.filesTotal);
    wizard.next();
    QTRY_COMPARE(bench.context().state, agents::ContextState::Read);
    QCOMPARE(bench.context().files, 2);
}

void TestAddRepository::saysWhichGlobIsWrong()
{
    Bench bench;
    Wizard wizard(bench);
    wizard.toFiles(bench.repo.root());
    QTest::keyClicks(wizard.edit("include"), QStringLiteral("src/[a"));
    QVERIFY(!wizard.button("next")->isEnabled()); // at once: nothing is read by patterns that do not tell yet
    QTRY_VERIFY2(wizard.text("note").contains(QStringLiteral("src/[a")), qPrintable(wizard.text("note")));
    wizard.edit("include")->clear();
    QTRY_VERIFY(wizard.button("next")->isEnabled());
}

void TestAddRepository::choosesWhatFitsASmallContext()
{
    Bench bench(1'300);
    Wizard wizard(bench);
    wizard.toFiles(bench.repo.root());
    QVERIFY(wizard.button("fit")->isVisible());
    QVERIFY(wizard.tree().packedFiles() < 4);
    QVERIFY(wizard.tree().packedFiles() > 0);
    QVERIFY(wizard.dialog.findChild<FilesPage*>()->chosenTokens() < 1'300);
    QVERIFY(wizard.button("next")->isEnabled());
}

void TestAddRepository::refusesToReadTooMuch()
{
    Bench bench(1'300);
    Wizard wizard(bench);
    wizard.toFiles(bench.repo.root());
    wizard.tree().setAllChecked(true);
    QVERIFY(!wizard.button("next")->isEnabled());
    QVERIFY(wizard.text("note").startsWith(QStringLiteral("Too much by ")));
    QTest::mouseClick(wizard.button("fit"), Qt::LeftButton);
    QVERIFY(wizard.button("next")->isEnabled());
}

void TestAddRepository::previewCountEqualsWhatIsSent()
{
    Bench bench;
    Wizard wizard(bench);
    wizard.toFiles(bench.repo.root());
    QTest::keyClicks(wizard.edit("exclude"), QStringLiteral("README.md"));
    QTRY_COMPARE(wizard.tree().packedFiles(), 3);
    const qint64 promised = wizard.dialog.findChild<FilesPage*>()->chosenTokens();
    wizard.next();
    QTRY_COMPARE(bench.context().state, agents::ContextState::Read);
    QCOMPARE(qint64(bench.engine->requests().back().prompt.size()), promised);
}

void TestAddRepository::saysWhatChangedSinceAnEarlierContext()
{
    Bench bench;
    {
        Wizard wizard(bench);
        wizard.toFiles(bench.repo.root());
        QTest::keyClicks(wizard.edit("exclude"), QStringLiteral("tests/**"));
        QTRY_COMPARE(wizard.tree().packedFiles(), 3);
        wizard.next();
        QTRY_COMPARE(bench.context().state, agents::ContextState::Read);
    }
    bench.repo.write("src/join.cpp", "int join(int a, int b, int c)\n{\n    return a + b + c;\n}\n");
    bench.repo.write("src/new.cpp", "int fresh();\n");
    bench.repo.commit(QStringLiteral("Join three numbers"));
    Wizard wizard(bench);
    wizard.dialog.startFrom(bench.context().id);
    QTRY_VERIFY(wizard.button("next")->isEnabled());
    wizard.next();
    QTRY_VERIFY(wizard.dialog.findChild<FilesPage*>()->hasFiles());
    QCOMPARE(wizard.edit("exclude")->text(), QStringLiteral("tests/**"));
    QTRY_COMPARE(wizard.tree().packedFiles(), 4);
    QTRY_VERIFY2(
        wizard.text("note").startsWith(QStringLiteral("Against the context before: 1 changed, 1 added, 0 removed")),
        qPrintable(wizard.text("note")));
    // Which they are stands in the place of what is left out, and back.
    auto* list = wizard.dialog.findChild<QTreeView*>(QStringLiteral("leftOutOrChanged"));
    QVERIFY(wizard.button("showChanges")->isVisible());
    QCOMPARE(list->model()->rowCount(), 2);
    QCOMPARE(list->model()->index(0, 0).data().toString(), QStringLiteral("src/join.cpp"));
    QCOMPARE(list->model()->index(0, 1).data().toString(), QStringLiteral("changed"));
    QCOMPARE(list->model()->index(1, 1).data().toString(), QStringLiteral("added"));
    wizard.button("showLeftOut")->click();
    QCOMPARE(list->model()->index(0, 0).data().toString(), QStringLiteral("logo.png"));
    // The panes that had the old one are proposed for the new one.
    bench.workbench->agent(3)->setContext(bench.context().id);
    wizard.next();
    QTRY_COMPARE(bench.workbench->contexts().value(1).state, agents::ContextState::Read);
    wizard.next();
    QCOMPARE(wizard.dialog.findChild<PanesPage*>()->chosen(), QList<int>{3});
}

void TestAddRepository::showsTheLargestFirstWhenAsked()
{
    Bench bench;
    Wizard wizard(bench);
    wizard.toFiles(bench.repo.root());
    const FileTreeModel& tree = wizard.tree();
    const auto first = [&] { return tree.index(0, 0, tree.index(0, 0)).data(Qt::DisplayRole).toString(); };
    QCOMPARE(first(), QStringLiteral("src/"));
    wizard.button("bySize")->click();
    const QModelIndex root = tree.index(0, 0);
    for (int row = 1; row < tree.rowCount(root); ++row)
        QVERIFY(tree.index(row - 1, 0, root).data(FileTreeModel::TokensRole).toLongLong() >=
                tree.index(row, 0, root).data(FileTreeModel::TokensRole).toLongLong());
    QCOMPARE(first(), QStringLiteral("tests/"));
    wizard.button("byName")->click();
    QCOMPARE(first(), QStringLiteral("src/"));
}

void TestAddRepository::goingBackStopsCounting()
{
    Bench bench;
    Wizard wizard(bench);
    wizard.dialog.setFolder(bench.repo.root());
    QTRY_VERIFY(wizard.button("next")->isEnabled());
    wizard.next();
    QTest::mouseClick(wizard.button("back"), Qt::LeftButton);
    QCOMPARE(wizard.dialog.page(), AddRepositoryDialog::Source);
    QTest::qWait(50);
    QVERIFY(!wizard.dialog.findChild<FilesPage*>()->hasFiles());
    wizard.next();
    QTRY_VERIFY(wizard.dialog.findChild<FilesPage*>()->hasFiles());
}

void TestAddRepository::whatCouldNotBeCountedIsNotSaidToBeCounted()
{
    Bench bench;
    Wizard wizard(bench);
    wizard.dialog.setFolder(bench.repo.root());
    QTRY_VERIFY(wizard.button("next")->isEnabled());
    QVERIFY(QDir(bench.repo.root() + "/.git/objects").removeRecursively()); // gone between the pages
    wizard.next();
    auto* files = wizard.dialog.findChild<FilesPage*>();
    QTRY_VERIFY(!files->isCounting());
    QVERIFY(!files->hasFiles());
    QVERIFY(!wizard.button("next")->text().startsWith("Counting"));
}

void TestAddRepository::stopsAndResumesReading()
{
    Bench bench(250'000, true);
    Wizard wizard(bench);
    wizard.toFiles(bench.repo.root());
    wizard.next();
    QTRY_COMPARE(bench.context().state, agents::ContextState::Reading);
    auto* stop = wizard.button("stopReading");
    QCOMPARE(stop->text(), QStringLiteral("Stop reading"));
    QTest::mouseClick(stop, Qt::LeftButton);
    QTRY_COMPARE(bench.context().state, agents::ContextState::Ready);
    QCOMPARE(stop->text(), QStringLiteral("Resume reading"));
    QTest::mouseClick(stop, Qt::LeftButton);
    QTRY_COMPARE(bench.context().state, agents::ContextState::Reading);
    bench.engine->resume();
    QTRY_COMPARE(bench.context().state, agents::ContextState::Read);
    QVERIFY(!stop->isVisible());
    QVERIFY(wizard.text("readingFigures").contains(QStringLiteral("tokens")));
}

void TestAddRepository::closingInMidCountIsSafe()
{
    Bench bench;
    {
        Wizard wizard(bench);
        wizard.dialog.setFolder(bench.repo.root());
        QTRY_VERIFY(wizard.button("next")->isEnabled());
        wizard.next();
    }
    QTest::qWait(50);
    QVERIFY(bench.workbench->contexts().isEmpty());
}

void TestAddRepository::everyControlHasAName()
{
    Bench bench;
    Wizard wizard(bench);
    wizard.toFiles(bench.repo.root());
    wizard.next();
    wizard.next();
    const QString helpers = QStringLiteral("qt_");
    for (QWidget* widget : wizard.dialog.findChildren<QWidget*>()) {
        const bool isControl = qobject_cast<QAbstractButton*>(widget) || qobject_cast<QTreeView*>(widget) ||
                               (qobject_cast<QLineEdit*>(widget) && !qobject_cast<QComboBox*>(widget->parent())) ||
                               qobject_cast<QComboBox*>(widget) || qobject_cast<SegmentBar*>(widget);
        if (!isControl || widget->objectName().startsWith(helpers) || qobject_cast<QLineEdit*>(widget->parent()))
            continue;
        QVERIFY2(!widget->accessibleName().isEmpty(),
                 qPrintable(QStringLiteral("%1 '%2'").arg(QLatin1String(widget->metaObject()->className()),
                                                          widget->objectName())));
    }
}

QTEST_MAIN(TestAddRepository)
#include "tst_add_repository.moc"
