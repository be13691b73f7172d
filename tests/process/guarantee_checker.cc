#include "tests/process/guarantee_checker.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "common/params/partition.h"
#include "common/step/grant.h"
#include "tests/process/random_run.h"

namespace paceline::testing {
namespace {
// Counts are small integers; the mean of K gradients may miss one by a rounding error of K additions.
constexpr float kRounding = 1e-3F;

// The largest lead at a grant; none: no bound.
template <typename Thresholds>
std::optional<std::int64_t> largest_lead(PolicyKind policy, const Thresholds& t) {
  switch (policy) {
    case PolicyKind::kBsp:
    case PolicyKind::kBackup:
      return 0;
    case PolicyKind::kSsp:
      return t.threshold;
    case PolicyKind::kDtssp:
    case PolicyKind::kRandomWalk:
    case PolicyKind::kDssp:
      return t.threshold_max;
    case PolicyKind::kAsp:
    case PolicyKind::kSwitch:
      break;
  }
  return std::nullopt;
}

std::optional<std::int64_t> largest_lead(const SyncSection& sync) {
  if (sync.policy != PolicyKind::kSwitch) return largest_lead(sync.policy, sync);
  std::int64_t largest = 0;
  for (const PolicyStage& stage : sync.stages) {
    const auto lead = largest_lead(stage.policy, stage);
    if (!lead) return std::nullopt;
    largest = std::max(largest, *lead);
  }
  return largest;
}
}  // namespace

GuaranteeChecker::GuaranteeChecker(const RunConfig& config)
    : config_(config),
      cluster_(config.cluster.cluster()),
      mean_(config.sync.combine == CombineMode::kMean),
      last_read_(cluster_.workers()) {
  for (std::uint32_t r = 0; r < cluster_.workers(); ++r) {
    entered_.push_back(std::make_unique<std::atomic<std::int64_t>>(0));
  }
  for (std::uint32_t i = 0; i < cluster_.nodes; ++i)
    gone_.push_back(std::make_unique<std::atomic<bool>>(false));
}

float behind_place(const RunConfig& config, std::size_t element, std::size_t elements) {
  const std::uint32_t fragments = config.exchange.fragments;
  const std::vector<Range> parts = partition(static_cast<std::int64_t>(elements), fragments);
  std::int64_t from_the_end = 0;
  while (static_cast<std::int64_t>(element) < parts[fragments - 1 - from_the_end].begin) ++from_the_end;
  const std::int64_t steps = config.train.local_steps;
  return 1.0F -
         static_cast<float>(step::fragment_place(from_the_end, fragments, steps)) / static_cast<float>(steps);
}

std::int64_t GuaranteeChecker::share_of(std::uint32_t rank) const {
  if (config_.train.share == Share::kPool) return -1;
  const std::int64_t workers = cluster_.workers();
  return config_.train.rounds() / workers + (rank < config_.train.rounds() % workers ? 1 : 0);
}

bool GuaranteeChecker::anybody_gone() const {
  return std::any_of(gone_.begin(), gone_.end(), [](const auto& gone) { return gone->load(); });
}

void GuaranteeChecker::node_is_elsewhere(NodeId node, std::function<std::int64_t(std::uint32_t rank)> begun) {
  elsewhere_ = node;
  begun_elsewhere_ = std::move(begun);
}

std::int64_t GuaranteeChecker::begun(std::uint32_t rank) const {
  if (elsewhere_ && cluster_.worker_at(Rank(rank)).node == *elsewhere_) return begun_elsewhere_(rank);
  return entered_[rank]->load();
}

void GuaranteeChecker::on_read(const Read& read) {
  reads_.fetch_add(1);
  const Step& step = read.step;
  const std::uint32_t own = cluster_.rank_of(step.worker).value;
  const std::int64_t clock = step.clock.value;
  const std::string who = "worker " + to_string(step.worker) + " at clock " + to_string(step.clock) +
                          " under threshold " + to_string(step.threshold);
  if (entered_[own]->fetch_add(1) != clock) report(who + ": its clocks have a gap");

  // How much everyone has at least begun and, by the grant, completed: c - s.
  const std::int64_t bound =
      step.threshold.is_infinite() ? 0 : std::max<std::int64_t>(0, clock - step.threshold.value());
  std::int64_t all_begun = 0;
  for (std::uint32_t j = 0; j < cluster_.workers(); ++j) all_begun += begun(j);
  // What of an own delta has not left yet is not divided by anybody: in a mean it counts as often.
  const float undivided = gradient_scale(config_.sync, cluster_.workers()) - 1.0F;
  // From a pool nobody knows who will have finished with what, once it may be empty: each worker may hold one
  // iteration that it has not begun, hidden two.
  const bool pool_may_be_empty = config_.train.share == Share::kPool &&
                                 all_begun + granted_ahead() * cluster_.workers() >= config_.train.rounds();
  for (std::uint32_t j = 0; j < cluster_.workers(); ++j) {
    if (is_gone(j)) continue;
    std::int64_t due = bound;
    if (share_of(j) >= 0) {
      due = std::min(due, share_of(j));
    } else if (pool_may_be_empty) {
      continue;
    }
    const std::string other = to_string(cluster_.worker_at(Rank(j)));
    if (begun(j) < due) {
      report(who + ": granted although worker " + other + " has begun only " + std::to_string(begun(j)));
    }
    for (std::size_t row = 0; row < read.counts.size(); row += cluster_.workers()) {
      const float behind = due == 0 ? 0.0F : behind_place(row + j, read.counts.size());
      if (read.counts[row + j] < static_cast<float>(due) - behind - kRounding) {
        report(who + ": model state: has " + std::to_string(read.counts[row + j]) + " gradients of worker " +
               other + ", at least " + std::to_string(due) + " are due");
      }
    }
  }

  for (std::size_t row = 0; row < read.counts.size(); row += cluster_.workers()) {
    const float mine = read.counts[row + own];
    const bool enough = mine >= static_cast<float>(clock) - kRounding;
    // Where a mean is taken over fewer than K because somebody went or has finished, each gradient weighs
    // more.
    const bool exact = (mean_ && (anybody_gone() || pool_may_be_empty)) ||
                       mine <= static_cast<float>(clock) +
                                   undivided * behind_place(row + own, read.counts.size()) + kRounding;
    if (!enough || !exact) {
      report(who + ": read-my-writes: has " + std::to_string(mine) + " of its own gradients, expected " +
             std::to_string(clock));
    }
  }

  std::vector<float>& before = last_read_[own];
  for (std::size_t i = 0; i < before.size(); ++i) {
    const float own_part =
        i % cluster_.workers() == own ? undivided * behind_place(i, read.counts.size()) : 0;
    if (read.counts[i] < before[i] - own_part - kRounding) {
      report(who + ": monotonic: element " + std::to_string(i) + " fell from " + std::to_string(before[i]) +
             " to " + std::to_string(read.counts[i]));
    }
  }
  before = read.counts;
}

// Nobody had been told that nothing is left when they went: then the others do what they leave. As long as
// one of them that had begun b iterations was waited for, nobody was granted a clock beyond b + s, whatever
// the messages took: so nobody had completed more than b + s + 1 iterations, nor been granted more from a
// pool. What the gone themselves were granted they had begun, but for one each, or two where the next is granted ahead.
bool GuaranteeChecker::is_made_up_for() const {
  const bool others_may =
      config_.sync.policy != PolicyKind::kBackup && config_.train.sizing() == BatchSizing::kEqual;
  const std::optional<std::int64_t> lead = largest_lead(config_.sync);
  std::int64_t least = config_.train.rounds();
  std::int64_t granted_to_gone = 0;
  for (std::uint32_t j = 0; j < cluster_.workers(); ++j) {
    if (!is_gone(j)) continue;
    least = std::min(least, begun(j));
    granted_to_gone += begun(j) + granted_ahead();
  }
  if (!others_may || !lead) return false;
  const std::int64_t most = least + *lead + 1;
  std::int64_t granted = granted_to_gone;
  bool none_is_done = true;
  bool anybody_stays = false;
  for (std::uint32_t j = 0; j < cluster_.workers(); ++j) {
    if (is_gone(j)) continue;
    anybody_stays = true;
    granted += most;
    none_is_done = none_is_done && most < share_of(j);
  }
  const bool pool = config_.train.share == Share::kPool;
  return anybody_stays && (pool ? granted < config_.train.rounds() : none_is_done);
}

void GuaranteeChecker::on_end(const RunSummary& summary, std::span<const float> model, std::int64_t blocks) {
  const std::uint32_t workers = cluster_.workers();
  double applied = 0.0;
  for (std::uint32_t j = 0; j < workers; ++j) {
    const std::string who = "final model: worker " + to_string(cluster_.worker_at(Rank(j)));
    for (std::int64_t b = 1; b < blocks; ++b) {
      const float here = model[static_cast<std::size_t>(b) * workers + j];
      // All of the last round of a worker leaves at its end, if it was known to be the last. In a mean parts of a
      // delta weigh more where fewer contribute: of the gone, or in a last clock that is not full.
      const bool all = share_of(j) >= 0 && !anybody_gone();
      const bool equal = all && config_.train.rounds() % workers == 0;
      if (config_.exchange.fragments > 1 && mean_ && !equal) continue;
      const float behind = behind_place(static_cast<std::size_t>(b) * workers + j, model.size());
      const float missing = model[j] - here;
      if (std::fabs(missing) > kRounding && (all || std::fabs(missing - behind) > kRounding)) {
        report(who + ": " + std::to_string(model[j]) + " gradients in row 0, " + std::to_string(here) +
               " in row " + std::to_string(b) + ": a push was not on all shards or on none");
      }
    }
    applied += model[j];
    // Of those who are gone the others do more.
    const bool whole = !is_gone(j) && share_of(j) >= 0;
    const float beyond = model[j] - static_cast<float>(share_of(j));
    if (whole && !mean_ && (beyond < -kRounding || (beyond > kRounding && !anybody_gone()))) {
      report(who + ": " + std::to_string(model[j]) + " gradients applied, its share is " +
             std::to_string(share_of(j)));
    }
  }
  if (!mean_ &&
      std::fabs(applied - static_cast<double>(summary.iterations / config_.train.local_steps)) > 0.01) {
    report("the summary counts " + std::to_string(summary.iterations) + " iterations, the model " +
           std::to_string(applied));
  }
  if (summary.iterations > config_.train.total_iterations ||
      ((!anybody_gone() || is_made_up_for()) && summary.iterations != config_.train.total_iterations)) {
    report("the run applied " + std::to_string(summary.iterations) + " of " +
           std::to_string(config_.train.total_iterations) + " iterations" +
           (anybody_gone() ? ": what the gone left is done by nobody" : ""));
  }

  const std::optional<std::int64_t> largest = largest_lead(config_.sync);
  if (largest && summary.max_grant_gap.value > *largest) {
    report("max_grant_gap " + to_string(summary.max_grant_gap) + " exceeds the threshold");
  }
  if (largest && summary.max_clock_gap.value > *largest + 1) {
    report("max_clock_gap " + to_string(summary.max_clock_gap) + " exceeds the threshold + 1");
  }
}

void GuaranteeChecker::report(std::string what) {
  const std::lock_guard lock(mutex_);
  if (violations_.size() < 20) violations_.push_back(std::move(what));
}

std::vector<std::string> GuaranteeChecker::violations() const {
  const std::lock_guard lock(mutex_);
  return violations_;
}

}  // namespace paceline::testing
