#include "common/config/daemon_options.h"

#include <CLI/CLI.hpp>

#include "common/config/load.h"

namespace paceline {

DaemonCommandLine parse_daemon_command_line(DaemonRole role, int argc, const char* const* argv,
                                            std::ostream& out, std::ostream& err,
                                            const std::string& program) {
  const bool server = role == DaemonRole::kServer;
  DaemonCommandLine line;
  DaemonOptions& options = line.options;
  CLI::App app(server ? "Holds the parameters (one shard of them); shard 0 also decides who may go on."
                      : "Trains: one node with cluster.threads_per_node workers.",
               !program.empty() ? program
               : server         ? "paceline-server"
                                : "paceline-worker");
  app.add_option("CONFIG", options.config_path, "The run's YAML file; every daemon gets the same")
      ->required();
  if (server) {
    app.add_option("--shard", options.index, "Which shard this server is, from 0 (default 0)");
    app.add_option("--replica", options.replica, "Which replica of the shard, from 0 (default 0)");
    app.add_option(
        "--ended-programs", options.ended_programs,
        "A descriptor on which whoever starts the nodes says which of their programs has ended, and how, as "
        "lines \"1 status 1\": training that has not begun does not wait for them");
  } else {
    app.add_option("--node", options.index, "Which node this worker is, from 0")->required();
  }
  CLI::Option* const force = add_force(
      app, options.force, "Use run.out even when it already holds a run; given twice, one that ended well");
  CLI::Option* const resume =
      app.add_flag("--resume", options.resume,
                   server ? "Go on with the run in run.out, from its newest whole checkpoint; with "
                            "cluster.replicas: come back to the replica that serves"
                          : "Go on with the run in run.out, whose servers were started with --resume")
          ->excludes(force);
  app.add_flag(
         "--resume-or-start", options.or_start,
         server
             ? "Go on with the run in run.out where it holds a checkpoint, else begin it. Exit status "
               "3: its checkpoints are damaged, or it left a model alone; 4: it has ended well; 5: another "
               "configuration"
             : "Go on with this node's log where there is one, else begin it")
      ->excludes(force)
      ->excludes(resume);
  app.add_option("SETTING", options.overrides,
                 "key.path=value: overrides of the file, as in sync.threshold=5");
  line.exit_status = parse_command_line(app, argc, argv, out, err);
  return line;
}

Result<RunConfig> load_daemon_config(DaemonRole role, const DaemonOptions& options,
                                     std::vector<std::string>* notes) {
  PACELINE_ASSIGN_OR_RETURN(RunConfig config,
                            load_config(options.config_path, options.overrides, LoadFor::kDaemons, notes));
  return check_daemon_config(role, options, std::move(config));
}

Result<RunConfig> check_daemon_config(DaemonRole role, const DaemonOptions& options, RunConfig config) {
  if (config.run.out.empty()) {
    return invalid_argument(options.config_path +
                            ": run.out: no run directory, got none, expected a path (run.out=DIR)");
  }
  const bool server = role == DaemonRole::kServer;
  const std::uint32_t count = server ? config.cluster.shards : config.cluster.nodes;
  if (options.index >= count) {
    return invalid_argument(std::string("command line: ") + (server ? "--shard" : "--node") + ": no such " +
                            (server ? "shard" : "node") + ", got " + std::to_string(options.index) +
                            ", expected 0 to " + std::to_string(count - 1) +
                            (server ? " (cluster.shards)" : " (cluster.nodes)"));
  }
  if (options.replica >= config.cluster.replicas) {
    return invalid_argument("command line: --replica: no such replica, got " +
                            std::to_string(options.replica) + ", expected 0 to " +
                            std::to_string(config.cluster.replicas - 1) + " (cluster.replicas)");
  }
  if (options.ended_programs && (config.cluster.replicas > 1 || options.index != 0)) {
    return invalid_argument("command line: --ended-programs: got it for shard " +
                            std::to_string(options.index) + " of " + std::to_string(config.cluster.replicas) +
                            " replica(s), expected shard 0, and cluster.replicas 1");
  }
  if (options.or_start && config.cluster.replicas > 1) {
    return invalid_argument(
        "command line: --resume-or-start: with cluster.replicas a server is told which of both, got neither "
        "--resume nor its absence");
  }
  if (options.replica > 0) config.run.out += ".replica" + std::to_string(options.replica);
  return config;
}

}  // namespace paceline
