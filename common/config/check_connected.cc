// What nodes that are connected to each other go with: an all-reduce, stages of a pipeline, groups of batch norm.
#include <string>

#include "common/config/checks.h"
#include "common/config/domain.h"
#include "common/config/names.h"

namespace paceline::config {

void check_connected(Validator& validator, const RunConfig& c, const char* by) {
  const auto only_with = [&](bool wrong, const char* key, const std::string& why, const std::string& got,
                             const std::string& expected) {
    validator.refuse_if(wrong, {key, by}, why, got + " with " + by, expected);
  };
  only_with(c.cluster.nodes_at_start.has_value(), "cluster.nodes", "every node is needed",
            node_counts().write(c.cluster), "a number");
  only_with(c.cluster.replicas != 1, "cluster.replicas", "a server that is replaced ends the run",
            std::to_string(c.cluster.replicas), "1");
  only_with(c.cluster.reconnect_timeout > Duration(0), "cluster.reconnect_timeout",
            "nodes do not connect to each other again", "a time", "0s");
}

void check_norm_group(Validator& validator, const RunConfig& c) {
  constexpr const char* kKey = "train.batch_norm_group";
  const std::uint32_t group = c.train.batch_norm_group;
  if (group == 1) return;
  const auto only_with = [&](bool wrong, const char* key, const std::string& why, const std::string& got,
                             const std::string& expected) {
    validator.refuse_if(wrong, {key, kKey}, why, got + " with " + kKey + ": " + std::to_string(group),
                        expected);
  };
  check_connected(validator, c, kKey);
  validator.refuse_if(c.cluster.nodes % group != 0, {kKey, "cluster.nodes"},
                      "a group that does not divide the nodes",
                      std::to_string(group) + " for " + std::to_string(c.cluster.nodes) + " nodes",
                      "a divisor of cluster.nodes");
  only_with(c.cluster.threads_per_node != 1, "cluster.threads_per_node", "a member is a node",
            std::to_string(c.cluster.threads_per_node), "1");
  only_with(c.sync.policy != PolicyKind::kBsp || !c.sync.stages.empty(), "sync.policy",
            "members compute at the same clock", name_of(c.sync.policy), "bsp");
  only_with(c.exchange.kind == ExchangeKind::kAllreduce && c.exchange.on_loss == OnLoss::kGoOn,
            "exchange.on_loss", "no group goes on without one of its members", "exchange.on_loss: go_on",
            "stop");
  only_with(c.pipeline.enabled(), "pipeline.stages", "nodes have one set of connections",
            std::to_string(c.pipeline.stages), "1");
  only_with(c.train.share != Share::kEven || c.train.total_iterations % c.cluster.nodes != 0,
            even_key(c.train), "every member takes part in every step",
            std::to_string(c.train.total_iterations) + " iterations, share: " + name_of(c.train.share),
            "share: even and a multiple of " + std::to_string(c.cluster.nodes) + " nodes");
  only_with(c.train.has_inner_optimizer, "train.local_steps", "members compute with the same parameters",
            std::to_string(c.train.local_steps), "no inner_optimizer");
  only_with(c.train.batch_balance != BatchSizing::kEqual, "train.batch_balance",
            "members wait for each other, so all look equally slow", "speed", "off");
  only_with(c.train.precision == Precision::kFp16, "train.precision",
            "each member has a loss scale of its own", "fp16", "fp32, tf32 or bf16");
  only_with(c.train.on_nan != OnNan::kStop, "train.on_nan", "a group's gradient counts whole", "skip",
            "stop");
  only_with(c.emulate.base_step.has_value(), "emulate.base_step", "a step waits for the other members",
            "a time", "null");
  only_with(c.train.accumulate != 1, "train.accumulate", "a mini-batch in parts has statistics of parts",
            std::to_string(c.train.accumulate), "1");
}

}  // namespace paceline::config
