// A node that pushes its gradient to some shards only, or a part of it, and is never heard of again: joined
// and spoken for word by word, beside a real node in a real run. Nothing of the gradient may be in the model,
// unless every shard holds it whole.
#include <catch2/catch.hpp>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "tests/process/counting_task.h"
#include "tests/process/guarantee_checker.h"
#include "tests/process/local_cluster.h"
#include "tests/process/scripted_node.h"
#include "tests/process/transport.h"

namespace paceline::testing {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kShards = 3;
constexpr std::int64_t kBlocks = 6;  // rows; with two workers 12 floats, 4 on each shard, in frames of 2

// What the node says of its gradient stamped 0 before it vanishes.
struct HalfPush {
  const char* what;
  int frames[kShards];  // how many of its two frames each shard gets
  bool reports;         // the authority is told of the step
  bool whole() const { return frames[0] == 2 && frames[1] == 2 && frames[2] == 2; }
};

constexpr HalfPush kHalfPushes[] = {
    {"nothing but the report", {0, 0, 0}, true},        {"the authority's slice", {2, 0, 0}, true},
    {"all but the authority's slice", {0, 2, 2}, true}, {"all but the last slice", {2, 2, 0}, true},
    {"all but the last frame", {2, 2, 1}, true},        {"the first frame everywhere", {1, 1, 1}, true},
    {"everything, without a report", {2, 2, 2}, false}, {"everything", {2, 2, 2}, true},
};

RunConfig config_of(PolicyKind policy, ApplyMode apply, CombineMode combine) {
  RunConfig config;
  config.cluster.nodes = 2;
  config.cluster.shards = kShards;
  config.cluster.heartbeat = 100ms;
  config.cluster.frame_bytes = 2 * sizeof(float);
  config.train.total_iterations = 16;
  config.train.batch_size = 10;
  config.train.optimizer.lr = 1.0;
  config.sync.policy = policy;
  config.sync.threshold = 2;
  config.sync.apply = apply;
  config.sync.combine = combine;
  return config;
}

RunConfig tcp(RunConfig config) {
  config.cluster.endpoints = {kAnyPort};
  return config;
}

// Joins as node 1, waits for its first grant, says what it says.
void say_half(server::ScriptedNode& node, const RunConfig& config, const Layout& layout,
              const HalfPush& push) {
  wire::Join join;
  join.node = NodeId(1);
  join.incarnation = 1;
  join.threads = 1;
  join.config_fingerprint = fingerprint(config);
  join.layout_hash = layout.hash();
  join.tensors = layout.tensors();
  node.say_to_all(join);
  for (std::size_t k = 0; k < kShards; ++k) node.hear<wire::Welcome>(k);
  node.hear<wire::Grant>(0);
  const WorkerId worker(1, 0);
  for (std::size_t k = 0; k < kShards; ++k) {
    for (int frame = 0; frame < push.frames[k]; ++frame) {
      // The upper frame first. Its own column is the second of two: -1 there, as the counting model has it.
      const bool last = frame == 1;
      node.say(k, wire::Push{worker, Clock(0), last ? 0 : 2, last, last ? 10 : 0, Version(0), Revision(0)},
               std::vector<float>{0.0F, -1.0F});
    }
  }
  if (push.reports) {
    wire::StepReport report;
    report.worker = worker;
    report.metric = {1.0, 5, 10};
    report.computed_version = Version(0);
    report.computed_revision = Revision(0);
    node.say(0, report);
  }
}

}  // namespace

TEST_CASE("a_push_that_not_every_shard_holds_whole_leaves_no_trace") {
  const HalfPush push = GENERATE(from_range(std::begin(kHalfPushes), std::end(kHalfPushes)));
  const bool vanishes = GENERATE(true, false);  // or falls silent: its connections stay
  RunConfig wanted = GENERATE(config_of(PolicyKind::kBsp, ApplyMode::kVersioned, CombineMode::kEach),
                              config_of(PolicyKind::kSsp, ApplyMode::kVersioned, CombineMode::kEach),
                              config_of(PolicyKind::kSsp, ApplyMode::kEager, CombineMode::kEach),
                              config_of(PolicyKind::kAsp, ApplyMode::kEager, CombineMode::kEach),
                              tcp(config_of(PolicyKind::kAsp, ApplyMode::kEager, CombineMode::kEach)));
  if (!vanishes) {
    if (wanted.sync.policy != PolicyKind::kBsp) return;  // each silence takes a lease
    wanted.cluster.lease = 1500ms;                       // long enough for a busy machine
  }
  CAPTURE(push.what, vanishes, over_tcp(wanted), static_cast<int>(wanted.sync.policy),
          static_cast<int>(wanted.sync.apply));

  CountingOptions options;
  options.cluster = wanted.cluster.cluster();
  options.blocks = kBlocks;
  GuaranteeChecker checker(wanted);
  checker.node_goes(NodeId(1));
  options.on_read = [&](const Read& read) { checker.on_read(read); };

  std::promise<RunConfig> listening;
  auto running = std::async(std::launch::async, [&] {
    return run_cluster(
        wanted,
        [&](NodeId node, const StopNode&) {
          return node == NodeId(0) ? std::make_unique<CountingFactory>(options) : nullptr;
        },
        [&](const RunConfig& config) { listening.set_value(config); });
  });
  const RunConfig config = listening.get_future().get();
  wire::Context context;
  std::optional<server::ScriptedNode> node;
  node.emplace(context, config.cluster.endpoints);
  say_half(*node, config, CountingFactory(options).layout(), push);
  if (vanishes) node.reset();

  const auto run = running.get();
  INFO(run.status().message());
  REQUIRE(run.is_ok());
  CHECK(run->servers[0].is_ok());
  CHECK(run->nodes[0].is_ok());
  CHECK(run->summary.lost_nodes == 1);
  checker.on_end(run->summary, run->model.parameters, kBlocks);
  for (const std::string& violation : checker.violations()) FAIL_CHECK(violation);
  const float expected = push.whole() && push.reports ? 1.0F : 0.0F;
  if (push.whole() && !push.reports) return;  // on all shards: whether it counts is the authority's choice
  for (std::int64_t row = 0; row < kBlocks; ++row) {
    CHECK(run->model.parameters[static_cast<std::size_t>(2 * row + 1)] == expected);
  }
}

}  // namespace paceline::testing
