#include "tests/process/local_cluster.h"

#include <optional>
#include <thread>
#include <utility>

#include "common/wire/transport.h"
#include "server/server.h"
#include "tests/process/relay.h"
#include "tests/process/transport.h"
#include "tests/unit/temp_folder.h"
#include "worker/node.h"

namespace paceline::testing {

Result<ClusterRun> run_cluster(
    RunConfig config, const std::function<std::unique_ptr<TaskFactory>(NodeId, const StopNode&)>& tasks,
    const std::function<void(const RunConfig&)>& elsewhere, const Observe& observe,
    const NodeOptions& node_options, const std::optional<Breaks>& breaks) {
  const TempFolder folder;
  config.run.out = (folder.path() / "run").string();
  std::filesystem::create_directory(config.run.out);
  const bool tcp = over_tcp(config);
  const auto address = [&](const std::string& name) {
    return tcp ? kAnyPort : "ipc://" + (folder.path() / name).string();
  };
  config.cluster.endpoints.clear();

  wire::Context context;
  std::vector<std::unique_ptr<BreakingRelay>> breaking;
  // Where whoever is to go through it finds server `k`: another relay for the nodes than for the other
  // servers.
  const auto through_relay = [&](std::uint32_t k, const std::string& whose) {
    Breaks of_these = *breaks;
    of_these.seed += breaking.size();
    breaking.push_back(std::make_unique<BreakingRelay>(
        config.cluster.endpoints[k], address("breaks-" + whose + std::to_string(k)), of_these));
    return breaking.back()->endpoint();
  };
  for (std::uint32_t k = 0; k < config.cluster.shards; ++k) {
    config.cluster.endpoints.push_back(address(std::to_string(k)));
  }
  std::vector<std::unique_ptr<server::Server>> servers;
  RunConfig of_servers = config;
  for (std::uint32_t k = 0; k < config.cluster.shards; ++k) {
    servers.push_back(
        std::make_unique<server::Server>(of_servers, ShardId(k), context, Log(), server::ServerOptions()));
    PACELINE_RETURN_IF_ERROR(servers.back()->start());
    config.cluster.endpoints[k] = servers.back()->endpoint();
    if (k == 0)
      of_servers.cluster.endpoints[0] = breaks ? through_relay(0, "servers-") : servers.back()->endpoint();
  }
  std::optional<Relay> relay;
  RunConfig of_nodes = config;
  if (observe) {
    relay.emplace(context, config.cluster.endpoints[0], address("relay"), observe);
    of_nodes.cluster.endpoints[0] = relay->endpoint();
  }
  for (std::uint32_t k = 0; breaks && k < config.cluster.shards; ++k) {
    of_nodes.cluster.endpoints[k] = through_relay(k, "nodes-");
  }
  std::vector<std::unique_ptr<Node>> nodes(config.cluster.nodes);
  const StopNode stop = [&nodes](NodeId node, const std::string& reason) {
    nodes[node.value]->request_stop(reason);
  };
  for (std::uint32_t i = 0; i < config.cluster.nodes; ++i) {
    std::unique_ptr<TaskFactory> its = tasks(NodeId(i), stop);
    if (its == nullptr) continue;
    nodes[i] = std::make_unique<Node>(of_nodes, NodeId(i), context, std::move(its), Log(), node_options);
  }
  if (elsewhere) elsewhere(config);

  ClusterRun run;
  run.servers.resize(servers.size());
  run.nodes.resize(nodes.size());
  std::vector<std::thread> threads;
  for (std::size_t k = 0; k < servers.size(); ++k) {
    threads.emplace_back([&, k] { run.servers[k] = servers[k]->run(); });
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i] != nullptr) threads.emplace_back([&, i] { run.nodes[i] = nodes[i]->run(); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& each : breaking) run.broken += each->broken();
  if (breaks) run.broken_of_servers = breaking.front()->broken();
  relay.reset();  // whatever was said has been heard

  auto summary = read_summary(config.run.out);
  auto model = read_model_file(std::filesystem::path(config.run.out) / "model.bin");
  const std::string authority = "authority: " + (run.servers[0] ? "ok" : run.servers[0].message());
  if (!summary) return Status(summary.status()).with_context(authority);
  if (!model) return Status(model.status()).with_context(authority);
  run.summary = std::move(summary).value();
  run.model = std::move(model).value();
  return run;
}

}  // namespace paceline::testing
