#include "ui/settings/settings_dialog.h"

#include "ui/setting_keys.h"
#include "ui/settings/memory_page.h"
#include "ui/settings/model_page.h"
#include "ui/settings/saved_contexts_page.h"
#include "ui/settings/settings_form.h"
#include "ui/settings/shortcuts_page.h"

#include <QHBoxLayout>
#include <QPainter>
#include <QScrollArea>
#include <QStyledItemDelegate>
#include <QVBoxLayout>

#include <limits>

namespace octavo::ui {

namespace {

constexpr int rowMargin = 10, rowPadding = 12;
constexpr int scrollRoom = 14; // beside a page

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
    page->setContentsMargins(0, 0, scrollRoom, 0);
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
    sizeByText(this, {900, 700});
    m_settings.sampling = workbench->sampling();
    m_settings.maxNewTokens = workbench->maxNewTokens();
    m_settings.lookupDrafts = workbench->lookupDrafts();
    m_settings.mtpDrafts = workbench->mtpDrafts();

    m_model = new ModelPage(m_settings, QString::fromStdString(workbench->model().dir.string()));
    m_stack = new QStackedWidget;
    m_memory = new MemoryPage(m_settings);
    m_saved = new SavedContextsPage(m_settings, workbench->savedContextsFolder());
    for (QWidget* page :
         {buildAppearance(), static_cast<QWidget*>(m_model), buildAnswers(), static_cast<QWidget*>(m_memory),
          static_cast<QWidget*>(m_saved), static_cast<QWidget*>(new ShortcutsPage(workbench, commands))})
        m_stack->addWidget(scrolling(page));

    m_pages = new QListWidget;
    m_pages->setObjectName(QStringLiteral("pages"));
    m_pages->setAccessibleName(tr("Pages"));
    m_pages->setFrameShape(QFrame::NoFrame);
    m_pages->viewport()->setAutoFillBackground(false);
    m_pages->addItems({tr("Appearance"), tr("Model and device"), tr("Answers"), tr("Memory"), tr("Saved contexts"),
                       tr("Shortcuts")});
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
    connect(m_saved, &SavedContextsPage::changed, this, &SettingsDialog::keep);

    auto* right = new QVBoxLayout;
    right->setContentsMargins(24, 20, 24 - scrollRoom, 20);
    right->setSpacing(metrics::padding);
    right->addWidget(m_stack, 1);
    auto* closing = new QHBoxLayout; // in line with the pages, which leave room for a scroll bar
    closing->setContentsMargins(0, 0, scrollRoom, 0);
    closing->addStretch(1);
    closing->addWidget(close);
    right->addLayout(closing);
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
    SettingsCard* card = addSettingsCard(layout);
    card->addField(tr("Theme"), m_scheme, tr("As the desktop: light or dark, whichever it is set to"));
    card->addField(tr("Text size"), m_textScale,
                   tr("Of everything in the window, on top of the desktop's own scaling"));
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
        tr("These hold from the next question on. At temperature 0 the same question gets the same answer."));
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
    SettingsCard* sampling = addSettingsCard(layout, tr("Sampling"));
    sampling->addField(tr("Temperature"), m_temperature, tr("0 takes the likeliest token each time"));
    sampling->addField(tr("Top-k"), m_topK, tr("Tokens to draw from; 0: all"));
    sampling->addField(tr("Top-p"), m_topP, tr("Share of probability to draw from; 1: all"));
    sampling->addField(tr("Min-p"), m_minP, tr("Least share of the likeliest token's probability; 0: off"));
    sampling->addField(tr("Seed"), m_seed, tr("The same seed draws the same tokens"));
    sampling->addField(tr("Longest answer"), m_maxTokens, tr("In tokens; an answer that ends there can go on"));
    m_lookupDrafts = new Switch(m_settings.lookupDrafts);
    m_lookupDrafts->setObjectName(QStringLiteral("lookupDrafts"));
    m_mtpDrafts = new Switch(m_settings.mtpDrafts);
    m_mtpDrafts->setObjectName(QStringLiteral("mtpDrafts"));
    SettingsCard* drafts = addSettingsCard(layout, tr("Drafts: sooner, never another answer"));
    drafts->addField(tr("Copied from the code"), m_lookupDrafts,
                     tr("Guess that an answer goes on as the code it quotes, several tokens at a time, and check them "
                        "in one step"));
    drafts->addField(tr("Predicted by the model"), m_mtpDrafts,
                     tr("Where nothing can be copied, let the model's own prediction layer (MTP) guess, if it has "
                        "one; helps with prose"));
    layout->addStretch(1);
    for (QDoubleSpinBox* box : {m_temperature, m_topP, m_minP})
        connect(box, &QDoubleSpinBox::valueChanged, this, &SettingsDialog::keep);
    for (QSpinBox* box : {m_topK, m_seed, m_maxTokens})
        connect(box, &QSpinBox::valueChanged, this, &SettingsDialog::keep);
    for (Switch* drafting : {m_lookupDrafts, m_mtpDrafts})
        connect(drafting, &Switch::toggled, this, &SettingsDialog::keep);
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
    m_settings.lookupDrafts = m_lookupDrafts->isChecked();
    m_settings.mtpDrafts = m_mtpDrafts->isChecked();
    m_memory->fill(m_settings);
    m_saved->fill(m_settings);
    m_workbench->setSampling(s, m_settings.maxNewTokens);
    m_workbench->setDrafts(m_settings.lookupDrafts, m_settings.mtpDrafts);
    m_settings.save(m_file);
}

} // namespace octavo::ui
