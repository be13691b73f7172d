// Pipelines: the groups of a simulated run whose nodes are stages of a network (pipeline.stages). The rows are those
// that nodes carry out (common/network/stage_plan.h); what they wait for each other follows from them, on the links of
// simulate.network.
//
//   stage 0   |F0|F1|F2|....|B2  |B1  |B0  |     a group's step ends, stage by stage, once all have begun it
//   stage 1      |F0|F1|F2|B2  |B1  |B0  |
//
// Assumed: a worker takes simulate.compute's time for its own samples of the whole network, so a stage takes its share
// of the products and elements (costs_by_products), of all samples of the group; a third of it is the forward pass.
// Micro-batches take as long as they have samples.
//
// Thread: one.
#pragma once

#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"
#include "common/instant.h"
#include "common/report/run_summary.h"
#include "common/schedule/pass_span.h"
#include "common/schedule/pipeline.h"
#include "common/trace/trace.h"
#include "simulate/group_steps.h"
#include "simulate/plan.h"

namespace paceline::simulate {

class Pipelines final : public GroupSteps {
 public:
  // Errors: those of the cut and the plan, which validated configurations do not have.
  static Result<Pipelines> begin(const Plan& plan);

  PipelineSummary summary() const;
  // With run.trace, of each node its passes.
  void add_passes(trace::Trace& to) const;

 private:
  Pipelines(std::size_t nodes, PipelineSummary summary)
      : GroupSteps(summary.stages, nodes), summary_(std::move(summary)) {}
  Done run(std::size_t first, Clock clock) override;
  void note(std::size_t stage, const std::vector<schedule::PassTime>& passes, double begins);

  schedule::PipelinePlan rows_;
  std::vector<double> weights_;                          // of each micro-batch, beside an average one
  std::vector<double> shares_;                           // of a step's costs, by chunk of the network
  std::vector<std::vector<schedule::StageLink>> links_;  // of each group, after each chunk but the last
  std::vector<schedule::PassSpans> passes_;              // by node; empty: run.trace is off
  PipelineSummary summary_;
  double all_ = 0.0;  // from where a step's first stage begins until it is done, for each stage, s
};

}  // namespace paceline::simulate
