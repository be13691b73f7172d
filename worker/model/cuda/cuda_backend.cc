// A step, as the calling thread sees it. All of it is put into its streams first; then the thread waits
// for what comes back, a layer at a time:
//
//   compute  conv1' conv1 … fc2' fc2 loss | fc2 gradient   | fc1 gradient   | … conv1 gradient
//   copies                                 . . . . . . . . | fc2 to the host | fc1 to the host …
//   uploads  the next mini-batch, if it is predicted (sample_buffers.h)
//   thread   puts all this there, waits for fc2, final_from(fc2), waits for fc1, final_from(fc1), …
//
// A mini-batch that was predicted is on the GPU when its step begins, or on its way; any other is sent first.
//
// Where the thread cache lies on the GPU, too, its parameters are used as they are, and a whole mini-batch's
// way to the last gradient is one CUDA graph; not with batch norms over a group of workers, for whose others the thread
// waits while it puts the step there (norm_exchange.h). Else conv1' are the parameters of conv1 on their way: copied
// into pinned memory while the GPU computes what is in front of it.
//
// Gradients go straight to where they are wanted, if that is pinned (page_locked.h), else through pinned
// memory of the back end's own. A mini-batch smaller than the built size is filled up with zero images that
// send nothing back (bodies.h), as in oneDNN's back end.
//
// In float16 the loss is scaled (worker/model/loss_scaler.h): each layer's gradient is divided by the scale on the GPU,
// before it comes back, and one that is not finite stays so. The scale goes to the GPU with each step, from pinned
// memory that a graph reads anew. While it is a guess nothing comes back before all gradients are known to be finite: a
// step that overflows is made again, graph and all, with half of it.
#include "worker/model/cuda/cuda_backend.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/assert.h"
#include "common/cuda/page_locked.h"
#include "worker/model/cuda/launch.h"
#include "worker/model/cuda/norm_exchange.h"
#include "worker/model/cuda/program.h"
#include "worker/model/cuda/sample_buffers.h"
#include "worker/model/cuda/step_graph.h"

namespace paceline::cuda {
namespace {

// When a layer's gradient has been computed, and has come back.
struct Arrival {
  ParameterPlace place;
  Event computed;
  Event arrived;
};

// Of loss scaling, on both sides.
struct ScaledLoss {
  Staged<float> scale;              // and its inverse
  Staged<std::int32_t> overflowed;  // whether a gradient of the step is not finite
  Event known;                      // the above
};

template <typename T>
class CudaBackend final : public NetworkBackend {
 public:
  CudaBackend(std::shared_ptr<const GpuThread> gpu, std::shared_ptr<ThreadModel> model, NetworkSpec network,
              std::int64_t batch_size)
      : gpu_(std::move(gpu)),
        model_(std::move(model)),
        network_(std::move(network)),
        placed_(place_parameters(network_)),
        batch_size_(batch_size) {}

  // What has been begun is over before the memory that it works on goes.
  ~CudaBackend() override { static_cast<void>(gpu_->drain()); }

