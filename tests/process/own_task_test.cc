// A user's own task through the library: real servers and nodes in one process, real sockets between them,
// and at the end the numbers that the regression should find.
#include <catch2/catch.hpp>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "common/config/load.h"
#include "common/params/model_file.h"
#include "examples/own_task/linear_task.h"
#include "server/server.h"
#include "tests/unit/temp_folder.h"
#include "worker/node.h"

namespace paceline {
namespace {

using testing::TempFolder;

RunConfig config_for(const TempFolder& folder, const std::string& sync, std::uint32_t shards) {
  std::string endpoints;
  for (std::uint32_t k = 0; k < shards; ++k) {
    endpoints += (k == 0 ? "" : ", ") + ("'ipc://" + (folder / std::to_string(k)).string() + "'");
  }
  const auto config =
      parse_config("run: {name: own, out: " + folder.path().string() + "}\n" +
                       "cluster: {nodes: 2, threads_per_node: 2, shards: " + std::to_string(shards) +
                       ", endpoints: [" + endpoints + "]}\n" + "sync: " + sync + "\n" +
                       "train: {optimizer: {kind: sgd, lr: 0.1}, batch_size: 16, "
                       "total_iterations: 400, eval_every_clocks: 20}\n",
                   "test", {});
  INFO(config.status().message());
  REQUIRE(config.is_ok());
  return config.value();
}

// Runs servers and nodes to their end; the statuses of all of them.
std::vector<Status> run_all(const RunConfig& config) {
  wire::Context context;
  std::vector<std::unique_ptr<server::Server>> servers;
  for (std::uint32_t k = 0; k < config.cluster.shards; ++k) {
    servers.push_back(
        std::make_unique<server::Server>(config, ShardId(k), context, Log(), server::ServerOptions{}));
    const Status started = servers.back()->start();
    INFO(started.message());
    REQUIRE(started.is_ok());
  }
  std::vector<std::future<Status>> running;
  for (auto& server : servers)
    running.push_back(std::async(std::launch::async, [&] { return server->run(); }));
  for (std::uint32_t i = 0; i < config.cluster.nodes; ++i) {
    running.push_back(std::async(std::launch::async, [&, i] {
      Node node(config, NodeId(i), context, std::make_unique<example::LinearTasks>(config.run.seed));
      return node.run();
    }));
  }
  std::vector<Status> ended;
  for (auto& one : running) ended.push_back(one.get());
  return ended;
}

TEST_CASE("a user's own task trains under every policy, through one server and through two") {
  const std::string sync =
      GENERATE(as<std::string>{}, "{policy: bsp}", "{policy: asp}", "{policy: ssp, threshold: 2}",
               "{policy: ssp, threshold: 2, apply: eager}", "{policy: dtssp, lpr: {window_clocks: 10}}");
  const std::uint32_t shards = GENERATE(1U, 2U);
  CAPTURE(sync, shards);
  const TempFolder folder;
  for (const Status& ended : run_all(config_for(folder, sync, shards))) {
    INFO(ended.message());
    CHECK(ended.is_ok());
  }
  const auto model = read_model_file(folder / "model.bin");
  INFO(model.status().message());
  REQUIRE(model.is_ok());
  REQUIRE(model->parameters.size() == example::kTruth.size());
  for (std::size_t i = 0; i < example::kTruth.size(); ++i) {
    // The noise of 0.01 a sample leaves about 0.01 / sqrt(16 * 4) at a learning rate of 0.1; asynchrony a
    // little more.
    CHECK(model->parameters[i] == Approx(example::kTruth[i]).margin(0.02));
  }
}

}  // namespace
}  // namespace paceline
