#pragma once

/// One window per user and database: a second start hands its repositories to the first and ends.
///
/// A lock file tells who is first; it knows a dead owner by its process id, so a crash never locks anybody out. A local
/// socket carries the message.

#include <QLocalServer>
#include <QLockFile>
#include <QObject>
#include <QStringList>

#include <memory>

namespace octavo::ui {

class SingleInstance final : public QObject
{
    Q_OBJECT

public:
    /// `key` names what is shared (the database's path).
    explicit SingleInstance(const QString& key, QObject* parent = nullptr);
    ~SingleInstance() override;

    /// True for the first; the others call raiseFirst().
    bool isFirst() const { return m_first; }
    /// Asks the first to come to the front and take `repositories`. False when it does not answer within a second.
    bool raiseFirst(const QStringList& repositories);
    /// Waits for the first to end, as long as a program may take to quit. False when another still is the first; true
    /// also where no lock can be kept at all, since then nobody is known to be there.
    bool takeOver();

signals:
    void raiseRequested(const QStringList& repositories);

private:
    void listen();

    QString m_name;
    std::unique_ptr<QLockFile> m_lock;
    QLocalServer m_server;
    bool m_first = false;
};

} // namespace octavo::ui
