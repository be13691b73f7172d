// What measuring costs: the calls that one training step makes of the phase recorder
// (worker/train/train_step.cc), in their order, timed in many short batches, without and with a trace
// (run.trace). The relation to a step is printed and held to 1 %. The fastest batch counts for the limit and
// the median is printed beside it: on a busy machine the one is what the recorder costs, the other also what
// else went on.
//
//   bench_recorder_cost STEP_MS      e.g. bench_recorder_cost 35: the shortest step that is to be measured
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "common/ticks.h"
#include "common/timing/recorder.h"

namespace paceline {
namespace {

constexpr double kLimit = 0.01;
constexpr int kBatches = 200;
constexpr int kStepsPerBatch = 500;

// One step's calls, every optional one included: a local apply and parameters fetched ahead of time.
void record_step(PhaseRecorder& recorder) {
  const ExchangeTimes exchange{std::chrono::microseconds(3), std::chrono::microseconds(2),
                               std::chrono::microseconds(1)};
  recorder.end_exchange(exchange, Phase::kPCacheParam);
  recorder.enter(Phase::kBatch);
  recorder.enter(Phase::kComputeGrads);
  recorder.add_hidden(Phase::kPsParam, std::chrono::microseconds(1));
  recorder.enter(Phase::kApplyGrads);
  recorder.enter(Phase::kPsApplyGrads);
}

// By batch, in order: the fastest first.
std::vector<double> ns_per_step(PhaseSpans* spans) {
  PhaseRecorder recorder(steady_now, spans);
  recorder.begin(Phase::kPsApplyGrads);
  std::vector<double> ns;
  for (int batch = 0; batch < kBatches; ++batch) {
    const Ticks begin = steady_now();
    for (int step = 0; step < kStepsPerBatch; ++step) record_step(recorder);
    ns.push_back(to_seconds(steady_now() - begin) * 1e9 / kStepsPerBatch);
  }
  std::sort(ns.begin(), ns.end());
  return ns;
}

int run(double step_ms) {
  const std::vector<double> plain = ns_per_step(nullptr);
  PhaseSpans spans(100'000);
  const std::vector<double> traced = ns_per_step(&spans);  // run.trace
  const double share = traced.front() / (step_ms * 1e6);
  std::printf(
      "{\"ns_per_step\": %.0f, \"median_ns_per_step\": %.0f, \"traced_ns_per_step\": %.0f, "
      "\"traced_median_ns_per_step\": %.0f, \"step_ms\": %.3f, \"traced_share\": %.8f, \"limit\": %g}\n",
      plain.front(), plain[plain.size() / 2], traced.front(), traced[traced.size() / 2], step_ms, share,
      kLimit);
  return share < kLimit ? 0 : 1;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  if (argc != 2 || !(std::atof(argv[1]) > 0)) {
    std::fprintf(stderr, "usage: bench_recorder_cost STEP_MS\n");
    return 2;
  }
  return paceline::run(std::atof(argv[1]));
}
