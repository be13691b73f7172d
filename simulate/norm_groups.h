// Norm groups: the members of a simulated run whose batch norms measure together (train.batch_norm_group). At each norm
// they wait for each other, forward and back, on the links of simulate.network:
//
//   node 0   |F....x  F..x  |B..x  B....|      x: has said its part, and waits for node 1's
//   node 1      |F......x F....x|B....x B......|
//
//   ends of a member = the latest begin, with what it computes ahead of its first norm
//                    + what the slowest computes between the first norm forward and the first norm back
//                    + 2 norms (latency + (members - 1) (costs.message + bytes / bandwidth))
//                    + what it computes after that itself
//
// Assumed: a third of a computation is the forward pass, and a layer takes its share of the products. A message has two
// floats a channel (worker/model/norm_group.h); a member sends it to each other one, one after another, on the slowest
// link of its group.
//
// Thread: one.
#pragma once

#include <cstddef>
#include <vector>

#include "common/status.h"
#include "simulate/group_steps.h"
#include "simulate/plan.h"

namespace paceline::simulate {

class NormGroups final : public GroupSteps {
 public:
  // Errors: those of build_network(), which validated configurations do not have.
  static Result<NormGroups> begin(const Plan& plan);

 private:
  explicit NormGroups(const Plan& plan);
  Done run(std::size_t first, Clock clock) override;

  double ahead_ = 0.0;             // of a network's products, in front of its first norm
  std::vector<double> exchanges_;  // s of a step, by group
};

}  // namespace paceline::simulate
