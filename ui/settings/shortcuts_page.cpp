#include "ui/settings/shortcuts_page.h"

#include "agents/workbench.h"
#include "ui/command_keys.h"
#include "ui/settings/settings_form.h"

#include <QHBoxLayout>
#include <QHeaderView>
#include <QVBoxLayout>

namespace octavo::ui {

namespace {

constexpr int commandRole = Qt::UserRole + 1; ///< index of the command

/// Whether `key` can be pressed while a text is being written without being part of it.
bool leavesTyping(const QKeySequence& key)
{
    const bool functionKey = key[0].key() >= Qt::Key_F1 && key[0].key() <= Qt::Key_F35;
    return functionKey || (key[0].keyboardModifiers() & (Qt::ControlModifier | Qt::AltModifier | Qt::MetaModifier));
}

} // namespace

ShortcutsPage::ShortcutsPage(agents::Workbench* workbench, const QList<QAction*>& commands, QWidget* parent)
    : QWidget(parent)
    , m_workbench(workbench)
    , m_commands(commands)
    , m_model(new QStandardItemModel(0, 2, this))
    , m_shown(new QSortFilterProxyModel(this))
    , m_list(new QTreeView)
    , m_key(new KeyField)
    , m_none(makeButton(tr("No key")))
    , m_default(makeButton(tr("Default")))
    , m_says(new TextLabel({}, TextRole::Small, Tone::Muted))
{
    m_model->setHorizontalHeaderLabels({tr("Command"), tr("Key")});
    for (qsizetype i = 0; i < commands.size(); ++i) {
        auto* name = new QStandardItem(commands[i]->text().remove(u'&'));
        auto* key = new QStandardItem(keysText(commands[i]));
        name->setData(i, commandRole);
        name->setEditable(false);
        key->setEditable(false);
        m_model->appendRow({name, key});
    }
    m_shown->setSourceModel(m_model);
    m_shown->setFilterCaseSensitivity(Qt::CaseInsensitive);
    m_shown->setFilterKeyColumn(-1);

    auto* search = new QLineEdit;
    search->setObjectName(QStringLiteral("shortcutSearch"));
    search->setAccessibleName(tr("Find a command or a key"));
    search->setPlaceholderText(search->accessibleName());
    search->setClearButtonEnabled(true);
    connect(search, &QLineEdit::textChanged, m_shown, &QSortFilterProxyModel::setFilterFixedString);

    m_list->setObjectName(QStringLiteral("shortcuts"));
    m_list->setAccessibleName(tr("Shortcuts"));
    m_list->setModel(m_shown);
    m_list->setRootIsDecorated(false);
    m_list->setUniformRowHeights(true);
    m_list->header()->setStretchLastSection(false);
    m_list->header()->setSectionResizeMode(0, QHeaderView::Stretch);
    m_list->header()->setSectionResizeMode(1, QHeaderView::ResizeToContents);
    connect(m_list->selectionModel(), &QItemSelectionModel::currentRowChanged, this, &ShortcutsPage::showChosen);
    connect(m_list, &QTreeView::activated, m_key, qOverload<>(&QWidget::setFocus));

    m_key->setObjectName(QStringLiteral("shortcutKey"));
    m_key->setAccessibleName(tr("New key"));
    m_key->setPlaceholderText(tr("Press a key"));
    connect(m_key, &KeyField::pressed, this, &ShortcutsPage::assign);
    m_none->setObjectName(QStringLiteral("shortcutNone"));
    m_default->setObjectName(QStringLiteral("shortcutDefault"));
    const auto set = [this](const QList<QKeySequence>& keys) {
        chooseKeys(chosen(), keys, *m_workbench);
        showKeys(chosen());
        showChosen();
    };
    connect(m_none, &QPushButton::clicked, this, [set] { set({}); });
    connect(m_default, &QPushButton::clicked, this, [this, set] {
        for (const QKeySequence& key : defaultKeys(chosen())) {
            if (const QAction* other = commandWithKey(m_commands, key, chosen()))
                return say(tr("%1 is the key of \u201c%2\u201d now.")
                               .arg(key.toString(QKeySequence::NativeText), other->text().remove(u'&')),
                           Tone::Warning);
        }
        set(defaultKeys(chosen()));
    });

    QVBoxLayout* layout = makeSettingsPage(this, tr("Shortcuts"));
    layout->addWidget(search);
    layout->addWidget(m_list, 1);
    auto* row = new QHBoxLayout;
    row->setSpacing(metrics::gap);
    auto* label = new TextLabel(tr("New key"));
    label->setBuddy(m_key);
    row->addWidget(label);
    row->addWidget(m_key, 1);
    row->addWidget(m_none);
    row->addWidget(m_default);
    layout->addLayout(row);
    m_says->setObjectName(QStringLiteral("shortcutSays"));
    m_says->setWordWrap(true);
    layout->addWidget(m_says);
    m_list->setCurrentIndex(m_shown->index(0, 0));
    showChosen();
}

QAction* ShortcutsPage::chosen() const
{
    const QModelIndex row = m_list->currentIndex().siblingAtColumn(0);
    return row.isValid() ? m_commands[row.data(commandRole).toInt()] : nullptr;
}

void ShortcutsPage::say(const QString& text, Tone tone)
{
    m_says->setTone(tone);
    m_says->setText(text);
}

void ShortcutsPage::showChosen()
{
    QAction* command = chosen();
    for (QWidget* part :
         {static_cast<QWidget*>(m_key), static_cast<QWidget*>(m_none), static_cast<QWidget*>(m_default)})
        part->setEnabled(command != nullptr);
    if (command == nullptr)
        return say(tr("No command is called that."));
    m_none->setEnabled(!command->shortcuts().isEmpty());
    m_default->setEnabled(command->shortcuts() != defaultKeys(command));
    say(tr("Press a key for \u201c%1\u201d in the field above.").arg(command->text().remove(u'&')));
}

void ShortcutsPage::showKeys(QAction* command)
{
    m_model->item(int(m_commands.indexOf(command)), 1)->setText(keysText(command));
}

void ShortcutsPage::assign(const QKeySequence& key)
{
    QAction* command = chosen();
    if (command == nullptr)
        return;
    const QString words = key.toString(QKeySequence::NativeText);
    if (!leavesTyping(key))
        return say(tr("%1 alone would be missing wherever you write: add Ctrl or Alt.").arg(words), Tone::Warning);
    if (const QAction* other = commandWithKey(m_commands, key, command))
        return say(tr("%1 is the key of \u201c%2\u201d: choose another, or take it away there first.")
                       .arg(words, other->text().remove(u'&')),
                   Tone::Warning);
    chooseKeys(command, {key}, *m_workbench);
    showKeys(command);
    showChosen();
    say(tr("%1 now runs \u201c%2\u201d.").arg(words, command->text().remove(u'&')), Tone::Good);
}

} // namespace octavo::ui
