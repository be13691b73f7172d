#include "common/config/validate.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "common/config/buffers.h"
#include "common/config/checks.h"
#include "common/config/domain.h"
#include "common/config/names.h"
#include "common/config/planned.h"
#include "common/config/schema.h"
#include "common/network/layer_rule.h"
#include "common/network/network.h"

namespace paceline::config {
namespace {

// The first key of train.inner_optimizer that was given; empty: none.
std::string first_inner_key(const Given& given) {
  for (const Key& key : schema().keys) {
    if (key.path.starts_with("train.inner_optimizer.") && given.has(key.path)) return key.path;
  }
  return "";
}

void check_run(Validator& validator, const RunConfig& c) {
  validator.refuse_if(
      c.run.target_accuracy && !c.train.eval_every_clocks, {"run.target_accuracy", "train.eval_every_clocks"},
      "nobody would evaluate before the end", "a target_accuracy without train.eval_every_clocks",
      "train.eval_every_clocks to be a number of clocks");
}

void check_cluster(Validator& validator, const ClusterSection& cluster) {
  const std::size_t endpoints = cluster.endpoints.size();
  validator.refuse_if(cluster.shards > 1 && !validator.given().has("cluster.endpoints"), {"cluster.shards"},
                      "shards without endpoints",
                      std::to_string(cluster.shards) + " shards and no cluster.endpoints",
                      "cluster.endpoints with one address per shard");
  const std::size_t servers = std::size_t{cluster.shards} * cluster.replicas;
  validator.refuse_if(cluster.replicas == 1 && endpoints != servers, {"cluster.endpoints", "cluster.shards"},
                      "as many endpoints as shards are needed", std::to_string(endpoints),
                      std::to_string(cluster.shards));
  validator.refuse_if(cluster.replicas > 1 && endpoints != servers, {"cluster.endpoints", "cluster.replicas"},
                      "each replica of each shard needs an endpoint", std::to_string(endpoints),
                      std::to_string(servers) + ": those of the first replicas, then those of the second");
  const std::set<std::string> distinct(cluster.endpoints.begin(), cluster.endpoints.end());
  validator.refuse_if(distinct.size() != endpoints, {"cluster.endpoints"}, "two shards with one address",
                      std::to_string(distinct.size()) + " distinct", std::to_string(endpoints));
  validator.refuse_if(
      cluster.lease <= 2 * cluster.heartbeat, {"cluster.lease", "cluster.heartbeat"},
      "a lease that one late heartbeat can end",
      "lease " + write_duration(cluster.lease) + " with heartbeat " + write_duration(cluster.heartbeat),
      "lease > 2 x heartbeat");
}

// What a follower has not got besides the log: what a node was sent (delay compensation).
void check_replicas(Validator& validator, const RunConfig& c) {
  const bool replicas = c.cluster.replicas > 1;
  validator.refuse_if(replicas && c.cluster.etcd.empty(), {"cluster.replicas", "cluster.etcd"},
                      "replicas without anybody who decides between them", "no cluster.etcd",
                      "the endpoints of an etcd, or replicas: 1");
  validator.refuse_if(!replicas && !c.cluster.etcd.empty(), {"cluster.etcd", "cluster.replicas"},
                      "nothing to decide", "replicas: 1 and cluster.etcd", "replicas: 2, or no cluster.etcd");
  if (!replicas) return;
  validator.refuse_if(c.train.optimizer.delay_compensation.kind != CompensationKind::kNone,
                      {"cluster.replicas", "train.optimizer.delay_compensation.kind"},
                      "delay compensation needs what each node was sent, which a follower is not told",
                      "replicas: 2 with delay compensation", "kind: none, or replicas: 1");
  validator.refuse_if(c.cluster.lease < std::chrono::seconds(2), {"cluster.lease", "cluster.replicas"},
                      "etcd's leases are whole seconds, of which some must be left",
                      write_duration(c.cluster.lease), "a lease of 2s at least");
}

void check_checkpoint(Validator& validator, const CheckpointSection& checkpoint) {
  validator.refuse_if(checkpoint.every_clocks && checkpoint.every,
                      {"checkpoint.every", "checkpoint.every_clocks"}, "two schedules",
                      "every_clocks: " + std::to_string(checkpoint.every_clocks.value_or(0)) +
                          " and every: " + write_duration(checkpoint.every.value_or(Duration(0))),
                      "one of the two");
}

void check_encoding(Validator& validator, const ClusterSection& cluster) {
  const bool top_k = cluster.gradient_encoding == Encoding::kTopK;
  validator.refuse_if(cluster.top_k_share && !top_k, {"cluster.top_k_share"}, "only top_k keeps a share",
                      std::string("gradient_encoding: ") + name_of(cluster.gradient_encoding),
                      "gradient_encoding: top_k, or no top_k_share");
  validator.refuse_if(top_k && !cluster.top_k_share, {"cluster.gradient_encoding"}, "top_k without its share",
                      "no top_k_share", "cluster.top_k_share above 0 and at most 1");
  if (!top_k || !cluster.top_k_share) return;
  // Each value kept is 8 bytes, and a message carries 1 MiB.
  const auto kept = std::ceil(*cluster.top_k_share * static_cast<double>(cluster.frame_bytes / 4));
  validator.refuse_if(kept * 8 > (1 << 20), {"cluster.top_k_share", "cluster.frame_bytes"},
                      "a message would be larger than 1MiB",
                      real({}).write(*cluster.top_k_share) + " of " +
                          std::to_string(cluster.frame_bytes / 4) + " values, 8 bytes each",
                      "a smaller share, or smaller frame_bytes");
}

// Of a network that can be built: what the rest of the configuration has no use for.
void check_decay_factors(Validator& validator, const TrainSection& train, const NetworkSpec& network) {
  for (std::size_t i = 0; i < train.layers.size(); ++i) {
    const std::string key = "train.layers[" + std::to_string(i) + "]";
    const double decay = train.layers[i].decay_factor;
    const OptimizerSection& own = train.has_inner_optimizer ? train.inner_optimizer : train.optimizer;
    const Layer& layer = network.layers[i];
    // A norm's is 0 where nothing is said.
    const double usual = layer_rule(layer.kind).is_norm ? 0.0 : 1.0;
    validator.refuse_if(decay != usual && own.weight_decay == 0.0,
                        {key.c_str(), "train.optimizer.weight_decay"}, "nobody reads decay_factor",
                        real({}).write(decay), "a weight_decay above 0, or no decay_factor");
    const bool only_weights = own.weight_decay != 0.0 && own.decay == TensorsOf::kWeights;
    const bool of_norm = layer_rule(layer.kind).is_norm && decay != usual;
    validator.refuse_if(only_weights && (of_norm || train.layers[i].bias_decay_factor.value_or(0.0) != 0.0),
                        {key.c_str(), "train.optimizer.decay"}, "nobody reads the decay of a norm or a bias",
                        "decay: weights", "decay: all, or no such factor");
  }
}

// Of one: what there is no way to train it by.
void check_layers(Validator& validator, const RunConfig& c, const NetworkSpec& network) {
  const TrainSection& train = c.train;
  validator.refuse_if(loses_buffers(c.cluster) && network.mixes_samples(),
                      {"cluster.gradient_encoding", "train.model"},
                      "statistics of a batch_norm go with the gradient", name_of(c.cluster.gradient_encoding),
                      "fp32, fp16 or bf16, or a network without batch_norm");
  validator.refuse_if(shrinks_buffers(c) && network.mixes_samples(),
                      {"train.optimizer.staleness", "train.model"},
                      "statistics of a batch_norm would shrink with the gradient",
                      std::string("staleness: ") + name_of(train.optimizer.staleness),
                      "staleness: none, or a network without batch_norm");
  validator.refuse_if(train.batch_norm_group > 1 && !network.mixes_samples(),
                      {"train.model", "train.batch_norm_group"}, "a network without batch_norm",
                      std::to_string(train.batch_norm_group), "1");
  validator.refuse_if(train.clip_gradients && train.device == Device::kCuda,
                      {"train.clip_gradients", "train.device"}, "gradients stay on a GPU",
                      "clip_gradients with device: cuda", "device: cpu, or null");
  check_parts(validator, train, network);
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    const std::string key =
        train.model == "layers" ? "train.layers[" + std::to_string(i) + "]" : "train.model";
    const Layer& layer = network.layers[i];
    const auto of_kind = layer_rule(layer.kind).is_on_gpu;
    const bool on_gpu = is_on_gpu(layer.kind) && (of_kind == nullptr || of_kind(layer));
    validator.refuse_if(train.device == Device::kCuda && !on_gpu, {key.c_str(), "train.device"},
                        "there is no such layer on a GPU",
                        std::string(name_of(layer.kind)) + " (" + layer.name + ")",
                        "device: cpu, or a network without it");
  }
}

void check_precision(Validator& validator, const RunConfig& c) {
  const TrainSection& train = c.train;
  const bool on_gpus_alone = train.precision == Precision::kTf32 || train.precision == Precision::kFp16;
  validator.refuse_if(on_gpus_alone && train.device == Device::kCpu, {"train.precision", "train.device"},
                      "only a GPU has it", std::string(name_of(train.precision)) + " with device: cpu",
                      "fp32 or bf16, or device: cuda");
  if (train.precision != Precision::kFp16) return;
  validator.refuse_if(train.on_nan != OnNan::kSkip, {"train.on_nan", "train.precision"},
                      "a step that overflows fp16 is skipped, and its loss scaled less",
                      name_of(train.on_nan), "on_nan: skip");
  validator.refuse_if(train.has_inner_optimizer, {"train.precision", "train.local_steps"},
                      "a local step that overflows could not be skipped", "fp16 with an inner_optimizer",
                      "fp32, tf32 or bf16");
}

void check_network(Validator& validator, const RunConfig& c) {
  const TrainSection& train = c.train;
  check_precision(validator, c);
  const bool listed = train.model == "layers";
  validator.refuse_if(listed && train.layers.empty(), {"train.model"}, "model: layers without layers",
                      "no train.layers", "train.layers to list the network");
  validator.refuse_if(!listed && !train.layers.empty(), {"train.layers"},
                      "they count with train.model: layers", "train.model: " + train.model,
                      "train.model: layers beside them, or no train.layers");
  validator.refuse_if(listed && train.dropout != 0.0, {"train.dropout"},
                      "dropout is for the ready-made networks", real({}).write(train.dropout),
                      "a {kind: dropout, rate: …} among train.layers");
  // Shapes are inferred here and not only in the workers, so that nobody starts for a network that cannot be.
  if (!validator.verdict().is_ok()) return;
  const auto network = build_network(c);
  if (network.is_ok()) {
    check_decay_factors(validator, train, *network);
    return check_layers(validator, c, *network);
  }
  const std::string& fault = network.status().message();  // "train.layers[3]: conv: kernel 9 is larger …"
  const std::size_t end_of_key = fault.find(": ");
  const std::string key = fault.substr(0, end_of_key);
  // Some faults say themselves what was expected: "dense: out 70000, expected 1 to 65536".
  const std::string got = fault.substr(end_of_key + 2);
  const std::string separator = ", expected ";
  const std::size_t end_of_got = got.find(separator);
  std::string what = "the network cannot be built";
  for (std::size_t i = 0; i < train.layers.size(); ++i) {
    const std::string& name = train.layers[i].name;
    if (key == "train.layers[" + std::to_string(i) + "]" && !name.empty()) what += " at layer " + name;
  }
  validator.refuse_if(true, {key.c_str()}, what, got.substr(0, end_of_got),
                      end_of_got == std::string::npos ? "layers of which each fits the one before"
                                                      : got.substr(end_of_got + separator.size()));
}

// What a section of an optimizer, at `at` ("train.optimizer"), can only mean together with the rest.
void check_rule(Validator& validator, const RunConfig& c, const OptimizerSection& optimizer,
                const std::string& at) {
  const ScheduleSection& schedule = optimizer.schedule;
  const std::string nesterov = at + ".nesterov";
  const std::string kind = at + ".kind";
  const std::string momentum = at + ".momentum";
  const std::string steps = at + ".schedule.step_versions";
  const std::string step_at = at + ".schedule.step_at";
  const std::string warmup = at + ".schedule.warmup_versions";
  const std::string total = at + ".schedule.total_versions";
  const std::string curve = at + ".schedule.kind";
  const bool has_momentum =
      optimizer.kind == OptimizerKind::kMomentum || optimizer.kind == OptimizerKind::kLars;
  validator.refuse_if(optimizer.nesterov && !has_momentum, {nesterov.c_str(), kind.c_str()},
                      "nesterov is a kind of momentum", std::string("kind: ") + name_of(optimizer.kind),
                      "kind: momentum or lars, or nesterov: false");
  validator.refuse_if(optimizer.nesterov && optimizer.momentum == 0.0, {nesterov.c_str(), momentum.c_str()},
                      "nothing to look ahead by", "nesterov: true with momentum: 0",
                      "a momentum above 0, or nesterov: false");
  const bool of_caffe = optimizer.kind == OptimizerKind::kAdagrad ||
                        optimizer.kind == OptimizerKind::kRmsprop ||
                        optimizer.kind == OptimizerKind::kAdadelta;
  validator.refuse_if(of_caffe && c.train.device == Device::kCuda, {kind.c_str(), "train.device"},
                      "there is no such optimizer on a GPU", std::string("kind: ") + name_of(optimizer.kind),
                      "train.device: cpu, or kind: sgd, momentum or adam");
  const std::string decay_norm = at + ".decay_norm";
  const bool l1 = optimizer.weight_decay > 0 && optimizer.decay_norm == DecayNorm::kL1;
  validator.refuse_if(l1 && (measures_tensors(optimizer.kind) || optimizer.decoupled),
                      {decay_norm.c_str(), kind.c_str()}, "decay that is not coupled has the norm l2",
                      "l1 with lars, lamb or decoupled", "l2");
  check_large_batches(validator, c, optimizer, at);
  const auto& turns = schedule.step_at;
  validator.refuse_if(schedule.kind == ScheduleKind::kMultistep && turns.empty(),
                      {step_at.c_str(), curve.c_str()}, "a multistep schedule without steps", "no step_at",
                      "step_at to list versions, or step_at_epochs");
  validator.refuse_if(!std::is_sorted(turns.begin(), turns.end()), {step_at.c_str()},
                      "the steps are not in order", list_of(whole(0, 0)).write(turns) + " versions",
                      "steps that rise");
  validator.refuse_if(schedule.kind == ScheduleKind::kStep && schedule.step_versions < 1,
                      {steps.c_str(), curve.c_str()}, "a step schedule without steps",
                      std::to_string(schedule.step_versions), "step_versions to be at least 1");
  const bool falls_after_warmup =
      schedule.kind == ScheduleKind::kCosine || schedule.kind == ScheduleKind::kPoly;
  if (!falls_after_warmup) return;
  const std::int64_t end = schedule.total_versions.value_or(planned_versions(c));
  validator.refuse_if(
      schedule.warmup_versions >= end,
      {total.c_str(), warmup.c_str(), "train.total_iterations", curve.c_str()},
      std::string("the ") + name_of(schedule.kind) + " would end before the warm-up does",
      "a warm-up of " + std::to_string(schedule.warmup_versions) + " of " + std::to_string(end) + " versions",
      "a shorter warm-up, or a later end");
}

void check_optimizer(Validator& validator, const RunConfig& c) {
  const OptimizerSection& optimizer = c.train.optimizer;
  check_rule(validator, c, optimizer, "train.optimizer");
  validator.refuse_if(optimizer.staleness != StalenessScaling::kNone && in_lockstep(c) &&
                          c.sync.combine == CombineMode::kMean,
                      {"train.optimizer.staleness", "sync.policy", "sync.combine"},
                      std::string("nothing is stale under ") + name_of(c.sync.policy) + " with combine: mean",
                      std::string("staleness: ") + name_of(optimizer.staleness),
                      "staleness: none, another policy, or combine: each");
}

// A round that ends by time.
void check_local_time(Validator& validator, const RunConfig& c) {
  const TrainSection& train = c.train;
  if (!train.local_time) return;
  const std::string given = write_duration(*train.local_time);
  validator.refuse_if(!train.has_inner_optimizer || train.local_steps == 1,
                      {"train.local_time", "train.local_steps"},
                      "no round of several mini-batches that it could end",
                      given + " with local_steps: " + std::to_string(train.local_steps),
                      "train.inner_optimizer, and in train.local_steps the most that a round has");
  validator.refuse_if(train.local_balance != BatchSizing::kEqual, {"train.local_time", "train.local_balance"},
                      "rounds end by time, or together", given + " with local_balance: speed",
                      "one of the two");
  const std::optional<Duration> step =
      c.simulate.compute.mean ? c.simulate.compute.mean : c.emulate.base_step;
  validator.refuse_if(step && *train.local_time < *step, {"train.local_time"}, "shorter than a mini-batch",
                      given, write_duration(*step) + " or more, which one takes");
}

// Rounds of several mini-batches, and the optimizer that the worker has for them.
void check_local_steps(Validator& validator, const RunConfig& c) {
  const TrainSection& train = c.train;
  const std::string steps = "local_steps: " + std::to_string(train.local_steps);
  validator.refuse_if(
      train.local_steps > 1 && !train.has_inner_optimizer, {"train.local_steps"},
      "local steps without an optimizer to take them with", steps + ", no inner_optimizer",
      "train.inner_optimizer with a kind and an lr, or local_steps: 1; those of a loop of your own are "
      "attach(local_steps=...)");
  validator.refuse_if(train.warm_start_steps > 0 && !train.has_inner_optimizer, {"train.warm_start_steps"},
                      "a warm start without an optimizer to take its steps with",
                      std::to_string(train.warm_start_steps) + ", no inner_optimizer",
                      "train.inner_optimizer and train.local_steps, or 0");
  validator.refuse_if(train.local_balance != BatchSizing::kEqual && train.local_steps == 1,
                      {"train.local_balance", "train.local_steps"},
                      "a round of one mini-batch cannot be shared out", steps + " with local_balance: speed",
                      "local_steps of 2 or more, or batch_balance: speed");
  check_local_time(validator, c);
  if (!train.has_inner_optimizer) return;
  const std::string inner = first_inner_key(validator.given());
  validator.refuse_if(!validator.given().has("train.local_steps"), {inner.c_str()},
                      "an inner optimizer without local steps", "no train.local_steps",
                      "train.local_steps, or no inner_optimizer");
  validator.refuse_if(
      train.optimizer.kind != OptimizerKind::kSgd && !validator.given().has("train.optimizer.lr"),
      {"train.optimizer.kind"},
      "an outer optimizer without a rate, which deltas want another of than gradients",
      std::string("kind: ") + name_of(train.optimizer.kind) + ", no lr",
      "train.optimizer.lr, as 0.7 of DiLoCo's momentum, or kind: sgd");
  validator.refuse_if(!validator.given().has("train.optimizer.lr") && c.sync.combine == CombineMode::kMean &&
                          is_ever_eager(c.sync.stages, c.sync.apply),
                      {"sync.stages"},
                      "an eager stage adds deltas up, of which each alone is a whole step at lr 1",
                      "no train.optimizer.lr", "train.optimizer.lr, and the eager stage's lr_scale");
  validator.refuse_if(train.total_iterations % train.local_steps != 0,
                      {"train.total_iterations", "train.local_steps"}, "not a whole number of rounds",
                      std::to_string(train.total_iterations) + " iterations with " + steps,
                      "a multiple of " + std::to_string(train.local_steps));
  validator.refuse_if(train.batch_balance != BatchSizing::kEqual,
                      {"train.batch_balance", "train.local_steps"},
                      "the mini-batches of a round have one size", steps + " with batch_balance: speed",
                      "local_balance: speed, or no local steps");
  validator.refuse_if(train.optimizer.delay_compensation.kind != CompensationKind::kNone,
                      {"train.optimizer.delay_compensation.kind", "train.local_steps"},
                      "delay compensation is of gradients", "a delta of " + steps,
                      "kind: none, or no local steps");
  check_rule(validator, c, train.inner_optimizer, "train.inner_optimizer");
}

// The backup is what a worker computed with: a state of the server with the worker's own SGD steps on top.
void check_compensation(Validator& validator, const RunConfig& c) {
  const OptimizerSection& optimizer = c.train.optimizer;
  if (optimizer.delay_compensation.kind == CompensationKind::kNone) return;
  const char* const key = "train.optimizer.delay_compensation.kind";
  validator.refuse_if(optimizer.kind != OptimizerKind::kSgd, {key, "train.optimizer.kind"},
                      "delay compensation is of SGD", std::string("kind: ") + name_of(optimizer.kind),
                      "kind: sgd");
  validator.refuse_if(optimizer.staleness != StalenessScaling::kNone, {key, "train.optimizer.staleness"},
                      "two answers to the same staleness",
                      std::string("staleness: ") + name_of(optimizer.staleness), "staleness: none");
  validator.refuse_if(c.cluster.threads_per_node != 1, {key, "cluster.threads_per_node"},
                      "what a node is sent could be what any of its threads computes with",
                      std::to_string(c.cluster.threads_per_node) + " threads", "threads_per_node: 1");
  validator.refuse_if(c.cluster.parameter_encoding != Encoding::kFp32, {key, "cluster.parameter_encoding"},
                      "the servers keep what they have, not what a node made of fewer bytes",
                      name_of(c.cluster.parameter_encoding), "parameter_encoding: fp32");
  validator.refuse_if(c.sync.combine != CombineMode::kEach, {key, "sync.combine"},
                      "each gradient is compensated by itself", "combine: mean", "combine: each");
}

void check_data(Validator& validator, const DataSection& data) {
  const bool none = validator.given().has("data.kind") && !validator.given().has("data.path");
  validator.refuse_if(none && data.kind == DataKind::kSynthetic, {"data.kind"}, "synthetic without data.path",
                      "no path",
                      "data.path to name a folder that `paceline data synthesize --out DIR` wrote");
  const std::size_t means = data.subtract_values.size();
  validator.refuse_if(data.subtract == Subtract::kValues && means != 1 && means != 3,
                      {"data.subtract_values", "data.subtract"}, "as many means as channels are needed",
                      std::to_string(means), "1 or 3");
  validator.refuse_if(data.kind == DataKind::kCifar10 && data.path.empty(), {"data.kind"},
                      "cifar10 without data.path", "no path",
                      "data.path to name the folder with data_batch_1.bin … test_batch.bin");
  validator.refuse_if(data.kind == DataKind::kImages && data.path.empty(), {"data.kind"},
                      "images without data.path", "no path",
                      "data.path to name the folder with train/ and test/");
  const CropSection& crop = data.crop;
  validator.refuse_if(crop.size > crop.resize, {"data.crop.size", "data.crop.resize"},
                      "a crop larger than what it is cut from",
                      "size " + std::to_string(crop.size) + " with resize " + std::to_string(crop.resize),
                      "size <= resize");
  for (const auto& [key, values, count] : {std::tuple{"data.mean", &data.mean, std::size_t{3}},
                                           std::tuple{"data.deviation", &data.deviation, std::size_t{3}},
                                           std::tuple{"data.crop.area", &crop.area, std::size_t{2}},
                                           std::tuple{"data.crop.aspect", &crop.aspect, std::size_t{2}}}) {
    validator.refuse_if(values->size() != count, {key}, "wrong number of values",
                        std::to_string(values->size()),
                        count == 3 ? "3: of red, green and blue" : "2: from and to");
    validator.refuse_if(count == 2 && values->size() == 2 && values->front() > values->back(), {key},
                        "from more than to", list_of(real({})).write(*values), "from <= to");
  }
}

void check_emulation(Validator& validator, const RunConfig& c) {
  const EmulateSection& emulate = c.emulate;
  const std::size_t factors = emulate.slowdown.size();
  check_one_or_each(validator, c, "emulate.slowdown", factors, "factor");
  // `base_step: null` says that emulation is off on purpose; a slowdown alone is a forgotten base_step.
  const bool forgotten = !emulate.base_step && !validator.given().has("emulate.base_step");
  const auto check_alone = [&](bool is_alone, const char* key, const std::string& what) {
    validator.refuse_if(forgotten && is_alone, {key}, what + " without emulate.base_step emulates nothing",
                        "no base_step", "base_step: a duration, or base_step: null to switch emulation off");
  };
  check_alone(factors > 0, "emulate.slowdown", "a slowdown");
  check_alone(emulate.cores != EmulateSection().cores, "emulate.cores", "a number of cores");
  const double limit =
      emulate.jitter == JitterKind::kUniform || emulate.jitter == JitterKind::kExponential ? 1.0 : 3.0;
  const bool too_wide = emulate.jitter_spread > limit ||
                        (emulate.jitter == JitterKind::kUniform && emulate.jitter_spread >= limit);
  validator.refuse_if(
      too_wide, {"emulate.jitter_spread", "emulate.jitter"},
      std::string("too wide for jitter: ") + name_of(emulate.jitter), real({}).write(emulate.jitter_spread),
      emulate.jitter == JitterKind::kUniform ? "below 1, so that no factor is 0" : "at most 1");
  check_alone(emulate.jitter != JitterKind::kNone, "emulate.jitter", "a jitter");
}

// A threshold under bsp would be silently ignored; better to say so.
void check_applies(Validator& validator, const RunConfig& c) {
  for (const Key& key : schema().keys) {
    validator.refuse_if(!key.applies(c) && validator.given().has(key.path), {key.path.c_str()},
                        std::string("policy ") + name_of(c.sync.policy) + " does not use it", "a value",
                        "none or null (" + key.fallback + ")");
  }
}

}  // namespace

