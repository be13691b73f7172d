#include "server/authority/run_shown.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "common/config/names.h"
#include "common/config/shown_name.h"
#include "common/timing/histogram.h"
#include "server/peers/peer.h"

namespace paceline::server {
namespace {

using NodeState = RunMembers::NodeState;

constexpr std::size_t kWaitsMax = 20;  // of those that are told

std::vector<MemberStatus> members(std::uint32_t count, const LastSeen& last_seen,
                                  Peer (*peer_of)(std::uint32_t),
                                  const std::function<bool(std::uint32_t)>& is_up) {
  std::vector<MemberStatus> found;
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto silent = last_seen(peer_of(i));
    found.push_back({i, is_up(i), silent ? std::optional<double>(to_seconds(*silent)) : std::nullopt});
  }
  return found;
}

std::vector<std::pair<std::int64_t, std::int64_t>> shown(const StalenessCounts& counts) {
  std::vector<std::pair<std::int64_t, std::int64_t>> values;
  for (const auto& [bucket, count] : counts.histogram) {
    values.emplace_back(histogram_middle_ns(bucket), count);
  }
  return values;
}

std::string doing(const RunShown& run, WorkerId worker) {
  const sync::Engine& engine = run.core.engine();
  const NodeState node = run.members[worker.node];
  if (node == NodeState::kGone && run.record.churn().has_finished_early(worker.node)) return "finished";
  if (node == NodeState::kGone && !run.record.has_report(worker.node)) return "lost";
  if (run.state.is(RunStage::kGathering)) return node == NodeState::kAbsent ? "absent" : "joined";
  if (!engine.is_live(worker)) return node == NodeState::kAbsent ? "absent" : "finished";
  if (engine.is_held(worker)) return "held";
  const auto iteration = engine.iteration_of(worker);
  return iteration && iteration->reported && !iteration->computes_next ? "pushing" : "computing";
}

// Who is held waits for the slowest; who has reported for the first shard that lacks its gradient.
std::string waits_for(const RunShown& run, WorkerId worker, const std::string& slowest) {
  const sync::Engine& engine = run.core.engine();
  if (!run.state.training() || !engine.is_live(worker)) return "";
  if (engine.is_held(worker)) return slowest;
  const auto iteration = engine.iteration_of(worker);
  if (!iteration || !iteration->reported || iteration->computes_next) return "";
  for (std::uint32_t k = 0; k < run.config.cluster.shards; ++k) {
    if ((iteration->lacking >> k & 1) != 0) return to_string(Peer::of(ShardId(k)));
  }
  return "";
}

void show_counts(const RunShown& run, RunStatus& s) {
  const sync::Engine& engine = run.core.engine();
  const TrainSection& train = run.config.train;
  s.version = engine.version();
  s.threshold = engine.threshold();
  const RunRecord::Newest& newest = run.record.newest();
  s.learning_rate = run.record.rate_to(s.version);
  s.lpr = newest.lpr;
  s.train_loss = newest.train_loss;
  s.train_accuracy = newest.train_accuracy;
  s.test_loss = newest.test_loss;
  s.test_accuracy = newest.test_accuracy;
  s.iterations = run.core.iterations_applied();
  s.iterations_total = train.total_iterations;
  s.skipped = train.iterations_in(engine.iterations_skipped());
  s.dropped = train.iterations_in(engine.iterations_dropped());
  s.iterations_lost = train.iterations_in(engine.iterations_lost());
  s.samples = run.reports.trained().samples();
  s.nodes_lost = run.record.churn().so_far().lost_nodes;
  s.before = run.progress.before();
  s.moved = run.progress.reduced();
  s.curve_rows = run.record.curve_rows();
}

void show_progress(const RunShown& run, Ticks now, RunStatus& s) {
  s.done = std::min(static_cast<double>(s.iterations) / static_cast<double>(s.iterations_total), 1.0);
  if (run.state.training()) {
    s.iterations_per_second = run.progress.iterations_per_second(now);
    s.samples_per_second = run.progress.samples_per_second(now);
    if (s.iterations_per_second && *s.iterations_per_second > 0) {
      const auto left = static_cast<double>(std::max<std::int64_t>(s.iterations_total - s.iterations, 0));
      s.seconds_left = left / *s.iterations_per_second;
    }
  }
  if (run.config.run.max_seconds && s.seconds > 0) {
    const double limit = to_seconds(*run.config.run.max_seconds);
    s.done = std::max(s.done, std::min(s.seconds / limit, 1.0));
    if (run.state.training())
      s.seconds_left = std::min(s.seconds_left.value_or(limit), std::max(limit - s.seconds, 0.0));
  }
}

void show_workers(const RunShown& run, RunStatus& s) {
  const sync::Engine& engine = run.core.engine();
  const Cluster cluster = run.config.cluster.cluster();
  s.workers_total = cluster.workers();
  s.min_clock = s.max_clock = Clock(s.version.value);
  std::string slowest;
  if (!run.state.is(RunStage::kGathering)) {
    s.min_clock = s.max_clock = engine.min_clock();
    for (std::uint32_t r = 0; r < cluster.workers(); ++r) {
      const WorkerId worker = cluster.worker_at(Rank(r));
      if (!engine.is_live(worker)) continue;
      const Clock clock = engine.clock_of(worker);
      s.max_clock = std::max(s.max_clock, clock);
      if (slowest.empty() && clock == s.min_clock && !engine.is_held(worker))
        slowest = "worker " + to_string(worker);
    }
  }
  const auto scores = run.speeds.scores();
  const WorkerBatchSizes* const sizes = run.record.batch_sizes();
  const auto listed =
      static_cast<std::uint32_t>(std::min<std::size_t>(cluster.workers(), RunStatus::kWorkersMax));
  for (std::uint32_t r = 0; r < listed; ++r) {
    const WorkerId worker = cluster.worker_at(Rank(r));
    const Clock clock = run.state.is(RunStage::kGathering) ? Clock(s.version.value) : engine.clock_of(worker);
    s.workers.push_back({worker, clock, doing(run, worker), waits_for(run, worker, slowest), scores[r]});
    if (sizes != nullptr && sizes->last[r] > 0) s.workers.back().samples = sizes->last[r];
    if (run.speeds.times()[r].wall > 0) s.workers.back().times = run.speeds.times()[r];
  }
}

}  // namespace

