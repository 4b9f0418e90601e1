#include "ui/settings/settings_form.h"

#include <QDoubleSpinBox>
#include <QVBoxLayout>

namespace octavo::ui {

namespace {

constexpr int leastFieldWidth = 160, sidePadding = 16, rowPadding = 10, betweenCards = 18;
constexpr double gib = 1024.0 * 1024.0 * 1024.0;

} // namespace

SettingsCard::SettingsCard(QWidget* parent)
    : Card(Card::Fill::Panel, parent)
    , m_rows(new QVBoxLayout(this))
{
    m_rows->setContentsMargins(1, 1, 1, 1);
    m_rows->setSpacing(0);
}

void SettingsCard::separate()
{
    if (m_rows->count() > 0)
        m_rows->addWidget(new Separator);
}

void SettingsCard::addRow(QLayout* row)
{
    separate();
    row->setContentsMargins(sidePadding, rowPadding, sidePadding, rowPadding);
    m_rows->addLayout(row);
}

void SettingsCard::addRow(QWidget* row)
{
    auto* layout = new QVBoxLayout;
    layout->addWidget(row);
    addRow(layout);
}

void SettingsCard::addField(const QString& name, QWidget* field, const QString& hint)
{
    field->setAccessibleName(name);
    field->setAccessibleDescription(hint);
    if (field->sizePolicy().horizontalPolicy() != QSizePolicy::Fixed)
        field->setMinimumWidth(leastFieldWidth);
    auto* label = new TextLabel(name);
    label->setBuddy(field);
    auto* words = new QVBoxLayout;
    words->setSpacing(2);
    words->addWidget(label);
    if (!hint.isEmpty()) {
        auto* meaning = new TextLabel(hint, TextRole::Small, Tone::Muted);
        meaning->setWordWrap(true);
        words->addWidget(meaning);
    }
    auto* row = new QHBoxLayout;
    row->setSpacing(2 * sidePadding);
    row->addLayout(words, 1);
    row->addWidget(field, 0, Qt::AlignVCenter | Qt::AlignRight);
    addRow(row);
}

void SettingsCard::addWide(const QString& name, QWidget* field, QLayout* row)
{
    auto* label = new TextLabel(name);
    label->setBuddy(field);
    auto* column = new QVBoxLayout;
    column->setSpacing(6);
    column->addWidget(label);
    column->addLayout(row);
    addRow(column);
}

QVBoxLayout* makeSettingsPage(QWidget* page, const QString& heading, const QString& intro)
{
    auto* layout = new QVBoxLayout(page);
    layout->setContentsMargins({});
    layout->setSpacing(metrics::gap);
    layout->addWidget(new TextLabel(heading, TextRole::Heading));
    if (!intro.isEmpty()) {
        auto* label = new TextLabel(intro, TextRole::Small, Tone::Muted);
        label->setWordWrap(true);
        layout->addWidget(label);
    }
    layout->addSpacing(metrics::grid);
    return layout;
}

SettingsCard* addSettingsCard(QVBoxLayout* page, const QString& title)
{
    if (!title.isEmpty()) {
        if (qobject_cast<SettingsCard*>(page->itemAt(page->count() - 1)->widget()))
            page->addSpacing(betweenCards - metrics::gap);
        page->addWidget(new TextLabel(title, TextRole::SmallStrong, Tone::Muted));
    }
    auto* card = new SettingsCard;
    page->addWidget(card);
    return card;
}

QDoubleSpinBox* makeSizeField(const char* objectName, qint64 bytes, const QString& none)
{
    auto* box = new QDoubleSpinBox;
    box->setObjectName(QLatin1String(objectName));
    box->setRange(0, 4096);
    box->setDecimals(1);
    box->setSingleStep(1);
    box->setSuffix(QStringLiteral(" GiB"));
    box->setSpecialValueText(none);
    box->setValue(double(bytes) / gib);
    return box;
}

qint64 sizeOf(const QDoubleSpinBox* field)
{
    return qint64(field->value() * gib);
}

} // namespace octavo::ui
