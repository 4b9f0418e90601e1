#pragma once

#include <QKeySequence>
#include <QLineEdit>

namespace octavo::ui {

/// A field that takes one key with its modifiers, whatever that key does elsewhere. Tab still leaves it, and Escape
/// closes what it stands in.
class KeyField final : public QLineEdit
{
    Q_OBJECT

public:
    explicit KeyField(QWidget* parent = nullptr);

signals:
    void pressed(const QKeySequence& key);

protected:
    bool event(QEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
};

} // namespace octavo::ui
