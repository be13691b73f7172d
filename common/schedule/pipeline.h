// PipelinePlan: which stage computes which micro-batch when, as a table (docs/PIPELINES.md): a planner makes it from
// the numbers of stages and micro-batches, a checker replays it, print writes it, times() runs it in virtual time,
// and the executor (worker/pipeline/) carries out a stage's rows, one after the other. What passes between
// neighbouring stages follows from the rows: what a stage has made of a micro-batch goes on as soon as it is there,
// and arrives in the order in which it was made.
//
// A stage may have several chunks of the network. Of K stages stage s has chunks s, s + K, s + 2 K ... in the network's
// order, which here are its chunks 0, 1, 2 ...; what the last stage makes of one goes on to the first stage.
//
// gpipe (Huang et al. 2018, section 2.2): all micro-batches forward, then all backward, the last first. 1f1b (Narayanan
// et al., PipeDream, 2019): a stage turns to a backward pass as soon as there is one, so it keeps at most as many
// micro-batches as there are stages from it on. Both have the same bubble. interleaved (Narayanan et al., Efficient
// Large-Scale Language Model Training on GPU Clusters, 2021, section 2.2): 1f1b with v chunks a stage, K micro-batches
// through each in turn; its bubble is a v-th of theirs, for v times the messages. M is a multiple of K.
//
//   2 stages, 3 micro-batches      stage 0                     stage 1
//   gpipe                          F0 F1 F2 B2 B1 B0           F0 F1 F2 B2 B1 B0
//   1f1b                           F0 F1 B0 F2 B1 B2           F0 B0 F1 B1 F2 B2
//   gpipe, rematerialised          F0 F1 F2 B2 R1 B1 R0 B0     the same
//   interleaved, M = 2, v = 2      F0 F1 F0.1 F1.1 B0.1 B1.1 B0 B1      F0 F1 F0.1 B0.1 F1.1 B1.1 B0 B1
//
// F0.1: of micro-batch 0 on the stage's chunk 1.
//
// R: the forward pass once more, which a stage does before what its backward pass needs has arrived, so that it fills
// the bubble. A micro-batch that is computed again (is_recomputed()) is dropped after its F; all others are kept until
// their B. Under a bound those are dropped whose backward pass is the furthest away (Belady 1966), so what was computed
// last never is.
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
  std::uint32_t chunk = 0;  // of the stage
  bool operator==(const PipelineRow&) const = default;
};
using PipelineRows = std::vector<PipelineRow>;

// Of one chunk, at most at a time.
struct Kept {
  std::int64_t inputs = 0;       // micro-batches between their forward and backward pass
  std::int64_t activations = 0;  // of them, those whose activations are there
  bool operator==(const Kept&) const = default;
};

struct PipelinePlan {
  std::uint32_t micro_batches = 0;
  std::uint32_t chunks = 1;  // of each stage
  std::vector<PipelineRows> stages;
  std::vector<Kept>
      bounds;  // of each chunk in the network's order, by the planner: its stage's rows keep no more
};

// OK where `kind` has a plan for these numbers, all >= 1. Errors: kInvalidArgument, as "got ..., expected ...".
[[nodiscard]] Status check_has_plan(PipelineKind kind, std::uint32_t stages, std::int64_t micro_batches);

// stages, micro_batches, chunks >= 1, and there is a plan; chunks above 1: of interleaved alone. `activations_max`, of
// each chunk in the network's order: activations of so many micro-batches, >= 1, may be there at a time; empty: all
// that there are, and nothing is computed again.
PipelinePlan plan_pipeline(PipelineKind kind, std::uint32_t stages, std::uint32_t micro_batches,
                           std::span<const std::int64_t> activations_max = {}, std::uint32_t chunks = 1);

// OK when every stage takes every micro-batch forward once and backward once on each of its chunks, recomputes only
// what is not there and is needed, keeps no more than its bound, and none waits for what only comes after its own wait.
// Knows no schedule's name. Errors: kInvalidArgument, naming stage and row.
[[nodiscard]] Status check(const PipelinePlan& plan);

// By micro-batch, whether its activations on the stage's `chunk` are dropped after its forward pass, and computed
// again.
std::vector<bool> is_recomputed(const PipelineRows& rows, std::uint32_t chunk = 0);
// What a stage's rows keep of its `chunk`.
Kept kept(const PipelineRows& rows, std::uint32_t chunk = 0);

// "F0 F1 B1 B0", of other chunks than a stage's first "F0.1".
std::string to_string(const PipelineRows& rows);

// How long a pass of each chunk takes, of an average micro-batch.
struct StageTimes {
  double forward = 1.0;
  double backward = 1.0;
};
// Between a chunk and the next one: what a message takes, of an average micro-batch, after those in front of it between
// the same stages in the same direction.
struct StageLink {
  double latency = 0.0;
  double forward = 0.0;
  double backward = 0.0;
};
// A row as it was run.
struct PassTime {
  PipelineRow row;
  double begin = 0.0;
  double end = 0.0;
};
struct PipelineTimes {
  double step = 0.0;                        // from 0 until the last row is done
  std::vector<double> busy;                 // of each stage
  std::vector<std::vector<PassTime>> rows;  // of each stage
  double ends(std::size_t stage) const { return rows[stage].back().end; }
  double bubble_share() const;  // of all stages' time until then, what none computes in
};
// The plan in virtual time; a recomputation takes as long as a forward pass. The plan has been checked. `chunks`: of
// each in the network's order. `weights`: of each micro-batch, what multiplies its times; empty: 1. `begins`: of each
// stage; empty: 0. `links`: after each chunk but the last; empty: messages take no time.
PipelineTimes times(const PipelinePlan& plan, std::span<const StageTimes> chunks,
                    std::span<const double> weights = {}, std::span<const double> begins = {},
                    std::span<const StageLink> links = {});

// (K - 1) / (v M + K - 1), of stages, chunks and micro-batches that take equally long.
double bubble_formula(std::uint32_t stages, std::uint32_t micro_batches, std::uint32_t chunks = 1);

// How `samples` are cut into micro-batches: as even as can be, the first ones a sample larger. Where there are fewer
// samples than micro-batches the last ones are empty.
std::vector<std::int64_t> micro_batch_sizes(std::int64_t samples, std::uint32_t micro_batches);

}  // namespace paceline::schedule
