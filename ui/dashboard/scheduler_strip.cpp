#include "ui/dashboard/scheduler_strip.h"

#include "ui/theme.h"

#include <QFontMetrics>
#include <QLocale>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>

#include <cmath>

namespace octavo::ui {

using Kind = engine::WorkSpan::Kind;

namespace {

constexpr int captionGap = 4;

/// How a kind is drawn: its part of the lane's height, and how strong its colour is.
struct KindLook {
    Kind kind;
    double height;
    double strength;
};
constexpr KindLook looks[] = {{Kind::Prefill, 1.0, 0.42}, {Kind::Decode, 0.45, 0.9}, {Kind::Verify, 1.0, 1.0}};

} // namespace

SchedulerStrip::SchedulerStrip(QWidget* parent)
    : QWidget(parent)
{
    setMouseTracking(true);
    setAccessibleName(tr("Scheduler: what each agent's time went into"));
    setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
    connect(Theme::instance(), &Theme::changed, this, [this] { update(); });
}

int SchedulerStrip::columns(const TimeWindow& window) const
{
    // Spans are far shorter than the samples' distance, so the strip may be as fine as the screen.
    TimeWindow fine = window;
    fine.tickSeconds = 0.02;
    return fine.columns(std::max(1, int(width() * devicePixelRatioF())));
}

void SchedulerStrip::setCoverage(const LaneCoverage& coverage, const TimeWindow& window)
{
    m_window = window;
    if (coverage == m_coverage)
        return;
    m_coverage = coverage;
    update(0, captionHeight(), width(), height() - captionHeight());
}

int SchedulerStrip::captionHeight() const
{
    return QFontMetrics(ui::font(TextRole::Small)).height() + captionGap;
}

double SchedulerStrip::laneHeight() const
{
    return double(height() - captionHeight()) / numLanes();
}

QSize SchedulerStrip::sizeHint() const
{
    return {400, captionHeight() + 8 * numLanes()};
}

QSize SchedulerStrip::minimumSizeHint() const
{
    return {160, captionHeight() + 5 * numLanes()};
}

QImage SchedulerStrip::lanesImage(const QSize& pixels) const
{
    QImage image(pixels, QImage::Format_ARGB32_Premultiplied);
    image.fill(Qt::transparent);
    const double lane = double(pixels.height()) / m_coverage.lanes;
    const double inner = lane * 0.75;
    for (int l = 0; l < m_coverage.lanes; ++l) {
        const QColor color = l == contextLane ? colors().muted : agentColor(l);
        for (const KindLook& look : looks) {
            const int top = int(std::lround(l * lane + inner * (1 - look.height) / 2));
            const int rows = std::max(1, int(std::lround(inner * look.height)));
            auto* line = reinterpret_cast<QRgb*>(image.scanLine(top));
            for (int x = 0; x < pixels.width(); ++x) {
                const int column = int(qint64(x) * m_coverage.columns / pixels.width());
                const float share = m_coverage.at(look.kind, l, column);
                if (share <= 0.02F)
                    continue;
                const int alpha = int(255 * look.strength * (0.4 + 0.6 * double(share)));
                const QRgb pixel = qPremultiply(qRgba(color.red(), color.green(), color.blue(), alpha));
                for (int row = 0; row < rows && top + row < pixels.height(); ++row)
                    line[x + row * (image.bytesPerLine() / 4)] = pixel;
            }
        }
    }
    return image;
}

void SchedulerStrip::paintEvent(QPaintEvent* event)
{
    QPainter painter(this);
    const Colors& c = colors();
    if (event->rect().top() < captionHeight()) {
        painter.setFont(ui::font(TextRole::Small));
        const QFontMetrics metrics = painter.fontMetrics();
        painter.setPen(c.muted);
        const int baseline = metrics.ascent();
        painter.drawText(QPoint(0, baseline), tr("Scheduler"));
        const QString words[] = {tr("reading"), tr("writing"), tr("checking drafts")};
        int x = width();
        for (int k = int(std::size(looks)) - 1; k >= 0; --k) {
            x -= metrics.horizontalAdvance(words[k]);
            painter.drawText(QPoint(x, baseline), words[k]);
            x -= 20;
            QColor color = c.text;
            color.setAlphaF(float(looks[k].strength * 0.8));
            const double h = 8 * looks[k].height;
            painter.fillRect(QRectF(x, baseline - 4 - h / 2, 14, h), color);
            x -= 14;
        }
    }
    if (m_coverage.lanes == 0)
        return;
    const QRect plot(0, captionHeight(), width(), height() - captionHeight());
    const QColor track = mixed(c.raised, c.line, 0.55);
    for (int l = 0; l < m_coverage.lanes; ++l)
        painter.fillRect(QRectF(0, plot.top() + (l + 0.375) * laneHeight(), width(), 1), track);
    const qreal ratio = devicePixelRatioF();
    QImage image = lanesImage((QSizeF(plot.size()) * ratio).toSize());
    image.setDevicePixelRatio(ratio);
    painter.drawImage(plot.topLeft(), image);
}

QString SchedulerStrip::textAt(const QPoint& position) const
{
    if (m_coverage.lanes == 0 || position.y() < captionHeight())
        return {};
    const int lane = std::clamp(int((position.y() - captionHeight()) / laneHeight()), 0, m_coverage.lanes - 1);
    const int column = std::clamp(position.x() * m_coverage.columns / std::max(1, width()), 0, m_coverage.columns - 1);
    const QString words[] = {tr("reading"), tr("writing"), tr("checking drafts")};
    QStringList parts;
    for (const KindLook& look : looks) {
        if (const float share = m_coverage.at(look.kind, lane, column); share > 0.02F)
            parts += tr("%1 %2% of the time").arg(words[int(look.kind)]).arg(int(std::lround(100 * share)));
    }
    return tr("%1, %2 s ago: %3")
        .arg(lane == contextLane ? tr("Contexts") : m_names.value(lane, tr("Agent %1").arg(lane + 1)))
        .arg(QLocale().toString(m_window.secondsAgo(column, m_coverage.columns), 'f', 1))
        .arg(parts.isEmpty() ? tr("idle") : parts.join(QStringLiteral(", ")));
}

void SchedulerStrip::mouseMoveEvent(QMouseEvent* event)
{
    QToolTip::showText(event->globalPosition().toPoint(), textAt(event->position().toPoint()), this);
}

} // namespace octavo::ui
