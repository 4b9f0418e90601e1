#include "ui/command_palette.h"

#include "ui/theme.h"

#include <QKeyEvent>
#include <QLineEdit>
#include <QListView>
#include <QStandardItemModel>
#include <QVBoxLayout>

#include <algorithm>

namespace octavo::ui {

int commandScore(const QString& letters, const QString& name)
{
    int score = 0;
    qsizetype at = 0;
    bool run = false;
    for (const QChar wanted : letters) {
        if (wanted.isSpace()) {
            run = false;
            continue;
        }
        qsizetype found = at;
        while (found < name.size() && name[found].toLower() != wanted.toLower())
            ++found;
        if (found == name.size())
            return -1;
        const bool wordStart = found == 0 || !name[found - 1].isLetterOrNumber();
        score += 1 + (wordStart ? 4 : 0) + (run && found == at ? 3 : 0);
        run = true;
        at = found + 1;
    }
    return score;
}

CommandPalette::CommandPalette(const QList<QAction*>& actions, QWidget* parent)
    : QDialog(parent)
    , m_field(new QLineEdit)
    , m_list(new QListView)
    , m_model(new QStandardItemModel(this))
{
    setWindowTitle(tr("Commands"));
    setModal(true);
    setAttribute(Qt::WA_DeleteOnClose);
    for (QAction* action : actions)
        m_actions += action;
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(metrics::padding, metrics::padding, metrics::padding, metrics::padding);
    layout->addWidget(m_field);
    layout->addWidget(m_list);
    m_field->setPlaceholderText(tr("What do you want to do?"));
    m_field->setAccessibleName(tr("Command"));
    m_field->installEventFilter(this);
    m_list->setModel(m_model);
    m_list->setAccessibleName(tr("Matching commands"));
    m_list->setEditTriggers(QAbstractItemView::NoEditTriggers);
    m_list->setFocusPolicy(Qt::NoFocus);
    connect(m_field, &QLineEdit::textChanged, this, &CommandPalette::filter);
    connect(m_list, &QListView::clicked, this, &CommandPalette::run);
    filter({});
    resize(520, 420);
    if (parent)
        move(parent->mapToGlobal(QPoint((parent->width() - width()) / 2, 80)));
}

void CommandPalette::filter(const QString& text)
{
    struct Match {
        int score;
        QAction* action;
        int index;
    };
    std::vector<Match> matches;
    for (int i = 0; i < m_actions.size(); ++i) {
        QAction* action = m_actions[i];
        if (!action || !action->isEnabled() || action->text().isEmpty())
            continue;
        const int score = commandScore(text, action->text());
        if (score >= 0)
            matches.push_back({score, action, i});
    }
    std::stable_sort(matches.begin(), matches.end(), [](const Match& a, const Match& b) { return a.score > b.score; });
    m_model->clear();
    for (const Match& match : matches) {
        QString words = match.action->text();
        words.remove(u'&');
        const QString key = match.action->shortcut().toString(QKeySequence::NativeText);
        auto* item =
            new QStandardItem(match.action->icon(), key.isEmpty() ? words : words + QStringLiteral("   ") + key);
        item->setData(match.index, Qt::UserRole);
        m_model->appendRow(item);
    }
    if (m_model->rowCount() > 0)
        m_list->setCurrentIndex(m_model->index(0, 0));
}

void CommandPalette::run()
{
    const QModelIndex index = m_list->currentIndex();
    if (!index.isValid())
        return;
    const QPointer<QAction> action = m_actions[index.data(Qt::UserRole).toInt()];
    accept();
    if (action)
        action->trigger();
}

bool CommandPalette::eventFilter(QObject* watched, QEvent* event)
{
    if (watched == m_field && event->type() == QEvent::KeyPress) {
        const auto* key = static_cast<QKeyEvent*>(event);
        const int rows = m_model->rowCount();
        if ((key->key() == Qt::Key_Up || key->key() == Qt::Key_Down) && rows > 0) {
            const int row = m_list->currentIndex().row() + (key->key() == Qt::Key_Down ? 1 : rows - 1);
            m_list->setCurrentIndex(m_model->index(row % rows, 0));
            return true;
        }
        if (key->key() == Qt::Key_Return || key->key() == Qt::Key_Enter) {
            run();
            return true;
        }
    }
    return QDialog::eventFilter(watched, event);
}

} // namespace octavo::ui
