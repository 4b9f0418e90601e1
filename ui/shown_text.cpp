#include "ui/shown_text.h"

namespace octavo::ui {

bool fakesLayout(QChar c)
{
    if (c.category() == QChar::Other_Control)
        return c != u'\n' && c != u'\t';
    switch (c.direction()) {
    case QChar::DirLRE:
    case QChar::DirRLE:
    case QChar::DirLRO:
    case QChar::DirRLO:
    case QChar::DirPDF:
    case QChar::DirLRI:
    case QChar::DirRLI:
    case QChar::DirFSI:
    case QChar::DirPDI:
        return true;
    default: // the marks have the direction of a letter
        return c.unicode() == 0x200E || c.unicode() == 0x200F || c.unicode() == 0x061C;
    }
}

QString shownText(QString text)
{
    for (QChar& c : text) {
        if (fakesLayout(c))
            c = QChar::ReplacementCharacter;
    }
    return text;
}

} // namespace octavo::ui
