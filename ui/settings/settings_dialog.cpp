#include "ui/settings/settings_dialog.h"

#include "ui/setting_keys.h"
#include "ui/settings/memory_page.h"
#include "ui/settings/model_page.h"
#include "ui/settings/settings_form.h"
#include "ui/settings/shortcuts_page.h"

#include <QFormLayout>
#include <QHBoxLayout>
#include <QPainter>
#include <QScrollArea>
#include <QStyledItemDelegate>
#include <QVBoxLayout>

#include <limits>

namespace octavo::ui {

namespace {

constexpr int rowMargin = 10, rowPadding = 12;

/// The name of a page: a rounded row, as in the window's lists.
class PageDelegate final : public QStyledItemDelegate
{
public:
    using QStyledItemDelegate::QStyledItemDelegate;

    QSize sizeHint(const QStyleOptionViewItem&, const QModelIndex& index) const override
    {
        const QFontMetrics text(ui::font(TextRole::BodyStrong));
        return {text.horizontalAdvance(index.data().toString()) + 2 * (rowMargin + rowPadding), text.height() + 18};
    }

    void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override
    {
        const Colors& c = colors();
        const bool chosen = option.state.testFlag(QStyle::State_Selected);
        const QRectF row = QRectF(option.rect).adjusted(rowMargin, 1, -rowMargin, -1);
        painter->save();
        painter->setRenderHint(QPainter::Antialiasing);
        const bool focused = option.state.testFlag(QStyle::State_HasFocus) &&
                             option.state.testFlag(QStyle::State_KeyboardFocusChange);
        painter->setPen(focused ? QPen(c.accent) : QPen(Qt::NoPen));
        painter->setBrush(chosen                                              ? QBrush(c.question)
                          : option.state.testFlag(QStyle::State_MouseOver) ? QBrush(mixed(c.panel, c.hover, 0.7))
                                                                              : QBrush(Qt::NoBrush));
        painter->drawRoundedRect(row, metrics::radius, metrics::radius);
        painter->setFont(ui::font(chosen ? TextRole::BodyStrong : TextRole::Body));
        painter->setPen(chosen ? c.text : c.muted);
        painter->drawText(row.adjusted(rowPadding, 0, -rowPadding, 0), Qt::AlignVCenter, index.data().toString());
        painter->restore();
    }
};

/// Pages scroll where text is large or the window small.
QScrollArea* scrolling(QWidget* page)
{
    auto* area = new QScrollArea;
    area->setFrameShape(QFrame::NoFrame);
    area->setWidgetResizable(true);
    area->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    area->setFocusPolicy(Qt::NoFocus);
    area->viewport()->setAutoFillBackground(false);
    page->setAutoFillBackground(false);
    page->setContentsMargins(0, 0, metrics::padding, 0);
    area->setWidget(page);
    return area;
}

} // namespace

SettingsDialog::SettingsDialog(agents::Workbench* workbench, const QList<QAction*>& commands,
                               const StartupSettings& settings, const QString& file, QWidget* parent)
    : QDialog(parent)
    , m_workbench(workbench)
    , m_file(file)
    , m_settings(settings)
{
    setWindowTitle(tr("Settings"));
    resize(860, 600);
    m_settings.sampling = workbench->sampling();
    m_settings.maxNewTokens = workbench->maxNewTokens();
    m_settings.drafts = workbench->drafts();

    m_model = new ModelPage(m_settings, QString::fromStdString(workbench->model().dir.string()));
    m_stack = new QStackedWidget;
    m_memory = new MemoryPage(m_settings);
    for (QWidget* page :
         {buildAppearance(), static_cast<QWidget*>(m_model), buildAnswers(), static_cast<QWidget*>(m_memory),
          static_cast<QWidget*>(new ShortcutsPage(workbench, commands))})
        m_stack->addWidget(scrolling(page));

    m_pages = new QListWidget;
    m_pages->setObjectName(QStringLiteral("pages"));
    m_pages->setAccessibleName(tr("Pages"));
    m_pages->setFrameShape(QFrame::NoFrame);
    m_pages->viewport()->setAutoFillBackground(false);
    m_pages->addItems({tr("Appearance"), tr("Model and device"), tr("Answers"), tr("Memory"), tr("Shortcuts")});
    m_pages->setItemDelegate(new PageDelegate(m_pages));
    m_pages->setMouseTracking(true);
    m_pages->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    const auto fitPages = [this] { m_pages->setFixedWidth(qMax(190, m_pages->sizeHintForColumn(0))); };
    fitPages();
    connect(Theme::instance(), &Theme::changed, this, [this, fitPages] {
        m_pages->doItemsLayout();
        fitPages();
    });
    connect(m_pages, &QListWidget::currentRowChanged, m_stack, &QStackedWidget::setCurrentIndex);
    m_pages->setCurrentRow(Appearance);

    auto* close = makeButton(tr("Close"));
    close->setObjectName(QStringLiteral("close"));
    close->setAutoDefault(false);
    connect(close, &QPushButton::clicked, this, &QDialog::accept);
    connect(m_model, &ModelPage::changed, this, &SettingsDialog::keep);
    connect(m_memory, &MemoryPage::changed, this, &SettingsDialog::keep);

    auto* right = new QVBoxLayout;
    right->setContentsMargins(24, 20, 24, 20);
    right->addWidget(m_stack, 1);
    right->addWidget(close, 0, Qt::AlignRight);
    auto* pages = new QVBoxLayout;
    pages->setContentsMargins(0, 16, 0, 0); // the first page in line with the heading
    pages->addWidget(m_pages);
    auto* layout = new QHBoxLayout(this);
    layout->setContentsMargins({});
    layout->setSpacing(0);
    layout->addLayout(pages);
    layout->addWidget(new Separator(Qt::Vertical));
    layout->addLayout(right, 1);
}

void SettingsDialog::setPage(Page page)
{
    m_pages->setCurrentRow(page);
}

QWidget* SettingsDialog::buildAppearance()
{
    auto* page = new QWidget;
    QVBoxLayout* layout = makeSettingsPage(page, tr("Appearance"));
    m_scheme = new QComboBox;
    m_scheme->setObjectName(QStringLiteral("scheme"));
    const std::pair<SchemeChoice, QString> schemes[] = {{SchemeChoice::System, tr("As the desktop")},
                                                        {SchemeChoice::Light, tr("Light")},
                                                        {SchemeChoice::Dark, tr("Dark")},
                                                        {SchemeChoice::HighContrast, tr("High contrast")}};
    for (const auto& [choice, text] : schemes)
        m_scheme->addItem(text, int(choice));
    m_scheme->setCurrentIndex(m_scheme->findData(int(Theme::instance()->choice())));
    m_textScale = new QComboBox;
    m_textScale->setObjectName(QStringLiteral("textScale"));
    for (int percent : {90, 100, 110, 125, 150, 200})
        m_textScale->addItem(tr("%1%").arg(percent), percent);
    const int now = qRound(100 * Theme::instance()->textScale());
    if (m_textScale->findData(now) < 0)
        m_textScale->addItem(tr("%1%").arg(now), now);
    m_textScale->setCurrentIndex(m_textScale->findData(now));
    QFormLayout* form = makeSettingsForm();
    addSettingsField(form, tr("Theme"), m_scheme, {});
    addSettingsField(form, tr("Text size"), m_textScale, tr("of everything in the window"));
    layout->addLayout(form);
    layout->addStretch(1);
    connect(m_scheme, &QComboBox::currentIndexChanged, this, &SettingsDialog::applyTheme);
    connect(m_textScale, &QComboBox::currentIndexChanged, this, &SettingsDialog::applyTheme);
    return page;
}

QWidget* SettingsDialog::buildAnswers()
{
    auto* page = new QWidget;
    QVBoxLayout* layout = makeSettingsPage(
        page, tr("Answers"),
        tr("Hold from the next question on. At temperature 0 the same question gets the same answer."));
    const auto real = [](const char* name, double low, double high, double value) {
        auto* box = new QDoubleSpinBox;
        box->setObjectName(QLatin1String(name));
        box->setRange(low, high);
        box->setDecimals(2);
        box->setSingleStep(0.05);
        box->setValue(value);
        return box;
    };
    const auto whole = [](const char* name, int low, int high, int value) {
        auto* box = new QSpinBox;
        box->setObjectName(QLatin1String(name));
        box->setRange(low, high);
        box->setValue(value);
        return box;
    };
    const engine::SamplingParams& s = m_settings.sampling;
    m_temperature = real("temperature", 0, 2, double(s.temperature));
    m_topK = whole("topK", 0, 1000, s.topK);
    m_topP = real("topP", 0.01, 1, double(s.topP));
    m_minP = real("minP", 0, 1, double(s.minP));
    m_seed = whole("seed", 0, std::numeric_limits<int>::max(), int(std::min<std::uint64_t>(s.seed, 0x7fffffff)));
    m_maxTokens = whole("maxTokens", 16, 32768, m_settings.maxNewTokens);
    m_maxTokens->setSingleStep(256);
    QFormLayout* form = makeSettingsForm();
    addSettingsField(form, tr("Temperature"), m_temperature, tr("0 takes the likeliest token each time"));
    addSettingsField(form, tr("Top-k"), m_topK, tr("tokens to draw from; 0: all"));
    addSettingsField(form, tr("Top-p"), m_topP, tr("share of probability to draw from; 1: all"));
    addSettingsField(form, tr("Min-p"), m_minP, tr("least share of the likeliest token's probability; 0: off"));
    addSettingsField(form, tr("Seed"), m_seed, tr("the same seed draws the same tokens"));
    addSettingsField(form, tr("Longest answer"), m_maxTokens, tr("tokens"));
    m_drafts = new QComboBox;
    m_drafts->setObjectName(QStringLiteral("drafts"));
    m_drafts->addItem(tr("On"), true);
    m_drafts->addItem(tr("Off"), false);
    m_drafts->setCurrentIndex(m_drafts->findData(m_settings.drafts));
    addSettingsField(
        form, tr("Drafts"), m_drafts,
        tr("Guess several tokens ahead, from the code that was read and by the model's own drafts where it "
           "has them, and check them in one step. The answer is the same, it comes sooner."));
    layout->addLayout(form);
    layout->addStretch(1);
    for (QDoubleSpinBox* box : {m_temperature, m_topP, m_minP})
        connect(box, &QDoubleSpinBox::valueChanged, this, &SettingsDialog::keep);
    for (QSpinBox* box : {m_topK, m_seed, m_maxTokens})
        connect(box, &QSpinBox::valueChanged, this, &SettingsDialog::keep);
    connect(m_drafts, &QComboBox::currentIndexChanged, this, &SettingsDialog::keep);
    return page;
}

void SettingsDialog::applyTheme()
{
    const auto choice = SchemeChoice(m_scheme->currentData().toInt());
    const double scale = m_textScale->currentData().toInt() / 100.0;
    Theme::instance()->apply(choice, scale);
    m_workbench->setSetting(setting_keys::scheme, Theme::name(choice));
    m_workbench->setSetting(setting_keys::textScale, QString::number(scale));
}

void SettingsDialog::keep()
{
    engine::SamplingParams& s = m_settings.sampling;
    s.temperature = float(m_temperature->value());
    s.topK = m_topK->value();
    s.topP = float(m_topP->value());
    s.minP = float(m_minP->value());
    s.seed = std::uint64_t(m_seed->value());
    m_settings.maxNewTokens = m_maxTokens->value();
    m_settings.modelFolder = m_model->folder();
    m_settings.device = m_model->device();
    m_settings.drafts = m_drafts->currentData().toBool();
    m_memory->fill(m_settings);
    m_workbench->setSampling(s, m_settings.maxNewTokens);
    m_workbench->setDrafts(m_settings.drafts);
    m_settings.save(m_file);
}

} // namespace octavo::ui
