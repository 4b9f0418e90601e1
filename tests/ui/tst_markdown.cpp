#include "ui/shown_text.h"
#include "ui/transcript/highlighter.h"
#include "ui/transcript/markdown.h"

#include <QRandomGenerator>
#include <QtTest>

using namespace octavo::ui;
using namespace octavo::ui::markdown;

namespace {

/// The blocks as one readable string, so that a test compares text.
QString describe(const std::vector<Block>& blocks)
{
    QStringList out;
    for (const Block& b : blocks) {
        QString line;
        if (b.quoteDepth > 0)
            line += QStringLiteral("quote%1 ").arg(b.quoteDepth);
        if (b.listDepth > 0)
            line += QStringLiteral("list%1 ").arg(b.listDepth);
        if (!b.marker.isEmpty())
            line += QStringLiteral("<%1> ").arg(b.marker == u"\u2022" ? QStringLiteral("*") : b.marker);
        switch (b.kind) {
        case BlockKind::Paragraph:
            line += QStringLiteral("p:") + b.text;
            break;
        case BlockKind::Heading:
            line += QStringLiteral("h%1:").arg(b.level) + b.text;
            break;
        case BlockKind::Code:
            line += QStringLiteral("code(%1):").arg(b.language) + b.lines.join(u'|');
            break;
        case BlockKind::Table: {
            QStringList rows;
            for (const QStringList& row : b.rows)
                rows += row.join(u',');
            line += QStringLiteral("table:") + rows.join(u'|');
            break;
        }
        case BlockKind::Rule:
            line += QStringLiteral("rule");
            break;
        }
        out += line.replace(u'\n', u'~');
    }
    return out.join(u'\n');
}

QString parsed(const QString& text)
{
    Document document;
    document.append(text);
    document.finish();
    return describe(document.blocks());
}

QString spansOf(const QString& text, bool open = false)
{
    const InlineText result = parseInline(text, open);
    QStringList out;
    for (const Span& span : result.spans) {
        QString style;
        for (const auto& [bit, letter] :
             {std::pair{Bold, 'b'}, {Italic, 'i'}, {CodeSpan, 'c'}, {Link, 'l'}, {Struck, 's'}}) {
            if (span.style & bit)
                style += QLatin1Char(letter);
        }
        out += style + u'[' + result.text.mid(span.start, span.length) + u']';
    }
    return out.join(QString());
}

const QString sample = QStringLiteral(
    "# Title\n\nA paragraph with `code`,\nsecond line.\n\n- one\n- two\n  - nested\n    more of nested\n- three\n\n"
    "1. first\n\n   ```cpp\n   int a;\n     int b;\n   ```\n2. second\n\n> quoted\n> > deeper\n\n"
    "| a | b |\n| :- | -: |\n| 1 | `x|y` |\n| 3 |\n\n---\nlast *words*\n```\nopen fence\n\n# not a heading\n");

} // namespace

class TestMarkdown : public QObject
{
    Q_OBJECT

private slots:
    void readsTheBlocksOfAnAnswer()
    {
        QCOMPARE(
            parsed(sample),
            QStringLiteral("h1:Title\np:A paragraph with `code`,~second line.\nlist1 <*> p:one\nlist1 <*> p:two\n"
                           "list2 <*> p:nested~more of nested\nlist1 <*> p:three\nlist1 <1.> p:first\n"
                           "list1 code(cpp):int a;|  int b;\nlist1 <2.> p:second\nquote1 p:quoted\nquote2 p:deeper\n"
                           "table:a,b|1,`x|y`|3,\nrule\np:last *words*\ncode():open fence||# not a heading"));
    }

    void anySplitOfTheTextGivesTheSameBlocks()
    {
        const QString whole = parsed(sample);
        QRandomGenerator random(7);
        for (int round = 0; round < 200; ++round) {
            Document document;
            for (int at = 0; at < sample.size();) {
                const int n = random.bounded(1, round % 2 ? 4 : 40);
                document.append(QStringView(sample).mid(at, n));
                at += n;
            }
            document.finish();
            QCOMPARE(describe(document.blocks()), whole);
        }
    }

    void closedBlocksAreNotTouchedAgain()
    {
        Document document;
        document.append(QStringLiteral("one\n\n```cpp\nint a;\n```\n\nthree"));
        document.takeFirstChanged();
        document.append(QStringLiteral(" and more"));
        QCOMPARE(document.takeFirstChanged(), 2);
        document.append(QStringLiteral("\n\nfour"));
        QVERIFY(document.takeFirstChanged() >= 2);
    }

