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

// Each layer reads the one before it: with one input each, and all of them read, there is no other way.
Status check_kinds(const PlacedNetwork& network) {
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    const Layer& layer = network.layers[i];
    if (gpu_kind(layer.kind) != nullptr) continue;
    return invalid_argument("layer " + std::to_string(i) + " (" + name_of(layer.kind) + " " + layer.name +
                            "): there is no such layer on a GPU");
  }
  return Status::ok();
}

bool is_trained(const Layer& layer) { return layer.weight.size > 0; }

// What layer `index` does of those behind it, and the first that it does not.
struct Reach {
  WithRelu relu = WithRelu::kNo;
  const Layer* pool = nullptr;
  std::size_t end;
};

// Such a layer does a ReLU and then a pool; what is nothing on a GPU is seen through.
Reach reach_of(const PlacedNetwork& network, std::size_t index) {
  Reach reach{.end = index + 1};
  if (!gpu_kind(network.layers[index].kind)->does_relu_and_pool) return reach;
  for (; reach.end < network.layers.size() && reach.pool == nullptr; ++reach.end) {
    const Layer& layer = network.layers[reach.end];
    const GpuKind& kind = *gpu_kind(layer.kind);
    if (kind.is_relu && reach.relu == WithRelu::kNo) {
      reach.relu = WithRelu::kYes;
    } else if (kind.is_max_pool) {
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
  if constexpr (kNarrow<T>) {
    return kind.make_bfloat16(std::move(parts));
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
  std::size_t end = 0;  // of what the stages so far do
  for (std::size_t i = 0; i < network.layers.size(); i = end) {
    const Layer& layer = network.layers[i];
    const Reach reach = reach_of(network, i);
    end = reach.end;
    if (gpu_kind(layer.kind)->is_nothing) continue;
    Stage stage;
    stage.layer = layer;
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
  const auto trained = [](const Stage& stage) { return is_trained(stage.layer); };
  first_trained_ = std::find_if(stages_.begin(), stages_.end(), trained) - stages_.begin();
  trained_ = std::count_if(stages_.begin(), stages_.end(), trained);
  return Status::ok();
}

template <typename T>
Status Program<T>::allocate(const PlacedNetwork& network) {
  std::int64_t difference = 0;
  std::int64_t unpooled = 0;
  std::int64_t weight = 0;
  std::int64_t channels = 0;
  std::size_t workspace = 0;
  for (const Stage& stage : stages_) {
    difference = std::max({difference, samples_ * stage.layer.in.size(), stage.out.size()});
    unpooled = std::max(unpooled, stage.computed->unpooled_elements());
    weight = std::max(weight, stage.layer.weight.size);
    channels = std::max(channels, stage.layer.bias.size);
    workspace = std::max(workspace, stage.computed->workspace_bytes());
  }
  for (auto& memory : differences_) {
    PACELINE_ASSIGN_OR_RETURN(memory, make_device_memory<T>(difference));
  }
  PACELINE_ASSIGN_OR_RETURN(unpooled_, make_device_memory<T>(unpooled));
  PACELINE_ASSIGN_OR_RETURN(group_sums_, make_device_memory<double>(channels * kGroupsMax));
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
               .parameters = step.parameters,
               .weights = weights_.data(),
               .gradient = step.gradient,
               .epochs = step.epochs,
               .sample_ids = step.sample_ids,
               .workspace = workspace_.data(),
               .unpooled = unpooled_.data(),
               .group_sums = group_sums_.data(),
               .weight_gradient = weight_gradient_.data()};
  if constexpr (!kNarrow<T>) pass.weights = step.parameters;
  return pass;
}

template <typename T>
const T* Program<T>::in_of(const StepVectors& step, std::size_t stage) const {
  if (stage > 0) return stages_[stage - 1].out.data();
  if constexpr (kNarrow<T>) {
    return images_.data();
  } else {
    return step.images;
  }
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
    PACELINE_RETURN_IF_ERROR(stage.computed->forward(pass, in_of(step, i), stage.out.data()));
  }
  return Status::ok();
}

template <typename T>
Status Program<T>::backward(const StepVectors& step, const AtLayer& behind) {
  const Pass<T> pass = pass_of(step, Mode::kTraining);
  std::size_t trained = trained_;
  std::size_t current = 0;  // differences_[current] is with respect to what the stage gives
  for (std::size_t i = stages_.size(); i-- > first_trained_;) {
    const Stage& stage = stages_[i];
    T* in_difference = i > first_trained_ ? differences_[1 - current].data() : nullptr;
    PACELINE_RETURN_IF_ERROR(stage.computed->backward(pass, in_of(step, i), stage.out.data(),
                                                      differences_[current].data(), in_difference));
    if (is_trained(stage.layer)) PACELINE_RETURN_IF_ERROR(behind(--trained));
    current = 1 - current;
  }
  return Status::ok();
}

template class Program<float>;
template class Program<Bfloat16>;

}  // namespace paceline::cuda
