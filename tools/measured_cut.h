// Where a pipeline's layers would be cut by what a run has measured of its stages (`paceline report`), beside the cut
// that it was run with, which summary.json has: a resume may have begun since, with a cut of its own. A layer is taken
// to cost what its products do (common/network/stages.h), and a stage's node to be as fast as it did those of its own.
// So a stage on a slower machine gets fewer. So does one whose layers are slower than their products say; but such a
// layer is as slow elsewhere: of these `paceline schedule --measure` knows. Of several groups it is the mean that
// counts.
//
//   4 equal layers as [2, 2], 1 s and 3 s of computing: speeds 1 and 1/3, so [3, 1] takes 1.5 s at the slowest, a half
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/config/run_config.h"
#include "common/report/run_summary.h"

namespace paceline {

struct MeasuredCut {
  std::vector<double> speeds;       // of each stage: products a second, the fastest 1
  std::vector<std::size_t> layers;  // of each part: a stage, or a chunk of one
  double slowest = 1.0;             // the time of its slowest stage beside that of the run's
};

// `config`: validated; `ran`: as summary.json has it, of so many steps. None of fewer than 50, which a busy machine may
// have disturbed, and where the model is a loop's own (balance: loop), a stage's time or
// the run's cut is not known, that cut is none of this configuration's network and stages, no cut's slowest stage is
// faster by a twentieth, that cut needs more than pipeline.memory, or the speeds are further apart than nodes are.
std::optional<MeasuredCut> measured_cut(const RunConfig& config, const PipelineSummary& ran,
                                        std::int64_t steps);

}  // namespace paceline
