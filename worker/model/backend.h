// A back end: what computes a network's gradient. All of them give the same numbers up to rounding: plain
// loops (reference.h, the truth), oneDNN (onednn.h, the fast one) and, on a GPU, CUDA (gpus.h); they draw the
// same dropout masks.
//
// A back end belongs to the thread that made it, uses that one core (and a GPU), and allocates nothing after
// construction that grows with the number of calls.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "common/config/run_config.h"
#include "common/network/network.h"
#include "common/status.h"
#include "common/task/task.h"
#include "worker/model/batch.h"
#include "worker/model/norm_group.h"

namespace paceline {

class NetworkBackend {
 public:
  virtual ~NetworkBackend() = default;

  // Writes the gradient of the mean loss over `batch` (dropout on) at `parameters` into `gradient`, whole;
  // both are layout.size() floats. The batch may be smaller than the back end's batch size, not larger and
  // not empty. The mean of the gradients of K equal mini-batches is the gradient of the K-fold one, up to
  // rounding, where no layer mixes samples (batch_norm). Buffers (common/params/layout.h) get what was measured. NaN
  // and infinity are no error: they go through the arithmetic and come out in the loss or the gradient. Calls
  // `final_from` once for each layer with parameters, the last first, as soon as its gradient is there, before that of
  // the layer in front is computed. Errors: kInvalidArgument for a batch whose sizes or labels do not fit the network;
  // kInternal when the library fails.
  virtual Result<Metric> gradient(std::span<const float> parameters, const Batch& batch,
                                  std::span<float> gradient, const FinalFrom& final_from) = 0;

  // The metric of `parameters` on `batch`, without dropout, normalised by the running statistics. Sizes and errors as
  // above.
  virtual Result<Metric> evaluate(std::span<const float> parameters, const Batch& batch) = 0;

  // A hint: after the call of gradient() that comes next there will probably be one for `next`, which is
  // there already. A back end may read it from that next call on, and still do so when that has returned. So
  // its memory stays as it is until it has been given to gradient(), which then has returned, or forget()
  // has, or the back end is gone. What cannot be made use of is no error; of several hints the last counts.
  virtual void predict(const Batch& /*next*/) {}
  // What was predicted will not come. Returns when nothing of it is read any more, whatever it returns.
  // Errors: those of gradient().
  virtual Status forget() { return Status::ok(); }
};

// Makes a back end for mini-batches of up to `batch_size` samples; `seed` keys the dropout. Call it on the
// thread that will use it: oneDNN keeps thread-local state, and the thread's OpenMP team size is set to 1.
// Errors: kInvalidArgument when batch_size < 1; kInternal when the library refuses the network, with its
// reason.
// `norm_group`: whose values batch norms go by in training, and which outlives it; null: the mini-batch's alone. Where
// the group fails gradient() has its error.
// `precision`: kBf16: convolutions and dense layers multiply bfloat16, and what lies between layers is bfloat16, where
// the kind of back end has loops for it (onednn_layer.h; reference.h). Parameters, their gradients, statistics, sums
// and the loss are float32 all the same. Errors: kInvalidArgument for kTf32 and kFp16; those of check_precision().
Result<std::unique_ptr<NetworkBackend>> make_backend(Backend kind, NetworkSpec network,
                                                     std::int64_t batch_size, std::uint64_t seed,
                                                     NormGroup* norm_group = nullptr,
                                                     Precision precision = Precision::kFp32);

// Whether this machine's processor can compute so. Errors: kUnavailable, with the key and what would do.
Status check_precision(Backend kind, Precision precision);

// Makes back ends of one kind for one thread, and is called on that thread: arguments and errors as
// make_backend()'s.
using MakeBackend = std::function<Result<std::unique_ptr<NetworkBackend>>(
    const NetworkSpec& network, std::int64_t batch_size, std::uint64_t seed)>;

// What every back end checks first. `max_samples` is the batch size it was built for; `dropout_keys` says
// whether sample_ids and epochs are needed. `samples_kept`: how many samples the back end has itself; above 0
// the batch may have no images, and then needs both, of these.
enum class DropoutKeys { kIgnored, kRequired };
DropoutKeys keys_needed(const NetworkSpec& network);  // by a training step
// Whether a training step of so many samples gives every batch_norm more than one value a channel. Errors:
// kInvalidArgument.
Status check_norms(const NetworkSpec& network, std::int64_t samples);
Status check_batch(const NetworkSpec& network, const Batch& batch, std::int64_t max_samples, DropoutKeys keys,
                   std::int64_t samples_kept = 0);

}  // namespace paceline
