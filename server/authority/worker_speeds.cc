#include "server/authority/worker_speeds.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "common/live/run_status.h"
#include "common/timing/phase_totals.h"

namespace paceline::server {
namespace {

constexpr std::chrono::seconds kCheckStragglersEvery{1};
constexpr std::size_t kStragglersInSummary = 10;
constexpr std::size_t kStragglersWarned = 5;  // by name, of those that fall at once

}  // namespace

WorkerSpeeds::WorkerSpeeds(const RunConfig& config)
    : cluster_(config.cluster.cluster()),
      warn_below_(config.run.straggler_warning),
      granted_at_(cluster_.workers()),
      is_here_(cluster_.workers()),
      iterations_(cluster_.workers()),
      times_(cluster_.workers()),
      of_its_stage_(config.pipeline.enabled() ? " of its stage" : ""),
      scores_(cluster_.workers(), config.pipeline.stages) {
  if (warn_below_) warnings_.emplace(cluster_.workers(), *warn_below_);
}

void WorkerSpeeds::took(const wire::StepReport& report, Ticks granted, Ticks now) {
  longest_ = std::max<std::chrono::nanoseconds>(longest_, now - granted);
  iterations_[rank_of(report.worker)].took(now - granted);
  if (!report.skipped) scores_.took(Rank(rank_of(report.worker)), report.compute, report.metric.samples);
}

void WorkerSpeeds::discount_pause(const Pause& pause) {
  for (Ticks& granted : granted_at_) granted = pause.discounted(granted);
}

void WorkerSpeeds::forget(NodeId node) {
  for (std::uint32_t thread = 0; thread < cluster_.threads_per_node; ++thread) {
    const Rank rank = cluster_.rank_of(WorkerId(node, thread));
    scores_.forget(rank);
    is_here_[rank.value] = false;
  }
}

Status WorkerSpeeds::on_heartbeat(NodeId from, const wire::Heartbeat& beat) {
  if (beat.workers.size() != cluster_.threads_per_node) {
    return invalid_argument("heartbeat of node " + to_string(from) + ": got the times of " +
                            std::to_string(beat.workers.size()) + " workers, expected " +
                            std::to_string(cluster_.threads_per_node));
  }
  for (std::uint32_t t = 0; t < beat.workers.size(); ++t) {
    times_[rank_of(WorkerId(from, t))] = beat.workers[t];
  }
  return Status::ok();
}

void WorkerSpeeds::reported(const wire::NodeReport& report) {
  for (const wire::WorkerReport& worker : report.workers) {
    times_[rank_of(worker.worker)] = times_of(worker.phases);
  }
}

std::vector<StragglerSummary> WorkerSpeeds::stragglers() const {
  const double limit = warn_below_.value_or(RunStatus::kStragglerBelow);
  std::vector<StragglerSummary> found;
  const auto scores = scores_.scores();
  // Where all are slower than they were, no worker of them holds the others up. Who is gone counts no more; who is not
  // measured yet has not fallen.
  bool all_fell = true;
  for (std::uint32_t r = 0; r < scores.size(); ++r) {
    all_fell = all_fell && (scores[r] ? scores[r]->lower() < limit : !is_here_[r]);
  }
  for (std::uint32_t r = 0; r < scores.size(); ++r) {
    if (!scores[r] || scores[r]->lower() >= limit || (all_fell && scores[r]->relative >= limit)) continue;
    found.push_back({cluster_.worker_at(Rank(r)), scores[r]->relative, scores[r]->individual,
                     scores[r]->iteration_seconds});
  }
  const auto slower = [](const StragglerSummary& a, const StragglerSummary& b) {
    return std::min(a.relative, a.individual) < std::min(b.relative, b.individual);
  };
  std::stable_sort(found.begin(), found.end(), slower);
  if (found.size() > kStragglersInSummary) found.resize(kStragglersInSummary);
  return found;
}

std::vector<std::string> WorkerSpeeds::check_stragglers(Ticks now) {
  std::vector<std::string> lines;
  if (!warnings_ || now < next_check_) return lines;
  next_check_ = now + kCheckStragglersEvery;
  const auto scores = scores_.scores();
  const std::vector<Rank> fallen = warnings_->fallen(scores);
  for (std::size_t i = 0; i < std::min(fallen.size(), kStragglersWarned); ++i) {
    const Rank rank = fallen[i];
    const StragglerScore& score = *scores[rank.value];
    char text[200];
    std::snprintf(text, sizeof text,
                  "worker %s has become slow: it computes %.3f ms an iteration, %.2f of the fastest worker's "
                  "speed%s, %.2f of its own best (run.straggler_warning %.2f)",
                  to_string(cluster_.worker_at(rank)).c_str(), score.iteration_seconds * 1e3, score.relative,
                  of_its_stage_, score.individual, *warn_below_);
    lines.emplace_back(text);
  }
  if (fallen.size() > kStragglersWarned) {
    lines.push_back("and " + std::to_string(fallen.size() - kStragglersWarned) +
                    " more workers have become slow");
  }
  return lines;
}

}  // namespace paceline::server