void check_one_or_each(Validator& validator, const RunConfig& c, const char* key, std::size_t count,
                       const std::string& what) {
  validator.refuse_if(count > 1 && count != c.cluster.nodes, {key, "cluster.nodes"},
                      "one " + what + ", or one for each node", std::to_string(count) + " " + what + "s",
                      "1 or " + std::to_string(c.cluster.nodes));
}

std::string Given::first(std::initializer_list<const char*> keys) const {
  for (const char* key : keys) {
    if (has(key)) return key;
  }
  return *keys.begin();
}

Place Given::place_of(const std::string& key) const {
  const auto at = places_.find(key);
  return at == places_.end() ? Place{source_, 1} : at->second;
}

constexpr double kAdaptiveLambda = 2.0;  // where none is given

void resolve(RunConfig& config, const Given& given) {
  SyncSection& sync = config.sync;
  if (!given.has("sync.apply")) {
    // Of stages the first: from one that applies on arrival on all do (apply_in()).
    const PolicyStage* const first = sync.stages.empty() ? nullptr : &sync.stages.front();
    const bool asp = (first != nullptr ? first->policy : sync.policy) == PolicyKind::kAsp;
    sync.apply = asp ? ApplyMode::kEager : ApplyMode::kVersioned;
    if (first != nullptr) sync.apply = first->apply.value_or(sync.apply);
  }
  if (!given.has("sync.combine")) {
    sync.combine = sync.apply == ApplyMode::kEager ? CombineMode::kEach : CombineMode::kMean;
  }
  config.train.has_inner_optimizer = !first_inner_key(given).empty();
  config.train.optimizer.of_deltas = config.train.has_inner_optimizer;
  CompensationSection& compensation = config.train.optimizer.delay_compensation;
  resolve_large_batches(config, given);
  const bool adapts = compensation.kind == CompensationKind::kAdaptive;
  if (adapts && !given.has("train.optimizer.delay_compensation.lambda")) {
    compensation.lambda = kAdaptiveLambda;
  }
}

