#pragma once

/// The wizard's second page: which files of the commit are read, what they take of the model's context, and what that
/// costs.

#include "ui/charts/segment_bar.h"
#include "ui/controls.h"
#include "ui/wizard/file_tree_model.h"
#include "ui/wizard/left_out_model.h"

#include <QLineEdit>
#include <QProgressBar>
#include <QStackedWidget>
#include <QTimer>
#include <QTreeView>

#include <optional>

namespace octavo::ui {

class FileTreeView;

class FilesPage final : public QWidget
{
    Q_OBJECT

public:
    explicit FilesPage(QWidget* parent = nullptr);

    /// What the model holds, how fast it reads and what a token takes; 0 where not known.
    void setModelFigures(const QString& modelName, qint64 contextLimit, double tokensPerSecond, qint64 bytesPerToken);

    /// The choice to begin with, as an earlier ingestion had it: globs and unchecked paths.
    void setPreset(const agents::IngestOptions& options);
    /// One more line about what is chosen; empty for none.
    void setRemark(const QString& remark);
    /// What differs from an earlier context, each with how; shown in the place of what is left out when asked for.
    void setChanges(const QList<agents::SkippedFile>& changes);

    void showCounting(const QString& repository, const agents::IngestProgress& progress);
    void showFailure(const QString& problem);
    /// `all` holds every file that can be read, uncut. Chooses what fits where not all does.
    void showFiles(const agents::IngestResult& all);

    bool hasFiles() const { return m_stack->currentIndex() == 1; }
    bool isCounting() const; ///< false also where counting failed
    /// What would be read, and the options that say so.
    agents::IngestResult chosen() const;
    agents::IngestOptions chosenOptions() const;
    qint64 chosenTokens() const;
    /// Empty where the choice can be read, else why not, in a sentence.
    QString problem() const;

    FileTreeModel& tree() { return m_tree; }

signals:
    void choiceChanged();
    void retryRequested();

private:
    void build();
    QWidget* buildHeader();
    QWidget* buildFilesCard();
    QWidget* buildMap();
    QWidget* buildLeftOutCard();
    QWidget* buildCounting();
    QLineEdit* globEdit(const QString& name, const QString& placeholder);
    void applyGlobs();
    void showChoice();
    void fitToBudget();
    void showList();
    qint64 leastAnswerRoom() const; ///< tokens that must stay free for an answer

    QString m_modelName;
    qint64 m_contextLimit = 0, m_bytesPerToken = 0;
    double m_tokensPerSecond = 0;
    agents::IngestResult m_all;
    qint64 m_scaffoldTokens = 0;
    FileTreeModel m_tree;
    LeftOutModel m_leftOut, m_changes;
    QString m_globProblem, m_remark;
    std::optional<QSet<QByteArray>> m_preset; ///< unchecked paths to begin with
    int m_globRound = 0;                      ///< a later result of an earlier round is dropped
    bool m_globsPending = false; ///< a pattern was typed that does not tell yet
    QTimer m_globTimer;

    QStackedWidget* m_stack = nullptr;
    TextLabel* m_name = nullptr;
    TextLabel* m_commit = nullptr;
    QLineEdit* m_include = nullptr;
    QLineEdit* m_exclude = nullptr;
    FileTreeView* m_view = nullptr;
    TextLabel* m_countedBy = nullptr;
    TextLabel* m_leftOutSummary = nullptr;
    QTreeView* m_leftOutView = nullptr;
    QPushButton* m_showLeftOut = nullptr;
    QPushButton* m_showChanges = nullptr;
    TextLabel* m_rule = nullptr;
    TextLabel* m_tokens = nullptr;
    TextLabel* m_room = nullptr;
    TextLabel* m_cost = nullptr;
    SegmentBar* m_budget = nullptr;
    TextLabel* m_note = nullptr;
    QPushButton* m_fit = nullptr;
    TextLabel* m_stage = nullptr;
    TextLabel* m_current = nullptr;
    QProgressBar* m_progress = nullptr;
    QPushButton* m_retry = nullptr;
};

} // namespace octavo::ui
