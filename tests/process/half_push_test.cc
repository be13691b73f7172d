// A node that pushes its gradient to some shards only, or a part of it, and is never heard of again: joined
// and spoken for word by word, beside a real node in a real run. Nothing of the gradient may be in the model,
// unless every shard holds it whole.
#include <catch2/catch.hpp>
#include <deque>
#include <future>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/process/counting_task.h"
#include "tests/process/guarantee_checker.h"
#include "tests/process/local_cluster.h"
#include "tests/process/scripted_node.h"
#include "tests/process/transport.h"

namespace paceline::testing {
namespace {

using namespace std::chrono_literals;

// From the silent node's joining to the last of what it says none of this may pass, on a busy machine.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr Duration kLease = 12s;
#else
constexpr Duration kLease = 3s;
#endif
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

// A run in which it is said, by the calling thread.
class HalfPushed {
 public:
  HalfPushed(const HalfPush& push, const RunConfig& wanted) : push_(push), checker_(wanted) {
    options_.cluster = wanted.cluster.cluster();
    options_.blocks = kBlocks;
    options_.on_read = [this](const Read& read) { checker_.on_read(read); };
    checker_.node_goes(NodeId(1));
    std::promise<RunConfig> listening;
    config_ = listening.get_future();
    running_ = std::async(std::launch::async, [this, wanted, made = std::move(listening)]() mutable {
      std::promise<RunConfig> listens = std::move(made);  // broken if there is nobody who listens
      return run_cluster(
          wanted,
          [this](NodeId node, const StopNode&) {
            return node == NodeId(0) ? std::make_unique<CountingFactory>(options_) : nullptr;
          },
          [&listens](const RunConfig& config) { listens.set_value(config); });
    });
  }

  // `vanishes`: else it falls silent, and its connections stay.
  void say(bool vanishes) {
    const RunConfig config = config_.get();
    node_.emplace(context_, config.cluster.endpoints);
    say_half(*node_, config, CountingFactory(options_).layout(), push_);
    if (vanishes) node_.reset();
  }

  // Once it was said, that the run has ended as it must.
  void check() {
    const Result<ClusterRun> run = running_.get();
    INFO(run.status().message());
    REQUIRE(run.is_ok());
    CHECK(run->servers[0].is_ok());
    CHECK(run->nodes[0].is_ok());
    CHECK(run->summary.lost_nodes == 1);
    checker_.on_end(run->summary, run->model.parameters, kBlocks);
    for (const std::string& violation : checker_.violations()) FAIL_CHECK(violation);
    const float expected = push_.whole() && push_.reports ? 1.0F : 0.0F;
    if (push_.whole() && !push_.reports)
      return;  // on all shards: whether it counts is the authority's choice
    for (std::int64_t row = 0; row < kBlocks; ++row) {
      CHECK(run->model.parameters[static_cast<std::size_t>(2 * row + 1)] == expected);
    }
  }

 private:
  const HalfPush push_;
  CountingOptions options_;
  GuaranteeChecker checker_;
  std::future<RunConfig> config_;
  wire::Context context_;
  std::optional<server::ScriptedNode> node_;
  std::future<Result<ClusterRun>> running_;  // the last: it uses the others
};

}  // namespace

// All half pushes beside each other: most of a run is waiting for somebody to be missed.
TEST_CASE("a_push_that_not_every_shard_holds_whole_leaves_no_trace") {
  const bool vanishes = GENERATE(true, false);
  RunConfig wanted = GENERATE(config_of(PolicyKind::kBsp, ApplyMode::kVersioned, CombineMode::kEach),
                              config_of(PolicyKind::kSsp, ApplyMode::kVersioned, CombineMode::kEach),
                              config_of(PolicyKind::kSsp, ApplyMode::kEager, CombineMode::kEach),
                              config_of(PolicyKind::kAsp, ApplyMode::kEager, CombineMode::kEach),
                              tcp(config_of(PolicyKind::kAsp, ApplyMode::kEager, CombineMode::kEach)));
  if (!vanishes) {
    if (wanted.sync.policy != PolicyKind::kBsp) return;  // each silence takes a lease
    wanted.cluster.lease = kLease;
  }
  CAPTURE(vanishes, over_tcp(wanted), static_cast<int>(wanted.sync.policy),
          static_cast<int>(wanted.sync.apply));
  std::deque<HalfPushed> runs;
  for (const HalfPush& push : kHalfPushes) runs.emplace_back(push, wanted);
  for (HalfPushed& run : runs) run.say(vanishes);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    CAPTURE(kHalfPushes[i].what);
    runs[i].check();
  }
}

}  // namespace paceline::testing
