// What a run says of itself while it goes: the authority's state as one value (common/live/run_status.h), and
// who is slow. Nothing here decides anything.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>

#include "common/config/names.h"
#include "common/config/shown_name.h"
#include "common/timing/histogram.h"
#include "server/authority/authority.h"

namespace paceline::server {
namespace {

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

}  // namespace

void Authority::discount_pause(const Pause& pause) { speeds_.discount_pause(pause); }

Status Authority::heard(NodeId from, const wire::Heartbeat& beat) {
  if (beat.traffic.reduced > 0) reduced_[from] = beat.traffic;
  // Its report has said more than its heartbeats go on saying.
  if (beat.workers.empty() || record_.has_report(from)) return Status::ok();
  return speeds_.heard(from, beat);
}

std::string Authority::doing(WorkerId worker) const {
  const NodeState node = members_[worker.node];
  if (node == NodeState::kGone && !record_.has_report(worker.node)) return "lost";
  if (state_.is(Stage::kGathering)) return node == NodeState::kAbsent ? "absent" : "joined";
  if (!engine_.is_live(worker)) return node == NodeState::kAbsent ? "absent" : "finished";
  if (engine_.is_held(worker)) return "held";
  const auto iteration = engine_.iteration_of(worker);
  return iteration && iteration->reported && !iteration->computes_next ? "pushing" : "computing";
}

// Who is held waits for the slowest; who has reported for the first shard that lacks its gradient.
std::string Authority::waits_for(WorkerId worker, const std::string& slowest) const {
  if (!state_.is(Stage::kTraining) || !engine_.is_live(worker)) return "";
  if (engine_.is_held(worker)) return slowest;
  const auto iteration = engine_.iteration_of(worker);
  if (!iteration || !iteration->reported || iteration->computes_next) return "";
  for (std::uint32_t k = 0; k < config_.cluster.shards; ++k) {
    if ((iteration->lacking >> k & 1) != 0) return to_string(Peer::of(ShardId(k)));
  }
  return "";
}

Traffic Authority::reduced() const {
  Traffic sum;
  for (const auto& [node, traffic] : reduced_) sum += traffic;
  return sum;
}

void Authority::note_progress(const Traffic& moved, Ticks now) {
  if (!training() || !record_.progress().due(record_.seconds(now))) return;
  const Clock slowest = engine_.min_clock();
  record_.progress().note(record_.seconds(now), moved, [&](WorkerId worker) -> std::optional<std::int64_t> {
    if (!engine_.is_live(worker)) return std::nullopt;
    return (engine_.clock_of(worker) - slowest).value;
  });
  files_so_far_.write_if_due(now);
}

RunStatus Authority::status(const LastSeen& last_seen, Ticks now) const {
  constexpr const char* kStages[] = {"gathering", "training", "ending", "closing", "filing", "over"};
  const Cluster cluster = config_.cluster.cluster();
  RunStatus s;
  s.run = shown_name(config_.run);
  s.policy = name_of(config_.sync.policy);
  s.state = kStages[static_cast<std::size_t>(state_.stage())];
  if (over()) s.outcome = state_.result().is_ok() ? state_.status() : state_.status() + ": " + state_.result().message();
  s.seconds = training() ? record_.seconds(now) : record_.wall_seconds();
  s.version = engine_.version();
  s.threshold = engine_.threshold();
  s.lpr = record_.lpr();
  s.train_loss = record_.train_loss();
  s.train_accuracy = record_.train_accuracy();
  s.test_loss = record_.test_loss();
  s.test_accuracy = record_.test_accuracy();
  s.iterations = core_.iterations_applied();
  s.iterations_total = config_.train.total_iterations;
  s.skipped = config_.train.iterations_in(engine_.iterations_skipped());
  s.dropped = config_.train.iterations_in(engine_.iterations_dropped());
  s.iterations_lost = config_.train.iterations_in(engine_.iterations_lost());
  s.samples = step_reports_.trained().samples;
  s.nodes_lost = record_.lost_nodes();
  s.before = before_;
  s.curve_rows = record_.curve_rows();
  s.done = std::min(static_cast<double>(s.iterations) / static_cast<double>(s.iterations_total), 1.0);
  if (training()) {
    s.iterations_per_second = iteration_rate_.per_second(s.iterations, now);
    s.samples_per_second = sample_rate_.per_second(step_reports_.trained().samples, now);
    if (s.iterations_per_second && *s.iterations_per_second > 0) {
      const auto left = static_cast<double>(std::max<std::int64_t>(s.iterations_total - s.iterations, 0));
      s.seconds_left = left / *s.iterations_per_second;
    }
  }
  if (config_.run.max_seconds && s.seconds > 0) {
    const double limit = to_seconds(*config_.run.max_seconds);
    s.done = std::max(s.done, std::min(s.seconds / limit, 1.0));
    if (training())
      s.seconds_left = std::min(s.seconds_left.value_or(limit), std::max(limit - s.seconds, 0.0));
  }
  for (Wait& wait : waits(last_seen, WaitsFor::kOfSomebody)) {
    ++s.waits_total;
    if (s.waits.size() < kWaitsMax) s.waits.push_back(std::move(wait.text));
  }
  for (const StragglerSummary& slow : speeds_.stragglers()) {
    if (s.stragglers.size() < RunStatus::kStragglersMax) s.stragglers.push_back(slow.worker);
  }
  s.nodes = members(
      config_.cluster.nodes, last_seen, [](std::uint32_t i) { return Peer::of(NodeId(i)); },
      [this](std::uint32_t i) { return members_[NodeId(i)] == NodeState::kJoined; });
  s.shards = members(
      config_.cluster.shards, last_seen, [](std::uint32_t k) { return Peer::of(ShardId(k)); },
      [this](std::uint32_t k) { return members_.shard(ShardId(k)).joined; });
  s.workers_total = cluster.workers();
  s.min_clock = s.max_clock = Clock(s.version.value);
  std::string slowest;
  if (!state_.is(Stage::kGathering)) {
    s.min_clock = s.max_clock = engine_.min_clock();
    for (std::uint32_t r = 0; r < cluster.workers(); ++r) {
      const WorkerId worker = cluster.worker_at(Rank(r));
      if (!engine_.is_live(worker)) continue;
      const Clock clock = engine_.clock_of(worker);
      s.max_clock = std::max(s.max_clock, clock);
      if (slowest.empty() && clock == s.min_clock && !engine_.is_held(worker))
        slowest = "worker " + to_string(worker);
    }
  }
  const auto scores = speeds_.scores();
  const auto listed =
      static_cast<std::uint32_t>(std::min<std::size_t>(cluster.workers(), RunStatus::kWorkersMax));
  for (std::uint32_t r = 0; r < listed; ++r) {
    const WorkerId worker = cluster.worker_at(Rank(r));
    const Clock clock = state_.is(Stage::kGathering) ? Clock(s.version.value) : engine_.clock_of(worker);
    s.workers.push_back({worker, clock, doing(worker), waits_for(worker, slowest), scores[r]});
    if (speeds_.times()[r].wall > 0) s.workers.back().times = speeds_.times()[r];
  }
  StalenessCounts clocks, gradients;
  for (const WorkerStaleness& worker : record_.staleness()) {
    merge(clocks, worker.clocks);
    merge(gradients, worker.gradients);
  }
  s.staleness_clocks = shown(clocks);
  s.staleness_gradients = shown(gradients);
  return s;
}

std::vector<Wait> Authority::waits(const LastSeen& last_seen, WaitsFor which) const {
  return waits_of(
      {config_, state_.stage(), members_, engine_, speeds_, evaluations_, checkpoints_, end_.model(), state_.is_stopped(), record_},
      last_seen, which);
}

}  // namespace paceline::server
