#include "ui/write_file.h"

#include <QSaveFile>
#include <QtConcurrentRun>

namespace octavo::ui {

QFuture<Result<void>> writeFile(const QString& path, const QByteArray& content)
{
    return QtConcurrent::run([path, content]() -> Result<void> {
        QSaveFile file(path);
        if (file.open(QIODevice::WriteOnly) && file.write(content) == content.size() && file.commit())
            return {};
        return Error{ErrorCode::FileUnwritable,
                     path.toStdString() + " could not be written: " + file.errorString().toStdString() + '.'};
    });
}

} // namespace octavo::ui
