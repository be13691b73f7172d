// What the synchronisation core's decision about one step costs, by the number of workers: sync::Engine as
// the authority drives it, from "every shard holds the gradient" and "the step is reported" to the actions
// that follow, grants included.
//
//   bench_step_decision [--benchmark_filter=ssp] [--benchmark_out=FILE]      (JSON)
//
// Steps come in random order: whoever is granted is as likely as anybody else granted to report next. Who
// reports when is recorded beforehand, from an engine of the same configuration, and then replayed: what is
// timed is the engine and nothing but. One iteration replays the same number of steps with 10, 1,000 and
// 100,000 workers, and the next one the other way round, so that a machine whose speed drifts treats them
// alike.
//
// ns_with_N: of a step with N workers, median of the thread's processor time, which on a quiet machine is the
// time that passes. ratio_N_to_10: median over the iterations. wall_ns: the time that passed with 100,000.
// worst_us: the longest that one step took with as many, in wall time, median over the runs: the step that
// lets everybody else go.
//
// Memory is what a server's main makes it: kept when freed, and in huge pages where the system offers them.
//
// Exit status 1 when a step with 100,000 workers costs more than 1 us or more than twice that with 10.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/assert.h"
#include "common/sync/engine.h"
#include "common/wire/memory.h"
#include "tests/bench/judged.h"
#include "tests/bench/median.h"

namespace paceline {
namespace {

using sync::Action;
using sync::Engine;
using sync::EngineConfig;

constexpr double kTargetNs = 1000.0;
constexpr double kTargetRatio = 2.0;
// The others are set beside the first.
constexpr std::array<std::uint32_t, 3> kWorkers{10, 1'000, 100'000};
constexpr std::int64_t kSteps = 500'000;  // of a run; at least one clock for everybody

// But for the cluster.
EngineConfig config_of(PolicyKind policy, ApplyMode apply, CombineMode combine, std::uint32_t shards) {
  EngineConfig config;
  config.shards = shards;
  config.policy.kind = policy;
  config.policy.threshold = 3;
  config.apply = apply;
  config.combine = combine;
  // Not one that anybody reaches: the end of a run is not what is measured.
  config.total_iterations = 100 * kSteps;
  config.batch_size = 1;
  config.window_clocks = 2;  // dtssp: the threshold moves all the time, and the held are filed anew
  if (policy == PolicyKind::kSwitch) {  // in the middle of a run
    PolicyStage first, second;
    first.policy = PolicyKind::kSsp;
    first.until = {StageEnd::kIterations, kSteps / 2.0};
    second.policy = PolicyKind::kDtssp;
    config.policy.stages = {first, second};
  }
  return config;
}

// One worker's completed iteration.
struct Arrival {
  WorkerId worker;
  Clock clock;
};

// An engine in which everybody has joined and been granted the first iteration.
class Run {
 public:
  explicit Run(const EngineConfig& config) : engine_(config) {
    for (std::uint32_t r = 0; r < config.cluster.workers(); ++r) {
      engine_.step(sync::Joined{config.cluster.worker_at(Rank(r))}, now_, actions_);
    }
  }

  // Everything the authority tells the engine about one step, and all that follows from it. The metric makes
  // windows better and worse in turns.
  const std::vector<Action>& step(const Arrival& arrival) {
    actions_.clear();
    now_ = now_ + std::chrono::nanoseconds(1);
    for (std::uint32_t k = 0; k < engine_.config().shards; ++k) {
      engine_.step(sync::GradientArrived{ShardId(k), arrival.worker, arrival.clock, 128, {}}, now_, actions_);
    }
    sync::StepReported report;
    report.worker = arrival.worker;
    report.clock = arrival.clock;
    report.metric.samples = 128;
    report.metric.loss_sum = 128.0;
    report.metric.correct = arrival.clock.value / 2 % 2 == 0 ? 32 : 64;
    report.computed_version = engine_.version();
    report.computed_revision = engine_.revision();
    engine_.step(std::move(report), now_, actions_);
    return actions_;
  }

  // The grants with which everybody begins.
  const std::vector<Action>& begun() const { return actions_; }

