// paceline-example-own-task CONFIG --node I [key.path=value …]: a worker that trains
// examples/own_task/linear_task.h instead of a network. The server is paceline-server, as for any run:
//
//   paceline-server examples/own_task/linear.yaml &
//   paceline-example-own-task examples/own_task/linear.yaml --node 0
#include <iostream>
#include <memory>
#include <string>

#include "common/config/command_line.h"
#include "common/config/daemon_options.h"
#include "common/log/log.h"
#include "common/process/begin.h"
#include "common/process/descriptors.h"
#include "common/process/line_writer.h"
#include "common/wire/memory.h"
#include "common/wire/transport.h"
#include "examples/own_task/linear_task.h"
#include "worker/descriptors_needed.h"
#include "worker/node.h"
#include "worker/node_log.h"
#include "worker/signals.h"

namespace {

const std::string kProgram = "paceline-example-own-task";

}  // namespace

int main(int argc, char** argv) {
  using namespace paceline;
  begin_program();
  const BlockedSignals signals;
  StandardError errors(kProgram);
  const auto fail = [&](const Status& status, int exit_status) {
    errors.stream() << kProgram << ": " << status.message() << '\n';
    return exit_status;
  };

  const DaemonCommandLine command_line =
      parse_daemon_command_line(DaemonRole::kWorker, argc, argv, std::cout, errors.stream(), kProgram);
  if (command_line.exit_status) return *command_line.exit_status;
  const auto config = load_daemon_config(DaemonRole::kWorker, command_line.options);
  if (!config.is_ok()) return fail(config.status(), kExitUsage);
  if (!config->cluster.huge_pages) wire::do_without_huge_pages();
  const NodeId node(command_line.options.index);
  const Status fits = check_descriptors(descriptors_needed_by_node(config->cluster),
                                        "a node of " + std::to_string(config->cluster.shards) + " servers");
  if (!fits.is_ok()) return fail(fits, kExitUsage);
  const auto prepared = prepare_node_log(*config, node, existing_log(command_line.options));
  if (!prepared.is_ok()) {
    const bool refused = prepared.status().code() == StatusCode::kFailedPrecondition;
    return fail(prepared.status(), refused ? kExitUsage : kExitFailedRun);
  }
  const auto log = Log::open(prepared->file, kProgram + " " + to_string(node), config->run.log_level,
                             Log::Begin::kAppend, errors.writer());
  if (!log.is_ok()) return fail(log.status(), kExitFailedRun);
  if (!prepared->warning.empty()) log->warn(prepared->warning);

  wire::Context context;
  Node worker(*config, node, context, std::make_unique<example::LinearTasks>(config->run.seed), *log);
  const SignalThread stop(signals, [&](int) { worker.request_stop("stopped by a signal"); });

  const Status ended = worker.run();
  if (!ended.is_ok()) log->error(ended.message());
  return ended.is_ok() ? kExitOk : kExitFailedRun;
}
