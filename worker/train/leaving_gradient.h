// A gradient between the task that computes it and the servers. As far as the task says that it is final it
// is looked at for NaN and infinity, each float once, and handed over while the rest is computed; what is
// left when it is computed, part by part, while the next part is looked at. At the first that is not finite
// that ends, and what has left is taken back.
//
// Thread: the training thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/metric.h"
#include "common/params/layout.h"
#include "common/status.h"
#include "worker/client/exchange.h"

namespace paceline {

class LeavingGradient {
 public:
  // `gradient.values` is being computed into; its samples are not known yet.
  LeavingGradient(ParameterExchange& exchange, LocalGradient gradient);

  // The task's word (common/task/task.h): elements [begin, the end) are final.
  void final_from(std::int64_t begin);
  // kInvalidArgument once there are no such elements; nothing leaves from then on.
  const Status& mistake() const { return mistake_; }

  // It is computed. What is not finite, as it is reported; empty when all is fine: then most of it has left.
  std::string fault(const Metric& metric, const Layout& layout);
  // What has left until now.
  EarlyPush early(Ticks until) const { return exchange_.pushed_early(gradient_.worker, until); }

  // It counts: what has not left leaves. Once fault() was empty.
  void push(std::int64_t samples);
  // It does not: it is not finite, or the task has failed.
  void withdraw() { exchange_.withdraw(gradient_); }

 private:
  void look_at(std::int64_t begin);

  ParameterExchange& exchange_;
  LocalGradient gradient_;
  std::int64_t checked_from_;               // [checked_from_, the end) has been looked at
  std::optional<std::int64_t> non_finite_;  // the first element of that
  Status mistake_ = Status::ok();
};

}  // namespace paceline
