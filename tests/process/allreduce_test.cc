// Runs whose nodes sum their gradients among themselves: they end where those with servers do, and every node has the
// same bits at every clock.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/trace/trace_file.h"
#include "common/wire/keys.h"
#include "tests/process/network_run.h"
#include "tests/process/summing_run.h"
#include "tests/unit/temp_folder.h"
#include "tests/unit/wrapped_tasks.h"
#include "worker/mesh/peer_socket.h"

namespace paceline::test {

TEST_CASE("an_all_reduce_goes_where_servers_go_with_the_same_bits_on_every_node_and_again") {
  const auto [algorithm, nodes] = GENERATE(table<Algorithm, std::uint32_t>({{Algorithm::kRing, 3U},
                                                                            {Algorithm::kHalvingDoubling, 4U},
                                                                            {Algorithm::kBinaryBlocks, 3U},
                                                                            {Algorithm::kTorus, 4U},
                                                                            {Algorithm::kHierarchical, 4U},
                                                                            {Algorithm::kDirect, 3U},
                                                                            {Algorithm::kTree, 3U},
                                                                            // Of two the order makes no bits.
                                                                            {Algorithm::kAuto, 2U}}));
  const RunConfig config = summing(algorithm, nodes);
  CAPTURE(static_cast<int>(algorithm), nodes);
  Records records(nodes);
  const auto ended = testing::run_cluster(
      config, [&](NodeId node, const testing::StopNode&) { return records.make(config, node); });
  INFO(ended.status().message());
  REQUIRE(ended.is_ok());
  CHECK(ended->summary.status == "ok");
  CHECK(ended->summary.iterations == config.train.total_iterations);
  CHECK(ended->summary.algorithms.front().starts_with(algorithm == Algorithm::kAuto ? "up to " : "all: "));
  REQUIRE(records.of(0).size() == 20);
  for (std::size_t node = 1; node < nodes; ++node) {
    REQUIRE(records.of(node).size() == 20);
    for (std::size_t clock = 0; clock < 20; ++clock) {
      REQUIRE(same_floats(records.of(node)[clock], records.of(0)[clock]));
    }
  }
  Records served(nodes);
  const auto by_servers = testing::run_cluster(
      with_servers(config), [&](NodeId node, const testing::StopNode&) { return served.make(config, node); });
  REQUIRE(by_servers.is_ok());
  REQUIRE(served.of(0).size() == 20);
  // Rounding alone: the sums are of the same floats in another order.
  for (std::size_t clock = 0; clock < 20; ++clock) {
    CHECK(testing::apart(records.of(0)[clock], served.of(0)[clock]) < 1e-6);
  }
  CHECK(testing::apart(ended->model.parameters, by_servers->model.parameters) < 1e-6);
  CHECK(same_floats(ended->model.parameters, testing::run_network(config).model.parameters));
}

namespace {

// Of whose mini-batches some have fewer samples: node 1's of every third clock, and of clock 10 all, as at an epoch's
// end.
std::unique_ptr<TaskFactory> of_other_samples(const RunConfig& config) {
  class Fewer final : public testing::WrappedTask {
   public:
    Fewer(std::unique_ptr<Task> task, WorkerId worker) : WrappedTask(std::move(task)), worker_(worker) {}
    Status load(const Step& step) override {
      const bool fewer = step.clock == Clock(10) || (worker_.node == NodeId(1) && step.clock.value % 3 == 0);
      Step taken = step;
      if (fewer) taken.batch.samples -= 1;
      return WrappedTask::load(taken);
    }

   private:
    const WorkerId worker_;
  };
  return std::make_unique<testing::WrappedTasks>(testing::network_tasks(config),
                                                 [](std::unique_ptr<Task> task, WorkerId worker) {
                                                   return std::make_unique<Fewer>(std::move(task), worker);
                                                 });
}

testing::ClusterRun run_of_other_samples(const RunConfig& config) {
  auto ended = testing::run_cluster(
      config, [&](NodeId, const testing::StopNode&) { return of_other_samples(config); });
  INFO(ended.status().message());
  REQUIRE(ended.is_ok());
  return std::move(ended).value();
}

}  // namespace

// Their gradients leave layer by layer, before anybody knows.
TEST_CASE("mini_batches_of_other_sizes_weigh_by_their_samples_as_with_servers") {
  const auto [nodes, threads, encoding, apart] =
      GENERATE(table<std::uint32_t, std::uint32_t, Encoding, double>(
          {{3U, 1U, Encoding::kFp32, 1e-6}, {2U, 2U, Encoding::kFp16, 2e-3}}));
  RunConfig config = summing(Algorithm::kRing, nodes, threads);
  const auto served = run_of_other_samples(with_servers(config)).model.parameters;
  CHECK(testing::apart(testing::run_network(with_servers(config)).model.parameters, served) > 1e-2);
  config.cluster.gradient_encoding = encoding;
  const auto summed = run_of_other_samples(config).model.parameters;
  CHECK(testing::apart(summed, served) < apart);
  config.exchange.shard_optimizer = true;
  CHECK(same_floats(run_of_other_samples(config).model.parameters, summed));
}

TEST_CASE("deltas_of_local_steps_are_averaged_and_stepped_by_every_node_as_by_servers") {
  RunConfig config = with_local_steps(summing(Algorithm::kRing, 3), 5);
  config.train.optimizer.of_deltas = true;
  config.train.optimizer.lr = 0.7;
  const auto summed = testing::run_network(config);
  // Local steps carry a rounding on.
  CHECK(testing::apart(summed.model.parameters, testing::run_network(with_servers(config)).model.parameters) <
        1e-5);
  CHECK(summed.summary.final_version == Version(4));
  CHECK(summed.summary.iterations == config.train.total_iterations);
}

// Sums and steps are the same, by whomever they are made.
TEST_CASE("nodes_that_step_a_part_each_have_the_bits_of_those_that_step_all") {
  const auto [algorithm, nodes] = GENERATE(table<Algorithm, std::uint32_t>({{Algorithm::kRing, 3U},
                                                                            {Algorithm::kHalvingDoubling, 4U},
                                                                            {Algorithm::kBinaryBlocks, 3U},
                                                                            {Algorithm::kTorus, 4U},
                                                                            {Algorithm::kHierarchical, 4U},
                                                                            {Algorithm::kDirect, 3U}}));
  RunConfig config = summing(algorithm, nodes);
  config.train.optimizer.kind = GENERATE(OptimizerKind::kMomentum, OptimizerKind::kAdam);
  config.exchange.on_loss = GENERATE(OnLoss::kGoOn, OnLoss::kStop);
  const bool adam = config.train.optimizer.kind == OptimizerKind::kAdam;
  config.cluster.gradient_encoding = adam ? Encoding::kBf16 : Encoding::kFp32;
  const auto whole = testing::run_network(config);
  config.exchange.shard_optimizer = true;
  const auto shares = testing::run_network(config);
  CHECK(same_floats(shares.model.parameters, whole.model.parameters));
  CHECK(shares.summary.status == "ok");
  // A keeper is sent what it keeps as well; parameters are copied as fp32.
  CHECK((shares.summary.bytes_reduced == whole.summary.bytes_reduced) ==
        (config.exchange.on_loss == OnLoss::kStop && config.cluster.gradient_encoding == Encoding::kFp32));
}

// Parts end where tensors do, so sums are in another order.
TEST_CASE("nodes_that_step_whole_tensors_each_end_where_those_that_step_all_do") {
  const auto [algorithm, nodes, optimizer] = GENERATE(table<Algorithm, std::uint32_t, OptimizerKind>(
      {{Algorithm::kRing, 3U, OptimizerKind::kLars}, {Algorithm::kTorus, 4U, OptimizerKind::kLamb}}));
  RunConfig config = summing(algorithm, nodes);
  config.train.optimizer.kind = optimizer;
  config.train.optimizer.lr = optimizer == OptimizerKind::kLars ? 0.05 : 0.01;
  config.train.optimizer.trust_coefficient = 0.1;  // of lars
  const auto whole = testing::run_network(config);
  config.exchange.shard_optimizer = true;
  CHECK(testing::apart(testing::run_network(config).model.parameters, whole.model.parameters) < 1e-6);
}

TEST_CASE("gradients_that_travel_as_bf16_take_half_of_the_bytes_and_end_near_by") {
  RunConfig config = summing(Algorithm::kRing, 3);
  const auto whole = testing::run_network(config);
  config.cluster.gradient_encoding = Encoding::kBf16;
  Records records(3);
  const auto ended = testing::run_cluster(
      config, [&](NodeId node, const testing::StopNode&) { return records.make(config, node); });
  REQUIRE(ended.is_ok());
  CHECK(2 * ended->summary.bytes_reduced.value() == whole.summary.bytes_reduced.value());
  CHECK(testing::apart(ended->model.parameters, whole.model.parameters) < 1e-2);
  CHECK(testing::apart(ended->model.parameters, whole.model.parameters) > 0);
  for (std::size_t clock = 0; clock < 20; ++clock) {
    REQUIRE(same_floats(records.of(1)[clock], records.of(0)[clock]));
    REQUIRE(same_floats(records.of(2)[clock], records.of(0)[clock]));
  }
}

namespace {

// Whose run's folder is there as long as they are: reads its node's part of the trace as they end.
class TracedTasks final : public testing::WrappedTasks {
 public:
  TracedTasks(const RunConfig& config, NodeId node, const std::filesystem::path& run, trace::Trace& part)
      : WrappedTasks(testing::network_tasks(config), [](auto task, WorkerId) { return task; }),
        node_(node),
        run_(run),
        part_(part) {}
  ~TracedTasks() override {
    const auto read = trace::read_trace_file(run_ / trace::part_name(node_));
    if (read.is_ok()) part_ = *read;
  }

