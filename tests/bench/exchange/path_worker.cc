// bench_path_worker FLOATS WARM_UP_STEPS CONFIG --node I [key.path=value …]: a paceline-worker whose steps
// compute nothing, against an ordinary paceline-server. Prints {"seconds_per_step": …} at the end.
#include <charconv>
#include <cstring>
#include <iostream>
#include <memory>
#include <optional>

#include "common/config/command_line.h"
#include "common/config/daemon_options.h"
#include "common/wire/memory.h"
#include "common/wire/transport.h"
#include "tests/bench/exchange/no_compute_task.h"
#include "worker/node.h"

namespace {

std::optional<std::int64_t> number(const char* text) {
  std::int64_t value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc() || stop != end || value < 1) return std::nullopt;
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace paceline;
  wire::keep_freed_memory();
  const auto floats = argc > 2 ? number(argv[1]) : std::nullopt;
  const auto warm_up = argc > 2 ? number(argv[2]) : std::nullopt;
  if (!floats || !warm_up) {
    std::cerr << "usage: bench_path_worker FLOATS WARM_UP_STEPS CONFIG --node I [key.path=value ...]\n";
    return kExitUsage;
  }
  const DaemonCommandLine command_line =
      parse_daemon_command_line(DaemonRole::kWorker, argc - 2, argv + 2, std::cout, std::cerr);
  if (command_line.exit_status) return *command_line.exit_status;
  const auto config = load_daemon_config(DaemonRole::kWorker, command_line.options);
  if (!config.is_ok()) {
    std::cerr << config.status().message() << '\n';
    return kExitUsage;
  }
  if (!config->cluster.huge_pages) wire::do_without_huge_pages();

  bench::StepTimes times(*warm_up);
  wire::Context context;
  Node node(*config, NodeId(command_line.options.index), context,
            std::make_unique<bench::NoComputeTasks>(*floats, times));
  const Status ended = node.run();
  if (!ended.is_ok()) {
    std::cerr << ended.message() << '\n';
    return kExitFailedRun;
  }
  std::cout << "{\"seconds_per_step\": " << times.seconds_per_step() << "}\n";
  return kExitOk;
}
