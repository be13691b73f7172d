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

constexpr std::chrono::seconds kLookForStragglersEvery{1};
constexpr std::size_t kWaitsMax = 20;  // of those that are told
constexpr std::size_t kStragglersInSummary = 10;
constexpr std::size_t kStragglersWarned = 5;  // by name, of those that fall at once

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

double Authority::straggler_limit() const {
  return config_.run.straggler_warning.value_or(RunStatus::kStragglerBelow);
}

// The slowest first.
std::vector<StragglerSummary> Authority::stragglers() const {
  std::vector<StragglerSummary> found;
  const auto scores = scores_.scores();
  for (std::uint32_t r = 0; r < scores.size(); ++r) {
    if (!scores[r] || scores[r]->lower() >= straggler_limit()) continue;
    found.push_back({config_.cluster.cluster().worker_at(Rank(r)), scores[r]->relative, scores[r]->individual,
                     scores[r]->iteration_seconds});
  }
  const auto slower = [](const StragglerSummary& a, const StragglerSummary& b) {
    return std::min(a.relative, a.individual) < std::min(b.relative, b.individual);
  };
  std::stable_sort(found.begin(), found.end(), slower);
  if (found.size() > kStragglersInSummary) found.resize(kStragglersInSummary);
  return found;
}

void Authority::look_for_stragglers(Ticks now) {
  if (!straggler_warnings_ || now < next_straggler_look_) return;
  next_straggler_look_ = now + kLookForStragglersEvery;
  const auto scores = scores_.scores();
  const std::vector<Rank> fallen = straggler_warnings_->fallen(scores);
  for (std::size_t i = 0; i < std::min(fallen.size(), kStragglersWarned); ++i) {
    const Rank rank = fallen[i];
    const StragglerScore& score = *scores[rank.value];
    char text[200];
    std::snprintf(text, sizeof text,
                  "worker %s has become slow: it computes %.3f s an iteration, %.2f of the fastest worker's "
                  "speed, %.2f of its own best (run.straggler_warning %.2f)",
                  to_string(config_.cluster.cluster().worker_at(rank)).c_str(), score.iteration_seconds,
                  score.relative, score.individual, *config_.run.straggler_warning);
    log_.warn(text);
  }
  if (fallen.size() > kStragglersWarned) {
    log_.warn("and " + std::to_string(fallen.size() - kStragglersWarned) + " more workers have become slow");
  }
}

void Authority::discount_pause(const Pause& pause) {
  for (Ticks& granted : granted_at_) granted = pause.forgiven(granted);
}

std::string Authority::doing(WorkerId worker) const {
  const NodeState node = nodes_[worker.node.value];
  if (node == NodeState::kGone && !record_.has_report(worker.node)) return "lost";
  if (stage_ == Stage::kGathering) return node == NodeState::kAbsent ? "absent" : "joined";
  if (!engine_.is_live(worker)) return node == NodeState::kAbsent ? "absent" : "finished";
  if (engine_.is_held(worker)) return "held";
  const auto iteration = engine_.iteration_of(worker);
  return iteration && iteration->reported ? "pushing" : "computing";
}

// Who is held waits for the slowest; who has reported for the first shard that lacks its gradient.
std::string Authority::waits_for(WorkerId worker, const std::string& slowest) const {
  if (stage_ != Stage::kTraining || !engine_.is_live(worker)) return "";
  if (engine_.is_held(worker)) return slowest;
  const auto iteration = engine_.iteration_of(worker);
  if (!iteration || !iteration->reported) return "";
  for (std::uint32_t k = 0; k < config_.cluster.shards; ++k) {
    if ((iteration->lacking >> k & 1) != 0) return to_string(Peer::of(ShardId(k)));
  }
  return "";
}

Status Authority::heard(NodeId from, const wire::Heartbeat& beat) {
  // Its report has said more than its heartbeats go on saying.
  if (beat.workers.empty() || record_.has_report(from)) return Status::ok();
  const Cluster cluster = config_.cluster.cluster();
  if (beat.workers.size() != config_.cluster.threads_per_node) {
    return invalid_argument("heartbeat of node " + to_string(from) + ": got the times of " +
                            std::to_string(beat.workers.size()) + " workers, expected " +
                            std::to_string(config_.cluster.threads_per_node));
  }
  for (std::uint32_t t = 0; t < beat.workers.size(); ++t) {
    times_[cluster.rank_of(WorkerId(from, t)).value] = beat.workers[t];
  }
  return Status::ok();
}

