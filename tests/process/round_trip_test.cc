// One round trip a step, counted: all that nodes and a real server say to each other goes through a relay
// (relay.h). For an iteration there go up its push, its report and at most one pull of what the next one
// computes with; there come down its grant and one answer to the pull. No more than that, under BSP, SSP and
// ASP, with one thread a node and with several, which share a transfer where they need the same version.
//
// What the clock says and not a step (a heartbeat, that a grant is still held) is not counted.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>

#include "tests/process/counting_task.h"
#include "tests/process/local_cluster.h"

namespace paceline::testing {
namespace {

constexpr std::int64_t kClocks = 40;
constexpr std::int64_t kRows = 6;  // in three frames, up and down
// Where the answer to another thread of the node is installed just between a thread's look at the process
// cache and its asking, it asks for what is there by then and is told U.
constexpr std::int64_t kAskedTwiceMax = kClocks / 10;

RunConfig config_of(PolicyKind policy, std::uint32_t nodes, std::uint32_t threads) {
  RunConfig config;
  config.cluster.nodes = nodes;
  config.cluster.threads_per_node = threads;
  config.cluster.lease = std::chrono::seconds(60);
  config.cluster.frame_bytes = static_cast<std::int64_t>(2 * nodes * threads * sizeof(float));
  config.cluster.shared_memory = SharedMemory::kOff;
  config.sync.policy = policy;
  config.sync.apply = policy == PolicyKind::kAsp ? ApplyMode::kEager : ApplyMode::kVersioned;
  config.sync.combine = CombineMode::kEach;
  // Nobody comes to stand at it. Who does asks, besides, for what it will be required to have, while it
  // computes (common/cache/freshness.h).
  config.sync.threshold = kClocks;
  config.train.total_iterations = kClocks * config.cluster.cluster().workers();
  config.train.batch_size = 10;
  config.train.optimizer.lr = 1.0;
  return config;
}

// A letter for each message of a step, in the order in which the relay heard them: P a frame of a push, R a
// report, L a pull; G a grant, F that there is none, A a frame of parameters, U that nothing has changed.
// A and U of a node end with its first F: an answer to what is asked with the last push may find it gone.
struct Received {
  std::string up;
  std::string down;
  std::map<WorkerId, std::string> of_worker;  // P, R, G and F
  std::int64_t transfers = 0;                 // answers that are parameters, whole
  std::int64_t welcomes = 0;                  // one node's may be heard after another's first grant
  std::set<std::string> others;     // kinds of messages, between a node's first grant and its first F
  std::set<wire::PeerId> begun;     // nodes that have been told G
  std::set<wire::PeerId> finished;  // and F

