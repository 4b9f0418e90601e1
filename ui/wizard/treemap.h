#pragma once

/// The files of a commit as tiles, each as large as its share of the tokens, folders round what is in them.
///
/// By keys: arrows go to the tile in that direction, Enter shows a folder alone, Backspace the one above, Space checks
/// and unchecks. The mouse: a click chooses, one with Ctrl checks and unchecks, a double click shows alone, a click at
/// the heading goes up.

#include "ui/wizard/file_tree_model.h"

#include <QPersistentModelIndex>
#include <QWidget>

namespace octavo::ui {

class Treemap final : public QWidget
{
    Q_OBJECT

public:
    struct Tile {
        QPersistentModelIndex index; ///< of the name
        QRectF rect;
        int hue = 0;                 ///< which of the colours of the budget's bar
        bool isOpen = false;         ///< a folder whose content is shown in it
    };

    explicit Treemap(FileTreeModel* model, QWidget* parent = nullptr);

    /// Outer before inner, larger before smaller.
    const QList<Tile>& tiles() const { return m_tiles; }
    QModelIndex root() const { return m_root; }
    QModelIndex current() const { return m_current; }
    void setCurrent(const QModelIndex& index);
    void showAlone(const QModelIndex& folder);

    /// The colours of the entries at the top, the largest first; what comes after them is muted.
    static QList<QColor> hues();

    QSize sizeHint() const override { return {480, 320}; }

protected:
    void paintEvent(QPaintEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseDoubleClickEvent(QMouseEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void leaveEvent(QEvent* event) override;
    bool event(QEvent* event) override;

private:
    void layOut();
    void layOut(const QModelIndex& folder, const QRectF& area, int depth, int hue);
    const Tile* tileAt(const QPointF& point) const; ///< the innermost
    const Tile* tileOf(const QModelIndex& index) const;
    void paintTile(QPainter& painter, const Tile& tile) const;
    void step(const QPointF& direction);
    void toggle(const QModelIndex& index);
    QString words(const QModelIndex& index) const;
    int headingHeight() const;

    FileTreeModel* m_model;
    QPersistentModelIndex m_root, m_current, m_hovered;
    QList<Tile> m_tiles;
};

} // namespace octavo::ui
