// Pipelines: the groups of a simulated run whose nodes are stages of a network (pipeline.stages). The rows are those
// that nodes carry out (common/network/stage_plan.h); what they wait for each other follows from them, on the links of
// simulate.network.
//
//   stage 0   |F0|F1|F2|....|B2  |B1  |B0  |     a group's step ends, stage by stage, once all have begun it
//   stage 1      |F0|F1|F2|B2  |B1  |B0  |
//
// Assumed: a worker takes simulate.compute's time for its own samples of the whole network, so a stage takes its share
// of the products, of all samples of the group; a third of it is the forward pass. Micro-batches take as long as they
// have samples.
//
// Thread: one.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/ids.h"
#include "common/instant.h"
#include "common/report/run_summary.h"
#include "common/schedule/pipeline.h"
#include "simulate/group_steps.h"
#include "simulate/plan.h"

namespace paceline::simulate {

class Pipelines final : public GroupSteps {
 public:
  // Errors: those of the cut and the plan, which validated configurations do not have.
  static Result<Pipelines> begin(const Plan& plan);

  std::optional<Done> begin_step(NodeId node, Clock clock, Ticks begins,
                                 std::chrono::nanoseconds length) override;
  std::chrono::nanoseconds waited(NodeId node) const override { return stages_[node.value].waited; }

  PipelineSummary summary() const;

 private:
  struct Stage {
    std::optional<Ticks> begins;  // of the step that not all have begun
    std::chrono::nanoseconds length{0};
    std::chrono::nanoseconds waited{0};
  };
  explicit Pipelines(const Plan& plan) : plan_(&plan) {}
  Done run(std::size_t first);

  const Plan* plan_;
  schedule::PipelinePlan rows_;
  std::vector<double> weights_;                          // of each micro-batch, beside an average one
  std::vector<double> shares_;                           // of a step's products, by stage
  std::vector<std::vector<schedule::StageLink>> links_;  // of each group, behind each stage but the last
  std::vector<std::int64_t> bytes_;                      // that each stage keeps
  std::vector<Stage> stages_;                            // by node
  double busy_ = 0.0;                                    // s, of all
  double all_ = 0.0;  // from where a step's first stage begins until it is done, for each stage
};

}  // namespace paceline::simulate
