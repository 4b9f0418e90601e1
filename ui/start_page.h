#pragma once

/// What stands in the window before there are panes to use: how far loading is, why it failed, or the first steps.

#include "agents/workbench.h"
#include "ui/controls.h"
#include "ui/repository_intake.h"

class QVBoxLayout;

namespace octavo::ui {

class StartPage final : public QWidget
{
    Q_OBJECT

public:
    explicit StartPage(QWidget* parent = nullptr);

    void showLoading(const QString& stage, qint64 done, qint64 total);
    void showFailure(const Error& error);
    /// No repository yet: what Octavo is, what the loaded model can do, and where to begin.
    void showWelcome(const engine::ModelInfo& model, bool demoModel);
    /// What could not be opened stands there until something is opened again.
    void addProblem(const OpenProblem& problem);
    void clearProblems();

signals:
    /// Reads these folders with what is read soon, without questions.
    void openRequested(const QStringList& folders);
    /// Has the wizard choose what is read.
    void addRepositoryRequested();
    void chooseFilesRequested(const QString& folder);
    void trustRequested(const QString& folder);
    void settingsRequested();
    void quitRequested();

protected:
    void paintEvent(QPaintEvent* event) override;
    void dragEnterEvent(QDragEnterEvent* event) override;
    void dropEvent(QDropEvent* event) override;

private:
    void show(const QString& title, const QString& text);
    void browse();
    QWidget* buildModelCard();

    TextLabel* m_title;
    TextLabel* m_text;
    Meter* m_meter;
    TextLabel* m_stage;
    QPushButton* m_open;
    QPushButton* m_add;
    QPushButton* m_settings;
    QPushButton* m_quit;
    TextLabel* m_drop;
    QWidget* m_problems;
    QVBoxLayout* m_problemRows;
    QWidget* m_card = nullptr;
    TextLabel* m_cardTitle = nullptr;
    QList<TextLabel*> m_facts; ///< can, cannot, next: texts of the card
    QWidget* m_factRows = nullptr;
};

} // namespace octavo::ui
