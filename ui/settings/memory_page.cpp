#include "ui/settings/memory_page.h"

#include "ui/settings/settings_form.h"

#include <QFormLayout>
#include <QVBoxLayout>

namespace octavo::ui {

namespace {

constexpr double gib = 1024.0 * 1024.0 * 1024.0;

QDoubleSpinBox* gibBox(const char* name, qint64 bytes, const QString& none)
{
    auto* box = new QDoubleSpinBox;
    box->setObjectName(QLatin1String(name));
    box->setRange(0, 4096);
    box->setDecimals(1);
    box->setSingleStep(1);
    box->setSuffix(MemoryPage::tr(" GiB"));
    box->setSpecialValueText(none);
    box->setValue(double(bytes) / gib);
    return box;
}

} // namespace

MemoryPage::MemoryPage(const StartupSettings& settings, QWidget* parent)
    : QWidget(parent)
    , m_sparse(new QComboBox)
    , m_contextLimit(new QSpinBox)
    , m_budget(gibBox("memoryBudget", settings.memoryBudgetBytes, tr("What is free")))
    , m_quota(gibBox("savedQuota", settings.savedContextsQuota, tr("None")))
{
    m_sparse->setObjectName(QStringLiteral("sparse"));
    m_sparse->addItem(tr("Automatic"), int(engine::SparseMode::Auto));
    m_sparse->addItem(tr("Always"), int(engine::SparseMode::On));
    m_sparse->addItem(tr("Never"), int(engine::SparseMode::Off));
    m_sparse->setCurrentIndex(m_sparse->findData(int(settings.sparse)));
    m_contextLimit->setObjectName(QStringLiteral("contextLimit"));
    m_contextLimit->setRange(0, 1'000'000);
    m_contextLimit->setSingleStep(8192);
    m_contextLimit->setGroupSeparatorShown(true);
    m_contextLimit->setSpecialValueText(tr("What the model allows"));
    m_contextLimit->setValue(int(settings.contextLimit));

    QVBoxLayout* layout = makeSettingsPage(this, tr("Memory"), tr("Takes effect when Octavo starts next."));
    QFormLayout* form = makeSettingsForm();
    addSettingsField(form, tr("Picked rows"), m_sparse,
                     tr("A step reads about 2,000 rows of a long context, chosen by a sketch, instead of all of them: "
                        "faster, and close to exact. Automatic does so where the context is long and the model has a "
                        "basis for it."));
    addSettingsField(form, tr("Tokens per agent"), m_contextLimit,
                     tr("The longest context with its conversation, up to 250,000 unless you say more."));
    addSettingsField(form, tr("Memory for contexts"), m_budget,
                     tr("What all contexts may take together. A context that does not fit is refused with what it "
                        "needs; nothing is swapped."));
    addSettingsField(form, tr("Saved contexts"), m_quota,
                     tr("What was read is kept on disk and opened again without reading; the oldest go first when "
                        "this much is full."));
    layout->addLayout(form);
    layout->addStretch(1);
    connect(m_sparse, &QComboBox::currentIndexChanged, this, &MemoryPage::changed);
    connect(m_contextLimit, &QSpinBox::valueChanged, this, &MemoryPage::changed);
    for (QDoubleSpinBox* box : {m_budget, m_quota})
        connect(box, &QDoubleSpinBox::valueChanged, this, &MemoryPage::changed);
}

void MemoryPage::fill(StartupSettings& settings) const
{
    settings.sparse = engine::SparseMode(m_sparse->currentData().toInt());
    settings.contextLimit = m_contextLimit->value();
    settings.memoryBudgetBytes = qint64(m_budget->value() * gib);
    settings.savedContextsQuota = qint64(m_quota->value() * gib);
}

} // namespace octavo::ui
