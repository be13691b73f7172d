#include "tests/sim/authority_model.h"

#include <algorithm>
#include <utility>

namespace paceline::test {

using namespace paceline::sync;

namespace {

// What shards do with it: the learning rate and what is predicted are other tests' matter.
wire::ApplyDecision decision_of(const Apply& apply, std::int64_t sequence, bool save) {
  wire::ApplyDecision decision;
  decision.sequence = sequence;
  decision.save = save;
  for (const Contributor& c : apply.contributors)
    decision.contributions.push_back({c.worker, c.clock, c.weight, c.staleness});
  for (const SkippedIteration& s : apply.skipped) decision.skipped.push_back({s.worker, s.clock, 0});
  decision.version_after = apply.version_after;
  decision.revision_after = apply.revision_after;
  return decision;
}

}  // namespace

AuthorityModel::AuthorityModel(Engine engine, AuthorityChecker checker, Network& network, Handlers handlers)
    : engine_(std::move(engine)),
      checker_(std::move(checker)),
      network_(network),
      handlers_(std::move(handlers)),
      sent_(engine_.config().cluster.workers()) {}

bool AuthorityModel::takes(const Event& event) {
  if (network_.random().next_below(10) == 0 && !std::holds_alternative<Tick>(event)) takes(Tick{});
  return step(event, Ticks(network_.now_ns()));
}

bool AuthorityModel::step(const Event& event, Ticks now) {
  if (const auto* joined = std::get_if<Joined>(&event)) {
    sent_[engine_.config().cluster.rank_of(joined->worker).value] = {};  // that was its process before
  }
  std::vector<Action> actions;
  checker_.before(event, now);
  engine_.step(event, now, actions);
  checker_.after(actions);
  const auto decides = [](const Action& action) { return std::holds_alternative<Apply>(action); };
  const auto last = std::find_if(actions.rbegin(), actions.rend(), decides);
  const bool saves = last != actions.rend() && handlers_.saves(*this);
  for (const Action& action : actions) carry_out(action, saves && &action == &*last);
  const auto refused = [](const Action& action) { return std::holds_alternative<Reject>(action); };
  const auto reject = std::find_if(actions.begin(), actions.end(), refused);
  if (reject == actions.end()) return true;
  const auto* const reported = std::get_if<StepReported>(&event);
  const bool is_repeated = std::get<Reject>(*reject).status.code() == StatusCode::kOutOfOrder;
  if (reported != nullptr && is_repeated) instruct_again(reported->worker);
  return false;
}

void AuthorityModel::carry_out(const Action& action, bool saves) {
  if (const auto* apply = std::get_if<Apply>(&action)) {
    handlers_.shards({decision_of(*apply, sequence_++, saves), {}});
  } else if (const auto* discard = std::get_if<Discard>(&action)) {
    handlers_.discarded(*discard);
    handlers_.shards({wire::DiscardGradient{discard->worker, discard->clock}, {}});
  } else if (const auto* grant = std::get_if<Grant>(&action)) {
    instruct(grant->worker, *grant);
  } else if (const auto* finish = std::get_if<FinishWorker>(&action)) {
    instruct(finish->worker, *finish);
  } else if (std::holds_alternative<Quiesced>(action)) {
    handlers_.rests();
  }
}

void AuthorityModel::instruct(WorkerId worker, const Instruction& instruction) {
  Sent& received = sent_[engine_.config().cluster.rank_of(worker).value];
  received.before = std::exchange(received.last, instruction);
  handlers_.node(worker, instruction);
}

void AuthorityModel::node_reconnected(NodeId node) {
  for (std::uint32_t t = 0; t < engine_.config().cluster.threads_per_node; ++t) instruct_again({node, t});
}

void AuthorityModel::instruct_again(WorkerId worker) {
  const Sent& received = sent_[engine_.config().cluster.rank_of(worker).value];
  if (std::holds_alternative<FinishWorker>(received.last)) {
    ++retransmitted_;
    return handlers_.node(worker, received.last);
  }
  for (const Instruction* each : {&received.before, &received.last}) {
    const auto* const granted = std::get_if<Grant>(each);
    if (granted == nullptr || !engine_.awaits_report(worker, granted->clock)) continue;
    Grant again = *granted;
    again.version = engine_.version();
    again.revision = engine_.revision();
    ++retransmitted_;
    handlers_.node(worker, again);
  }
}

}  // namespace paceline::test
