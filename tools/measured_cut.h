// Where a pipeline's layers would be cut by what a run has measured of its stages (`paceline report`). A layer is taken to
// cost what its products do (common/network/stages.h), and a stage's node to be as fast as it did those of its own. So a
// stage on a slower machine gets fewer. So does one whose layers are slower than their products say; but such a layer is
// as slow elsewhere: of these `paceline schedule --measure` knows. Of several groups it is the mean that counts.
//
//   4 equal layers as [2, 2], 1 s and 3 s of computing: speeds 1 and 1/3, so [3, 1] takes 1.5 s at the slowest, a half
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "common/config/run_config.h"

namespace paceline {

struct MeasuredCut {
  std::vector<double> speeds;       // of each stage: products a second, the fastest 1
  std::vector<std::size_t> layers;  // of each stage
  double slowest = 1.0;             // the time of its slowest stage beside that of the run's
};

// Of a validated run with a pipeline; `busy_seconds`: that each stage has computed. None where the model is a loop's own
// (balance: loop), a stage's time is not known, no cut's slowest stage is faster by a twentieth, or that cut needs more than
// pipeline.memory.
std::optional<MeasuredCut> measured_cut(const RunConfig& config, std::span<const double> busy_seconds);

}  // namespace paceline
