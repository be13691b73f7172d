#include "tests/sim/resumed_account.h"

#include <cmath>
#include <string>

#include "common/sync/lpr.h"

namespace paceline::test {

using namespace paceline::sync;

void ResumedAccount::rewind(const Mark& mark) {
  complete_.clear();
  log_.resize(mark.iterations);
  windows_.resize(mark.windows);
  version_ = begins_ = mark.version;
  revision_ = mark.revision;
  threshold_ = mark.threshold;
}

void ResumedAccount::complete(const LoggedIteration& done) {
  complete_[{done.grant.worker, done.grant.clock}] = done;
}

void ResumedAccount::check(const Grant& g, Staleness lead) {
  const std::string who = "grant to " + to_string(g.worker) + " at clock " + to_string(g.clock);
  const PolicyKind kind = config_.policy.kind;
  const bool own_thresholds = kind == PolicyKind::kDssp || kind == PolicyKind::kSwitch;
  if (!own_thresholds && g.threshold != threshold_) violation(who + " under " + to_string(g.threshold));
  if (largest_threshold(config_.policy) < g.threshold) violation(who + " under " + to_string(g.threshold));
  if (kind != PolicyKind::kBackup && !g.threshold.allows(lead))
    violation(who + " leads by " + to_string(lead));
  if (g.min_version < std::max(begins_, g.threshold.oldest_version(g.clock)) || g.min_version > g.version) {
    violation(who + " asks for version " + to_string(g.min_version));
  }
  if (g.version != version_ || g.revision != revision_) violation(who + " names another version or revision");
  // Backup: what is dropped of an even share has its place in the order all the same.
  const bool drops = kind == PolicyKind::kBackup && config_.share == Share::kEven;
  if (g.iteration < 0 || (!drops && g.iteration >= config_.total_iterations)) {
    violation(who + ": iteration " + std::to_string(g.iteration));
  }
}

void ResumedAccount::check(const Apply& a) {
  for (const Contributor& c : a.contributors) take(c.worker, c.clock, false, c.staleness);
  for (const SkippedIteration& s : a.skipped) take(s.worker, s.clock, true, 0);
  const auto applied = static_cast<std::int64_t>(a.contributors.size());
  if (a.revision_after.value != revision_.value + applied) {
    violation("revision " + to_string(a.revision_after) + " after " + to_string(revision_));
  }
  revision_ = a.revision_after;
}

void ResumedAccount::take(WorkerId worker, Clock clock, bool skipped, std::int64_t staleness) {
  auto done = complete_.extract({worker, clock});
  const bool is_late = skipped && (!done || !done.mapped().skipped);
  if (is_late && config_.policy.kind == PolicyKind::kBackup) return;
  if (!done || done.mapped().skipped != skipped) {
    return violation((skipped ? "skips " : "applies ") + to_string(worker) + "@" + to_string(clock) +
                     ", which it has not done so in this generation");
  }
  done.mapped().staleness = staleness;
  log_.push_back(done.mapped());
}

void ResumedAccount::check(const VersionAdvanced& v) {
  if (v.version.value != version_.value + 1) violation("version " + to_string(v.version));
  version_ = v.version;
}

void ResumedAccount::check(const ThresholdChanged& t) {
  if (t.from != threshold_) violation("threshold changes from " + to_string(t.from));
  threshold_ = t.to;
}

void ResumedAccount::check(const PolicySwitched& p) {
  if (p.threshold_from != threshold_) violation("switch from threshold " + to_string(p.threshold_from));
  threshold_ = p.threshold_to;
}

// It holds what was measured of the iterations in the log, those of earlier generations included, once each.
void ResumedAccount::check(const WindowClosed& w) {
  const std::int64_t clocks = window_clocks_of(config_);
  Metric sum;
  for (const LoggedIteration& done : log_) {
    if (done.grant.clock.value / clocks == w.index && !done.skipped) sum += done.metric;
  }
  const auto samples = static_cast<double>(w.samples);
  const std::string name = "window " + std::to_string(w.index);
  if (w.version != version_ || w.version.value != (w.index + 1) * clocks)
    violation(name + " closes too soon");
  if (w.samples != sum.samples || std::fabs(w.loss_mean * samples - sum.loss_sum) > 1e-9 || !w.accuracy ||
      std::fabs(*w.accuracy * samples - static_cast<double>(sum.correct)) > 1e-9) {
    violation(name + " has " + std::to_string(w.samples) + " samples, applied were " +
              std::to_string(sum.samples) + ", or another metric");
  }
  const bool by_accuracy = config_.lpr_metric == LprMetric::kAccuracy;
  const double value = by_accuracy ? *w.accuracy : w.loss_mean;
  std::optional<double> lpr;
  if (!windows_.empty()) lpr = learning_progress_ratio(config_.lpr_metric, windows_.back().value, value);
  if (lpr != w.lpr) violation(name + " is compared with another window than the last");
  windows_.push_back({w.index, value});
}

void ResumedAccount::at_end(bool nobody_missed) {
  std::map<std::int64_t, int> times;          // by iteration
  std::map<std::int64_t, std::int64_t> ends;  // of batches, by position
  for (const LoggedIteration& done : log_) {
    ++times[done.grant.iteration];
    ends[done.grant.position] = done.grant.position + done.grant.samples;
  }
  std::int64_t samples_end = 0, applied = 0;
  for (const auto& [position, end] : ends) {
    if (position < samples_end)
      violation("samples from " + std::to_string(position) + " on are applied twice");
    samples_end = end;
  }
  for (const auto& [iteration, count] : times) {
    if (count > 1) violation("iteration " + std::to_string(iteration) + " is applied twice");
    applied += count;
  }
  if (static_cast<std::int64_t>(ends.size()) != applied) violation("two iterations begin at one sample");
  if (nobody_missed && applied != config_.total_iterations) {
    violation(std::to_string(applied) + " iterations are done, expected " +
              std::to_string(config_.total_iterations));
  }
}

}  // namespace paceline::test
