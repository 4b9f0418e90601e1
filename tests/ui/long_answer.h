#pragma once

#include <QString>

namespace octavo::ui::test {

/// An answer of about `tokens` tokens: prose, a table of 80 rows and code of 2,000 lines among it.
inline QString longAnswer(int tokens)
{
    QString text = QStringLiteral("# A long answer\n\nIt has **everything** that `answers` have.\n\n");
    text += QStringLiteral("| file | purpose | lines | state |\n| :-- | --- | --: | --- |\n");
    for (int i = 0; i < 80; ++i)
        text += QStringLiteral("| `src/part_%1.cpp` | keeps part %1 of the table in order | %2 | fine |\n")
                    .arg(i)
                    .arg(i * 37);
    text += QStringLiteral("\nAnd now the code:\n\n```cpp\n");
    for (int i = 0; i < 2000; ++i)
        text += QStringLiteral("    f(%1); // line%1\n").arg(i);
    text += QStringLiteral("```\n\n");
    // About four characters to a token.
    for (int i = 0; text.size() < qsizetype(tokens) * 4; ++i)
        text += QStringLiteral(
                    "Paragraph %1 goes on about `things_%1` and *why* they are so, as long as there is room left. "
                    "It links to [nothing](https://example.org) and ends.\n\n- item one of %1\n- item two of %1\n\n")
                    .arg(i);
    return text;
}

} // namespace octavo::ui::test
