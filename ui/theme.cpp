#include "ui/theme.h"

#include "ui/style/style.h"

#include <QApplication>
#include <QFontDatabase>
#include <QIconEngine>
#include <QPainter>
#include <QPalette>
#include <QPixmap>
#include <QPointer>
#include <QStyleFactory>
#include <QSvgRenderer>

#include <cmath>

namespace octavo::ui {
namespace {

Colors darkColors()
{
    Colors c;
    c.background = 0x0e1117;
    c.panel = 0x151a22;
    c.raised = 0x1b222d;
    c.hover = 0x232c39;
    c.line = 0x262e3b;
    c.text = 0xd9e0ea;
    c.muted = 0x8793a5;
    c.accent = c.accentText = 0x4cc2b0;
    c.onAccent = 0x0b1613;
    c.good = c.goodText = 0x5fc08b;
    c.warning = c.warningText = 0xe0a84e;
    c.bad = c.badText = 0xe2706f;
    c.selection = 0x274f56;
    c.question = 0x1f2b38;
    c.codeBlock = 0x0e1117;
    c.codeHeader = 0x12161d;
    c.track = 0x262e3b;
    c.keyword = 0xb08cf0;
    c.type = 0x5fcbd3;
    c.function = 0x58a6e8;
    c.string = 0x8fcf9a;
    c.number = 0xf0a155;
    c.comment = 0x8793a5;
    c.agents = {QColor(0x58a6e8), QColor(0x6cc59b), QColor(0xf0a155), QColor(0xe5738d),
                QColor(0xb08cf0), QColor(0xe3c55b), QColor(0x5fcbd3), QColor(0x9fb27e)};
    return c;
}

Colors lightColors()
{
    Colors c;
    c.background = 0xeef1f5;
    c.panel = 0xffffff;
    c.raised = 0xf6f8fb;
    c.hover = 0xe9edf3;
    c.line = 0xd9dfe8;
    c.text = 0x1d2733;
    c.muted = 0x5f6b7b;
    c.accent = 0x0f8a7a;
    c.accentText = 0x0c7567;
    c.onAccent = 0xffffff;
    c.good = 0x2d8a57;
    c.goodText = 0x257248;
    c.warning = 0xa86f12;
    c.warningText = 0x8a5a0c;
    c.bad = 0xb7403f;
    c.badText = 0xb03a39;
    c.selection = 0xbfe3dd;
    c.question = 0xe2f1ee;
    c.codeBlock = 0xf4f7fa;
    c.codeHeader = 0xeaeff5;
    c.track = 0xd9dfe8;
    c.keyword = 0x7a4fd0;
    c.type = 0x0f6f78;
    c.function = 0x1b66a8;
    c.string = 0x257248;
    c.number = 0x97520c;
    c.comment = 0x5f6b7b;
    c.agents = {QColor(0x1f74bf), QColor(0x2c8c62), QColor(0xb86a16), QColor(0xb83a5d),
                QColor(0x7a4fd0), QColor(0x8f7410), QColor(0x12808a), QColor(0x5f7440)};
    return c;
}

Colors highContrastColors()
{
    Colors c = darkColors();
    c.background = Qt::black;
    c.panel = Qt::black;
    c.raised = 0x0c0c0c;
    c.hover = 0x262626;
    c.line = 0xc8c8c8;
    c.text = 0xffffff;
    c.muted = 0xe2e2e2;
    c.accent = c.accentText = 0x4dffe3;
    c.onAccent = Qt::black;
    c.good = c.goodText = 0x7dffae;
    c.warning = c.warningText = 0xffd166;
    c.bad = c.badText = 0xff9a99;
    c.selection = 0x00574c;
    c.question = 0x1c1c1c;
    c.codeBlock = Qt::black;
    c.codeHeader = 0x161616;
    c.track = 0x4a4a4a;
    c.keyword = 0xd3bdff;
    c.type = 0x8ff3fa;
    c.function = 0x9fd2ff;
    c.string = 0xb0f5b8;
    c.number = 0xffc58f;
    c.comment = 0xe2e2e2;
    return c;
}

bool isDark(const QPalette& palette)
{
    return palette.color(QPalette::Window).lightnessF() < palette.color(QPalette::WindowText).lightnessF();
}

QPalette applicationPalette(const Colors& c)
{
    QPalette p;
    p.setColor(QPalette::Window, c.background);
    p.setColor(QPalette::WindowText, c.text);
    p.setColor(QPalette::Base, c.panel);
    p.setColor(QPalette::AlternateBase, c.raised);
    p.setColor(QPalette::Text, c.text);
    p.setColor(QPalette::PlaceholderText, c.muted);
    p.setColor(QPalette::Button, c.raised);
    p.setColor(QPalette::ButtonText, c.text);
    p.setColor(QPalette::BrightText, c.bad);
    p.setColor(QPalette::Highlight, c.selection);
    p.setColor(QPalette::HighlightedText, c.text);
    p.setColor(QPalette::Link, c.accentText);
    p.setColor(QPalette::LinkVisited, c.accentText);
    p.setColor(QPalette::ToolTipBase, c.raised);
    p.setColor(QPalette::ToolTipText, c.text);
    p.setColor(QPalette::Light, c.line);
    p.setColor(QPalette::Midlight, c.line);
    p.setColor(QPalette::Mid, c.line);
    p.setColor(QPalette::Dark, c.line);
    p.setColor(QPalette::Shadow, c.background);
    const QColor faded = mixed(c.panel, c.muted, 0.65);
    for (const auto role : {QPalette::WindowText, QPalette::Text, QPalette::ButtonText})
        p.setColor(QPalette::Disabled, role, faded);
    return p;
}

QString firstInstalled(std::initializer_list<const char*> families, QFontDatabase::SystemFont fallback)
{
    const QStringList installed = QFontDatabase::families();
    for (const char* family : families) {
        if (installed.contains(QLatin1String(family), Qt::CaseInsensitive))
            return QLatin1String(family);
    }
    return QFontDatabase::systemFont(fallback).family();
}

/// Draws an SVG of ours in a colour of the theme; asked anew at each paint, so it follows the theme.
class TintedIconEngine final : public QIconEngine
{
public:
    TintedIconEngine(QString file, Tone tone)
        : m_file(std::move(file))
        , m_tone(tone)
    {
    }

