// A network as work for a GPU: its layers with the memory between them, for mini-batches of one size. T is
// what activations are stored as.
//
//   network      conv relu pool flatten dense relu dropout dense
//   stages       conv+relu+pool         dense+relu dropout dense
//   activations  images -> 0 ---------> 1 -------> 2 ----> 3 = logits
//
// Flatten is nothing; a ReLU, and a pool behind it, go with the bias in front of them (trained_layer.h), where nobody
// else reads what stands between. Activations of every stage are kept for the backward pass; the differences
// (gradients with respect to activations) take turns (difference_plan.h).
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "common/config/run_config.h"
#include "worker/model/cuda/algorithms.h"
#include "worker/model/cuda/difference_plan.h"
#include "worker/model/cuda/layer.h"
#include "worker/model/cuda/placed_network.h"

namespace paceline::cuda {

// A GPU's memory that a step reads and writes; each but `images` as in Pass (layer.h). Parameters and
// gradient have the places of the PlacedNetwork.
struct StepVectors {
  int samples;          // of the mini-batch; those from here on fill it up
  const float* images;  // samples x C x H x W
  const float* parameters;
  float* gradient;
  const std::int64_t* epochs;
  const std::int64_t* sample_ids;
  NormExchange* norms;
};

template <typename T>
class Program {
 public:
  // Called at each layer that has parameters, with its number among these, while the work of a pass is put
  // into the stream.
  using AtLayer = std::function<Status(std::size_t trained)>;

  // `gpu` outlives the program. Errors: those of the layers; kInvalidArgument when a tensor would have 2^31
  // elements or more.
  static Result<std::unique_ptr<Program>> make(const GpuThread& gpu, AlgorithmCache& cache,
                                               const PlacedNetwork& network, int samples, Precision precision,
                                               std::uint64_t seed);

  // Puts the forward pass into the compute stream. `before`: in front of each layer with parameters, the
  // first first; what it puts there is done when the layer is computed.
  Status forward(const StepVectors& step, Mode mode, const AtLayer& before);

  // The same with the backward pass, from logit_difference(). `behind`: once a layer's gradient has been put
  // there, the last first.
  Status backward(const StepVectors& step, const AtLayer& behind);

  const T* logits() const { return stages_.back().out.data(); }
  T* logit_difference() const { return slot(plan_.stages.back().slot); }

 private:
  struct Stage {
    Layer layer;  // a ReLU and a pool that it does, too, are not in it
    std::unique_ptr<GpuLayer<T>> computed;
    DeviceMemory<T> out;
    std::vector<int> inputs;  // stages, or kImages
  };

  Program(const GpuThread& gpu, int samples) : gpu_(gpu), samples_(samples) {}
  Status add_stages(AlgorithmCache& cache, const PlacedNetwork& network, Precision precision,
                    std::uint64_t seed);
  Status allocate(const PlacedNetwork& network);
  Pass<T> pass_of(const StepVectors& step, Mode mode) const;
  // What each input of it is; good until the next call.
  std::span<const T* const> in_of(const StepVectors& step, const Stage& stage);
  std::span<T* const> in_differences_of(const StageDifferences& differences);
  T* slot(int number) const { return number == kNoSlot ? nullptr : slots_[number].data(); }
  Status add_differences(const Stage& stage, const StageDifferences& differences);
  Status narrow_images(const StepVectors& step);
  Status narrow_weight(const StepVectors& step, const Layer& layer);

  const GpuThread& gpu_;
  const int samples_;
  std::vector<Stage> stages_;
  std::size_t trained_ = 0;  // how many of them have parameters
  DifferencePlan plan_;
  std::vector<DeviceMemory<T>> slots_;  // of differences
  std::vector<const T*> in_;
  std::vector<T*> in_differences_;
  DeviceMemory<std::byte> workspace_;
  DeviceMemory<T> unpooled_;
  DeviceMemory<double> group_sums_;
  // Not used where T is float.
  DeviceMemory<T> images_;
  DeviceMemory<T> weights_;  // all parameters' places, the weights' filled
  DeviceMemory<T> weight_gradient_;
};

}  // namespace paceline::cuda