  Status make(AlgorithmCache& cache, Precision precision, std::uint64_t seed, NormGroup* norm_group) {
    PACELINE_RETURN_IF_ERROR(gpu_->enter());
    PACELINE_ASSIGN_OR_RETURN(
        program_, Program<T>::make(*gpu_, cache, placed_, static_cast<int>(batch_size_), precision, seed));
    PACELINE_RETURN_IF_ERROR(samples_.make(*gpu_, batch_size_, network_.input.size()));
    PACELINE_ASSIGN_OR_RETURN(losses_, Staged<double>::make(batch_size_));
    PACELINE_ASSIGN_OR_RETURN(correct_, Staged<std::int32_t>::make(batch_size_));
    PACELINE_ASSIGN_OR_RETURN(gradient_, make_device_memory<float>(placed_.floats));
    PACELINE_ASSIGN_OR_RETURN(metric_known_, make_event());
    if constexpr (kScales) {
      PACELINE_ASSIGN_OR_RETURN(scaled_.scale, Staged<float>::make(2));
      PACELINE_ASSIGN_OR_RETURN(scaled_.overflowed, Staged<std::int32_t>::make(1));
      PACELINE_ASSIGN_OR_RETURN(scaled_.known, make_event());
    }
    PACELINE_ASSIGN_OR_RETURN(asked_, make_timed_event());
    PACELINE_ASSIGN_OR_RETURN(begun_, make_timed_event());
    for (const ParameterPlace& place : parameter_places(network_)) {
      Arrival layer{place, nullptr, nullptr};
      PACELINE_ASSIGN_OR_RETURN(layer.computed, make_event());
      PACELINE_ASSIGN_OR_RETURN(layer.arrived, make_event());
      layers_.push_back(std::move(layer));
    }
    PACELINE_RETURN_IF_ERROR(warm_up());
    PACELINE_RETURN_IF_ERROR(join(norm_group));
    // Between the layers is nothing, which who takes the gradient as one vector goes through, too.
    return zero(gradient_.all());
  }

  Result<Metric> gradient(std::span<const float> parameters, const Batch& batch, std::span<float> gradient,
                          const FinalFrom& final_from) override {
    PACELINE_RETURN_IF_ERROR(check_batch(network_, batch, batch_size_, keys_needed(), samples_kept()));
    PACELINE_RETURN_IF_ERROR(check_norms(network_, batch.size()));
    check_length(gradient.size());
    return over_when_failed([&]() -> Result<Metric> {
      PACELINE_RETURN_IF_ERROR(gpu_->enter());
      PACELINE_RETURN_IF_ERROR(note_begin());
      PACELINE_RETURN_IF_ERROR(bring(batch, Mode::kTraining));
      PACELINE_RETURN_IF_ERROR(put_step(parameters, batch));
      PACELINE_RETURN_IF_ERROR(samples_.send_ahead(keys_of(Mode::kTraining)));
      PACELINE_RETURN_IF_ERROR(find_scale(parameters, batch));
      PACELINE_RETURN_IF_ERROR(take(gradient, final_from));
      PACELINE_RETURN_IF_ERROR(note_overflow());
      PACELINE_ASSIGN_OR_RETURN(const Metric known, metric(batch));
      if (norms_) PACELINE_RETURN_IF_ERROR(norms_->status());
      PACELINE_RETURN_IF_ERROR(publish_to_thread_cache(gradient));
      return known;
    }());
  }

  Result<Metric> evaluate(std::span<const float> parameters, const Batch& batch) override {
    PACELINE_RETURN_IF_ERROR(check_batch(network_, batch, batch_size_, DropoutKeys::kIgnored));
    return over_when_failed([&]() -> Result<Metric> {
      PACELINE_RETURN_IF_ERROR(gpu_->enter());
      PACELINE_RETURN_IF_ERROR(bring(batch, Mode::kEvaluation));
      PACELINE_ASSIGN_OR_RETURN(float* const placed, place_of(parameters));
      PACELINE_RETURN_IF_ERROR(put_forward(placed, parameters, batch, Mode::kEvaluation, Recording::kNow));
      return metric(batch);
    }());
  }

  // One that gradient() would refuse, or make on the GPU, is not sent.
  void predict(const Batch& next) override {
    const bool is_of_use =
        !next.images.empty() && check_batch(network_, next, batch_size_, keys_needed()).is_ok();
    samples_.predict(is_of_use ? std::optional(next) : std::nullopt);
  }
  Status forget() override { return over_when_failed(samples_.forget()); }

 private:
  static constexpr bool kScales = std::is_same_v<T, Float16>;

  template <typename U>
  Status zero(std::span<U> there) const {
    PACELINE_CUDA(cudaMemsetAsync(there.data(), 0, there.size_bytes(), gpu_->compute()));
    return Status::ok();
  }

