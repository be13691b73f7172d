#include "worker/model/cuda/program.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "worker/model/layers/cuda_layer.h"

namespace paceline::cuda {
namespace {

template <typename T>
constexpr bool kNarrow = !std::is_same_v<T, float>;

constexpr std::int64_t kElementsMax = std::numeric_limits<std::int32_t>::max();

// Kernels and cuDNN count elements in 32 bits.
Status check_sizes(const PlacedNetwork& network, int samples) {
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    const Layer& layer = network.layers[i];
    const std::int64_t largest =
        std::max({samples * std::max(layer.in.size(), layer.out.size()), layer.weight.size});
    if (largest <= kElementsMax) continue;
    return invalid_argument("layer " + std::to_string(i) + " (" + name_of(layer.kind) + "): a tensor of " +
                            std::to_string(largest) + " elements with mini-batches of " +
                            std::to_string(samples) + " samples; a GPU takes no more than " +
                            std::to_string(kElementsMax));
  }
  return Status::ok();
}

Status check_kinds(const PlacedNetwork& network) {
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    const Layer& layer = network.layers[i];
    if (gpu_kind(layer.kind) != nullptr) continue;
    return invalid_argument("layer " + std::to_string(i) + " (" + name_of(layer.kind) + " " + layer.name +
                            "): there is no such layer on a GPU");
  }
  return Status::ok();
}

bool is_trained(const Layer& layer) { return layer.tensors().size > 0; }

// What layer `index` does of those after it, and the first that it does not.
struct Reach {
  WithRelu relu = WithRelu::kNo;
  const Layer* pool = nullptr;
  std::size_t end;
};

// Whether layer `next` is all that reads what the one in front of it gives, and reads nothing else.
bool follows_alone(const PlacedNetwork& network, std::size_t next) {
  return network.layers[next].inputs == std::vector<std::size_t>{next} && network.readers[next] == 1;
}

// Such a layer does a ReLU and then, some, a pool; what is nothing on a GPU is seen through.
Reach reach_of(const PlacedNetwork& network, std::size_t index) {
  Reach reach{.end = index + 1};
  const GpuKind& first = *gpu_kind(network.layers[index].kind);
  if (!first.does_relu && !first.does_relu_and_pool) return reach;
  for (; reach.end < network.layers.size() && reach.pool == nullptr; ++reach.end) {
    const Layer& layer = network.layers[reach.end];
    const GpuKind& kind = *gpu_kind(layer.kind);
    if (!follows_alone(network, reach.end)) break;
    if (kind.is_relu && reach.relu == WithRelu::kNo) {
      reach.relu = WithRelu::kYes;
    } else if (kind.is_max_pool && first.does_relu_and_pool) {
      reach.pool = &layer;
    } else if (!kind.is_nothing) {
      break;
    }
  }
  return reach;
}

template <typename T>
Result<Behind<T>> make_behind(const GpuThread& gpu, const Reach& reach, int samples) {
  Behind<T> behind{reach.relu, std::nullopt};
  if (reach.pool == nullptr) return behind;
  PACELINE_ASSIGN_OR_RETURN(Pooling<T> pooling, Pooling<T>::make(gpu, *reach.pool, samples));
  behind.pool.emplace(std::move(pooling));
  return behind;
}

template <typename T>
Result<std::unique_ptr<GpuLayer<T>>> make_layer(const GpuThread& gpu, AlgorithmCache& cache,
                                                const PlacedNetwork& network, std::size_t index,
                                                const Reach& reach, int samples, Precision precision,
                                                std::uint64_t seed) {
  const GpuKind& kind = *gpu_kind(network.layers[index].kind);
  PACELINE_ASSIGN_OR_RETURN(Behind<T> behind, make_behind<T>(gpu, reach, samples));
  LayerParts<T> parts{gpu, cache, network.layers[index], index, samples, precision, seed, std::move(behind)};
  if constexpr (std::is_same_v<T, Bfloat16>) {
    return kind.make_bfloat16(std::move(parts));
  } else if constexpr (std::is_same_v<T, Float16>) {
    return kind.make_float16(std::move(parts));
  } else {
    return kind.make_float(std::move(parts));
  }
}

}  // namespace

