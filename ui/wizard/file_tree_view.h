#pragma once

/// The tree of the wizard's second page: names with check boxes and counts, then a bar and the tokens.

#include <QTreeView>

namespace octavo::ui {

class FileTreeView final : public QTreeView
{
    Q_OBJECT

public:
    explicit FileTreeView(QWidget* parent = nullptr);

    void setModel(QAbstractItemModel* model) override;

    /// Expands the repository and as many large folders below it as are seen at once.
    void expandLargest();

protected:
    void keyPressEvent(QKeyEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;

private:
    void fitColumns();
};

} // namespace octavo::ui
