#include "common/caffe/solver.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/caffe/mean_file.h"
#include "common/caffe/net_of.h"
#include "common/caffe/text.h"
#include "common/network/layer_rule.h"

namespace paceline::caffe {
namespace {

// A solver's file with what it names.
struct Files {
  std::string file;
  SolverParameter solver;
  Lines lines;
  Net train;
  std::optional<Net> test;

  int line(const char* field) const {
    const auto* descriptor = SolverParameter::descriptor()->FindFieldByName(field);
    return line_of<SolverParameter>(lines, field, descriptor->is_repeated() ? 0 : -1);
  }
  Status refuse(const char* field, const std::string& what, const std::string& expected) const {
    return invalid_argument(at_line(file, line(field)) + ": " + field + ": " + what + ", expected " +
                            expected);
  }
};

State state_of(Phase phase, const NetState* given) {
  State state{.phase = phase};
  if (given == nullptr) return state;
  if (given->has_level()) state.level = given->level();
  state.stages.assign(given->stage().begin(), given->stage().end());
  return state;
}

// A net that stands in the solver itself.
Result<Net> inline_net(const Files& files, const NetParameter& net, const char* field, int index,
                       const State& state, Want want, std::vector<std::string>& notes) {
  const auto* descriptor = SolverParameter::descriptor()->FindFieldByName(field);
  Lines* const lines = files.lines.GetTreeForNested(descriptor, index);
  PACELINE_ASSIGN_OR_RETURN(const std::vector<FileLayer> layers,
                            file_layers(net, files.file, [&](const char* of, int i) {
                              return lines == nullptr ? 1 : line_of<NetParameter>(*lines, of, i);
                            }));
  return net_of(net, layers, files.file, state, want, notes);
}

Result<Net> named_net(const Files& files, const std::string& path, const char* field, const State& state,
                      Want want, std::vector<std::string>& notes) {
  const std::string found = find_file(path, files.file);
  if (found.empty()) {
    return not_found(
        at_line(files.file, files.line(field)) + ": " + field + ": " + path +
        " is not there, expected it from the working directory, the solver's folder or one above it");
  }
  return read_net_for(found, state, want, notes);
}

// The net that is trained: exactly one of four fields says it.
Status read_train_net(Files& files, std::vector<std::string>& notes) {
  const SolverParameter& solver = files.solver;
  const int given =
      solver.has_net() + solver.has_net_param() + solver.has_train_net() + solver.has_train_net_param();
  if (given != 1) {
    return invalid_argument(files.file + ": " +
                            (given == 0 ? "no net" : std::to_string(given) + " nets to train") +
                            ", expected one of net, net_param, train_net and train_net_param");
  }
  const State state = state_of(Phase::kTrain, solver.has_train_state() ? &solver.train_state() : nullptr);
  Result<Net> net =
      solver.has_net() ? named_net(files, solver.net(), "net", state, Want::kLayers, notes)
      : solver.has_train_net()
          ? named_net(files, solver.train_net(), "train_net", state, Want::kLayers, notes)
      : solver.has_net_param()
          ? inline_net(files, solver.net_param(), "net_param", -1, state, Want::kLayers, notes)
          : inline_net(files, solver.train_net_param(), "train_net_param", -1, state, Want::kLayers, notes);
  PACELINE_ASSIGN_OR_RETURN(files.train, std::move(net));
  if (files.train.losses > 0) return Status::ok();
  return invalid_argument(files.train.file +
                          ": no loss in phase TRAIN, expected a layer SoftmaxWithLoss or another loss");
}

// The first net that is evaluated, where there is one. A run needs no more of it than its data layer, as the
// layers are those that are trained.
Status read_test_net(Files& files, Want want, std::vector<std::string>& notes) {
  const SolverParameter& solver = files.solver;
  if (solver.test_iter_size() == 0 && solver.test_interval() == 0) return Status::ok();
  const State state = state_of(Phase::kTest, solver.test_state_size() > 0 ? &solver.test_state(0) : nullptr);
  std::vector<std::string> again;  // said of the same file before
  std::optional<Result<Net>> net;
  if (solver.test_net_param_size() > 0) {
    net = inline_net(files, solver.test_net_param(0), "test_net_param", 0, state, want, notes);
  } else if (solver.test_net_size() > 0) {
    net = named_net(files, solver.test_net(0), "test_net", state, want, notes);
  } else if (solver.has_net()) {
    net = named_net(files, solver.net(), "net", state, want, again);
  } else if (solver.has_net_param()) {
    net = inline_net(files, solver.net_param(), "net_param", -1, state, want, again);
  }
  if (!net) return Status::ok();
  PACELINE_ASSIGN_OR_RETURN(files.test, std::move(*net));
  return Status::ok();
}

// solver_type upgraded to type: upgrade_proto.cpp.
Result<std::string> type_of(const Files& files) {
  if (!files.solver.has_solver_type()) return files.solver.type();
  if (files.solver.has_type()) return files.refuse("solver_type", "and type", "one of the two");
  switch (files.solver.solver_type()) {
    case SolverParameter::SGD:
      return std::string("SGD");
    case SolverParameter::NESTEROV:
      return std::string("Nesterov");
    case SolverParameter::ADAGRAD:
      return std::string("AdaGrad");
    case SolverParameter::RMSPROP:
      return std::string("RMSProp");
    case SolverParameter::ADADELTA:
      return std::string("AdaDelta");
    case SolverParameter::ADAM:
      return std::string("Adam");
  }
  return std::string("SGD");
}

// Sets keys, each with the line that says it.
class Setter {
 public:
  Setter(const Files& files, const MaySet& may_set) : files_(files), may_set_(may_set) {}

