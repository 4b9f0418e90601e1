#include "tests/ui/long_answer.h"
#include "ui/theme.h"
#include "ui/transcript/transcript_view.h"

#include <QAccessible>
#include <QClipboard>
#include <QRandomGenerator>
#include <QScrollBar>
#include <QSignalSpy>
#include <QtTest>

using namespace octavo;
using namespace octavo::ui;
using namespace octavo::agents;

namespace {

Message message(qint64 id, MessageRole role, const QString& text, MessageState state = MessageState::Complete)
{
    Message m;
    m.id = MessageId{id};
    m.role = role;
    m.text = text;
    m.state = state;
    return m;
}

const QString code = QStringLiteral("int main()\n{\n\treturn 0;   \n}");

void swipe(TranscriptView& view, QPoint angle)
{
    const QPointF at(view.viewport()->rect().center());
    QWheelEvent event(at, view.viewport()->mapToGlobal(at), QPoint(), angle, Qt::NoButton, Qt::NoModifier,
                      Qt::NoScrollPhase, false);
    QCoreApplication::sendEvent(view.viewport(), &event);
}

void wheel(TranscriptView& view, int notches)
{
    swipe(view, QPoint(0, notches * 120));
}

} // namespace

class TestTranscript : public QObject
{
    Q_OBJECT

private:
    std::unique_ptr<TranscriptView> m_view;

    QScrollBar* bar() const { return m_view->verticalScrollBar(); }

    void stream(int paragraphs)
    {
        for (int i = 0; i < paragraphs; ++i) {
            m_view->appendText(MessageId{2}, QStringLiteral("Paragraph %1 with some words in it.\n\n").arg(i));
            m_view->flush();
        }
    }

private slots:
    void initTestCase() { Theme::instance()->apply(SchemeChoice::Dark); }

    void init()
    {
        m_view = std::make_unique<TranscriptView>();
        m_view->resize(400, 300);
        m_view->show();
        QVERIFY(QTest::qWaitForWindowExposed(m_view.get()));
        m_view->setMessages({message(1, MessageRole::User, QStringLiteral("question"))});
        m_view->addMessage(message(2, MessageRole::Assistant, {}, MessageState::Pending));
    }

    void cleanup() { m_view.reset(); }

    void followsTheEndWhileTextArrives()
    {
        stream(60);
        QVERIFY(m_view->followsEnd());
        QVERIFY(bar()->maximum() > 500);
        QCOMPARE(bar()->value(), bar()->maximum());
    }

    void anyMoveUpDetachesAtOnce_data()
    {
        QTest::addColumn<QString>("move");
        for (const char* move : {"wheel", "page up", "up", "home", "drag", "select", "find"})
            QTest::newRow(move) << QString::fromLatin1(move);
    }

    void anyMoveUpDetachesAtOnce()
    {
        QFETCH(QString, move);
        stream(60);
        m_view->setFocus();
        if (move == u"wheel") {
            wheel(*m_view, 1);
        } else if (move == u"page up") {
            QTest::keyClick(m_view.get(), Qt::Key_PageUp);
        } else if (move == u"up") {
            QTest::keyClick(m_view.get(), Qt::Key_Up);
        } else if (move == u"home") {
            QTest::keyClick(m_view.get(), Qt::Key_Home);
        } else if (move == u"drag") {
            bar()->setSliderDown(true);
            bar()->setSliderPosition(bar()->maximum() - 100);
            bar()->setSliderDown(false);
        } else if (move == u"select") {
            QTest::mousePress(m_view->viewport(), Qt::LeftButton, {}, QPoint(40, 40));
            QTest::mouseMove(m_view->viewport(), QPoint(120, 90));
            QMouseEvent event(QEvent::MouseMove, QPointF(120, 90), m_view->viewport()->mapToGlobal(QPointF(120, 90)),
                              Qt::NoButton, Qt::LeftButton, {});
            QCoreApplication::sendEvent(m_view->viewport(), &event);
        } else {
            QVERIFY(m_view->find(QStringLiteral("Paragraph 3 ")) == 1);
        }
        QVERIFY(!m_view->followsEnd());
        const int value = bar()->value();
        stream(20);
        QCOMPARE(bar()->value(), value);
    }

