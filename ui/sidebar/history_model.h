#pragma once

/// Conversations, newest first, or those a search found; titles can be edited.

#include "agents/workbench.h"

#include <QAbstractListModel>

namespace octavo::ui {

class HistoryModel final : public QAbstractListModel
{
    Q_OBJECT

public:
    enum Role { IdRole = Qt::UserRole, AgeRole };

    explicit HistoryModel(agents::Workbench* workbench, QObject* parent = nullptr);

    int rowCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role) const override;
    bool setData(const QModelIndex& index, const QVariant& value, int role) override;
    Qt::ItemFlags flags(const QModelIndex& index) const override;

    /// Shows only conversations that hold `text`; empty shows all. The answer arrives later.
    void search(const QString& text);
    const agents::ConversationInfo& infoAt(int row) const { return m_shown[row]; }
    void reload();

private:
    void show(const QList<agents::ConversationInfo>& conversations);

    agents::Workbench* m_workbench;
    QList<agents::ConversationInfo> m_shown;
    QString m_text;
    int m_searchNumber = 0;
};

/// "now", "12 min", "1 h", "yesterday", "3 Nov".
QString ageText(const QDateTime& time, const QDateTime& now);

} // namespace octavo::ui
