#include "engine/result.h"

#include <QTest>

#include <memory>

using namespace octavo;

class TestResult : public QObject
{
    Q_OBJECT

private slots:
    void holdsAValueThatCanOnlyBeMoved()
    {
        Result<std::unique_ptr<int>> result(std::make_unique<int>(7));
        QVERIFY(result);
        std::unique_ptr<int> value = *std::move(result);
        QCOMPARE(*value, 7);
    }

    void tryReturnsTheErrorOfTheInnerCall()
    {
        auto inner = [](bool fail) -> Result<int> {
            if (fail)
                return Error{ErrorCode::NotFound, "no such thing"};
            return 2;
        };
        auto outer = [&](bool fail) -> Result<int> {
            OCTAVO_TRY(const int value, inner(fail));
            return value * 21;
        };
        QCOMPARE(*outer(false), 42);
        QCOMPARE(outer(true).error().code, ErrorCode::NotFound);
        QCOMPARE(outer(true).error().message, std::string("no such thing"));
    }

    void everyCodeHasATitleOfItsOwn()
    {
        QSet<QByteArray> titles;
        for (int code = 0; code <= int(ErrorCode::Cancelled); ++code) {
            const std::string_view title = errorTitle(ErrorCode(code));
            QVERIFY(title != "Unknown error");
            titles.insert(QByteArray(title.data(), qsizetype(title.size())));
        }
        QCOMPARE(titles.size(), int(ErrorCode::Cancelled) + 1);
    }
};

QTEST_GUILESS_MAIN(TestResult)
#include "tst_result.moc"
