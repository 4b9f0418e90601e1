#pragma once

/// How a page of the settings is laid out: a heading, then fields with their names at the left and below each, in small
/// print, what it means.

#include "ui/controls.h"

class QFormLayout;
class QVBoxLayout;

namespace octavo::ui {

QVBoxLayout* makeSettingsPage(QWidget* page, const QString& heading, const QString& intro = {});
QFormLayout* makeSettingsForm();
/// `hint` may be empty. Both become the field's accessible name and description.
void addSettingsField(QFormLayout* form, const QString& name, QWidget* field, const QString& hint);

} // namespace octavo::ui