void resolve_outer_rate(RunConfig& config, const Given& given) {
  OptimizerSection& outer = config.train.optimizer;
  if (!config.train.has_inner_optimizer || given.has("train.optimizer.lr")) return;
  if (outer.kind != OptimizerKind::kSgd) return;  // which has none that is meant: check_local_steps()
  const double workers = static_cast<double>(config.cluster.nodes) * config.cluster.threads_per_node;
  outer.lr = config.sync.combine == CombineMode::kEach ? 1.0 / workers : 1.0;
}

Status validate(const RunConfig& config, const Given& given, LoadFor what) {
  Validator validator(given);
  check_applies(validator, config);
  check_run(validator, config);
  check_cluster(validator, config.cluster);
  check_replicas(validator, config);
  check_checkpoint(validator, config.checkpoint);
  check_encoding(validator, config.cluster);
  if (what == LoadFor::kDaemons) check_security(validator, config);
  check_sync(validator, config);
  check_exchange(validator, config);
  check_network(validator, config);
  check_pipeline(validator, config);
  check_norm_group(validator, config);
  check_optimizer(validator, config);
  check_local_steps(validator, config);
  check_accumulation(validator, config);
  check_compensation(validator, config);
  check_data(validator, config.data);
  check_emulation(validator, config);
  check_simulation(validator, config);
  check_readers(validator, config);
  return validator.verdict();
}

}  // namespace paceline::config
