#include "agents/citations/citation_scanner.h"

#include <QtTest>

using namespace octavo::agents;

namespace {

std::shared_ptr<const SourceIndex> sampleIndex()
{
    auto index = std::make_shared<SourceIndex>();
    const auto add = [&](const char* path, const char* text) { index->addFile(path, QString::fromUtf8(path), text); };
    add("src/join.cpp", "#include \"join.h\"\n\nint join(int a, int b)\n{\n    return a + b;   \n}\n\nint other()\n{\n "
                        "   return 1;\n}\n");
    add("src/join.h", "#pragma once\nint join(int a, int b);\n");
    add("lib/copy.cpp", "int other()\n{\n    return 1;\n}\n");
    add("lib/join.h", "// another\n");
    add("empty.txt", "");
    add("uml/\xc3\xa4.md", "gr\xc3\xbc\xc3\x9f\ne\xcc\x81t\xc3\xa9\nlast line without newline");
    index->finish();
    return index;
}

QList<Citation> scan(const QString& answer, int pieceLength = 0)
{
    CitationScanner scanner(sampleIndex());
    if (pieceLength == 0)
        scanner.append(answer);
    for (qsizetype at = 0; pieceLength > 0 && at < answer.size(); at += pieceLength)
        scanner.append(answer.mid(at, pieceLength));
    scanner.finish();
    return scanner.citations();
}

QString quote(const char* code, const char* before = "")
{
    return QStringLiteral("%1\n\n```cpp\n%2\n```\nMore.").arg(QString::fromUtf8(before), QString::fromUtf8(code));
}

} // namespace

class TestCitations : public QObject
{
    Q_OBJECT

private slots:
    void aQuoteInTheNamedFileIsVerified()
    {
        const QString answer = quote("int join(int a, int b)\n{\n    return a + b;\n}", "`join` in `src/join.cpp`:");
        const auto found = scan(answer);
        QCOMPARE(found.size(), 2);
        QCOMPARE(found[0].kind, CitationKind::Path);
        QCOMPARE(found[0].state, CitationState::Verified);
        QCOMPARE(answer.mid(found[0].textStart, found[0].textLength), QStringLiteral("src/join.cpp"));
        QCOMPARE(found[1].kind, CitationKind::Quote);
        QCOMPARE(found[1].state, CitationState::Verified);
        QCOMPARE(found[1].path, QByteArray("src/join.cpp"));
        QCOMPARE(found[1].line, 3);
        QCOMPARE(found[1].lastLine, 6);
        QVERIFY(answer.mid(found[1].textStart, found[1].textLength).startsWith("int join"));
        QVERIFY(answer.mid(found[1].textStart, found[1].textLength).endsWith("}"));
    }

    void aQuoteFromAnotherFileGetsTheRightLink()
    {
        const auto found = scan(quote("int join(int a, int b);", "In `src/join.cpp`:"));
        QCOMPARE(found[1].state, CitationState::Elsewhere);
        QCOMPARE(found[1].path, QByteArray("src/join.h"));
        QCOMPARE(found[1].line, 2);
        // The named file may not even exist.
        const auto invented = scan(quote("int join(int a, int b);", "In `src/invented.cpp`:"));
        QCOMPARE(invented[0].state, CitationState::Unverified);
        QCOMPARE(invented[1].state, CitationState::Elsewhere);
    }

    void theNamedFileWinsWhereAQuoteStandsTwice()
    {
        const char* code = "int other()\n{\n    return 1;\n}";
        QCOMPARE(scan(quote(code, "`lib/copy.cpp`"))[1].path, QByteArray("lib/copy.cpp"));
        QCOMPARE(scan(quote(code, "`lib/copy.cpp`"))[1].line, 1);
        QCOMPARE(scan(quote(code, "`src/join.cpp`"))[1].line, 8);
        const auto unnamed = scan(quote(code));
        QCOMPARE(unnamed.size(), 1);
        QCOMPARE(unnamed[0].state, CitationState::Verified);
    }

    void inventedCodeIsUnverified()
    {
        for (const char* code :
             {"int join(int a, int c)\n{\n    return a + b;\n}", "int join(int a, int b)\nint other()",
              "}\n#pragma once" /* end of one file, start of the next */}) {
            const auto found = scan(quote(code, "`src/join.cpp`"));
            QCOMPARE(found[1].state, CitationState::Unverified);
            QVERIFY(found[1].path.isEmpty());
        }
    }

