#include "engine/scheduler/saved_context.h"
#include "tests/engine/fake_engine.h"

#include "ui/command_keys.h"
#include "ui/controls.h"
#include "ui/settings/model_page.h"
#include "ui/settings/saved_contexts_page.h"
#include "ui/settings/settings_dialog.h"
#include "ui/theme.h"

#include <QAbstractItemView>
#include <QAbstractSpinBox>
#include <QAction>
#include <QCheckBox>
#include <QScreen>
#include <QScrollArea>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>

using namespace octavo;
using namespace octavo::ui;

namespace {

struct Bench {
    Bench()
    {
        workbench =
            std::make_unique<agents::Workbench>(agents::WorkbenchOptions{}, std::make_unique<test::FakeEngine>());
        QSignalSpy ready(workbench.get(), &agents::Workbench::ready);
        workbench->start();
        if (!ready.wait())
            qFatal("the workbench did not become ready");
    }
    QString file() const { return folder.filePath(QStringLiteral("octavo.ini")); }

    QTemporaryDir folder;
    std::unique_ptr<agents::Workbench> workbench;
};

/// As the store of the engine names them.
const char* const firstFile = "00000000000000a1-00000000000000b1-41077.context";
const char* const secondFile = "00000000000000a1-00000000000000b2-37455.context";

void writeContext(const std::filesystem::path& file, const char* name, int tokens)
{
    const std::vector<engine::TokenId> ids(std::size_t(tokens), 7);
    const std::vector<std::byte> state(512, std::byte(1)), rows(20'000, std::byte(2));
    engine::SavedContext::Content content;
    content.modelKey = 1;
    content.model = "demo-model";
    content.label = {name, "0123456789abcdef"};
    content.tokens = ids;
    content.states = {{tokens, std::int64_t(rows.size()), {state}}};
    content.rows[0] = {rows};
    const auto written = engine::SavedContext::write(file, content, [] { return false; });
    QVERIFY2(written, written ? "" : written.error().message.c_str());
}

} // namespace

class TestSettings : public QObject
{
    Q_OBJECT

private slots:
    void initTestCase() { Theme::instance()->apply(SchemeChoice::Dark); }
    void cleanup() { Theme::instance()->apply(SchemeChoice::Dark); }

