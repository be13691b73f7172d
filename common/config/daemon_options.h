// The command lines of the two daemons:
//
//     paceline-server CONFIG [--shard K] [--replica R] [--ended-programs FD] [--force | --resume | --resume-or-start]
//                     [key.path=value …]
//     paceline-worker CONFIG --node I [--force | --resume | --resume-or-start] [key.path=value …]
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "common/config/command_line.h"
#include "common/config/run_config.h"
#include "common/status.h"

namespace paceline {

enum class DaemonRole { kServer, kWorker };

struct DaemonOptions {
  std::string config_path;
  std::vector<std::string> overrides;      // "key.path=value", checked by load_config
  std::uint32_t index = 0;                 // server: --shard, 0 when not given; worker: --node
  Force force = Force::kNo;                // use a run directory that already holds a run
  bool resume = false;                     // go on with the run that the run directory holds
  bool or_start = false;                   // --resume-or-start: that, or begin one where there is none
  std::uint32_t replica = 0;               // server: which of the shard's
  std::optional<int> ended_programs = {};  // server: a descriptor (server/run/ended_programs.h)
};

struct DaemonCommandLine {
  // Set: exit with this, everything has been said (help and version on `out`, one line of usage error on
  // `err`).
  std::optional<int> exit_status;
  DaemonOptions options;
};

// `program`: what --help and usage errors call it, "paceline-server" or "paceline-worker" when empty.
DaemonCommandLine parse_daemon_command_line(DaemonRole role, int argc, const char* const* argv,
                                            std::ostream& out, std::ostream& err,
                                            const std::string& program = "");

// load_config plus what only a daemon needs: a run directory (run.out; run.out.replica1 for a second
// replica's own files), and an index that the cluster has. Errors: as load_config, one line each; the daemon
// prints it and exits with kExitUsage.
Result<RunConfig> load_daemon_config(DaemonRole role, const DaemonOptions& options,
                                     std::vector<std::string>* notes = nullptr);

// The same of a configuration that is loaded already; `options.config_path` is what errors call it.
Result<RunConfig> check_daemon_config(DaemonRole role, const DaemonOptions& options, RunConfig config);

}  // namespace paceline
