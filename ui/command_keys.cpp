#include "ui/command_keys.h"

#include "agents/workbench.h"
#include "ui/controls.h"
#include "ui/setting_keys.h"

#include <algorithm>

namespace octavo::ui {

namespace {

const char* const defaultKeysProperty = "defaultKeys";
const QString noKey = QStringLiteral("none");

QString settingOf(const QAction* command)
{
    return setting_keys::shortcutPrefix + command->objectName();
}

} // namespace

void setDefaultKeys(QAction* command, const QString& id, const QList<QKeySequence>& keys)
{
    command->setObjectName(id);
    command->setProperty(defaultKeysProperty, QVariant::fromValue(keys));
    command->setShortcuts(keys);
}

QList<QKeySequence> defaultKeys(const QAction* command)
{
    return command->property(defaultKeysProperty).value<QList<QKeySequence>>();
}

void loadKeys(const QList<QAction*>& commands, const agents::Workbench& workbench)
{
    for (QAction* command : commands) {
        const QString kept = workbench.setting(settingOf(command));
        if (kept.isEmpty())
            continue;
        if (kept == noKey) {
            command->setShortcuts(QList<QKeySequence>());
            continue;
        }
        const QList<QKeySequence> keys = QKeySequence::listFromString(kept, QKeySequence::PortableText);
        const bool readable = !keys.isEmpty() && std::none_of(keys.begin(), keys.end(), [](const QKeySequence& key) {
            return key.isEmpty() || key[0].key() == Qt::Key_unknown;
        });
        if (!readable)
            continue;
        command->setShortcuts(keys);
        // A key that was chosen counts before one that a later version gives to another command.
        for (QAction* other : commands) {
            if (other == command || !workbench.setting(settingOf(other)).isEmpty())
                continue;
            QList<QKeySequence> left = other->shortcuts();
            if (left.removeIf([&](const QKeySequence& key) { return keys.contains(key); }) > 0)
                other->setShortcuts(left);
        }
    }
}

void chooseKeys(QAction* command, const QList<QKeySequence>& keys, agents::Workbench& workbench)
{
    command->setShortcuts(keys);
    workbench.setSetting(settingOf(command), keys == defaultKeys(command) ? QString()
                                             : keys.isEmpty()
                                                 ? noKey
                                                 : QKeySequence::listToString(keys, QKeySequence::PortableText));
}

const QAction* commandWithKey(const QList<QAction*>& commands, const QKeySequence& key, const QAction* except)
{
    for (const QAction* command : commands) {
        if (command == except)
            continue;
        for (const QKeySequence& taken : command->shortcuts()) {
            if (taken.matches(key) != QKeySequence::NoMatch || key.matches(taken) != QKeySequence::NoMatch)
                return command;
        }
    }
    return nullptr;
}

QString keysText(const QAction* command)
{
    QStringList keys;
    for (const QKeySequence& key : command->shortcuts())
        keys += key.toString(QKeySequence::NativeText);
    return keys.isEmpty() ? dash() : keys.join(QStringLiteral(", "));
}

} // namespace octavo::ui
