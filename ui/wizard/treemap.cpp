#include "ui/wizard/treemap.h"

#include "ui/charts/squarify.h"
#include "ui/controls.h"

#include <QAccessible>
#include <QHelpEvent>
#include <QKeyEvent>
#include <QPainter>
#include <QToolTip>

#include <algorithm>
#include <cmath>

namespace octavo::ui {

namespace {

constexpr double border = 3;           ///< of an open folder, round its content
constexpr double leastOpenWidth = 72;  ///< a folder that is smaller shows no content
constexpr double leastOpenHeight = 48;
constexpr double leastTile = 5;        ///< tiles that are thinner are left to their folder's background
constexpr int deepest = 4, leastLetters = 7;

qint64 tokensOf(const QModelIndex& index)
{
    return index.data(FileTreeModel::TokensRole).toLongLong();
}

bool isFolder(const QModelIndex& index)
{
    return index.data(FileTreeModel::FilesRole).toInt() > 0;
}

} // namespace

Treemap::Treemap(FileTreeModel* model, QWidget* parent)
    : QWidget(parent)
    , m_model(model)
{
    setObjectName(QStringLiteral("treemap"));
    setFocusPolicy(Qt::StrongFocus);
    setMouseTracking(true);
    setAccessibleName(tr("Map of what takes the context"));
    connect(model, &QAbstractItemModel::modelReset, this, [this] {
        m_root = m_current = QPersistentModelIndex();
        layOut();
    });
    connect(model, &FileTreeModel::selectionChanged, this, qOverload<>(&QWidget::update));
    connect(Theme::instance(), &Theme::changed, this, [this] { layOut(); });
}

QList<QColor> Treemap::hues()
{
    const Colors& c = colors();
    return {c.function, c.good, c.keyword, c.number, c.type, c.warning};
}

int Treemap::headingHeight() const
{
    return QFontMetrics(ui::font(TextRole::Small)).height() + 4;
}

void Treemap::layOut()
{
    m_tiles.clear();
    if (!m_root.isValid())
        m_root = m_model->index(0, 0);
    if (m_root.isValid() && width() > 0 && height() > 0) {
        m_tiles += {m_root, QRectF(rect()), -1, true};
        layOut(m_root, QRectF(rect()).adjusted(border, headingHeight(), -border, -border), 0, -1);
    }
    if (tileOf(m_current) == nullptr)
        m_current = m_tiles.size() > 1 ? m_tiles[1].index : QPersistentModelIndex();
    update();
}

void Treemap::layOut(const QModelIndex& folder, const QRectF& area, int depth, int hue)
{
    QList<QModelIndex> children;
    for (int row = 0; row < m_model->rowCount(folder); ++row)
        children += m_model->index(row, 0, folder);
    std::stable_sort(children.begin(), children.end(),
                     [](const QModelIndex& a, const QModelIndex& b) { return tokensOf(a) > tokensOf(b); });
    QList<double> weights;
    for (const QModelIndex& child : children)
        weights += double(tokensOf(child));
    const QList<QRectF> rects = squarified(weights, area);
    for (qsizetype i = 0; i < children.size(); ++i) {
        const QRectF& tile = rects[i];
        if (tile.width() < leastTile || tile.height() < leastTile)
            continue;
        const int own = depth == 0 ? int(i) : hue;
        const QRectF inner = tile.adjusted(border, headingHeight(), -border, -border);
        const bool open = isFolder(children[i]) && depth < deepest && tile.width() >= leastOpenWidth &&
                          tile.height() >= leastOpenHeight + headingHeight();
        m_tiles += {children[i], tile, own, open};
        if (open)
            layOut(children[i], inner, depth + 1, own);
    }
}

const Treemap::Tile* Treemap::tileAt(const QPointF& point) const
{
    for (auto tile = m_tiles.crbegin(); tile != m_tiles.crend(); ++tile) {
        if (tile->rect.contains(point))
            return &*tile;
    }
    return nullptr;
}

const Treemap::Tile* Treemap::tileOf(const QModelIndex& index) const
{
    for (const Tile& tile : m_tiles) {
        if (index.isValid() && tile.index == index)
            return &tile;
    }
    return nullptr;
}

QString Treemap::words(const QModelIndex& index) const
{
    QString path = index.data().toString();
    for (QModelIndex up = index.parent(); up.isValid() && up.parent().isValid(); up = up.parent())
        path.prepend(up.data().toString());
    const qint64 all = std::max<qint64>(1, tokensOf(m_model->index(0, 0)));
    const bool packed = index.data(Qt::CheckStateRole).toInt() != Qt::Unchecked;
    const QString share = percentText(double(tokensOf(index)) / double(all));
    return packed ? tr("%1 \u00b7 %2 tokens \u00b7 %3").arg(path, countText(tokensOf(index)), share)
                  : tr("%1 \u00b7 %2 tokens \u00b7 %3 \u00b7 not read").arg(path, countText(tokensOf(index)), share);
}

void Treemap::setCurrent(const QModelIndex& index)
{
    if (tileOf(index) == nullptr || m_current == index)
        return;
    m_current = index;
    setAccessibleDescription(words(index));
    QAccessibleEvent changed(this, QAccessible::DescriptionChanged);
    QAccessible::updateAccessibility(&changed);
    update();
}

void Treemap::showAlone(const QModelIndex& folder)
{
    if (!folder.isValid() || !isFolder(folder))
        return;
    const QPersistentModelIndex before = m_root;
    m_root = folder;
    layOut();
    setCurrent(before); // where one goes up, what one came from
}

void Treemap::paintTile(QPainter& painter, const Tile& tile) const
{
    const Colors& c = colors();
    const QList<QColor> all = hues();
    const QColor hue = tile.hue < 0 ? c.line : tile.hue < all.size() ? all[tile.hue] : c.muted;
    const bool packed = tile.index.data(Qt::CheckStateRole).toInt() != Qt::Unchecked;
    const bool current = tile.index == m_current;
    const QColor ground = tile.isOpen ? mixed(c.background, hue, tile.hue < 0 ? 0.0 : packed ? 0.16 : 0.04)
                                      : mixed(c.background, hue, packed ? 0.34 : 0.06);
    const QRectF box = tile.rect.adjusted(0.5, 0.5, -1.5, -1.5);
    if (box.width() <= 1 || box.height() <= 1)
        return;
    painter.setPen(QPen(packed ? mixed(c.background, hue, 0.6) : c.line, 1, packed ? Qt::SolidLine : Qt::DashLine));
    painter.setBrush(tile.index == m_hovered && !tile.isOpen ? mixed(ground, c.text, 0.1) : ground);
    if (tile.hue >= 0)
        painter.drawRoundedRect(box, 3, 3);
    if (current && hasFocus()) {
        painter.setPen(QPen(c.accent, 2));
        painter.setBrush(Qt::NoBrush);
        painter.drawRoundedRect(box.adjusted(1, 1, -1, -1), 3, 3);
    }

    const QRectF text = tile.isOpen ? QRectF(box.left() + 6, box.top(), box.width() - 12, headingHeight())
                                    : box.adjusted(6, 2, -6, -2);
    const QFont small = ui::font(tile.isOpen ? TextRole::SmallStrong : TextRole::Small);
    const QFontMetrics letters(small);
    QString name = tile.index.data().toString();
    const int leastWidth = qMin(letters.horizontalAdvance(name), leastLetters * letters.averageCharWidth());
    if (text.width() < leastWidth || text.height() < letters.height() - 2)
        return;
    if (tile.index == m_root) {
        for (QModelIndex up = m_root.parent(); up.isValid(); up = up.parent())
            name.prepend(up.data().toString());
        if (m_root.parent().isValid())
            name.prepend(QStringLiteral("\u2039 "));
    }
    painter.setFont(small);
    painter.setPen(packed ? c.text : c.muted);
    const QString tokens = countText(tokensOf(tile.index));
    const QFontMetrics figures(ui::font(TextRole::Figure));
    const int room = figures.horizontalAdvance(tokens) + 12;
    const bool twoLines = !tile.isOpen && text.height() >= letters.height() + figures.height();
    const bool beside = tile.isOpen && text.width() > letters.horizontalAdvance(name) + room;
    painter.drawText(text, int(tile.isOpen ? Qt::AlignVCenter : Qt::AlignTop) | Qt::AlignLeft | Qt::TextSingleLine,
                     letters.elidedText(name, Qt::ElideMiddle, int(text.width())));
    if ((!beside && !twoLines) || text.width() < room - 12)
        return;
    painter.setFont(ui::font(TextRole::Figure));
    painter.setPen(packed ? mixed(ground, c.text, 0.75) : c.muted);
    if (beside)
        painter.drawText(text, Qt::AlignVCenter | Qt::AlignRight, tokens);
    else
        painter.drawText(text.adjusted(0, letters.height(), 0, 0), Qt::AlignTop | Qt::AlignLeft, tokens);
}

void Treemap::paintEvent(QPaintEvent*)
{
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    for (const Tile& tile : m_tiles)
        paintTile(painter, tile);
}

void Treemap::resizeEvent(QResizeEvent* event)
{
    QWidget::resizeEvent(event);
    layOut();
}

/// To the nearest tile whose middle lies in `direction`; what is straight ahead counts as nearer than what is aside.
void Treemap::step(const QPointF& direction)
{
    const Tile* from = tileOf(m_current);
    if (from == nullptr)
        return;
    const Tile* best = nullptr;
    double nearest = 0;
    for (const Tile& tile : m_tiles) {
        if (tile.isOpen || tile.index == m_current)
            continue;
        const QPointF way = tile.rect.center() - from->rect.center();
        const double ahead = QPointF::dotProduct(way, direction);
        const double aside = std::abs(way.x() * direction.y() - way.y() * direction.x());
        const double distance = ahead + 2 * aside;
        if (ahead > 1 && (best == nullptr || distance < nearest)) {
            best = &tile;
            nearest = distance;
        }
    }
    if (best != nullptr)
        setCurrent(best->index);
}

void Treemap::toggle(const QModelIndex& index)
{
    if (!(m_model->flags(index) & Qt::ItemIsUserCheckable))
        return;
    const bool checked = index.data(Qt::CheckStateRole).toInt() == Qt::Checked;
    m_model->setData(index, checked ? Qt::Unchecked : Qt::Checked, Qt::CheckStateRole);
    setAccessibleDescription(words(index));
}

void Treemap::keyPressEvent(QKeyEvent* event)
{
    switch (event->key()) {
    case Qt::Key_Left:
        return step({-1, 0});
    case Qt::Key_Right:
        return step({1, 0});
    case Qt::Key_Up:
        return step({0, -1});
    case Qt::Key_Down:
        return step({0, 1});
    case Qt::Key_Space:
        return toggle(m_current);
    case Qt::Key_Return:
    case Qt::Key_Enter:
        return showAlone(isFolder(m_current) ? QModelIndex(m_current) : m_current.parent());
    case Qt::Key_Backspace:
        return showAlone(m_root.parent());
    default:
        QWidget::keyPressEvent(event);
    }
}

void Treemap::mousePressEvent(QMouseEvent* event)
{
    const Tile* tile = tileAt(event->position());
    if (tile == nullptr)
        return;
    if (tile->index == m_root)
        return showAlone(m_root.parent());
    const QModelIndex index = tile->index;
    setCurrent(index);
    if (event->modifiers() & Qt::ControlModifier)
        toggle(index);
}

void Treemap::mouseDoubleClickEvent(QMouseEvent* event)
{
    const Tile* tile = tileAt(event->position());
    if (tile != nullptr && tile->index != m_root)
        showAlone(isFolder(tile->index) ? QModelIndex(tile->index) : tile->index.parent());
}

void Treemap::mouseMoveEvent(QMouseEvent* event)
{
    const Tile* tile = tileAt(event->position());
    const QPersistentModelIndex under = tile != nullptr ? tile->index : QPersistentModelIndex();
    if (under != m_hovered) {
        m_hovered = under;
        update();
    }
}

void Treemap::leaveEvent(QEvent*)
{
    m_hovered = QPersistentModelIndex();
    update();
}

bool Treemap::event(QEvent* event)
{
    if (event->type() == QEvent::ToolTip) {
        const auto* help = static_cast<QHelpEvent*>(event);
        if (const Tile* tile = tileAt(help->pos()))
            QToolTip::showText(help->globalPos(), plainTip(words(tile->index)), this);
        return true;
    }
    return QWidget::event(event);
}

} // namespace octavo::ui