    void appendingToALongAnswerCostsNoMoreThanToAShortOne()
    {
        // Counted in blocks told to be changed, not in time: one block per append, however many there are.
        Document document;
        for (int i = 0; i < 3000; ++i)
            document.append(QStringLiteral("paragraph %1\n\n").arg(i));
        document.takeFirstChanged();
        int changed = 0;
        for (int i = 0; i < 100; ++i) {
            document.append(QStringLiteral("word "));
            changed += int(document.blocks().size()) - document.takeFirstChanged();
        }
        QVERIFY(changed <= 100);
    }

    void aTableIsATableFromItsFirstLine()
    {
        Document document;
        document.append(QStringLiteral("| a | b |\n"));
        QCOMPARE(document.blocks().back().kind, BlockKind::Table);
        document.append(QStringLiteral("| -"));
        QCOMPARE(document.blocks().back().kind, BlockKind::Table);
        QCOMPARE(parsed(QStringLiteral("| no table |\njust bars\n")), QStringLiteral("p:| no table |~just bars"));
    }

    void aClosingFenceIsNeverShownAsCode()
    {
        Document document;
        document.append(QStringLiteral("```\ncode\n``"));
        QCOMPARE(describe(document.blocks()), QStringLiteral("code():code"));
        document.append(QStringLiteral("`\nafter"));
        QCOMPARE(describe(document.blocks()), QStringLiteral("code():code\np:after"));
    }

    void readsInlineStyles_data()
    {
        QTest::addColumn<QString>("text");
        QTest::addColumn<QString>("spans");
        QTest::newRow("plain") << "a b"
                               << "[a b]";
        QTest::newRow("bold and italic") << "**b** *i* ***x***"
                                         << "b[b][ ]i[i][ ]bi[x]";
        QTest::newRow("code holds marks") << "`a*b*c`"
                                          << "c[a*b*c]";
        QTest::newRow("two backticks") << "``a`b``"
                                       << "c[a`b]";
        QTest::newRow("snake_case") << "snake_case_name"
                                    << "[snake][_][case][_][name]";
        QTest::newRow("link") << "[text](https://x.org/a_(b))"
                              << "l[text]";
        QTest::newRow("bare address") << "see https://x.org."
                                      << "[see ]l[https://x.org][.]";
        QTest::newRow("image is a link") << "![alt](pic.png)"
                                         << "l[alt]";
        QTest::newRow("escape") << "\\*no\\*"
                                << "[*no][*]";
        QTest::newRow("unmatched") << "2 * 3 ** 4"
                                   << "[2 ][*][ 3 ][**][ 4]";
        QTest::newRow("struck") << "~~gone~~ ~ok"
                                << "s[gone][ ~ok]";
        QTest::newRow("html is text") << "<b>x</b><script>"
                                      << "[<b>x</b><script>]";
    }

    void readsInlineStyles()
    {
        QFETCH(QString, text);
        QFETCH(QString, spans);
        QCOMPARE(spansOf(text), spans);
    }

    void openStylesCountAsClosedWhileTextArrives()
    {
        QCOMPARE(spansOf(QStringLiteral("a **bo"), true), QStringLiteral("[a ]b[bo]"));
        QCOMPARE(spansOf(QStringLiteral("a `co"), true), QStringLiteral("[a ]c[co]"));
        QCOMPARE(spansOf(QStringLiteral("a **bo"), false), QStringLiteral("[a ][**][bo]"));
    }

    void markupSoupStaysWithinItsBounds()
    {
        QRandomGenerator random(11);
        const QStringList pieces = {"word",  " ",  "\n",   "*",    "**",       "_",   "`",  "```",
                                    "|",     "- ", "> ",   "# ",   "[",        "](",  ")",  "~~",
                                    "1. ",   "\\", "    ", "\n\n", "http://a", "---", "\t", QString(QChar(0x1F)),
                                    "\u00e9"};
        for (int round = 0; round < 300; ++round) {
            QString text;
            for (int i = 0; i < 60; ++i)
                text += pieces[random.bounded(int(pieces.size()))];
            Document document;
            for (int at = 0; at < text.size(); at += 3)
                document.append(QStringView(text).mid(at, 3));
            document.finish();
            for (const Block& block : document.blocks()) {
                QVERIFY(block.sourceStart <= block.sourceEnd);
                QVERIFY(block.sourceEnd <= text.size());
                parseInline(block.text);
                parseInline(block.text, true);
            }
        }
    }

    void sourcePositionsPointAtTheText()
    {
        const QString text = QStringLiteral("intro\n\n- item with `a/b.cpp` in\n  two lines\n\n```py\nx = 1\n```\n");
        Document document;
        document.append(text);
        document.finish();
        const Block& item = document.blocks()[1];
        for (const SourcePoint& point : item.points) {
            const QString shown = item.text.mid(point.text).section(u'\n', 0, 0);
            QCOMPARE(text.mid(point.source, shown.size()), shown);
        }
        const Block& code = document.blocks()[2];
        QCOMPARE(text.mid(code.sourceStart, code.sourceEnd - code.sourceStart), QStringLiteral("```py\nx = 1\n```"));
    }

