// `paceline schedule CONFIG [key.path=value …]`: the plan of a run's all-reduce as text, checked: who sends which
// floats of each bucket to whom, in which order, and what it costs in steps and bytes.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace paceline {

struct ScheduleOptions {
  std::string path = {};
  std::vector<std::string> overrides = {};
};

// The plan to `out` and 0; or the error's one line to `err` and 2, also for a configuration without an all-reduce.
int schedule_plan(const ScheduleOptions& options, std::ostream& out, std::ostream& err);

// The subcommand; when it is the one called, it stores its exit status in `exit_status`, which outlives
// `app`.
void add_schedule(CLI::App& app, int& exit_status);

}  // namespace paceline