 private:
  Engine engine_;
  Ticks now_;
  std::vector<Action> actions_;
};

std::vector<Arrival> random_arrivals(const EngineConfig& config, std::int64_t steps) {
  Run run(config);
  std::vector<Arrival> granted;
  const auto note = [&](const std::vector<Action>& actions) {
    for (const Action& action : actions) {
      PACELINE_ASSERT(!std::holds_alternative<sync::Reject>(action), "no step is refused");
      if (const auto* grant = std::get_if<sync::Grant>(&action))
        granted.push_back({grant->worker, grant->clock});
    }
  };
  note(run.begun());
  std::mt19937_64 random(1);
  std::vector<Arrival> arrivals;
  while (static_cast<std::int64_t>(arrivals.size()) < steps) {
    std::swap(granted[std::uniform_int_distribution<std::size_t>(0, granted.size() - 1)(random)],
              granted.back());
    arrivals.push_back(granted.back());
    granted.pop_back();
    note(run.step(arrivals.back()));
  }
  return arrivals;
}

std::int64_t nanoseconds_of(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

struct Replay {
  double cpu_ns, wall_ns;  // per step
};

Replay replay(const EngineConfig& config, const std::vector<Arrival>& arrivals) {
  Run run(config);
  const std::int64_t wall = nanoseconds_of(CLOCK_MONOTONIC);
  const std::int64_t cpu = nanoseconds_of(CLOCK_THREAD_CPUTIME_ID);
  for (const Arrival& arrival : arrivals) benchmark::DoNotOptimize(run.step(arrival).size());
  const auto steps = static_cast<double>(arrivals.size());
  return {static_cast<double>(nanoseconds_of(CLOCK_THREAD_CPUTIME_ID) - cpu) / steps,
          static_cast<double>(nanoseconds_of(CLOCK_MONOTONIC) - wall) / steps};
}

// Apart from replay(), since asking for the time costs as much as a decision.
double worst_step_us(const EngineConfig& config, const std::vector<Arrival>& arrivals) {
  Run run(config);
  std::int64_t worst = 0;
  for (const Arrival& arrival : arrivals) {
    const std::int64_t begin = nanoseconds_of(CLOCK_MONOTONIC);
    benchmark::DoNotOptimize(run.step(arrival).size());
    worst = std::max(worst, nanoseconds_of(CLOCK_MONOTONIC) - begin);
  }
  return 1e-3 * static_cast<double>(worst);
}

// One iteration is one run with each number of workers; the time that Google Benchmark shows is that of a
// step with the most.
void measure(benchmark::State& state, EngineConfig config) {
  std::array<EngineConfig, kWorkers.size()> configs;
  std::array<std::vector<Arrival>, kWorkers.size()> arrivals;
  for (std::size_t k = 0; k < kWorkers.size(); ++k) {
    config.cluster = {kWorkers[k], 1};
    config.policy.backup_workers = kWorkers[k] / 10;
    configs[k] = config;
    arrivals[k] = random_arrivals(config, kSteps);
  }
  std::array<std::vector<double>, kWorkers.size()> cpu, ratios;
  std::vector<double> wall, worst;
  for (auto _ : state) {
    const bool fewest_first = wall.size() % 2 == 0;
    std::array<Replay, kWorkers.size()> took{};
    for (std::size_t turn = 0; turn < kWorkers.size(); ++turn) {
      const std::size_t k = fewest_first ? turn : kWorkers.size() - 1 - turn;
      took[k] = replay(configs[k], arrivals[k]);
    }
    if (worst.size() < 3) worst.push_back(worst_step_us(configs.back(), arrivals.back()));
    state.SetIterationTime(1e-9 * took.back().cpu_ns);
    for (std::size_t k = 0; k < kWorkers.size(); ++k) {
      cpu[k].push_back(took[k].cpu_ns);
      ratios[k].push_back(took[k].cpu_ns / took.front().cpu_ns);
    }
    wall.push_back(took.back().wall_ns);
  }
  for (std::size_t k = 0; k < kWorkers.size(); ++k) {
    const std::string workers = std::to_string(kWorkers[k]);
    state.counters["ns_with_" + workers] = bench::median(cpu[k]);
    if (k > 0) state.counters["ratio_" + workers + "_to_10"] = bench::median(ratios[k]);
  }
  state.counters["wall_ns"] = bench::median(wall);
  state.counters["worst_us"] = bench::median(worst);
}

void register_all() {
  struct Policy {
    const char* name;
    PolicyKind kind;
    ApplyMode apply;
    CombineMode combine;
    std::uint32_t shards = 1;
  };
  for (const Policy& policy :
       {Policy{"ssp/versioned/mean", PolicyKind::kSsp, ApplyMode::kVersioned, CombineMode::kMean},
        Policy{"ssp/eager/each", PolicyKind::kSsp, ApplyMode::kEager, CombineMode::kEach},
        Policy{"ssp/versioned/each/2_shards", PolicyKind::kSsp, ApplyMode::kVersioned, CombineMode::kEach, 2},
        Policy{"dtssp/versioned/each", PolicyKind::kDtssp, ApplyMode::kVersioned, CombineMode::kEach},
        Policy{"dssp/versioned/each", PolicyKind::kDssp, ApplyMode::kVersioned, CombineMode::kEach},
        Policy{"walk/versioned/each", PolicyKind::kRandomWalk, ApplyMode::kVersioned, CombineMode::kEach},
        Policy{"switch/versioned/each", PolicyKind::kSwitch, ApplyMode::kVersioned, CombineMode::kEach},
        Policy{"backup/versioned/mean", PolicyKind::kBackup, ApplyMode::kVersioned, CombineMode::kMean},
        Policy{"bsp/versioned/mean", PolicyKind::kBsp, ApplyMode::kVersioned, CombineMode::kMean},
        Policy{"asp/eager/each", PolicyKind::kAsp, ApplyMode::kEager, CombineMode::kEach}}) {
    const EngineConfig config = config_of(policy.kind, policy.apply, policy.combine, policy.shards);
    benchmark::RegisterBenchmark(policy.name, [config](benchmark::State& state) { measure(state, config); })
        ->UseManualTime()
        ->Unit(benchmark::kNanosecond)
        ->Iterations(15);
  }
}

bool misses_target(const benchmark::BenchmarkReporter::Run& run) {
  return run.counters.at("ns_with_100000") > kTargetNs ||
         run.counters.at("ratio_100000_to_10") > kTargetRatio;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  paceline::wire::keep_freed_memory();
  paceline::wire::prefer_huge_pages(std::size_t{256} << 20);
  char complaint[96];
  std::snprintf(complaint, sizeof complaint, "over %.0f ns or over %.1f times the cost with 10 workers",
                paceline::kTargetNs, paceline::kTargetRatio);
  return paceline::bench::run_judged(argc, argv, paceline::register_all, paceline::misses_target, complaint);
}
