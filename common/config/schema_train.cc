// Rows of `train`: the network, the optimizer and its schedule, how much is done and by whom.
#include "common/config/schema.h"
#include "common/network/ready_made.h"

namespace paceline::config {
namespace {

std::vector<std::string> model_names() {
  std::vector<std::string> names = ready_made_names();
  names.emplace_back("layers");
  return names;
}

constexpr std::int64_t kVersionsMax = 1'000'000'000'000;
const Interval kEpochs{.low = 0, .high = 1e6, .open_low = true};

// In the place of a key that counts versions.
void add_epochs(std::vector<Key>& keys) {
  keys.push_back(row(PACELINE_FIELD(train.optimizer.schedule.warmup_epochs), or_null(real(kEpochs)),
                     Scope::kWholeRun,
                     {.unit = "epochs",
                      .effect = "In place of warmup_versions, which loading makes of it.",
                      .trade_off = "The same however many workers share an epoch; null: not given."}));
  keys.push_back(
      row(PACELINE_FIELD(train.optimizer.schedule.step_epochs), or_null(real(kEpochs)), Scope::kWholeRun,
          {.unit = "epochs", .effect = "In place of step_versions.", .trade_off = "As warmup_epochs."}));
  keys.push_back(row(PACELINE_FIELD(train.optimizer.schedule.step_at_epochs), list_of(real(kEpochs)),
                     Scope::kWholeRun,
                     {.unit = "epochs",
                      .effect = "In place of step_at; empty: not given.",
                      .trade_off = "As warmup_epochs."}));
  keys.push_back(row(PACELINE_FIELD(train.optimizer.schedule.total_epochs), or_null(real(kEpochs)),
                     Scope::kWholeRun,
                     {.unit = "epochs",
                      .effect = "In place of total_versions.",
                      .trade_off = "As warmup_epochs; train.total_epochs is the length of the run."}));
}

void add_optimizer(std::vector<Key>& keys) {
  const Interval decay{.low = 0, .high = 1, .open_high = true};

  keys.push_back(
      row(PACELINE_FIELD(train.optimizer.kind), choice<OptimizerKind>(), Scope::kWholeRun,
          {.effect = "The server's update rule; local updates of the thread caches use the same.",
           .trade_off = "State per parameter on server and workers: sgd none; momentum, adagrad, rmsprop and "
                        "lars one float; adam, adadelta and lamb two. lars and lamb are for large "
                        "mini-batches (docs/LARGE_BATCHES.md)."}));
  keys.push_back(row(
      PACELINE_FIELD(train.optimizer.lr), real({.low = 0, .high = 1000, .open_low = true}), Scope::kWholeRun,
      {.unit = "step size",
       .effect = "The learning rate before the schedule's factor.",
       .trade_off = "Large learns fast or diverges; under combine: each smaller by about the number of "
                    "workers.",
       .fallback =
           "0.01; with local steps sgd averages, by 1 under combine: mean and 1 / workers under each, and "
           "other kinds must have one"}));
  keys.back().by_policy = true;
  keys.push_back(row(PACELINE_FIELD(train.optimizer.momentum), real(decay), Scope::kWholeRun,
                     {.effect = "momentum, lars: the share of the last step that is kept.",
                      .trade_off = "High smooths and adds to the effect of staleness."}));
  keys.push_back(row(PACELINE_FIELD(train.optimizer.nesterov), boolean(), Scope::kWholeRun,
                     {.effect = "momentum, lars: look ahead by the kept step.",
                      .trade_off = "Often converges a little faster; only with these kinds."}));
  keys.push_back(
      row(PACELINE_FIELD(train.optimizer.momentum_form), choice<MomentumForm>(), Scope::kWholeRun,
          {.effect = "momentum, lars: outside multiplies the kept step by the rate; inside keeps steps that "
                     "have their rate in them, as Caffe. Where it is not given, lars has inside.",
           .trade_off = "The same while the rate stays. Inside, a lower rate acts on new gradients alone."}));
  keys.push_back(row(PACELINE_FIELD(train.optimizer.beta1), real(decay), Scope::kWholeRun,
                     {.effect = "adam, lamb: decay of the mean gradient.", .trade_off = "As momentum."}));
  keys.push_back(row(PACELINE_FIELD(train.optimizer.beta2), real(decay), Scope::kWholeRun,
                     {.effect = "adam, lamb: decay of the mean squared gradient.",
                      .trade_off = "High gives steadier step sizes that adapt later."}));
  keys.push_back(row(PACELINE_FIELD(train.optimizer.bias_correction), boolean(), Scope::kWholeRun,
                     {.effect = "adam, lamb: correct both means for their beginning at zero.",
                      .trade_off = "Without it the first steps are other ones: of adam too large."}));
  keys.push_back(row(
      PACELINE_FIELD(train.optimizer.epsilon), real({.low = 0, .high = 1, .open_low = true}),
      Scope::kWholeRun,
      {.effect = "adam, adagrad, rmsprop, adadelta, lamb: added to the root of the squared gradients; lars: "
                 "to what the trust ratio is divided by.",
       .trade_off = "Large damps the steps of parameters with tiny gradients."}));
  keys.push_back(row(PACELINE_FIELD(train.optimizer.epsilon_hat), boolean(), Scope::kWholeRun,
                     {.effect = "adam: add epsilon to the root before its bias correction, as Caffe.",
                      .trade_off = "Epsilon weighs more in the first steps."}));
  keys.push_back(row(PACELINE_FIELD(train.optimizer.rho), real(decay), Scope::kWholeRun,
                     {.effect = "rmsprop, adadelta: the share of the mean squared gradient that is kept.",
                      .trade_off = "High gives steadier step sizes that adapt later."}));
  keys.push_back(row(PACELINE_FIELD(train.optimizer.weight_decay), real({.low = 0, .high = 1000}),
                     Scope::kWholeRun,
                     {.unit = "per step",
                      .effect = "Pulls the parameters towards zero; 0 is off.",
                      .trade_off = "Some generalises better, too much underfits."}));
  keys.push_back(row(PACELINE_FIELD(train.optimizer.decoupled), boolean(), Scope::kWholeRun,
                     {.effect = "Decay the parameters themselves (AdamW) instead of adding to the gradient.",
                      .trade_off = "With adam, decay independent of the gradient's scale."}));

  keys.push_back(
      row(PACELINE_FIELD(train.optimizer.decay), choice<TensorsOf>(), Scope::kWholeRun,
          {.effect = "Which parameters decay: all, or weights alone and neither biases nor the scales "
                     "and shifts of normalisations.",
           .trade_off = "weights is what papers with large mini-batches use; it leaves what sets a "
                        "layer's scale alone. Where it is not given, lars and lamb have it."}));
  keys.push_back(
      row(PACELINE_FIELD(train.optimizer.decay_norm), choice<DecayNorm>(), Scope::kWholeRun,
          {.effect = "l2: weight_decay times the parameter is added to the gradient; l1: weight_decay with "
                     "the parameter's sign.",
           .trade_off = "l1 makes parameters 0 that matter little; not with lars, lamb or decoupled."}));
  keys.push_back(
      row(PACELINE_FIELD(train.optimizer.trust_coefficient), real({.low = 0, .high = 1000, .open_low = true}),
          Scope::kWholeRun,
          {.effect = "lars: a tensor's step is the rate times this, times the tensor's norm over its "
                     "gradient's.",
           .trade_off = "The share of itself that a tensor may change by in a step of rate 1."}));
  keys.push_back(row(PACELINE_FIELD(train.optimizer.trust_ratio_max),
                     or_null(real({.low = 0, .high = 1e6, .open_low = true})), Scope::kWholeRun,
                     {.effect = "lars, lamb: no trust ratio is larger. At 1 no step is longer than plain "
                                "momentum's; null: no bound.",
                      .trade_off = "Low bounds the steps of tensors with tiny gradients and adapts less."}));
  keys.push_back(row(
      PACELINE_FIELD(train.optimizer.trust_norm), choice<TrustNorm>(), Scope::kWholeRun,
      {.effect = "lars: gradient divides by the gradient's norm + weight_decay x the tensor's; with_decay "
                 "by the norm of the gradient + weight_decay x the tensor, as optax.",
       .trade_off = "with_decay has the greater ratio, the more the two pull apart."}));
  keys.push_back(row(PACELINE_FIELD(train.optimizer.trust_clip), boolean(), Scope::kWholeRun,
                     {.effect = "lars: a tensor's step is the smaller of its ratio and the rate, times the "
                                "gradient, as LARC with clip; false: their product.",
                      .trade_off = "Never longer than plain momentum's, with rates as plain momentum has."}));
  keys.push_back(
      row(PACELINE_FIELD(train.optimizer.trust), choice<TensorsOf>(), Scope::kWholeRun,
          {.effect = "lars, lamb: whose steps have a trust ratio: weights alone, or all. Other tensors have "
                     "the ratio 1.",
           .trade_off = "weights is what the papers' code does; all also adapts biases and norms, whose own "
                        "norm says little."}));

  keys.push_back(
      row(PACELINE_FIELD(train.optimizer.staleness), choice<StalenessScaling>(), Scope::kWholeRun,
          {.effect = "inverse: a gradient that misses t updates takes its step with the learning rate / t, "
                     "from t = 2 on; inverse_root: with the learning rate / the root of 1 + t.",
           .trade_off = "Steadies runs with old gradients and takes smaller steps; about lr / (workers - 1) "
                        "where all run freely."}));
  keys.push_back(row(
      PACELINE_FIELD(train.optimizer.delay_compensation.kind), choice<CompensationKind>(), Scope::kWholeRun,
      {.effect = "Add lambda g g (parameters now - those it was computed with) to a gradient g; adaptive: "
                 "lambda / the root of the mean squared gradient.",
       .trade_off = "Old gradients do less harm; for sgd with combine: each and one thread per node, at "
                    "the cost of a model or two per node on each server."}));
  keys.push_back(
      row(PACELINE_FIELD(train.optimizer.delay_compensation.lambda), real({.low = 0, .high = 1000}),
          Scope::kWholeRun,
          {.effect = "How much is added.",
           .trade_off = "0 is plain asynchronous SGD; too much trusts a first-order guess too far. "
                        "Where it is not given, adaptive has 2: the paper's values for CIFAR-10."}));
  keys.push_back(row(PACELINE_FIELD(train.optimizer.delay_compensation.decay), real(decay), Scope::kWholeRun,
                     {.effect = "adaptive: the share of the mean squared gradient that is kept.",
                      .trade_off = "High is steadier; 0 is the squared gradient itself."}));
  keys.push_back(
      row(PACELINE_FIELD(train.optimizer.schedule.kind), choice<ScheduleKind>(), Scope::kWholeRun,
          {.effect = "How the learning rate changes with the version.",
           .trade_off = "cosine ends at a well-annealed model and must know the length of the run."}));
  keys.push_back(
      row(PACELINE_FIELD(train.optimizer.schedule.scale), choice<RateScale>(), Scope::kWholeRun,
          {.effect = "linear: lr times the samples of a step over base_batch; root: times the root of that. "
                     "none: lr as it is.",
           .trade_off = "linear keeps what an epoch learns when workers or batch_size change, up to some "
                        "thousand samples; root is cautious, and usual with adam and lamb."}));
  keys.push_back(row(PACELINE_FIELD(train.optimizer.schedule.base_batch), whole(1, kVersionsMax),
                     Scope::kWholeRun,
                     {.unit = "samples",
                      .effect = "scale: the mini-batch of all workers that lr is meant for.",
                      .trade_off = "That of the run in which lr was tuned."}));
  keys.push_back(row(PACELINE_FIELD(train.optimizer.schedule.warmup_versions), whole(0, kVersionsMax),
                     Scope::kWholeRun,
                     {.unit = "versions",
                      .effect = "Begin with a lower learning rate for so many versions; 0: no warm-up.",
                      .trade_off = "Steadies a large learning rate; too long wastes the start."}));
  keys.push_back(
      row(PACELINE_FIELD(train.optimizer.schedule.warmup), choice<WarmUp>(), Scope::kWholeRun,
          {.effect = "gradual: the rate rises with each version; constant: it is rate x warmup_factor, then "
                     "the rate.",
           .trade_off = "constant ends with a jump, which a very large rate may not survive."}));
  keys.push_back(
      row(PACELINE_FIELD(train.optimizer.schedule.warmup_factor),
          or_null(real({.low = 0, .high = 1, .open_low = true})), Scope::kWholeRun,
          {.unit = "factor",
           .effect = "The warm-up begins at the rate x this. null: at lr before `scale`; without scale, "
                     "gradual rises in equal steps from the first.",
           .trade_off = "Small is careful; constant without scale needs it."}));
  keys.push_back(row(PACELINE_FIELD(train.optimizer.schedule.step_versions), whole(0, kVersionsMax),
                     Scope::kWholeRun,
                     {.unit = "versions",
                      .effect = "step: multiply the learning rate by step_factor each so many versions; "
                                "sigmoid: the version at which half of it is left.",
                      .trade_off = "Short anneals early; kind: step needs at least 1."}));
  keys.push_back(row(PACELINE_FIELD(train.optimizer.schedule.step_factor),
                     real({.low = 0, .high = 1, .open_low = true}), Scope::kWholeRun,
                     {.unit = "factor",
                      .effect = "step, multistep: what the learning rate is multiplied by.",
                      .trade_off = "Small anneals abruptly."}));
  keys.push_back(row(PACELINE_FIELD(train.optimizer.schedule.step_at), list_of(whole(0, kVersionsMax)),
                     Scope::kWholeRun,
                     {.unit = "versions",
                      .effect = "multistep: the versions at which the learning rate is multiplied, rising.",
                      .trade_off = "Early ones anneal before the loss has settled."}));
  keys.push_back(row(PACELINE_FIELD(train.optimizer.schedule.gamma), real({.low = -1e6, .high = 1e6}),
                     Scope::kWholeRun,
                     {.effect = "exp: the factor of each version; inv, sigmoid: how fast the rate changes.",
                      .trade_off = "exp: below 1; inv: above 0; sigmoid: below 0 to let the rate fall."}));
  keys.push_back(row(PACELINE_FIELD(train.optimizer.schedule.power), real({.low = 0, .high = 1000}),
                     Scope::kWholeRun,
                     {.effect = "inv, poly: the curve's exponent.",
                      .trade_off = "Large anneals sooner; poly with 1 is a straight line."}));
  keys.push_back(row(
      PACELINE_FIELD(train.optimizer.schedule.total_versions), or_null(whole(1, kVersionsMax)),
      Scope::kWholeRun,
      {.unit = "versions",
       .effect = "cosine, poly: the version at which final_factor is reached; null: "
                 "the run's planned end, total_iterations over the gradients of a clock, as configured.",
       .trade_off = "Set it when max_seconds or target_accuracy end the run sooner, or when nodes may be "
                    "lost: what is done again for them comes after the planned end, with final_factor."}));
  keys.push_back(row(PACELINE_FIELD(train.optimizer.schedule.final_factor), real({.low = 0, .high = 1}),
                     Scope::kWholeRun,
                     {.unit = "factor",
                      .effect = "cosine, poly: the learning rate ends at lr x this.",
                      .trade_off = "Above 0 keeps learning to the end."}));
  add_epochs(keys);
}

bool has_inner_optimizer(const RunConfig& c) { return c.train.has_inner_optimizer; }

// The row of the worker's own optimizer that says there what `outer` says of the servers'.
Key inner_row(const Key& outer, std::string path) {
  Key key = outer;
  key.path = std::move(path);
  key.by_policy = true;
  key.applies = has_inner_optimizer;
  key.fallback =
      outer.write(RunConfig()) + " where a key of inner_optimizer is given; no inner optimizer otherwise";
  if (key.path == "train.inner_optimizer.kind") {
    key.words.effect = "The update rule of a worker's local steps. Its state stays with the worker.";
    key.words.trade_off =
        "State per parameter on each worker: sgd none; momentum, adagrad, rmsprop and lars one float; adam, "
        "adadelta and lamb two.";
  }
  key.read = [read = outer.read](const Value& value, RunConfig& config) {
    RunConfig other;
    other.train.optimizer = config.train.inner_optimizer;
    std::optional<Fault> wrong = read(value, other);
    config.train.inner_optimizer = other.train.optimizer;
    return wrong;
  };
  key.write = [write = outer.write](const RunConfig& config) {
    RunConfig other;
    other.train.optimizer = config.train.inner_optimizer;
    return write(other);
  };
  return key;
}

void add_local_steps(Schema& schema, std::vector<Key> optimizer) {
  schema.sections.push_back({"train.inner_optimizer",
                             "the optimizer of a worker's local steps, with the keys of train.optimizer",
                             Scope::kWholeRun});
  schema.sections.push_back({"train.inner_optimizer.schedule",
                             "its learning rate by mini-batches of each worker", Scope::kWholeRun});
  auto& keys = schema.keys;
  keys.push_back(
      row(PACELINE_FIELD(train.local_steps), whole(1, 1'000'000), Scope::kWholeRun,
          {.unit = "mini-batches",
           .effect = "How many a worker takes with its inner_optimizer between two exchanges: a round. What "
                     "they changed, the delta, is pushed like a gradient; train.optimizer is the outer one.",
           .trade_off = "Many push and pull less often, 1 / local_steps of the bytes, and workers drift "
                        "apart in between. 1 without inner_optimizer: each gradient is pushed."}));
  keys.push_back(row(
      PACELINE_FIELD(train.local_time),
      or_null(duration(std::chrono::microseconds(1), std::chrono::hours(24))), Scope::kWholeRun,
      {.effect = "A round ends after so much time: with the mini-batches that fit into it, one at least, and "
                 "local_steps at most. null: a round has local_steps.",
       .trade_off =
           "A straggler holds up nobody for longer. What its rounds leave out is computed by nobody, "
           "though iterations count it; and what a worker does depends on its speed."}));
  keys.push_back(
      row(PACELINE_FIELD(train.warm_start_steps), whole(0, 1'000'000'000), Scope::kWholeRun,
          {.unit = "mini-batches",
           .effect = "How many node 0 takes alone with the inner_optimizer before the first round begins; "
                     "they are none of total_iterations.",
           .trade_off = "The first averages are of models that have learned something; the others wait for "
                        "it, and it is in no wall time."}));
  keys.push_back(row(
      PACELINE_FIELD(train.local_balance), choice<BatchSizing>(), Scope::kWholeRun,
      {.effect =
           "speed: in a round fast nodes take more local steps and slow ones fewer, so that all take equally "
           "long. Together they take as many as with local_steps each.",
       .trade_off =
           "No waiting where nodes differ for good; models of fast nodes drift farther within a round. "
           "With combine: mean and share: even."}));
  for (const Key& outer : optimizer) {
    if (auto path = inner_key_of(outer.path)) keys.push_back(inner_row(outer, *std::move(path)));
  }
}

}  // namespace

// Staleness and its compensation are the servers' affair.
std::optional<std::string> inner_key_of(std::string_view path) {
  constexpr std::string_view kOuter = "train.optimizer.";
  if (!path.starts_with(kOuter)) return std::nullopt;
  const std::string_view key = path.substr(kOuter.size());
  if (key == "staleness" || key.starts_with("delay_compensation.")) return std::nullopt;
  return "train.inner_optimizer." + std::string(key);
}

void add_train(Schema& schema) {
  schema.sections.push_back({"train", "what is trained, how long and by whom", Scope::kWholeRun});
  schema.sections.push_back({"train.optimizer", "how a gradient changes the parameters", Scope::kWholeRun});
  schema.sections.push_back({"train.optimizer.delay_compensation",
                             "a stale gradient corrected for what has changed since", Scope::kWholeRun});
  schema.sections.push_back({"train.optimizer.schedule", "the learning rate by version", Scope::kWholeRun});
  auto& keys = schema.keys;

  keys.push_back(
      row(PACELINE_FIELD(train.model), one_of(model_names()), Scope::kWholeRun,
          {.effect = "A ready-made network, or `layers` for the one listed under train.layers.",
           .trade_off = "cifar_cnn is the DTSSP experiment's, about 4 x the work of cifar_cnn_small. The "
                        "residual ones (docs/LARGE_BATCHES.md) are slower and better; resnet50 is for "
                        "224 x 224 pictures."}));
  keys.push_back(row(
      PACELINE_FIELD(train.layers), list_of(layer()), Scope::kWholeRun,
      {.effect = "The network from input to output; only with model: layers. A layer reads the one before "
                 "it, or those that its `from` names.",
       .trade_off =
           "conv {out, kernel, stride, padding, groups, dilation, bias}, pool and average_pool {kernel, "
           "stride, padding, window_end}, dense {out}, dropout {rate}, lrn {size, alpha, beta, k, "
           "region}, batch_norm {epsilon, momentum, affine, debias}, scale {bias}, relu, sigmoid, tanh, "
           "flatten, "
           "add {from, coefficients}, multiply, maximum and concat {from}, slice {part, parts, points}, "
           "global_average_pool, softmax_loss, sigmoid_loss, euclidean_loss and contrastive_loss "
           "{loss_weight}; "
           "each may have a name and a from. docs/NETWORKS.md has the fields of losses, factors, fillers and "
           "weights_of."}));
  keys.push_back(row(
      PACELINE_FIELD(train.caffe_solver), path_or_null(), Scope::kOneDaemon,
      {.effect = "A Caffe solver.prototxt: its network, optimizer, batch size and length, for keys that are "
                 "not given (docs/CAFFE.md). What it says stands in the effective configuration.",
       .trade_off = "Instead of model and layers; every machine needs the files at the same path."}));
  keys.push_back(row(PACELINE_FIELD(train.dropout), real({.low = 0, .high = 1, .open_high = true}),
                     Scope::kWholeRun,
                     {.unit = "probability",
                      .effect = "Ready-made networks: dropout before the last dense layer; 0 is off.",
                      .trade_off = "Generalises better over many epochs, learns more slowly in few."}));
  keys.push_back(row(
      PACELINE_FIELD(train.batch_norm_group), whole32(1, 65536), Scope::kWholeRun,
      {.unit = "nodes",
       .effect = "A batch_norm goes by mean and variance of the mini-batches of so many nodes together.",
       .trade_off = "Small mini-batches have noisy statistics, which a group mends. Two messages a layer and "
                    "step between its nodes; all of them compute at the pace of the slowest."}));
  keys.push_back(
      row(PACELINE_FIELD(train.zero_gamma), boolean(), Scope::kWholeRun,
          {.effect = "Ready-made residual networks: the last norm of each block begins with gamma 0, so "
                     "that blocks begin as the identity.",
           .trade_off = "Steadier first steps, above all with large mini-batches."}));

  keys.push_back(row(
      PACELINE_FIELD(train.backend), choice<Backend>(), Scope::kWholeRun,
      {.effect =
           "On the CPU, onednn: fast kernels; reference: plain loops, the truth the others are tested by.",
       .trade_off = "reference is very much slower; for tests."}));
  keys.push_back(row(
      PACELINE_FIELD(train.init_from), path_or_null(), Scope::kOneDaemon,
      {.effect =
           "A model file, as runs leave model.bin, a safetensors file, or a *.caffemodel, whose tensors the "
           "parameters begin with: those of the same name and shape. The rest, and all where it is null, is "
           "drawn from run.seed.",
       .trade_off = "Only node 0 reads it, at the start of a run and not at a resume; its log says which "
                    "tensors fitted."}));
  std::vector<Key> optimizer;
  add_optimizer(optimizer);
  keys.insert(keys.end(), optimizer.begin(), optimizer.end());
  add_local_steps(schema, std::move(optimizer));
  keys.push_back(row(PACELINE_FIELD(train.batch_size), whole(1, 65536), Scope::kWholeRun,
                     {.unit = "samples per worker and iteration",
                      .effect = "Mini-batch of each iteration; a clock sees it times the number of workers.",
                      .trade_off = "Large computes more per exchange and takes fewer steps per epoch."}));
  keys.push_back(
      row(PACELINE_FIELD(train.accumulate), whole(1, 65536), Scope::kWholeRun,
          {.unit = "parts",
           .effect = "Compute a mini-batch in so many parts, one after another, and add their gradients up. "
                     "batch_size remains the whole.",
           .trade_off = "Activations of one part need memory at a time; small parts compute more slowly, and "
                        "nothing of a gradient leaves before the last part."}));
  keys.push_back(row(PACELINE_FIELD(train.label_smoothing), real({.low = 0, .high = 1, .open_high = true}),
                     Scope::kWholeRun,
                     {.unit = "share",
                      .effect = "Take so much of the target from the label and give it to all classes alike. "
                                "In training only: evaluations have the plain loss.",
                      .trade_off = "0.1 is usual with large mini-batches over many epochs; training losses "
                                   "are higher."}));
  keys.push_back(row(
      PACELINE_FIELD(train.clip_gradients), or_null(real({.low = 0, .high = 1e9, .open_low = true})),
      Scope::kWholeRun,
      {.unit = "norm of a mini-batch's gradient",
       .effect = "A worker scales a gradient down to this L2 norm where it is larger; null: none is.",
       .trade_off = "Survives rare steep places. Nothing of a gradient leaves before the whole is there; on "
                    "the CPU."}));
  keys.push_back(row(
      PACELINE_FIELD(train.batch_balance), choice<BatchSizing>(), Scope::kWholeRun,
      {.effect = "speed: mini-batches in multiples of 8 follow each node's measured speed, as many samples "
                 "a clock as with equal ones; off: all have batch_size.",
       .trade_off =
           "Lasting differences cost no time any more. Sizes follow measured times, so a real run does not "
           "repeat bit for bit, not even under bsp. A training thread keeps programs and activations for "
           "4 sizes. Needs combine: mean, share: even and a batch_size that is a multiple of 8."}));
  keys.push_back(row(PACELINE_FIELD(train.total_iterations), whole(1, kVersionsMax), Scope::kOneSession,
                     {.unit = "iterations of all workers together",
                      .effect = "The length of the run: each iteration is one mini-batch of one worker. A "
                                "resume may change it: so a run that has ended is extended.",
                      .trade_off = "Epochs = this x batch_size / training samples."}));
  keys.push_back(row(PACELINE_FIELD(train.total_epochs), or_null(real(kEpochs)), Scope::kOneSession,
                     {.unit = "epochs",
                      .effect = "In place of total_iterations, which loading makes of it: the nearest whole "
                                "number of clocks. Other keys in epochs are so made into versions.",
                      .trade_off = "The same run for any batch_size and number of workers. Needs "
                                   "data.train_samples, or kind: cifar10 with a data.path."}));
  keys.push_back(
      row(PACELINE_FIELD(train.share), choice<Share>(), Scope::kWholeRun,
          {.effect = "even: every worker does the same number of iterations; pool: the next is whoever is "
                     "granted.",
           .trade_off = "Under even, the paper's, every policy ends at the slowest's pace; pool lets the "
                        "fast do more."}));
  keys.push_back(row(
      PACELINE_FIELD(train.eval_every_clocks), or_null(whole(1, 1'000'000'000)), Scope::kWholeRun,
      {.unit = "clocks",
       .effect = "Evaluate on the test set each so many versions; null: only at the end.",
       .trade_off = "A finer curve; each evaluation takes a core from the workers of node 0's machine."}));
  keys.push_back(
      row(PACELINE_FIELD(train.eval_samples), whole(0, kVersionsMax), Scope::kWholeRun,
          {.unit = "samples",
           .effect = "Evaluate on so many test samples, spread over the set, the same each time; 0: all.",
           .trade_off = "Fewer are cheaper and noisier."}));
  keys.push_back(
      row(PACELINE_FIELD(train.device), choice<Device>(), Scope::kWholeRun,
          {.effect = "Where workers compute gradients: on the CPU, or with CUDA on GPUs.",
           .trade_off = "cuda needs a build with CUDA, and a GPU on each node's machine (docs/GPU.md)."}));
  keys.push_back(
      row(PACELINE_FIELD(train.devices), list_of(whole32(0, 1023)), Scope::kOneDaemon,
          {.unit = "GPUs as CUDA numbers them",
           .effect = "cuda: the GPUs of a node; its threads take them in turn. Empty: all of its machine.",
           .trade_off =
               "Several threads on one GPU fill it better, and each needs memory for its activations."}));
  keys.push_back(row(
      PACELINE_FIELD(train.precision), choice<Precision>(), Scope::kWholeRun,
      {.effect = "What is multiplied; with bf16 and fp16 activations are so, too, and on a GPU logits and a "
                 "filter's gradient are rounded to 16 bits. Parameters, sums, statistics, the loss and the "
                 "gradient that is sent are float32 with each.",
       .trade_off =
           "bf16 halves the memory of activations and computes faster, with gradients that are less "
           "exact: on a CPU with AVX-512, fast from its bf16 instructions on, and on a GPU of compute "
           "capability 8.0 on. tf32: such a GPU alone. fp16: any GPU; more digits than bf16, with the loss "
           "scaled and steps that overflow skipped (on_nan: skip)."}));
  keys.push_back(
      row(PACELINE_FIELD(train.on_nan), choice<OnNan>(), Scope::kWholeRun,
          {.effect = "On a NaN or infinite loss or gradient: stop the run, or skip that iteration; in an "
                     "all-reduce those of all workers.",
           .trade_off = "skip survives a rare spike and can hide a run that has diverged."}));
  keys.push_back(row(PACELINE_FIELD(train.skips_max), real({.low = 0, .high = 1, .open_low = true}),
                     Scope::kOneSession,
                     {.unit = "share of iterations",
                      .effect = "on_nan: skip: the run fails once more than this share of its last 100 "
                                "iterations (a quarter of a shorter run, at least 10) is skipped. 1: never.",
                      .trade_off = "Small ends a run that some bad samples disturb; large computes on with a "
                                   "model that has diverged."}));
}

}  // namespace paceline::config
