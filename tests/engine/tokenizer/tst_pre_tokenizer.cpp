#include "engine/tokenizer/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <QTest>

#include <random>
#include <string>
#include <vector>

using namespace octavo::engine;

namespace {

// The regex itself, run by PCRE2: the yardstick.
class RegexSplitter
{
public:
    explicit RegexSplitter(std::string_view regex)
    {
        int error = 0;
        PCRE2_SIZE offset = 0;
        m_code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(regex.data()), regex.size(), PCRE2_UTF | PCRE2_UCP, &error,
                               &offset, nullptr);
        m_match = pcre2_match_data_create_from_pattern(m_code, nullptr);
    }
    ~RegexSplitter()
    {
        pcre2_match_data_free(m_match);
        pcre2_code_free(m_code);
    }
    Q_DISABLE_COPY_MOVE(RegexSplitter)

    std::vector<std::string> split(std::string_view text) const
    {
        std::vector<std::string> pieces;
        for (std::size_t pos = 0; pos < text.size();) {
            const int found = pcre2_match(m_code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), pos,
                                          PCRE2_ANCHORED, m_match, nullptr);
            if (found <= 0)
                return {};
            const std::size_t end = pcre2_get_ovector_pointer(m_match)[1];
            pieces.emplace_back(text.substr(pos, end - pos));
            pos = end;
        }
        return pieces;
    }

private:
    pcre2_code* m_code = nullptr;
    pcre2_match_data* m_match = nullptr;
};

std::vector<std::string> split(std::string_view text, SplitRule rule)
{
    std::vector<std::string> pieces;
    while (!text.empty()) {
        const std::size_t length = firstPiece(text, rule);
        pieces.emplace_back(text.substr(0, length));
        text.remove_prefix(length);
    }
    return pieces;
}

} // namespace

class TestPreTokenizer : public QObject
{
    Q_OBJECT

private slots:
    void equalsTheRegexOnRandomText_data()
    {
        QTest::addColumn<int>("rule");
        QTest::newRow("Qwen2") << int(SplitRule::Qwen2);
        QTest::newRow("Qwen3.5") << int(SplitRule::Qwen35);
    }
    void equalsTheRegexOnRandomText();
    void equalsTheRegexOnLongRuns();
    void equalsTheRegexOnEveryCharacterOfTheBasicPlane();
    void knowsBothRegexesAndNoOther();
    void countsBadBytesAsPunctuation();
};

void TestPreTokenizer::equalsTheRegexOnRandomText()
{
    QFETCH(int, rule);
    const RegexSplitter regex(regexOf(SplitRule(rule)));
    // Few characters of every class, so that all neighbourhoods occur.
    const std::vector<std::string> alphabet = {
        "a", "S", "'", "s", "t", "re", "LL", "\u017F", "7", "\u0663", "\u00BD", " ", " ", "\t", "\n", "\r", "\v",
        "\u00A0", "\u2003", "\u0085", "{", "_", "\u20AC", "\u0301", "\u094D", "\u20DD", "\u00E9", "\u65E5", "\u01C5",
        "\U0001F600", "\u200D", "\uFEFF", "\u2028", "'d", "'M", "\U0001D518"};
    std::mt19937 random(7);
    for (int round = 0; round < 30000; ++round) {
        std::string text;
        for (int i = int(random() % 12) + 1; i > 0; --i)
            text += alphabet[random() % alphabet.size()];
        const auto got = split(text, SplitRule(rule)), wanted = regex.split(text);
        if (got != wanted)
            qInfo() << "differs on" << QByteArray::fromStdString(text);
        QVERIFY(got == wanted);
    }
}

void TestPreTokenizer::equalsTheRegexOnLongRuns()
{
    for (const SplitRule rule : {SplitRule::Qwen2, SplitRule::Qwen35}) {
        const RegexSplitter regex(regexOf(rule));
        for (const char* run : {"a", " ", "{", "\n", " \n", "\t", "7", "\u0301", "' ", "\r\n  "}) {
            for (const char* tail : {"", "x", "{", "\n", " "}) {
                std::string text;
                while (text.size() < 3000)
                    text += run;
                text += tail;
                QVERIFY(split(text, rule) == regex.split(text));
            }
        }
    }
}

void TestPreTokenizer::equalsTheRegexOnEveryCharacterOfTheBasicPlane()
{
    const RegexSplitter regex(regexOf(SplitRule::Qwen35));
    for (char16_t c = 1; c < 0xFFFF; ++c) {
        // PCRE2 still counts the Mongolian vowel separator as white space, which Unicode ended with version 6.3.
        if (QChar::isSurrogate(c) || c == 0x180E)
            continue;
        const QChar::Category category = QChar(c).category();
        if (category == QChar::Other_NotAssigned)
            continue;
        const QString s(QChar{c});
        for (const QString& text : QStringList{s + QLatin1String("a"), QLatin1String(" ") + s + QLatin1String("."),
                                               s + QLatin1String(" a")}) {
            const std::string utf8 = text.toStdString();
            if (split(utf8, SplitRule::Qwen35) != regex.split(utf8))
                QFAIL(qPrintable(QString::number(c, 16)));
        }
    }
}

void TestPreTokenizer::knowsBothRegexesAndNoOther()
{
    QCOMPARE(splitRuleOf(regexOf(SplitRule::Qwen2)), std::optional(SplitRule::Qwen2));
    QCOMPARE(splitRuleOf(regexOf(SplitRule::Qwen35)), std::optional(SplitRule::Qwen35));
    QVERIFY(!splitRuleOf(R"(\p{N}{1,3}| ?\p{L}+)"));
    QVERIFY(!splitRuleOf(""));
}

void TestPreTokenizer::countsBadBytesAsPunctuation()
{
    QVERIFY(split("ab\xFF\xFE!\nc", SplitRule::Qwen35) == (std::vector<std::string>{"ab", "\xFF\xFE!\n", "c"}));
    QVERIFY(split("\xE6\xAD", SplitRule::Qwen35) == (std::vector<std::string>{"\xE6\xAD"}));
    QVERIFY(split("\x80word", SplitRule::Qwen35) == (std::vector<std::string>{"\x80word"}));
}

QTEST_GUILESS_MAIN(TestPreTokenizer)
#include "tst_pre_tokenizer.moc"