  // Zeros go through a step: what libraries load and make at their first use, which may wait for a whole GPU,
  // is made now, and not when others wait for a first gradient. Parameters are read where the gradient goes:
  // weights are zeros, and so is their gradient, since the images are.
  Status warm_up() {
    const auto lock = gpu_->alone();
    const PlacedSamples& front = samples_.front();
    PACELINE_RETURN_IF_ERROR(zero(front.images.all()));
    PACELINE_RETURN_IF_ERROR(zero(front.labels.device.all()));
    PACELINE_RETURN_IF_ERROR(zero(front.epochs.device.all()));
    PACELINE_RETURN_IF_ERROR(zero(front.sample_ids.device.all()));
    PACELINE_RETURN_IF_ERROR(zero(gradient_.all()));
    const auto nothing = [](std::size_t) { return Status::ok(); };
    const StepVectors step = vectors(gradient_.data(), batch_size_);
    stage_scale(1.0F);
    PACELINE_RETURN_IF_ERROR(send_scale());
    PACELINE_RETURN_IF_ERROR(program_->forward(step, Mode::kTraining, nothing));
    PACELINE_CUDA(
        launch_each(gpu_->compute(), static_cast<int>(batch_size_), loss_of(batch_size_, Mode::kTraining)));
    PACELINE_RETURN_IF_ERROR(
        program_->backward(step, [&](std::size_t trained) { return unscale(layers_[trained].place); }));
    PACELINE_CUDA(cudaStreamSynchronize(gpu_->compute()));
    return Status::ok();
  }

  // After the warm-up, which is this thread's alone. Null, or a network without batch norms: nothing.
  Status join(NormGroup* norm_group) {
    if (norm_group == nullptr || !network_.mixes_samples()) return Status::ok();
    PACELINE_ASSERT(!kScales, "each member has a loss scale of its own");
    std::int64_t channels = 0;
    for (const Layer& layer : network_.layers) {
      if (layer.mixes_samples()) channels = std::max(channels, layer.out.channels);
    }
    PACELINE_ASSIGN_OR_RETURN(norms_, NormExchange::make(*gpu_, *norm_group, channels));
    return Status::ok();
  }

  void check_length(std::size_t floats) const {
    PACELINE_ASSERT(static_cast<std::int64_t>(floats) == network_.layout.size(),
                    std::to_string(floats) + " floats, expected " + std::to_string(network_.layout.size()));
  }

  DropoutKeys keys_needed() const { return paceline::keys_needed(network_); }

  // Which samples they are is needed for the masks.
  Keys keys_of(Mode mode) const {
    const bool masked = mode == Mode::kTraining && keys_needed() == DropoutKeys::kRequired;
    return masked ? Keys::kSent : Keys::kLeftOut;
  }

  // Of images as this network takes them.
  std::int64_t samples_kept() const {
    const bool are_its_own =
        network_.input == Shape{kImageChannels, kImageSide, kImageSide} && network_.classes >= kClasses;
    return model_->data != nullptr && are_its_own ? model_->data->samples : 0;
  }

  StepVectors vectors(const float* placed, std::int64_t samples) {
    const PlacedSamples& front = samples_.front();
    return {static_cast<int>(samples),  front.images.data(),        placed,
            gradient_.data(),           front.epochs.device.data(), front.sample_ids.device.data(),
            norms_ ? &*norms_ : nullptr};
  }

