#include "tests/ui/real_window.h"
#include "ui/command_palette.h"
#include "ui/problem_text.h"
#include "ui/settings/settings_dialog.h"
#include "ui/source_viewer/source_viewer.h"
#include "ui/start_page.h"
#include "ui/translation.h"

#include <QRegularExpression>
#include <QAbstractButton>
#include <QAbstractItemView>
#include <QComboBox>
#include <QPlainTextEdit>
#include <QScrollArea>
#include <QTranslator>

using namespace octavo;
using namespace octavo::ui;
using octavo::ui::test::RealWindow;

namespace {

/// Stands in front of the German translation and notes what it does not know.
class Gaps final : public QTranslator
{
public:
    Gaps() { loaded = german.load(QStringLiteral(":/translations/octavo_de.qm")); }

    QString translate(const char* context, const char* source, const char* comment, int n) const override
    {
        const QString found = german.translate(context, source, comment, n);
        if (found.isEmpty() && QByteArray(context).startsWith("octavo::"))
            missing += QStringLiteral("%1: %2").arg(QLatin1String(context), QString::fromUtf8(source));
        return found;
    }
    bool isEmpty() const override { return false; }

    bool loaded = false;
    QTranslator german;
    mutable QSet<QString> missing;
};

/// A language in which every word of ours stands between two marks, so that what never went through tr() is seen.
class Marks final : public QTranslator
{
public:
    QString translate(const char* context, const char* source, const char*, int n) const override
    {
        if (!QByteArray(context).startsWith("octavo::"))
            return {};
        QString words = QString::fromUtf8(source);
        if (n >= 0)
            words.replace(QStringLiteral("%Ln"), QLocale().toString(n))
                .replace(QStringLiteral("%n"), QString::number(n));
        return u'\u27e6' + words + u'\u27e7';
    }
    bool isEmpty() const override { return false; }
};

/// Texts that people see or hear in `in`, with where they stand.
QList<std::pair<QString, QString>> shownTexts(const QWidget* in)
{
    QList<std::pair<QString, QString>> out;
    QList<const QWidget*> widgets{in};
    for (const QWidget* child : in->findChildren<QWidget*>())
        widgets += child;
    for (const QWidget* widget : widgets) {
        const auto add = [&](const char* what, const QString& text) {
            if (!text.isEmpty())
                out += {QStringLiteral("%1 %2 %3").arg(QLatin1String(widget->metaObject()->className()),
                                                       widget->objectName(), QLatin1String(what)), text};
        };
        if (!widget->isVisibleTo(in))
            continue;
        add("tip", widget->toolTip());
        add("name", widget->accessibleName());
        add("description", widget->accessibleDescription());
        if (const auto* label = qobject_cast<const QLabel*>(widget))
            add("text", label->text());
        if (const auto* button = qobject_cast<const QAbstractButton*>(widget))
            add("text", button->text());
        if (const auto* field = qobject_cast<const QLineEdit*>(widget))
            add("placeholder", field->placeholderText());
        if (const auto* edit = qobject_cast<const QPlainTextEdit*>(widget))
            add("placeholder", edit->placeholderText());
        if (const auto* box = qobject_cast<const QComboBox*>(widget)) {
            for (int i = 0; i < box->count(); ++i)
                add("item", box->itemText(i));
        }
        if (const auto* view = qobject_cast<const QAbstractItemView*>(widget); view && view->model()) {
            for (int column = 0; column < view->model()->columnCount(); ++column)
                add("header", view->model()->headerData(column, Qt::Horizontal).toString());
        }
    }
    for (const QAction* action : in->findChildren<QAction*>()) {
        if (!action->text().isEmpty())
            out += {QStringLiteral("action ") + action->objectName(), action->text()};
    }
    return out;
}

/// Of them, what has words and no mark, and is not among what the machine, the user or a repository named.
QStringList unmarked(const QWidget* in, const QStringList& names)
{
    static const QRegularExpression word(QStringLiteral("[A-Za-z]{3,}"));
    QStringList out;
    for (const auto& [where, text] : shownTexts(in)) {
        if (text.contains(u'\u27e6'))
            continue;
        QString rest = text;
        for (const QString& name : names)
            rest.remove(name);
        if (rest.contains(word))
            out += where + QStringLiteral(": ") + text;
    }
    return out;
}

/// What does not show its whole text, of the visible labels and buttons in `in`.
QStringList clipped(const QWidget* in)
{
    QStringList out;
    for (const QLabel* label : in->findChildren<QLabel*>()) {
        const bool elides = !label->wordWrap() && label->minimumSizeHint().width() < label->sizeHint().width();
        if (!label->isVisible() || label->text().isEmpty() || elides)
            continue;
        const bool fits = label->wordWrap() ? label->height() >= label->heightForWidth(label->width())
                                            : label->width() >= label->sizeHint().width();
        if (!fits)
            out += label->text();
    }
    for (const QAbstractButton* button : in->findChildren<QAbstractButton*>()) {
        const bool shortened = button->text().contains(u'\u2026') && !button->text().endsWith(u'\u2026');
        if (button->isVisible() && !shortened && !button->text().isEmpty() &&
            button->width() < button->minimumSizeHint().width())
            out += button->text();
    }
    return out;
}

// Layouts settle over a few turns of the event loop.
#define VERIFY_NOT_CLIPPED(widget) QTRY_VERIFY2(clipped(widget).isEmpty(), qPrintable(clipped(widget).join(u'\n')))

} // namespace

