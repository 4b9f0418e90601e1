#include "ui/settings/key_field.h"

#include <QKeyEvent>

namespace octavo::ui {

namespace {

bool isModifier(int key)
{
    return key == Qt::Key_Control || key == Qt::Key_Shift || key == Qt::Key_Alt || key == Qt::Key_Meta ||
           key == Qt::Key_AltGr || key == Qt::Key_unknown || key == 0;
}

bool isOurs(const QKeyEvent& event)
{
    return event.key() != Qt::Key_Escape && event.key() != Qt::Key_Tab && event.key() != Qt::Key_Backtab;
}

} // namespace

KeyField::KeyField(QWidget* parent)
    : QLineEdit(parent)
{
    setReadOnly(true);
    setAttribute(Qt::WA_InputMethodEnabled, false);
}

bool KeyField::event(QEvent* event)
{
    if (event->type() == QEvent::ShortcutOverride && isOurs(*static_cast<QKeyEvent*>(event))) {
        event->accept(); // a command's key is not run here, it is taken down
        return true;
    }
    return QLineEdit::event(event);
}

void KeyField::keyPressEvent(QKeyEvent* event)
{
    if (!isOurs(*event)) {
        QLineEdit::keyPressEvent(event);
        return;
    }
    if (!isModifier(event->key()))
        emit pressed(QKeySequence(event->keyCombination()));
}

} // namespace octavo::ui