template <typename T>
Result<std::unique_ptr<Program<T>>> Program<T>::make(const GpuThread& gpu, AlgorithmCache& cache,
                                                     const PlacedNetwork& network, int samples,
                                                     Precision precision, std::uint64_t seed) {
  PACELINE_RETURN_IF_ERROR(check_kinds(network));
  PACELINE_RETURN_IF_ERROR(check_sizes(network, samples));
  std::unique_ptr<Program> program(new Program(gpu, samples));
  PACELINE_RETURN_IF_ERROR(program->add_stages(cache, network, precision, seed));
  PACELINE_RETURN_IF_ERROR(program->allocate(network));
  return program;
}

template <typename T>
Status Program<T>::add_stages(AlgorithmCache& cache, const PlacedNetwork& network, Precision precision,
                              std::uint64_t seed) {
  std::vector<int> stage_of(network.layers.size() + 1, kImages);  // that gives a value, by its number
  std::size_t end = 0;                                            // of what the stages so far do
  for (std::size_t i = 0; i < network.layers.size(); i = end) {
    const Layer& layer = network.layers[i];
    const Reach reach = reach_of(network, i);
    end = reach.end;
    if (gpu_kind(layer.kind)->is_nothing) {
      stage_of[i + 1] = stage_of[layer.inputs[0]];
      continue;
    }
    Stage stage;
    stage.layer = layer;
    for (const std::size_t value : layer.inputs) stage.inputs.push_back(stage_of[value]);
    std::fill(stage_of.begin() + i + 1, stage_of.begin() + end + 1, static_cast<int>(stages_.size()));
    auto made = make_layer<T>(gpu_, cache, network, i, reach, samples_, precision, seed);
    if (!made) {
      return Status(made.status())
          .with_context("layer " + std::to_string(i) + " (" + name_of(layer.kind) + ")");
    }
    stage.computed = std::move(made).value();
    const Shape& out = reach.pool != nullptr ? reach.pool->out : layer.out;
    PACELINE_ASSIGN_OR_RETURN(stage.out, make_device_memory<T>(samples_ * out.size()));
    stages_.push_back(std::move(stage));
  }
  std::vector<StageShape> shapes;
  for (const Stage& stage : stages_) {
    StageShape& shape =
        shapes.emplace_back(StageShape{stage.inputs, stage.out.size(), is_trained(stage.layer)});
    for (std::size_t k = 0; k < stage.inputs.size(); ++k) {
      shape.hands_on.push_back(stage.computed->hands_on(k));
    }
    trained_ += shape.trained ? 1 : 0;
  }
  plan_ = plan_differences(shapes);
  return Status::ok();
}

template <typename T>
Status Program<T>::allocate(const PlacedNetwork& network) {
  std::int64_t unpooled = 0;
  std::int64_t weight = 0;
  std::int64_t channels = 0;
  std::size_t workspace = 0;
  for (const Stage& stage : stages_) {
    unpooled = std::max(unpooled, stage.computed->unpooled_elements());
    weight = std::max(weight, stage.layer.weight.size);
    if (is_trained(stage.layer)) channels = std::max(channels, stage.layer.out.channels);
    workspace = std::max(workspace, stage.computed->workspace_bytes());
  }
  for (const std::int64_t elements : plan_.slots) {
    PACELINE_ASSIGN_OR_RETURN(slots_.emplace_back(), make_device_memory<T>(elements));
  }
  PACELINE_ASSIGN_OR_RETURN(unpooled_, make_device_memory<T>(unpooled));
  PACELINE_ASSIGN_OR_RETURN(group_sums_, make_device_memory<double>(kSumsMax * channels * kGroupsMax));
  PACELINE_ASSIGN_OR_RETURN(workspace_, make_device_memory<std::byte>(static_cast<std::int64_t>(workspace)));
  if constexpr (kNarrow<T>) {
    PACELINE_ASSIGN_OR_RETURN(images_, make_device_memory<T>(samples_ * network.input.size()));
    PACELINE_ASSIGN_OR_RETURN(weights_, make_device_memory<T>(network.floats));
    PACELINE_ASSIGN_OR_RETURN(weight_gradient_, make_device_memory<T>(weight));
  }
  return Status::ok();
}