 private:
  const NodeId node_;
  const std::filesystem::path& run_;
  trace::Trace& part_;
};

}  // namespace

TEST_CASE("a_traced_run_has_a_row_for_each_bucket_of_each_step_whose_bytes_are_those_that_were_reduced") {
  RunConfig config = summing(Algorithm::kRing, 2);
  config.run.trace = true;
  config.exchange.shard_optimizer = GENERATE(false, true);
  std::filesystem::path run;
  trace::Trace parts[2];
  const auto ended = testing::run_cluster(
      config,
      [&](NodeId node, const testing::StopNode&) {
        return std::make_unique<TracedTasks>(config, node, run, parts[node.value]);
      },
      [&](const RunConfig& as_run) { run = as_run.run.out; });
  REQUIRE(ended.is_ok());
  std::int64_t bytes = 0;
  for (const trace::Trace& part : parts) {
    REQUIRE(part.buckets.size() == 1);
    std::map<std::pair<Clock, bool>, std::vector<std::int64_t>> rows;  // of a step, of sums or copies
    for (const BucketSpan& span : part.buckets[0].spans) {
      rows[{span.clock, span.copies}].push_back(span.bucket);
      bytes += span.bytes;
    }
    CHECK(rows.size() == (config.exchange.shard_optimizer ? 40 : 20));
    const std::vector<std::int64_t> all = rows.begin()->second;
    CHECK(all.size() > 1);
    for (const auto& [step, buckets] : rows) {
      CHECK(buckets == all);
      CHECK(std::is_sorted(buckets.begin(), buckets.end(), std::less_equal<>()));
    }
  }
  CHECK(bytes == ended->summary.bytes_reduced);
}

TEST_CASE("with_keys_a_run_ends_in_the_same_bits") {
  RunConfig config = summing(Algorithm::kRing, 3);
  config.cluster.shared_memory = GENERATE(SharedMemory::kOff, SharedMemory::kAuto);
  const auto without = testing::run_network(config);
  const testing::TempFolder folder;
  config.security.keys = (folder.path() / "keys").string();
  REQUIRE(wire::make_keys(config.security.keys, config.cluster.nodes).is_ok());
  const auto with = testing::run_network(config);
  CHECK(same_floats(with.model.parameters, without.model.parameters));
  CHECK(with.summary.bytes_reduced == without.summary.bytes_reduced);
}

TEST_CASE("nodes_are_reached_where_cluster_mesh_address_says") {
  RunConfig config = summing(Algorithm::kRing, 2);
  config.cluster.mesh_address = "127.0.0.2";  // the server is at 127.0.0.1
  CHECK(same_floats(testing::run_network(config).model.parameters,
                    testing::run_network(summing(Algorithm::kRing, 2)).model.parameters));
  const auto taken = mesh::listen_at("127.0.0.2");
  REQUIRE(taken.is_ok());
  const std::string port = taken->endpoint.substr(taken->endpoint.rfind(':') + 1);
  config.cluster.mesh_address = "127.0.0.2:" + port + "-" + port;
  const auto ended = testing::run_cluster(
      config, [&](NodeId, const testing::StopNode&) { return testing::network_tasks(config); });
  CHECK_THAT(ended.status().message(), Catch::Contains("cluster.mesh_address: 127.0.0.2:" + port + "-" +
                                                       port + ": cannot listen at 127.0.0.2, ports " + port +
                                                       " to " + port + ": Address already in use"));
}

TEST_CASE("a_node_alone_steps_by_itself") {
  const RunConfig config = summing(Algorithm::kAuto, 1);
  CHECK(testing::apart(testing::run_network(config).model.parameters,
                       testing::run_network(with_servers(config)).model.parameters) < 1e-6);
}

TEST_CASE("an_all_reduce_ends_at_max_seconds_with_whole_steps") {
  RunConfig config = summing(Algorithm::kRing, 2);
  config.train.total_iterations = 2'000'000;
  config.run.max_seconds = std::chrono::milliseconds(1);
  const auto ended = testing::run_network(config);
  CHECK(ended.summary.status == "ok");
  CHECK(ended.summary.iterations == 2 * ended.summary.final_version.value);
  CHECK(ended.summary.test_loss.has_value());
}

TEST_CASE("nodes_of_several_threads_sum_theirs_first") {
  RunConfig config = summing(Algorithm::kAuto, 2, 2);
  config.train.optimizer.kind = GENERATE(OptimizerKind::kMomentum, OptimizerKind::kLars);
  CHECK(testing::apart(testing::run_network(config).model.parameters,
                       testing::run_network(with_servers(config)).model.parameters) < 1e-6);
}

TEST_CASE("nodes_evaluate_what_they_have_at_the_versions_asked_for") {
  RunConfig config = summing(Algorithm::kRing, 2);
  config.train.eval_every_clocks = 8;
  const auto summed = testing::run_network(config);
  const auto served = testing::run_network(with_servers(config));
  CHECK(summed.summary.test_accuracy == served.summary.test_accuracy);
  CHECK(summed.summary.test_loss.value() == Approx(served.summary.test_loss.value()).epsilon(1e-5));
  CHECK(summed.summary.status == "ok");
}

}  // namespace paceline::test
