#pragma once

/// The language of the interface.

class QLocale;

namespace octavo::ui {

/// Has the application speak the language of `locale` where there is a translation (resources/translations, built with
/// Qt's linguist tools); gives whether there is one. English stands below it, for its plurals and for what is not
/// translated. Before any window is made.
bool installTranslation(const QLocale& locale);

} // namespace octavo::ui