    void aSlantedSwipeScrollsTheWayItGoesMost()
    {
        stream(60);
        const int end = bar()->value();
        swipe(*m_view, QPoint(1, 40));
        QVERIFY(bar()->value() < end);
        QVERIFY(!m_view->followsEnd());
        const int higher = bar()->value();
        swipe(*m_view, QPoint(-1, -40));
        QVERIFY(bar()->value() > higher);
        swipe(*m_view, QPoint(-240, 7)); // nothing here is wider than the view
        QVERIFY(m_view->followsEnd());
    }

    void whatCanBePressedIsReachedByAScreenReader() // B-44
    {
        Message answer = message(1, MessageRole::Assistant,
                                 QStringLiteral("See [the docs](https://example.org/a).\n\n```c\nint a;\n```\n"));
        answer.state = MessageState::Complete;
        m_view->setMessages({answer});
        m_view->show();
        QApplication::setActiveWindow(m_view.get());
        QVERIFY(QTest::qWaitForWindowActive(m_view.get()));
        m_view->setFocus();
        QAccessible::setActive(true);
        QAccessibleInterface* root = QAccessible::queryAccessibleInterface(m_view.get());
        QStringList names;
        QAccessibleInterface* link = nullptr;
        for (int i = 0; i < root->childCount(); ++i) {
            QAccessibleInterface* child = root->child(i);
            if (child->object())
                continue;
            QCOMPARE(root->indexOfChild(child), i);
            QCOMPARE(child->parent(), root);
            names += child->text(QAccessible::Name);
            if (child->role() == QAccessible::Link)
                link = child;
        }
        QCOMPARE(names.size(), 4); // the link, Copy of the code, Copy and Regenerate of the answer
        QVERIFY(link && link->isValid());
        QVERIFY(link->text(QAccessible::Name).contains(QStringLiteral("the docs")));
        QVERIFY(link->text(QAccessible::Name).contains(QStringLiteral("https://example.org/a")));
        const QRect rect = link->rect();
        QVERIFY(QRect(m_view->mapToGlobal(QPoint()), m_view->size()).contains(rect));
        QSignalSpy opened(m_view.get(), &TranscriptView::linkActivated);
        link->actionInterface()->doAction(QAccessibleActionInterface::pressAction());
        QCOMPARE(opened.size(), 1);

        QStringList focused;
        for (int i = 0; i < 2; ++i) {
            QTest::keyClick(m_view.get(), Qt::Key_Tab);
            if (QAccessibleInterface* at = root->focusChild())
                focused += at->text(QAccessible::Name);
        }
        QCOMPARE(focused, names.mid(0, 2));
        QVERIFY(root->textInterface());
        QCOMPARE(root->textInterface()->text(0, root->textInterface()->characterCount()), m_view->plainText());
        m_view->setMessages({});
        QVERIFY(!link->isValid());
        QCOMPARE(link->text(QAccessible::Name), QString());
        QAccessible::setActive(false);
    }

    void aLinkOverTwoLinesIsClickedOnBoth()
    {
        m_view->resize(260, 300);
        Message answer =
            message(1, MessageRole::Assistant,
                    QStringLiteral("Some words first, then [a link with so many words in it that they take "
                                   "two lines at the least](https://example.org/)"));
        answer.state = MessageState::Complete;
        m_view->setMessages({answer});
        m_view->grab();
        QSignalSpy opened(m_view.get(), &TranscriptView::linkActivated);
        const QRect first = m_view->rectOf(m_view->pressables()[0]);
        QVERIFY(!first.isEmpty());
        const int pitch = first.height();
        QTest::mouseClick(m_view->viewport(), Qt::LeftButton, {}, first.center());
        QCOMPARE(opened.size(), 1);
        QTest::mouseClick(m_view->viewport(), Qt::LeftButton, {}, QPoint(40, first.center().y() + pitch));
        QCOMPARE(opened.size(), 2);
        QCOMPARE(opened[1][1].toString(), m_view->actionOf(m_view->pressables()[0])->shown);
    }