  template <typename T, typename U>
  void set(const char* key, T& field, U value, const char* set_by) const {
    set_at(key, field, std::move(value), files_.file, files_.line(set_by));
  }
  template <typename T, typename U>
  void set_at(const char* key, T& field, U value, const std::string& file, int line) const {
    if (may_set_(key, file, line)) field = std::move(value);
  }

 private:
  const Files& files_;
  const MaySet& may_set_;
};

// The optimizer that a solver describes: the servers', or with local steps the workers' own.
struct Target {
  OptimizerSection& optimizer;
  std::string at;  // "train.optimizer"
};

#define PACELINE_SET(path, value, set_by) setter.set(#path, config.path, value, set_by)

#define PACELINE_SET_OPTIMIZER(path, value, set_by) \
  setter.set((target.at + "." #path).c_str(), target.optimizer.path, value, set_by)

Status apply_optimizer(const Files& files, const Setter& setter, const Target& target) {
  const SolverParameter& solver = files.solver;
  const double momentum = decimal(solver.momentum());
  PACELINE_ASSIGN_OR_RETURN(const std::string type, type_of(files));
  const auto kind = [&](OptimizerKind value) { PACELINE_SET_OPTIMIZER(kind, value, "type"); };
  if (type == "SGD" || type == "Nesterov") {
    kind(momentum == 0.0 ? OptimizerKind::kSgd : OptimizerKind::kMomentum);
    if (momentum != 0.0) {
      PACELINE_SET_OPTIMIZER(momentum, momentum, "momentum");
      PACELINE_SET_OPTIMIZER(momentum_form, MomentumForm::kInside, "momentum");
      PACELINE_SET_OPTIMIZER(nesterov, type == "Nesterov", "type");
    }
  } else if (type == "Adam") {
    kind(OptimizerKind::kAdam);
    PACELINE_SET_OPTIMIZER(beta1, momentum, "momentum");
    PACELINE_SET_OPTIMIZER(beta2, decimal(solver.momentum2()), "momentum2");
    PACELINE_SET_OPTIMIZER(epsilon, decimal(solver.delta()), "delta");
    PACELINE_SET_OPTIMIZER(epsilon_hat, true, "type");
  } else if (type == "AdaGrad" || type == "RMSProp") {
    if (momentum != 0.0) return files.refuse("momentum", type + " with one", "none, as Caffe");
    kind(type == "AdaGrad" ? OptimizerKind::kAdagrad : OptimizerKind::kRmsprop);
    if (type == "RMSProp") PACELINE_SET_OPTIMIZER(rho, decimal(solver.rms_decay()), "rms_decay");
    PACELINE_SET_OPTIMIZER(epsilon, decimal(solver.delta()), "delta");
  } else if (type == "AdaDelta") {
    kind(OptimizerKind::kAdadelta);
    PACELINE_SET_OPTIMIZER(rho, momentum, "momentum");
    PACELINE_SET_OPTIMIZER(epsilon, decimal(solver.delta()), "delta");
  } else {
    return files.refuse("type", type, "SGD, Nesterov, Adam, AdaGrad, RMSProp or AdaDelta");
  }
  PACELINE_SET_OPTIMIZER(weight_decay, decimal(solver.weight_decay()), "weight_decay");
  const std::string& regularization = solver.regularization_type();
  if (regularization != "L2" && regularization != "L1") {
    return files.refuse("regularization_type", regularization, "L1 or L2");
  }
  if (solver.weight_decay() != 0.0F && regularization == "L1") {
    PACELINE_SET_OPTIMIZER(decay_norm, DecayNorm::kL1, "regularization_type");
  }
  return Status::ok();
}

Status apply_schedule(const Files& files, const Setter& setter, const Target& target) {
  const SolverParameter& solver = files.solver;
  if (!solver.has_base_lr()) return invalid_argument(files.file + ": no base_lr, expected one");
  PACELINE_SET_OPTIMIZER(lr, decimal(solver.base_lr()), "base_lr");
  const std::string& policy = solver.lr_policy();
  const auto kind = [&](ScheduleKind value) { PACELINE_SET_OPTIMIZER(schedule.kind, value, "lr_policy"); };
  const auto gamma = [&] { PACELINE_SET_OPTIMIZER(schedule.gamma, decimal(solver.gamma()), "gamma"); };
  const auto factor = [&] { PACELINE_SET_OPTIMIZER(schedule.step_factor, decimal(solver.gamma()), "gamma"); };
  const auto power = [&] { PACELINE_SET_OPTIMIZER(schedule.power, decimal(solver.power()), "power"); };
  const auto every = [&] { PACELINE_SET_OPTIMIZER(schedule.step_versions, solver.stepsize(), "stepsize"); };
  if (policy == "fixed") {
    kind(ScheduleKind::kConstant);
  } else if (policy == "step") {
    kind(ScheduleKind::kStep), factor(), every();
  } else if (policy == "exp") {
    kind(ScheduleKind::kExp), gamma();
  } else if (policy == "inv") {
    kind(ScheduleKind::kInv), gamma(), power();
  } else if (policy == "multistep") {
    kind(ScheduleKind::kMultistep), factor();
    PACELINE_SET_OPTIMIZER(schedule.step_at,
                           std::vector<std::int64_t>(solver.stepvalue().begin(), solver.stepvalue().end()),
                           "stepvalue");
  } else if (policy == "poly") {
    kind(ScheduleKind::kPoly), power();
    PACELINE_SET_OPTIMIZER(schedule.total_versions, solver.max_iter(), "max_iter");
  } else if (policy == "sigmoid") {
    kind(ScheduleKind::kSigmoid), gamma(), every();
  } else {
    return files.refuse("lr_policy", policy.empty() ? "none" : policy,
                        "fixed, step, exp, inv, multistep, poly or sigmoid");
  }
  return Status::ok();
}

Status apply_length(const Files& files, const Setter& setter, RunConfig& config) {
  const SolverParameter& solver = files.solver;
  if (solver.max_iter() < 1) return files.refuse("max_iter", std::to_string(solver.max_iter()), "1 or more");
  if (solver.iter_size() < 1)
    return files.refuse("iter_size", std::to_string(solver.iter_size()), "1 or more");
  // So that the run is planned to have max_iter versions, however gradients are combined: schedules count those.
  std::int64_t of_a_clock = config.cluster.cluster().workers();
  if (config.sync.policy == PolicyKind::kBackup && config.sync.backup_workers < of_a_clock) {
    of_a_clock -= config.sync.backup_workers;
  }
  PACELINE_SET(train.total_iterations, solver.max_iter() * of_a_clock, "max_iter");
  if (solver.clip_gradients() >= 0.0F) {
    // Caffe measures the sum of iter_size passes, and we their mean.
    PACELINE_SET(train.clip_gradients, decimal(solver.clip_gradients()) / solver.iter_size(),
                 "clip_gradients");
  }
  const auto in_rounds = [&](std::int64_t iterations) {
    return std::max<std::int64_t>(1, iterations / config.train.local_steps);
  };
  if (files.train.data && files.train.data->batch_size > 0) {
    // The sum of iter_size passes, divided by iter_size, is the mean over all of their samples; where labels are
    // ignored or a batch is normalised, of passes that are each by themselves.
    setter.set_at("train.batch_size", config.train.batch_size,
                  files.train.data->batch_size * solver.iter_size(), files.train.file,
                  files.train.data->line);
  }
  if (solver.iter_size() > 1 && config.pipeline.stages == 1)
    PACELINE_SET(train.accumulate, solver.iter_size(), "iter_size");
  if (solver.test_interval() > 0) {
    PACELINE_SET(train.eval_every_clocks, in_rounds(solver.test_interval()), "test_interval");
  }
  if (solver.test_iter_size() > 0 && files.test && files.test->data && files.test->data->batch_size > 0) {
    PACELINE_SET(train.eval_samples, solver.test_iter(0) * files.test->data->batch_size, "test_iter");
  }
  if (solver.snapshot() > 0) PACELINE_SET(checkpoint.every_clocks, in_rounds(solver.snapshot()), "snapshot");
  if (solver.random_seed() >= 0) {
    PACELINE_SET(run.seed, static_cast<std::uint64_t>(solver.random_seed()), "random_seed");
  }
  return Status::ok();
}

// A solver begins with the weights that it names, unless the configuration names others.
Status apply_weights(const Files& files, const Setter& setter, RunConfig& config) {
  const SolverParameter& solver = files.solver;
  if (solver.weights_size() == 0) return Status::ok();
  const std::string& given = solver.weights(0);
  if (solver.weights_size() > 1 || given.find(',') != std::string::npos) {
    return files.refuse("weights", "more than one file", "one caffemodel");
  }
  const std::string found = find_file(given, files.file);
  PACELINE_SET(train.init_from, found.empty() ? given : found, "weights");
  return Status::ok();
}

// The transformation of files of our own format: docs/CAFFE.md, "Data".
Status apply_to_files(const DataLayer& data, const std::string& file, const Setter& setter, DataSection& to,
                      const MaySet& may_set) {
  setter.set_at("data.scale", to.scale, data.scale, file, data.line);
  const Subtract subtract = !data.mean_file.empty()    ? Subtract::kPixel
                            : data.mean_values.empty() ? Subtract::kNone
                                                       : Subtract::kValues;
  if (may_set("data.subtract", file, data.line)) {
    to.subtract = subtract;
    const std::string means = data.mean_file.empty() ? "" : find_file(data.mean_file, file);
    if (!means.empty()) setter.set_at("data.mean_file", to.mean_file, means, file, data.line);
    if (subtract == Subtract::kValues) {
      setter.set_at("data.subtract_values", to.subtract_values, data.mean_values, file, data.line);
    }
  }
  const bool changes = data.mirror || data.crop_size > 0;
  if (changes && may_set("data.augment", file, data.line)) {
    return invalid_argument(std::string(data.mirror ? "mirror" : "crop_size") +
                            ", expected neither: give data.augment, which crops and mirrors, or false");
  }
  return Status::ok();
}

// Of pictures, blue first: those that the layer says, or of each colour the mean over the places of its mean file.
Result<std::vector<double>> means_of_colours(const DataLayer& data, const std::string& file) {
  if (data.mean_file.empty()) return data.mean_values;
  const std::string found = find_file(data.mean_file, file);
  if (found.empty()) {
    return invalid_argument("mean_file " + data.mean_file +
                            " is not there, expected it, or mean_value, or data.mean in the configuration");
  }
  PACELINE_ASSIGN_OR_RETURN(const MeanImage image, read_mean_file(found));
  if (image.shape.channels != 3) {
    return invalid_argument("mean_file " + found + " of " + to_string(image.shape) + ", expected 3 channels");
  }
  return image.of_channels();
}

// And of pictures, which Caffe reads blue, green, red, and we the other way round.
Status apply_to_pictures(const DataLayer& data, const std::string& file, const Setter& setter,
                         DataSection& to, const MaySet& may_set) {
  if (may_set("data.mean", file, data.line)) {
    PACELINE_ASSIGN_OR_RETURN(const std::vector<double> means, means_of_colours(data, file));
    to.mean.assign(3, means.size() == 1 ? means[0] : 0.0);
    if (means.size() > 1) to.mean.assign(means.rbegin(), means.rend());
  }
  if (may_set("data.deviation", file, data.line)) {
    if (data.scale <= 0)
      return invalid_argument("scale " + std::to_string(data.scale) + ", expected more than 0");
    to.deviation.assign(3, data.scale == 1.0 ? 1.0 : 1.0 / data.scale);
  }
  if (data.crop_size > 0) {
    setter.set_at("data.crop.size", to.crop.size, data.crop_size, file, data.line);
    if (to.crop.resize < to.crop.size) {
      setter.set_at("data.crop.resize", to.crop.resize, to.crop.size, file, data.line);
    }
    setter.set_at("data.augment", to.augment, true, file, data.line);
  } else if (data.mirror && may_set("data.augment", file, data.line)) {
    return invalid_argument("mirror without crop_size, expected data.augment to be given, true or false");
  }
  if (!to.augment) return Status::ok();
  // A square anywhere in the picture, in half of the cases mirrored.
  setter.set_at("data.crop.kind", to.crop.kind, CropKind::kPlace, file, data.line);
  if (to.crop.kind == CropKind::kPlace) {
    setter.set_at("data.crop.padding", to.crop.padding, 0, file, data.line);
  }
  setter.set_at("data.crop.flip", to.crop.flip, data.mirror, file, data.line);
  return Status::ok();
}

Status apply_data(const Net& net, const Setter& setter, DataSection& to, const MaySet& may_set,
                  std::vector<std::string>& notes) {
  if (!net.data) return Status::ok();
  const DataLayer& data = *net.data;
  const std::string where = at_line(net.file, data.line) + ": layer " + data.name;
  const auto apply = to.kind == DataKind::kImages ? apply_to_pictures : apply_to_files;
  PACELINE_RETURN_IF_ERROR(apply(data, net.file, setter, to, may_set).with_context(where));
  if (data.mean_file.empty()) return Status::ok();
  if (to.kind == DataKind::kImages) {
    notes.push_back(where + ": mean_file " + data.mean_file +
                    ": data.mean, one number for each colour, is subtracted, and not a mean of each place");
  } else if (to.mean_file.empty()) {
    notes.push_back(where + ": mean_file " + data.mean_file +
                    " is not there: the mean is computed from the training set");
  }
  return Status::ok();
}

// An evaluation has one count of hits: of top_k where every Accuracy layer says more than 1.
void count_hits(const Files& files, std::vector<LayerConfig>& layers, std::vector<std::string>& notes) {
  const Net& net = files.test ? *files.test : files.train;
  if (net.top_k.empty()) return;
  const std::int64_t counted = *std::min_element(net.top_k.begin(), net.top_k.end());
  for (const std::int64_t top_k : net.top_k) {
    if (top_k == counted) continue;
    notes.push_back(net.file + ": accuracy with top_k " + std::to_string(top_k) +
                    " is not counted: evaluations count one, top_k " + std::to_string(counted));
  }
  const auto last = std::find_if(layers.rbegin(), layers.rend(),
                                 [](const LayerConfig& layer) { return layer_rule(layer.kind).counts_hits; });
  if (last != layers.rend()) last->top_k = counted;
}

// A network whose only loss is the usual one does without a layer for it: its last layer gives the logits.
void drop_usual_loss(std::vector<LayerConfig>& layers) {
  const auto is_loss = [](const LayerConfig& layer) { return layer_rule(layer.kind).is_loss; };
  if (layers.empty() || std::count_if(layers.begin(), layers.end(), is_loss) != 1) return;
  LayerConfig usual;
  usual.kind = LayerKind::kSoftmaxLoss;
  usual.name = layers.back().name;
  usual.from = layers.back().from;
  if (layers.back() == usual && layers.size() > 1 &&
      layer_rule(layers[layers.size() - 2].kind).gives_logits &&
      layers[layers.size() - 2].name == usual.from.front()) {
    layers.pop_back();
  }
}

// `target`: the optimizer that the solver's values are for.
Status apply_net(const Files& files, const OptimizerSection& target, RunConfig& config, const MaySet& may_set,
                 std::vector<std::string>& notes) {
  const Net& net = files.train;
  if (!net.cannot_train.empty()) return invalid_argument(net.cannot_train);
  for (const char* key : {"train.model", "train.layers", "train.dropout"}) {
    if (may_set(key, files.file, 1)) continue;
    return invalid_argument(std::string(key) + ": given beside train.caffe_solver, expected one of the two");
  }
  config.train.model = "layers";
  config.train.layers = net.layers;
  count_hits(files, config.train.layers, notes);
  drop_usual_loss(config.train.layers);
  for (std::size_t i = 0; i < config.train.layers.size(); ++i) {
    may_set("train.layers[" + std::to_string(i) + "]", net.file, net.lines[i]);
    if (target.weight_decay != 0.0) continue;
    // Caffe lets multipliers of nothing stand.
    config.train.layers[i].decay_factor = layer_rule(net.layers[i].kind).is_norm ? 0.0 : 1.0;
    config.train.layers[i].bias_decay_factor.reset();
  }
  return Status::ok();
}

#undef PACELINE_SET_OPTIMIZER
#undef PACELINE_SET

}  // namespace

Result<bool> is_solver(const std::string& file) {
  NetParameter net;
  Lines lines;
  std::vector<std::string> ignored;
  PACELINE_RETURN_IF_ERROR(read_text(file, net, lines, ignored));
  return net.layer_size() == 0 && net.layers_size() == 0 && net.input_size() == 0;
}

Result<Net> read_net_of_solver(const std::string& file, Phase phase, std::vector<std::string>& notes) {
  Files files;
  files.file = file;
  PACELINE_RETURN_IF_ERROR(read_text(file, files.solver, files.lines, notes));
  PACELINE_RETURN_IF_ERROR(read_train_net(files, notes));
  if (phase == Phase::kTrain) return std::move(files.train);
  PACELINE_RETURN_IF_ERROR(read_test_net(files, Want::kLayers, notes));
  if (files.test) return std::move(*files.test);
  return invalid_argument(file + ": no net in phase TEST, expected test_iter and a test net");
}

Status apply_solver(const std::string& file, const MaySet& may_set, RunConfig& config,
                    std::vector<std::string>& notes) {
  Files files;
  files.file = file;
  PACELINE_RETURN_IF_ERROR(read_text(file, files.solver, files.lines, notes));
  PACELINE_RETURN_IF_ERROR(read_train_net(files, notes));
  PACELINE_RETURN_IF_ERROR(read_test_net(files, Want::kData, notes));
  const Setter setter(files, may_set);
  const bool local = config.train.local_steps > 1;
  const Target target = local ? Target{config.train.inner_optimizer, "train.inner_optimizer"}
                              : Target{config.train.optimizer, "train.optimizer"};
  PACELINE_RETURN_IF_ERROR(apply_optimizer(files, setter, target));
  PACELINE_RETURN_IF_ERROR(apply_schedule(files, setter, target));
  if (local) {
    config.train.has_inner_optimizer = true;
    config.train.optimizer.of_deltas = true;
  }
  PACELINE_RETURN_IF_ERROR(apply_length(files, setter, config));
  PACELINE_RETURN_IF_ERROR(apply_data(files.train, setter, config.data, may_set, notes));
  PACELINE_RETURN_IF_ERROR(apply_weights(files, setter, config));
  PACELINE_RETURN_IF_ERROR(apply_net(files, local ? config.train.inner_optimizer : config.train.optimizer,
                                     config, may_set, notes));
  return Status::ok();
}

}  // namespace paceline::caffe
