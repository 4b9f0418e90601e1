#pragma once

/// How a page of the settings is laid out: a heading, then cards of settings. A setting has its name and, in small
/// print, what it means at the left, and its field at the right.

#include "ui/controls.h"

class QDoubleSpinBox;
class QVBoxLayout;

namespace octavo::ui {

class SettingsCard final : public Card
{
    Q_OBJECT

public:
    explicit SettingsCard(QWidget* parent = nullptr);

    /// `hint` may be empty. Both become the field's accessible name and description.
    void addField(const QString& name, QWidget* field, const QString& hint = {});
    /// A field that wants the card's whole width, below its name.
    void addWide(const QString& name, QWidget* field, QLayout* row);
    void addRow(QWidget* row);
    void addRow(QLayout* row);

private:
    void separate();

    QVBoxLayout* m_rows;
};

QVBoxLayout* makeSettingsPage(QWidget* page, const QString& heading, const QString& intro = {});
/// `title` stands above the card and may be empty.
SettingsCard* addSettingsCard(QVBoxLayout* page, const QString& title = {});

/// A field for so many GiB; 0 shows `none`.
QDoubleSpinBox* makeSizeField(const char* objectName, qint64 bytes, const QString& none);
qint64 sizeOf(const QDoubleSpinBox* field); ///< in bytes

} // namespace octavo::ui