    void keepsWhatWasSavedAndDefaultsWhatIsNonsense();
    void theCommandLineWinsOverSettings();
    void themeAndTextSizeHoldAtOnceAndAreKept();
    void samplingHoldsFromTheNextQuestionOn();
    void saysWhetherTheDemoModelFits();
    void saysWhatIsWrongWithAModelFolder();
    void draftsHoldFromTheNextQuestionAndMemoryFromTheNextStart();
    void onePlaceForDraftsHoldsForBothKinds();
    void savedContextsAreListedVerifiedAndRemoved();
    void withoutSavedContextsThePageSaysSo();
    void listsCommandsWithTheirKeys();
    void aCommandGetsAnotherKeyAndKeepsIt();
    void aKeyThatIsTakenOrNeededForWritingIsRefused();
    void everyControlHasAName();
    void nothingIsCutAtTwiceTheText();
    void theWindowGrowsWithItsText();
};

void TestSettings::keepsWhatWasSavedAndDefaultsWhatIsNonsense()
{
    QTemporaryDir folder;
    const QString file = folder.filePath(QStringLiteral("octavo.ini"));
    QCOMPARE(StartupSettings::load(file).maxNewTokens, 1024);
    StartupSettings settings;
    settings.modelFolder = QStringLiteral("/models/with space, and ü");
    settings.device = QStringLiteral("cuda:1");
    settings.sampling = {0.7F, 40, 0.95F, 0.05F, 1234567};
    settings.maxNewTokens = 4096;
    settings.lookupDrafts = false;
    settings.sparse = engine::SparseMode::Off;
    settings.contextLimit = 131'072;
    settings.memoryBudgetBytes = qint64(24) << 30;
    settings.savedContextsQuota = 0;
    settings.save(file).waitForFinished();
    const StartupSettings back = StartupSettings::load(file);
    QCOMPARE(back.modelFolder, settings.modelFolder);
    QCOMPARE(back.device, settings.device);
    QCOMPARE(back.sampling.temperature, 0.7F);
    QCOMPARE(back.sampling.topK, 40);
    QCOMPARE(back.sampling.topP, 0.95F);
    QCOMPARE(back.sampling.minP, 0.05F);
    QCOMPARE(back.sampling.seed, std::uint64_t(1234567));
    QCOMPARE(back.maxNewTokens, 4096);
    QVERIFY(!back.lookupDrafts && back.mtpDrafts);
    QCOMPARE(back.sparse, engine::SparseMode::Off);
    QCOMPARE(back.contextLimit, 131'072);
    QCOMPARE(back.memoryBudgetBytes, qint64(24) << 30);
    QCOMPARE(back.savedContextsQuota, 0);

    QFile raw(file);
    QVERIFY(raw.open(QIODevice::WriteOnly));
    raw.write("[sampling]\ntemperature=hot\ntopK=-7\ntopP=nan\nmaxNewTokens=9999999\n"
              "[engine]\nsparse=perhaps\n[memory]\ncontextLimit=-5\nbudgetBytes=much\n");
    raw.close();
    const StartupSettings odd = StartupSettings::load(file);
    QCOMPARE(odd.sampling.temperature, 0.0F);
    QCOMPARE(odd.sampling.topK, 0);
    QCOMPARE(odd.sampling.topP, 1.0F);
    QCOMPARE(odd.maxNewTokens, 32768);
    QCOMPARE(odd.sparse, engine::SparseMode::Auto);
    QCOMPARE(odd.contextLimit, 0);
    QCOMPARE(odd.memoryBudgetBytes, 0);
    QCOMPARE(odd.savedContextsQuota, engine::EngineOptions{}.savedContextsQuota);
}

/// Earlier versions had one setting for both kinds of drafts.
void TestSettings::onePlaceForDraftsHoldsForBothKinds()
{
    QTemporaryDir folder;
    const QString file = folder.filePath(QStringLiteral("octavo.ini"));
    QFile raw(file);
    QVERIFY(raw.open(QIODevice::WriteOnly));
    raw.write("[engine]\ndrafts=false\n");
    raw.close();
    StartupSettings settings = StartupSettings::load(file);
    QVERIFY(!settings.lookupDrafts && !settings.mtpDrafts);
    settings.mtpDrafts = true;
    settings.save(file).waitForFinished();
    settings = StartupSettings::load(file);
    QVERIFY(!settings.lookupDrafts && settings.mtpDrafts);
}

void TestSettings::savedContextsAreListedVerifiedAndRemoved()
{
    QTemporaryDir folder;
    const std::filesystem::path root = folder.path().toStdString();
    writeContext(root / firstFile, "leveldb", 41'077);
    writeContext(root / secondFile, "werkzeug", 37'455);
    SavedContextsPage page(StartupSettings{}, root);
    page.show();
    auto* list = page.findChild<QTreeView*>(QStringLiteral("savedContexts"));
    QTRY_COMPARE(list->model()->rowCount(), 2);
    const auto row = [&](const QString& name) {
        return list->model()->match(list->model()->index(0, 0), Qt::DisplayRole, name, 1, Qt::MatchStartsWith).value(0);
    };
    QCOMPARE(row(QStringLiteral("leveldb")).data().toString(), QStringLiteral("leveldb @ 0123456"));
    QCOMPARE(row(QStringLiteral("leveldb")).siblingAtColumn(SavedContextsModel::TokensColumn).data().toString(),
             countText(41'077));
    QVERIFY(page.findChild<QLabel*>(QStringLiteral("savedUsed"))->text().endsWith(bytesText(qint64(16) << 30)));

    // One byte of one file changes: reading them all finds it.
    QFile damaged(folder.filePath(QLatin1String(secondFile)));
    QVERIFY(damaged.open(QIODevice::ReadWrite));
    QVERIFY(damaged.seek(damaged.size() - 600));
    QVERIFY(damaged.write("?", 1) == 1);
    damaged.close();
    QTest::mouseClick(page.findChild<QPushButton*>(QStringLiteral("savedVerify")), Qt::LeftButton);
    const auto state = [&](const QString& name) {
        return row(name).siblingAtColumn(SavedContextsModel::StateColumn).data().toString();
    };
    QTRY_COMPARE(state(QStringLiteral("leveldb")), QStringLiteral("verified"));
    QTRY_COMPARE(state(QStringLiteral("werkzeug")), QStringLiteral("damaged"));
    auto* says = page.findChild<QLabel*>(QStringLiteral("savedSays"));
    QTRY_VERIFY2(says->text().contains(QStringLiteral("cannot be used")), qPrintable(says->text()));

    // Removing asks first; keeping keeps.
    list->setCurrentIndex(row(QStringLiteral("werkzeug")));
    list->setFocus();
    QTest::keyClick(list, Qt::Key_Delete);
    auto* question = page.findChild<QLabel*>(QStringLiteral("savedQuestion"));
    QVERIFY2(question->isVisible() && question->text().contains(QStringLiteral("werkzeug @ 0123456")),
             qPrintable(question->text()));
    QTest::mouseClick(page.findChild<QPushButton*>(QStringLiteral("savedKeep")), Qt::LeftButton);
    QVERIFY(QFile::exists(folder.filePath(QLatin1String(secondFile))));
    QTest::keyClick(list, Qt::Key_Delete);
    QTest::mouseClick(page.findChild<QPushButton*>(QStringLiteral("savedConfirm")), Qt::LeftButton);
    QTRY_COMPARE(list->model()->rowCount(), 1);
    QVERIFY(!QFile::exists(folder.filePath(QLatin1String(secondFile))));
    QTest::mouseClick(page.findChild<QPushButton*>(QStringLiteral("savedRemoveAll")), Qt::LeftButton);
    QTest::mouseClick(page.findChild<QPushButton*>(QStringLiteral("savedConfirm")), Qt::LeftButton);
    QTRY_COMPARE(list->model()->rowCount(), 0);
    QVERIFY(!list->isVisible());
}

void TestSettings::withoutSavedContextsThePageSaysSo()
{
    SavedContextsPage page(StartupSettings{}, {});
    page.show();
    bool said = false;
    for (const QLabel* label : page.findChildren<QLabel*>())
        said = said || (label->isVisible() && label->text().contains(QStringLiteral("not saved in this run")));
    QVERIFY(said);
    QVERIFY(!page.findChild<QPushButton*>(QStringLiteral("savedVerify"))->isEnabled());
}

void TestSettings::theCommandLineWinsOverSettings()
{
    StartupSettings settings;
    settings.modelFolder = QStringLiteral("/models/big");
    settings.device = QStringLiteral("cuda:0");
    settings.sparse = engine::SparseMode::Off;
    settings.contextLimit = 100'000;
    settings.mtpDrafts = false;
    agents::WorkbenchOptions named;
    named.engine.modelDir = "/models/named";
    named.engine.devices = {"cpu"};
    named.engine.sparse = engine::SparseMode::On;
    named.engine.contextLimit = 4096;
    settings.applyTo(named, {true, true, true});
    QCOMPARE(named.engine.modelDir.string(), std::string("/models/named"));
    QCOMPARE(named.engine.devices, std::vector<std::string>({"cpu"}));
    QCOMPARE(named.engine.sparse, engine::SparseMode::On);
    QCOMPARE(named.engine.contextLimit, std::int64_t(4096));
    agents::WorkbenchOptions automatic; // the way out of settings that do not work
    automatic.engine.modelDir = "/usr/share/octavo/demo-model";
    automatic.engine.devices = {"auto"};
    settings.applyTo(automatic, {true, true, true});
    QCOMPARE(automatic.engine.modelDir.string(), std::string("/usr/share/octavo/demo-model"));
    QCOMPARE(automatic.engine.devices, std::vector<std::string>({"auto"}));
    QCOMPARE(automatic.engine.sparse, engine::SparseMode::Auto);
    agents::WorkbenchOptions open;
    open.engine.modelDir = "/usr/share/octavo/demo-model";
    settings.applyTo(open, {});
    QCOMPARE(open.engine.modelDir.string(), std::string("/models/big"));
    QCOMPARE(open.engine.devices, std::vector<std::string>({"cuda:0"}));
    QCOMPARE(open.engine.sparse, engine::SparseMode::Off);
    QCOMPARE(open.engine.contextLimit, std::int64_t(100'000));
    QVERIFY(open.lookupDrafts && !open.mtpDrafts);
}

void TestSettings::themeAndTextSizeHoldAtOnceAndAreKept()
{
    Bench bench;
    SettingsDialog dialog(bench.workbench.get(), {}, StartupSettings::load(bench.file()), bench.file());
    dialog.show();
    auto* scheme = dialog.findChild<QComboBox*>(QStringLiteral("scheme"));
    QCOMPARE(scheme->currentText(), QStringLiteral("Dark"));
    scheme->setFocus();
    QTest::keyClick(scheme, Qt::Key_Up); // Light
    QCOMPARE(Theme::instance()->scheme(), ColorScheme::Light);
    QCOMPARE(bench.workbench->setting(QStringLiteral("theme/scheme")), QStringLiteral("light"));
    auto* scale = dialog.findChild<QComboBox*>(QStringLiteral("textScale"));
    scale->setCurrentIndex(scale->findData(200));
    QCOMPARE(Theme::instance()->textScale(), 2.0);
    QCOMPARE(bench.workbench->setting(QStringLiteral("theme/text-scale")), QStringLiteral("2"));
    QCOMPARE(Theme::instance()->scheme(), ColorScheme::Light);
}

void TestSettings::samplingHoldsFromTheNextQuestionOn()
{
    Bench bench;
    SettingsDialog dialog(bench.workbench.get(), {}, StartupSettings::load(bench.file()), bench.file());
    dialog.show();
    dialog.setPage(SettingsDialog::Answers);
    auto* temperature = dialog.findChild<QDoubleSpinBox*>(QStringLiteral("temperature"));
    temperature->selectAll();
    QTest::keyClicks(temperature, QLocale().toString(0.7, 'f', 2));
    QTest::keyClick(temperature, Qt::Key_Tab);
    QCOMPARE(bench.workbench->sampling().temperature, 0.7F);
    dialog.findChild<QSpinBox*>(QStringLiteral("maxTokens"))->setValue(2048);
    QCOMPARE(bench.workbench->maxNewTokens(), 2048);
    QTRY_COMPARE(StartupSettings::load(bench.file()).maxNewTokens, 2048);
    QCOMPARE(StartupSettings::load(bench.file()).sampling.temperature, 0.7F);
}

void TestSettings::saysWhetherTheDemoModelFits()
{
    StartupSettings settings;
    settings.modelFolder = QStringLiteral(OCTAVO_RESOURCES "/demo-model");
    settings.device = QStringLiteral("cpu");
    ModelPage page(settings, {});
    page.show();
    auto* verdict = page.findChild<QLabel*>(QStringLiteral("verdict"));
    QTRY_VERIFY_WITH_TIMEOUT(verdict->text().startsWith(QStringLiteral("demo-model ")), 10000);
    QVERIFY2(!page.findChild<SegmentBar*>()->legend().isEmpty(), qPrintable(verdict->text()));
}

void TestSettings::saysWhatIsWrongWithAModelFolder()
{
    QTemporaryDir nothing;
    StartupSettings settings;
    settings.modelFolder = nothing.path();
    settings.device = QStringLiteral("cpu");
    ModelPage page(settings, {});
    page.show();
    auto* verdict = page.findChild<QLabel*>(QStringLiteral("verdict"));
    QTRY_COMPARE(verdict->text(), QStringLiteral("This model cannot be loaded."));
    bool named = false;
    for (const QLabel* label : page.findChildren<QLabel*>())
        named = named || label->text().contains(nothing.path());
    QVERIFY(named);
}

void TestSettings::listsCommandsWithTheirKeys()
{
    Bench bench;
    QAction zoom(QStringLiteral("&Zoom pane"));
    zoom.setShortcut(QKeySequence(Qt::Key_F11));
    QAction bare(QStringLiteral("Without a key"));
    SettingsDialog dialog(bench.workbench.get(), {&zoom, &bare}, StartupSettings::load(bench.file()), bench.file());
    auto* model = dialog.findChild<QAbstractItemView*>(QStringLiteral("shortcuts"))->model();
    QCOMPARE(model->rowCount(), 2);
    QCOMPARE(model->index(0, 0).data().toString(), QStringLiteral("Zoom pane"));
    QCOMPARE(model->index(0, 1).data().toString(), QStringLiteral("F11"));
    QCOMPARE(model->index(1, 1).data().toString(), dash());
}

void TestSettings::draftsHoldFromTheNextQuestionAndMemoryFromTheNextStart()
{
    Bench bench;
    SettingsDialog dialog(bench.workbench.get(), {}, StartupSettings::load(bench.file()), bench.file());
    dialog.show();
    dialog.setPage(SettingsDialog::Answers);
    QTest::keyClick(dialog.findChild<QCheckBox*>(QStringLiteral("mtpDrafts")), Qt::Key_Space);
    QVERIFY(bench.workbench->lookupDrafts() && !bench.workbench->mtpDrafts());
    dialog.setPage(SettingsDialog::Memory);
    auto* sparse = dialog.findChild<QComboBox*>(QStringLiteral("sparse"));
    sparse->setCurrentIndex(sparse->findData(int(engine::SparseMode::On)));
    dialog.findChild<QSpinBox*>(QStringLiteral("contextLimit"))->setValue(65'536);
    dialog.findChild<QDoubleSpinBox*>(QStringLiteral("memoryBudget"))->setValue(12);
    dialog.findChild<QDoubleSpinBox*>(QStringLiteral("savedQuota"))->setValue(2.5);
    QTRY_COMPARE(StartupSettings::load(bench.file()).savedContextsQuota, qint64(5) << 29);
    const StartupSettings kept = StartupSettings::load(bench.file());
    QVERIFY(kept.lookupDrafts && !kept.mtpDrafts);
    QCOMPARE(kept.sparse, engine::SparseMode::On);
    QCOMPARE(kept.contextLimit, 65'536);
    QCOMPARE(kept.memoryBudgetBytes, qint64(12) << 30);
    // Opened again, it shows what was kept.
    SettingsDialog again(bench.workbench.get(), {}, StartupSettings::load(bench.file()), bench.file());
    QCOMPARE(again.findChild<QSpinBox*>(QStringLiteral("contextLimit"))->value(), 65'536);
    QCOMPARE(again.findChild<QCheckBox*>(QStringLiteral("mtpDrafts"))->isChecked(), false);
    QCOMPARE(again.findChild<QCheckBox*>(QStringLiteral("lookupDrafts"))->isChecked(), true);
}

void TestSettings::aCommandGetsAnotherKeyAndKeepsIt()
{
    Bench bench;
    QAction zoom(QStringLiteral("Zoom pane"));
    setDefaultKeys(&zoom, QStringLiteral("zoom"), {QKeySequence(Qt::Key_F11)});
    QAction find(QStringLiteral("Find"));
    setDefaultKeys(&find, QStringLiteral("find"), {QKeySequence(QStringLiteral("Ctrl+F"))});
    SettingsDialog dialog(bench.workbench.get(), {&zoom, &find}, StartupSettings::load(bench.file()), bench.file());
    dialog.setPage(SettingsDialog::Shortcuts);
    dialog.show();
    QTest::keyClicks(dialog.findChild<QLineEdit*>(QStringLiteral("shortcutSearch")), QStringLiteral("zoo"));
    auto* list = dialog.findChild<QAbstractItemView*>(QStringLiteral("shortcuts"));
    QCOMPARE(list->model()->rowCount(), 1);
    list->setCurrentIndex(list->model()->index(0, 0));
    QTest::keyClick(dialog.findChild<QWidget*>(QStringLiteral("shortcutKey")), Qt::Key_Z, Qt::ControlModifier);
    QCOMPARE(zoom.shortcut(), QKeySequence(QStringLiteral("Ctrl+Z")));
    QCOMPARE(list->model()->index(0, 1).data().toString(), QStringLiteral("Ctrl+Z"));

    QAction reopened(QStringLiteral("Zoom pane"));
    setDefaultKeys(&reopened, QStringLiteral("zoom"), {QKeySequence(Qt::Key_F11)});
    loadKeys({&reopened}, *bench.workbench);
    QCOMPARE(reopened.shortcut(), QKeySequence(QStringLiteral("Ctrl+Z")));
    // A key that was chosen counts before one that a later version gives to another command.
    QAction later(QStringLiteral("Later"));
    setDefaultKeys(&later, QStringLiteral("later"),
                   {QKeySequence(QStringLiteral("Ctrl+Z")), QKeySequence(Qt::Key_F1)});
    loadKeys({&later, &reopened}, *bench.workbench);
    QCOMPARE(later.shortcuts(), QList<QKeySequence>{QKeySequence(Qt::Key_F1)});
    dialog.findChild<QPushButton*>(QStringLiteral("shortcutNone"))->click();
    loadKeys({&reopened}, *bench.workbench);
    QVERIFY(reopened.shortcuts().isEmpty());
    dialog.findChild<QPushButton*>(QStringLiteral("shortcutDefault"))->click();
    QCOMPARE(zoom.shortcut(), QKeySequence(Qt::Key_F11));
    // What cannot be read leaves the default.
    bench.workbench->setSetting(QStringLiteral("shortcuts/zoom"), QStringLiteral("Ctrl+Nonsense"));
    setDefaultKeys(&reopened, QStringLiteral("zoom"), {QKeySequence(Qt::Key_F11)});
    loadKeys({&reopened}, *bench.workbench);
    QCOMPARE(reopened.shortcut(), QKeySequence(Qt::Key_F11));
}

void TestSettings::aKeyThatIsTakenOrNeededForWritingIsRefused()
{
    Bench bench;
    QAction zoom(QStringLiteral("Zoom pane"));
    setDefaultKeys(&zoom, QStringLiteral("zoom"), {QKeySequence(Qt::Key_F11)});
    QAction find(QStringLiteral("Find"));
    setDefaultKeys(&find, QStringLiteral("find"), {QKeySequence(QStringLiteral("Ctrl+F"))});
    SettingsDialog dialog(bench.workbench.get(), {&zoom, &find}, StartupSettings::load(bench.file()), bench.file());
    dialog.setPage(SettingsDialog::Shortcuts);
    dialog.show();
    auto* key = dialog.findChild<QWidget*>(QStringLiteral("shortcutKey"));
    auto* says = dialog.findChild<QLabel*>(QStringLiteral("shortcutSays"));
    QTest::keyClick(key, Qt::Key_F, Qt::ControlModifier);
    QCOMPARE(zoom.shortcut(), QKeySequence(Qt::Key_F11));
    QVERIFY2(says->text().contains(QStringLiteral("Find")), qPrintable(says->text()));
    QTest::keyClick(key, Qt::Key_A);
    QCOMPARE(zoom.shortcut(), QKeySequence(Qt::Key_F11));
    QVERIFY2(says->text().contains(QStringLiteral("Ctrl or Alt")), qPrintable(says->text()));
}

void TestSettings::everyControlHasAName()
{
    Bench bench;
    SettingsDialog dialog(bench.workbench.get(), {}, StartupSettings::load(bench.file()), bench.file());
    for (const char* name :
         {"scheme",     "textScale", "modelFolder",    "device",      "temperature", "topK",         "topP",
          "minP",       "seed",      "maxTokens",      "lookupDrafts", "mtpDrafts",   "sparse",       "contextLimit",
          "memoryBudget", "savedQuota", "savedContexts", "savedVerify", "savedRemove", "savedRemoveAll", "savedKeep",
          "savedConfirm", "shortcuts",  "shortcutSearch", "shortcutKey", "pages",       "close"}) {
        auto* widget = dialog.findChild<QWidget*>(QLatin1String(name));
        QVERIFY2(widget != nullptr, name);
        QVERIFY2(!widget->accessibleName().isEmpty(), name);
        QVERIFY2(widget->focusPolicy() & Qt::TabFocus, name);
    }
}

void TestSettings::nothingIsCutAtTwiceTheText()
{
    Theme::instance()->apply(SchemeChoice::Light, 2.0);
    const Bench bench;
    SettingsDialog dialog(bench.workbench.get(), {}, {}, bench.file());
    dialog.resize(900, 700); // on a screen that is no larger
    dialog.show();
    for (int page = SettingsDialog::Appearance; page <= SettingsDialog::Shortcuts; ++page) {
        dialog.setPage(SettingsDialog::Page(page));
        QApplication::processEvents();
        for (const QScrollArea* area : dialog.findChildren<QScrollArea*>()) {
            if (area->isVisible())
                QVERIFY2(area->widget()->width() <= area->viewport()->width(), qPrintable(QString::number(page)));
        }
        for (const QAbstractSpinBox* box : dialog.findChildren<QAbstractSpinBox*>()) {
            if (box->isVisible())
                QVERIFY2(box->width() >= box->sizeHint().width(), qPrintable(box->accessibleName()));
        }
    }
}

void TestSettings::theWindowGrowsWithItsText()
{
    const QSize room = QGuiApplication::primaryScreen()->availableGeometry().size();
    QWidget window;
    sizeByText(&window, room / 4);
    QCOMPARE(window.size(), room / 4);
    Theme::instance()->apply(SchemeChoice::Light, 2.0);
    QCOMPARE(window.size(), 2 * (room / 4));
    window.resize(room / 8); // by hand
    Theme::instance()->apply(SchemeChoice::Dark, 2.0);
    QCOMPARE(window.size(), 2 * (room / 4));
    Theme::instance()->apply(SchemeChoice::Dark, 1.0); // it is not taken smaller again
    QCOMPARE(window.size(), 2 * (room / 4));

    QWidget large;
    sizeByText(&large, room * 3 / 4);
    Theme::instance()->apply(SchemeChoice::Dark, 2.0);
    QVERIFY(large.width() < room.width() && large.height() < room.height());
}

QTEST_MAIN(TestSettings)
#include "tst_settings.moc"
