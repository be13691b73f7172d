// An authority whose nodes sum gradients among themselves.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/unit/authority_fixture.h"

namespace paceline::server {
namespace {

inline RunConfig reducing_run() {
  RunConfig config = small_run();
  config.cluster.shards = 1;
  config.cluster.endpoints = {"tcp://a:1"};
  config.exchange.kind = ExchangeKind::kAllreduce;
  return config;
}

// Nodes, two if nothing else is said, that have joined and say where they are reached.
struct Reducing : Run {
  explicit Reducing(RunConfig c = reducing_run()) : Run(std::move(c)), nodes(config.cluster.nodes) {
    for (std::uint32_t node = 0; node < nodes; ++node)
      authority->node_joined(NodeId(node), layout_of(8), now, 70 + node, kData);
  }
  void reached_at(const std::string& node_0, const std::string& node_1) {
    send(kNode0, wire::Peers{0, {node_0}});
    send(kNode1, wire::Peers{0, {node_1}});
  }
  void shard_has(std::int64_t version) {
    send(kShard0, wire::ShardReady{ShardId(0), layout_of(8).hash(), Version(version)});
  }
  // The node's report of that clock.
  void steps(std::uint32_t node, std::int64_t clock) { send(Peer::of(NodeId(node)), report_of(node, clock)); }
  // The same with on_nan: skip, of a sum that was not finite.
  void leaves_out(std::uint32_t node, std::int64_t clock) {
    wire::StepReport report = report_of(node, clock);
    report.skipped = true;
    report.fault = "the sum of all gradients is not finite";
    send(Peer::of(NodeId(node)), report);
  }
  // All nodes', whose gradients are summed.
  void step(std::int64_t clock) {
    for (std::uint32_t node = 0; node < nodes; ++node) steps(node, clock);
  }
  // Where the first such message to that node stands among all.
  template <typename Body>
  std::ptrdiff_t place_of(const std::function<bool(const Body&)>& is_it, Peer to = kNode0) const {
    const auto found = std::find_if(sent.entries.begin(), sent.entries.end(), [&](const Sent::Entry& entry) {
      const auto* body = std::get_if<Body>(&entry.message.body);
      return entry.to == to && body != nullptr && is_it(*body);
    });
    REQUIRE(found != sent.entries.end());
    return found - sent.entries.begin();
  }
  std::ptrdiff_t grant_of(std::int64_t clock, Peer to = kNode0) const {
    return place_of<wire::Grant>([clock](const wire::Grant& grant) { return grant.clock == Clock(clock); },
                                 to);
  }
  // Node 0 evaluates the run's last version, which the shard has.
  void model_is_evaluated(Version version) {
    const auto pull = sent.of<wire::Pull>(kShard0).at(0);
    send(kShard0,
         wire::Parameters{pull.request, ShardId(0), version, Revision(version.value * nodes), 0, true, {}},
         std::vector<float>(8, 1.0F));
    send(kNode0, wire::EvaluationReport{version, {1.0, 1, 10}, ""});
  }

  const std::uint32_t nodes;

 private:
  static wire::StepReport report_of(std::uint32_t node, std::int64_t clock) {
    wire::StepReport report;
    report.worker = WorkerId(node, 0);
    report.clock = Clock(clock);
    report.computed_version = Version(clock);
    report.metric = {1.0, 5, 10};
    return report;
  }
};

// The shard has the initial parameters.
struct ReducingFromStart : Reducing {
  explicit ReducingFromStart(RunConfig c = reducing_run()) : Reducing(std::move(c)) { shard_has(0); }
};

}  // namespace
}  // namespace paceline::server
