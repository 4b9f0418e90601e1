#include "ui/source_viewer/source_viewer.h"

#include "ui/problem_text.h"
#include "ui/source_viewer/editor_command.h"
#include "ui/take_up.h"

#include "agents/workbench.h"

#include <QDesktopServices>
#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QHBoxLayout>
#include <QProcess>
#include <QShortcut>
#include <QUrl>
#include <QVBoxLayout>
#include <QtConcurrentRun>

namespace octavo::ui {

SourceViewer::SourceViewer(agents::Workbench* workbench, QWidget* parent)
    : QDialog(parent)
    , m_workbench(workbench)
{
    setWindowTitle(tr("Source"));
    sizeByText(this, {860, 680});
    m_title = new TextLabel({}, TextRole::BodyStrong);
    m_title->setObjectName(QStringLiteral("sourcePath"));
    m_title->setElided(true);
    m_where = new TextLabel({}, TextRole::Small, Tone::Muted);
    m_notice = new TextLabel({}, TextRole::Small, Tone::Warning);
    m_notice->setObjectName(QStringLiteral("notice"));
    m_notice->setWordWrap(true);
    m_notice->hide();
    m_find = new QLineEdit;
    m_find->setObjectName(QStringLiteral("find"));
    m_find->setAccessibleName(tr("Find in this file"));
    m_find->setPlaceholderText(tr("Find"));
    m_find->setClearButtonEnabled(true);
    m_find->setMaximumWidth(200);
    connect(m_find, &QLineEdit::returnPressed, this, [this] { find(false); });
    m_editor = makeButton(tr("Open in editor"));
    m_editor->setObjectName(QStringLiteral("openInEditor"));
    m_editor->setAutoDefault(false);
    m_editor->setToolTip(tr("Opens the file of the working folder, which may differ from the commit"));
    connect(m_editor, &QPushButton::clicked, this, &SourceViewer::openInEditor);
    m_code = new CodeView;

    auto* header = new QHBoxLayout;
    header->setContentsMargins(16, metrics::padding, metrics::padding, metrics::gap);
    header->addWidget(m_title, 1);
    header->addWidget(m_where);
    header->setSpacing(metrics::padding);
    header->addWidget(m_find);
    header->addWidget(m_editor);
    m_notice->setContentsMargins(16, 0, 16, metrics::gap);
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins({});
    layout->setSpacing(0);
    layout->addLayout(header);
    layout->addWidget(m_notice);
    layout->addWidget(new Separator);
    layout->addWidget(m_code, 1);

    auto* findKey = new QShortcut(QKeySequence::Find, this);
    connect(findKey, &QShortcut::activated, this, [this] {
        m_find->setFocus();
        m_find->selectAll();
    });
    connect(new QShortcut(QKeySequence::FindNext, this), &QShortcut::activated, this, [this] { find(false); });
    connect(new QShortcut(QKeySequence::FindPrevious, this), &QShortcut::activated, this, [this] { find(true); });
}

void SourceViewer::open(agents::ContextId context, const QByteArray& path, int line, int lastLine)
{
    const int round = ++m_round;
    m_path = path;
    m_repositoryPath.clear();
    for (const agents::ContextInfo& info : m_workbench->contexts()) {
        if (info.id == context)
            m_repositoryPath = info.repositoryPath;
    }
    takeUp(m_workbench->source(context, path), this,
           [this, round, line, lastLine](const Result<agents::SourceText>& source) {
               if (round != m_round)
                   return;
               if (source) {
                   showSource(*source, line, lastLine);
                   return;
               }
               m_title->setText(QString::fromUtf8(m_path));
               m_where->clear();
               m_code->setCode({}, {});
               m_notice->setText(problemText(source.error()));
               m_notice->show();
           });
}

void SourceViewer::showSource(const agents::SourceText& source, int line, int lastLine)
{
    setWindowTitle(tr("%1 @ %2").arg(source.displayPath, source.commit.left(7)));
    m_title->setText(source.displayPath);
    const QString lines = line <= 0         ? QString()
                          : lastLine > line ? tr("lines %1–%2 · ").arg(line).arg(lastLine)
                                            : tr("line %1 · ").arg(line);
    m_where->setText(lines + tr("as of %1").arg(source.commit.left(7)));
    m_notice->hide();
    m_code->setCode(source.displayPath, source.text);
    m_code->markLines(line, lastLine);
    m_code->setFocus();
}

void SourceViewer::find(bool backward)
{
    const QTextDocument::FindFlags flags = backward ? QTextDocument::FindBackward : QTextDocument::FindFlag(0);
    if (m_find->text().isEmpty() || m_code->find(m_find->text(), flags))
        return;
    m_code->moveCursor(backward ? QTextCursor::End : QTextCursor::Start);
    m_code->find(m_find->text(), flags);
}

void SourceViewer::openInEditor()
{
    const QString file = QDir(m_repositoryPath).filePath(QFile::decodeName(m_path));
    const int line = m_code->firstMarked();
    takeUp(QtConcurrent::run([file] { return QFileInfo::exists(file); }), this, [this, file, line](bool exists) {
        QString problem;
        QStringList command = editorCommand(qEnvironmentVariable("VISUAL"), file, line);
        const QString program = command.isEmpty() ? QString() : command.takeFirst();
        if (m_repositoryPath.isEmpty() || !exists)
            problem = tr("The file is not in the working folder: it may have moved since this commit.");
        else if (!program.isEmpty() ? !QProcess::startDetached(program, command)
                                    : !QDesktopServices::openUrl(QUrl::fromLocalFile(file)))
            problem = tr("No editor could be started: set VISUAL to the one you use.");
        m_notice->setVisible(!problem.isEmpty());
        m_notice->setText(problem);
        if (!problem.isEmpty())
            emit editorProblem(problem);
    });
}

} // namespace octavo::ui