template <typename T>
Pass<T> Program<T>::pass_of(const StepVectors& step, Mode mode) const {
  Pass<T> pass{.mode = mode,
               .samples = step.samples,
               .parameters = step.parameters,
               .weights = weights_.data(),
               .gradient = step.gradient,
               .epochs = step.epochs,
               .sample_ids = step.sample_ids,
               .workspace = workspace_.data(),
               .unpooled = unpooled_.data(),
               .group_sums = group_sums_.data(),
               .weight_gradient = weight_gradient_.data(),
               .norms = step.norms};
  if constexpr (!kNarrow<T>) pass.weights = step.parameters;
  return pass;
}

template <typename T>
std::span<const T* const> Program<T>::in_of(const StepVectors& step, const Stage& stage) {
  const T* images = images_.data();
  if constexpr (!kNarrow<T>) images = step.images;
  in_.clear();
  for (const int input : stage.inputs) in_.push_back(input == kImages ? images : stages_[input].out.data());
  return in_;
}

template <typename T>
std::span<T* const> Program<T>::in_differences_of(const StageDifferences& differences) {
  in_differences_.clear();
  for (const InputDifference& input : differences.inputs) in_differences_.push_back(slot(input.slot));
  return in_differences_;
}

template <typename T>
Status Program<T>::add_differences(const Stage& stage, const StageDifferences& differences) {
  for (std::size_t k = 0; k < differences.inputs.size(); ++k) {
    const InputDifference& input = differences.inputs[k];
    if (input.added_to == kNoSlot) continue;
    const auto elements = static_cast<int>(stages_[stage.inputs[k]].out.size());
    T* const sum = slot(input.added_to);
    const WeightedSum<T> added{sum, 1.0F, slot(input.slot), 1.0F, false, elements, sum};
    PACELINE_CUDA(launch_each(gpu_.compute(), vectors_of<T>(elements), added));
  }
  return Status::ok();
}

template <typename T>
Status Program<T>::narrow_images([[maybe_unused]] const StepVectors& step) {
  if constexpr (kNarrow<T>) {
    const Convert<float, T> narrow{step.images, images_.data()};
    PACELINE_CUDA(launch_each(gpu_.compute(), static_cast<int>(images_.size()), narrow));
  }
  return Status::ok();
}

template <typename T>
Status Program<T>::narrow_weight([[maybe_unused]] const StepVectors& step,
                                 [[maybe_unused]] const Layer& layer) {
  if constexpr (kNarrow<T>) {
    if (layer.mixes_samples()) return Status::ok();  // it reads its own as they are
    const std::int64_t offset = layer.weight.offset;
    const Convert<float, T> narrow{step.parameters + offset, weights_.data() + offset};
    PACELINE_CUDA(launch_each(gpu_.compute(), static_cast<int>(layer.weight.size), narrow));
  }
  return Status::ok();
}

template <typename T>
Status Program<T>::forward(const StepVectors& step, Mode mode, const AtLayer& before) {
  const Pass<T> pass = pass_of(step, mode);
  PACELINE_RETURN_IF_ERROR(narrow_images(step));
  std::size_t trained = 0;
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const Stage& stage = stages_[i];
    if (is_trained(stage.layer)) {
      PACELINE_RETURN_IF_ERROR(before(trained++));
      PACELINE_RETURN_IF_ERROR(narrow_weight(step, stage.layer));
    }
    PACELINE_RETURN_IF_ERROR(stage.computed->forward(pass, in_of(step, stage), stage.out.data()));
  }
  return Status::ok();
}

template <typename T>
Status Program<T>::backward(const StepVectors& step, const AtLayer& behind) {
  const Pass<T> pass = pass_of(step, Mode::kTraining);
  std::size_t trained = trained_;
  for (std::size_t i = stages_.size(); i-- > 0;) {
    const Stage& stage = stages_[i];
    const StageDifferences& differences = plan_.stages[i];
    if (!differences.goes_back) continue;
    PACELINE_RETURN_IF_ERROR(stage.computed->backward(
        pass, in_of(step, stage), stage.out.data(), slot(differences.slot), in_differences_of(differences)));
    PACELINE_RETURN_IF_ERROR(add_differences(stage, differences));
    if (is_trained(stage.layer)) PACELINE_RETURN_IF_ERROR(behind(--trained));
  }
  return Status::ok();
}

template class Program<float>;
template class Program<Bfloat16>;
template class Program<Float16>;

}  // namespace paceline::cuda