/// The whole program in German, at the usual size of text and at twice that.
class TestTranslation : public QObject
{
    Q_OBJECT

private:
    std::unique_ptr<Gaps> m_gaps;
    std::unique_ptr<RealWindow> m_real;

    void checkComplete()
    {
        const QStringList missing(m_gaps->missing.begin(), m_gaps->missing.end());
        QVERIFY2(missing.isEmpty(), qPrintable(missing.join(u'\n')));
    }

private slots:
    void initTestCase()
    {
        Theme::instance()->apply(SchemeChoice::Light);
        m_gaps = std::make_unique<Gaps>();
        if (!m_gaps->loaded)
            QSKIP("built without Qt's linguist tools");
        QCoreApplication::installTranslator(m_gaps.get());
    }
    void cleanupTestCase()
    {
        if (m_gaps)
            QCoreApplication::removeTranslator(m_gaps.get());
    }

    void init()
    {
        m_real = std::make_unique<RealWindow>([](const engine::GenerationRequest&) { return octavo::test::Script(); });
        m_real->open();
    }
    void cleanup()
    {
        m_real.reset();
        Theme::instance()->apply(SchemeChoice::Light);
    }

    void theWindowAndItsFirstPage()
    {
        m_real->window->setDemoModel(true);
        QVERIFY(RealWindow::says(m_real->window.get(), QStringLiteral("Demo-Modell")));
        m_real->key(QStringLiteral("Ctrl+K"));
        QVERIFY(m_real->window->findChild<CommandPalette*>());
        m_real->window->findChild<CommandPalette*>()->close();
        checkComplete();
        Theme::instance()->apply(SchemeChoice::Light, 2.0);
        VERIFY_NOT_CLIPPED(m_real->window->findChild<StartPage*>());
    }

    void theWizardFromTheFirstPageToTheLast()
    {
        for (const double scale : {1.0, 2.0}) {
            Theme::instance()->apply(SchemeChoice::Light, scale);
            AddRepositoryDialog wizard(m_real->workbench.get());
            wizard.show();
            auto* next = wizard.findChild<QPushButton*>(QStringLiteral("next"));
            wizard.setFolder(m_real->repository.root());
            QTRY_VERIFY(next->isEnabled());
            VERIFY_NOT_CLIPPED(&wizard);
            next->click();
            QTRY_VERIFY(wizard.findChild<FilesPage*>()->hasFiles() && next->isEnabled());
            QVERIFY(RealWindow::says(&wizard, QStringLiteral("gezählt von")));
            VERIFY_NOT_CLIPPED(&wizard);
            next->click();
            QTRY_VERIFY(m_real->workbench->contexts().back().state == agents::ContextState::Read);
            VERIFY_NOT_CLIPPED(&wizard);
            next->click();
            QVERIFY(RealWindow::says(&wizard, QStringLiteral("Wer fragt zu")));
            VERIFY_NOT_CLIPPED(&wizard);
        }
        checkComplete();
    }

