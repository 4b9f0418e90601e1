#include "ui/settings/memory_page.h"

#include "ui/settings/settings_form.h"

#include <QVBoxLayout>

namespace octavo::ui {

MemoryPage::MemoryPage(const StartupSettings& settings, QWidget* parent)
    : QWidget(parent)
    , m_sparse(new QComboBox)
    , m_contextLimit(new QSpinBox)
    , m_budget(makeSizeField("memoryBudget", settings.memoryBudgetBytes, tr("What is free")))
{
    m_sparse->setObjectName(QStringLiteral("sparse"));
    m_sparse->addItem(tr("In long contexts"), int(engine::SparseMode::Auto));
    m_sparse->addItem(tr("Wherever it can"), int(engine::SparseMode::On));
    m_sparse->addItem(tr("Never"), int(engine::SparseMode::Off));
    m_sparse->setCurrentIndex(m_sparse->findData(int(settings.sparse)));
    m_contextLimit->setObjectName(QStringLiteral("contextLimit"));
    m_contextLimit->setRange(0, 1'000'000);
    m_contextLimit->setSingleStep(8192);
    m_contextLimit->setGroupSeparatorShown(true);
    m_contextLimit->setSpecialValueText(tr("Model's limit"));
    m_contextLimit->setValue(int(settings.contextLimit));

    QVBoxLayout* layout = makeSettingsPage(this, tr("Memory"), tr("Takes effect when Octavo starts next."));
    SettingsCard* card = addSettingsCard(layout);
    card->addField(tr("Sparse attention"), m_sparse,
                     tr("Each new token looks at about 2,000 tokens of the context, picked anew for it, instead of "
                        "all of them. Much faster in long contexts and close to exact. Never: always all of them."));
    card->addField(tr("Tokens per agent"), m_contextLimit,
                     tr("The longest context together with its conversation. Less leaves more memory to others."));
    card->addField(tr("RAM for contexts"), m_budget,
                     tr("What all contexts may take together. One that does not fit is refused and told what it "
                        "needs; nothing is pushed out to disk unasked."));
    layout->addStretch(1);
    connect(m_sparse, &QComboBox::currentIndexChanged, this, &MemoryPage::changed);
    connect(m_contextLimit, &QSpinBox::valueChanged, this, &MemoryPage::changed);
    connect(m_budget, &QDoubleSpinBox::valueChanged, this, &MemoryPage::changed);
}

void MemoryPage::fill(StartupSettings& settings) const
{
    settings.sparse = engine::SparseMode(m_sparse->currentData().toInt());
    settings.contextLimit = m_contextLimit->value();
    settings.memoryBudgetBytes = sizeOf(m_budget);
}

} // namespace octavo::ui
