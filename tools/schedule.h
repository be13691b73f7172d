// `paceline schedule CONFIG [key.path=value …]`: the plan of a run's all-reduce or pipeline as text, checked. Of an
// all-reduce: who sends which floats of each bucket to whom, in which order, and what it costs in steps and bytes. Of
// a pipeline: the cut with what each stage takes, which micro-batch each computes when, the bubble, and who sums.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "tools/schedule_pipeline.h"
#include "tools/schedule_table.h"

namespace CLI {
class App;
}

namespace paceline {

struct ScheduleOptions {
  std::string path = {};
  std::vector<std::string> overrides = {};
  PipelineCut cut = {};
  ScheduleTable table = {};                  // printed instead of the plan where it has ranks
  std::vector<std::string> algorithms = {};  // of the table, by name; empty: all
};

// The plan to `out` and 0; or the error's one line to `err` and 2, also for a configuration without either.
int schedule_plan(const ScheduleOptions& options, std::ostream& out, std::ostream& err);

// The subcommand; when it is the one called, it stores its exit status in `exit_status`, which outlives
// `app`.
void add_schedule(CLI::App& app, int& exit_status);

}  // namespace paceline
