// Nodes that talk to each other: who is connected to whom, and, of an all-reduce, what a lost node leaves behind.
//
// The steps of an all-reduce are reported when all have made them (take_step()): until then it is open whether the sum
// will be of all nodes (formations.h). A lost node leaves the core behind that step, with its gradient if that is
// in the sum, without if the others have made another one.
#include <algorithm>
#include <chrono>
#include <utility>

#include "common/config/local_endpoint.h"
#include "common/host_port.h"
#include "server/authority/authority.h"

namespace paceline::server {
namespace {

// A network in which nodes reach the server and not each other makes one formation after another, each of which takes as
// long as a connection may (worker/mesh/handshake.cc).
constexpr std::uint32_t kFormationsMax = 3;

// Of nodes of which some are reached at loopback and some are not, so that not all reach each other: two of them.
std::string wrongly_loopback_among(const std::vector<std::string>& endpoints) {
  const auto is_loopback = [](const std::string& at) { return is_loopback_number(host_and_port(at).host); };
  const auto here = std::find_if(endpoints.begin(), endpoints.end(),
                                 [&](const std::string& at) { return !at.empty() && is_loopback(at); });
  const auto there = std::find_if(endpoints.begin(), endpoints.end(),
                                  [&](const std::string& at) { return !at.empty() && !is_loopback(at); });
  if (here == endpoints.end() || there == endpoints.end()) return "";
  return "node " + std::to_string(here - endpoints.begin()) + " reaches the server over " + *here +
         ", where no other machine comes, and node " + std::to_string(there - endpoints.begin()) + " over " +
         *there + "; " + kLoopbackAdvice;
}

}  // namespace

Status Authority::on(NodeId from, const wire::Peers& said, Ticks now) {
  if (!nodes_talk() || said.endpoints.size() != 1 || said.endpoints[0].empty()) {
    return invalid_argument(
        "endpoints of node " + to_string(from) + ": got " + std::to_string(said.endpoints.size()) +
        ", expected one, and exchange.kind: allreduce, pipeline.stages or train.batch_norm_group");
  }
  if (said.formation > formations_.number()) {
    return invalid_argument("node " + to_string(from) + " has left formation " +
                            std::to_string(said.formation) + ", the newest is " +
                            std::to_string(formations_.number()));
  }
  // It has not heard yet that the next one is there.
  if (said.formation < formations_.number()) {
    say_formation_again(from);
    return Status::ok();
  }
  if (said.formation > 0) {
    const bool could_be = !said.lost || (*said.lost != from && members_.is_known(*said.lost));
    const std::int64_t lead = said.version.value - engine_.version().value;
    if (!could_be || lead < 0 || lead > 1) {
      return invalid_argument("node " + to_string(from) + " at version " + to_string(said.version) +
                              " has lost " + (said.lost ? "node " + to_string(*said.lost) : "nobody") +
                              ", expected version " + to_string(engine_.version()) +
                              " or the next, and another node of the run");
    }
    if (!goes_on()) {
      const NodeId gone = said.lost.value_or(from);
      if (training() && !record_.has_report(gone)) lost(Peer::of(gone), said.why, now);
      return Status::ok();
    }
    if (!formations_.gathers()) {
      log_.warn("node " + to_string(from) + " has left formation " + std::to_string(said.formation) + ": " +
                said.why);
      why_ended_ = "node " + to_string(from) + ": " + said.why;
    }
    // Whose connection has ended may have left the formation as well, and says so by itself.
    end_formation(now);
  }
  formations_.said(from, said.endpoints[0], said.version);
  form(now);
  return Status::ok();
}

// Who is in it says where it is reached in the next one.
void Authority::end_formation(Ticks now) {
  if (formations_.gathers()) return;
  formations_.end();
  forming_since_ = now;
  wire::Peers over;
  over.formation = formations_.number();
  for (const NodeId node : members_.in(NodeState::kJoined)) outbox_.to_node(node, over);
}

// The newest, and that it is over where it is. Who knows it does nothing twice.
void Authority::say_formation_again(NodeId node) {
  if (formations_.number() == 0) return;
  if (!formed_.endpoints[node.value].empty()) outbox_.to_node(node, formed_);
  if (!formations_.gathers()) return;
  wire::Peers over;
  over.formation = formations_.number();
  outbox_.to_node(node, over);
}

void Authority::form(Ticks now) {
  const bool first = formations_.number() == 0;
  const std::vector<NodeId> here = members_.in(NodeState::kJoined);
  if (first && here.size() < config_.cluster.nodes) return;
  const std::optional<Formation> next = formations_.next(here, engine_.version());
  if (!next) return;
  const std::string wrong = wrongly_loopback_among(next->endpoints);
  if (!wrong.empty()) return fail(failed_precondition(wrong), now);
  if (formations_.of_the_same() > kFormationsMax) {
    return fail(
        unavailable(std::to_string(kFormationsMax) +
                    " times one after another the same nodes have met anew, and made no step; at last: " +
                    why_ended_),
        now);
  }
  wire::Peers peers;
  peers.token = members_.process(NodeId(0)).incarnation + next->number - 1;
  peers.endpoints = next->endpoints;
  peers.formation = next->number;
  peers.version = next->version;
  peers.holder = next->holder;
  if (!config_.security.keys.empty()) peers.key = new_formation_key();
  for (const NodeId node : here) outbox_.to_node(node, peers);
  formed_ = std::move(peers);
  if (first) return;
  log_.info("formation " + std::to_string(next->number) + ": " + std::to_string(here.size()) +
            " nodes go on from version " + to_string(next->version) +
            (next->holder ? ", which node " + to_string(*next->holder) + " gives the others" : ""));
}

// A node that lives, and does not say where it is reached, is lost.
void Authority::check_forming(Ticks now) {
  if (!training() || formations_.number() == 0 || !formations_.gathers()) return;
  const auto allowed = kFormLeases * config_.cluster.lease;
  if (now - forming_since_ <= allowed) return;
  for (const NodeId node : members_.in(NodeState::kJoined)) {
    if (!training() || members_[node] != NodeState::kJoined || formations_.has_said(node)) continue;
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(allowed).count();
    expel(node,
          deadline_exceeded("it has not said within " + std::to_string(seconds) +
                            " s where the others reach it"),
          now);
  }
}

// Behind the first step all are connected to each other, and have what they step.
bool Authority::goes_on() const {
  return reduces() && config_.exchange.on_loss == OnLoss::kGoOn && has_stepped_ && training();
}

void Authority::go_on_without(NodeId node, Ticks now) {
  formations_.forget(node);
  lost_in_step_.push_back(node);
  end_formation(now);
  take_steps(now);
  if (training()) form(now);
}

bool Authority::awaits_others(const wire::StepReport& report) const {
  return reduces() && training() && !report.skipped && report.fault.empty() &&
         report.clock.value == engine_.version().value && engine_.is_live(report.worker);
}

// Who has made a step waits for those who have not, and hears whom for, as of the core (common/sync/actions.h).
void Authority::say_who_is_waited_for(Ticks now) {
  if (!reduces() || !training()) return;
  const Cluster cluster = config_.cluster.cluster();
  std::optional<WorkerId> waits_for;
  for (std::uint32_t r = 0; r < cluster.workers() && !waits_for; ++r) {
    const WorkerId worker = cluster.worker_at(Rank(r));
    if (!stepped_[r] && members_[worker.node] == NodeState::kJoined && engine_.is_live(worker)) {
      waits_for = worker;
    }
  }
  if (!waits_for) return;
  for (std::uint32_t r = 0; r < cluster.workers(); ++r) {
    if (!stepped_[r]) continue;
    Stepped& stepped = *stepped_[r];
    if (now < stepped.next_notice) continue;
    stepped.next_notice = now + engine_.config().held_notice_every;
    const WorkerId worker = stepped.report.worker;
    outbox_.to_node(worker.node, wire::Held{worker, stepped.report.clock.next(), Staleness(1), Threshold(0),
                                    *waits_for, now - stepped.since});
  }
}

void Authority::take_steps(Ticks now) {
  const Cluster cluster = config_.cluster.cluster();
  std::vector<wire::StepReport> steps;
  for (std::uint32_t r = 0; r < cluster.workers(); ++r) {
    const WorkerId worker = cluster.worker_at(Rank(r));
    if (members_[worker.node] != NodeState::kJoined || !engine_.is_live(worker)) continue;
    if (!stepped_[r]) return;
    steps.push_back(stepped_[r]->report);
  }
  const Version before = engine_.version();
  for (const NodeId node : std::exchange(lost_in_step_, {})) {
    take_last_step(node, now);
    core_.step_own(sync::Lost{node}, now);
  }
  if (!training()) return;
  stepped_.assign(stepped_.size(), std::nullopt);
  stop_short_of_workers(static_cast<std::int64_t>(steps.size()), now);
  for (const wire::StepReport& report : steps) {
    const Status taken = take(report, now);
    // Its gradient is in everybody's parameters.
    if (!taken.is_ok() && training()) return fail(taken, now);
  }
  if (engine_.version() > before) {
    has_stepped_ = true;
    formations_.stepped(members_.in(NodeState::kJoined));
  }
}

// What it has given to the sum, if that is the one that was made.
void Authority::take_last_step(NodeId node, Ticks now) {
  if (!formations_.is_in_sum(node)) return;
  for (std::uint32_t thread = 0; thread < config_.cluster.threads_per_node; ++thread) {
    const WorkerId worker(node, thread);
    const auto& stepped = stepped_[config_.cluster.cluster().rank_of(worker).value];
    const auto iteration = engine_.iteration_of(worker);
    if (!iteration || iteration->clock.value != engine_.version().value) continue;
    // As many samples as were granted: a sum is of no others.
    const Status taken = stepped ? take(stepped->report, now)
                                 : core_.step(sync::GradientArrived{kAuthority, worker, iteration->clock,
                                                              engine_.config().batch_size, ""},
                                        now);
    if (!taken.is_ok())
      log_.warn("what lost node " + to_string(node) + " gave to a step: " + taken.message());
  }
}

// Every worker takes part in every step. What a lost node has left undone need not make whole ones.
void Authority::stop_short_of_workers(std::int64_t workers, Ticks now) {
  if (engine_.stopping()) return;
  const std::int64_t left = engine_.config().total_iterations - engine_.revision().value - workers;
  if (left <= 0 || left >= workers) return;
  const Status status = core_.step(sync::StopRequested{std::to_string(left) + " iterations are left for " +
                                                 std::to_string(workers) + " workers"},
                             now);
  PACELINE_ASSERT(status.is_ok(), status.message());
}

}  // namespace paceline::server
