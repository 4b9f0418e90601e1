#include "tests/ui/packed_files.h"
#include "ui/wizard/file_tree_model.h"
#include "ui/wizard/file_tree_view.h"
#include "ui/wizard/left_out_model.h"

#include <QAbstractItemModelTester>
#include <QPersistentModelIndex>
#include <QSignalSpy>
#include <QTest>

using namespace octavo;
using namespace octavo::ui;
using octavo::ui::test::packedFiles;

namespace {

/// "[x] name tokens", children indented; [ ] none, [-] some, [!] not to be checked.
QStringList picture(const FileTreeModel& model, const QModelIndex& parent = {}, int depth = 0)
{
    QStringList lines;
    for (int row = 0; row < model.rowCount(parent); ++row) {
        const QModelIndex index = model.index(row, FileTreeModel::NameColumn, parent);
        const auto state = Qt::CheckState(index.data(Qt::CheckStateRole).toInt());
        const bool checkable = model.flags(index) & Qt::ItemIsUserCheckable;
        const char* box = !checkable                      ? "[!]"
                          : state == Qt::Checked          ? "[x]"
                          : state == Qt::PartiallyChecked ? "[-]"
                                                          : "[ ]";
        lines += QString(depth * 2, u' ') + QLatin1String(box) + u' ' + index.data().toString() + u' ' +
                 QString::number(index.data(FileTreeModel::TokensRole).toLongLong());
        lines += picture(model, index, depth + 1);
    }
    return lines;
}

QModelIndex find(const FileTreeModel& model, const QString& name, const QModelIndex& parent = {})
{
    for (int row = 0; row < model.rowCount(parent); ++row) {
        const QModelIndex index = model.index(row, 0, parent);
        if (index.data().toString() == name)
            return index;
        if (const QModelIndex below = find(model, name, index); below.isValid())
            return below;
    }
    return {};
}

const auto example =
    packedFiles({{"src/a.cpp", 100}, {"src/deep/er/b.cpp", 30}, {"src/deep/er/c.cpp", 20}, {"README.md", 7}});

} // namespace

class TestFileTreeModel : public QObject
{
    Q_OBJECT

private slots:
    void isAWellBehavedModel();
    void sumsUpFoldersAndFoldsChains();
    void checkingAFolderChecksAllInIt();
    void patternsOverrideBoxesAndKeepThem();
    void aBoxUnderPatternsIsUntickedByMouseAndKey();
    void sortsByTokensAndKeepsPersistentIndexes();
    void tellsTheLargestFoldersFirst();
    void keepsPathsAsBytes();
    void isEmptyWithoutFiles();
    void listsWhatIsLeftOut();
};

void TestFileTreeModel::isAWellBehavedModel()
{
    FileTreeModel model;
    QAbstractItemModelTester tester(&model, QAbstractItemModelTester::FailureReportingMode::QtTest);
    LeftOutModel leftOut;
    QAbstractItemModelTester other(&leftOut, QAbstractItemModelTester::FailureReportingMode::QtTest);
    model.setFiles(QStringLiteral("repo"), example);
    model.setData(find(model, QStringLiteral("src/")), Qt::Unchecked, Qt::CheckStateRole);
    model.sort(FileTreeModel::TokensColumn, Qt::DescendingOrder);
    model.setAllowed({true, false, true, true});
    leftOut.setFiles({{"x", QStringLiteral("x"), QStringLiteral("binary")}});
    model.setFiles(QStringLiteral("other"), {});
}

void TestFileTreeModel::sumsUpFoldersAndFoldsChains()
{
    FileTreeModel model;
    model.setFiles(QStringLiteral("repo"), example);
    QCOMPARE(picture(model), QStringList({
                                 "[x] repo/ 157",
                                 "  [x] src/ 150",
                                 "    [x] deep/er/ 50",
                                 "      [x] b.cpp 30",
                                 "      [x] c.cpp 20",
                                 "    [x] a.cpp 100",
                                 "  [x] README.md 7",
                             }));
    QCOMPARE(find(model, QStringLiteral("src/")).data(FileTreeModel::FilesRole).toInt(), 3);
    QCOMPARE(find(model, QStringLiteral("src/")).data(FileTreeModel::ShareRole).toDouble(), 1.0);
    QCOMPARE(find(model, QStringLiteral("deep/er/")).data(FileTreeModel::ShareRole).toDouble(), 50.0 / 150.0);
    QCOMPARE(model.packedTokens(), 157);
    QCOMPARE(model.packedFiles(), 4);
}

