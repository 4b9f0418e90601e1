#include "ui/controls.h"
#include "ui/theme.h"

#include <QDir>
#include <QtTest>

using namespace octavo::ui;

class TestTheme : public QObject
{
    Q_OBJECT

private slots:
    void textKeepsItsContrast_data()
    {
        QTest::addColumn<int>("choice");
        QTest::newRow("light") << int(SchemeChoice::Light);
        QTest::newRow("dark") << int(SchemeChoice::Dark);
        QTest::newRow("contrast") << int(SchemeChoice::HighContrast);
    }

    void textKeepsItsContrast()
    {
        QFETCH(int, choice);
        Theme::instance()->apply(SchemeChoice(choice));
        const Colors& c = colors();
        const qreal wanted = SchemeChoice(choice) == SchemeChoice::HighContrast ? 7.0 : 4.5;
        for (const QColor& surface : {c.panel, c.raised, c.background, c.question}) {
            for (const QColor& text : {c.text, c.muted, c.accentText, c.goodText, c.warningText, c.badText}) {
                QVERIFY2(contrastRatio(text, surface) >= wanted, qPrintable(QStringLiteral("%1 on %2: %3")
                                                                                .arg(text.name(), surface.name())
                                                                                .arg(contrastRatio(text, surface))));
            }
        }
        for (const QColor& token : {c.text, c.keyword, c.type, c.function, c.string, c.number, c.comment}) {
            QVERIFY2(contrastRatio(token, c.codeBlock) >= wanted,
                     qPrintable(token.name() + QStringLiteral(" on code: ") +
                                QString::number(contrastRatio(token, c.codeBlock))));
        }
        QVERIFY(contrastRatio(c.onAccent, c.accent) >= 4.0);
        QVERIFY(contrastRatio(c.text, c.selection) >= wanted);
    }

    void everyIconDrawsInTheThemesColour()
    {
        Theme::instance()->apply(SchemeChoice::Dark);
        const QStringList icons = QDir(QStringLiteral(":/icons")).entryList({QStringLiteral("*.svg")});
        QVERIFY(icons.size() > 20);
        for (const QString& file : icons) {
            const QImage image = icon(file.chopped(4), Tone::Accent).pixmap(32, 32).toImage();
            int inked = 0;
            for (int y = 0; y < image.height(); ++y) {
                for (int x = 0; x < image.width(); ++x) {
                    const QColor pixel = image.pixelColor(x, y);
                    if (pixel.alpha() < 255)
                        continue;
                    ++inked;
                    QCOMPARE(pixel.rgb(), colors().accentText.rgb());
                }
            }
            QVERIFY2(inked > 4, qPrintable(file));
        }
    }

    void schemeNamesComeBack()
    {
        for (const auto choice :
             {SchemeChoice::System, SchemeChoice::Light, SchemeChoice::Dark, SchemeChoice::HighContrast})
            QCOMPARE(Theme::choiceFromName(Theme::name(choice)), choice);
        QCOMPARE(Theme::choiceFromName(QStringLiteral("no such")), SchemeChoice::System);
    }

    void textScaleScalesEveryFont()
    {
        Theme::instance()->apply(SchemeChoice::Light, 1.0);
        const qreal one = font(TextRole::Body).pointSizeF();
        Theme::instance()->apply(SchemeChoice::Light, 2.0);
        QCOMPARE(font(TextRole::Body).pointSizeF(), 2 * one);
        QCOMPARE(QApplication::font().pointSizeF(), 2 * one);
        Theme::instance()->apply(SchemeChoice::Light, 1.0);
    }

    void whatIsNotKnownIsADashNeverZero()
    {
        QLocale::setDefault(QLocale::English);
        QCOMPARE(rateText(-1), dash());
        QCOMPARE(percentText(-1), dash());
        QCOMPARE(durationText(-1), dash());
        QCOMPARE(bytesText(-1), dash());
        QCOMPARE(countText(-1), dash());
        QCOMPARE(shortCountText(-1), dash());
        QCOMPARE(countText(243812), QStringLiteral("243,812"));
        QCOMPARE(shortCountText(41077), QStringLiteral("41K"));
        QCOMPARE(shortCountText(250000), QStringLiteral("250K"));
        QCOMPARE(durationText(30.2), QStringLiteral("0:31"));
        QCOMPARE(durationText(3725), QStringLiteral("1:02:05"));
        QCOMPARE(percentText(0), QStringLiteral("0%"));
    }
};

QTEST_MAIN(TestTheme)
#include "tst_theme.moc"
