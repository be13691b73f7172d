// The account of a run that is resumed from a checkpoint: what was decided when it was saved stays, all else
// has never been. Everybody stands at the version, nobody has anything, and the iterations that were not
// decided are what is left, in order (common/sync/engine_state.h).
#include "tests/sim/authority_checker.h"

namespace paceline::test {

using namespace paceline::sync;

AuthorityChecker::AuthorityChecker(const AuthorityChecker& saved, Violations& violations)
    : AuthorityChecker(saved.config_, violations) {
  updates_ = saved.updates_;
  dropped_ = saved.dropped_;
  lost_ = saved.lost_;
  anybody_lost_ = saved.anybody_lost_;
  begins_ = version_ = saved.version_;
  grant_gap_ = saved.grant_gap_;
  clock_gap_ = saved.clock_gap_;

  policy_ = saved.policy_;
  stage_ = saved.stage_;
  eager_ = saved.eager_;
  threshold_ = saved.threshold_;
  largest_threshold_ = saved.largest_threshold_;
  stage_begun_ = saved.stage_begun_;
  stage_window_ = saved.stage_window_;
  previous_metric_ = saved.previous_metric_;
  completed_at_version_ = saved.completed_at_version_;
  windows_ = saved.windows_;
  for (const auto& [gradient, metric] : saved.metrics_) {  // of what was only held nothing was measured
    if (saved.applied_.count(gradient) > 0) continue;
    Metric& window = windows_[gradient.second.value / window_clocks_of(config_)];
    window.loss_sum -= metric.loss_sum;
    window.correct -= metric.correct;
    window.samples -= metric.samples;
  }

  decided_before_ = saved.decided();
  given_ = decided_before_;
  completed_iterations_ = std::ssize(decided_before_);
  applied_before_ = saved.applied_before_ + std::ssize(saved.applied_);
  without_gradient_ = completed_iterations_ - applied_before_;
  std::vector<std::int64_t> left;
  for (std::int64_t i = 0; i < config_.total_iterations; ++i) {
    if (decided_before_.count(i) == 0) left.push_back(i);
  }
  next_iteration_ = config_.total_iterations;
  returned_ = {left.begin(), left.end()};
  const Clock begin(version_.value);
  shares_ = ShareAccount(std::move(left), begin);
  const std::int64_t first_sample = begin.value * config_.batch_size * config_.cluster.workers();
  batches_ = {saved.batches_.begin(), saved.batches_.lower_bound(first_sample)};

  highest_ = begin;
  awaited_.emplace();
  for (auto& [worker, account] : accounts_) {
    account.clock = begin;
    const State before = saved.accounts_.at(worker).state;
    if (before != State::kAbsent && before != State::kGone) awaited_->insert(worker.node);
  }
  if (!awaited_->empty()) return;
  for (const auto& [worker, account] : accounts_) awaited_->insert(worker.node);
}

AuthorityChecker AuthorityChecker::resumed(Violations& violations) const { return {*this, violations}; }

// Iterations that are applied, or have closed without a gradient.
std::set<std::int64_t> AuthorityChecker::decided() const {
  std::set<std::int64_t> decided = decided_before_;
  for (const auto& [gradient, iteration] : iterations_) {
    const bool closed = eager_ || gradient.second.value < version_.value;
    if (applied_.count(gradient) > 0 || (closed && empty_.count(gradient) > 0)) decided.insert(iteration);
  }
  return decided;
}

}  // namespace paceline::test
