// Keys that only some of the kinds beside them read. Their defaults stand in every written configuration,
// whatever the kind, and say nothing. Null is no value, so that an argument can take one of the file back
// with the kind that read it.
#include <algorithm>
#include <iterator>

#include "common/config/checks.h"
#include "common/config/schema.h"

namespace paceline::config {
namespace {

struct Reader {
  const char* key;
  bool (*reads)(const RunConfig&);
  const char* who;
};
template <OptimizerKind... kinds>
bool optimizer_is(const RunConfig& c) {
  return ((c.train.optimizer.kind == kinds) || ...);
}
template <ScheduleKind... kinds>
bool schedule_is(const RunConfig& c) {
  return ((c.train.optimizer.schedule.kind == kinds) || ...);
}
bool keeps_mean_square(const RunConfig& c) {
  const OptimizerKind kind = c.train.optimizer.kind;
  return kind == OptimizerKind::kRmsprop || kind == OptimizerKind::kAdadelta;
}
bool has_epsilon(const RunConfig& c) {
  const OptimizerKind kind = c.train.optimizer.kind;
  return kind == OptimizerKind::kAdam || kind == OptimizerKind::kAdagrad || keeps_mean_square(c) ||
         measures_tensors(kind);
}
bool has_momentum(const RunConfig& c) {
  return optimizer_is<OptimizerKind::kMomentum, OptimizerKind::kLars>(c);
}
bool has_moments(const RunConfig& c) { return optimizer_is<OptimizerKind::kAdam, OptimizerKind::kLamb>(c); }
bool has_trust_ratio(const RunConfig& c) { return measures_tensors(c.train.optimizer.kind); }
bool scales_rate(const RunConfig& c) { return c.train.optimizer.schedule.scale != RateScale::kNone; }
bool warms_up(const RunConfig& c) { return c.train.optimizer.schedule.warmup_versions > 0; }
bool subtracts_values(const RunConfig& c) { return c.data.subtract == Subtract::kValues; }
bool subtracts_places(const RunConfig& c) {
  return c.data.subtract == Subtract::kPixel && c.data.kind != DataKind::kImages;
}
bool compensates(const RunConfig& c) {
  return c.train.optimizer.delay_compensation.kind != CompensationKind::kNone;
}
bool adapts(const RunConfig& c) {
  return c.train.optimizer.delay_compensation.kind == CompensationKind::kAdaptive;
}
bool on_gpus(const RunConfig& c) { return c.train.device == Device::kCuda; }
bool on_cpu(const RunConfig& c) { return c.train.device == Device::kCpu; }
bool traces(const RunConfig& c) { return c.run.trace; }
bool has_etcd(const RunConfig& c) { return !c.cluster.etcd.empty(); }
bool saves(const RunConfig& c) { return c.checkpoint.enabled() || c.run.max_seconds; }
bool reduces(const RunConfig& c) { return c.exchange.kind == ExchangeKind::kAllreduce; }
bool measures(const RunConfig& c) { return reduces(c) && c.exchange.algorithm == schedule::Algorithm::kAuto; }
bool connects(const RunConfig& c) { return nodes_are_connected(c); }
bool has_stages(const RunConfig& c) { return c.pipeline.enabled(); }
bool has_chunks(const RunConfig& c) {
  return has_stages(c) && c.pipeline.schedule == schedule::PipelineKind::kInterleaved;
}
bool has_grid(const RunConfig& c) {
  return c.exchange.algorithm == schedule::Algorithm::kTorus ||
         c.exchange.algorithm == schedule::Algorithm::kHierarchical;
}
bool evaluates(const RunConfig& c) { return c.train.eval_every_clocks.has_value(); }
bool skips(const RunConfig& c) { return c.train.on_nan == OnNan::kSkip; }
bool decays(const RunConfig& c) { return c.train.optimizer.weight_decay > 0; }
// LARS and LAMB say where theirs is.
bool may_decouple(const RunConfig& c) { return decays(c) && !has_trust_ratio(c); }
bool steered_by_progress(const RunConfig& c) { return follows_progress(c.sync); }
bool jitters(const RunConfig& c) { return c.emulate.jitter != JitterKind::kNone; }
bool varies(const RunConfig& c) {
  const ComputeKind kind = c.simulate.compute.distribution;
  return kind == ComputeKind::kNormal || kind == ComputeKind::kLognormal || kind == ComputeKind::kGamma;
}
bool is_pareto(const RunConfig& c) { return c.simulate.compute.distribution == ComputeKind::kPareto; }
bool has_slow_periods(const RunConfig& c) { return c.simulate.compute.slow_share > 0; }
bool has_pauses(const RunConfig& c) { return c.simulate.compute.pause_every.has_value(); }
bool approaches(const RunConfig& c) { return c.simulate.metric.final_accuracy.has_value(); }
bool has_metric(const RunConfig& c) { return approaches(c) || !c.simulate.metric.curve.empty(); }
bool has_noise(const RunConfig& c) { return c.simulate.metric.noise != MetricNoise::kNone; }

bool of_images(const RunConfig& c) { return c.data.kind == DataKind::kImages; }
bool of_files(const RunConfig& c) { return !of_images(c); }
bool crops(const RunConfig& c) { return of_images(c) && c.data.augment; }
template <CropKind kind>
bool crop_is(const RunConfig& c) {
  return crops(c) && c.data.crop.kind == kind;
}

const Reader kReaders[] = {
    {"checkpoint.keep", saves, "an every_clocks, every or keep_best, or run.max_seconds"},
    {"checkpoint.keep_best", evaluates, "train.eval_every_clocks"},
    {"data.on_device", on_gpus, "train.device: cuda"},
    {"data.classes", of_images, "kind: images"},
    {"data.test_share", of_images, "kind: images"},
    {"data.mean", of_images, "kind: images"},
    {"data.subtract", of_files, "kind: cifar10 or synthetic"},
    {"data.scale", of_files, "kind: cifar10 or synthetic"},
    {"data.deviation", of_images, "kind: images"},
    {"data.cache", of_images, "kind: images"},
    {"data.decode", of_images, "kind: images"},
    {"data.on_bad", of_images, "kind: images"},
    {"data.max_pixels", of_images, "kind: images"},
    {"data.crop.size", of_images, "data.kind: images"},
    {"data.crop.resize", of_images, "data.kind: images"},
    {"data.crop.kind", crops, "data.kind: images with data.augment"},
    {"data.crop.area", crop_is<CropKind::kArea>, "data.kind: images with data.augment, and kind: area"},
    {"data.crop.aspect", crop_is<CropKind::kArea>, "data.kind: images with data.augment, and kind: area"},
    {"data.crop.padding", crop_is<CropKind::kPlace>, "data.kind: images with data.augment, and kind: place"},
    {"data.crop.flip", crops, "data.kind: images with data.augment"},
    {"exchange.algorithm", reduces, "kind: allreduce"},
    {"exchange.bucket_bytes", reduces, "kind: allreduce"},
    {"exchange.on_loss", reduces, "kind: allreduce"},
    {"exchange.shard_optimizer", reduces, "kind: allreduce"},
    {"cluster.etcd_prefix", has_etcd, "cluster.etcd"},
    {"cluster.mesh_address", connects,
     "exchange.kind: allreduce, pipeline.stages or train.batch_norm_group above 1"},
    {"exchange.measured", measures, "kind: allreduce and algorithm: auto"},
    {"exchange.grid", has_grid, "algorithm: torus or hierarchical"},
    {"pipeline.micro_batches", has_stages, "stages above 1"},
    {"pipeline.schedule", has_stages, "stages above 1"},
    {"pipeline.chunks", has_chunks, "schedule: interleaved"},
    {"pipeline.rematerialize", has_stages, "stages above 1"},
    {"pipeline.balance", has_stages, "stages above 1"},
    {"run.trace_events", traces, "run.trace: true"},
    {"sync.lpr.increase_above", steered_by_progress, "policy: dtssp"},
    {"sync.lpr.decrease_below", steered_by_progress, "policy: dtssp"},
    {"train.backend", on_cpu, "device: cpu"},
    {"train.devices", on_gpus, "device: cuda"},
    {"train.skips_max", skips, "on_nan: skip"},
    {"train.optimizer.momentum", has_momentum, "kind: momentum or lars"},
    {"train.optimizer.beta1", has_moments, "kind: adam or lamb"},
    {"train.optimizer.beta2", has_moments, "kind: adam or lamb"},
    {"train.optimizer.bias_correction", has_moments, "kind: adam or lamb"},
    {"train.optimizer.momentum_form", has_momentum, "kind: momentum or lars"},
    {"train.optimizer.epsilon", has_epsilon, "kind: adam, adagrad, rmsprop, adadelta, lars or lamb"},
    {"train.optimizer.trust_coefficient", optimizer_is<OptimizerKind::kLars>, "kind: lars"},
    {"train.optimizer.trust_ratio_max", has_trust_ratio, "kind: lars or lamb"},
    {"train.optimizer.trust_norm", optimizer_is<OptimizerKind::kLars>, "kind: lars"},
    {"train.optimizer.trust_clip", optimizer_is<OptimizerKind::kLars>, "kind: lars"},
    {"train.optimizer.trust", has_trust_ratio, "kind: lars or lamb"},
    {"train.optimizer.epsilon_hat", optimizer_is<OptimizerKind::kAdam>, "kind: adam"},
    {"train.optimizer.rho", keeps_mean_square, "kind: rmsprop or adadelta"},
    {"train.optimizer.decoupled", may_decouple, "a weight_decay above 0, and neither lars nor lamb"},
    {"train.optimizer.decay", decays, "a weight_decay above 0"},
    {"train.optimizer.decay_norm", decays, "a weight_decay above 0"},
    {"train.optimizer.delay_compensation.lambda", compensates, "kind: constant or adaptive"},
    {"train.optimizer.delay_compensation.decay", adapts, "kind: adaptive"},
    {"train.optimizer.schedule.base_batch", scales_rate, "scale: linear or root"},
    {"train.optimizer.schedule.warmup", warms_up, "warmup_versions above 0"},
    {"train.optimizer.schedule.warmup_factor", warms_up, "warmup_versions above 0"},
    {"train.optimizer.schedule.step_versions", schedule_is<ScheduleKind::kStep, ScheduleKind::kSigmoid>,
     "kind: step or sigmoid"},
    {"train.optimizer.schedule.step_factor", schedule_is<ScheduleKind::kStep, ScheduleKind::kMultistep>,
     "kind: step or multistep"},
    {"train.optimizer.schedule.step_at", schedule_is<ScheduleKind::kMultistep>, "kind: multistep"},
    {"train.optimizer.schedule.step_epochs", schedule_is<ScheduleKind::kStep, ScheduleKind::kSigmoid>,
     "kind: step or sigmoid"},
    {"train.optimizer.schedule.step_at_epochs", schedule_is<ScheduleKind::kMultistep>, "kind: multistep"},
    {"train.optimizer.schedule.total_epochs", schedule_is<ScheduleKind::kCosine, ScheduleKind::kPoly>,
     "kind: cosine or poly"},
    {"train.optimizer.schedule.gamma",
     schedule_is<ScheduleKind::kExp, ScheduleKind::kInv, ScheduleKind::kSigmoid>,
     "kind: exp, inv or sigmoid"},
    {"train.optimizer.schedule.power", schedule_is<ScheduleKind::kInv, ScheduleKind::kPoly>,
     "kind: inv or poly"},
    {"train.optimizer.schedule.total_versions", schedule_is<ScheduleKind::kCosine, ScheduleKind::kPoly>,
     "kind: cosine or poly"},
    {"data.mean_file", subtracts_places, "kind: cifar10 or synthetic, and subtract: pixel"},
    {"data.subtract_values", subtracts_values, "subtract: values"},
    {"train.optimizer.schedule.final_factor", schedule_is<ScheduleKind::kCosine, ScheduleKind::kPoly>,
     "kind: cosine or poly"},
    {"emulate.jitter_spread", jitters, "a jitter"},
    {"simulate.compute.cv", varies, "distribution: normal, lognormal or gamma"},
    {"simulate.compute.shape", is_pareto, "distribution: pareto"},
    {"simulate.compute.slow_length", has_slow_periods, "a slow_share above 0"},
    {"simulate.compute.slow_factor", has_slow_periods, "a slow_share above 0"},
    {"simulate.compute.pause_length", has_pauses, "a pause_every"},
    {"simulate.metric.initial_accuracy", approaches, "a final_accuracy"},
    {"simulate.metric.final_loss", approaches, "a final_accuracy"},
    {"simulate.metric.initial_loss", approaches, "a final_accuracy"},
    {"simulate.metric.half_samples", approaches, "a final_accuracy"},
    {"simulate.metric.noise", has_metric, "a curve or a final_accuracy"},
    {"simulate.metric.loss_deviation", has_metric, "a curve or a final_accuracy"},
    {"simulate.metric.loss_deviation", has_noise, "noise: binomial"},
};

}  // namespace

bool has_readers(std::string_view key) {
  return std::any_of(std::begin(kReaders), std::end(kReaders),
                     [&](const Reader& reader) { return key == reader.key; });
}

void check_readers(Validator& validator, const RunConfig& c) {
  static const RunConfig defaults;
  RunConfig inner = c;  // as if its optimizer were the workers' own
  inner.train.optimizer = c.train.inner_optimizer;
  const auto check = [&](const Reader& reader, const std::string& path, const RunConfig& read_by) {
    const Key* key = schema().find(path);
    if (key == nullptr) return;
    const std::string got = key->write(c);
    const bool given = validator.given().has(path) && got != key->write(defaults);
    const std::string key_given = validator.given().as_given(path);
    validator.refuse_if(given && !reader.reads(read_by), {key_given.c_str()}, "nobody reads it",
                        key_given == path ? got : schema().find(key_given)->write(c),
                        std::string(reader.who) + ", or no value (null)");
  };
  for (const Reader& reader : kReaders) {
    check(reader, reader.key, c);
    if (const auto path = inner_key_of(reader.key)) check(reader, *path, inner);
  }
}

}  // namespace paceline::config
