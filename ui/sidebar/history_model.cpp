#include "ui/sidebar/history_model.h"

#include "ui/controls.h"
#include "ui/take_up.h"

#include <QFuture>
#include <QLocale>

namespace octavo::ui {

QString ageText(const QDateTime& time, const QDateTime& now)
{
    if (!time.isValid())
        return {};
    const qint64 seconds = time.secsTo(now);
    if (seconds < 60)
        return HistoryModel::tr("now");
    if (seconds < 3600)
        return HistoryModel::tr("%1 min").arg(seconds / 60);
    if (time.date() == now.date())
        return HistoryModel::tr("%1 h").arg(seconds / 3600);
    if (time.date().daysTo(now.date()) == 1)
        return HistoryModel::tr("yesterday");
    return QLocale().toString(time.date(), time.date().year() == now.date().year() ? QStringLiteral("d MMM")
                                                                                   : QStringLiteral("d MMM yyyy"));
}

HistoryModel::HistoryModel(agents::Workbench* workbench, QObject* parent)
    : QAbstractListModel(parent)
    , m_workbench(workbench)
{
    connect(workbench, &agents::Workbench::conversationsChanged, this, &HistoryModel::reload);
    reload();
}

void HistoryModel::reload()
{
    if (m_text.isEmpty())
        show(m_workbench->conversations());
    else
        search(m_text);
}

void HistoryModel::search(const QString& text)
{
    m_text = text.trimmed();
    const int number = ++m_searchNumber;
    if (m_text.isEmpty()) {
        show(m_workbench->conversations());
        return;
    }
    takeUp(m_workbench->search(m_text), this, [this, number](const QList<agents::ConversationInfo>& found) {
        if (number == m_searchNumber) // a newer search has not overtaken this one
            show(found);
    });
}

/// Rows that stay keep their place on screen: a change of titles or ages is not a reset.
void HistoryModel::show(const QList<agents::ConversationInfo>& conversations)
{
    bool same = conversations.size() == m_shown.size();
    for (qsizetype i = 0; same && i < conversations.size(); ++i)
        same = conversations[i].id == m_shown[i].id;
    if (same) {
        m_shown = conversations;
        if (!m_shown.isEmpty())
            emit dataChanged(index(0), index(int(m_shown.size()) - 1));
        return;
    }
    beginResetModel();
    m_shown = conversations;
    endResetModel();
}

int HistoryModel::rowCount(const QModelIndex& parent) const
{
    return parent.isValid() ? 0 : int(m_shown.size());
}

QVariant HistoryModel::data(const QModelIndex& index, int role) const
{
    if (!index.isValid() || index.row() >= m_shown.size())
        return {};
    const agents::ConversationInfo& info = m_shown[index.row()];
    // Words of a question, shown in one line: its marks for code are only in the way there.
    const QString title = info.title.isEmpty() ? tr("Untitled") : info.title.simplified().remove(u'`');
    switch (role) {
    case Qt::DisplayRole:
        return title;
    case Qt::EditRole:
        return info.title;
    case IdRole:
        return qint64(info.id);
    case AgeRole:
        return ageText(info.lastUsed, QDateTime::currentDateTime());
    case Qt::AccessibleTextRole:
        return QString(title + QStringLiteral(", ") + data(index, AgeRole).toString());
    case Qt::ToolTipRole:
        return plainTip(QStringList{title, info.contextName, tr("%n messages", nullptr, info.messages)}.join(u'\n'));
    default:
        return {};
    }
}

bool HistoryModel::setData(const QModelIndex& index, const QVariant& value, int role)
{
    const QString title = value.toString().simplified();
    if (role != Qt::EditRole || !index.isValid() || title.isEmpty() || title == m_shown[index.row()].title)
        return false;
    m_shown[index.row()].title = title;
    emit dataChanged(index, index);
    m_workbench->renameConversation(m_shown[index.row()].id, title);
    return true;
}

Qt::ItemFlags HistoryModel::flags(const QModelIndex& index) const
{
    return QAbstractListModel::flags(index) | (index.isValid() ? Qt::ItemIsEditable : Qt::NoItemFlags);
}

} // namespace octavo::ui
