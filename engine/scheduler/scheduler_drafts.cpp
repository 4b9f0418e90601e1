/// What the Scheduler guesses ahead: which source drafts for whom, how far, and which rows of it a step checks.

#include "engine/backend/guarded.h"
#include "engine/scheduler/scheduler.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace octavo::engine
{
namespace
{

constexpr int longestDraft = 24;
constexpr double unmeasuredPass = 0.3; // of a step of one row

} // namespace

/// One token is written without a draft, and no row may stand beyond the context's or the answer's end. None where
/// there was no memory a moment ago.
std::int64_t Scheduler::roomForDrafts(const Task& task) const
{
    if (m_options.nowUs() < task.draftsFromUs)
        return 0;
    return std::min(m_options.contextLimit - task.positions(),
                    std::int64_t(task.request.maxNewTokens) - std::int64_t(task.answer.tokens().size()) - 1);
}

void Scheduler::planDrafts(std::span<Task* const> writers)
{
    for (Task* task : writers) {
        task->draft = {};
        task->chain = {};
        task->passes = 0;
        task->usesMtp = false;
        const std::int64_t room = roomForDrafts(*task);
        if (task->lookup && task->request.draftSources != DraftSources::Mtp && room > 0)
            task->draft = task->lookup->propose(int(std::min<std::int64_t>(longestDraft, room)));
    }
    for (Task* task : draftWithMtp(writers)) {
        task->usesMtp = !task->chain.tokens.empty();
        if (task->usesMtp)
            task->draft = {task->chain.tokens, 0};
        else
            record(task->request.agent).mtp.recordPass(0, false);
    }
    if (!m_failure)
        chooseRows(writers);
}

std::vector<Task*> Scheduler::draftWithMtp(std::span<Task* const> writers)
{
    std::vector<Task*> chosen;
    if (!m_backend.hasMtp())
        return chosen;
    const double stepUs = m_stepCost.us(1), passUs = m_passCost.us(1);
    double passShare = stepUs > 0.0 && passUs > 0.0 ? passUs / stepUs : unmeasuredPass;
    StepPlan plan{int(writers.size()), double(writers.size())};
    std::vector<const MtpAcceptance*> chains;
    std::int64_t room = MtpAcceptance::deepest;
    for (Task* task : writers) {
        if (!task->request.drafts || task->request.draftSources == DraftSources::Lookup || roomForDrafts(*task) <= 0)
            continue;
        const MtpAcceptance& mtp = record(task->request.agent).mtp;
        const Draft& copied = task->draft;
        const double copy = copied.tokens.empty() ? 1.0
                                                  : bestRate(record(task->request.agent).copies, copied.matched,
                                                             m_stepCost.rowShare(), int(copied.tokens.size()));
        // A copy costs nothing to make, so it goes first where it is as good.
        if (copy > 1.0 && copy >= bestRate(mtp.yield(0), m_stepCost.rowShare() + passShare, MtpAcceptance::deepest))
            continue;
        chosen.push_back(task);
        chains.push_back(&mtp);
        room = std::max<std::int64_t>(1, std::min(room, std::int64_t(m_backend.maxStepRows() - int(writers.size())) /
                                                            std::int64_t(chains.size())));
    }
    if (plan.rows + int(chains.size()) > m_backend.maxStepRows())
        chosen.clear();
    if (chosen.empty())
        return chosen;
    if (stepUs > 0.0 && passUs > 0.0)
        passShare = m_passCost.us(int(chosen.size())) / stepUs;
    const int passes = passesThatPay(plan, chains, m_stepCost, passShare, int(room));
    if (passes == 0) {
        for (Task* task : chosen)
            record(task->request.agent).mtp.recordUnused();
        m_passCost.fade(unmeasuredPass * stepUs);
        return {};
    }
    std::vector<DraftEntry> entries;
    for (Task* task : chosen)
        entries.push_back({task->slot, task->next, int(std::min<std::int64_t>(passes, roomForDrafts(*task)))});
    std::vector<DraftChain> drafts(chosen.size());
    const std::int64_t start = m_options.nowUs();
    // Below this a token is not worth its row, still less another pass.
    const auto leastChance = float(std::min(0.9, m_stepCost.rowShare() + 0.5 * passShare));
    const auto drafted = guarded("tokens were drafted", [&] { return m_backend.draft(entries, leastChance, drafts); });
    const std::int64_t took = m_options.nowUs() - start;
    if (!drafted) {
        if (drafted.error().code == ErrorCode::DeviceFailure)
            deviceFailed(drafted.error());
        else
            spdlog::debug("no MTP drafts: {}", drafted.error().message);
        return {};
    }
    std::size_t depths = 0;
    for (std::size_t i = 0; i < chosen.size(); ++i) {
        // The pass after the last token was run too, unless the chain ended as long as it was to be.
        const std::size_t length = drafts[i].tokens.size();
        chosen[i]->passes = int(length) + (int(length) < entries[i].most ? 1 : 0);
        depths = std::max(depths, std::size_t(chosen[i]->passes));
        chosen[i]->chain = std::move(drafts[i]);
    }
    m_passCost.record(int(chosen.size()), took / std::int64_t(std::max<std::size_t>(depths, 1)));
    return chosen;
}

/// Gives the rows of the step to the drafts that are likeliest to be right, as long as they pay.
void Scheduler::chooseRows(std::span<Task* const> writers)
{
    StepPlan plan{int(writers.size()), double(writers.size())};
    std::vector<double> chances(writers.size(), 1.0); // that all drafts so far are right
    std::vector<int> lengths(writers.size(), 0);
    auto chanceOf = [&](const Task& task, int at) {
        return task.usesMtp ? record(task.request.agent).mtp.chance(task.chain.chances[std::size_t(at)])
                            : record(task.request.agent).copies.chance(task.draft.matched + at);
    };
    while (plan.rows < m_backend.maxStepRows()) {
        std::size_t best = writers.size();
        double bestChance = 0.0;
        for (std::size_t i = 0; i < writers.size(); ++i) {
            if (lengths[i] == int(writers[i]->draft.tokens.size()))
                continue;
            const double chance = chances[i] * chanceOf(*writers[i], lengths[i]);
            if (chance > bestChance) {
                best = i;
                bestChance = chance;
            }
        }
        if (best == writers.size() || !rowPays(plan, bestChance, m_stepCost))
            break;
        chances[best] = bestChance;
        ++lengths[best];
        ++plan.rows;
        plan.expectedTokens += bestChance;
    }
    for (std::size_t i = 0; i < writers.size(); ++i) {
        Draft& draft = writers[i]->draft;
        if (!writers[i]->usesMtp && !draft.tokens.empty() && lengths[i] == 0)
            record(writers[i]->request.agent).copies.recordUnused(draft.matched);
        draft.tokens.resize(std::size_t(lengths[i]));
    }
}

/// After `accepted` of the rows - 1 drafts of a task were right.
void Scheduler::recordDrafts(Task& task, int rows, int accepted, bool rejected)
{
    AgentRecord& agent = record(task.request.agent);
    const DraftChain chain = std::exchange(task.chain, {});
    if (task.usesMtp) {
        for (int i = 0; i < accepted; ++i)
            agent.mtp.record(chain.chances[std::size_t(i)], true);
        if (rejected)
            agent.mtp.record(chain.chances[std::size_t(accepted)], false);
        // A pass whose token was left out, or found unlikely, was for nothing.
        const int judged = task.ended ? accepted : std::min(task.passes, accepted + 1);
        for (int depth = 0; depth < judged; ++depth)
            agent.mtp.recordPass(depth, depth < accepted);
        if (accepted == task.passes)
            agent.mtp.recordUntried(task.passes);
    } else if (rows > 1) {
        agent.copies.record(task.draft.matched, accepted, rejected);
    }
    if (rows > 1) {
        agent.draftedRounds += 1.0;
        agent.acceptedInRounds += accepted;
    }
}

} // namespace octavo::engine
