#include "worker/foreign/loop_checks.h"

#include <algorithm>
#include <string>

#include "common/config/buffers.h"
#include "common/config/names.h"
#include "common/network/stages.h"
#include "common/printed.h"
#include "common/process/descriptors.h"
#include "worker/descriptors_needed.h"
#include "worker/foreign/c_calls.h"

namespace paceline {

Status check_loop(const RunConfig& config) {
  const TrainSection& train = config.train;
  PACELINE_RETURN_IF_ERROR(check_one_worker(config));
  if (config.pipeline.enabled() && !cut_by_loop(config.pipeline.balance)) {
    return invalid_argument("pipeline.balance: the training loop says where its model is cut, expected loop");
  }
  // What the loop does instead of the setting.
  const struct {
    bool is_set;
    const char* key;
    const char* instead;
    std::string got;
    const char* expected;
  } settings[] = {
      {train.model == "layers", "train.layers", "the training loop brings the model",
       std::to_string(train.layers.size()) + " layers", "none (no train.model, no train.layers)"},
      {train.model != TrainSection().model, "train.model", "the training loop brings the model", train.model,
       "none"},
      {train.dropout != 0.0, "train.dropout", "a training loop brings its own layers",
       printed("%g", train.dropout), "0"},
      {train.backend != Backend::kOnednn, "train.backend", "a training loop computes by itself",
       name_of(train.backend), "onednn"},
      {train.device != Device::kCpu, "train.device", "a training loop computes by itself",
       name_of(train.device), "cpu"},
      {train.eval_samples != 0, "train.eval_samples", "a training loop measures on test data of its own",
       std::to_string(train.eval_samples), "0"},
      {train.warm_start_steps != 0, "train.warm_start_steps", "a training loop warms up by itself",
       std::to_string(train.warm_start_steps), "0"},
      {train.batch_norm_group != 1, "train.batch_norm_group", "a training loop brings its own layers",
       std::to_string(train.batch_norm_group), "1"},
      {train.clip_gradients.has_value(), "train.clip_gradients", "a training loop clips by itself", "a norm",
       "null"},
      {train.accumulate != 1, "train.accumulate", "a training loop computes its mini-batches itself",
       std::to_string(train.accumulate), "1"},
      {train.precision != Precision::kFp32, "train.precision", "a training loop computes by itself",
       name_of(train.precision), "fp32"},
      {train.label_smoothing != 0.0, "train.label_smoothing", "a training loop computes its loss itself",
       printed("%g", train.label_smoothing), "0"},
  };
  for (const auto& s : settings) {
    if (!s.is_set) continue;
    return invalid_argument(std::string(s.key) + ": " + s.instead + ", got " + s.got + ", expected " +
                            s.expected);
  }
  return check_descriptors(descriptors_needed_by_node(config),
                           "a node of " + std::to_string(config.cluster.shards) + " servers");
}

Status check_model(const RunConfig& config, const Layout& layout) {
  const auto& tensors = layout.tensors();
  const auto buffer = std::find_if(tensors.begin(), tensors.end(), [](const Tensor& tensor) {
    return tensor.traits.role == TensorRole::kBuffer;
  });
  if (buffer == tensors.end()) return Status::ok();
  const std::string it_is = "tensor '" + buffer->name + "' is a buffer, whose values ";
  if (loses_buffers(config.cluster)) {
    return invalid_argument("cluster.gradient_encoding: " + it_is + "go with the gradient, got " +
                            name_of(config.cluster.gradient_encoding) +
                            ", expected fp32, fp16 or bf16, or a model without buffers");
  }
  if (config.pipeline.enabled() && config.sync.combine == CombineMode::kEach) {
    return invalid_argument(
        "sync.combine: " + it_is +
        "the other stages' gradients would draw to 0, got each, expected mean, or a model "
        "without buffers");
  }
  if (shrinks_buffers(config)) {
    return invalid_argument("train.optimizer.staleness: " + it_is + "would shrink with the gradient, got " +
                            name_of(config.train.optimizer.staleness) +
                            ", expected none, or a model without buffers");
  }
  return Status::ok();
}

}  // namespace paceline