    QPixmap pixmap(const QSize& size, QIcon::Mode mode, QIcon::State state) override
    {
        QPixmap result(size);
        result.fill(Qt::transparent);
        QPainter painter(&result);
        paint(&painter, QRect(QPoint(), size), mode, state);
        return result;
    }

    void paint(QPainter* painter, const QRect& rect, QIcon::Mode mode, QIcon::State state) override
    {
        QColor color = Theme::instance()->color(m_tone);
        if (mode == QIcon::Disabled)
            color.setAlphaF(0.45F);
        else if (mode == QIcon::Active && m_tone == Tone::Muted)
            color = colors().text;
        else if (state == QIcon::On)
            color = colors().accentText;
        const qreal ratio = painter->device() ? painter->device()->devicePixelRatioF() : 1.0;
        QImage image((QSizeF(rect.size()) * ratio).toSize(), QImage::Format_ARGB32_Premultiplied);
        image.fill(Qt::transparent);
        QSvgRenderer renderer(m_file);
        renderer.setAspectRatioMode(Qt::KeepAspectRatio);
        QPainter tint(&image);
        renderer.render(&tint, QRectF(QPointF(), QSizeF(image.size())));
        tint.setCompositionMode(QPainter::CompositionMode_SourceIn);
        tint.fillRect(image.rect(), color);
        tint.end();
        image.setDevicePixelRatio(ratio);
        painter->drawImage(QRectF(rect), image);
    }

