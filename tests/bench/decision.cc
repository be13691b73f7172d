// What a decision costs a shard, when its frames were applied as they came (server/store/speculative_apply.h) and
// when they were not: from the decision until the next version is there, which is what a worker waits for,
// and processor time of frames and decision together, which is what the machine pays.
//
//   bench_decision [FLOATS FRAME_BYTES ROUNDS]        one JSON line; medians of ROUNDS of each, in turns
//
// SGD, eager, one worker; all but the last frame have come, and the loop had time, before the decision does.
#include <cstdint>
#include <ctime>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/assert.h"
#include "common/ticks.h"
#include "server/store/shard.h"
#include "tests/bench/median.h"

namespace paceline::server {
namespace {

struct Costs {
  double decision_ms = 0.0;   // of time
  double processor_ms = 0.0;  // of this process, frames and decision
};

double processor_ms() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

Shard ready_shard(std::int64_t floats, std::int64_t frame_bytes) {
  RunConfig config;
  config.sync.policy = PolicyKind::kAsp;
  config.sync.apply = ApplyMode::kEager;
  config.sync.combine = CombineMode::kEach;
  config.cluster.nodes = 1;
  config.cluster.frame_bytes = frame_bytes;
  config.train.optimizer.kind = OptimizerKind::kSgd;
  Layout layout;
  PACELINE_ASSERT(layout.add("all", {floats}).is_ok(), "one tensor");
  Shard shard(ShardId(0), {0, floats}, layout, shard_settings(config));
  const std::vector<float> zeros(static_cast<std::size_t>(floats));
  PACELINE_ASSERT(shard.initialize({0, true}, zeros).is_ok(), "all at once");
  return shard;
}

// One gradient: its frames, prepared or not as they come, and the decision.
Costs exchange(Shard& shard, const std::vector<float>& gradient, std::int64_t frame, std::int64_t clock,
               bool prepares) {
  const std::int64_t floats = std::ssize(gradient);
  const double begin = processor_ms();
  wire::Push push;
  push.clock = Clock(clock);
  for (std::int64_t end = floats; end > 0; end = push.offset) {
    push.offset = (end - 1) / frame * frame;
    push.last = push.offset == 0;
    push.samples = push.last ? 1 : 0;
    const std::int64_t count = end - push.offset;
    const auto* const bytes = reinterpret_cast<const std::byte*>(gradient.data() + push.offset);
    const wire::Payload payload{std::shared_ptr<const void>(bytes, [](const void*) {}), bytes,
                                static_cast<std::size_t>(count) * sizeof(float)};
    PACELINE_ASSERT(shard.push(push, payload).is_ok(), "the next frame");
    while (prepares && !push.last && shard.prepare_next()) {
    }
  }
  wire::ApplyDecision decision;
  decision.sequence = clock;
  decision.contributions = {{push.worker, push.clock, 1}};
  decision.learning_rate = OptimizerSection().lr;
  decision.version_after = Version(clock + 1);
  decision.revision_after = Revision(clock + 1);
  const Ticks decided = steady_now();
  PACELINE_ASSERT(shard.apply(decision).is_ok(), "it is whole");
  return {to_seconds(steady_now() - decided) * 1e3, processor_ms() - begin};
}

void run(std::int64_t floats, std::int64_t frame_bytes, int rounds) {
  Shard shard = ready_shard(floats, frame_bytes);
  const std::vector<float> gradient(static_cast<std::size_t>(floats), 1e-3F);
  std::vector<double> decision[2];
  std::vector<double> processor[2];
  const std::int64_t frame = frame_bytes / static_cast<std::int64_t>(sizeof(float));
  for (int k = 0; k < 2 * rounds + 2; ++k) {
    const Costs costs = exchange(shard, gradient, frame, k, k % 2 == 1);
    if (k < 2) continue;  // fresh memory
    decision[k % 2].push_back(costs.decision_ms);
    processor[k % 2].push_back(costs.processor_ms);
  }
  std::cout << "{\"benchmark\": \"decision\", \"floats\": " << floats << ", \"frame_bytes\": " << frame_bytes
            << ", \"decision_ms\": " << bench::median(decision[0])
            << ", \"decision_prepared_ms\": " << bench::median(decision[1])
            << ", \"processor_ms\": " << bench::median(processor[0])
            << ", \"processor_prepared_ms\": " << bench::median(processor[1])
            << ", \"blocks_prepared\": " << shard.next().committed() << "}\n";
}

}  // namespace
}  // namespace paceline::server

int main(int argc, char** argv) {
  if (argc != 1 && argc != 4) {
    std::cerr << "usage: bench_decision [FLOATS FRAME_BYTES ROUNDS]\n";
    return 2;
  }
  if (argc == 4) {
    paceline::server::run(std::stoll(argv[1]), std::stoll(argv[2]), std::stoi(argv[3]));
  } else {
    for (const std::int64_t floats : {1'000'000, 4'000'000, 10'000'000, 64'000'000}) {
      paceline::server::run(floats, 512 * 1024, floats > 20'000'000 ? 15 : 51);
    }
  }
  return 0;
}
