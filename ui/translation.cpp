#include "ui/translation.h"

#include <QCoreApplication>
#include <QLocale>
#include <QTranslator>

namespace octavo::ui {

namespace {

bool install(const QLocale& locale)
{
    auto* translator = new QTranslator(qApp);
    if (translator->load(locale, QStringLiteral("octavo"), QStringLiteral("_"), QStringLiteral(":/translations")))
        return QCoreApplication::installTranslator(translator);
    delete translator;
    return false;
}

} // namespace

bool installTranslation(const QLocale& locale)
{
    install(QLocale(QLocale::English));
    return locale.language() == QLocale::English || install(locale);
}

} // namespace octavo::ui
