#pragma once

/// What the tokeniser needs to know about a language.

#include <QLatin1String>
#include <QSet>
#include <QString>
#include <QStringList>

#include <vector>

namespace octavo::ui {

/// A string literal, or anything else between two marks.
struct Quote {
    QLatin1String open, close;
    bool escapes = true; ///< a backslash hides the next character
    bool multiline = false;
};

struct Language {
    QStringList names; ///< as fences have them, lower case
    QStringList files; ///< suffixes (".py") and whole names ("CMakeLists.txt")
    QSet<QString> keywords, types;
    QLatin1String lineComment;
    QLatin1String blockOpen, blockClose;
    std::vector<Quote> quotes; ///< the longer openings first
    bool capitalsAreTypes = true;
    bool ignoreCase = false;
    bool preprocessor = false;   ///< '#' at the start of a line
    bool attributes = false;     ///< '@name' is a keyword
    bool variables = false;      ///< '$name' and '${...}'
    bool keysAreTypes = false;   ///< JSON: a string before ':'
    bool rawStrings = false;     ///< R"x(...)x"
    bool lifetimes = false;      ///< Rust: 'a is no character
    bool wordBeforeHash = false; ///< a comment's mark counts only at a word's start (shell)
};

const std::vector<Language>& languages();

} // namespace octavo::ui
