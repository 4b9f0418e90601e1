#include "agents/ingest/glob.h"

#include <QElapsedTimer>
#include <QtTest>

using namespace octavo;
using namespace octavo::agents;

class TestGlob : public QObject
{
    Q_OBJECT

private slots:
    void matchesAsGitignoreDoes_data()
    {
        QTest::addColumn<QString>("pattern");
        QTest::addColumn<QByteArray>("path");
        QTest::addColumn<bool>("matches");
        const auto row = [](const char* pattern, const char* path, bool matches) {
            QTest::addRow("%s %s", pattern, path) << QString::fromUtf8(pattern) << QByteArray(path) << matches;
        };
        row("*.cpp", "a.cpp", true);
        row("*.cpp", "src/deep/a.cpp", true);
        row("*.cpp", "a.cpp.orig", false);
        row("/*.cpp", "a.cpp", true);
        row("/*.cpp", "src/a.cpp", false);
        row("src/*.cpp", "src/a.cpp", true);
        row("src/*.cpp", "src/deep/a.cpp", false);
        row("src/*.cpp", "lib/src/a.cpp", false);
        row("src/**/*.cpp", "src/a.cpp", true);
        row("src/**/*.cpp", "src/x/y/a.cpp", true);
        row("**/test/**", "a/test/b", true);
        row("**/test/**", "test/b", true);
        row("**/test/**", "test", false);
        row("src/**", "src/a/b", true);
        row("src/**", "src", false);
        row("**", "any/thing", true);
        row("docs", "docs/a.md", true);
        row("docs", "src/docs/a.md", true);
        row("docs/", "docs/a.md", true);
        row("docs/", "docs", false);
        row("/docs", "src/docs/a.md", false);
        row("a?c", "abc", true);
        row("a?c", "a/c", false);
        row("a?c",
            "a\xc3\xa4"
            "c",
            true);
        row("a?c",
            "a\xff"
            "c",
            true);
        row("[a-c]x", "bx", true);
        row("[!a-c]x", "bx", false);
        row("[]]x", "]x", true);
        row("[a/b]", "a", true);
        row("*.{h,cpp}", "x/y.h", true);
        row("*.{h,cpp}", "x/y.hpp", false);
        row("{src,lib}/**/*.{c,h{,pp}}", "lib/z/q.hpp", true);
        row("{src,lib}/**/*.{c,h{,pp}}", "bin/q.hpp", false);
        row("\\*.c", "*.c", true);
        row("\\*.c", "a.c", false);
        row("\\{a\\}", "{a}", true);
        row("x/**/y/**/z", "x/1/y/2/3/z", true);
        row("x/**/y/**/z", "x/1/2/z", false);
        row("*", "a/b", true);
        row("a*b*c", "aXbXbXc", true);
        row("a*b*c", "aXbXbX", false);
    }

    void matchesAsGitignoreDoes()
    {
        QFETCH(QString, pattern);
        QFETCH(QByteArray, path);
        const auto glob = Glob::parse(pattern);
        QVERIFY2(glob, glob ? "" : glob.error().message.c_str());
        QTEST(glob->matches(path), "matches");
    }

    void refusesBrokenPatterns_data()
    {
        QTest::addColumn<QString>("pattern");
        for (const char* pattern : {"", "!", "/", "[a", "a{b", "{[,a]}x{", "[z-a]", "src/[!9-0]*", "[a-c\\z-a]", "\\",
                                    "a\\", "{a,b\\", "{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}"})
            QTest::addRow("%s", pattern) << QString::fromUtf8(pattern);
    }

    void refusesBrokenPatterns()
    {
        QFETCH(QString, pattern);
        const auto glob = Glob::parse(pattern);
        QVERIFY(!glob);
        QCOMPARE(glob.error().code, ErrorCode::InvalidArgument);
    }

    void theLastPatternThatFitsDecides()
    {
        auto filter = GlobFilter::create({"src", "!src/gen", "src/gen/keep.c"}, {"*.md", "!README.md"});
        QVERIFY(filter);
        QVERIFY(filter->rejection("src/a.c").isEmpty());
        QVERIFY(!filter->rejection("src/gen/a.c").isEmpty());
        QVERIFY(filter->rejection("src/gen/keep.c").isEmpty());
        QVERIFY(!filter->rejection("lib/a.c").isEmpty());
        QCOMPARE(filter->rejection("src/a.md"), QStringLiteral("excluded by \"*.md\""));
        QVERIFY(filter->rejection("src/README.md").isEmpty());
    }

    void manyStarsStayCheap()
    {
        const auto glob = Glob::parse(QString(200, u'*').replace("**", "*a") + "b");
        QVERIFY(glob);
        const auto deep = Glob::parse(QStringLiteral("**/a/").repeated(50) + "x");
        QVERIFY(deep);
        // With backtracking over more than the last star these would not end in a lifetime.
        QVERIFY(!glob->matches(QByteArray(20'000, 'a')));
        QVERIFY(!deep->matches(QByteArray("a/").repeated(2000) + "y"));
    }
};

QTEST_APPLESS_MAIN(TestGlob)
#include "tst_glob.moc"