RunStatus status_of(const RunShown& run, const LastSeen& last_seen, std::vector<Wait> waits, Ticks now) {
  constexpr const char* kStages[] = {"gathering", "training", "ending", "closing", "filing", "over"};
  const Status& result = run.state.result();
  RunStatus s;
  s.run = shown_name(run.config.run);
  s.policy = name_of(run.config.sync.policy);
  s.state = kStages[static_cast<std::size_t>(run.state.stage())];
  if (run.state.is(RunStage::kOver)) {
    s.outcome = result.is_ok() ? run.state.status() : run.state.status() + ": " + result.message();
  }
  s.seconds = run.state.training() ? run.record.seconds(now) : run.record.wall_seconds();
  show_counts(run, s);
  show_progress(run, now, s);
  s.waits_total = static_cast<std::int64_t>(waits.size());
  for (Wait& wait : waits) {
    if (s.waits.size() < kWaitsMax) s.waits.push_back(std::move(wait.text));
  }
  for (const StragglerSummary& slow : run.speeds.stragglers()) {
    if (s.stragglers.size() < RunStatus::kStragglersMax) s.stragglers.push_back(slow.worker);
  }
  s.nodes = members(
      run.config.cluster.nodes, last_seen, [](std::uint32_t i) { return Peer::of(NodeId(i)); },
      [&run](std::uint32_t i) { return run.members[NodeId(i)] == NodeState::kJoined; });
  s.shards = members(
      run.config.cluster.shards, last_seen, [](std::uint32_t k) { return Peer::of(ShardId(k)); },
      [&run](std::uint32_t k) { return run.members.shard(ShardId(k)).joined; });
  show_workers(run, s);
  StalenessCounts clocks, gradients;
  for (const WorkerStaleness& worker : run.record.staleness()) {
    merge(clocks, worker.clocks);
    merge(gradients, worker.gradients);
  }
  s.staleness_clocks = shown(clocks);
  s.staleness_gradients = shown(gradients);
  return s;
}

}  // namespace paceline::server
