// Runs of pipelines: groups of nodes, each a stage of the network, end where the same run without a pipeline does; and
// a stage that is lost is named by all.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/network/network.h"
#include "common/network/stage_plan.h"
#include "common/params/model_file.h"
#include "common/report/run_summary.h"
#include "common/wire/keys.h"
#include "server/server.h"
#include "tests/process/network_run.h"
#include "tests/unit/temp_folder.h"
#include "tests/unit/training_fixture.h"
#include "tests/unit/wrapped_tasks.h"
#include "worker/network_task.h"
#include "worker/node.h"

namespace paceline::test {
namespace {

RunConfig without_pipeline(RunConfig config) {
  config.pipeline = {};
  return config;
}

// Dropout, augmentation, an optimizer with a state, frames and shards that cut the stages.
RunConfig piped(std::uint32_t groups, std::uint32_t shards = 1) {
  RunConfig config = with_policy(training_config(2 * groups, 1, shards), PolicyKind::kBsp,
                                 ApplyMode::kVersioned, CombineMode::kMean);
  config.pipeline = {2, 3, schedule::PipelineKind::kOneForwardOneBackward, Rematerialize::kOn, {}, {}};
  config.train.optimizer.kind = OptimizerKind::kMomentum;
  return config;
}

// Nodes of the same stage sum their gradients, in several buckets.
RunConfig summing(std::uint32_t groups) {
  RunConfig config = piped(groups);
  config.exchange.kind = ExchangeKind::kAllreduce;
  config.exchange.on_loss = OnLoss::kStop;
  config.exchange.bucket_bytes = 512;
  return config;
}

// Layers enough for two chunks a stage.
RunConfig interleaved(RunConfig config) {
  auto& layers = config.train.layers;
  for (int more = 0; more < 2; ++more) {
    layers.insert(layers.end() - 1, {LayerConfig{LayerKind::kDense, 12}, LayerConfig{LayerKind::kRelu}});
  }
  config.pipeline.schedule = schedule::PipelineKind::kInterleaved;
  config.pipeline.micro_batches = 4;
  return config;
}

// In the folder that the configuration names, with one server; what that ended with, or did not begin for.
Status session(RunConfig config, bool resume) {
  std::filesystem::create_directories(config.run.out);
  config.cluster.endpoints = {"ipc://" + config.run.out + (resume ? "-again" : "-first")};
  wire::Context context;
  server::ServerOptions options;
  options.resume = resume;
  server::Server server(config, ShardId(0), context, Log(), options);
  PACELINE_RETURN_IF_ERROR(server.start());
  std::vector<std::unique_ptr<Node>> nodes;
  for (std::uint32_t i = 0; i < config.cluster.nodes; ++i) {
    nodes.push_back(std::make_unique<Node>(config, NodeId(i), context, testing::network_tasks(config)));
  }
  std::vector<std::thread> threads;
  for (auto& node : nodes) threads.emplace_back([&node] { (void)node->run(); });
  const Status ended = server.run();
  for (std::thread& thread : threads) thread.join();
  return ended;
}

// Tensor by tensor: chunks lie otherwise than a whole network.
double apart(const testing::ClusterRun& one, const testing::ClusterRun& other) {
  REQUIRE(one.model.parameters.size() == other.model.parameters.size());
  std::map<std::string, const float*> theirs;
  for (const Tensor& tensor : other.model.info.layout.tensors()) {
    theirs[tensor.name] = &other.model.parameters[static_cast<std::size_t>(tensor.offset)];
  }
  double most = 0.0;
  for (const Tensor& tensor : one.model.info.layout.tensors()) {
    const float* const a = &one.model.parameters[static_cast<std::size_t>(tensor.offset)];
    const float* const b = theirs.at(tensor.name);
    for (std::int64_t i = 0; i < tensor.size(); ++i) {
      most = std::max(most, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    }
  }
  return most;
}

}  // namespace

TEST_CASE("a_pipeline_ends_where_the_run_without_one_does") {
  const auto [groups, shards, lars] =
      GENERATE(table<std::uint32_t, std::uint32_t, bool>({{1U, 1U, false}, {2U, 3U, false}, {2U, 3U, true}}));
  RunConfig config = piped(groups, shards);
  config.train.eval_every_clocks = 10;
  config.train.label_smoothing = 0.2;
  if (lars) {
    config.train.optimizer.kind = OptimizerKind::kLars;
    config.train.optimizer.trust_coefficient = 0.1;
  }
  CAPTURE(groups, shards, lars);
  const testing::TempFolder folder;
  if (groups == 1) {
    config.security.keys = (folder.path() / "keys").string();
    REQUIRE(wire::make_keys(config.security.keys, config.cluster.nodes).is_ok());
  }
  const auto stages = testing::run_network(config);
  const auto whole = testing::run_network(without_pipeline(config));
  CHECK(apart(stages, whole) < 1e-6);
  CHECK(stages.summary.test_accuracy == whole.summary.test_accuracy);
  CHECK(stages.summary.test_loss.value() == Approx(whole.summary.test_loss.value()).epsilon(1e-5));
  CHECK(stages.summary.iterations == whole.summary.iterations);
  REQUIRE(stages.summary.pipeline);
  CHECK(stages.summary.pipeline->stages == 2);
  CHECK(stages.summary.pipeline->micro_batches == 3);
  CHECK(stages.summary.pipeline->bubble_share > 0.0);
  CHECK(stages.summary.pipeline->bubble_share < 1.0);
  for (const std::int64_t bytes : stages.summary.pipeline->peak_activation_bytes) CHECK(bytes > 0);
  CHECK(stages.summary.pipeline->layers == std::vector<std::int64_t>{1, 5});
  CHECK(stages.summary.pipeline->parameters == std::vector<std::int64_t>{152, 330});
  CHECK_FALSE(whole.summary.pipeline);
}

TEST_CASE("interleaved_stages_end_where_the_run_without_a_pipeline_does") {
  const bool sums = GENERATE(false, true);
  RunConfig config = interleaved(sums ? summing(2) : piped(2, 3));
  config.exchange.shard_optimizer = sums;
  config.train.eval_every_clocks = 7;
  const auto stages = testing::run_network(config);
  const auto whole = testing::run_network(without_pipeline(config));
  CHECK(apart(stages, whole) < 1e-6);
  CHECK(stages.summary.test_accuracy == whole.summary.test_accuracy);
  CHECK(stages.summary.iterations == whole.summary.iterations);
  REQUIRE(stages.summary.pipeline);
  CHECK(stages.summary.pipeline->chunks == 2);
  CHECK(stages.summary.pipeline->layers.size() == 4);
  CHECK(stages.summary.pipeline->parameters.size() == 4);
  CHECK(stages.model.info.layout.hash() != whole.model.info.layout.hash());
}

// What is rounded is made up for by the next gradient, wherever a stage's chunks lie.
TEST_CASE("interleaved_stages_that_push_in_fewer_bytes_end_near_where_they_do_in_all_of_them") {
  RunConfig config = interleaved(piped(2, 3));
  config.cluster.shared_memory = SharedMemory::kOff;
  const auto plain = testing::run_network(config);
  config.cluster.gradient_encoding = Encoding::kInt8;
  const auto ran = testing::run_network(config);
  const double far = apart(ran, plain);
  CHECK(far > 0.0);
  CHECK(far < 0.01);
  CHECK(ran.summary.bytes_pushed < 0.7 * static_cast<double>(plain.summary.bytes_pushed));
}

TEST_CASE("interleaved_stages_go_on_from_their_checkpoint_with_the_same_cut_alone") {
  const testing::TempFolder folder;
  RunConfig config = interleaved(piped(2));
  config.train.layers.insert(config.train.layers.end() - 1, {LayerKind::kDense, 12});
  config.pipeline.balance = {BalanceKind::kLayers, {1, 5, 2, 3}};
  config.checkpoint.every_clocks = 5;
  config.run.out = (folder / "run").string();
  const auto expected = testing::run_network(config);
  const std::int64_t all = config.train.total_iterations;
  config.train.total_iterations = all / 2;
  CHECK(session(config, false).message() == "");
  config.train.total_iterations = all;
  RunConfig other = config;
  other.pipeline.balance.layers = {1, 5, 4, 1};
  CHECK_THAT(session(other, true).message(), Catch::Contains("pipeline.balance"));
  CHECK(session(config, true).message() == "");
  const auto summary = read_summary(config.run.out);
  REQUIRE(summary.status().message() == "");
  CHECK((summary->status == "ok" && summary->iterations == all));
  CHECK((summary->generation == 2 && summary->resumed_from == Version(10)));
  CHECK(summary->pipeline->layers == std::vector<std::int64_t>{1, 5, 2, 3});
  auto model = read_model_file(std::filesystem::path(config.run.out) / "model.bin");
  REQUIRE(model.is_ok());
  testing::ClusterRun resumed;
  resumed.model = std::move(model).value();
  CHECK(apart(resumed, expected) < 1e-6);
}

// In one piece a micro-batch is the mini-batch, so what is measured and what evaluations go by is the same.
TEST_CASE("batch_norm_in_stages_ends_where_the_run_without_a_pipeline_does") {
  RunConfig stages = piped(2);
  stages.pipeline.micro_batches = 1;
  stages.train.layers = {{.kind = LayerKind::kConv, .out = 4, .kernel = 5, .stride = 2, .bias = false},
                         {.kind = LayerKind::kBatchNorm},
                         {.kind = LayerKind::kRelu},
                         {.kind = LayerKind::kGlobalAveragePool},
                         {.kind = LayerKind::kDense, .out = 10}};
  // A node for each group, with the mini-batch of its stages.
  RunConfig whole = without_pipeline(stages);
  whole.cluster.nodes = 2;
  whole.train.batch_size = 2 * stages.train.batch_size;
  whole.train.total_iterations = stages.train.total_iterations / 2;
  const auto ran = testing::run_network(stages);
  const auto expected = testing::run_network(whole);
  CHECK(apart(ran, expected) < 1e-6);
  CHECK(ran.summary.test_accuracy == expected.summary.test_accuracy);
}

// A node for each group, with the mini-batch of its stages, in one piece. Stages of a power of two in number have that
// multiple of its gradients, which every encoding says, and owes, alike up to rounding. int8 and top_k go by frames:
// the second stage begins where one does.
TEST_CASE("stages_push_in_fewer_bytes_what_the_network_in_one_piece_does") {
  const auto [encoding, shards] = GENERATE(table<Encoding, std::uint32_t>(
      {{Encoding::kFp16, 3U}, {Encoding::kBf16, 1U}, {Encoding::kInt8, 1U}, {Encoding::kTopK, 1U}}));
  CAPTURE(static_cast<int>(encoding));
  RunConfig stages = piped(2, shards);
  stages.pipeline.micro_batches = 1;
  stages.cluster.shared_memory = SharedMemory::kOff;
  stages.cluster.gradient_encoding = encoding;
  if (encoding == Encoding::kTopK) stages.cluster.top_k_share = 0.1;
  const auto network = build_network(stages);
  REQUIRE(network.is_ok());
  const auto cut = stages_of_run(stages, *network);
  REQUIRE(cut.is_ok());
  stages.cluster.frame_bytes = 4 * cut->back().parameters.begin;
  RunConfig whole = without_pipeline(stages);
  whole.cluster.nodes = 2;
  whole.train.batch_size = 2 * stages.train.batch_size;
  whole.train.total_iterations = stages.train.total_iterations / 2;
  const auto ran = testing::run_network(stages);
  const auto expected = testing::run_network(whole);
  const double together = apart(ran, expected);
  CHECK(together < 1e-6);
  whole.cluster.gradient_encoding = Encoding::kFp32;
  whole.cluster.top_k_share.reset();
  const auto plain = testing::run_network(whole);
  CHECK(apart(ran, plain) > 10 * together);  // so it is the encoding that does it
  CHECK(ran.summary.bytes_pushed < 0.7 * static_cast<double>(plain.summary.bytes_pushed));
}

TEST_CASE("two_groups_are_one_with_the_double_mini_batch") {
  const RunConfig two = piped(2);
  RunConfig one = piped(1);
  one.train.batch_size = 2 * two.train.batch_size;
  CHECK(apart(testing::run_network(one), testing::run_network(two)) < 1e-6);
}

namespace {

// Of each evaluation the loss, by version.
using Losses = std::map<Version, double>;
testing::ClusterRun run_summing(const RunConfig& config, Losses& losses) {
  return testing::run_network(config, [&losses](const wire::PeerId&, const wire::Body& reported) {
    const auto* report = std::get_if<wire::EvaluationReport>(&reported);
    if (report != nullptr && report->fault.empty()) losses[report->version] = report->metric.loss_sum;
  });
}

// Three stages instead, within memory in which no worker has room for the network.
RunConfig in_three_stages(RunConfig config) {
  auto& layers = config.train.layers;
  layers.insert(layers.end() - 1, {LayerConfig{LayerKind::kDense, 12}, LayerConfig{LayerKind::kRelu}});
  config.cluster.nodes = config.cluster.nodes / config.pipeline.stages * 3;
  config.train.total_iterations = config.train.total_iterations / config.pipeline.stages * 3;
  config.pipeline.stages = 3;
  config.pipeline.micro_batches = 12;
  config.pipeline.rematerialize = Rematerialize::kAuto;
  config.pipeline.memory = 48 * 1024;
  RunConfig whole = without_pipeline(config);
  whole.pipeline.memory = config.pipeline.memory;
  const auto network = build_network(whole);
  REQUIRE(network.is_ok());
  CHECK_FALSE(check_memory_of_whole(whole, *network).is_ok());
  return config;
}

}  // namespace

TEST_CASE("groups_that_sum_among_themselves_end_where_those_with_servers_do") {
  const bool shares = GENERATE(false, true);
  RunConfig two = shares ? in_three_stages(summing(2)) : summing(2);
  two.exchange.shard_optimizer = shares;
  two.train.optimizer.kind = OptimizerKind::kAdam;
  two.train.eval_every_clocks = 7;  // the last one, 14, is not the end
  RunConfig servers = two;
  servers.exchange = {};
  RunConfig one = two;
  one.cluster.nodes = two.pipeline.stages;
  one.train.batch_size = 2 * two.train.batch_size;
  one.train.total_iterations = two.train.total_iterations / 2;
  Losses losses_summed;
  const auto summed = run_summing(two, losses_summed);
  CHECK(apart(summed, testing::run_network(one)) < 1e-6);
  Losses losses_served;
  CHECK(apart(summed, run_summing(servers, losses_served)) < 1e-6);
  // One of before the end: node 0 has it from the nodes, not from the server.
  REQUIRE((losses_summed.contains(Version(7)) && losses_served.contains(Version(7))));
  for (const auto& [version, loss] : losses_summed) {
    if (losses_served.contains(version)) CHECK(loss == Approx(losses_served.at(version)).epsilon(1e-5));
  }
  CHECK(summed.summary.exchange == "allreduce");
  CHECK(summed.summary.bytes_reduced.value() > 0);
  CHECK(summed.summary.pipeline->stages == two.pipeline.stages);
  if (shares) return;
  RunConfig half = two;
  half.cluster.gradient_encoding = Encoding::kBf16;
  Losses losses_rounded;
  const auto rounded = run_summing(half, losses_rounded);
  CHECK(2 * rounded.summary.bytes_reduced.value() == summed.summary.bytes_reduced.value());
  CHECK(apart(rounded, summed) > 0);
  // Adam makes whole steps of gradients next to 0, whose sign is rounding's; the loss does not feel them.
  CHECK(losses_rounded.at(Version(7)) == Approx(losses_summed.at(Version(7))).epsilon(0.05));
}

namespace {

// Each gradient is a step of its own, so what a group computes depends on no other's mini-batch.
RunConfig under(PolicyKind policy, std::uint32_t groups) {
  RunConfig config = piped(groups);
  config.train.optimizer.kind = OptimizerKind::kSgd;
  const bool eager = policy == PolicyKind::kAsp;
  config = with_policy(config, policy, eager ? ApplyMode::kEager : ApplyMode::kVersioned, CombineMode::kEach);
  config.sync.threshold = policy == PolicyKind::kSsp ? 2 : 3;
  return config;
}

}  // namespace

// A stage has its own updates, whatever the policy lets others do, and nobody else has any for it.
TEST_CASE("a_group_alone_goes_the_same_way_under_any_policy") {
  const auto expected = testing::run_network(under(PolicyKind::kBsp, 1));
  for (const PolicyKind policy : {PolicyKind::kSsp, PolicyKind::kDtssp, PolicyKind::kAsp}) {
    INFO("policy " << static_cast<int>(policy));
    CHECK(apart(testing::run_network(under(policy, 1)), expected) < 1e-6);
  }
}

// A stage that was a clock ahead of another would wait for it for ever.
TEST_CASE("groups_that_are_stopped_under_any_policy_end_at_whole_steps") {
  for (const PolicyKind policy : {PolicyKind::kSsp, PolicyKind::kDtssp, PolicyKind::kAsp}) {
    INFO("policy " << static_cast<int>(policy));
    RunConfig config = under(policy, 2);
    config.train.total_iterations = 400'000;
    config.train.eval_every_clocks = 5;
    config.run.target_accuracy = 0.001;
    const auto ran = testing::run_network(config);
    CHECK(ran.summary.iterations < config.train.total_iterations);
    CHECK(ran.summary.iterations % 2 == 0);
  }
}

namespace {

RunConfig normalised(std::uint32_t nodes, std::uint32_t group) {
  RunConfig config = without_pipeline(piped(1));
  config.cluster.nodes = nodes;
  config.train.total_iterations = 20 * nodes;
  return with_batch_norms(std::move(config), group);
}

// So do all nodes sum.
RunConfig normalised_and_summing(std::uint32_t nodes, std::uint32_t group) {
  RunConfig config = normalised(nodes, group);
  config.exchange = summing(2).exchange;
  return config;
}

}  // namespace

// Statistics travel as float32.
TEST_CASE("a_group_of_nodes_has_the_batch_norm_of_one_node_with_all_their_samples") {
  RunConfig one = normalised(1, 1);
  one.train.backend = GENERATE(Backend::kReference, Backend::kOnednn);
  RunConfig group = normalised(2, 2);
  group.train.backend = one.train.backend;
  one.train.batch_size = 2 * group.train.batch_size;
  const auto whole = testing::run_network(one);
  const double together = apart(testing::run_network(group), whole);
  CHECK(together < 1e-4);  // a gradient's 1e-6, after twenty steps with momentum
  group.train.batch_norm_group = 1;
  CHECK(apart(testing::run_network(group), whole) > 10.0 * together);  // so it is the group that does it
}

// A node meets all others, and those of its group once more.
TEST_CASE("groups_that_measure_together_end_where_those_with_servers_do_if_all_sum") {
  const testing::TempFolder folder;
  RunConfig summed = normalised_and_summing(4, 2);
  summed.security.keys = (folder.path() / "keys").string();
  REQUIRE(wire::make_keys(summed.security.keys, summed.cluster.nodes).is_ok());
  const auto ran = testing::run_network(summed);
  CHECK(ran.summary.exchange == "allreduce");
  CHECK(apart(ran, testing::run_network(normalised(4, 2))) < 1e-6);
}

namespace {

// Of a node that leaves in its step at clock 7.
class Leaving final : public testing::WrappedTask {
 public:
  Leaving(std::unique_ptr<Task> task, std::function<void()> leave)
      : WrappedTask(std::move(task)), leave_(std::move(leave)) {}
  Status load(const Step& step) override {
    if (step.clock == Clock(7)) leave_();
    return WrappedTask::load(step);
  }