    void everyPageOfTheSettings()
    {
        for (const double scale : {1.0, 2.0}) {
            Theme::instance()->apply(SchemeChoice::Light, scale);
            SettingsDialog dialog(m_real->workbench.get(), m_real->window->commands(), {},
                                  m_real->data.filePath(QStringLiteral("octavo.ini")));
            dialog.show();
            for (int page = SettingsDialog::Appearance; page <= SettingsDialog::Shortcuts; ++page) {
                dialog.setPage(SettingsDialog::Page(page));
                if (page == SettingsDialog::Model) {
                    dialog.findChild<QLineEdit*>(QStringLiteral("modelFolder"))
                        ->setText(QStringLiteral(OCTAVO_RESOURCES "/demo-model"));
                    QTRY_VERIFY_WITH_TIMEOUT(RealWindow::says(&dialog, QStringLiteral("Mio. Parameter")), 10000);
                }
                VERIFY_NOT_CLIPPED(&dialog);
            }
        }
        checkComplete();
    }

    void theDashboardAndTheSourceViewer()
    {
        m_real->addRepository();
        m_real->key(QStringLiteral("Ctrl+1"));
        m_real->ask(QStringLiteral("Wo steht join?"));
        QTRY_COMPARE(m_real->agent(0)->status().activity, agents::Activity::Idle);
        SourceViewer viewer(m_real->workbench.get());
        viewer.open(m_real->agent(0)->context().id, "src/join.cpp", 3, 4);
        viewer.show();
        QTRY_VERIFY(viewer.code()->toPlainText().contains(QStringLiteral("join")));
        auto* dashboard = m_real->window->findChild<DashboardPanel*>();
        QTest::qWait(300);
        checkComplete();
        VERIFY_NOT_CLIPPED(dashboard);
        Theme::instance()->apply(SchemeChoice::Light, 2.0);
        VERIFY_NOT_CLIPPED(dashboard);
        VERIFY_NOT_CLIPPED(&viewer);
        VERIFY_NOT_CLIPPED(m_real->window.get());
    }

    void whatWentWrongIsSaidInGerman()
    {
        static const QRegularExpression place(QStringLiteral("%\\d"));
        const auto places = [&](const QString& words) {
            QStringList found;
            for (auto match = place.globalMatch(words); match.hasNext();)
                found += match.next().captured();
            found.sort();
            return found;
        };
        for (const QString& english : knownProblems()) {
            const QString german =
                QCoreApplication::translate("octavo::ui::ProblemWords", english.toUtf8().constData());
            QVERIFY2(german != english, qPrintable(english));
            QCOMPARE(places(german), places(english));
        }
        for (int code = 0; code <= int(ErrorCode::Cancelled); ++code) {
            const std::string_view english = errorTitle(ErrorCode(code));
            const QString german = problemTitle(ErrorCode(code));
            QVERIFY2(!german.isEmpty() && german != QLatin1String(english.data(), qsizetype(english.size())),
                     qPrintable(german));
        }
        // Sentences as they come: the patterns are still theirs.
        const Result<void> refused = m_real->agent(0)->ask(QStringLiteral("why?"));
        QVERIFY(!refused);
        QVERIFY2(problemText(refused.error()).contains(QStringLiteral("hat keinen Kontext")),
                 refused.error().message.c_str());
        agents::IngestOptions options;
        options.repository = QStringLiteral("/nowhere/at all");
        std::unique_ptr<agents::IngestJob> job(m_real->workbench->preview(options));
        QSignalSpy failed(job.get(), &agents::IngestJob::failed);
        QVERIFY(failed.wait());
        const QString german = problemText(failed[0][0].value<Error>());
        QVERIFY2(german.startsWith(QStringLiteral("\u201e/nowhere/at all\u201c gibt es nicht")), qPrintable(german));
        QCOMPARE(
            problemText(QStringLiteral("the context is full: 249900 of 250000 tokens are used, this question needs "
                                       "210 (with a shortest answer): begin a new conversation")),
            QStringLiteral("Der Kontext ist voll: %1 von %2 Token sind belegt, diese Frage braucht 210 (mit einer "
                           "k\u00fcrzesten Antwort): Beginnen Sie eine neue Unterhaltung.")
                .arg(countText(249'900), countText(250'000)));
        QCOMPARE(problemText(QStringLiteral("something else, 12 of it")), QStringLiteral("something else, 12 of it"));
    }

