#pragma once

/// The wizard's first page: a folder, or a URL to clone; then what was found there, in plain words, and which commit.

#include "ui/controls.h"

#include "agents/ingest/inspect_repository.h"
#include "agents/ingest_job.h"

#include <QComboBox>
#include <QLineEdit>
#include <QProgressBar>
#include <QTimer>

#include <optional>

class QVBoxLayout;

namespace octavo::ui {

class SourcePage final : public QWidget
{
    Q_OBJECT

public:
    explicit SourcePage(QWidget* parent = nullptr);
    ~SourcePage() override;

    /// Repositories used before, newest first.
    void setRecent(const QStringList& paths);
    /// Where clones go: a folder named after the repository is made in it.
    void setCloneParent(const QString& folder) { m_cloneParent = folder; }
    void setFolder(const QString& path, const QString& ref = {});
    void setUrl(const QString& url);

    /// What was found; empty while nothing usable is named.
    const std::optional<agents::RepositoryInfo>& repository() const { return m_info; }
    QString ref() const; ///< as chosen; empty: HEAD
    bool trusted() const { return m_trusted; }
    bool isComplete() const; ///< a commit is chosen that exists
    bool isCloning() const { return m_clone != nullptr; }

signals:
    void completeChanged();
    /// Enter was pressed, or a clone has come to its end: go on if complete.
    void accepted();

protected:
    void dragEnterEvent(QDragEnterEvent* event) override;
    void dropEvent(QDropEvent* event) override;

private:
    QWidget* buildFolderCard();
    QWidget* buildCloneCard();
    QWidget* buildVerdictCard();
    void browse();
    void inspect();
    void showInfo(const Result<agents::RepositoryInfo>& info);
    void showCommit();
    void chooseRef();
    void startClone();
    void endClone();
    QString cloneTarget() const;

    QString m_cloneParent;
    std::optional<agents::RepositoryInfo> m_info;
    QString m_inspectedPath;
    bool m_trusted = false;
    int m_round = 0; ///< answers to earlier questions are dropped
    QTimer m_inspectTimer;
    agents::IngestJob* m_clone = nullptr;

    QLineEdit* m_path = nullptr;
    QWidget* m_recent = nullptr;
    QVBoxLayout* m_recentLayout = nullptr;
    QLineEdit* m_url = nullptr;
    TextLabel* m_target = nullptr;
    QPushButton* m_cloneButton = nullptr;
    QProgressBar* m_cloneProgress = nullptr;
    TextLabel* m_cloneStage = nullptr;
    Card* m_verdict = nullptr;
    TextLabel* m_name = nullptr;
    TextLabel* m_commit = nullptr;
    TextLabel* m_notes = nullptr;
    TextLabel* m_refLabel = nullptr;
    QComboBox* m_refs = nullptr;
    QPushButton* m_trust = nullptr;
};

} // namespace octavo::ui