void TestFileTreeModel::checkingAFolderChecksAllInIt()
{
    FileTreeModel model;
    model.setFiles(QStringLiteral("repo"), example);
    QSignalSpy changed(&model, &FileTreeModel::selectionChanged);
    QVERIFY(model.setData(find(model, QStringLiteral("deep/er/")), Qt::Unchecked, Qt::CheckStateRole));
    QCOMPARE(changed.size(), 1);
    QCOMPARE(model.packedTokens(), 107);
    QVERIFY(model.setData(find(model, QStringLiteral("c.cpp")), Qt::Checked, Qt::CheckStateRole));
    QCOMPARE(picture(model), QStringList({
                                 "[-] repo/ 157",
                                 "  [-] src/ 150",
                                 "    [-] deep/er/ 50",
                                 "      [ ] b.cpp 30",
                                 "      [x] c.cpp 20",
                                 "    [x] a.cpp 100",
                                 "  [x] README.md 7",
                             }));
    QCOMPARE(model.uncheckedPaths(), QList<QByteArray>({"src/deep/er/b.cpp"}));
    QVERIFY(model.setData(find(model, QStringLiteral("repo/")), Qt::Checked, Qt::CheckStateRole));
    QCOMPARE(model.packedFiles(), 4);
    model.setAllChecked(false);
    QCOMPARE(model.packedTokens(), 0);
    QCOMPARE(picture(model).first(), QStringLiteral("[ ] repo/ 157"));
}

void TestFileTreeModel::patternsOverrideBoxesAndKeepThem()
{
    FileTreeModel model;
    model.setFiles(QStringLiteral("repo"), example);
    model.setData(find(model, QStringLiteral("a.cpp")), Qt::Unchecked, Qt::CheckStateRole);
    model.setAllowed({true, false, false, true});
    QCOMPARE(picture(model), QStringList({
                                 "[-] repo/ 157",
                                 "  [ ] src/ 150",
                                 "    [!] deep/er/ 50",
                                 "      [!] b.cpp 30",
                                 "      [!] c.cpp 20",
                                 "    [ ] a.cpp 100",
                                 "  [x] README.md 7",
                             }));
    // Checking the folder reaches only what the patterns allow.
    model.setData(find(model, QStringLiteral("src/")), Qt::Checked, Qt::CheckStateRole);
    QCOMPARE(model.packedTokens(), 107);
    model.setData(find(model, QStringLiteral("a.cpp")), Qt::Unchecked, Qt::CheckStateRole);
    model.setAllowed({true, true, true, true});
    QCOMPARE(model.packedTokens(), 57); // the box of a.cpp was remembered
    QCOMPARE(model.uncheckedPaths(), QList<QByteArray>({"src/a.cpp"}));
}

