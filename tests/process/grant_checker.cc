#include "tests/process/grant_checker.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "common/config/names.h"
#include "common/random.h"

namespace paceline::testing {
namespace {

std::string name_of(const wire::Grant& grant) {
  return "grant of worker " + to_string(grant.worker) + " at clock " + to_string(grant.clock) +
         " under threshold " + to_string(grant.threshold);
}

double learned(const Metric& window, LprMetric metric) {
  const auto samples = static_cast<double>(window.samples);
  return metric == LprMetric::kAccuracy ? static_cast<double>(window.correct) / samples
                                        : -window.loss_sum / samples;
}

// Whether `policy` may grant under `threshold`.
template <typename Thresholds>
bool is_of_policy(Threshold threshold, PolicyKind policy, const Thresholds& t) {
  switch (policy) {
    case PolicyKind::kBsp:
    case PolicyKind::kBackup:
      return threshold == Threshold(0);
    case PolicyKind::kAsp:
      return threshold.is_infinite();
    case PolicyKind::kSsp:
      return threshold == Threshold(t.threshold);
    case PolicyKind::kDtssp:
    case PolicyKind::kRandomWalk:
    case PolicyKind::kDssp:
      return threshold >= Threshold(t.threshold_min) && threshold <= Threshold(t.threshold_max);
    case PolicyKind::kSwitch:
      break;
  }
  return false;
}

}  // namespace

GrantChecker::GrantChecker(const RunConfig& config)
    : config_(config), cluster_(config.cluster.cluster()), reported_(cluster_.workers(), 0) {}

void GrantChecker::node_is_elsewhere(NodeId node, std::function<std::int64_t(std::uint32_t rank)> completed) {
  elsewhere_ = node;
  completed_elsewhere_ = std::move(completed);
}

std::int64_t GrantChecker::completed(std::uint32_t rank) const {
  const bool is_elsewhere = elsewhere_ && cluster_.worker_at(Rank(rank)).node == *elsewhere_;
  return is_elsewhere ? completed_elsewhere_(rank) : reported_[rank];
}

void GrantChecker::receive(const wire::Body& message) {
  if (const auto* report = std::get_if<wire::StepReport>(&message)) on_report(*report);
  if (const auto* grant = std::get_if<wire::Grant>(&message)) on_grant(*grant);
}

void GrantChecker::on_report(const wire::StepReport& report) {
  const std::uint32_t rank = cluster_.rank_of(report.worker).value;
  if (report.clock.value != reported_[rank]++) {
    faults_.push_back("worker " + to_string(report.worker) + " reports clock " + to_string(report.clock) +
                      ": its clocks have a gap");
  }
  Metric& window = windows_[report.clock.value / config_.sync.lpr.window_clocks.value_or(1)];
  window.loss_sum += report.metric.loss_sum;
  window.correct += report.metric.correct;
  window.samples += report.metric.samples;
}

void GrantChecker::on_grant(const wire::Grant& grant) {
  SeenGrant received{grant, {}};
  for (std::uint32_t j = 0; j < cluster_.workers(); ++j) received.completed.push_back(completed(j));
  const std::uint32_t own = cluster_.rank_of(grant.worker).value;
  // Hidden: one may be computed, or its report be on its way.
  const std::int64_t ahead = grant.clock.value - received.completed[own];
  if (ahead < 0 || ahead > (config_.exchange.hidden ? 1 : 0)) {
    faults_.push_back(name_of(grant) + ": it has reported " + std::to_string(received.completed[own]));
  }
  if (ahead == 1) ++grants_ahead_;
  if (!threshold_is_of_policy(grant)) {
    faults_.push_back(name_of(grant) + ", applied " + name_of(grant.apply) + ": not the policy's");
  }
  const std::int64_t oldest = grant.threshold.is_infinite()
                                  ? 0
                                  : std::max<std::int64_t>(0, grant.clock.value - grant.threshold.value());
  if (grant.min_version.value != oldest) {
    faults_.push_back(name_of(grant) + ": allows version " + to_string(grant.min_version) + ", expected " +
                      std::to_string(oldest));
  }
  received_.push_back(std::move(received));
}

bool GrantChecker::threshold_is_of_policy(const wire::Grant& grant) const {
  const SyncSection& sync = config_.sync;
  if (sync.policy != PolicyKind::kSwitch) {
    return grant.apply == sync.apply && is_of_policy(grant.threshold, sync.policy, sync);
  }
  // The stages that can be in force: those before an end by version that is reached are over, those after
  // one that is not have not begun. Of the other ends the messages do not say when they are reached.
  const auto version = static_cast<double>(grant.version.value);
  const auto by_version = [](const PolicyStage& stage) { return stage.until.end == StageEnd::kVersion; };
  auto first = sync.stages.begin();
  while (by_version(*first) && first->until.value <= version) ++first;
  const auto last = std::find_if(first, sync.stages.end(), [&](const PolicyStage& stage) {
    return by_version(stage) && stage.until.value > version;
  });
  return std::any_of(first, last == sync.stages.end() ? last : last + 1, [&](const PolicyStage& stage) {
    const auto place = static_cast<std::size_t>(&stage - sync.stages.data());
    return grant.apply == apply_in(sync.stages, sync.apply, place) &&
           is_of_policy(grant.threshold, stage.policy, stage);
  });
}

// From the reports (docs/SYNC.md, Policies), or from the coins: the threshold after k windows have closed.
std::vector<Threshold> GrantChecker::thresholds_by_window() const {
  const SyncSection& sync = config_.sync;
  std::int64_t s = sync.threshold;
  std::vector<Threshold> thresholds{Threshold(s)};
  std::optional<double> before;
  for (std::int64_t k = 0; windows_.contains(k); ++k) {
    const double now = learned(windows_.at(k), sync.lpr.metric);
    if (before && sync.policy == PolicyKind::kRandomWalk) {
      CounterRandom coin(config_.run.seed, Stream::kThresholdWalk, static_cast<std::uint64_t>(k));
      s = std::clamp(coin.next_u32() % 2 == 1 ? s + 1 : s - 1, sync.threshold_min, sync.threshold_max);
    } else if (before) {
      const double gain = now - *before;
      const double percent = *before != 0.0 ? gain / std::fabs(*before) * 100.0 : gain * INFINITY;
      if (percent > sync.lpr.increase_above) s = std::min(s + 1, sync.threshold_max);
      if (percent < sync.lpr.decrease_below) s = std::max(s - 1, sync.threshold_min);
    }
    before = now;
    thresholds.emplace_back(s);
  }
  return thresholds;
}

// What worker `rank`, which was still at work then, shows to be wrong with a grant.
std::optional<std::string> GrantChecker::fault_of(const SeenGrant& received, std::uint32_t rank) const {
  const wire::Grant& grant = received.grant;
  const std::int64_t clock = received.completed[rank];
  const std::string standing =
      ", worker " + to_string(cluster_.worker_at(Rank(rank))) + " stood at " + std::to_string(clock);
  if (!grant.threshold.is_infinite() && grant.clock.value - clock > grant.threshold.value()) {
    return name_of(grant) + ": the threshold is exceeded" + standing;
  }
  if (grant.min_clock.value > clock) {
    return name_of(grant) + ": said to be of min clock " + to_string(grant.min_clock) + standing;
  }
  if (grant.version.value > clock) {
    return name_of(grant) + ": version " + to_string(grant.version) + " is said to exist" + standing;
  }
  return std::nullopt;
}

std::vector<std::string> GrantChecker::violations(const RunSummary& summary, bool all_count) const {
  std::vector<std::string> found = faults_;
  std::int64_t lead_max = 0;
  for (const SeenGrant& received : received_) {
    for (std::uint32_t j = 0; j < cluster_.workers(); ++j) {
      if (completed(j) <= received.completed[j]) continue;  // its last: it may have been told to finish
      if (auto fault = fault_of(received, j)) found.push_back(*std::move(fault));
      lead_max = std::max(lead_max, received.grant.clock.value - received.completed[j]);
    }
  }
  if (lead_max > summary.max_grant_gap.value) {
    found.push_back("a grant was " + std::to_string(lead_max) + " ahead, max_grant_gap says " +
                    to_string(summary.max_grant_gap));
  }
  const PolicyKind policy = config_.sync.policy;
  const bool moves = policy == PolicyKind::kDtssp || policy == PolicyKind::kRandomWalk;
  if (!moves || !all_count) return found;
  const std::vector<Threshold> expected = thresholds_by_window();
  for (const SeenGrant& received : received_) {
    const auto closed =
        static_cast<std::size_t>(received.grant.version.value / config_.sync.lpr.window_clocks.value_or(1));
    if (closed < expected.size() && received.grant.threshold == expected[closed]) continue;
    found.push_back(name_of(received.grant) + ": after " + std::to_string(closed) +
                    " windows it is not what follows from them");
  }
  return found;
}

}  // namespace paceline::testing
