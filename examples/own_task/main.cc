// paceline-example-own-task CONFIG --node I [key.path=value …]: a worker that trains
// examples/own_task/linear_task.h instead of a network. The server is paceline-server, as for any run:
//
//   paceline-server examples/own_task/linear.yaml & paceline-example-own-task examples/own_task/linear.yaml
//   --node 0
#include <iostream>
#include <memory>

#include "common/config/command_line.h"
#include "common/config/daemon_options.h"
#include "common/wire/transport.h"
#include "examples/own_task/linear_task.h"
#include "worker/node.h"
#include "worker/signals.h"

int main(int argc, char** argv) {
  using namespace paceline;
  const BlockedSignals signals;

  const DaemonCommandLine command_line =
      parse_daemon_command_line(DaemonRole::kWorker, argc, argv, std::cout, std::cerr);
  if (command_line.exit_status) return *command_line.exit_status;
  const auto config = load_daemon_config(DaemonRole::kWorker, command_line.options);
  if (!config.is_ok()) {
    std::cerr << config.status().message() << '\n';
    return kExitUsage;
  }

  wire::Context context;
  Node node(*config, NodeId(command_line.options.index), context,
            std::make_unique<example::LinearTasks>(config->run.seed, config->train.batch_size));
  const SignalThread stop(signals, [&](int) { node.request_stop("stopped by a signal"); });

  const Status ended = node.run();
  if (!ended.is_ok()) std::cerr << ended.message() << '\n';
  return ended.is_ok() ? kExitOk : kExitFailedRun;
}
