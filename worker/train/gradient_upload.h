// A gradient between the task that computes it and the servers. As far as the task says that it is final it
// is handed over while the rest is computed, and what is left when all of it is.
//
// The servers check every float for NaN and infinity in the pass that applies it, and nothing of a gradient
// that has one is ever seen. Where that ends the run, it is enough. Where the worker checks as well
// (worker_checks_finite()), each float once, it does so before it hands a part over; what is left at the end leaves
// part by part, while the next one is checked. At the first that is not finite that ends, and what has left
// is taken back.
//
// Thread: the training thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "common/encode/encoding.h"
#include "common/metric.h"
#include "common/params/layout.h"
#include "common/status.h"
#include "common/sync/modes.h"
#include "worker/exchange/exchange.h"

namespace paceline {

// Whether a worker checks, too: where it goes on with its own parameters after a gradient that is not finite
// (on_nan: skip), and where it passes over the floats to encode them anyway, part by part.
bool worker_checks_finite(OnNan on_nan, Encoding gradients);

class GradientUpload {
 public:
  // `gradient.values` is being computed into; its samples are not known yet. `checks`: worker_checks_finite().
  GradientUpload(Exchange& exchange, Contribution gradient, bool checks);

  // The task's word (common/task/task.h): elements [begin, the end) are final.
  void final_from(std::int64_t begin);
  // kInvalidArgument once there are no such elements; nothing leaves from then on.
  const Status& mistake() const { return mistake_; }

  // It is computed. What is not finite, as it is reported; empty when all is fine, or is the servers' to check.
  std::string fault(const Metric& metric, const Layout& layout);
  // What has left until now.
  EarlyPush early(Ticks until) const { return exchange_.pushed_early(gradient_.worker, until); }

  // It counts: what has not left leaves. Once fault() was empty.
  void push(std::int64_t samples);
  // It does not, since it is not finite. `values`: of what was computed into.
  void push_not_finite(std::span<float> values) { exchange_.push_not_finite(std::move(gradient_), values); }
  // It does not, since the task has failed.
  void withdraw() { exchange_.withdraw(gradient_); }

 private:
  void check_finite(std::int64_t begin);

  Exchange& exchange_;
  Contribution gradient_;
  const bool checks_;
  std::int64_t ready_from_;                 // [ready_from_, the end) is final, and has been checked
  std::optional<std::int64_t> non_finite_;  // the first element of that
  Status mistake_ = Status::ok();
};

}  // namespace paceline