    void codeIsDrawnInTheOrderOfItsFile() // CVE-2021-42574
    {
        const auto picture = [](const QString& line) {
            TranscriptView view;
            view.resize(400, 200);
            Message answer = message(1, MessageRole::Assistant, QStringLiteral("```c\n%1\n```\n").arg(line));
            answer.state = MessageState::Complete;
            view.setMessages({answer});
            return view.grab().toImage();
        };
        const QImage shown = picture(QStringLiteral("/*\u202E } \u2066if (admin)\u2069 \u2066 begin */"));
        QCOMPARE(shown, picture(QStringLiteral("/*\uFFFD } \uFFFDif (admin)\uFFFD \uFFFD begin */")));
        QVERIFY(shown != picture(QStringLiteral("/* begin */")));
    }

    void attachesAgainAtTheEndOrByButton()
    {
        stream(60);
        wheel(*m_view, 3);
        QVERIFY(!m_view->followsEnd());
        wheel(*m_view, -30);
        QVERIFY(m_view->followsEnd());
        wheel(*m_view, 3);
        m_view->jumpToEnd();
        stream(10);
        QVERIFY(m_view->followsEnd());
        QCOMPARE(bar()->value(), bar()->maximum());
    }

    void staysOnTheSameLineWhenThePaneIsResized()
    {
        stream(80);
        bar()->setValue(bar()->maximum() / 2);
        QVERIFY(!m_view->followsEnd());
        const auto topLine = [&] { return m_view->grab(QRect(12, 0, 200, 24)).toImage(); };
        bar()->setValue(bar()->value() / 20 * 20 + 3);
        const QImage before = topLine();
        m_view->resize(500, 300);
        m_view->resize(400, 300);
        QCOMPARE(topLine(), before);
    }

    void copyOfACodeBlockGivesItsExactSource()
    {
        m_view->appendText(MessageId{2}, QStringLiteral("See:\n\n```cpp\n") + code + QStringLiteral("\n```\n"));
        m_view->updateMessage(
            message(2, MessageRole::Assistant, QStringLiteral("See:\n\n```cpp\n") + code + QStringLiteral("\n```\n")));
        m_view->setFocus();
        QTest::keyClick(m_view.get(), Qt::Key_Tab); // the block's Copy is the first thing to reach
        QTest::keyClick(m_view.get(), Qt::Key_Return);
        QCOMPARE(QGuiApplication::clipboard()->text(), code);
    }

    void selectionReachesOverBlocksAndCopiesWithoutOurMarks()
    {
        const QString text = QStringLiteral("First `a.cpp` here.\n\n- one\n- two\n\n```\nx = 1\n```\n");
        m_view->appendText(MessageId{2}, text);
        m_view->flush();
        Message done = message(2, MessageRole::Assistant, text);
        Citation citation;
        citation.kind = CitationKind::Path;
        citation.state = CitationState::Verified;
        citation.displayPath = QStringLiteral("a.cpp");
        citation.textStart = int(text.indexOf(u'a'));
        citation.textLength = 5;
        done.citations = {citation};
        m_view->updateMessage(done);
        QVERIFY(m_view->plainText().contains(u'\u2713'));
        m_view->selectAll();
        QCOMPARE(m_view->selectedText(), QStringLiteral("question\n\nFirst a.cpp here.\n\n- one\n- two\n\nx = 1"));
    }

    void aQuoteInsideALineIsMarkedBehindIt()
    {
        const QString text = QStringLiteral("- `a.cpp`: `return a;`\n- `a.cpp`: `return b;`\n");
        Message done = message(2, MessageRole::Assistant, text);
        for (const char* code : {"return a;", "return b;"}) {
            Citation citation;
            citation.kind = CitationKind::Quote;
            citation.state = done.citations.isEmpty() ? CitationState::Verified : CitationState::Unverified;
            citation.displayPath = QStringLiteral("a.cpp");
            citation.textStart = int(text.indexOf(QLatin1String(code)));
            citation.textLength = 9;
            done.citations += citation;
        }
        m_view->appendText(MessageId{2}, text);
        m_view->updateMessage(done);
        QString shown = m_view->plainText();
        shown.remove(QChar(0x202F)).replace(QChar::Nbsp, u' ');
        QVERIFY2(shown.contains(QStringLiteral("a.cpp: return a; \u2713")), qPrintable(shown));
        QVERIFY2(shown.contains(QStringLiteral("a.cpp: return b; unverified")), qPrintable(shown));
    }

