#include "engine/tokenizer/detokenizer.h"

#include "engine/tokenizer/tokenizer.h"
#include "tests/engine/tokenizer/tiny_tokenizer.h"

#include <QTest>

using namespace octavo::engine;

class TestDetokenizer : public QObject
{
    Q_OBJECT

private:
    Tokenizer m_tokenizer = *Tokenizer::parse(octavo::test::tinyTokenizer({}, {"<|end|>", "<think>"}).dump(), "test");

    // What each byte of `text`, fed alone, gives; then the end of the stream.
    std::vector<std::string> byteByByte(std::string_view text) const
    {
        Detokenizer detokenizer(m_tokenizer);
        std::vector<std::string> out;
        for (const char c : text)
            out.push_back(detokenizer.append(TokenId(std::uint8_t(c))));
        out.push_back(detokenizer.finish());
        return out;
    }

private slots:
    void holdsAnUnfinishedCharacterBack()
    {
        using List = std::vector<std::string>;
        QVERIFY(byteByByte("\U0001F600") == (List{"", "", "", "\U0001F600", ""}));
        Detokenizer detokenizer(m_tokenizer);
        QCOMPARE(detokenizer.appendBytes("x\xF0\x9F\x98"), std::string("x"));
        QCOMPARE(detokenizer.appendBytes("\x80y"), std::string("\U0001F600y"));
        QCOMPARE(detokenizer.finish(), std::string());
    }

    void joinsAFamilyOfCharacters()
    {
        const std::string family = "\U0001F469\u200D\U0001F469\u200D\U0001F467";
        std::string joined;
        for (const std::string& part : byteByByte(family))
            joined += part;
        QCOMPARE(joined, family);
    }

    void replacesEachBadRunOnce_data()
    {
        QTest::addColumn<QByteArray>("bytes");
        QTest::addColumn<QByteArray>("text");
        QTest::newRow("lone continuation") << QByteArray("a\x80z") << QByteArray("a\xEF\xBF\xBDz");
        QTest::newRow("cut, then text") << QByteArray("\xF0\x9F\x98z") << QByteArray("\xEF\xBF\xBDz");
        QTest::newRow("end in mid-character") << QByteArray("a\xE6\xAD") << QByteArray("a\xEF\xBF\xBD");
        // Neither can begin a character, so each byte is a run of its own (Unicode, table 3-8).
        QTest::newRow("overlong") << QByteArray("\xC0\x80") << QByteArray("\xEF\xBF\xBD\xEF\xBF\xBD");
        QTest::newRow("surrogate") << QByteArray("\xED\xA0\x80")
                                   << QByteArray("\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
        QTest::newRow("above the last") << QByteArray("\xF4\x90") << QByteArray("\xEF\xBF\xBD\xEF\xBF\xBD");
        QTest::newRow("a real U+FFFD") << QByteArray("\xEF\xBF\xBD") << QByteArray("\xEF\xBF\xBD");
    }

    void replacesEachBadRunOnce()
    {
        QFETCH(QByteArray, bytes);
        QFETCH(QByteArray, text);
        std::string joined;
        for (const std::string& part : byteByByte(bytes.toStdString()))
            joined += part;
        QCOMPARE(QByteArray::fromStdString(joined), text);
    }

    void specialTokensAddNothingAndOtherAddedTokensTheirText()
    {
        Detokenizer detokenizer(m_tokenizer);
        QCOMPARE(detokenizer.append(*m_tokenizer.addedToken("<|end|>")), std::string());
        QCOMPARE(detokenizer.append(*m_tokenizer.addedToken("<think>")), std::string("<think>"));
        QCOMPARE(detokenizer.append(m_tokenizer.endId()), std::string());
        QCOMPARE(detokenizer.append(-1), std::string());
    }
};

QTEST_GUILESS_MAIN(TestDetokenizer)
#include "tst_detokenizer.moc"
