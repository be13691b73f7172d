// PolicyStage: one policy of a run that changes its policy while it runs (`policy: switch`), and until when
// it is in force. The configuration uses this very type, so nothing has to be translated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "common/sync/modes.h"

namespace paceline {

// What ends a stage. It is looked at whenever the version advances, so a policy takes over at a version.
enum class StageEnd {
  kNever,          // the last stage
  kVersion,        // the version is `value` or more
  kIterations,     // so many iterations of all workers are completed, skipped ones included
  kProgress,       // such a share of train.total_iterations is; in a configuration only
  kTrainAccuracy,  // an LPR window that begins in this stage has such an accuracy or more
  kTrainLoss,      // ... or such a mean loss or less
};

struct StageUntil {
  StageEnd end = StageEnd::kNever;
  double value = 0.0;
  bool operator==(const StageUntil&) const = default;
};

struct PolicyStage {
  PolicyKind policy = PolicyKind::kBsp;  // any but kSwitch
  std::int64_t threshold = 3;            // these three: as in sync
  std::int64_t threshold_min = 3;
  std::int64_t threshold_max = 10;
  StageUntil until;                // of all but the last
  std::optional<ApplyMode> apply;  // none: apply_in() says
  double lr_scale = 1.0;           // > 0; times the schedule's learning rate. The core does not use it
  bool operator==(const PolicyStage&) const = default;
};

// How gradients are applied while stage `stage` is in force: as it says; else asp eager and the others as the
// stage before them. The first as the run, `first`. Without stages always so.
//   versioned, [bsp] [asp] [ssp]    versioned eager eager
inline ApplyMode apply_in(std::span<const PolicyStage> stages, ApplyMode first, std::size_t stage) {
  ApplyMode apply = first;
  for (std::size_t i = 1; i < stages.size() && i <= stage; ++i) {
    if (stages[i].policy == PolicyKind::kAsp) apply = ApplyMode::kEager;
    apply = stages[i].apply.value_or(apply);
  }
  return apply;
}

// Whether gradients are ever applied on arrival: a run turns eager once, and does not turn back.
inline bool is_ever_eager(std::span<const PolicyStage> stages, ApplyMode first) {
  return apply_in(stages, first, stages.size()) == ApplyMode::kEager;
}

}  // namespace paceline
