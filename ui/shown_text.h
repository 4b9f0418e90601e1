#pragma once

/// Text of repositories and models as it may be shown: nothing in it changes the order of what stands beside it, and
/// nothing in it becomes a shortcut.

#include <QString>

namespace octavo::ui {

/// Whether `c` is drawn as nothing but changes what others look like: controls, and marks that turn the direction of
/// writing. Joiners stay, since emoji and some scripts are made with them.
bool fakesLayout(QChar c);

/// `text` with a visible mark in place of each such character but tabs and line breaks; positions stay as they are.
QString shownText(QString text);

/// `text` for a button, menu entry or check box: an '&' in it is a character, not a shortcut.
inline QString literalText(const QString& text)
{
    return QString(text).replace(u'&', QStringLiteral("&&"));
}

} // namespace octavo::ui