  void receive(const wire::PeerId& node, const wire::Body& body) {
    if (const auto* push = std::get_if<wire::Push>(&body)) {
      add(up, 'P', push->worker);
    } else if (const auto* report = std::get_if<wire::StepReport>(&body)) {
      add(up, 'R', report->worker);
    } else if (const auto* grant = std::get_if<wire::Grant>(&body)) {
      add(down, 'G', grant->worker);
      begun.insert(node);
    } else if (const auto* finish = std::get_if<wire::FinishWorker>(&body)) {
      add(down, 'F', finish->worker);
      finished.insert(node);
    } else if (std::holds_alternative<wire::Welcome>(body)) {
      ++welcomes;
    } else if (const auto* pull = std::get_if<wire::Pull>(&body)) {
      if (!pull->exact) up.push_back('L');  // else of the evaluation after the last step
    } else if (begun.contains(node) && !finished.contains(node)) {
      receive_steady(body);
    }
  }
  void receive_steady(const wire::Body& body) {
    if (const auto* piece = std::get_if<wire::Parameters>(&body)) {
      down.push_back('A');
      if (piece->last) ++transfers;
    } else if (std::holds_alternative<wire::Unchanged>(body)) {
      down.push_back('U');
    } else if (!std::holds_alternative<wire::Heartbeat>(body) &&
               !std::holds_alternative<wire::HeldNotice>(body)) {
      others.insert(std::string(wire::name_of(body)));
    }
  }
  void add(std::string& way, char letter, WorkerId worker) {
    way.push_back(letter);
    of_worker[worker].push_back(letter);
  }
  std::int64_t count(char letter) const {
    return std::count(up.begin(), up.end(), letter) + std::count(down.begin(), down.end(), letter);
  }
};

Received received_of(const RunConfig& config) {
  CountingOptions options;
  options.cluster = config.cluster.cluster();
  options.blocks = kRows;
  Received received;
  const auto run = run_cluster(
      config, [&](NodeId, const StopNode&) { return std::make_unique<CountingFactory>(options); }, {},
      [&](const wire::PeerId& node, const wire::Body& body) { received.receive(node, body); });
  INFO(run.status().message());
  REQUIRE(run.is_ok());
  for (const Status& node : run->nodes) REQUIRE(node.is_ok());
  return received;
}

std::string times(std::int64_t n, const std::string& what) {
  std::string all;
  for (std::int64_t i = 0; i < n; ++i) all += what;
  return all;
}

}  // namespace

TEST_CASE("a_worker_alone_says_and_hears_this_and_nothing_else") {
  SECTION("versioned: the next version comes down with the grant") {
    const PolicyKind policy = GENERATE(PolicyKind::kBsp, PolicyKind::kSsp);
    CAPTURE(static_cast<int>(policy));
    const Received received = received_of(config_of(policy, 1, 1));
    CHECK(received.up == "L" + times(kClocks, "PPPRL"));
    CHECK(received.down == times(kClocks, "GAAA") + "F");
    CHECK(received.others == std::set<std::string>{});
  }
  SECTION("eager, ahead: parameters come down while the gradient goes up") {
    RunConfig config = config_of(PolicyKind::kAsp, 1, 1);
    config.sync.pull_order = PullOrder::kBeforePush;
    const Received received = received_of(config);
    CHECK(received.up == "L" + times(kClocks, "LPPPR"));
    CHECK(received.down == "GAAAUG" + times(kClocks - 2, "AAAG") + "AAAF");  // at first it has the newest
    CHECK(received.others == std::set<std::string>{});
  }
  SECTION("eager, after: parameters come down with the grant, too") {
    RunConfig config = config_of(PolicyKind::kAsp, 1, 1);
    config.sync.pull_order = PullOrder::kAfterPush;
    const Received received = received_of(config);
    CHECK(received.up == "L" + times(kClocks, "PPPRL"));
    CHECK(received.down == times(kClocks, "GAAA") + "F");
    CHECK(received.others == std::set<std::string>{});
  }
}

TEST_CASE("a_step_is_one_push_one_report_and_one_grant_and_at_most_one_pull_and_its_answer") {
  const auto [policy, order] =
      GENERATE(std::pair(PolicyKind::kBsp, PullOrder::kAuto), std::pair(PolicyKind::kSsp, PullOrder::kAuto),
               std::pair(PolicyKind::kAsp, PullOrder::kBeforePush),
               std::pair(PolicyKind::kAsp, PullOrder::kAfterPush));
  const std::uint32_t threads = GENERATE(1, 3);
  CAPTURE(static_cast<int>(policy), static_cast<int>(order), threads);
  RunConfig config = config_of(policy, 2, threads);
  config.sync.pull_order = order;
  const Received received = received_of(config);

  CHECK(received.of_worker.size() == config.cluster.cluster().workers());
  for (const auto& [worker, reported] : received.of_worker) CHECK(reported == times(kClocks, "GPPPR") + "F");
  CHECK(received.others == std::set<std::string>{});
  const std::int64_t nodes = config.cluster.nodes;
  CHECK(received.welcomes == nodes);
  const std::int64_t pulls = received.count('L');
  CHECK(pulls <= config.train.total_iterations + nodes + kAskedTwiceMax);  // a node's first is of no step
  CHECK(received.transfers + received.count('U') <= pulls);
  CHECK(received.count('A') <= 3 * pulls);
  // Of each version a node is sent one copy, however many of its threads compute with it.
  if (policy == PolicyKind::kBsp) CHECK(received.transfers == nodes * kClocks);
  if (policy == PolicyKind::kBsp) CHECK(received.count('A') == 3 * received.transfers);
}

}  // namespace paceline::testing
