#include "ui/command_palette.h"

#include "ui/controls.h"
#include "ui/theme.h"

#include <QHBoxLayout>
#include <QKeyEvent>
#include <QLineEdit>
#include <QListView>
#include <QPainter>
#include <QStandardItemModel>
#include <QStyledItemDelegate>
#include <QToolButton>
#include <QVBoxLayout>

#include <algorithm>

namespace octavo::ui {

namespace {

constexpr int rowPadding = 8, iconGap = 10;

/// A command: its icon, its name, and at the right its keys.
class CommandDelegate final : public QStyledItemDelegate
{
public:
    using QStyledItemDelegate::QStyledItemDelegate;

    QSize sizeHint(const QStyleOptionViewItem&, const QModelIndex&) const override
    {
        return {100, qMax(metrics::controlHeight, QFontMetrics(font(TextRole::Body)).height() + rowPadding)};
    }

    void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override
    {
        painter->save();
        painter->setRenderHint(QPainter::Antialiasing);
        const bool selected = option.state & QStyle::State_Selected;
        if (selected || (option.state & QStyle::State_MouseOver)) {
            painter->setPen(Qt::NoPen);
            painter->setBrush(selected ? colors().question : mixed(colors().panel, colors().hover, 0.7));
            painter->drawRoundedRect(option.rect, metrics::radius, metrics::radius);
        }
        const int side = qRound(16 * Theme::instance()->textScale());
        const QRect inner = option.rect.adjusted(rowPadding, 0, -rowPadding, 0);
        QRect mark(inner.left(), inner.center().y() - side / 2 + 1, side, side);
        QRect text = inner.adjusted(side + iconGap, 0, 0, 0);
        const bool mirrored = option.direction == Qt::RightToLeft;
        if (mirrored) {
            mark.moveRight(inner.right());
            text = inner.adjusted(0, 0, -side - iconGap, 0);
        }
        index.data(Qt::DecorationRole).value<QIcon>().paint(painter, mark);
        const Qt::Alignment atStart = (mirrored ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter;
        const Qt::Alignment atEnd = (mirrored ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter;
        const QString keys = index.data(CommandPalette::KeyRole).toString();
        const QFontMetrics small(font(TextRole::Small)), body(font(TextRole::Body));
        painter->setFont(font(TextRole::Small));
        painter->setPen(colors().muted);
        painter->drawText(text, int(atEnd), keys);
        const int room = text.width() - small.horizontalAdvance(keys) - iconGap;
        painter->setFont(font(TextRole::Body));
        painter->setPen(colors().text);
        painter->drawText(text, int(atStart), body.elidedText(index.data().toString(), Qt::ElideRight, room));
        painter->restore();
    }
};

} // namespace

int commandScore(const QString& letters, const QString& name)
{
    int score = 0;
    qsizetype at = 0;
    bool run = false;
    for (const QChar wanted : letters) {
        if (wanted.isSpace()) {
            run = false;
            continue;
        }
        qsizetype found = at;
        while (found < name.size() && name[found].toLower() != wanted.toLower())
            ++found;
        if (found == name.size())
            return -1;
        const bool wordStart = found == 0 || !name[found - 1].isLetterOrNumber();
        score += 1 + (wordStart ? 4 : 0) + (run && found == at ? 3 : 0);
        run = true;
        at = found + 1;
    }
    return score;
}

CommandPalette::CommandPalette(const QList<QAction*>& actions, QWidget* parent)
    : QDialog(parent)
    , m_field(new QLineEdit)
    , m_list(new QListView)
    , m_model(new QStandardItemModel(this))
    , m_none(new TextLabel(tr("No command has these letters."), TextRole::Body, Tone::Muted))
{
    setWindowTitle(tr("Commands"));
    setWindowFlag(Qt::FramelessWindowHint);
    setModal(true);
    setAttribute(Qt::WA_DeleteOnClose);
    for (QAction* action : actions)
        m_actions += action;
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(metrics::padding, metrics::padding, metrics::padding, metrics::padding);
    auto* top = new QHBoxLayout;
    QToolButton* closeButton = makeIconButton(QStringLiteral("close"), tr("Close (Esc)")); // there is no title bar
    top->addWidget(m_field, 1);
    top->addWidget(closeButton);
    layout->addLayout(top);
    layout->addWidget(m_list, 1);
    layout->addWidget(m_none, 1, Qt::AlignTop);
    m_field->setPlaceholderText(tr("What do you want to do?"));
    m_field->setAccessibleName(tr("Command"));
    m_field->installEventFilter(this);
    m_list->setModel(m_model);
    m_list->setItemDelegate(new CommandDelegate(m_list));
    m_list->setFrameShape(QFrame::NoFrame);
    m_list->setUniformItemSizes(true);
    m_list->setMouseTracking(true);
    m_list->setAccessibleName(tr("Matching commands"));
    m_list->setEditTriggers(QAbstractItemView::NoEditTriggers);
    m_list->setFocusPolicy(Qt::NoFocus);
    connect(m_field, &QLineEdit::textChanged, this, &CommandPalette::filter);
    connect(m_list, &QListView::clicked, this, &CommandPalette::run);
    connect(closeButton, &QToolButton::clicked, this, &QDialog::reject);
    filter({});
    const double scale = Theme::instance()->textScale();
    resize(int(560 * scale), int(440 * scale));
    if (parent) {
        resize(size().boundedTo(parent->size() - QSize(80, 120)));
        move(parent->mapToGlobal(QPoint((parent->width() - width()) / 2, 80)));
    }
}

void CommandPalette::filter(const QString& text)
{
    struct Match {
        int score;
        QAction* action;
        int index;
    };
    std::vector<Match> matches;
    for (int i = 0; i < m_actions.size(); ++i) {
        QAction* action = m_actions[i];
        if (!action || !action->isEnabled() || action->text().isEmpty())
            continue;
        const int score = commandScore(text, action->text());
        if (score >= 0)
            matches.push_back({score, action, i});
    }
    std::stable_sort(matches.begin(), matches.end(), [](const Match& a, const Match& b) { return a.score > b.score; });
    m_model->clear();
    for (const Match& match : matches) {
        QString words = match.action->text();
        words.remove(u'&');
        const QString key = match.action->shortcut().toString(QKeySequence::NativeText);
        auto* item = new QStandardItem(match.action->icon(), words);
        item->setData(key, KeyRole);
        item->setData(key.isEmpty() ? words : words + QStringLiteral(", ") + key, Qt::AccessibleTextRole);
        item->setData(match.index, Qt::UserRole);
        m_model->appendRow(item);
    }
    const bool any = m_model->rowCount() > 0;
    m_list->setVisible(any);
    m_none->setVisible(!any);
    if (any)
        m_list->setCurrentIndex(m_model->index(0, 0));
}

/// Without a frame of the desktop's, one of ours.
void CommandPalette::paintEvent(QPaintEvent*)
{
    QPainter painter(this);
    painter.fillRect(rect(), colors().panel);
    painter.setPen(colors().line);
    painter.drawRect(rect().adjusted(0, 0, -1, -1));
}

void CommandPalette::run()
{
    const QModelIndex index = m_list->currentIndex();
    if (!index.isValid())
        return;
    const QPointer<QAction> action = m_actions[index.data(Qt::UserRole).toInt()];
    accept();
    if (action)
        action->trigger();
}

bool CommandPalette::eventFilter(QObject* watched, QEvent* event)
{
    if (watched == m_field && event->type() == QEvent::KeyPress) {
        const auto* key = static_cast<QKeyEvent*>(event);
        const int rows = m_model->rowCount();
        if ((key->key() == Qt::Key_Up || key->key() == Qt::Key_Down) && rows > 0) {
            const int row = m_list->currentIndex().row() + (key->key() == Qt::Key_Down ? 1 : rows - 1);
            m_list->setCurrentIndex(m_model->index(row % rows, 0));
            return true;
        }
        if (key->key() == Qt::Key_Return || key->key() == Qt::Key_Enter) {
            run();
            return true;
        }
    }
    return QDialog::eventFilter(watched, event);
}

} // namespace octavo::ui