  // Loss scaling: nothing where there is none.
  void stage_scale([[maybe_unused]] float scale) {
    if constexpr (kScales) {
      scaled_.scale.host.data()[0] = scale;
      scaled_.scale.host.data()[1] = 1.0F / scale;
    }
  }
  Status send_scale() {
    if constexpr (kScales) {
      PACELINE_RETURN_IF_ERROR(scaled_.scale.send(gpu_->compute(), 0, 2));
      return zero(scaled_.overflowed.device.all());
    }
    return Status::ok();
  }
  // Of what is trained: what was measured has no scale.
  Status unscale([[maybe_unused]] const ParameterPlace& place) {
    if constexpr (kScales) {
      const Unscale body{gradient_.data() + place.placed, scaled_.scale.device.data() + 1,
                         scaled_.overflowed.device.data()};
      PACELINE_CUDA(launch_each(gpu_->compute(), static_cast<int>(place.trained), body));
    }
    return Status::ok();
  }
  Status fetch_overflow([[maybe_unused]] Recording recording) {
    if constexpr (kScales) {
      PACELINE_RETURN_IF_ERROR(scaled_.overflowed.fetch(gpu_->compute(), 0, 1));
      return record_event(scaled_.known, gpu_->compute(), recording);
    }
    return Status::ok();
  }
  // Whether the step that was put there last has overflowed; waits for it.
  Result<bool> overflowed() const {
    PACELINE_CUDA(cudaEventSynchronize(scaled_.known.get()));
    return scaled_.overflowed.host.data()[0] != 0;
  }
  // A loss that is not finite is so with any scale.
  Status find_scale([[maybe_unused]] std::span<const float> parameters, [[maybe_unused]] const Batch& batch) {
    if constexpr (kScales) {
      LossScaler& scaler = model_->loss_scaler;
      while (scaler.is_guess()) {
        PACELINE_ASSIGN_OR_RETURN(const bool is_too_large, overflowed());
        PACELINE_ASSIGN_OR_RETURN(const Metric known, metric(batch));
        if (!is_too_large || !std::isfinite(known.loss_sum)) break;
        scaler.step(is_too_large);
        PACELINE_RETURN_IF_ERROR(put_step(parameters, batch));
      }
    }
    return Status::ok();
  }
  Status note_overflow() {
    if constexpr (kScales) {
      PACELINE_ASSIGN_OR_RETURN(const bool is_too_large, overflowed());
      model_->loss_scaler.step(is_too_large);
    }
    return Status::ok();
  }

  // The next call writes to the staging memory, and the caller to its mini-batches: nothing may still be read
  // from either then.
  template <typename Outcome>
  Outcome over_when_failed(Outcome outcome) {
    if (outcome.is_ok()) return outcome;
    static_cast<void>(gpu_->drain());
    samples_.drop();
    return outcome;
  }

  // Passes of the thread cache may stand in front of the step; beside them, in the other stream, is nothing.
  Status note_begin() {
    PACELINE_CUDA(cudaEventRecord(asked_.get(), gpu_->copies()));
    PACELINE_CUDA(cudaEventRecord(begun_.get(), gpu_->compute()));
    return Status::ok();
  }

  Status publish_to_thread_cache(std::span<const float> gradient) {
    float milliseconds = 0.0F;
    PACELINE_CUDA(cudaEventElapsedTime(&milliseconds, asked_.get(), begun_.get()));
    model_->device_overlap += std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::duration<float, std::milli>(std::max(milliseconds, 0.0F)));
    model_->passes_done();
    model_->gradient = gradient_.data();
    model_->gradient_on_host = gradient.data();
    return Status::ok();
  }

  // On the GPU: the thread cache's where there are none on the host, else where those go.
  Result<float*> place_of(std::span<const float> parameters) {
    if (parameters.empty()) {
      PACELINE_ASSERT(model_->parameters != nullptr, "no parameters, neither here nor on the GPU");
      return model_->parameters;
    }
    check_length(parameters.size());
    if (sent_.device.size() == 0) {
      PACELINE_ASSIGN_OR_RETURN(sent_, Staged<float>::make(placed_.floats));
    }
    return sent_.device.data();
  }

  // What of the mini-batch the step does not send itself.
  Status bring(const Batch& batch, Mode mode) {
    if (!batch.images.empty()) return samples_.bring(batch, keys_of(mode));
    samples_.stage_keys(batch);
    return Status::ok();
  }

