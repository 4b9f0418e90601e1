#include "engine/speculation/draft_planner.h"
#include "engine/speculation/prompt_lookup.h"

#include <QTest>

#include <algorithm>
#include <random>

using namespace octavo::engine;

class TestPromptLookup : public QObject
{
    Q_OBJECT

private slots:
    void continuesWhatStoodBefore()
    {
        const std::vector<TokenId> tokens{1, 2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4};
        const PromptLookup lookup(tokens);
        const Draft draft = lookup.propose(3);
        QCOMPARE(draft.tokens, (std::vector<TokenId>{5, 6, 7}));
        QCOMPARE(draft.matched, 3);
    }

    void hasNoIdeaWhereNothingRepeats()
    {
        const std::vector<TokenId> tokens{1, 2, 3, 4, 5, 6, 7, 8};
        QVERIFY(PromptLookup(tokens).propose(4).tokens.empty());
        QVERIFY(PromptLookup({}).propose(4).tokens.empty());
        QVERIFY(PromptLookup(std::vector<TokenId>{1, 1}).propose(4).tokens.empty());
        QVERIFY(PromptLookup(std::vector<TokenId>{1, 2, 3, 1, 2, 3}).propose(0).tokens.empty());
    }

    void thePlaceThatAgreesFurthestBackWins()
    {
        const std::vector<TokenId> tokens{9, 1, 2, 3, 40, 8, 1, 2, 3, 50, 7, 9, 1, 2, 3};
        QCOMPARE(PromptLookup(tokens).propose(1).tokens, (std::vector<TokenId>{40}));
    }

    void theNewestPlaceWinsAmongEquals()
    {
        const std::vector<TokenId> tokens{8, 1, 2, 3, 40, 8, 1, 2, 3, 50, 8, 1, 2, 3};
        QCOMPARE(PromptLookup(tokens).propose(1).tokens, (std::vector<TokenId>{50}));
    }

    void aRepetitionGoesOnPastItsEnd()
    {
        const std::vector<TokenId> tokens{1, 2, 1, 2, 1, 2, 1, 2};
        QCOMPARE(PromptLookup(tokens).propose(5).tokens, (std::vector<TokenId>{1, 2, 1, 2, 1}));
    }

    /// Against a search through all that came before.
    void agreesWithAPlainSearch()
    {
        std::mt19937 random(7);
        std::vector<TokenId> tokens;
        PromptLookup lookup({});
        for (int i = 0; i < 3000; ++i) {
            const auto id = TokenId(random() % 6);
            tokens.push_back(id);
            lookup.append(id);
            const Draft draft = lookup.propose(4);
            if (tokens.size() < 4)
                continue;
            bool stoodBefore = false;
            for (std::size_t end = 3; end < tokens.size() && !stoodBefore; ++end)
                stoodBefore = std::equal(tokens.end() - 3, tokens.end(), tokens.begin() + std::ptrdiff_t(end) - 3);
            QCOMPARE(!draft.tokens.empty(), stoodBefore);
            if (draft.tokens.empty())
                continue;
            // What is proposed did follow `matched` such tokens somewhere.
            std::vector<TokenId> expected(tokens.end() - draft.matched, tokens.end());
            expected.insert(expected.end(), draft.tokens.begin(), draft.tokens.end());
            std::vector<TokenId> all = tokens;
            all.insert(all.end(), draft.tokens.begin(), draft.tokens.end());
            const auto found = std::search(all.begin(), all.end(), expected.begin(), expected.end());
            QVERIFY(std::size_t(found - all.begin()) < tokens.size() - std::size_t(draft.matched));
        }
    }

    void rowsPayWhenTheyAreCheapOrSure()
    {
        StepCost cost;
        for (int i = 0; i < 50; ++i) {
            cost.record(1, 1000);
            cost.record(5, 1400);
        }
        QVERIFY(std::abs(cost.rowShare() - 0.1) < 0.01);
        QVERIFY(rowPays({1, 1.0}, 0.12, cost));
        QVERIFY(!rowPays({1, 1.0}, 0.08, cost));
        QVERIFY(!rowPays({8, 8.0}, 0.4, cost)); // eight agents: a row more costs 1/17 of the step, and brings 1/20
        for (int i = 0; i < 400; ++i) {
            cost.record(1, 1000);
            cost.record(5, 5000);
        }
        QVERIFY(!rowPays({1, 1.0}, 0.95, cost)); // a row costs as much as a step
    }

