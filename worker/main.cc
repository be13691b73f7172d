// paceline-worker: the daemon of one node. A list of its parts.
#include <csignal>
#include <iostream>
#include <string>
#include <utility>

#include "common/config/command_line.h"
#include "common/config/daemon_options.h"
#include "common/config/load.h"
#include "common/log/log.h"
#include "common/network/stages.h"
#include "common/process/begin.h"
#include "common/process/descriptors.h"
#include "common/process/line_writer.h"
#include "common/wire/memory.h"
#include "common/wire/transport.h"
#include "worker/descriptors_needed.h"
#include "worker/network_task.h"
#include "worker/node.h"
#include "worker/node_log.h"
#include "worker/signals.h"

namespace paceline {
namespace {

int worker_main(int argc, char** argv) {
  begin_program();
  wire::keep_freed_memory();
  const BlockedSignals signals;  // before any thread starts: they all inherit it
  StandardError errors("paceline-worker");
  const auto fail = [&](const Status& status, int exit_status,
                        const std::string& program = "paceline-worker") {
    errors.stream() << program << ": " << status.message() << '\n';
    return exit_status;
  };

  const DaemonCommandLine command_line =
      parse_daemon_command_line(DaemonRole::kWorker, argc, argv, std::cout, errors.stream());
  if (command_line.exit_status) return *command_line.exit_status;
  const auto config = load_daemon_config(DaemonRole::kWorker, command_line.options);
  if (!config.is_ok()) return fail(config.status(), kExitUsage);
  if (cut_by_loop(config->pipeline.balance)) {  // only a process with a loop of one's own may have it
    const DaemonOptions& of = command_line.options;
    return fail(invalid_argument(source_of(of.config_path, of.overrides, "pipeline.balance") +
                                 ": pipeline.balance: a loop's own model is not known here, got loop, "
                                 "expected time, memory or a list"),
                kExitUsage);
  }
  if (!config->cluster.huge_pages) wire::do_without_huge_pages();
  const NodeId node(command_line.options.index);
  const Status fits = check_descriptors(descriptors_needed_by_node(*config),
                                        "a node of " + std::to_string(config->cluster.shards) + " servers");
  if (!fits.is_ok()) return fail(fits, kExitUsage);

  if (const std::string& keys = config->security.keys; !keys.empty()) {
    const auto own = wire::read_node_keys(keys, node.value);
    if (!own.is_ok()) return fail(own.status(), kExitUsage, "paceline-worker " + to_string(node));
  }
  auto tasks = make_network_tasks(*config);
  if (!tasks.is_ok()) {
    // The configuration is not to blame for a machine without a GPU, or without bfloat16.
    const bool lacks_it = tasks.status().code() == StatusCode::kUnavailable;
    return fail(tasks.status(), lacks_it ? kExitFailedRun : kExitUsage, "paceline-worker " + to_string(node));
  }
  const auto prepared = prepare_node_log(*config, node, existing_log(command_line.options));
  if (!prepared.is_ok()) {
    const bool refused = prepared.status().code() == StatusCode::kFailedPrecondition;
    return fail(prepared.status(), refused ? kExitUsage : kExitFailedRun);
  }
  const auto log = Log::open(prepared->file, "paceline-worker " + to_string(node), config->run.log_level,
                             Log::Begin::kAppend, errors.writer());
  if (!log.is_ok()) return fail(log.status(), kExitFailedRun);
  if (!prepared->warning.empty()) log->warn(prepared->warning);

  wire::Context context;
  const DaemonOptions& given = command_line.options;
  NodeOptions options;
  if (config->train.local_time) {
    options.local_time_source = source_of(given.config_path, given.overrides, "train.local_time");
  }
  Node worker(*config, node, context, std::move(tasks).value(), *log, std::move(options));
  const SignalThread stop(signals, [&](int) { worker.request_stop("stopped by a signal"); });

  const Status ended = worker.run();
  if (ended.code() == StatusCode::kAborted) {
    log->warn(ended.message());
  } else if (!ended.is_ok()) {
    log->error(ended.message());
  }
  if (!worker.has_trained()) forget_node_log(*prepared, existing_log(command_line.options));
  return ended.is_ok() ? kExitOk : kExitFailedRun;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::worker_main(argc, argv); }