void TestFileTreeModel::aBoxUnderPatternsIsUntickedByMouseAndKey()
{
    FileTreeModel model;
    model.setFiles(QStringLiteral("repo"), example);
    model.setAllowed({true, false, true, false});
    const QStringList ticked = {
        "[x] repo/ 157",         "  [x] src/ 150",    "    [x] deep/er/ 50",
        "      [!] b.cpp 30",    "      [x] c.cpp 20", "    [x] a.cpp 100",
        "  [!] README.md 7",
    };
    QCOMPARE(picture(model), ticked);
    FileTreeView view;
    view.setModel(&model);
    view.resize(500, 400);
    view.show();
    view.expandAll();
    for (const char* name : {"repo/", "src/"}) {
        const QModelIndex box = find(model, QString::fromLatin1(name));
        view.setCurrentIndex(box);
        QTest::keyClick(&view, Qt::Key_Space);
        QVERIFY2(model.packedFiles() == 0, name);
        QTest::keyClick(&view, Qt::Key_Space);
        QCOMPARE(picture(model), ticked);
        QStyleOptionViewItem option;
        option.initFrom(&view);
        option.features = QStyleOptionViewItem::HasCheckIndicator;
        option.rect = view.visualRect(box);
        const QPoint at = view.style()->subElementRect(QStyle::SE_ItemViewItemCheckIndicator, &option, &view).center();
        QTest::mouseClick(view.viewport(), Qt::LeftButton, {}, at);
        QVERIFY2(model.packedFiles() == 0, name);
        QTest::mouseClick(view.viewport(), Qt::LeftButton, {}, at);
        QCOMPARE(picture(model), ticked);
    }
}

void TestFileTreeModel::sortsByTokensAndKeepsPersistentIndexes()
{
    FileTreeModel model;
    model.setFiles(QStringLiteral("repo"), example);
    const QPersistentModelIndex deep = find(model, QStringLiteral("deep/er/"));
    model.sort(FileTreeModel::TokensColumn, Qt::DescendingOrder);
    QCOMPARE(picture(model), QStringList({
                                 "[x] repo/ 157",
                                 "  [x] src/ 150",
                                 "    [x] a.cpp 100",
                                 "    [x] deep/er/ 50",
                                 "      [x] b.cpp 30",
                                 "      [x] c.cpp 20",
                                 "  [x] README.md 7",
                             }));
    QCOMPARE(deep.data().toString(), QStringLiteral("deep/er/"));
    QCOMPARE(deep.row(), 1);
}

void TestFileTreeModel::tellsTheLargestFoldersFirst()
{
    FileTreeModel model;
    model.setFiles(QStringLiteral("repo"), packedFiles({{"a/x", 10}, {"b/x", 90}, {"c/x", 50}, {"d/x", 0}}));
    model.setUnchecked({"c/x"});
    const QList<FileTreeModel::Folder> folders = model.topFolders();
    QCOMPARE(folders.size(), 2);
    QCOMPARE(folders[0].name, QStringLiteral("b/"));
    QCOMPARE(folders[1].tokens, 10);
}

void TestFileTreeModel::keepsPathsAsBytes()
{
    QList<agents::PackedFile> odd = packedFiles({{"caf\xc3\xa9/x", 1}});
    odd += {QByteArray("bad\xff/x"), QStringLiteral("bad\\xff/x"), {}, 0, 2};
    odd += {QByteArray("bad\xfe/x"), QStringLiteral("bad\\xfe/x"), {}, 0, 3};
    FileTreeModel model;
    model.setFiles(QStringLiteral("repo"), odd);
    QCOMPARE(model.rowCount(model.index(0, 0)), 3);
    model.setData(find(model, QStringLiteral("bad\\xff/")), Qt::Unchecked, Qt::CheckStateRole);
    QCOMPARE(model.uncheckedPaths(), QList<QByteArray>({"bad\xff/x"}));
}

void TestFileTreeModel::isEmptyWithoutFiles()
{
    FileTreeModel model;
    QCOMPARE(model.rowCount(), 0);
    QCOMPARE(model.packedTokens(), 0);
    model.setFiles(QStringLiteral("repo"), {});
    QCOMPARE(picture(model), QStringList({"[!] repo/ 0"}));
}

void TestFileTreeModel::listsWhatIsLeftOut()
{
    LeftOutModel model;
    model.setFiles({{"logo.png", QStringLiteral("logo.png"), QStringLiteral("binary")}});
    QCOMPARE(model.index(0, LeftOutModel::PathColumn).data().toString(), QStringLiteral("logo.png"));
    QCOMPARE(model.index(0, LeftOutModel::ReasonColumn).data().toString(), QStringLiteral("binary"));
}

QTEST_MAIN(TestFileTreeModel)
#include "tst_file_tree_model.moc"
