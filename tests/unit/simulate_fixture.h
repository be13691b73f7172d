// A simulated run made of a few lines of YAML: costs nothing, sends at once, unless a test says otherwise.
#pragma once

#include <catch2/catch.hpp>
#include <initializer_list>
#include <string>
#include <vector>

#include "common/config/load.h"
#include "simulate/run.h"

namespace paceline::test {

// A tiny model, computations of 100 ms, nothing else takes time.
inline const std::string kPlainRun = R"(
run: {seed: 7}
cluster: {nodes: 2, threads_per_node: 1}
train:
  model: layers
  layers: [{kind: flatten}, {kind: dense, out: 10}]
  batch_size: 32
  total_iterations: 20
simulate:
  compute: {distribution: constant, mean: 100ms}
  network: {latency: 0s}
  costs: {message: 0s, apply: 0, local_apply: 0, copy: 0}
)";
// Its parameters: 3072 x 10 weights and 10 biases.
constexpr std::int64_t kPlainFloats = 30'730;

inline RunConfig plain_config(const std::vector<std::string>& overrides) {
  Result<RunConfig> config = parse_config(kPlainRun, "plain", overrides);
  if (!config) FAIL(config.status().message());
  return std::move(config).value();
}

inline simulate::Outcome simulated(const std::vector<std::string>& overrides) {
  Result<simulate::SimulatedRun> run = simulate::simulate(plain_config(overrides));
  if (!run) FAIL(run.status().message());
  return std::move(run).value().outcome;
}

// Every instant of every worker belongs to a phase.
inline void check_accounted(const simulate::Outcome& outcome) {
  for (const WorkerPhases& worker : outcome.phases) {
    INFO("worker " << to_string(worker.worker));
    CHECK(unaccounted_ns(worker.totals) == 0);
  }
}

// Seconds in BARRIER of a worker, by its place.
inline double barrier(const simulate::Outcome& outcome, std::size_t worker) {
  return static_cast<double>(outcome.phases.at(worker).totals[Phase::kBarrier].total_ns) * 1e-9;
}

}  // namespace paceline::test
