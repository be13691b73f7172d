// `paceline top ENDPOINT`: how a run goes that has an HTTP endpoint (run.http), as a table that is refreshed
// each second, until the run is over. Once, where standard output is no terminal or with --once.
#pragma once

#include <cstddef>
#include <functional>
#include <iosfwd>
#include <string>

namespace CLI {
class App;
}

namespace paceline {

struct TopOptions {
  std::string endpoint = {};  // "host:port", also with "http://" before it and a path after
  bool once = false;
};

// Where the table is shown.
struct Screen {
  bool is_terminal = false;
  std::size_t columns = 80;
  std::size_t rows = 24;
};

// The table to `out` and 0, once or until the run is over; or, where nobody answers or what answers is no
// run, one line to `err` and 1; 2 where `endpoint` is no address. `screen` is asked each time.
int top(const TopOptions& options, const std::function<Screen()>& screen, std::ostream& out,
        std::ostream& err);

// The subcommand; when it is the one called, it stores its exit status in `exit_status`, which outlives
// `app`.
void add_top(CLI::App& app, int& exit_status);

}  // namespace paceline
