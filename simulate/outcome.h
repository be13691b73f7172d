// Outcome: what a simulated run leaves behind, as the files of a run directory say it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/params/model_file.h"
#include "common/report/curve.h"
#include "common/report/phases_csv.h"
#include "common/report/progress.h"
#include "common/report/run_summary.h"
#include "common/report/staleness.h"
#include "common/trace/trace.h"

namespace paceline::simulate {

struct Outcome {
  RunSummary summary;
  std::vector<CurveRow> curve;
  std::vector<WorkerPhases> phases;  // of the nodes that reported, in worker order
  std::vector<WorkerStaleness> staleness;
  std::vector<ProgressRow> progress;
  std::optional<ModelFile> model;        // training mode
  std::int64_t events = 0;               // taken from the queue
  std::optional<trace::Trace> recorded;  // run.trace
};

}  // namespace paceline::simulate