  // The mini-batch made of the training set on the GPU.
  Status render(const Batch& batch) {
    const PlacedSamples& front = samples_.front();
    PACELINE_RETURN_IF_ERROR(front.epochs.send(gpu_->compute(), 0, batch_size_));
    PACELINE_RETURN_IF_ERROR(front.sample_ids.send(gpu_->compute(), 0, batch_size_));
    const RenderSamples samples{
        model_->data->pixels.data(),    model_->data->labels.data(), model_->data->normalization,
        model_->data->options,          front.epochs.device.data(),  front.sample_ids.device.data(),
        static_cast<int>(batch.size()), front.images.data(),         front.labels.device.data()};
    PACELINE_CUDA(launch_each(gpu_->compute(), static_cast<int>(batch_size_ * kPlaneSize), samples));
    return Status::ok();
  }

  // All up to the first layer's gradient.
  Status put_step(std::span<const float> parameters, const Batch& batch) {
    PACELINE_ASSIGN_OR_RETURN(float* const placed, place_of(parameters));
    stage_scale(model_->loss_scaler.scale());
    const auto put = [&](Recording recording) -> Status {
      const auto layer_done = [&](std::size_t trained) -> Status {
        PACELINE_RETURN_IF_ERROR(unscale(layers_[trained].place));
        return record_event(layers_[trained].computed, gpu_->compute(), recording);
      };
      PACELINE_RETURN_IF_ERROR(send_scale());
      PACELINE_RETURN_IF_ERROR(put_forward(placed, parameters, batch, Mode::kTraining, recording));
      PACELINE_RETURN_IF_ERROR(program_->backward(vectors(placed, batch.size()), layer_done));
      return fetch_overflow(recording);
    };
    const bool repeats = parameters.empty() && batch.size() == batch_size_ && !norms_;
    if (!repeats) return put(Recording::kNow);
    StepGraph& graph = batch.images.empty() ? of_kept_samples_ : of_sent_samples_;
    return graph.run(*gpu_, samples_.front_index(), put);
  }

  // All up to the loss. `parameters`: those that are still on the host.
  Status put_forward(const float* placed, std::span<const float> parameters, const Batch& batch, Mode mode,
                     Recording recording) {
    if (batch.images.empty()) PACELINE_RETURN_IF_ERROR(render(batch));
    PACELINE_RETURN_IF_ERROR(program_->forward(vectors(placed, batch.size()), mode, [&](std::size_t trained) {
      return parameters.empty() ? Status::ok() : send_parameters(parameters, layers_[trained]);
    }));
    return compute_loss(batch, mode, recording);
  }

  Status send_parameters(std::span<const float> parameters, const Arrival& layer) {
    std::copy_n(parameters.begin() + layer.place.flat, layer.place.size,
                sent_.host.data() + layer.place.placed);
    return sent_.send(gpu_->compute(), layer.place.placed, layer.place.size);
  }

  SoftmaxLoss<T> loss_of(std::int64_t samples, Mode mode) const {
    return {program_->logits(),
            samples_.front().labels.device.data(),
            static_cast<int>(network_.classes),
            static_cast<int>(samples),
            mode == Mode::kTraining ? network_.label_smoothing : 0.0,
            kScales ? scaled_.scale.device.data() : nullptr,
            losses_.device.data(),
            correct_.device.data(),
            mode == Mode::kTraining ? program_->logit_difference() : nullptr};
  }

  Status compute_loss(const Batch& batch, Mode mode, Recording recording) {
    PACELINE_CUDA(launch_each(gpu_->compute(), static_cast<int>(batch_size_), loss_of(batch.size(), mode)));
    PACELINE_RETURN_IF_ERROR(losses_.fetch(gpu_->compute(), 0, batch.size()));
    PACELINE_RETURN_IF_ERROR(correct_.fetch(gpu_->compute(), 0, batch.size()));
    return record_event(metric_known_, gpu_->compute(), recording);
  }

