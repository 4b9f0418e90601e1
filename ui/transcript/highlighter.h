#pragma once

/// Colours for code, line by line: one small tokeniser driven by a table per language.
///
/// C and C++, Python, Go, Rust, JavaScript and TypeScript, Java, shell, JSON, CMake. Anything else stays plain.
/// A line costs time linear in its length. What reaches over lines (comments, long strings) travels in the state.

#include <QString>

#include <vector>

namespace octavo::ui {

enum class TokenKind { Keyword, Type, Function, String, Number, Comment };

struct CodeToken {
    int start = 0, length = 0;
    TokenKind kind = TokenKind::Keyword;
};

struct Language; // the table; see languages.cpp

/// The language a fence names ("cpp", "c++", "py", "ts"), or null. Names are compared without case.
const Language* languageNamed(QStringView name);

/// The language of a file by its name ("CMakeLists.txt", "a.rs"), or null.
const Language* languageOfFile(QStringView path);

/// What a line hands to the next one: 0 outside of everything.
using HighlightState = int;

/// Tokens of `line` in order; gives the state for the next line. A null language gives none.
HighlightState highlightLine(const Language* language, QStringView line, HighlightState state,
                             std::vector<CodeToken>& tokens);

} // namespace octavo::ui
