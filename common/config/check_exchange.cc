// What an all-reduce among the nodes goes with: rounds in which every worker takes part, one coordinator.
#include <algorithm>
#include <bit>
#include <string>

#include "common/config/checks.h"
#include "common/config/names.h"
#include "common/config/reducing.h"

namespace paceline::config {
namespace {

// Each node makes and checks the plans of all: with so many 2 million rows, some 200 MB, until its own are taken out.
constexpr std::uint32_t kNodesMax = 1024;

void check_plan(Validator& validator, const RunConfig& c) {
  const ExchangeSection& exchange = c.exchange;
  const std::uint32_t ranks = reducing_ranks(c);
  const std::string nodes = std::to_string(ranks) + (c.pipeline.enabled() ? " groups" : " nodes");
  validator.refuse_if(
      exchange.algorithm == schedule::Algorithm::kHalvingDoubling && !std::has_single_bit(ranks),
      {"exchange.algorithm", "cluster.nodes"}, "halves need a power of two", "halving_doubling with " + nodes,
      "binary_blocks, or a power of two of them");
  if (exchange.grid.empty()) return;
  std::string grid;
  for (const std::uint32_t side : exchange.grid) grid += (grid.empty() ? "" : " x ") + std::to_string(side);
  const bool fits = exchange.grid.size() == 2 && std::uint64_t{exchange.grid[0]} * exchange.grid[1] == ranks;
  validator.refuse_if(!fits, {"exchange.grid"}, "a grid that does not fit", grid,
                      "[rows, columns] with rows x columns = " + nodes);
}

void check_shares(Validator& validator, const RunConfig& c) {
  const auto only_with = [&](bool wrong, const char* key, const std::string& why, const std::string& got,
                             const std::string& expected) {
    validator.refuse_if(wrong, {key, "exchange.shard_optimizer"}, why, got + " with exchange.shard_optimizer",
                        expected);
  };
  only_with(c.exchange.algorithm == schedule::Algorithm::kTree, "exchange.algorithm",
            "node 0 sums everything", "tree", "auto, or one of the others");
}

// Whether nothing is ever granted ahead. `sync`: a policy's thresholds.
template <typename Thresholds>
bool never_ahead(PolicyKind policy, const Thresholds& sync) {
  switch (policy) {
    case PolicyKind::kBsp:
    case PolicyKind::kBackup:
      return true;
    case PolicyKind::kSsp:
      return sync.threshold == 0;
    case PolicyKind::kDtssp:
    case PolicyKind::kRandomWalk:
      return sync.threshold_max == 0;
    case PolicyKind::kDssp:  // of one extra iteration none follows another
      return sync.threshold_min == 0 && sync.threshold_max <= 1;
    case PolicyKind::kAsp:
    case PolicyKind::kSwitch:
      break;
  }
  return false;
}

bool has_asp(const SyncSection& sync) {
  if (sync.policy != PolicyKind::kSwitch) return sync.policy == PolicyKind::kAsp;
  return std::any_of(sync.stages.begin(), sync.stages.end(),
                     [](const PolicyStage& stage) { return stage.policy == PolicyKind::kAsp; });
}

void check_fragments(Validator& validator, const RunConfig& c) {
  const std::int64_t fragments = c.exchange.fragments;
  if (fragments == 1) return;
  const auto only_with = [&](bool wrong, const char* key, const std::string& why, const std::string& got,
                             const std::string& expected) {
    validator.refuse_if(wrong, {"exchange.fragments", key}, why, std::to_string(fragments) + " with " + got,
                        expected);
  };
  only_with(!c.exchange.hidden, "exchange.hidden", "there is no round that they could leave in",
            "hidden: false", "hidden: true, or 1");
  if (!c.exchange.hidden) return;
  only_with(fragments > c.train.local_steps, "train.local_steps", "each leaves behind a local step",
            "local_steps: " + std::to_string(c.train.local_steps),
            "at most " + std::to_string(c.train.local_steps));
  only_with(c.train.local_time.has_value(), "train.local_time", "the end of a round is not known before",
            "a local_time", "local_time: null, or 1");
  only_with(c.train.local_balance != BatchSizing::kEqual, "train.local_balance",
            "a slow worker's round may have fewer steps than that", "local_balance: speed",
            "local_balance: off, or 1");
  only_with(c.cluster.parameter_encoding != Encoding::kFp32, "cluster.parameter_encoding",
            "a part of a server's parameters is sent as it is",
            std::string("parameter_encoding: ") + name_of(c.cluster.parameter_encoding),
            "parameter_encoding: fp32, or 1");
}

void check_hidden(Validator& validator, const RunConfig& c) {
  if (!c.exchange.hidden) return;
  const auto only_with = [&](bool wrong, const char* key, const std::string& why, const std::string& got,
                             const std::string& expected) {
    validator.refuse_if(wrong, {"exchange.hidden", key}, why, "hidden with " + got, expected);
  };
  only_with(c.exchange.kind != ExchangeKind::kServer, "exchange.kind", "a sum waits for every node",
            std::string("kind: ") + name_of(c.exchange.kind), "kind: server, or hidden: false");
  only_with(!c.train.has_inner_optimizer, "train.local_steps", "there is nothing to go on with",
            "no inner_optimizer", "train.local_steps and train.inner_optimizer, or hidden: false");
  only_with(has_asp(c.sync), "sync.policy", "nothing bounds the age of what it computes with", "asp",
            "a policy with a threshold, or hidden: false");
  only_with(!grants_ahead(c.sync), "sync.policy", "what is hidden is one round old",
            std::string("policy: ") + name_of(c.sync.policy) + ", threshold 0",
            "ssp with a threshold of 1, or another that is above 0");
}

}  // namespace

bool grants_ahead(const SyncSection& sync) {
  if (has_asp(sync)) return false;
  if (sync.policy != PolicyKind::kSwitch) return !never_ahead(sync.policy, sync);
  return !std::all_of(sync.stages.begin(), sync.stages.end(),
                      [](const PolicyStage& stage) { return never_ahead(stage.policy, stage); });
}

void check_exchange(Validator& validator, const RunConfig& c) {
  check_hidden(validator, c);
  check_fragments(validator, c);
  if (c.exchange.kind != ExchangeKind::kAllreduce) return;
  const auto only_with = [&](bool wrong, const char* key, const std::string& why, const std::string& got,
                             const std::string& expected) {
    validator.refuse_if(wrong, {key, "exchange.kind"}, why, got + " with exchange.kind: allreduce", expected);
  };
  check_connected(validator, c, "exchange.kind");
  only_with(c.sync.policy != PolicyKind::kBsp, "sync.policy", "an all-reduce waits for every worker",
            name_of(c.sync.policy), "bsp, or exchange.kind: server");
  only_with(c.cluster.nodes > kNodesMax, "cluster.nodes", "each node plans for all",
            std::to_string(c.cluster.nodes), "at most " + std::to_string(kNodesMax));
  only_with(c.sync.combine != CombineMode::kMean, "sync.combine", "what is summed is divided by all",
            name_of(c.sync.combine), "mean");
  only_with(c.cluster.shards != 1, "cluster.shards", "no gradient goes to a server",
            std::to_string(c.cluster.shards), "1");
  only_with(c.cluster.shared_memory == SharedMemory::kOn, "cluster.shared_memory",
            "nodes share memory where they are on one machine, and else send", "on", "auto or off");
  only_with(!only_rounds(c.cluster.gradient_encoding), "cluster.gradient_encoding",
            "a sum is not to lose what one node leaves out", name_of(c.cluster.gradient_encoding),
            "fp32, fp16 or bf16");
  only_with(c.cluster.parameter_encoding != Encoding::kFp32, "cluster.parameter_encoding",
            "no worker takes parameters from a server", name_of(c.cluster.parameter_encoding), "fp32");
  only_with(c.cluster.apply_threads.has_value(), "cluster.apply_threads", "no server applies a gradient",
            "a number", "null");
  only_with(c.train.warm_start_steps > 0, "train.warm_start_steps",
            "the others meet node 0 within cluster.start_timeout", std::to_string(c.train.warm_start_steps),
            "0, or exchange.kind: server");
  const std::int64_t workers = std::int64_t{c.cluster.nodes} * c.cluster.threads_per_node;
  only_with(c.train.share != Share::kEven || c.train.rounds() % workers != 0, even_key(c.train),
            "every worker takes part in every step",
            std::to_string(c.train.total_iterations) + " iterations, share: " + name_of(c.train.share),
            "share: even and a multiple of " + std::to_string(workers * c.train.local_steps) +
                (c.train.local_steps == 1 ? " workers" : " local steps of all workers"));
  only_with(c.train.sizing() != BatchSizing::kEqual, balance_key(c.train),
            "a step is reported after its sum, so all look equally slow", "speed", "off");
  only_with(c.train.local_time.has_value(), "train.local_time", "a sum waits for every delta", "a time",
            "null");
  only_with(c.train.optimizer.delay_compensation.kind != CompensationKind::kNone,
            "train.optimizer.delay_compensation.kind", "no gradient is stale", "a kind", "none");
  if (c.exchange.shard_optimizer) check_shares(validator, c);
  check_plan(validator, c);
}

}  // namespace paceline::config