    QIconEngine* clone() const override { return new TintedIconEngine(m_file, m_tone); }

private:
    QString m_file;
    Tone m_tone;
};

} // namespace

Theme* Theme::instance()
{
    static QPointer<Theme> theme;
    if (!theme)
        theme = new Theme(qApp);
    return theme;
}

Theme::Theme(QObject* parent)
    : QObject(parent)
    , m_colors(darkColors())
    , m_sans(firstInstalled({"Inter", "Inter Variable"}, QFontDatabase::GeneralFont))
    , m_mono(firstInstalled({"JetBrains Mono", "Cascadia Code", "DejaVu Sans Mono"}, QFontDatabase::FixedFont))
{
}

void Theme::apply(SchemeChoice choice, qreal textScale)
{
    m_choice = choice;
    m_textScale = qBound(0.75, textScale, 3.0);
    switch (choice) {
    case SchemeChoice::Light:
        m_scheme = ColorScheme::Light;
        break;
    case SchemeChoice::Dark:
        m_scheme = ColorScheme::Dark;
        break;
    case SchemeChoice::HighContrast:
        m_scheme = ColorScheme::HighContrast;
        break;
    case SchemeChoice::System:
        // An unset palette resolves to the desktop's own.
        QApplication::setPalette(QPalette());
        m_scheme = isDark(QApplication::palette()) ? ColorScheme::Dark : ColorScheme::Light;
        break;
    }
    switch (m_scheme) {
    case ColorScheme::Light:
        m_colors = lightColors();
        break;
    case ColorScheme::Dark:
        m_colors = darkColors();
        break;
    case ColorScheme::HighContrast:
        m_colors = highContrastColors();
        break;
    }
    if (!m_styled) {
        QApplication::setStyle(new Style);
        m_styled = true;
    }
    QApplication::setPalette(applicationPalette(m_colors));
    QApplication::setFont(font(TextRole::Body));
    emit changed();
}

void Theme::followSystem()
{
    if (m_choice == SchemeChoice::System)
        apply(m_choice, m_textScale);
}

QColor Theme::color(Tone tone) const
{
    switch (tone) {
    case Tone::Normal:
        return m_colors.text;
    case Tone::Muted:
        return m_colors.muted;
    case Tone::Accent:
        return m_colors.accentText;
    case Tone::Good:
        return m_colors.goodText;
    case Tone::Warning:
        return m_colors.warningText;
    case Tone::Bad:
        return m_colors.badText;
    }
    return m_colors.text;
}

QFont Theme::font(TextRole role) const
{
    const bool mono = role == TextRole::Code || role == TextRole::Figure;
    QFont f(mono ? m_mono : m_sans);
    const auto size = [&](qreal pixels, QFont::Weight weight = QFont::Normal) {
        f.setPointSizeF(pixels * 0.75 * m_textScale); // points at 96 per inch, so the desktop's text scaling counts too
        f.setWeight(weight);
    };
    f.setStyleHint(mono ? QFont::Monospace : QFont::SansSerif);
    f.setFixedPitch(mono);
    switch (role) {
    case TextRole::Body:
        size(13);
        break;
    case TextRole::BodyStrong:
        size(13, QFont::DemiBold);
        break;
    case TextRole::Small:
        size(11.5);
        break;
    case TextRole::SmallStrong:
        size(11.5, QFont::DemiBold);
        break;
    case TextRole::Section:
        size(11, QFont::Medium);
        f.setLetterSpacing(QFont::AbsoluteSpacing, 0.6 * m_textScale);
        break;
    case TextRole::Title:
        size(15, QFont::DemiBold);
        break;
    case TextRole::Heading:
        size(20, QFont::DemiBold);
        break;
    case TextRole::BigFigure:
        size(22, QFont::Bold);
        break;
    case TextRole::Code:
    case TextRole::Figure:
        size(11.5);
        break;
    }
    return f;
}

QString Theme::name(SchemeChoice choice)
{
    switch (choice) {
    case SchemeChoice::System:
        break;
    case SchemeChoice::Light:
        return QStringLiteral("light");
    case SchemeChoice::Dark:
        return QStringLiteral("dark");
    case SchemeChoice::HighContrast:
        return QStringLiteral("contrast");
    }
    return QStringLiteral("system");
}

SchemeChoice Theme::choiceFromName(const QString& name)
{
    for (const auto choice : {SchemeChoice::Light, SchemeChoice::Dark, SchemeChoice::HighContrast}) {
        if (Theme::name(choice) == name)
            return choice;
    }
    return SchemeChoice::System;
}

QColor agentColor(int index)
{
    const auto& agents = colors().agents;
    return agents[std::size_t(qBound(0, index, int(agents.size()) - 1))];
}

QIcon icon(const QString& name, Tone tone)
{
    return QIcon(new TintedIconEngine(QStringLiteral(":/icons/") + name + QStringLiteral(".svg"), tone));
}

QColor mixed(const QColor& base, const QColor& over, qreal amount)
{
    const auto channel = [&](int a, int b) { return int(std::lround(a + (b - a) * amount)); };
    return QColor(channel(base.red(), over.red()), channel(base.green(), over.green()),
                  channel(base.blue(), over.blue()));
}

qreal contrastRatio(const QColor& a, const QColor& b)
{
    const auto luminance = [](const QColor& color) {
        const auto linear = [](qreal v) { return v <= 0.03928 ? v / 12.92 : std::pow((v + 0.055) / 1.055, 2.4); };
        return 0.2126 * linear(color.redF()) + 0.7152 * linear(color.greenF()) + 0.0722 * linear(color.blueF());
    };
    const qreal la = luminance(a), lb = luminance(b);
    return (qMax(la, lb) + 0.05) / (qMin(la, lb) + 0.05);
}

} // namespace octavo::ui
