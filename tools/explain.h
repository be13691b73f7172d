// `paceline explain RUN [--worker 1.2 --clock 118 | --cause network] [--format table|json]`: why workers of a
// traced run waited (explain_waits.h). Of one iteration: how long, for whom, under which threshold, with
// which LPR; else what each cause cost, and its ten costliest waits. `paceline trace RUN`: puts the parts of
// a run's trace together again, when its nodes' were brought from other machines.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace paceline {

struct ExplainOptions {
  std::string run = {};                    // run directory
  std::optional<std::string> worker = {};  // "1.2"
  std::optional<std::int64_t> clock = {};  // with worker
  std::optional<std::string> cause = {};   // that one alone, without worker and clock
  std::string format = "table";            // table | json
};

// To `out`, and 0; or one line to `err`, 2, and nothing to `out`: no trace or a damaged one, a worker or an
// iteration that is not in it, options that make no sense.
int explain(const ExplainOptions& options, std::ostream& out, std::ostream& err);
// One line on `out` and 0; or one line to `err`, 2.
int merge_trace(const std::string& run, std::ostream& out, std::ostream& err);

// The subcommands; the one that is called stores its exit status in `exit_status`, which outlives `app`.
void add_explain(CLI::App& app, int& exit_status);
void add_trace(CLI::App& app, int& exit_status);

}  // namespace paceline