    void highlightsEveryLanguage_data()
    {
        QTest::addColumn<QString>("language");
        QTest::addColumn<QString>("line");
        QTest::addColumn<QString>("tokens");
        QTest::newRow("cpp") << "cpp"
                             << "const auto x = f(1.5e3); // note"
                             << "k[const]k[auto]f[f]n[1.5e3]c[// note]";
        QTest::newRow("include") << "c++"
                                 << "#include <vector>"
                                 << "k[#include]s[<vector>]";
        QTest::newRow("python") << "python"
                                << "def run(self): return \"a\\\"b\"  # c"
                                << "k[def]f[run]k[self]k[return]s[\"a\\\"b\"]c[# c]";
        QTest::newRow("go") << "go"
                            << "func (c *T) Do() string { return `raw` }"
                            << "k[func]f[Do]t[string]k[return]s[`raw`]";
        QTest::newRow("rust") << "rust"
                              << "fn f<'a>(x: &'a str) -> Vec<u8> { 'c'; }"
                              << "k[fn]t['a]t['a]t[str]t[Vec]t[u8]s['c']";
        QTest::newRow("ts") << "ts"
                            << "const a: string = `x ${y}`;"
                            << "k[const]t[string]s[`x ${y}`]";
        QTest::newRow("java") << "java"
                              << "@Override public int size() {}"
                              << "k[@Override]k[public]t[int]f[size]";
        QTest::newRow("shell") << "bash"
                               << "for f in $HOME/*; do echo \"$f\"; done # x"
                               << "k[for]k[in]n[$HOME]k[do]t[echo]s[\"$f\"]k[done]c[# x]";
        QTest::newRow("json") << "json"
                              << "{\"a\": [1, true, \"b\"]}"
                              << "t[\"a\"]n[1]k[true]s[\"b\"]";
        QTest::newRow("cmake") << "cmake"
                               << "add_library(x STATIC ${SRC}) # c"
                               << "f[add_library]k[STATIC]n[${SRC}]c[# c]";
        QTest::newRow("unknown") << "brainfuck"
                                 << "if (1) // x"
                                 << "";
    }

    void highlightsEveryLanguage()
    {
        QFETCH(QString, language);
        QFETCH(QString, line);
        QFETCH(QString, tokens);
        std::vector<CodeToken> found;
        highlightLine(languageNamed(language), line, 0, found);
        QString out;
        for (const CodeToken& token : found) {
            out += QLatin1Char("ktfsnc"[int(token.kind)]);
            out += u'[' + line.mid(token.start, token.length) + u']';
        }
        QCOMPARE(out, tokens);
    }

    void commentsAndStringsReachOverLines()
    {
        std::vector<CodeToken> tokens;
        const Language* cpp = languageNamed(u"cpp");
        HighlightState state = highlightLine(cpp, u"a /* open", 0, tokens);
        QVERIFY(state != 0);
        tokens.clear();
        state = highlightLine(cpp, u"still */ int x;", state, tokens);
        QCOMPARE(state, 0);
        QCOMPARE(tokens.front().kind, TokenKind::Comment);
        QCOMPARE(tokens.front().length, 8);
        const Language* python = languageNamed(u"py");
        state = highlightLine(python, u"x = \"\"\"doc", 0, tokens);
        QVERIFY(state != 0);
        QCOMPARE(highlightLine(python, u"end\"\"\"", state, tokens), 0);
    }

    void nothingTurnsTheDirectionOfWhatIsShown() // CVE-2021-42574
    {
        const QString family = QStringLiteral("\U0001F468\u200D\U0001F469\u200D\U0001F467");
        const QString text = QStringLiteral("a\u202Eb\u2066c\u2069\u200Fd\u0007 ") + family;
        const QString shown = markdown::parseInline(text).text;
        QCOMPARE(shown, QStringLiteral("a\uFFFDb\uFFFDc\uFFFD\uFFFDd\uFFFD ") + family);
        QCOMPARE(shownText(text), shown);
        QCOMPARE(shownText(QStringLiteral("a\tb\nc")), QStringLiteral("a\tb\nc"));
    }

    void aFilesNameTellsItsLanguage()
    {
        QCOMPARE(languageOfFile(u"a/b/CMakeLists.txt"), languageNamed(u"cmake"));
        QCOMPARE(languageOfFile(u"x.RS"), languageNamed(u"rust"));
        QVERIFY(!languageOfFile(u"README"));
    }
};

QTEST_APPLESS_MAIN(TestMarkdown)
#include "tst_markdown.moc"