    void aVerifiedQuoteOpensItsPlace()
    {
        const QString text = QStringLiteral("```cpp\n") + code + QStringLiteral("\n```\n");
        Message done = message(2, MessageRole::Assistant, text);
        Citation citation;
        citation.kind = CitationKind::Quote;
        citation.state = CitationState::Verified;
        citation.path = "src/main.cpp";
        citation.displayPath = QStringLiteral("src/main.cpp");
        citation.line = 7;
        citation.textStart = 0;
        citation.textLength = int(text.size());
        done.citations = {citation};
        m_view->appendText(MessageId{2}, text);
        m_view->updateMessage(done);
        QSignalSpy spy(m_view.get(), &TranscriptView::citationActivated);
        m_view->setFocus();
        QTest::keyClick(m_view.get(), Qt::Key_Tab);
        QTest::keyClick(m_view.get(), Qt::Key_Tab);
        QTest::keyClick(m_view.get(), Qt::Key_Return);
        QCOMPARE(spy.size(), 1);
        QCOMPARE(spy[0][0].value<Citation>().line, 7);
        QVERIFY(m_view->selectedText().isEmpty());
    }

    void contentIsNeverMarkup()
    {
        const QString evil = QStringLiteral("<b>bold</b> <img src=file:///etc/passwd> &amp; \x1b[31m\n");
        m_view->appendText(MessageId{2}, evil);
        m_view->flush();
        QVERIFY(m_view->plainText().contains(QStringLiteral("<b>bold</b> <img src=file:///etc/passwd> &amp;")));
        QVERIFY(!m_view->plainText().contains(QChar(0x1b)));
    }

    void staysOnTheSameLineWhenTextAboveGrows() // B-39
    {
        m_view->appendText(MessageId{2}, QStringLiteral("```cpp\n%1\n```\n\n").arg(code));
        stream(60);
        wheel(*m_view, 8);
        QVERIFY(!m_view->followsEnd());
        // The line in the middle of the view, found by where a match of it is painted.
        const auto shown = [&] { return m_view->viewport()->grab(QRect(0, 100, 300, 40)).toImage(); };
        const QImage before = shown();
        Message marked = m_view->messages().back();
        Citation citation;
        citation.kind = CitationKind::Quote;
        citation.state = CitationState::Verified;
        citation.path = "src/main.cpp";
        citation.displayPath = QStringLiteral("src/main.cpp");
        citation.line = 1;
        citation.textStart = 0;
        citation.textLength = 6;
        marked.citations = {citation};
        m_view->updateMessage(marked); // a line under the block says that it is verified
        QCOMPARE(shown(), before);
    }

    void aScreenReaderHearsTheEndOfAnAnswerAndNotEachToken() // B-44
    {
        QSignalSpy announced(m_view.get(), &TranscriptView::announced);
        stream(60);
        QCOMPARE(announced.size(), 0);
        Message ended = m_view->messages().back();
        ended.state = MessageState::Complete;
        m_view->updateMessage(ended);
        m_view->updateMessage(ended);
        QCOMPARE(announced.size(), 1);
        QAccessibleInterface* view = QAccessible::queryAccessibleInterface(m_view.get());
        QCOMPARE(view->role(), QAccessible::Document);
        QVERIFY(view->text(QAccessible::Description).contains(QStringLiteral("Paragraph 59")));
    }

    void anAnswerThatEndedEarlyOffersToGoOn()
    {
        QSignalSpy goesOn(m_view.get(), &TranscriptView::continueRequested);
        QSignalSpy again(m_view.get(), &TranscriptView::regenerateRequested);
        const auto pressTheSecond = [&](MessageState state) { // after Copy
            m_view->setMessages({message(1, MessageRole::User, QStringLiteral("question")),
                                 message(2, MessageRole::Assistant, QStringLiteral("half an"), state)});
            m_view->setFocus();
            for (const int key : {int(Qt::Key_Tab), int(Qt::Key_Tab), int(Qt::Key_Return)})
                QTest::keyClick(m_view.get(), Qt::Key(key));
        };
        int early = 0;
        for (const MessageState state : {MessageState::Stopped, MessageState::Interrupted, MessageState::LengthLimit}) {
            pressTheSecond(state);
            QCOMPARE(goesOn.size(), ++early);
        }
        QVERIFY2(m_view->plainText().contains(QStringLiteral("Continue goes on from here")),
                 qPrintable(m_view->plainText()));
        QCOMPARE(again.size(), 0);
        pressTheSecond(MessageState::Complete);
        pressTheSecond(MessageState::ContextFull);
        pressTheSecond(MessageState::Repeated); // it would only go on repeating
        QCOMPARE(goesOn.size(), early);
        QCOMPARE(again.size(), 3);
    }

