#pragma once

/// Small building blocks that every part of the window shares: cards, labels with a role, buttons, meters, chips.
/// All of them follow the theme by themselves.

#include "ui/theme.h"

#include <QFrame>
#include <QLabel>
#include <QPushButton>
#include <QToolButton>
#include <QWidget>

#include <vector>

namespace octavo::ui {

enum class ButtonKind { Normal, Primary, Quiet, Danger };

/// What the style draws a button as. Kept in its dynamic property "kind".
ButtonKind buttonKind(const QWidget* button);
void setButtonKind(QWidget* button, ButtonKind kind);

/// A push button with words; its accessible name is `text`.
QPushButton* makeButton(const QString& text, ButtonKind kind = ButtonKind::Normal, QWidget* parent = nullptr);

/// A button that is an icon only; `name` is its tool tip and accessible name.
QToolButton* makeIconButton(const QString& iconName, const QString& name, QWidget* parent = nullptr);

/// Gives a window the size of `at100`, in pixels at 100% text, grown as its text is, as far as the screen has room;
/// grows it again when the text is made larger while it is open.
void sizeByText(QWidget* window, const QSize& at100);

/// `text` for a tooltip: shown as it is, never read as markup, whatever a repository or a question holds.
QString plainTip(const QString& text);

/// A label whose font and colour are a role and a tone of the theme. Shows plain text, never markup, and elides at its
/// end instead of asking for more room when setElided(true).
class TextLabel : public QLabel
{
    Q_OBJECT

public:
    explicit TextLabel(const QString& text = {}, TextRole role = TextRole::Body, Tone tone = Tone::Normal,
                       QWidget* parent = nullptr);

    void setRole(TextRole role);
    void setTone(Tone tone);
    Tone tone() const { return m_tone; }
    void setElided(bool elided);

    QSize minimumSizeHint() const override;

protected:
    void paintEvent(QPaintEvent* event) override;

private:
    void restyle();

    TextRole m_role;
    Tone m_tone;
    bool m_elided = false;
};

/// A rounded panel with a 1 px line. Put a layout inside.
class Card : public QFrame
{
    Q_OBJECT

public:
    enum class Fill { Panel, Raised, Background };
    explicit Card(Fill fill = Fill::Panel, QWidget* parent = nullptr);

    /// The line in the colour of `tone`; Tone::Normal gives the quiet one.
    void setOutline(Tone tone);

protected:
    void paintEvent(QPaintEvent* event) override;

private:
    Fill m_fill;
    Tone m_outline = Tone::Normal;
};

/// A short word in a small outlined box ("GPU 0", "Ctrl Shift A").
class Chip : public TextLabel
{
    Q_OBJECT

public:
    explicit Chip(const QString& text = {}, QWidget* parent = nullptr);

protected:
    void paintEvent(QPaintEvent* event) override;
};

/// A thin rounded bar filled by parts of a whole, from the left; what is not filled shows the track.
class Meter : public QWidget
{
    Q_OBJECT

public:
    struct Part {
        QColor color;
        double share = 0; ///< of the whole, 0..1
    };
    explicit Meter(QWidget* parent = nullptr);

    void setParts(std::vector<Part> parts);
    void setThickness(int pixels);
    QSize sizeHint() const override;

protected:
    void paintEvent(QPaintEvent* event) override;

private:
    std::vector<Part> m_parts;
    int m_thickness = 6;
};

/// A 1 px line across.
class Separator : public QWidget
{
    Q_OBJECT

public:
    explicit Separator(Qt::Orientation orientation = Qt::Horizontal, QWidget* parent = nullptr);

protected:
    void paintEvent(QPaintEvent* event) override;

private:
    Qt::Orientation m_orientation;
};

/// Numbers as people read them: "243,812", "41K", "3.2 GiB", "0:31". A negative value gives a dash: not known.
QString countText(qint64 value);
QString shortCountText(qint64 value);
QString bytesText(qint64 value);
QString rateText(double value, int decimals = 1);
QString percentText(double share);
QString durationText(double seconds);
inline QString dash()
{
    return QStringLiteral("\u2013");
}

} // namespace octavo::ui
