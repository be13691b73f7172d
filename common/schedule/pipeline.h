// PipelinePlan: which stage computes which micro-batch when, as a table (docs/PIPELINES.md): a planner makes it from
// the numbers of stages and micro-batches, a checker replays it, print writes it, times() runs it in virtual time,
// and the executor (worker/pipeline/) carries out a stage's rows, one behind the other. What passes between
// neighbouring stages follows from the rows: what a stage has made of a micro-batch goes on as soon as it is there,
// and arrives in the order in which it was made.
//
// gpipe (Huang et al. 2018, section 2.2): all micro-batches forward, then all backward, the last first. 1f1b (Narayanan
// et al., PipeDream, 2019): a stage turns to a backward pass as soon as there is one, so it keeps at most as many
// micro-batches as there are stages from it on. Both have the same bubble.
//
//   2 stages, 3 micro-batches      stage 0                     stage 1
//   gpipe                          F0 F1 F2 B2 B1 B0           F0 F1 F2 B2 B1 B0
//   1f1b                           F0 F1 B0 F2 B1 B2           F0 B0 F1 B1 F2 B2
//   gpipe, rematerialised          F0 F1 F2 B2 R1 B1 R0 B0     the same
//
// R: the forward pass once more, which a stage does before what its backward pass needs has arrived, so that it fills
// the bubble. What was computed last is still there.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/schedule/algorithm.h"
#include "common/status.h"

namespace paceline::schedule {

struct PipelineRow {
  enum class Pass { kForward, kRecompute, kBackward };
  Pass pass = Pass::kForward;
  std::uint32_t micro_batch = 0;
  bool operator==(const PipelineRow&) const = default;
};
using PipelineRows = std::vector<PipelineRow>;

// Of one stage, at most at a time.
struct Kept {
  std::int64_t inputs = 0;       // micro-batches between their forward and backward pass
  std::int64_t activations = 0;  // of them, those whose activations are there
  bool operator==(const Kept&) const = default;
};

struct PipelinePlan {
  std::uint32_t micro_batches = 0;
  std::vector<PipelineRows> stages;
  std::vector<Kept> bounds;  // of each stage, by the planner: its rows keep no more
};

// stages, micro_batches >= 1.
PipelinePlan plan_pipeline(PipelineKind kind, std::uint32_t stages, std::uint32_t micro_batches,
                           bool rematerialize);

// OK when every stage takes every micro-batch forward once and backward once, recomputes only what is not there and is
// needed, keeps no more than its bound, and none waits for what only comes behind its own wait. Knows no schedule's
// name. Errors: kInvalidArgument, naming stage and row.
[[nodiscard]] Status check(const PipelinePlan& plan);

// What a stage's rows keep.
Kept kept(const PipelineRows& rows);

// "F0 F1 B1 B0"
std::string to_string(const PipelineRows& rows);

// How long a pass of each stage takes, of an average micro-batch; passing it on takes no time.
struct StageTimes {
  double forward = 1.0;
  double backward = 1.0;
};
// The plan in virtual time; a recomputation takes as long as a forward pass. The plan has been checked, and `stages`
// has as many. `weights`: of each micro-batch, what multiplies its times; empty: 1.
struct PipelineTimes {
  double step = 0.0;            // until the last row is done
  std::vector<double> busy;     // of each stage
  double bubble_share() const;  // of all stages' time until then, what none computes in
};
PipelineTimes times(const PipelinePlan& plan, std::span<const StageTimes> stages,
                    std::span<const double> weights = {});

// (K - 1) / (M + K - 1), of stages and micro-batches that take equally long.
double bubble_formula(std::uint32_t stages, std::uint32_t micro_batches);

// How `samples` are cut into micro-batches: as even as can be, the first ones a sample larger. Where there are fewer
// samples than micro-batches the last ones are empty.
std::vector<std::int64_t> micro_batch_sizes(std::int64_t samples, std::uint32_t micro_batches);

}  // namespace paceline::schedule
