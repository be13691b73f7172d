// PolicyStage: one policy of a run that changes its policy while it runs (`policy: switch`), and until when
// it is in force. The configuration uses this very type, so nothing has to be translated.
#pragma once

#include <cstdint>

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
  StageUntil until;  // of all but the last
  bool operator==(const PolicyStage&) const = default;
};

}  // namespace paceline
