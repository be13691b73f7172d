// The training loop without a server: loader, gradient, optimizer, one thread, the parameters its own. The
// parts are the daemons' own (worker/network_task.h, common/params/optimizer.h), so that
// tests/bench/through_server.py, which sets the two side by side, measures what the server and the way to it
// add and nothing else. Under BSP one worker computes with exactly the versions this loop passes through, so
// the last parameters must agree bit for bit: they are written as raw float32 for the script to compare,
// unless they are on a GPU.
// Says the loss of each step, too: tests/bench/loss_beside_cpu.py sets a GPU's beside the CPU's.
//
//   bench_bare_loop [--handed-over] CONFIG PARAMETERS_OUT [key.path=value ...]
//       train.total_iterations steps of the run that CONFIG describes
//
// --handed-over, on the CPU: what of a server's cost is the machine's own, about. After the loop's own step,
// as a worker's under SSP, each gradient is read by a second thread, which makes the same step with it on
// parameters and a state of its own, and each step begins with a copy of these parameters
// (sync.refresh_clocks: null: the own ones are kept). No message, no process, no check: two threads, two
// gradients in turn, a lock.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <memory_resource>
#include <string>
#include <utility>
#include <vector>

#include "common/config/load.h"
#include "common/params/optimizer.h"
#include "common/ticks.h"
#include "common/wire/memory.h"
#include "tests/bench/handed_over.h"
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

// The parameters, where the task computes with them, and the optimizer there.
class Loop {
 public:
  // reconfigures: to a second thread; on the host alone.
  static Result<Loop> make(TaskFactory& tasks, Task& task, const OptimizerSection& optimizer,
                           std::shared_ptr<std::vector<float>> initial, bool reconfigures) {
    const auto floats = static_cast<std::int64_t>(initial->size());
    PACELINE_ASSIGN_OR_RETURN(auto vectors, task.make_cache_vectors(optimizer, floats));
    if (vectors != nullptr) vectors->take_over(0, initial, {});
    if (vectors != nullptr && reconfigures) {
      return failed_precondition(
          "--handed-over: the parameters are not on the host, expected train.device: cpu");
    }
    return Loop(std::move(vectors), tasks.gradient_memory(nullptr), optimizer, std::move(initial),
                reconfigures);
  }

  bool on_host() const { return vectors_ == nullptr; }
  const std::vector<float>& parameters() const { return *parameters_; }

  // refreshes: with the parameters that the other thread has made of all gradients before.
  Result<Metric> step(Task& task, double rate, bool refreshes) {
    if (refreshes) handed_over_->copy_to(*parameters_);
    const std::span<const float> from =
        on_host() ? std::span<const float>(*parameters_) : std::span<const float>();
    PACELINE_ASSIGN_OR_RETURN(const Metric metric, task.compute(from, *gradient_, whole_at_the_end));
    if (on_host()) {
      optimizer_.apply(*parameters_, *gradient_, rate);
      if (handed_over_ != nullptr) {
        handed_over_->hand_over(*gradient_, rate);
        std::swap(gradient_, other_gradient_);
      }
      return metric;
    }
    if (sgd_) {
      vectors_->keep_gradient(gradient_, rate);
      vectors_->apply_newest({0, static_cast<std::int64_t>(parameters_->size())});
    } else {
      vectors_->apply_with_state(gradient_, rate, 1.0);
    }
    vectors_->drop_oldest();
    PACELINE_RETURN_IF_ERROR(vectors_->status());
    return metric;
  }

  // What was handed over is applied.
  void finish() {
    if (handed_over_ != nullptr) handed_over_->wait_until_applied();
  }

 private:
  using Gradient = std::pmr::vector<float>;

