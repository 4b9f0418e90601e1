#pragma once

/// How Octavo looks: colours, fonts, spacing and icons, for light, dark and high contrast. One Theme per application.
///
/// Widgets take what they need from here when they paint and repaint on changed(); nothing keeps a colour.
/// Thread   GUI thread only.

#include <QColor>
#include <QFont>
#include <QIcon>
#include <QObject>

#include <array>

namespace octavo::ui {

/// Spacing on a grid of 4 px, radii and the few fixed sizes.
namespace metrics {
inline constexpr int grid = 4;
inline constexpr int gap = 8;            ///< between neighbours that belong together
inline constexpr int padding = 12;       ///< inside cards and panes
inline constexpr int radius = 6;         ///< buttons, fields, chips
inline constexpr int cardRadius = 8;     ///< panes, cards, dialogs
inline constexpr int controlHeight = 28; ///< buttons and one-line fields, at least
inline constexpr int headerHeight = 44;  ///< the bar at the top of the window
inline constexpr int sideWidth = 236;    ///< the list of contexts
} // namespace metrics

enum class ColorScheme { Light, Dark, HighContrast };
enum class SchemeChoice { System, Light, Dark, HighContrast };

/// All colours of one scheme. `...Text` are the variants that keep 4.5:1 on panel and raised; the plain ones fill.
struct Colors {
    QColor background, panel, raised, hover, line, text, muted;
    QColor accent, onAccent, good, warning, bad;
    QColor accentText, goodText, warningText, badText;
    QColor selection;                                        ///< of text
    QColor question;                                         ///< the bubble of a question, the chosen row of a list
    QColor codeBlock, codeHeader;                            ///< the quiet block under code
    QColor track;                                            ///< the empty part of a meter
    QColor keyword, type, function, string, number, comment; ///< of highlighted code
    std::array<QColor, 8> agents;                            ///< identify agents (dot, meter, chart) and nothing else
};

enum class TextRole {
    Body,       ///< 13 px
    BodyStrong, ///< 13 px, semi-bold
    Small,      ///< 11.5 px: secondary lines, chips
    SmallStrong,
    Section,   ///< 11 px, letter-spaced: CONTEXTS, HISTORY
    Title,     ///< 15 px, semi-bold: cards, dialogs
    Heading,   ///< 20 px, semi-bold: a page's name
    BigFigure, ///< 22 px, bold
    Code,      ///< 11.5 px monospace
    Figure,    ///< 11.5 px monospace: figures with digits of equal width
};

/// Which colour a text has, by meaning.
enum class Tone { Normal, Muted, Accent, Good, Warning, Bad };

class Theme final : public QObject
{
    Q_OBJECT
    Q_DISABLE_COPY_MOVE(Theme)

public:
    /// Made on first use; owned by the application.
    static Theme* instance();

    /// Sets style, palette and font of the application. System asks the desktop's palette whether it is dark.
    void apply(SchemeChoice choice, qreal textScale = 1.0);
    SchemeChoice choice() const { return m_choice; }
    ColorScheme scheme() const { return m_scheme; }
    qreal textScale() const { return m_textScale; }

    /// Looks at the desktop's palette again; call on QEvent::ThemeChange.
    void followSystem();

    const Colors& colors() const { return m_colors; }
    QColor color(Tone tone) const;
    QFont font(TextRole role) const;

    static QString name(SchemeChoice choice); ///< "system", "light", "dark", "contrast": for settings
    static SchemeChoice choiceFromName(const QString& name);

signals:
    void changed();

private:
    explicit Theme(QObject* parent);

    SchemeChoice m_choice = SchemeChoice::System;
    ColorScheme m_scheme = ColorScheme::Dark;
    qreal m_textScale = 1.0;
    Colors m_colors;
    QString m_sans, m_mono;
    bool m_styled = false;
};

inline const Colors& colors()
{
    return Theme::instance()->colors();
}
inline QFont font(TextRole role)
{
    return Theme::instance()->font(role);
}

/// The colour that identifies agent `index` (0..7).
QColor agentColor(int index);

/// One of resources/icons, drawn in the theme's muted text colour (or `tone`'s) at any size; follows theme changes.
QIcon icon(const QString& name, Tone tone = Tone::Muted);

/// `amount` of `over` mixed into `base`; both opaque.
QColor mixed(const QColor& base, const QColor& over, qreal amount);

/// Contrast ratio of two opaque colours as WCAG 2 has it: 1..21.
qreal contrastRatio(const QColor& a, const QColor& b);

} // namespace octavo::ui
