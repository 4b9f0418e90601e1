#include "ui/wizard/read_page.h"

#include "ui/problem_text.h"

#include <QHBoxLayout>
#include <QVBoxLayout>

namespace octavo::ui {

namespace {

/// Of the widest mark, so that the names stand below each other.
int markWidth()
{
    const QFontMetrics text(ui::font(TextRole::BodyStrong));
    int width = 0;
    for (const char16_t mark : {u'\u25cb', u'\u25cf', u'\u2713'})
        width = std::max(width, text.horizontalAdvance(QChar(mark)));
    return width + metrics::grid;
}

} // namespace

ReadPage::ReadPage(QWidget* parent)
    : QWidget(parent)
{
    m_heading = new TextLabel({}, TextRole::Heading);
    auto* hint = new TextLabel(tr("It is read once and shared by all panes on this commit. You may close this window: "
                                  "reading goes on."),
                               TextRole::Small, Tone::Muted);
    m_card = new Card(Card::Fill::Background);
    auto* inner = new QVBoxLayout(m_card);
    inner->setContentsMargins(16, 16, 16, 16);
    inner->setSpacing(metrics::gap);
    m_packing = addStage(inner, tr("Pack the files and turn them into tokens"));
    m_reading = addStage(inner, tr("Read the tokens into memory"));
    m_progress = new QProgressBar;
    m_progress->setObjectName(QStringLiteral("reading"));
    m_progress->setAccessibleName(tr("Reading"));
    m_progress->setTextVisible(false);
    m_progress->setFixedHeight(8);
    m_figures = new TextLabel({}, TextRole::Figure, Tone::Muted);
    m_figures->setObjectName(QStringLiteral("readingFigures"));
    auto* progress = new QVBoxLayout;
    progress->setContentsMargins(markWidth() + metrics::gap, 0, 0, metrics::gap);
    progress->addWidget(m_progress);
    progress->addWidget(m_figures);
    inner->addLayout(progress);
    m_ready = addStage(inner, tr("Ready for questions"));
    m_problem = new TextLabel({}, TextRole::Body, Tone::Bad);
    m_problem->setWordWrap(true);
    m_problem->hide();
    inner->addWidget(m_problem);
    m_stop = makeButton(tr("Stop reading"));
    m_stop->setObjectName(QStringLiteral("stopReading"));
    connect(m_stop, &QPushButton::clicked, this, [this] {
        if (m_isReading)
            emit stopRequested();
        else
            emit resumeRequested();
    });
    inner->addWidget(m_stop, 0, Qt::AlignLeft);

    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins({});
    layout->setSpacing(metrics::padding);
    layout->addWidget(m_heading);
    layout->addWidget(hint);
    layout->addWidget(m_card);
    layout->addStretch(1);
}

ReadPage::Stage ReadPage::addStage(QVBoxLayout* layout, const QString& name)
{
    Stage stage{new TextLabel(QStringLiteral("○"), TextRole::BodyStrong, Tone::Muted), new TextLabel(name)};
    stage.mark->setMinimumWidth(markWidth());
    auto* row = new QHBoxLayout;
    row->addWidget(stage.mark);
    row->addWidget(stage.name, 1);
    layout->addLayout(row);
    return stage;
}

void ReadPage::setStage(const Stage& stage, bool done, bool running)
{
    stage.mark->setText(done ? QStringLiteral("✓") : running ? QStringLiteral("●") : QStringLiteral("○"));
    stage.mark->setTone(done ? Tone::Good : running ? Tone::Accent : Tone::Muted);
    stage.name->setTone(done || running ? Tone::Normal : Tone::Muted);
    stage.name->setAccessibleDescription(done ? tr("done") : running ? tr("running") : tr("to come"));
}

void ReadPage::showContext(const agents::ContextInfo& context)
{
    using agents::ContextState;
    const ContextState state = context.state;
    m_heading->setText(tr("%1 @ %2").arg(context.name, context.commit.left(7)));
    const bool packed = state == ContextState::Ready || state == ContextState::Reading || state == ContextState::Read;
    setStage(m_packing, packed, state == ContextState::Preparing);
    setStage(m_reading, state == ContextState::Read, state == ContextState::Reading);
    setStage(m_ready, state == ContextState::Read, false);

    if (state == ContextState::Reading && m_firstDone < 0 && context.readDone > 0) {
        m_firstDone = context.readDone;
        m_clock.start();
    } else if (state != ContextState::Reading) {
        m_firstDone = -1;
    }
    const qint64 total = context.readTotal > 0 ? context.readTotal : context.tokens;
    m_progress->setRange(0, state == ContextState::Preparing ? 0 : int(std::max<qint64>(1, total)));
    m_progress->setValue(int(context.readDone));
    QStringList figures{tr("%1 of %2 tokens").arg(countText(context.readDone), countText(total))};
    if (state == ContextState::Reading && context.readReused > 0 && total > 0)
        figures += tr("resumed at %1%").arg(context.readReused * 100 / total);
    if (m_firstDone >= 0 && context.readDone > m_firstDone && m_clock.elapsed() > 200)
        figures += tr("%1 tok/s").arg(countText((context.readDone - m_firstDone) * 1000 / m_clock.elapsed()));
    if (state == ContextState::Reading && context.secondsLeft >= 0)
        figures += tr("%1 left").arg(durationText(context.secondsLeft));
    if (state == ContextState::Ready && context.readDone > 0 && total > 0)
        figures += tr("stopped at %1%; it goes on from there, at once or when a question needs it")
                       .arg(context.readDone * 100 / total);
    else if (state == ContextState::Ready)
        figures += tr("stopped; it is read once a question needs it");
    m_figures->setText(figures.join(QStringLiteral(" · ")));

    const bool failed = state == ContextState::Failed;
    m_problem->setVisible(failed);
    m_problem->setText(problemText(context.problem));
    m_card->setOutline(failed ? Tone::Bad : Tone::Normal);
    m_isReading = state == ContextState::Reading || state == ContextState::Preparing;
    m_stop->setVisible(state != ContextState::Read);
    m_stop->setEnabled(state != ContextState::Preparing);
    m_stop->setText(m_isReading ? tr("Stop reading") : failed ? tr("Try again") : tr("Resume reading"));
    m_stop->setAccessibleName(m_stop->text());
}

} // namespace octavo::ui