  Loop(std::unique_ptr<CacheVectors> vectors, std::shared_ptr<std::pmr::memory_resource> memory,
       const OptimizerSection& optimizer, std::shared_ptr<std::vector<float>> parameters, bool reconfigures)
      : vectors_(std::move(vectors)),
        memory_(std::move(memory)),
        parameters_(std::move(parameters)),
        gradient_(std::make_shared<Gradient>(
            parameters_->size(), memory_ != nullptr ? memory_.get() : std::pmr::new_delete_resource())),
        other_gradient_(reconfigures ? std::make_shared<Gradient>(parameters_->size()) : nullptr),
        sgd_(optimizer.kind == OptimizerKind::kSgd),
        optimizer_(optimizer, static_cast<std::int64_t>(parameters_->size())),
        handed_over_(reconfigures ? std::make_unique<ReconfiguredRun>(optimizer, *parameters_) : nullptr) {}

  std::unique_ptr<CacheVectors> vectors_;  // null: on the host
  std::shared_ptr<std::pmr::memory_resource> memory_;
  std::shared_ptr<std::vector<float>> parameters_;
  std::shared_ptr<Gradient> gradient_;
  std::shared_ptr<Gradient> other_gradient_;  // is being read
  bool sgd_;
  OptimizerState optimizer_;
  std::unique_ptr<ReconfiguredRun> handed_over_;  // last: it may still read a gradient
};

Status run(const std::string& config_path, const std::string& parameters_path,
           const std::vector<std::string>& overrides, bool reconfigures) {
  PACELINE_ASSIGN_OR_RETURN(const RunConfig config, load_config(config_path, overrides));
  if (!config.cluster.huge_pages) wire::do_without_huge_pages();
  PACELINE_ASSIGN_OR_RETURN(const auto tasks, make_network_tasks(config));
  const WorkerId worker(NodeId(0), 0);
  PACELINE_ASSIGN_OR_RETURN(const auto task, tasks->make_trainer(worker));
  auto initial = std::make_shared<std::vector<float>>(static_cast<std::size_t>(tasks->layout().size()));
  tasks->initialize(*initial);
  PACELINE_ASSIGN_OR_RETURN(
      Loop loop, Loop::make(*tasks, *task, config.train.optimizer, std::move(initial), reconfigures));

  std::vector<double> step_ms;
  std::string losses;
  const Ticks begin = steady_now();
  for (std::int64_t iteration = 0; iteration < config.train.total_iterations; ++iteration) {
    const Ticks step_begin = steady_now();
    Step step;
    step.worker = worker;
    step.iteration = iteration;
    step.batch = {iteration * config.train.batch_size, config.train.batch_size};
    PACELINE_RETURN_IF_ERROR(task->load(step));
    const bool refreshes = reconfigures && config.sync.refresh_clocks.has_value();
    PACELINE_ASSIGN_OR_RETURN(const Metric metric, loop.step(*task, config.train.optimizer.lr, refreshes));
    step_ms.push_back(to_seconds(steady_now() - step_begin) * 1e3);
    losses +=
        (losses.empty() ? "" : ", ") + std::to_string(metric.loss_sum / static_cast<double>(metric.samples));
  }
  loop.finish();
  const double seconds = to_seconds(steady_now() - begin);

  std::nth_element(step_ms.begin(), step_ms.begin() + step_ms.size() / 2, step_ms.end());
  std::printf("{\"iterations\": %lld, \"wall_seconds\": %.6f, \"p50_ms\": %.3f, \"losses\": [%s]}\n",
              static_cast<long long>(config.train.total_iterations), seconds, step_ms[step_ms.size() / 2],
              losses.c_str());
  return loop.on_host() ? write_floats(parameters_path, loop.parameters()) : Status::ok();
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const bool reconfigures = !words.empty() && words[0] == "--handed-over";
  if (reconfigures) words.erase(words.begin());
  if (words.size() < 2) {
    std::fprintf(stderr,
                 "usage: bench_bare_loop [--handed-over] CONFIG PARAMETERS_OUT [key.path=value ...]\n");
    return 2;
  }
  const paceline::Status status =
      paceline::run(words[0], words[1], {words.begin() + 2, words.end()}, reconfigures);
  if (!status.is_ok()) return std::fprintf(stderr, "bench_bare_loop: %s\n", status.message().c_str()), 1;
  return 0;
}
