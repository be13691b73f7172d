// Reductions: a simulated run's all-reduce (exchange.kind: allreduce). The tables are the daemons' own
// (common/schedule/), bucket after bucket as their exchange's thread takes them (worker/allreduce/), on the links of
// simulate.network.
//
//   a node's threads compute  |..........b1.....b0|        of each bucket, when its gradient is final
//   its exchange thread                  |b1 |    |b0 |apply
//
// Assumed: a third of a computation is the forward pass; the backward pass takes each layer for as long as it has
// products. Buckets of one step do not disturb each other on the links, and a round of local steps is final at its end.
//
// Thread: one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "common/ids.h"
#include "common/instant.h"
#include "common/schedule/reduction_times.h"
#include "simulate/plan.h"

namespace paceline::simulate {

class Reductions {
 public:
  // Errors: those of planners and checker, which validated configurations do not have.
  static Result<Reductions> begin(const Plan& plan);

  // A thread of `node` has its gradient, which it computed from `begins` to `ends`. Once every thread of every node
  // has: when the next version is there, by node.
  std::optional<std::vector<Ticks>> contribute(NodeId node, Ticks begins, Ticks ends);

  // Of sums and gradients, to other nodes so far.
  std::int64_t bytes_sent() const { return steps_ * bytes_of_a_step_; }

 private:
  struct Bucket {
    std::int64_t floats = 0;
    double final_at = 1.0;  // of a computation's length
  };
  explicit Reductions(const Plan& plan);
  std::vector<Ticks> reduce();

  const Plan* plan_;
  schedule::Links links_;
  std::vector<Bucket> buckets_;                                      // in the order in which they leave
  std::map<std::int64_t, std::vector<schedule::Program>> programs_;  // by the bucket's floats
  std::vector<std::vector<double>> final_;                           // of this step: by bucket and node, s
  std::uint32_t missing_;                                            // threads that have not contributed
  std::int64_t bytes_of_a_step_ = 0;
  std::int64_t steps_ = 0;
};

}  // namespace paceline::simulate
