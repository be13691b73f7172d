// Right about time (docs/ARCHITECTURE.md, The nine phases), over real servers and nodes: a delay that the
// other side of the wire causes is found, to at least 95 %, in the phase that it belongs to, and what belongs
// to no phase stays within 2 %. worker_attribution_test.cc does each of the nine places on one thread with a
// clock of its own; here the time held comes from a real authority, and everything between takes as long as
// it takes.
//
// A slow machine adds time to phases. Where a delay begins before the phase that it is found in (a grant is
// still on its way to the node, or the fast node computes for longer than it should), a pause of the machine
// just there hides a part of it: such a case has three attempts, and the best of them counts. Time put into a
// wrong phase is missing from all three.
#include <algorithm>
#include <catch2/catch.hpp>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "tests/process/counting_task.h"
#include "tests/process/local_cluster.h"
#include "tests/process/relay.h"
#include "worker/node.h"

namespace paceline::testing {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

// Of runs on a machine that has other things to do, until one was not disturbed.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kAttempts = 10;
#else
constexpr int kAttempts = 3;
#endif

RunConfig config_of(PolicyKind policy, std::uint32_t nodes, std::int64_t clocks) {
  RunConfig config;
  config.cluster.nodes = nodes;
  config.cluster.threads_per_node = 1;
  config.cluster.lease = 60s;
  config.sync.policy = policy;
  config.sync.apply = policy == PolicyKind::kAsp ? ApplyMode::kEager : ApplyMode::kVersioned;
  config.sync.combine = CombineMode::kEach;
  config.sync.threshold = 1;
  config.train.total_iterations = clocks * nodes;
  config.train.batch_size = 10;
  config.train.optimizer.lr = 1.0;
  return config;
}

CountingOptions counting(const RunConfig& config) {
  CountingOptions options;
  options.cluster = config.cluster.cluster();
  return options;
}

double seconds(nanoseconds d) { return std::chrono::duration<double>(d).count(); }

nanoseconds in(Phase phase, const WorkerPhases& worker) { return nanoseconds(worker.totals[phase].total_ns); }

void check_accounted(const ClusterRun& run) {
  for (const WorkerPhases& worker : run.phases) {
    CAPTURE(to_string(worker.worker));
    CHECK(unaccounted_ns(worker.totals) <= worker.totals.wall_ns / 50);
  }
  CHECK(run.summary.unaccounted_seconds <=
        0.02 * seconds(nanoseconds(run.phases[0].totals.wall_ns)) * static_cast<double>(run.phases.size()));
}

// A run of one worker whose node reaches server `slow` through a relay. Returns what share of the time that
// the relay held back is found in `phase`.
double share_behind_relay(const RunConfig& wanted, std::uint32_t slow, const Relay::Delay& delay,
                          Phase phase) {
  wire::Context context;
  std::optional<Relay> relay;
  std::optional<Node> node;
  std::future<Status> ended;
  const auto run = run_cluster(
      wanted, [](NodeId, const StopNode&) { return nullptr; },
      [&](RunConfig config) {
        std::string& endpoint = config.cluster.endpoints[slow];
        relay.emplace(context, endpoint, endpoint + ".relay", delay);
        endpoint += ".relay";
        node.emplace(config, NodeId(0), context, std::make_unique<CountingFactory>(counting(config)));
        ended = std::async(std::launch::async, [&node] { return node->run(); });
      });
  INFO(run.status().message());
  REQUIRE(run.is_ok());
  const Status status = ended.get();
  INFO(status.message());
  REQUIRE(status.is_ok());
  REQUIRE(run->phases.size() == 1);
  check_accounted(*run);
  REQUIRE(relay->held_back() >= wanted.train.total_iterations * 10ms);  // or nothing was tested
  return seconds(in(phase, run->phases[0])) / seconds(relay->held_back());
}

// A run of two nodes of which the second takes `slow` for an iteration and the first `fast`. Returns what
// share of the time that the first has to wait for the second is found in its BARRIER.
double share_held(const RunConfig& wanted, std::int64_t clocks, nanoseconds fast, nanoseconds slow) {
  RunConfig config = wanted;
  config.emulate.base_step = std::chrono::duration_cast<Duration>(fast);
  config.emulate.slowdown = {1.0, seconds(slow) / seconds(fast)};
  config.emulate.cores = 2;
  const auto run = run_cluster(
      config, [&](NodeId, const StopNode&) { return std::make_unique<CountingFactory>(counting(config)); });
  INFO(run.status().message());
  REQUIRE(run.is_ok());
  REQUIRE(run->phases.size() == 2);
  check_accounted(*run);
  // The first is granted its last clock, clocks - 1, once the second's is `threshold` behind that; until then
  // it has computed for clocks - 1 iterations of its own, and waited for the rest.
  const std::int64_t threshold = config.sync.policy == PolicyKind::kSsp ? config.sync.threshold : 0;
  const nanoseconds waits = (clocks - 1 - threshold) * slow - (clocks - 1) * fast;
  return seconds(in(Phase::kBarrier, run->phases[0])) / seconds(waits);
}

template <typename Share>
double best_of_attempts(Share share) {
  double best = 0.0;
  for (int i = 0; i < kAttempts && best < 0.95; ++i) best = std::max(best, share());
  return best;
}

}  // namespace

TEST_CASE("the_time_that_an_authority_holds_a_fast_node_for_a_slow_one_is_its_barrier") {
  const PolicyKind policy = GENERATE(PolicyKind::kBsp, PolicyKind::kSsp);
  CAPTURE(static_cast<int>(policy));
  constexpr std::int64_t kClocks = 8;
  const double share =
      best_of_attempts([&] { return share_held(config_of(policy, 2, kClocks), kClocks, 20ms, 200ms); });
  CHECK(share >= 0.95);
}

TEST_CASE("a_server_that_is_slow_to_take_a_gradient_is_ps_apply_grads") {
  const PolicyKind policy = GENERATE(PolicyKind::kBsp, PolicyKind::kSsp, PolicyKind::kAsp);
  // The authority's own shard, and one that the authority waits for while it has the clock's report.
  const std::uint32_t slow = GENERATE(0U, 1U);
  CAPTURE(static_cast<int>(policy), slow);
  RunConfig config = config_of(policy, 1, 10);
  config.cluster.shards = 2;
  const auto delay = [](const wire::PeerId&, const wire::Body& body) {
    const auto* const push = std::get_if<wire::Push>(&body);
    return push != nullptr && push->last ? 30ms : 0ms;
  };
  // The push is what begins the exchange: nothing of the delay can lie before it.
  CHECK(share_behind_relay(config, slow, delay, Phase::kPsApplyGrads) >= 0.95);
}

TEST_CASE("a_server_that_is_slow_to_answer_is_ps_param") {
  const std::uint32_t slow = GENERATE(0U, 1U);
  CAPTURE(slow);
  constexpr std::int64_t kClocks = 8;
  RunConfig config = config_of(PolicyKind::kBsp, 1, kClocks);
  config.cluster.shards = 2;
  const auto share_found = [&] {
    // The parameters of each clock. For those behind the last, of the final evaluation too, no worker waits.
    const auto delay = [left = kClocks](const wire::PeerId&, const wire::Body& body) mutable {
      return std::holds_alternative<wire::Parameters>(body) && left-- > 0 ? 100ms : 0ms;
    };
    return share_behind_relay(config, slow, delay, Phase::kPsParam);
  };
  CHECK(best_of_attempts(share_found) >= 0.95);
}

}  // namespace paceline::testing
