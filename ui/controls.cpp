#include "ui/controls.h"

#include <QTextDocument>
#include <QLocale>
#include <QPainter>
#include <QPainterPath>
#include <QScreen>
#include <QStyle>
#include <QVariant>

#include <algorithm>
#include <cmath>

namespace octavo::ui {
namespace {

constexpr auto kindProperty = "kind";
constexpr int screenMargin = 80; ///< for a window's frame, and to be told from what is below it

void repaintOnThemeChange(QWidget* widget)
{
    QObject::connect(Theme::instance(), &Theme::changed, widget, qOverload<>(&QWidget::update));
}

} // namespace

ButtonKind buttonKind(const QWidget* button)
{
    if (!button)
        return ButtonKind::Normal;
    const QVariant kind = button->property(kindProperty);
    if (kind.isValid())
        return ButtonKind(kind.toInt());
    return qobject_cast<const QToolButton*>(button) ? ButtonKind::Quiet : ButtonKind::Normal;
}

void setButtonKind(QWidget* button, ButtonKind kind)
{
    button->setProperty(kindProperty, int(kind));
    button->update();
}

QPushButton* makeButton(const QString& text, ButtonKind kind, QWidget* parent)
{
    auto* button = new QPushButton(text, parent);
    button->setAccessibleName(text);
    setButtonKind(button, kind);
    return button;
}

QToolButton* makeIconButton(const QString& iconName, const QString& name, QWidget* parent)
{
    auto* button = new QToolButton(parent);
    button->setIcon(icon(iconName));
    button->setToolTip(name);
    button->setAccessibleName(name);
    button->setFocusPolicy(Qt::TabFocus);
    setButtonKind(button, ButtonKind::Quiet);
    return button;
}

void sizeByText(QWidget* window, const QSize& at100)
{
    const auto size = [window, at100] {
        const QSize room = window->screen()->availableGeometry().size() - QSize(screenMargin, screenMargin);
        return (QSizeF(at100) * std::max(1.0, Theme::instance()->textScale()))
            .toSize()
            .boundedTo(room)
            .expandedTo(at100);
    };
    window->resize(size());
    QObject::connect(Theme::instance(), &Theme::changed, window,
                     [window, size] { window->resize(window->size().expandedTo(size())); });
}

TextLabel::TextLabel(const QString& text, TextRole role, Tone tone, QWidget* parent)
    : QLabel(parent)
    , m_role(role)
    , m_tone(tone)
{
    setTextFormat(Qt::PlainText);
    setForegroundRole(QPalette::WindowText); // else it follows the background of whatever it stands on
    setText(text);
    restyle();
    connect(Theme::instance(), &Theme::changed, this, &TextLabel::restyle);
}

void TextLabel::restyle()
{
    setFont(Theme::instance()->font(m_role));
    QPalette p = palette();
    p.setColor(QPalette::WindowText, Theme::instance()->color(m_tone));
    setPalette(p);
}

void TextLabel::setRole(TextRole role)
{
    m_role = role;
    restyle();
}

void TextLabel::setTone(Tone tone)
{
    if (m_tone == tone)
        return;
    m_tone = tone;
    restyle();
}

void TextLabel::setElided(bool elided)
{
    m_elided = elided;
    QSizePolicy policy = sizePolicy();
    policy.setHorizontalPolicy(elided ? QSizePolicy::Expanding : QSizePolicy::Preferred);
    setSizePolicy(policy);
    updateGeometry();
}

QSize TextLabel::minimumSizeHint() const
{
    const QSize size = QLabel::minimumSizeHint();
    return m_elided ? QSize(qMin(size.width(), fontMetrics().averageCharWidth() * 3), size.height()) : size;
}

void TextLabel::paintEvent(QPaintEvent* event)
{
    if (!m_elided) {
        QLabel::paintEvent(event);
        return;
    }
    QPainter painter(this);
    painter.setPen(palette().color(QPalette::WindowText));
    const QString shown = fontMetrics().elidedText(text(), Qt::ElideRight, contentsRect().width());
    painter.drawText(contentsRect(), int(alignment()) | Qt::TextSingleLine, shown);
}

Card::Card(Fill fill, QWidget* parent)
    : QFrame(parent)
    , m_fill(fill)
{
    repaintOnThemeChange(this);
}

void Card::setOutline(Tone tone)
{
    m_outline = tone;
    update();
}

void Card::paintEvent(QPaintEvent*)
{
    const Colors& c = colors();
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    painter.setPen(m_outline == Tone::Normal ? c.line : Theme::instance()->color(m_outline));
    painter.setBrush(m_fill == Fill::Panel ? c.panel : m_fill == Fill::Raised ? c.raised : c.background);
    painter.drawRoundedRect(QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5), metrics::cardRadius, metrics::cardRadius);
}

