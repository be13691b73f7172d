#include "common/sync/worker_table.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/assert.h"

namespace paceline::sync {
namespace {

std::string name_of(const char* what, WorkerId worker, Clock clock) {
  return std::string(what) + " of worker " + to_string(worker) + " stamped " + to_string(clock);
}

}  // namespace

WorkerTable::WorkerTable(Cluster cluster, std::uint32_t shards, bool ahead)
    : cluster_(cluster), shards_(shards) {
  workers_.reserve(cluster.workers());
  for (std::uint32_t r = 0; r < cluster.workers(); ++r) workers_.emplace_back(shards);
  if (!ahead) return;
  for (std::uint32_t r = 0; r < cluster.workers(); ++r) ahead_.emplace_back(shards);
}

Rank WorkerTable::rank_of(WorkerId worker) const {
  PACELINE_ASSERT(cluster_.contains(worker), "no worker " + to_string(worker));
  return cluster_.rank_of(worker);
}

// The words are put together only for what is refused: a message that is right costs no string.
Status WorkerTable::check_granted(WorkerId worker, Clock clock, const char* what) const {
  if (!cluster_.contains(worker)) {
    return invalid_argument(name_of(what, worker, clock) + ": there is no such worker");
  }
  const Rank rank = cluster_.rank_of(worker);
  const WorkerEntry& w = workers_[rank.value];
  const Clock stamp = w.stamp();
  if (granted_ahead(rank) && clock == stamp.next()) return Status::ok();
  if (clock > stamp || (w.phase == WorkerPhase::kHeld && clock == stamp)) {
    return failed_precondition(name_of(what, worker, clock) + ": not granted, it is at " + to_string(stamp));
  }
  if (!w.in_iteration()) return out_of_order(name_of(what, worker, clock) + ": the worker has no grant");
  if (clock != stamp) return out_of_order(name_of(what, worker, clock) + ": expected " + to_string(stamp));
  return Status::ok();
}

Status WorkerTable::add(const GradientArrived& arrival) {
  if (arrival.shard.value >= shards_) {
    return invalid_argument("gradient from shard " + to_string(arrival.shard) + ": there are " +
                            std::to_string(shards_) + " shards");
  }
  PACELINE_RETURN_IF_ERROR(check_granted(arrival.worker, arrival.clock, "gradient"));
  Status added = iteration(cluster_.rank_of(arrival.worker), arrival.clock).add(arrival);
  if (added.is_ok()) return added;
  return std::move(added).with_context(name_of("gradient", arrival.worker, arrival.clock));
}

Status WorkerTable::add(const StepReported& report, Version version, Revision revision, Ticks now) {
  PACELINE_RETURN_IF_ERROR(check_granted(report.worker, report.clock, "report"));
  const Rank rank = cluster_.rank_of(report.worker);
  Status added = iteration(rank, report.clock).add(report, version, revision);
  if (!added.is_ok()) {
    return std::move(added).with_context(name_of("report", report.worker, report.clock));
  }
  if (!ahead_.empty() && report.clock == workers_[rank.value].clock) ahead_[rank.value].reported = now;
  return added;
}

void WorkerTable::promote(Rank rank, Ticks now) {
  PACELINE_ASSERT(granted_ahead(rank), "worker " + to_string(id(rank)) + " was granted nothing ahead");
  AheadGrant& ahead = ahead_[rank.value];
  ahead.phase = AheadGrant::Phase::kNone;
  workers_[rank.value].running = std::exchange(ahead.running, RunningIteration(shards_));
  workers_[rank.value].since = now;
  workers_[rank.value].held = ahead.held;
}

RunningIteration& WorkerTable::iteration(Rank rank, Clock clock) {
  WorkerEntry& w = workers_[rank.value];
  return granted_ahead(rank) && clock == w.clock.next() ? ahead_[rank.value].running : w.running;
}

std::optional<WorkerTable::Iteration> WorkerTable::iteration_of(Rank rank) const {
  const WorkerEntry& w = workers_[rank.value];
  if (!w.in_iteration()) return std::nullopt;
  const bool next = granted_ahead(rank) && !ahead_[rank.value].running.reported();
  return Iteration{w.stamp(), w.running.reported(), w.running.lacking(), w.running.reported() && next};
}

bool WorkerTable::awaits_report(Rank rank, Clock clock) const {
  const WorkerEntry& w = workers_[rank.value];
  if (granted_ahead(rank) && clock == w.clock.next()) return !ahead_[rank.value].running.reported();
  return w.in_iteration() && clock == w.stamp() && !w.running.reported();
}

Rank WorkerTable::slowest(Clock min_clock) const {
  const auto stands_there = [&](const WorkerEntry& w) { return w.live() && w.clock == min_clock; };
  auto found = std::find_if(workers_.begin(), workers_.end(), [&](const WorkerEntry& w) {
    return stands_there(w) && w.phase != WorkerPhase::kLate;
  });
  if (found == workers_.end()) found = std::find_if(workers_.begin(), workers_.end(), stands_there);
  PACELINE_ASSERT(found != workers_.end(), "somebody stands at the min clock");
  return Rank(static_cast<std::uint32_t>(found - workers_.begin()));
}

bool WorkerTable::all_joined(NodeId node) const {
  for (std::uint32_t thread = 0; thread < cluster_.threads_per_node; ++thread) {
    const Rank rank = cluster_.rank_of(WorkerId(node, thread));
    if (workers_[rank.value].phase != WorkerPhase::kJoined) return false;
  }
  return true;
}

}  // namespace paceline::sync
