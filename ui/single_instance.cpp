#include "ui/single_instance.h"

#include <QCryptographicHash>
#include <QDataStream>
#include <QDir>
#include <QLocalSocket>
#include <QStandardPaths>

namespace octavo::ui {
namespace {

constexpr int answerMs = 1000;
constexpr int quitMs = 3000;
constexpr quint32 largestMessage = 1 << 20;

QString runtimeFolder()
{
    const QString runtime = QStandardPaths::writableLocation(QStandardPaths::RuntimeLocation);
    return runtime.isEmpty() ? QDir::tempPath() : runtime;
}

} // namespace

SingleInstance::SingleInstance(const QString& key, QObject* parent)
    : QObject(parent)
{
    const QByteArray hash = QCryptographicHash::hash(key.toUtf8(), QCryptographicHash::Sha1).toHex().left(12);
    const QString path = runtimeFolder() + QStringLiteral("/octavo-") + QString::fromLatin1(hash);
    m_name = path + QStringLiteral(".socket");
    m_lock = std::make_unique<QLockFile>(path + QStringLiteral(".lock"));
    m_lock->setStaleLockTime(0); // only a dead owner makes it stale, not age
    m_first = m_lock->tryLock(0);
    if (m_first)
        listen();
}

SingleInstance::~SingleInstance() = default;

void SingleInstance::listen()
{
    QLocalServer::removeServer(m_name); // left by an owner that crashed: the lock is ours, so it is dead
    m_server.setSocketOptions(QLocalServer::UserAccessOption);
    m_server.listen(m_name);
    connect(&m_server, &QLocalServer::newConnection, this, [this] {
        QLocalSocket* socket = m_server.nextPendingConnection();
        connect(socket, &QLocalSocket::disconnected, socket, &QObject::deleteLater);
        connect(socket, &QLocalSocket::readyRead, this, [this, socket] {
            if (socket->bytesAvailable() > largestMessage) {
                socket->abort();
                return;
            }
            QDataStream stream(socket);
            stream.setVersion(QDataStream::Qt_6_4);
            stream.startTransaction();
            QStringList repositories;
            stream >> repositories;
            if (!stream.commitTransaction())
                return;
            emit raiseRequested(repositories);
            socket->write("ok");
            socket->flush();
            socket->disconnectFromServer();
        });
    });
}

bool SingleInstance::takeOver()
{
    if (m_first || m_lock->error() != QLockFile::LockFailedError)
        return true;
    m_first = m_lock->tryLock(quitMs);
    if (m_first)
        listen();
    return m_first;
}

bool SingleInstance::raiseFirst(const QStringList& repositories)
{
    QLocalSocket socket;
    socket.connectToServer(m_name);
    if (!socket.waitForConnected(answerMs))
        return false;
    QStringList absolute;
    for (const QString& repository : repositories)
        absolute += QDir(repository).absolutePath();
    QDataStream stream(&socket);
    stream.setVersion(QDataStream::Qt_6_4);
    stream << absolute;
    return socket.waitForBytesWritten(answerMs) && socket.waitForReadyRead(answerMs) && socket.readAll() == "ok";
}

} // namespace octavo::ui
