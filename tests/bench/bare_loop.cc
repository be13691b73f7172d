// The training loop without a server: loader, gradient, optimizer, one thread, the parameters its own. The
// parts are the daemons' own (worker/network_task.h, common/params/optimizer.h), so that
// tests/bench/through_server.py, which sets the two side by side, measures what the server and the way to it
// add and nothing else. Under BSP one worker computes with exactly the versions this loop passes through, so
// the last parameters must agree bit for bit: they are written as raw float32 for the script to compare.
//
//   bench_bare_loop CONFIG PARAMETERS_OUT      train.total_iterations steps of the run that CONFIG describes
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "common/config/load.h"
#include "common/params/optimizer.h"
#include "common/ticks.h"
#include "worker/network_task.h"

namespace paceline {
namespace {

Status write_floats(const std::string& path, const std::vector<float>& values) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size() * sizeof(float)));
  file.close();
  return file ? Status::ok() : unavailable("cannot write " + path);
}

Status run(const std::string& config_path, const std::string& parameters_path) {
  PACELINE_ASSIGN_OR_RETURN(const RunConfig config, load_config(config_path, {}));
  PACELINE_ASSIGN_OR_RETURN(const auto tasks, make_network_tasks(config));
  const WorkerId worker(NodeId(0), 0);
  PACELINE_ASSIGN_OR_RETURN(const auto task, tasks->make_trainer(worker));
  std::vector<float> parameters(static_cast<std::size_t>(tasks->layout().size()));
  std::vector<float> gradient(parameters.size());
  tasks->initialize(parameters);
  OptimizerState optimizer(config.train.optimizer, tasks->layout().size());

  std::vector<double> step_ms;
  const Ticks begin = steady_now();
  for (std::int64_t iteration = 0; iteration < config.train.total_iterations; ++iteration) {
    const Ticks step_begin = steady_now();
    Step step;
    step.worker = worker;
    step.iteration = iteration;
    step.batch = {iteration * config.train.batch_size, config.train.batch_size};
    PACELINE_RETURN_IF_ERROR(task->load(step));
    PACELINE_ASSIGN_OR_RETURN([[maybe_unused]] const Metric metric,
                              task->compute(parameters, gradient, whole_at_the_end));
    optimizer.apply(parameters, gradient, config.train.optimizer.lr);
    step_ms.push_back(to_seconds(steady_now() - step_begin) * 1e3);
  }
  const double seconds = to_seconds(steady_now() - begin);

  std::nth_element(step_ms.begin(), step_ms.begin() + step_ms.size() / 2, step_ms.end());
  std::printf("{\"iterations\": %lld, \"wall_seconds\": %.6f, \"p50_ms\": %.3f}\n",
              static_cast<long long>(config.train.total_iterations), seconds, step_ms[step_ms.size() / 2]);
  return write_floats(parameters_path, parameters);
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: bench_bare_loop CONFIG PARAMETERS_OUT\n");
    return 2;
  }
  const paceline::Status status = paceline::run(argv[1], argv[2]);
  if (!status.is_ok()) return std::fprintf(stderr, "bench_bare_loop: %s\n", status.message().c_str()), 1;
  return 0;
}