 private:
  const std::function<void()> leave_;
};

}  // namespace

TEST_CASE("who_is_lost_of_a_group_ends_the_run_and_is_named") {
  struct Case {
    RunConfig config;
    const char* needed;
  };
  const Case each =
      GENERATE(Case{piped(2), "stage 1 of group 0"}, Case{summing(2), "stage 1 of group 0"},
               Case{normalised(4, 2), "train.batch_norm_group: the others go by its statistics, too"},
               Case{normalised_and_summing(4, 2), "train.batch_norm_group: the others go by its"});
  const auto ended = testing::run_cluster(
      each.config, [&](NodeId node, const testing::StopNode& stop) -> std::unique_ptr<TaskFactory> {
        auto tasks = testing::network_tasks(each.config);
        if (node != NodeId(1)) return tasks;
        return std::make_unique<testing::WrappedTasks>(
            std::move(tasks), [stop, node](std::unique_ptr<Task> task, WorkerId) {
              return std::make_unique<Leaving>(std::move(task),
                                               [stop, node] { stop(node, "it has enough"); });
            });
      });
  REQUIRE_FALSE(ended.is_ok());
  CHECK_THAT(ended.status().message(), Catch::Contains("node 1 lost: ") && Catch::Contains(each.needed));
}

}  // namespace paceline::test
