// The choices of `sync:` and `train:` that the synchronisation core itself acts on. The configuration
// (common/config/run_config.h) uses these very types, so nothing has to be translated.
#pragma once

namespace paceline {

enum class PolicyKind { kBsp, kAsp, kSsp, kDtssp, kRandomWalk, kDssp, kBackup, kSwitch };

// When gradients stamped c are applied: once every live worker's has arrived, in worker order; or on arrival.
// A run may begin with the first and go on with the second (policy_stage.h).
enum class ApplyMode { kVersioned, kEager };

// Eager: whether a refresh that is merely due is asked for ahead of the gradient, whose way up then hides its
// way down, or after it, and has that gradient in it (common/cache/freshness.h). Auto: by what is between a
// node and its servers (worker/train/pull_order.h).
enum class PullOrder { kAuto, kBeforePush, kAfterPush };

// One optimizer step per gradient; or one per clock, with the gradients averaged by samples (versioned only).
enum class CombineMode { kEach, kMean };

// What the learning progress ratio is computed from.
enum class LprMetric { kAccuracy, kLoss };

// The same number of iterations for each worker; or whoever is granted takes the next.
enum class Share { kEven, kPool };

// Every mini-batch has batch_size samples; or sizes follow the nodes' speed, at the same number for each
// clock.
enum class BatchSizing { kEqual, kBySpeed };

// What a NaN or infinite loss or gradient does: ends the run, or counts as an empty iteration.
enum class OnNan { kStop, kSkip };

}  // namespace paceline