  // The copies wait for their layers, and the layers in front of these do not wait for the copies.
  Status take(std::span<float> gradient, const FinalFrom& final_from) {
    PACELINE_ASSIGN_OR_RETURN(const bool pinned, is_pinned(gradient.data()));
    if (!pinned && staging_.size() == 0) {
      PACELINE_ASSIGN_OR_RETURN(staging_, make_pinned_memory<float>(network_.layout.size()));
    }
    float* const to = pinned ? gradient.data() : staging_.data();
    for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
      PACELINE_CUDA(cudaStreamWaitEvent(gpu_->copies(), layer->computed.get(), 0));
      PACELINE_CUDA(cudaMemcpyAsync(to + layer->place.flat, gradient_.data() + layer->place.placed,
                                    static_cast<std::size_t>(layer->place.size) * sizeof(float),
                                    cudaMemcpyDeviceToHost, gpu_->copies()));
      PACELINE_CUDA(cudaEventRecord(layer->arrived.get(), gpu_->copies()));
    }
    for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
      PACELINE_CUDA(cudaEventSynchronize(layer->arrived.get()));
      if (!pinned)
        std::copy_n(to + layer->place.flat, layer->place.size, gradient.begin() + layer->place.flat);
      final_from(layer->place.flat);
    }
    return Status::ok();
  }

  // Added up in the order of the samples, as the other back ends do.
  Result<Metric> metric(const Batch& batch) {
    PACELINE_CUDA(cudaEventSynchronize(metric_known_.get()));
    Metric metric;
    metric.samples = batch.size();
    for (std::int64_t n = 0; n < batch.size(); ++n) {
      metric.loss_sum += losses_.host.data()[n];
      metric.correct += correct_.host.data()[n];
    }
    return metric;
  }

  const std::shared_ptr<const GpuThread> gpu_;
  const std::shared_ptr<ThreadModel> model_;
  const NetworkSpec network_;
  const PlacedNetwork placed_;
  const std::int64_t batch_size_;
  std::unique_ptr<Program<T>> program_;
  SampleBuffers samples_;
  Staged<double> losses_;  // of each sample; and whether it was recognised
  Staged<std::int32_t> correct_;
  DeviceMemory<float> gradient_;
  ScaledLoss scaled_;                  // not used but in float16
  std::optional<NormExchange> norms_;  // with a group of workers
  Staged<float> sent_;                 // parameters that come from the host; made when the first do
  PinnedMemory<float> staging_;        // of gradients for memory that is not pinned; made when the first is
  Event asked_;                        // a step was asked for, and
  Event begun_;                        // is begun on the GPU
  Event metric_known_;
  std::vector<Arrival> layers_;  // those with parameters, the first first
  // Both name all of the above, and the thread cache's parameters: it does not change while this lives.
  StepGraph of_kept_samples_;
  StepGraph of_sent_samples_;
};

template <typename T>
Result<std::unique_ptr<NetworkBackend>> make(std::shared_ptr<const GpuThread> gpu,
                                             std::shared_ptr<ThreadModel> model, AlgorithmCache& cache,
                                             NetworkSpec network, std::int64_t batch_size,
                                             Precision precision, std::uint64_t seed, NormGroup* norm_group) {
  auto backend =
      std::make_unique<CudaBackend<T>>(std::move(gpu), std::move(model), std::move(network), batch_size);
  PACELINE_RETURN_IF_ERROR(backend->make(cache, precision, seed, norm_group));
  return std::unique_ptr<NetworkBackend>(std::move(backend));
}

}  // namespace

Result<std::unique_ptr<NetworkBackend>> make_cuda_backend(std::shared_ptr<const GpuThread> gpu,
                                                          std::shared_ptr<ThreadModel> model,
                                                          AlgorithmCache& cache, NetworkSpec network,
                                                          std::int64_t batch_size, Precision precision,
                                                          std::uint64_t seed, NormGroup* norm_group) {
  if (batch_size < 1 || batch_size > std::numeric_limits<int>::max()) {
    return invalid_argument("batch size " + std::to_string(batch_size) + ", expected at least 1");
  }
  const auto make_of = precision == Precision::kBf16   ? make<Bfloat16>
                       : precision == Precision::kFp16 ? make<Float16>
                                                       : make<float>;
  return make_of(std::move(gpu), std::move(model), cache, std::move(network), batch_size, precision, seed,
                 norm_group);
}

}  // namespace paceline::cuda