    void pathsAreFoundByTheirEndAndWithLines()
    {
        const auto one = [](const char* text) {
            const auto found = scan(QString::fromUtf8(text));
            return found.size() == 1 ? found[0] : Citation{};
        };
        QCOMPARE(one("see `copy.cpp`").path, QByteArray("lib/copy.cpp"));
        QCOMPARE(one("see `./src/join.h`").path, QByteArray("src/join.h"));
        QCOMPARE(one("see `join.h`").state, CitationState::Unverified); // two are called so
        QCOMPARE(one("see `src/join.cpp:3`").line, 3);
        QCOMPARE(one("see `src/join.cpp:3-6`").lastLine, 6);
        QCOMPARE(one("see `src/join.cpp#L3-L6`").lastLine, 6);
        QCOMPARE(one("see `src/join.cpp:3-600`").state, CitationState::Unverified);
        QCOMPARE(one("see `uml/\xc3\xa4.md`").state, CitationState::Verified);
        QCOMPARE(one("see `src/gone.cpp`").state, CitationState::Unverified);
    }

    void aPathThatTheAnswerSaysIsNotThereClaimsNothing()
    {
        for (const char* text :
             {"I could not find `src/gone.cpp` in the loaded files.", "I couldn't find a file called `src/gone.cpp`.",
              "There is no `src/gone.cpp` here.", "`src/gone.cpp` does not exist.",
              "`src/gone.cpp` is not among the files.", "The file `src/gone.cpp` was not found."})
            QVERIFY2(scan(QString::fromUtf8(text)).isEmpty(), text);
        // Said of something else, or wrongly.
        for (const char* text : {"I could not find `join` in `src/gone.cpp`.", "There is no lock in `src/gone.cpp`.",
                                 "`src/gone.cpp` does not check it."}) {
            const auto found = scan(QString::fromUtf8(text));
            QCOMPARE(found.size(), 1);
            QCOMPARE(found[0].state, CitationState::Unverified);
        }
        QCOMPARE(scan(QStringLiteral("I could not find `src/join.cpp`."))[0].state, CitationState::Verified);
    }

    void aQuoteThatTheAnswersEndCutsOffIsLookedUpAsFarAsItGoes()
    {
        const auto cut = [](const char* code) { return scan(QStringLiteral("`src/join.cpp`:\n\n```cpp\n") + code); };
        const auto verified = cut("int join(int a, int b)\n{\n    retu");
        QCOMPARE(verified.size(), 2);
        QCOMPARE(verified[1].state, CitationState::Verified);
        QCOMPARE(verified[1].line, 3);
        QCOMPARE(verified[1].lastLine, 4);
        QCOMPARE(cut("int join(int a, int b)\n{\n").last().state, CitationState::Verified);
        QCOMPARE(cut("}\n\nint oth").last().state, CitationState::Verified); // over a blank line
        QCOMPARE(cut("int join(int a, int b)\n{\n    retx").last().state, CitationState::Unverified);
        QCOMPARE(cut("int invented(int a)\n{\n    retu").last().state, CitationState::Unverified);
        QCOMPARE(cut("int jo").size(), 1); // the path alone
        QCOMPARE(cut("int join(int a, int b)").last().state, CitationState::Verified); // a whole line
        const auto second = cut("{\n    return 1");                                     // a brace stands in many places
        QCOMPARE(second.last().state, CitationState::Verified);
        QVERIFY(second.last().line > verified.last().line + 1);
        QCOMPARE(cut("{\n    return 2").last().state, CitationState::Unverified);
    }

    void ordinaryCodeSpansAreNoPaths()
    {
        for (const char* text : {"call `join()`", "a `std::string`", "`a + b`", "`x.y`", "`src/`", "`and/or`",
                                 "`` ` ``", "an open ` tick", "`lib`"})
            QVERIFY2(scan(QString::fromUtf8(text)).isEmpty(), text);
    }

    void codeBehindAPathIsAQuote()
    {
        const auto list =
            scan(QStringLiteral("`other` is used here:\n\n- `src/join.cpp`: `return a + b;`\n"
                                "- `lib/copy.cpp`: `return join(a, b);`\n- `lib/copy.cpp`: `#pragma once`\n"));
        QCOMPARE(list.size(), 6);
        QCOMPARE(list[1].kind, CitationKind::Quote);
        QCOMPARE(list[1].state, CitationState::Verified);
        QCOMPARE(list[1].path, QByteArray("src/join.cpp"));
        QCOMPARE(list[1].line, 5);
        QCOMPARE(list[3].kind, CitationKind::Quote);
        QCOMPARE(list[3].state, CitationState::Unverified);
        QVERIFY(list[3].path.isEmpty());
        QCOMPARE(list[5].state, CitationState::Elsewhere);
        QCOMPARE(list[5].path, QByteArray("src/join.h"));
    }

