#include "tests/ui/packed_files.h"
#include "ui/charts/squarify.h"
#include "ui/theme.h"
#include "ui/wizard/treemap.h"

#include <QTest>

#include <numeric>

using namespace octavo;
using namespace octavo::ui;
using octavo::ui::test::packedFiles;

namespace {

struct Map {
    Map()
    {
        model.setFiles(QStringLiteral("repo"), packedFiles({{"src/engine.cpp", 6000},
                                                      {"src/window.cpp", 3000},
                                                      {"tests/tst_engine.cpp", 2000},
                                                      {"README.md", 500}}));
        view.resize(640, 420);
        view.show();
    }
    QString current() const { return view.current().data().toString(); }
    QRectF rectOf(const QString& name) const
    {
        for (const Treemap::Tile& tile : view.tiles()) {
            if (tile.index.data().toString() == name)
                return tile.rect;
        }
        return {};
    }
    void key(Qt::Key key) { QTest::keyClick(&view, key); }

    FileTreeModel model;
    Treemap view{&model};
};

} // namespace

class TestTreemap : public QObject
{
    Q_OBJECT

private slots:
    void initTestCase() { Theme::instance()->apply(SchemeChoice::Dark); }

    void tilesCoverTheAreaInProportion_data()
    {
        QTest::addColumn<QList<double>>("weights");
        QTest::addColumn<QSizeF>("size");
        QTest::newRow("as published") << QList<double>{6, 6, 4, 3, 2, 2, 1} << QSizeF(600, 400);
        QTest::newRow("one") << QList<double>{5} << QSizeF(30, 300);
        QTest::newRow("very unlike") << QList<double>{1e6, 10, 1, 1, 1} << QSizeF(500, 500);
        QList<double> many(2000, 1.0);
        std::iota(many.rbegin(), many.rend(), 1.0);
        QTest::newRow("many") << many << QSizeF(900, 500);
    }

    void tilesCoverTheAreaInProportion()
    {
        QFETCH(QList<double>, weights);
        QFETCH(QSizeF, size);
        const QRectF area(QPointF(10, 20), size);
        const QList<QRectF> tiles = squarified(weights, area);
        QCOMPARE(tiles.size(), weights.size());
        const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
        for (qsizetype i = 0; i < tiles.size(); ++i) {
            const double share = tiles[i].width() * tiles[i].height() / (size.width() * size.height());
            QVERIFY2(qAbs(share - weights[i] / total) < 1e-6, qPrintable(QString::number(i)));
            QVERIFY(area.adjusted(-1e-6, -1e-6, 1e-6, 1e-6).contains(tiles[i]));
            for (qsizetype j = 0; j < qMin(i, qsizetype(60)); ++j) {
                const QRectF both = tiles[i].intersected(tiles[j]);
                QVERIFY(both.width() * both.height() < 1e-3);
            }
        }
    }

    void tilesAreNearToSquares()
    {
        // The example of the paper: its worst tile is 25 : 9.
        for (const QRectF& tile : squarified({6, 6, 4, 3, 2, 2, 1}, {0, 0, 600, 400}))
            QVERIFY(qMax(tile.width() / tile.height(), tile.height() / tile.width()) < 2.8);
    }

    void nothingAndNoRoomGiveNoTiles()
    {
        QVERIFY(squarified({}, {0, 0, 10, 10}).isEmpty());
        QCOMPARE(squarified({3, 0}, {0, 0, 10, 10})[1].width(), 0.0);
        QCOMPARE(squarified({1, 1}, {0, 0, 0, 10}).size(), 2);
    }

    void foldersEncloseWhatIsInThem()
    {
        Map map;
        QVERIFY(map.rectOf(QStringLiteral("src/")).contains(map.rectOf(QStringLiteral("engine.cpp"))));
        QVERIFY(map.rectOf(QStringLiteral("src/")).contains(map.rectOf(QStringLiteral("window.cpp"))));
        QVERIFY(!map.rectOf(QStringLiteral("src/")).intersects(map.rectOf(QStringLiteral("tests/"))));
    }

    void everyTileIsReachedByArrows()
    {
        Map map;
        QSet<QString> reached{map.current()};
        for (int round = 0; round < 4; ++round) {
            for (const Qt::Key key : {Qt::Key_Left, Qt::Key_Right, Qt::Key_Down, Qt::Key_Right, Qt::Key_Up,
                                      Qt::Key_Right, Qt::Key_Down, Qt::Key_Left, Qt::Key_Down, Qt::Key_Up}) {
                map.key(key);
                reached += map.current();
            }
        }
        for (const char* file : {"engine.cpp", "window.cpp", "tst_engine.cpp", "README.md"})
            QVERIFY2(reached.contains(QLatin1String(file)), file);
    }

    void spaceTakesOutAndIn()
    {
        Map map;
        map.view.setCurrent(map.model.index(0, 0, map.model.index(0, 0)));
        QCOMPARE(map.current(), QStringLiteral("src/"));
        map.key(Qt::Key_Space);
        QCOMPARE(map.model.packedFiles(), 2);
        QVERIFY2(map.view.accessibleDescription().endsWith(QStringLiteral("not read")),
                 qPrintable(map.view.accessibleDescription()));
        map.key(Qt::Key_Space);
        QCOMPARE(map.model.packedFiles(), 4);
    }

    void enterShowsAFolderAloneAndBackspaceGoesBack()
    {
        Map map;
        const QRectF before = map.rectOf(QStringLiteral("engine.cpp"));
        map.view.setCurrent(map.model.index(0, 0, map.model.index(0, 0)));
        map.key(Qt::Key_Return);
        QCOMPARE(map.view.root().data().toString(), QStringLiteral("src/"));
        QVERIFY(map.rectOf(QStringLiteral("engine.cpp")).width() > before.width());
        QVERIFY(map.rectOf(QStringLiteral("README.md")).isNull());
        map.key(Qt::Key_Backspace);
        QCOMPARE(map.view.root(), map.model.index(0, 0));
        QCOMPARE(map.current(), QStringLiteral("src/"));
        map.key(Qt::Key_Backspace); // there is nothing above
        QCOMPARE(map.view.root(), map.model.index(0, 0));
    }

    void aNewRepositoryBeginsAtItsTop()
    {
        Map map;
        map.view.showAlone(map.model.index(0, 0, map.model.index(0, 0)));
        map.model.setFiles(QStringLiteral("other"), packedFiles({{"a.c", 10}}));
        QCOMPARE(map.view.root().data().toString(), QStringLiteral("other/"));
        QCOMPARE(map.current(), QStringLiteral("a.c"));
        map.model.setFiles(QStringLiteral("empty"), {});
        QVERIFY(map.view.grab().width() > 0); // and paints
    }
};

QTEST_MAIN(TestTreemap)
#include "tst_treemap.moc"
