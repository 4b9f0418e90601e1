#include "ui/settings/settings_form.h"

#include <QFormLayout>
#include <QVBoxLayout>

namespace octavo::ui {

namespace {

constexpr int leastFieldWidth = 160, betweenFields = 14;

} // namespace

QVBoxLayout* makeSettingsPage(QWidget* page, const QString& heading, const QString& intro)
{
    auto* layout = new QVBoxLayout(page);
    layout->setContentsMargins({});
    layout->setSpacing(metrics::padding);
    layout->addWidget(new TextLabel(heading, TextRole::Heading));
    if (!intro.isEmpty()) {
        auto* label = new TextLabel(intro, TextRole::Small, Tone::Muted);
        label->setWordWrap(true);
        layout->addWidget(label);
    }
    return layout;
}

QFormLayout* makeSettingsForm()
{
    auto* form = new QFormLayout;
    form->setContentsMargins({});
    form->setVerticalSpacing(betweenFields);
    form->setHorizontalSpacing(16);
    form->setLabelAlignment(Qt::AlignLeft);
    form->setRowWrapPolicy(QFormLayout::DontWrapRows);
    form->setFieldGrowthPolicy(QFormLayout::AllNonFixedFieldsGrow);
    return form;
}

void addSettingsField(QFormLayout* form, const QString& name, QWidget* field, const QString& hint)
{
    field->setAccessibleName(name);
    field->setAccessibleDescription(hint);
    field->setMinimumWidth(leastFieldWidth);
    auto* column = new QVBoxLayout;
    column->setContentsMargins({});
    column->setSpacing(metrics::grid);
    column->addWidget(field, 0, Qt::AlignLeft);
    if (!hint.isEmpty()) {
        auto* label = new TextLabel(hint, TextRole::Small, Tone::Muted);
        label->setWordWrap(true);
        column->addWidget(label);
    }
    auto* label = new TextLabel(name);
    label->setBuddy(field);
    // In line with the field's text, not with the middle of field and hint.
    label->setMinimumHeight(metrics::controlHeight);
    label->setAlignment(Qt::AlignLeft | Qt::AlignVCenter);
    auto* row = new QVBoxLayout;
    row->setContentsMargins({});
    row->addWidget(label);
    row->addStretch(1);
    auto* holder = new QWidget;
    holder->setLayout(row);
    form->addRow(holder, column);
}

} // namespace octavo::ui