    void aFirstPassThatHadToWaitIsTriedAgain()
    {
        StepCost cost;
        cost.record(1, 50'000); // of 300 us
        QVERIFY(cost.us(1) > 10'000);
        for (int i = 0; i < 1000; ++i)
            cost.fade(300);
        QVERIFY2(cost.us(1) < 400, qPrintable(QString::number(cost.us(1))));
        for (int i = 0; i < 50; ++i)
            cost.record(1, 200);
        QVERIFY2(cost.us(1) < 250, qPrintable(QString::number(cost.us(1)))); // what was measured is not held down by what faded
        StepCost unmeasured;
        unmeasured.fade(300);
        QCOMPARE(unmeasured.us(1), 0.0);
    }

    void oneStepThatHadToWaitDoesNotEndDraftsForGood()
    {
        StepCost cost;
        for (int i = 0; i < 50; ++i)
            cost.record(1, 1000);
        cost.record(3, 60'000); // another program had the processors
        for (int i = 0; i < 200; ++i)
            cost.record(1, 1000);
        QVERIFY2(cost.rowShare() < 0.35, qPrintable(QString::number(cost.rowShare())));
        QVERIFY(rowPays({1, 1.0}, 0.5, cost));
        QVERIFY(cost.us(1) < 1100.0);
        for (int i = 0; i < 400; ++i) { // what is so again and again is believed
            cost.record(1, 1000);
            cost.record(3, 3000);
        }
        QVERIFY(cost.rowShare() > 0.9);
    }

    /// Steps that the system keeps waiting move neither what a row nor what a step costs by much.
    void aTenthOfTheStepsTakingThreeTimesAsLongChangesLittle()
    {
        StepCost cost;
        for (int i = 0; i < 400; ++i) {
            const int rows = i % 5 == 0 ? 9 : 1;
            cost.record(rows, (i * 7 % 10 == 3 ? 3 : 1) * (800 + 200 * rows));
        }
        QVERIFY2(std::abs(cost.us(1) / 1000.0 - 1.0) < 0.06, qPrintable(QString::number(cost.us(1))));
        QVERIFY2(std::abs(cost.us(9) / 2600.0 - 1.0) < 0.06, qPrintable(QString::number(cost.us(9))));
    }

    /// The first step of a process takes far longer: no pass of drafts looks cheap beside it for long.
    void aSlowFirstStepIsSoonForgotten()
    {
        StepCost cost;
        cost.record(1, 30'000);
        for (int i = 1; i < 200; ++i) {
            const int rows = i % 5 == 0 ? 9 : 1;
            cost.record(rows, 800 + 200 * rows);
        }
        QVERIFY2(std::abs(cost.us(1) / 1000.0 - 1.0) < 0.1, qPrintable(QString::number(cost.us(1))));
    }

    /// A longer context, or another program on the cores: steps are others from here on.
    void stepsThatAreOthersFromHereOnAreSoonBelieved()
    {
        StepCost cost;
        for (int i = 0; i < 300; ++i) {
            const int rows = i % 5 == 0 ? 9 : 1;
            cost.record(rows, (i < 200 ? 1'000 : 4'000) + 200 * (rows - 1));
        }
        QVERIFY2(cost.us(1) > 3'400.0 && cost.us(1) < 4'100.0, qPrintable(QString::number(cost.us(1))));
        QVERIFY2(cost.rowShare() < 0.07, qPrintable(QString::number(cost.rowShare())));
    }

    /// Every copy ends: that alone does not make the next one of an agent that copies a page shorter.
    void theEndOfACopyDoesNotShortenTheNext()
    {
        DraftAcceptance acceptance;
        for (int copy = 0; copy < 20; ++copy) {
            acceptance.record(7, 24, false);
            acceptance.record(32, 24, false);
            acceptance.record(32, 20, true);
            QVERIFY2(acceptance.chance(32) > 0.96, qPrintable(QString::number(acceptance.chance(32))));
        }
    }

    void draftsThatFailAreGivenUpAndTriedAgainLater()
    {
        DraftAcceptance acceptance;
        for (int i = 0; i < 40; ++i)
            acceptance.record(4, 0, true);
        QVERIFY(acceptance.chance(4) < 0.05);
        QVERIFY(acceptance.chance(20) > 0.8); // long matches are judged by themselves
        for (int i = 0; i < 40; ++i)
            acceptance.recordUnused(4);
        QVERIFY(acceptance.chance(4) > 0.1);
        for (int i = 0; i < 20; ++i)
            acceptance.record(4, 5, false);
        QVERIFY(acceptance.chance(4) > 0.9);
    }

    void aCopysTokensAreJudgedByHowFarItAgreesByThen()
    {
        const DraftAcceptance fresh;
        for (int matched = 3; matched < 40; ++matched)
            QVERIFY(fresh.chance(matched + 1) >= fresh.chance(matched));
        DraftAcceptance acceptance;
        for (int i = 0; i < 90; ++i)
            acceptance.record(4, 10, true); // right from 4 to 13 tokens, wrong behind 14
        for (const int matched : {4, 6, 10, 13})
            QVERIFY(acceptance.chance(matched) > 0.95);
        QVERIFY(acceptance.chance(14) < 0.1);
        QCOMPARE(acceptance.chance(3), fresh.chance(3));
        QCOMPARE(acceptance.chance(30), fresh.chance(30));
        // So a copy of 10 tokens is worth its rows, and the eleventh token is not worth another.
        QVERIFY(bestRate(acceptance, 4, 0.3, 10) > 2.0);
        QCOMPARE(bestRate(acceptance, 4, 0.3, 11), bestRate(acceptance, 4, 0.3, 10));
        QVERIFY(bestRate(acceptance, 14, 0.3, 10) < 1.01);
    }

    /// Each token takes half a step, so one pass alone hardly pays and eight do. They are reached from one pass only if
    /// a pass that was never tried is expected to do as well as those before it.
    void chainsThatGoWellGrow()
    {
        const StepCost cost = costOfRow(0.3);
        MtpAcceptance mtp;
        const MtpAcceptance* chain = &mtp;
        int passes = 0;
        for (int chains = 0; chains < 100; ++chains) {
            passes = passesThatPay({1, 1.0}, {&chain, 1}, cost, 0.2, MtpAcceptance::deepest);
            QVERIFY(passes > 0);
            for (int depth = 0; depth < passes; ++depth)
                mtp.recordPass(depth, true);
        }
        QCOMPARE(passes, MtpAcceptance::deepest);
    }

    /// The third pass fails twice and would always yield a token from then on.
    void aPassThatFailedIsTriedAgainBehindChainsThatGoWell()
    {
        const StepCost cost = costOfRow(0.3);
        MtpAcceptance mtp;
        for (int i = 0; i < 30; ++i) {
            for (int depth = 0; depth < 2; ++depth)
                mtp.recordPass(depth, true);
        }
        mtp.recordPass(2, false);
        mtp.recordPass(2, false);
        const MtpAcceptance* chain = &mtp;
        const auto passes = [&] { return passesThatPay({1, 1.0}, {&chain, 1}, cost, 0.2, MtpAcceptance::deepest); };
        QCOMPARE(passes(), 2);
        for (int chains = 0; chains < 100 && passes() == 2; ++chains)
            mtp.recordUntried(2);
        QVERIFY(passes() > 2);
        for (int i = 0; i < 30; ++i) // and not again where it fails again
            mtp.recordPass(2, false);
        QCOMPARE(passes(), 2);
    }

private:
    static StepCost costOfRow(double share)
    {
        StepCost cost;
        for (int i = 0; i < 50; ++i) {
            cost.record(1, 10'000);
            cost.record(5, std::int64_t(10'000 * (1.0 + 4.0 * share)));
        }
        return cost;
    }
};

QTEST_GUILESS_MAIN(TestPromptLookup)
#include "tst_prompt_lookup.moc"
