#include "ui/settings/model_page.h"

#include "ui/problem_text.h"
#include "ui/take_up.h"

#include "agents/workbench.h"
#include "ui/settings/settings_form.h"

#include <QFileDialog>
#include <QHBoxLayout>
#include <QLocale>
#include <QVBoxLayout>

namespace octavo::ui {

namespace {

constexpr int examineDelayMs = 300;

QString parametersText(qint64 parameters)
{
    return parameters >= 1'000'000'000
               ? ModelPage::tr("%1B parameters").arg(QLocale().toString(double(parameters) / 1e9, 'f', 1))
               : ModelPage::tr("%1M parameters").arg(double(parameters) / 1e6, 0, 'f', 0);
}

} // namespace

ModelPage::ModelPage(const StartupSettings& settings, const QString& running, QWidget* parent)
    : QWidget(parent)
    , m_running(running)
    , m_contextLimit(settings.contextLimit)
{
    m_folder = new QLineEdit(settings.modelFolder);
    m_folder->setObjectName(QStringLiteral("modelFolder"));
    m_folder->setAccessibleName(tr("Folder of the model"));
    m_folder->setPlaceholderText(tr("The demo model that comes with Octavo"));
    m_folder->setClearButtonEnabled(true);
    auto* browseButton = makeButton(tr("Browse…"));
    browseButton->setAutoDefault(false);
    connect(browseButton, &QPushButton::clicked, this, &ModelPage::browse);
    m_device = new QComboBox;
    m_device->setObjectName(QStringLiteral("device"));
    m_device->setAccessibleName(tr("Device"));
    m_device->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon); // wide as the page, not as its words
    m_device->addItem(tr("Automatic: the GPUs that are there, else the CPU"), QString());
    if (!settings.device.isEmpty()) {
        m_device->addItem(settings.device, settings.device);
        m_device->setCurrentIndex(1);
    }
    takeUp(agents::deviceChoices(), this, [this](const QList<agents::DeviceChoice>& choices) {
        for (const agents::DeviceChoice& choice : choices) {
            const QString text =
                tr("%1 · %2 · %3").arg(choice.device, choice.description, bytesText(choice.memoryTotalBytes));
            if (const int known = m_device->findData(choice.device); known >= 0)
                m_device->setItemText(known, text);
            else
                m_device->addItem(text, choice.device);
        }
    });

    auto* folderRow = new QHBoxLayout;
    folderRow->addWidget(m_folder, 1);
    folderRow->addWidget(browseButton);
    folderRow->setSpacing(metrics::gap);
    auto* deviceRow = new QHBoxLayout;
    deviceRow->addWidget(m_device, 1);
    QVBoxLayout* layout = makeSettingsPage(this, tr("Model and device"), tr("Takes effect when Octavo starts next."));
    SettingsCard* choice = addSettingsCard(layout);
    choice->addWide(tr("Model"), m_folder, folderRow);
    choice->addWide(tr("Device"), m_device, deviceRow);

    m_card = new Card(Card::Fill::Panel);
    m_headline = new TextLabel(tr("Examining…"), TextRole::BodyStrong);
    m_headline->setObjectName(QStringLiteral("verdict"));
    m_headline->setWordWrap(true);
    m_details = new TextLabel({}, TextRole::Small, Tone::Muted);
    m_details->setWordWrap(true);
    m_memoryName = new TextLabel(tr("RAM"), TextRole::Small, Tone::Muted);
    m_memory = new SegmentBar([](qint64 bytes) { return bytesText(bytes); });
    m_memory->setAccessibleName(tr("Memory needed"));
    m_memoryFigure = new TextLabel({}, TextRole::Figure);
    m_problems = new TextLabel({}, TextRole::Body, Tone::Bad);
    m_problems->setWordWrap(true);
    m_problems->hide();
    auto* memory = new QHBoxLayout;
    memory->addWidget(m_memoryName);
    memory->addWidget(m_memory, 1);
    memory->addWidget(m_memoryFigure);
    auto* inner = new QVBoxLayout(m_card);
    inner->setContentsMargins(16, metrics::padding, 16, metrics::padding);
    inner->addWidget(m_headline);
    inner->addWidget(m_details);
    inner->addLayout(memory);
    inner->addWidget(m_problems);

