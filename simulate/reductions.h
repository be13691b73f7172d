// Reductions: a simulated run's all-reduce (exchange.kind: allreduce), of stages one each. The tables are the daemons'
// own (common/schedule/), on the links of simulate.network; bucket after bucket, where daemons have several under way
// that are there (worker/allreduce/bucket_sums.h).
//
//   a node's threads compute  |..........b1.....b0|        of each bucket, when its gradient is final
//   its exchange thread                  |b1 |    |b0 |apply
//
// Assumed: a third of a computation is the forward pass; the backward pass takes each layer for as long as it has
// products. Buckets of one step do not disturb each other on the links, and a round of local steps is final at its end.
// So is the gradient of a stage, of which each micro-batch has a part; and what stages send does not disturb sums.
//
// Thread: one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "common/ids.h"
#include "common/instant.h"
#include "common/network/network.h"
#include "common/params/partition.h"
#include "common/schedule/reduction_times.h"
#include "simulate/plan.h"

namespace paceline::simulate {

class Reductions {
 public:
  // Errors: those of planners and checker, which validated configurations do not have.
  static Result<Reductions> begin(const Plan& plan);

  // A thread of `node` has its gradient, which it computed from `begins` to `ends`. Once every thread of every node
  // that it sums with has (common/config/reducing.h): when the next version is there, of each of these.
  struct There {
    NodeId node;
    Ticks at;
  };
  std::optional<std::vector<There>> contribute(NodeId node, Ticks begins, Ticks ends);

  // Of sums and gradients, to other nodes so far.
  std::int64_t bytes_sent() const { return bytes_sent_; }

 private:
  struct Bucket {
    std::int64_t floats = 0;
    double final_at = 1.0;  // of a computation's length
  };
  // Of the nodes that sum with each other: all, or those of a stage.
  struct Sum {
    std::int64_t floats = 0;
    schedule::Links links = {};
    std::vector<Bucket> buckets = {};                                      // in the order in which they leave
    std::map<std::int64_t, std::vector<schedule::Program>> programs = {};  // by the bucket's floats
    std::int64_t bytes_of_a_step = 0;
    std::vector<std::vector<double>> final_at = {};  // of this step: by bucket and rank, s
    std::uint32_t missing = 0;                       // threads that have not contributed
  };
  explicit Reductions(const Plan& plan) : plan_(&plan) {}
  std::uint32_t threads() const;  // that a sum is of
  Status add(const NetworkSpec& network, std::uint32_t stage, const Range& own);
  std::vector<There> reduce(std::uint32_t stage);

  const Plan* plan_;
  std::vector<Sum> sums_;  // by stage; without a pipeline one
  std::int64_t bytes_sent_ = 0;
};

}  // namespace paceline::simulate
