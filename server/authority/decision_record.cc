#include "server/authority/decision_record.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdio>
#include <utility>

#include "common/config/names.h"

namespace paceline::server {
namespace {

std::string per_cent(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", value);
  return text;
}

// What needs the accuracy of windows, and what stands still without it; empty: nothing.
std::string needs_accuracy(const SyncSection& sync) {
  const auto any_stage = [&](const auto& is) {
    return std::any_of(sync.stages.begin(), sync.stages.end(), is);
  };
  const bool follows = sync.policy == PolicyKind::kDtssp ||
                       any_stage([](const PolicyStage& s) { return s.policy == PolicyKind::kDtssp; });
  if (follows && sync.lpr.metric == LprMetric::kAccuracy) {
    return "sync.lpr.metric: got accuracy, expected loss, or the threshold does not move";
  }
  if (any_stage([](const PolicyStage& s) { return s.until.end == StageEnd::kTrainAccuracy; })) {
    return "sync.stages: got a train_accuracy, expected a train_loss, or that stage does not end";
  }
  return "";
}

}  // namespace

DecisionRecord::DecisionRecord(const RunConfig& config, const RunCore& core, RunRecord& record,
                               const Log& log)
    : config_(config),
      core_(core),
      record_(record),
      log_(log),
      revision_(core.engine().iterations_applied()) {}

void DecisionRecord::note(const sync::Apply& action, Ticks) {
  record_.applied(action);
  revision_ = action.revision_after;
}

void DecisionRecord::note(const sync::VersionAdvanced& action, Ticks) {
  log_.debug("version " + to_string(action.version));
}

void DecisionRecord::note(const sync::ThresholdChanged& action, Ticks) {
  log_.info("threshold " + to_string(action.from) + " -> " + to_string(action.to) + " at version " +
            to_string(action.version) + ": LPR " + per_cent(action.lpr));
}

void DecisionRecord::note(const sync::PolicySwitched& action, Ticks now) {
  record_.switched(action, now);
  log_.info(std::string("policy ") + name_of(action.from) + " -> " + name_of(action.to) + " at version " +
            to_string(action.version) + ": threshold " + to_string(action.threshold_from) + " -> " +
            to_string(action.threshold_to) +
            (core_.engine().apply_mode() == ApplyMode::kEager ? ", gradients are applied on arrival" : ""));
}

void DecisionRecord::note(const sync::WindowClosed& action, Ticks now) {
  record_.window(action, config_.train.iterations_in(revision_.value), now);
  log_.info("window " + std::to_string(action.index) + " closed at version " + to_string(action.version) +
            ": " + (action.accuracy ? "train accuracy " + per_cent(*action.accuracy * 100) + ", " : "") +
            "loss " + std::to_string(action.loss_mean) +
            (action.lpr ? ", LPR " + per_cent(*action.lpr) : ""));
  if (!action.accuracy) miss_accuracy(action.index);
  log_batch_sizes();
}

void DecisionRecord::miss_accuracy(std::int64_t window) {
  const std::string needed = needs_accuracy(config_.sync);
  if (needed.empty() || std::exchange(has_missed_accuracy_, true)) return;
  log_.warn("window " + std::to_string(window) +
            " has no accuracy, since not all correct samples were counted; " + needed);
}

void DecisionRecord::note_plan() {
  constexpr std::size_t kNamed = 8;
  const sync::Engine& engine = core_.engine();
  if (std::exchange(plan_change_, engine.plan_change()) == engine.plan_change()) return;
  const sync::EvenShare::Newest plan = engine.plan();
  std::string who;
  for (std::size_t i = 0; i < std::min(kNamed, plan.workers.size()); ++i) {
    who += (i == 0 ? "" : ", ") + to_string(config_.cluster.cluster().worker_at(plan.workers[i]));
  }
  if (plan.workers.size() > kNamed) who += " and " + std::to_string(plan.workers.size() - kNamed) + " more";
  log_.info("plan " + std::to_string(plan.change) + " from clock " + to_string(plan.first) + ", base " +
            std::to_string(plan.base) + ", mini-batches of " + std::to_string(config_.train.batch_size) +
            ": workers " + who);
}

// A run that has diverged skips all: the first is said, and each time that there are twice as many.
void DecisionRecord::note_skipped(const wire::StepReport& report) {
  const auto skipped = static_cast<std::uint64_t>(core_.engine().iterations_skipped());
  if (!std::has_single_bit(skipped)) return;
  log_.warn("worker " + to_string(report.worker) + " has skipped its iteration of clock " +
            to_string(report.clock) + " (train.on_nan: skip): " + report.fault + "; " + skips_so_far());
}

void DecisionRecord::note(const sync::AllFinished& action, Ticks now) {
  record_.training_over(now);
  log_batch_sizes();
  if (config_.train.on_nan == OnNan::kSkip && core_.engine().iterations_skipped() > 0)
    log_.warn("not all was learned from: " + skips_so_far());
  log_.info("training is over at version " + to_string(action.version) + ", " + to_string(action.revision) +
            " gradients applied");
}

// Sizes may change every few clocks: said at the end of a window, and of the run.
void DecisionRecord::log_batch_sizes() {
  const std::string sizes = record_.batch_size_change();
  const bool rounds = config_.train.local_balance != BatchSizing::kEqual;
  if (!sizes.empty()) {
    log_.info(std::string(rounds ? "samples in a round" : "mini-batches") +
              " by speed, as granted last: " + sizes);
  }
}

std::string DecisionRecord::skips_so_far() const {
  const std::int64_t skipped = config_.train.iterations_in(core_.engine().iterations_skipped());
  const std::int64_t local_steps = config_.train.local_steps;
  return std::to_string(skipped) + " of " + std::to_string(core_.iterations_applied() + skipped) +
         " iterations" + (local_steps > 1 ? ", in rounds of " + std::to_string(local_steps) + "," : "") +
         " are skipped so far";
}

}  // namespace paceline::server
