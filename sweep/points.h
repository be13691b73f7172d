// The points of a grid as configurations: all of them looked at before the first is run, so that an
// impossible one is refused by name and nothing has begun.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/config/run_config.h"
#include "common/status.h"
#include "simulate/trace.h"
#include "sweep/grid.h"

namespace paceline::sweep {

// What is swept: a configuration, a grid over it, and the real run that computations are drawn from, if any.
class Points {
 public:
  // Reads the file at `config_path` once and checks every point: that it loads, that it can be simulated, in
  // training mode that its data are there (each data.path is read once), and that it is no other point under
  // another name (1 and 01, 1ms and 1000us).
  // Errors: those of load_config(), simulate/plan.h, simulate/trace.h and check_data() of
  // worker/network_task.h; a point's has the point in front.
  static Result<Points> read(const std::string& config_path, Grid grid,
                             const std::optional<std::filesystem::path>& trace);

  const Grid& grid() const { return grid_; }
  std::size_t size() const { return hashes_.size(); }
  const std::optional<std::filesystem::path>& trace() const { return trace_; }

  // The configuration of a point, before the trace says better.
  RunConfig config(std::size_t point) const;
  // Whether `run`, the config.yaml of a simulated run, is what this point assumes; where it was written to
  // does not count.
  bool is_config_of(std::size_t point, const RunConfig& run) const;
  // Over all points and what the files hold that they read: another configuration, another trace, another
  // curve of simulate.metric, in training mode other data, another number. Names of run directories do not
  // count.
  std::uint64_t fingerprint() const { return fingerprint_; }

 private:
  // Of what points read: each file and data set once, a data set by its path and a slash after it.
  struct Files {
    std::optional<simulate::TracedRun> traced;
    std::map<std::string, std::uint64_t> contents;
  };
  Status check(std::size_t point, Files& files);
  Status check_distinct() const;

  std::string text_, config_path_;
  Grid grid_;
  std::optional<std::filesystem::path> trace_;
  std::vector<std::uint64_t> hashes_;  // of what each point assumes
  std::uint64_t fingerprint_ = 0;
};

}  // namespace paceline::sweep