    void anInterruptedAnswerSaysWhetherItHadBegun()
    {
        const auto said = [&](const QString& text) {
            m_view->setMessages({message(1, MessageRole::User, QStringLiteral("question")),
                                 message(2, MessageRole::Assistant, text, MessageState::Interrupted)});
            return m_view->plainText();
        };
        const QString begun = said(QStringLiteral("half an")), notYet = said({});
        QVERIFY2(begun.contains(QStringLiteral("the text so far is here")), qPrintable(begun));
        QVERIFY2(notYet.contains(QStringLiteral("before the answer began")), qPrintable(notYet));
    }

    void findCountsStepsAndWraps()
    {
        stream(30);
        QCOMPARE(m_view->find(QStringLiteral("PARAGRAPH")), 30);
        const int first = m_view->currentFound();
        m_view->findStep(1);
        QCOMPARE(m_view->currentFound(), (first + 1) % 30);
        for (int i = 0; i < 29; ++i)
            m_view->findStep(1);
        QCOMPARE(m_view->currentFound(), first);
        stream(2); // what arrives is searched, too
        QCOMPARE(m_view->foundCount(), 32);
        QCOMPARE(m_view->find({}), 0);
    }

    void streamedAndReopenedLookTheSame()
    {
        const QString text = test::longAnswer(2500);
        QRandomGenerator random(3);
        for (int at = 0; at < text.size();) {
            const int n = random.bounded(1, 400);
            m_view->appendText(MessageId{2}, text.mid(at, n));
            m_view->flush();
            at += n;
        }
        m_view->updateMessage(message(2, MessageRole::Assistant, text));
        TranscriptView reopened;
        reopened.resize(m_view->size());
        reopened.show();
        reopened.setMessages(
            {message(1, MessageRole::User, QStringLiteral("question")), message(2, MessageRole::Assistant, text)});
        QCOMPARE(reopened.plainText(), m_view->plainText());
        reopened.verticalScrollBar()->setValue(0);
        bar()->setValue(0);
        QCOMPARE(reopened.verticalScrollBar()->maximum() > 0, bar()->maximum() > 0);
    }

    void aLongSessionOpensWithoutLayingOutWhatIsNotSeen()
    {
        QList<Message> messages;
        for (int i = 0; i < 1000; ++i) {
            messages += message(10 + 2 * i, MessageRole::User, QStringLiteral("question %1").arg(i));
            messages += message(11 + 2 * i, MessageRole::Assistant,
                                QStringLiteral("Answer %1 is `short`.\n\n- a\n- b\n\n```py\nx = %1\n```\n").arg(i));
        }
        m_view->setMessages(messages);
        QCOMPARE(bar()->value(), bar()->maximum());
        // Scrolling up meets real heights for guessed ones: the place must hold on to its line at each step.
        for (int i = 0; i < 30; ++i)
            wheel(*m_view, 1);
        QVERIFY(bar()->value() < bar()->maximum());
        QCOMPARE(m_view->find(QStringLiteral("question 0")), 1);
        QVERIFY(m_view->plainText().startsWith(QStringLiteral("question 0")));
    }

    void theTrailerStandsBelowTheLastText()
    {
        auto* card = new QWidget;
        card->setMinimumSize(50, 60);
        m_view->setTrailer(card);
        stream(3);
        QVERIFY(card->isVisible());
        QVERIFY(card->y() > 60);
        m_view->setTrailer(nullptr);
        QVERIFY(!card->isVisible());
        delete card;
    }

    void everyThemeAndScaleLaysOutAgain()
    {
        stream(30);
        const int small = bar()->maximum();
        Theme::instance()->apply(SchemeChoice::Light, 2.0);
        const int large = bar()->maximum();
        QVERIFY(large > small);
        QVERIFY(m_view->followsEnd());
        Theme::instance()->apply(SchemeChoice::Dark, 1.0);
        QVERIFY(bar()->maximum() < large);
        QCOMPARE(bar()->value(), bar()->maximum());
    }
};

QTEST_MAIN(TestTranscript)
#include "tst_transcript.moc"