    layout->addSpacing(metrics::grid);
    layout->addWidget(m_card);
    layout->addStretch(1);

    m_timer.setSingleShot(true);
    m_timer.setInterval(examineDelayMs);
    connect(&m_timer, &QTimer::timeout, this, &ModelPage::examine);
    connect(m_folder, &QLineEdit::textChanged, this, [this] {
        m_timer.start();
        emit changed();
    });
    connect(m_device, &QComboBox::currentIndexChanged, this, [this] {
        m_timer.start();
        emit changed();
    });
    examine();
}

QString ModelPage::folder() const
{
    return m_folder->text().trimmed();
}

QString ModelPage::device() const
{
    return m_device->currentData().toString();
}

void ModelPage::browse()
{
    auto* dialog = new QFileDialog(this, tr("Choose a model"), m_folder->text());
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    dialog->setFileMode(QFileDialog::Directory);
    connect(dialog, &QFileDialog::fileSelected, m_folder, &QLineEdit::setText);
    dialog->open();
}

void ModelPage::examine()
{
    const int round = ++m_round;
    const QString folder = this->folder().isEmpty() ? m_running : this->folder();
    takeUp(agents::examineModel(folder, device().isEmpty() ? QStringLiteral("auto") : device(), agents::numAgents,
                                m_contextLimit),
           this, [this, round](const Result<agents::ModelVerdict>& verdict) {
               if (round == m_round)
                   showVerdict(verdict);
           });
}

void ModelPage::showVerdict(const Result<agents::ModelVerdict>& verdict)
{
    const bool readable = bool(verdict);
    m_memory->setVisible(readable);
    m_memoryName->setVisible(readable);
    m_memoryFigure->setVisible(readable);
    m_details->setVisible(readable);
    if (!readable) {
        m_card->setOutline(Tone::Bad);
        m_headline->setTone(Tone::Bad);
        m_headline->setText(tr("This model cannot be loaded."));
        m_problems->setText(problemText(verdict.error()));
        m_problems->show();
        return;
    }
    const agents::ModelVerdict& v = *verdict;
    const bool onGpu = v.deviceNeeded > 0;
    m_card->setOutline(v.fits ? Tone::Good : Tone::Warning);
    m_headline->setTone(v.fits ? Tone::Good : Tone::Warning);
    if (v.fits)
        m_headline->setText(tr("%1 fits: %2 agents of up to %3 tokens each.")
                                .arg(v.name, QString::number(v.agents), countText(v.contextTokens)));
    else if (v.problems.isEmpty())
        m_headline->setText(
            v.longestContext > 0
                ? tr("%1 runs, but not with %2 agents of %3 tokens: %4 tokens each would fit.")
                      .arg(v.name, QString::number(v.agents), countText(v.contextTokens), countText(v.longestContext))
                : tr("%1 does not fit into the memory that is free.").arg(v.name));
    else
        m_headline->setText(tr("%1 cannot run as it is.").arg(v.name));
    QStringList details{parametersText(v.parameters), tr("%1 on disk").arg(bytesText(v.fileBytes))};
    for (const auto& [format, modules] : v.formats)
        details += tr("%1: %n modules", nullptr, modules).arg(format);
    if (onGpu)
        details +=
            tr("%1 of %2 VRAM").arg(bytesText(v.deviceNeeded), v.deviceTotal > 0 ? bytesText(v.deviceTotal) : dash());
    m_details->setText(details.join(QStringLiteral(" · ")));
    QList<BarSegment> segments;
    const qint64 weights = onGpu ? 0 : std::min(v.weightBytes, v.ramNeeded);
    if (weights > 0)
        segments += {tr("Weights"), weights, colors().muted};
    segments += {tr("Contexts, if all are full"), v.ramNeeded - weights, colors().keyword};
    m_memory->setSegments(segments, v.ramTotal);
    m_memoryFigure->setText(
        tr("%1 of %2 free").arg(bytesText(v.ramNeeded), v.ramTotal > 0 ? bytesText(v.ramTotal) : dash()));
    QStringList problems;
    for (const QString& problem : v.problems)
        problems += problemText(problem);
    m_problems->setText(problems.join(u'\n'));
    m_problems->setVisible(!v.problems.isEmpty());
}

} // namespace octavo::ui
