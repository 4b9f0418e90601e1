#pragma once

/// What is kept of read contexts on disk: how much may be, what there is, and ways to verify and remove it.
///
/// Thread   the folder is listed, read and changed on pool threads; the list follows.

#include "ui/charts/segment_bar.h"
#include "ui/controls.h"
#include "ui/settings/saved_contexts_model.h"
#include "ui/settings/startup_settings.h"

#include <QDoubleSpinBox>
#include <QFuture>
#include <QStackedWidget>
#include <QTreeView>

#include <filesystem>

namespace octavo::ui {

class SavedContextsPage final : public QWidget
{
    Q_OBJECT

public:
    /// An empty folder: none are kept in this run.
    SavedContextsPage(const StartupSettings& settings, std::filesystem::path folder, QWidget* parent = nullptr);

    ~SavedContextsPage() override; ///< A file that is being verified is read to its end, the others are not.

    /// Writes what is chosen here into `settings`.
    void fill(StartupSettings& settings) const;
    void refresh();
    const SavedContextsModel& model() const { return m_model; }

signals:
    void changed();

protected:
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    QWidget* buildList();
    QWidget* buildQuestion();
    void showSums();
    void showButtons();
    void verifyAll();
    void askToRemove();
    void removeAsked();
    void say(const QString& text, Tone tone = Tone::Muted);

    std::filesystem::path m_folder;
    SavedContextsModel m_model;
    QList<agents::SavedContextFile> m_asked; ///< to be removed, once that is confirmed
    int m_listings = 0;                      ///< a listing that a later one has overtaken is dropped
    QFuture<agents::SavedContextFile> m_checks;
    int m_verifying = 0;                     ///< files still to be read

    QDoubleSpinBox* m_quota;
    TextLabel* m_used;
    TextLabel* m_where;
    SegmentBar* m_bar;
    QTreeView* m_list;
    TextLabel* m_empty;
    QStackedWidget* m_actions; ///< the buttons, or the question whether to remove
    QPushButton* m_verify;
    QPushButton* m_remove;
    QPushButton* m_removeAll;
    TextLabel* m_question;
    QPushButton* m_confirm;
    TextLabel* m_says;
};

} // namespace octavo::ui
