#include "ui/settings/settings_dialog.h"

#include "ui/setting_keys.h"
#include "ui/settings/model_page.h"

#include <QAction>
#include <QFormLayout>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QStandardItemModel>
#include <QTreeView>
#include <QVBoxLayout>

#include <limits>

namespace octavo::ui {

namespace {

constexpr int pagesWidth = 190;

QVBoxLayout* pageLayout(QWidget* page, const QString& heading)
{
    auto* layout = new QVBoxLayout(page);
    layout->setContentsMargins({});
    layout->setSpacing(metrics::padding);
    layout->addWidget(new TextLabel(heading, TextRole::Heading));
    return layout;
}

QFormLayout* makeForm()
{
    auto* form = new QFormLayout;
    form->setContentsMargins({});
    form->setVerticalSpacing(metrics::padding);
    form->setHorizontalSpacing(16);
    form->setFieldGrowthPolicy(QFormLayout::FieldsStayAtSizeHint);
    return form;
}

/// A field with its label before it and what it means after it.
void addField(QFormLayout* form, const QString& name, QWidget* field, const QString& hint)
{
    field->setAccessibleName(name);
    field->setAccessibleDescription(hint);
    field->setMinimumWidth(140);
    auto* row = new QHBoxLayout;
    row->setSpacing(metrics::padding);
    row->addWidget(field);
    row->addWidget(new TextLabel(hint, TextRole::Small, Tone::Muted));
    auto* label = new TextLabel(name);
    label->setBuddy(field);
    form->addRow(label, row);
}

} // namespace

SettingsDialog::SettingsDialog(agents::Workbench* workbench, const QList<QAction*>& commands, const QString& file,
                               QWidget* parent)
    : QDialog(parent)
    , m_workbench(workbench)
    , m_file(file)
    , m_settings(StartupSettings::load(file))
{
    setWindowTitle(tr("Settings"));
    resize(820, 560);
    m_settings.sampling = workbench->sampling();
    m_settings.maxNewTokens = workbench->maxNewTokens();

    m_model = new ModelPage(m_settings, QString::fromStdString(workbench->model().dir.string()));
    m_stack = new QStackedWidget;
    m_stack->addWidget(buildAppearance());
    m_stack->addWidget(m_model);
    m_stack->addWidget(buildAnswers());
    m_stack->addWidget(buildShortcuts(commands));

    m_pages = new QListWidget;
    m_pages->setObjectName(QStringLiteral("pages"));
    m_pages->setAccessibleName(tr("Pages"));
    m_pages->setFixedWidth(pagesWidth);
    m_pages->setFrameShape(QFrame::NoFrame);
    m_pages->addItems({tr("Appearance"), tr("Model and device"), tr("Answers"), tr("Shortcuts")});
    for (int i = 0; i < m_pages->count(); ++i)
        m_pages->item(i)->setSizeHint({pagesWidth, 36});
    connect(m_pages, &QListWidget::currentRowChanged, m_stack, &QStackedWidget::setCurrentIndex);
    m_pages->setCurrentRow(Appearance);

    auto* close = makeButton(tr("Close"));
    close->setObjectName(QStringLiteral("close"));
    close->setAutoDefault(false);
    connect(close, &QPushButton::clicked, this, &QDialog::accept);
    connect(m_model, &ModelPage::changed, this, &SettingsDialog::keep);

    auto* right = new QVBoxLayout;
    right->setContentsMargins(24, 20, 24, 20);
    right->addWidget(m_stack, 1);
    right->addWidget(close, 0, Qt::AlignRight);
    auto* layout = new QHBoxLayout(this);
    layout->setContentsMargins({});
    layout->setSpacing(0);
    layout->addWidget(m_pages);
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
    QVBoxLayout* layout = pageLayout(page, tr("Appearance"));
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
    QFormLayout* form = makeForm();
    addField(form, tr("Theme"), m_scheme, {});
    addField(form, tr("Text size"), m_textScale, tr("of everything in the window"));
    layout->addLayout(form);
    layout->addStretch(1);
    connect(m_scheme, &QComboBox::currentIndexChanged, this, &SettingsDialog::applyTheme);
    connect(m_textScale, &QComboBox::currentIndexChanged, this, &SettingsDialog::applyTheme);
    return page;
}

QWidget* SettingsDialog::buildAnswers()
{
    auto* page = new QWidget;
    QVBoxLayout* layout = pageLayout(page, tr("Answers"));
    auto* hint =
        new TextLabel(tr("Hold from the next question on. At temperature 0 the same question gets the same answer."),
                      TextRole::Small, Tone::Muted);
    hint->setWordWrap(true);
    layout->addWidget(hint);
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
    QFormLayout* form = makeForm();
    addField(form, tr("Temperature"), m_temperature, tr("0 takes the likeliest token each time"));
    addField(form, tr("Top-k"), m_topK, tr("tokens to draw from; 0: all"));
    addField(form, tr("Top-p"), m_topP, tr("share of probability to draw from; 1: all"));
    addField(form, tr("Min-p"), m_minP, tr("least share of the likeliest token's probability; 0: off"));
    addField(form, tr("Seed"), m_seed, tr("the same seed draws the same tokens"));
    addField(form, tr("Longest answer"), m_maxTokens, tr("tokens"));
    layout->addLayout(form);
    layout->addStretch(1);
    for (QDoubleSpinBox* box : {m_temperature, m_topP, m_minP})
        connect(box, &QDoubleSpinBox::valueChanged, this, &SettingsDialog::keep);
    for (QSpinBox* box : {m_topK, m_seed, m_maxTokens})
        connect(box, &QSpinBox::valueChanged, this, &SettingsDialog::keep);
    return page;
}

QWidget* SettingsDialog::buildShortcuts(const QList<QAction*>& commands)
{
    auto* page = new QWidget;
    QVBoxLayout* layout = pageLayout(page, tr("Shortcuts"));
    auto* model = new QStandardItemModel(0, 2, page);
    model->setHorizontalHeaderLabels({tr("Command"), tr("Key")});
    for (const QAction* action : commands) {
        QStringList keys;
        for (const QKeySequence& key : action->shortcuts())
            keys += key.toString(QKeySequence::NativeText);
        auto* name = new QStandardItem(action->text().remove(u'&'));
        auto* key = new QStandardItem(keys.isEmpty() ? dash() : keys.join(QStringLiteral(", ")));
        name->setEditable(false);
        key->setEditable(false);
        model->appendRow({name, key});
    }
    auto* list = new QTreeView;
    list->setObjectName(QStringLiteral("shortcuts"));
    list->setAccessibleName(tr("Shortcuts"));
    list->setModel(model);
    list->setRootIsDecorated(false);
    list->setUniformRowHeights(true);
    list->header()->setStretchLastSection(false);
    list->header()->setSectionResizeMode(0, QHeaderView::Stretch);
    list->header()->setSectionResizeMode(1, QHeaderView::ResizeToContents);
    layout->addWidget(list, 1);
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
    m_workbench->setSampling(s, m_settings.maxNewTokens);
    m_settings.save(m_file);
}

} // namespace octavo::ui