    void aQuoteBehindAPathMayBeAPartOfALine()
    {
        const auto one = [](const char* text) {
            const auto found = scan(QString::fromUtf8(text));
            return found.size() == 2 ? found[1] : Citation{};
        };
        QCOMPARE(one("`src/join.cpp`: `join(int a, int b)`").line, 3);
        QCOMPARE(one("`src/join.cpp`: `other`").line, 8);
        QCOMPARE(one("**`src/join.cpp`**: ``int other()``").line, 8);
        QCOMPARE(one("`src/join.cpp:4` \xe2\x80\x93 `int other()`").line, 8);
        QCOMPARE(one("`src/join.cpp` (line 8): `int other()`").line, 8);
        QCOMPARE(one("`uml/\xc3\xa4.md`: `\xc3\xa9t\xc3\xa9`").line, 2);
        QCOMPARE(one("`src/join.cpp`: `the`").state, CitationState::Unverified);     // of "other"
        QCOMPARE(one("`lib/copy.cpp`: `int a`").state, CitationState::Unverified);   // a part of another file's line
        QCOMPARE(one("`src/gone.cpp`: `// another`").state, CitationState::Elsewhere);
    }

    void codeThatOnlyStandsNearAPathIsNoQuote()
    {
        for (const char* text : {"`join` in `src/join.cpp`", "`src/join.cpp` defines `gone()`", "`src/join.cpp`: ` `",
                                 "`src/join.cpp`:\n`gone()`", "`src/join.cpp`: it has `gone()`"})
            QCOMPARE(scan(QString::fromUtf8(text)).size(), 1);
        const auto paths = scan(QStringLiteral("`src/join.cpp`: `src/join.h`"));
        QCOMPARE(paths.size(), 2);
        QCOMPARE(paths[1].kind, CitationKind::Path);
    }

    void normalFormAndTrailingSpaceDoNotMatter()
    {
        QCOMPARE(scan(quote("gr\xc3\xbc\xc3\x9f  \n\xc3\xa9t\xc3\xa9"))[0].state, CitationState::Verified);
        QCOMPARE(scan(quote("last line without newline"))[0].line, 3);
        QCOMPARE(scan(quote("    return 1;\n}\n\n"))[0].state, CitationState::Verified);
        QCOMPARE(scan(quote("  return 1;"))[0].state, CitationState::Unverified); // indentation does
        QVERIFY(scan(quote(" \n \n")).isEmpty());
    }

    void aQuoteMayBeIndentedAsAWhole()
    {
        const auto found = scan(quote("  int join(int a, int b)\n  {\n      return a + b;\n  }", "`src/join.cpp`:"));
        QCOMPARE(found.size(), 2);
        QCOMPARE(found[1].state, CitationState::Verified);
        QCOMPARE(found[1].line, 3);
        const auto uneven = scan(quote("  int join(int a, int b)\n{\n    return a + b;\n}", "`src/join.cpp`:"));
        QCOMPARE(uneven[1].state, CitationState::Unverified);
    }

    void fencesNestAndIndent()
    {
        const auto nested = scan(QStringLiteral("````md\n```\nint other()\n```\n````\n"));
        QCOMPARE(nested.size(), 1);
        QCOMPARE(nested[0].state, CitationState::Unverified);
        const auto listed = scan(QStringLiteral("- `lib/copy.cpp`\n  ~~~\n  int other()\n  {\n  ~~~\n"));
        QCOMPARE(listed.size(), 2);
        QCOMPARE(listed[1].state, CitationState::Verified);
        const auto open = scan(QStringLiteral("```cpp\nint other()\n{"));
        QCOMPARE(open.size(), 1);
        QCOMPARE(open[0].state, CitationState::Verified);
    }

    void piecesGiveWhatTheWholeGives()
    {
        const QString answer =
            quote("int join(int a, int b)\n{\n    return a + b;\n}", "`src/join.cpp` \xf0\x9f\x98\x80:") +
            quote("nothing", "and `lib/copy.cpp:2`");
        const auto whole = scan(answer);
        QCOMPARE(whole.size(), 4);
        for (int length : {1, 2, 7, 40}) {
            const auto pieces = scan(answer, length);
            QCOMPARE(pieces.size(), whole.size());
            for (qsizetype i = 0; i < whole.size(); ++i) {
                QCOMPARE(pieces[i].textStart, whole[i].textStart);
                QCOMPARE(pieces[i].state, whole[i].state);
            }
        }
    }

    void aLongAnswerIsReadOnce()
    {
        CitationScanner scanner(sampleIndex());
        for (int i = 0; i < 20'000; ++i) // with a rescan of the whole at each piece this would take minutes
            scanner.append(QStringLiteral("a line that cites `src/join.h` and goes on for a while\n"));
        scanner.finish();
        QCOMPARE(scanner.citations().size(), 20'000);
    }
};

QTEST_APPLESS_MAIN(TestCitations)
#include "tst_citations.moc"
