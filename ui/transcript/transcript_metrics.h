#pragma once

/// Distances that the parts of a transcript agree on, in pixels. For the files of TranscriptView only.

namespace octavo::ui {

inline constexpr int sideMargin = 12, topMargin = 10, bottomMargin = 12; ///< between the items and the viewport's edge
inline constexpr int widestColumn = 920; ///< lines longer than this are hard to read; scales with the text
inline constexpr int betweenBlocks = 8, betweenListItems = 3;

} // namespace octavo::ui