    void nothingShownIsBesideTheTranslation()
    {
        QCoreApplication::removeTranslator(m_gaps.get());
        Marks marks;
        QCoreApplication::installTranslator(&marks);
        m_real = std::make_unique<RealWindow>([](const engine::GenerationRequest&) { return octavo::test::Script(); });
        m_real->open();
        // Names of programs and files, units, and what the fakes say of themselves.
        const QStringList names{
            QStringLiteral("Octavo"),     QStringLiteral("fake model"),     QStringLiteral("a fake for tests"),
            QStringLiteral("repo"),       QStringLiteral("main"),           m_real->repository.root(),
            QStringLiteral("FAKE"),       QStringLiteral("fake"),           QStringLiteral("GiB"),
            QStringLiteral("README.md"),  QStringLiteral("src/join.cpp"),   QStringLiteral("Join two numbers"),
            QStringLiteral("demo-model"), QStringLiteral(OCTAVO_RESOURCES), QStringLiteral("Ctrl"),
            QStringLiteral("Shift"),      QStringLiteral("https://"),       QStringLiteral("git@")};
        QStringList found = unmarked(m_real->window.get(), names);
        AddRepositoryDialog wizard(m_real->workbench.get());
        wizard.show();
        auto* next = wizard.findChild<QPushButton*>(QStringLiteral("next"));
        wizard.setFolder(m_real->repository.root());
        QTRY_VERIFY(next->isEnabled());
        found += unmarked(&wizard, names);
        next->click();
        QTRY_VERIFY(wizard.findChild<FilesPage*>()->hasFiles() && next->isEnabled());
        found += unmarked(&wizard, names);
        next->click();
        QTRY_VERIFY(m_real->workbench->contexts().back().state == agents::ContextState::Read);
        found += unmarked(&wizard, names);
        next->click();
        found += unmarked(&wizard, names);
        next->click();
        QVERIFY(m_real->agent(0)->ask(QStringLiteral("?")));
        QTRY_COMPARE(m_real->agent(0)->status().activity, agents::Activity::Idle);
        found += unmarked(m_real->window.get(), names);
        SettingsDialog settings(m_real->workbench.get(), m_real->window->commands(), {},
                                m_real->data.filePath(QStringLiteral("octavo.ini")));
        settings.show();
        for (int page = SettingsDialog::Appearance; page <= SettingsDialog::Shortcuts; ++page) {
            settings.setPage(SettingsDialog::Page(page));
            QTest::qWait(20);
            found += unmarked(&settings, names);
        }
        SourceViewer viewer(m_real->workbench.get());
        viewer.open(m_real->agent(0)->context().id, "src/join.cpp", 3, 4);
        viewer.show();
        QTRY_VERIFY(viewer.code()->toPlainText().contains(QStringLiteral("join")));
        found += unmarked(&viewer, names);
        CommandPalette palette(m_real->window->commands(), nullptr);
        palette.setAttribute(Qt::WA_DeleteOnClose, false);
        palette.show();
        found += unmarked(&palette, names);
        m_real.reset();
        QCoreApplication::removeTranslator(&marks);
        QCoreApplication::installTranslator(m_gaps.get());
        found.removeDuplicates();
        QVERIFY2(found.isEmpty(), qPrintable(found.join(u'\n')));
    }

    void aLanguageThatIsNotThereFallsBackToEnglish()
    {
        QCoreApplication::removeTranslator(m_gaps.get());
        QVERIFY(!installTranslation(QLocale(QLocale::Zulu)));
        QCOMPARE(QCoreApplication::translate("octavo::ui::ContextModel", "%n panes", nullptr, 1),
                 QStringLiteral("1 pane"));
        QCOMPARE(QCoreApplication::translate("octavo::ui::ContextModel", "%n panes", nullptr, 8),
                 QStringLiteral("8 panes"));
        qDeleteAll(qApp->findChildren<QTranslator*>());
        QCoreApplication::installTranslator(m_gaps.get());
    }
};

QTEST_MAIN(TestTranslation)
#include "tst_translation.moc"