void Authority::note_progress(const Traffic& moved, Ticks now) {
  if (!training() || !record_.progress().due(record_.seconds(now))) return;
  const Clock slowest = engine_.min_clock();
  record_.progress().note(record_.seconds(now), moved, [&](WorkerId worker) -> std::optional<std::int64_t> {
    if (!engine_.is_live(worker)) return std::nullopt;
    return (engine_.clock_of(worker) - slowest).value;
  });
  write_so_far(now);
}

// After 1 s, 2 s, 4 s, 8 s, 16 s, and then every ten: what a short run has is soon there, too.
void Authority::write_so_far(Ticks now) {
  const double seconds = record_.seconds(now);
  if (writing_so_far_ || seconds < so_far_due_) return;
  so_far_due_ = seconds + std::clamp(seconds - so_far_from_, 1.0, 10.0);
  writing_so_far_ = true;
  std::vector<WorkerTimes> times;
  for (std::uint32_t r = 0; r < times_.size(); ++r) {
    if (times_[r].wall > 0) times.push_back({config_.cluster.cluster().worker_at(Rank(r)), times_[r]});
  }
  background_.run(record_.writer_so_far(std::move(times)), [this](const Status& written, Ticks) {
    writing_so_far_ = false;
    if (!written && !so_far_failed_) log_.warn(written.message() + "; it is tried again");
    so_far_failed_ = !written;
  });
}

RunStatus Authority::status(const LastSeen& last_seen, Ticks now) const {
  constexpr const char* kStages[] = {"gathering", "training", "ending", "closing", "filing", "over"};
  const Cluster cluster = config_.cluster.cluster();
  RunStatus s;
  s.run = shown_name(config_.run);
  s.policy = name_of(config_.sync.policy);
  s.state = kStages[static_cast<std::size_t>(stage_)];
  if (over()) s.outcome = result_.is_ok() ? run_status_ : run_status_ + ": " + result_.message();
  s.seconds = training() ? record_.seconds(now) : record_.wall_seconds();
  s.version = engine_.version();
  s.threshold = engine_.threshold();
  s.lpr = record_.lpr();
  s.train_loss = record_.train_loss();
  s.train_accuracy = record_.train_accuracy();
  s.test_loss = record_.test_loss();
  s.test_accuracy = record_.test_accuracy();
  s.iterations = iterations_applied();
  s.iterations_total = config_.train.total_iterations;
  s.skipped = config_.train.iterations_in(engine_.iterations_skipped());
  s.dropped = config_.train.iterations_in(engine_.iterations_dropped());
  s.iterations_lost = config_.train.iterations_in(engine_.iterations_lost());
  s.samples = trained_.samples;
  s.nodes_lost = record_.lost_nodes();
  s.before = before_;
  s.curve_rows = record_.curve_rows();
  s.done = std::min(static_cast<double>(s.iterations) / static_cast<double>(s.iterations_total), 1.0);
  if (training()) {
    s.iterations_per_second = iteration_rate_.per_second(s.iterations, now);
    s.samples_per_second = sample_rate_.per_second(trained_.samples, now);
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
  for (const StragglerSummary& slow : stragglers()) {
    if (s.stragglers.size() < RunStatus::kStragglersMax) s.stragglers.push_back(slow.worker);
  }
  s.nodes = members(
      config_.cluster.nodes, last_seen, [](std::uint32_t i) { return Peer::of(NodeId(i)); },
      [this](std::uint32_t i) { return nodes_[i] == NodeState::kJoined; });
  s.shards = members(
      config_.cluster.shards, last_seen, [](std::uint32_t k) { return Peer::of(ShardId(k)); },
      [this](std::uint32_t k) { return shards_[k].joined; });
  s.workers_total = cluster.workers();
  s.min_clock = s.max_clock = Clock(s.version.value);
  std::string slowest;
  if (stage_ != Stage::kGathering) {
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
  const auto scores = scores_.scores();
  const auto listed =
      static_cast<std::uint32_t>(std::min<std::size_t>(cluster.workers(), RunStatus::kWorkersMax));
  for (std::uint32_t r = 0; r < listed; ++r) {
    const WorkerId worker = cluster.worker_at(Rank(r));
    const Clock clock = stage_ == Stage::kGathering ? Clock(s.version.value) : engine_.clock_of(worker);
    s.workers.push_back({worker, clock, doing(worker), waits_for(worker, slowest), scores[r]});
    if (times_[r].wall > 0) s.workers.back().times = times_[r];
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

}  // namespace paceline::server
