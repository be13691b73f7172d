// What stages of a network go with: groups of whole nodes that take part in every step.
#include <algorithm>
#include <string>

#include "common/config/checks.h"
#include "common/config/names.h"
#include "common/network/stage_plan.h"
#include "common/network/stages.h"
#include "common/schedule/pipeline.h"

namespace paceline::config {
namespace {

// "got 5 stages, expected at most 3" as the validator says it.
void refuse(Validator& validator, const char* key, const char* why, const Status& got) {
  const std::string& message = got.message();
  const std::string expected = ", expected ";
  const std::size_t at = message.find(expected);
  validator.refuse_if(true, {key}, why, message.substr(4, at - 4), message.substr(at + expected.size()));
}

// Each micro-batch is normalised by itself.
void check_norms_of_micro_batches(Validator& validator, const RunConfig& c, const NetworkSpec& network) {
  const auto micro_batches = static_cast<std::uint32_t>(c.pipeline.micro_batches);
  const std::int64_t fewest = schedule::micro_batch_sizes(group_samples(c), micro_batches).back();
  for (const Layer& layer : network.layers) {
    const std::int64_t values = fewest * layer.in.height * layer.in.width;
    validator.refuse_if(layer.mixes_samples() && values < 2, {"pipeline.micro_batches", "train.model"},
                        "batch_norm needs more than one value of a channel",
                        "micro-batches of " + std::to_string(fewest) + " at layer " + layer.name,
                        "2 samples or more in each");
  }
}

void check_stage_cut(Validator& validator, const RunConfig& c) {
  if (!validator.verdict().is_ok()) return;
  if (cut_by_loop(c.pipeline.balance)) {  // of a model that is not known here
    validator.refuse_if(c.pipeline.chunks_of_stage() > 1, {"pipeline.schedule", "pipeline.balance"},
                        "a loop's process has one part of its model", "interleaved with balance: loop",
                        "gpipe or 1f1b");
    return validator.refuse_if(c.pipeline.memory.has_value(), {"pipeline.memory", "pipeline.balance"},
                               "what a loop's own model takes is not known", "bytes with balance: loop",
                               "null");
  }
  const auto network = build_network(c);
  if (!network.is_ok()) return;  // which check_network() refuses
  check_norms_of_micro_batches(validator, c, *network);
  validator.refuse_if(network->has_losses(), {"pipeline.stages", "train.model"},
                      "the last stage has the only loss", "a network with loss layers", "one without");
  const bool shares = std::any_of(network->layers.begin(), network->layers.end(),
                                  [](const Layer& layer) { return layer.shares_weights; });
  validator.refuse_if(shares, {"pipeline.stages", "train.model"}, "stages do not share weights",
                      "a network with weights_of", "one without");
  validator.refuse_if(c.train.clip_gradients.has_value(), {"train.clip_gradients", "pipeline.stages"},
                      "no stage has the norm of a whole gradient", "clip_gradients with stages", "null");
  validator.refuse_if(c.sync.combine == CombineMode::kEach && network->mixes_samples(),
                      {"sync.combine", "pipeline.stages"},
                      "each stage's gradient would draw the others' running statistics to 0",
                      "each with batch_norm in stages", "mean");
  const auto cut = stages_of_run(c, *network);
  const bool by_hand = c.pipeline.balance.kind == BalanceKind::kLayers;
  if (!cut.is_ok()) {
    return refuse(validator, by_hand ? "pipeline.balance" : "pipeline.stages", "the network cannot be cut so",
                  cut.status());
  }
  const Status planned = plan_of_run(c, *network, *cut).status();
  if (!planned.is_ok()) refuse(validator, "pipeline.memory", "no node holds its stage", planned);
}

// What one worker holds without stages.
void check_whole_network(Validator& validator, const RunConfig& c) {
  if (!c.pipeline.memory || !validator.verdict().is_ok()) return;
  const auto network = build_network(c);
  if (!network.is_ok()) return;
  const Status fits = check_memory_of_whole(c, *network);
  if (!fits.is_ok()) refuse(validator, "pipeline.memory", "no worker holds the network", fits);
}

void check_steps(Validator& validator, const RunConfig& c) {
  // What a stage does not train it contributes nothing to: a gradient of 0, which each step would take for one.
  const OptimizerSection& optimizer = c.train.optimizer;
  const bool steps_by_zero = optimizer.kind != OptimizerKind::kSgd || optimizer.weight_decay > 0;
  validator.refuse_if(c.sync.combine == CombineMode::kEach && steps_by_zero,
                      {"sync.combine", "train.optimizer.kind", "sync.policy"},
                      "each stage's gradient would step the others' parameters", "each with pipeline.stages",
                      "mean, or kind: sgd without weight_decay");
  validator.refuse_if(c.sync.combine == CombineMode::kEach && optimizer.staleness != StalenessScaling::kNone,
                      {"train.optimizer.staleness", "pipeline.stages", "sync.combine"},
                      "each update of another stage would count as one that a gradient has missed",
                      std::string("staleness: ") + name_of(optimizer.staleness) + " with each in stages",
                      "none");
  validator.refuse_if(optimizer.delay_compensation.kind != CompensationKind::kNone,
                      {"train.optimizer.delay_compensation.kind", "pipeline.stages"},
                      "no stage is sent all parameters", "a kind with pipeline.stages", "none");
}

}  // namespace

void check_pipeline(Validator& validator, const RunConfig& c) {
  validator.refuse_if(c.pipeline.rematerialize == Rematerialize::kAuto && !c.pipeline.memory,
                      {"pipeline.rematerialize", "pipeline.memory"}, "nothing says how much memory there is",
                      "auto", "pipeline.memory");
  if (!c.pipeline.enabled()) return check_whole_network(validator, c);
  const auto only_with = [&](bool wrong, const char* key, const std::string& why, const std::string& got,
                             const std::string& expected) {
    validator.refuse_if(wrong, {key, "pipeline.stages"}, why, got + " with pipeline.stages", expected);
  };
  check_connected(validator, c, "pipeline.stages");
  const std::string stages = std::to_string(c.pipeline.stages);
  only_with(c.exchange.kind == ExchangeKind::kAllreduce && c.exchange.on_loss == OnLoss::kGoOn,
            "exchange.on_loss", "no group goes on without one of its stages", "exchange.on_loss: go_on",
            "stop");
  only_with(c.cluster.threads_per_node != 1, "cluster.threads_per_node", "a stage is a node",
            std::to_string(c.cluster.threads_per_node), "1");
  validator.refuse_if(c.cluster.nodes % c.pipeline.stages != 0, {"pipeline.stages", "cluster.nodes"},
                      "groups of as many nodes as stages",
                      stages + " stages for " + std::to_string(c.cluster.nodes) + " nodes",
                      "a multiple of the stages as cluster.nodes");
  validator.refuse_if(c.pipeline.micro_batches > group_samples(c),
                      {"pipeline.micro_batches", "train.batch_size"}, "micro-batches without samples",
                      std::to_string(c.pipeline.micro_batches),
                      "at most " + std::to_string(group_samples(c)) + ", stages x train.batch_size");
  const Status has_plan =
      schedule::check_has_plan(c.pipeline.schedule, c.pipeline.stages, c.pipeline.micro_batches);
  if (!has_plan.is_ok()) {
    refuse(validator, "pipeline.micro_batches", "interleaved takes as many through each chunk in turn",
           has_plan);
  }
  only_with(c.sync.policy == PolicyKind::kBackup, "sync.policy", "a group's gradient counts whole", "backup",
            "another policy");
  only_with(c.sync.policy == PolicyKind::kSwitch, "sync.policy",
            "the stages of a group turn at the same clock", "switch", "another policy");
  // What one stage has done and another has not nobody could go on with.
  validator.refuse_if(
      c.sync.apply == ApplyMode::kEager && c.checkpoint.enabled(),
      {"checkpoint.every_clocks", "checkpoint.every", "checkpoint.keep_best", "pipeline.stages"},
      "a checkpoint is of one clock of all stages",
      "checkpoints with pipeline.stages and gradients applied on arrival",
      "sync.apply: versioned, or no checkpoints");
  only_with(c.cluster.parameter_encoding != Encoding::kFp32, "cluster.parameter_encoding",
            "a part of the parameters is sent as it is", name_of(c.cluster.parameter_encoding), "fp32");
  only_with(c.train.share != Share::kEven || c.train.total_iterations % c.pipeline.stages != 0,
            even_key(c.train), "every stage takes part in every step",
            std::to_string(c.train.total_iterations) + " iterations, share: " + name_of(c.train.share),
            "share: even and a multiple of " + stages + " stages");
  only_with(c.train.has_inner_optimizer, "train.local_steps", "a stage's step needs the others'",
            std::to_string(c.train.local_steps) + " local steps", "no inner_optimizer");
  only_with(c.train.device != Device::kCpu, "train.device", "a stage is computed in the host's memory",
            "cuda", "cpu");
  only_with(c.train.on_nan != OnNan::kStop, "train.on_nan", "a group's gradient counts whole", "skip",
            "stop");
  only_with(c.train.batch_balance != BatchSizing::kEqual, "train.batch_balance",
            "stages have the mini-batch in common", "speed", "off");
  only_with(c.emulate.base_step.has_value(), "emulate.base_step", "a stage's step has no length of its own",
            "a time", "null");
  only_with(c.data.kind == DataKind::kImages, "data.kind",
            "a picture that cannot be read is known to one stage", "images", "cifar10 or synthetic");
  only_with(c.data.parts != DataParts::kAnew, "data.parts", "stages have the mini-batch in common", "fixed",
            "anew");
  only_with(c.train.precision != Precision::kFp32, "train.precision", "a stage computes in float32",
            name_of(c.train.precision), "fp32");
  only_with(c.train.accumulate != 1, "train.accumulate",
            "micro-batches are a pipeline's parts of a mini-batch", std::to_string(c.train.accumulate),
            "1, and pipeline.micro_batches");
  check_steps(validator, c);
  check_stage_cut(validator, c);
}

}  // namespace paceline::config