Chip::Chip(const QString& text, QWidget* parent)
    : TextLabel(text, TextRole::Small, Tone::Muted, parent)
{
    setContentsMargins(6, 2, 6, 2);
    setAlignment(Qt::AlignCenter);
}

void Chip::paintEvent(QPaintEvent* event)
{
    {
        QPainter painter(this);
        painter.setRenderHint(QPainter::Antialiasing);
        painter.setPen(colors().line);
        painter.drawRoundedRect(QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5), 4, 4);
    }
    TextLabel::paintEvent(event);
}

Meter::Meter(QWidget* parent)
    : QWidget(parent)
{
    setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
    repaintOnThemeChange(this);
}

void Meter::setParts(std::vector<Part> parts)
{
    m_parts = std::move(parts);
    update();
}

void Meter::setThickness(int pixels)
{
    m_thickness = pixels;
    updateGeometry();
}

QSize Meter::sizeHint() const
{
    return {64, m_thickness};
}

void Meter::paintEvent(QPaintEvent*)
{
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    const QRectF bar(0, (height() - m_thickness) / 2.0, width(), m_thickness);
    QPainterPath clip;
    clip.addRoundedRect(bar, m_thickness / 2.0, m_thickness / 2.0);
    painter.setClipPath(clip);
    painter.fillRect(bar, colors().track);
    double at = 0;
    for (const Part& part : m_parts) {
        const double share = qBound(0.0, part.share, 1.0 - at);
        painter.fillRect(QRectF(bar.width() * at, bar.top(), bar.width() * share, bar.height()), part.color);
        at += share;
    }
}

Separator::Separator(Qt::Orientation orientation, QWidget* parent)
    : QWidget(parent)
    , m_orientation(orientation)
{
    if (orientation == Qt::Horizontal)
        setFixedHeight(1);
    else
        setFixedWidth(1);
    repaintOnThemeChange(this);
}

void Separator::paintEvent(QPaintEvent*)
{
    QPainter(this).fillRect(rect(), colors().line);
}

QString countText(qint64 value)
{
    return value < 0 ? dash() : QLocale().toString(value);
}

QString shortCountText(qint64 value)
{
    if (value < 0)
        return dash();
    if (value < 1000)
        return QLocale().toString(value);
    if (value < 1'000'000)
        return QLocale().toString((value + 500) / 1000) + QStringLiteral("K");
    return QLocale().toString(double(value) / 1e6, 'f', value < 10'000'000 ? 1 : 0) + QStringLiteral("M");
}

QString bytesText(qint64 value)
{
    return value < 0 ? dash() : QLocale().formattedDataSize(value, 1, QLocale::DataSizeIecFormat);
}

QString rateText(double value, int decimals)
{
    return value < 0 || !std::isfinite(value) ? dash() : QLocale().toString(value, 'f', decimals);
}

QString percentText(double share)
{
    return share < 0 || !std::isfinite(share) ? dash() : QStringLiteral("%1%").arg(qRound(share * 100));
}

QString durationText(double seconds)
{
    if (seconds < 0 || !std::isfinite(seconds))
        return dash();
    const qint64 whole = qint64(std::ceil(seconds));
    const auto two = [](qint64 n) { return QStringLiteral("%1").arg(n, 2, 10, QLatin1Char('0')); };
    if (whole < 3600)
        return QStringLiteral("%1:%2").arg(QString::number(whole / 60), two(whole % 60));
    return QStringLiteral("%1:%2:%3").arg(QString::number(whole / 3600), two(whole / 60 % 60), two(whole % 60));
}

QString plainTip(const QString& text)
{
    return Qt::mightBeRichText(text)
               ? QStringLiteral("<p style='white-space:pre-wrap'>%1</p>").arg(text.toHtmlEscaped())
               : text;
}

} // namespace octavo::ui
