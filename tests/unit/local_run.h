// A run without any other process, of tests: all training threads of one node, an engine and an optimizer.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/cache/own_updates.h"
#include "common/config/engine_config.h"
#include "common/params/rates.h"
#include "common/ticks.h"
#include "tests/unit/local_coordinator.h"
#include "worker/cache/host_vectors.h"
#include "worker/train/trainer.h"

namespace paceline::test {

// All threads of a run in this process.
struct LocalRun {
  const RunConfig& config;
  TaskFactory& tasks;
  ProcessCache cache;
  LocalExchange exchange;
  LocalCoordinator coordinator;
  SteadyPaceClock steady;
  PaceClock* pace = &steady;               // what rounds and emulated steps are timed by
  std::vector<std::string> reported = {};  // of rounds that end by time
  std::optional<TimedRounds> timed = {};   // where they do

  LocalRun(const RunConfig& run, TaskFactory& factory)
      : config(run),
        tasks(factory),
        cache({Range{0, factory.layout().size()}}),
        exchange(run, factory.layout(), initial(factory), cache, steady_now),
        coordinator(run, exchange, steady_now) {
    if (!run.train.local_time) return;
    timed.emplace(*run.train.local_time, "my.yaml:12", run.cluster.cluster().workers(),
                  Log::to([this](LogLevel, const std::string& line) { reported.push_back(line); }));
  }

  static std::vector<float> initial(const TaskFactory& factory) {
    std::vector<float> values(static_cast<std::size_t>(factory.layout().size()));
    factory.initialize(values);
    return values;
  }

  Result<WorkDone> train(std::uint32_t thread) {
    const WorkerId worker(NodeId(0), thread);
    PACELINE_ASSIGN_OR_RETURN(auto task, tasks.make_trainer(worker));
    const bool keeps = cache::keeps_own_updates(sync::largest_threshold(engine_config(config).policy));
    WorkerContext training{
        .worker = worker,
        .layout = tasks.layout(),
        .checks_finite = false,
        .batches = batch_limits(config),
        .deadline = std::chrono::seconds(20),
        .coordinator = coordinator,
        .exchange = exchange,
        .process_cache = cache,
        .task = *task,
        .pace = *pace,
        .step = step::WorkerStep(
            {config.sync.refresh_clocks, false, keeps, config.train.mini_batch_of_local_steps()}),
        .cache = ThreadCache(config.train.optimizer, cache.ranges(), thread,
                             std::make_unique<HostVectors>(config.train.optimizer, tasks.layout())),
        .gradients = GradientBuffers(tasks.layout().size()),
        .emulator = Emulator(config.emulate, config.run.seed, config.cluster.cluster(), worker,
                             config.train.batch_size),
        .local = local_steps(),
        .phases = PhaseRecorder(steady_now),
        .clock = steady_now};
    auto report = run_trainer(training);
    if (!report.is_ok()) coordinator.close(report.status());
    return report;
  }

  std::optional<WorkerContext::Local> local_steps() {
    if (!config.train.has_inner_optimizer) return std::nullopt;
    return WorkerContext::Local{LocalSteps(config.train.inner_optimizer, tasks.layout()),
                                config.train.local_steps,
                                config.train.batch_size,
                                [this](std::int64_t iteration) { return inner_rate(config, iteration); },
                                nullptr,
                                timed ? &*timed : nullptr};
  }

  // To its end; how many iterations were done.
  std::int64_t run() {
    std::atomic<std::int64_t> iterations = 0;
    std::vector<std::thread> threads;
    for (std::uint32_t t = 0; t < config.cluster.threads_per_node; ++t) {
      threads.emplace_back([this, t, &iterations] {
        const auto report = train(t);
        if (report.is_ok()) iterations += report->iterations;
      });
    }
    for (std::thread& thread : threads) thread.join();
    return iterations;
  }
};

}  // namespace paceline::test
