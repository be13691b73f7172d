// A step, as the calling thread sees it. All of it is put into the two streams first; then the thread waits
// for what comes back, a layer at a time:
//
//   compute  images conv1' conv1 … fc2' fc2 loss | fc2 gradient   | fc1 gradient   | … conv1 gradient
//   copies                                        . . . . . . . . | fc2 to the host | fc1 to the host …
//   thread   puts all this there, waits for fc2, final_from(fc2), waits for fc1, final_from(fc1), …
//
// conv1' are the parameters of conv1 on their way: copied into pinned memory while the GPU computes what is
// in front of it. A mini-batch smaller than the built size is filled up with zero images that send nothing
// back (bodies.h), as in oneDNN's back end.
#include "worker/model/cuda/cuda_backend.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "common/assert.h"
#include "worker/model/cuda/launch.h"
#include "worker/model/cuda/program.h"

namespace paceline::cuda {
namespace {

// What a mini-batch is on its way to the GPU, and what is known of it afterwards.
struct StagedBatch {
  Staged<float> images;
  Staged<std::uint8_t> labels;
  Staged<std::int64_t> epochs;
  Staged<std::int64_t> sample_ids;
  Staged<double> losses;
  Staged<std::int32_t> correct;

  static Result<StagedBatch> make(std::int64_t samples, std::int64_t floats) {
    StagedBatch batch;
    PACELINE_ASSIGN_OR_RETURN(batch.images, Staged<float>::make(samples * floats));
    PACELINE_ASSIGN_OR_RETURN(batch.labels, Staged<std::uint8_t>::make(samples));
    PACELINE_ASSIGN_OR_RETURN(batch.epochs, Staged<std::int64_t>::make(samples));
    PACELINE_ASSIGN_OR_RETURN(batch.sample_ids, Staged<std::int64_t>::make(samples));
    PACELINE_ASSIGN_OR_RETURN(batch.losses, Staged<double>::make(samples));
    PACELINE_ASSIGN_OR_RETURN(batch.correct, Staged<std::int32_t>::make(samples));
    return batch;
  }
};

// `values`, and zeros behind them, on their way in `stream`. An empty one is one of zeros.
template <typename T>
Status send_filled(const Staged<T>& staged, std::span<const T> values, cudaStream_t stream) {
  T* const end = std::copy(values.begin(), values.end(), staged.host.data());
  std::fill(end, staged.host.data() + staged.host.size(), T{});
  return staged.send(stream, 0, staged.host.size());
}

// A layer's parameters, weight and bias side by side: in the flat vector, in the staging memory, and when its
// gradient has come back there.
struct Parameters {
  std::int64_t flat;
  std::int64_t staged;
  std::int64_t size;
  Event computed;
  Event arrived;
};

template <typename T>
class CudaBackend final : public NetworkBackend {
 public:
  CudaBackend(std::shared_ptr<const GpuThread> gpu, NetworkSpec network, std::int64_t batch_size)
      : gpu_(std::move(gpu)),
        network_(std::move(network)),
        placed_(place_parameters(network_)),
        batch_size_(batch_size) {}

  // What has been begun is over before the memory that it works on goes.
  ~CudaBackend() override { static_cast<void>(gpu_->drain()); }

  Status make(AlgorithmCache& cache, Precision precision, std::uint64_t seed) {
    PACELINE_RETURN_IF_ERROR(gpu_->enter());
    PACELINE_ASSIGN_OR_RETURN(
        program_, Program<T>::make(*gpu_, cache, placed_, static_cast<int>(batch_size_), precision, seed));
    PACELINE_ASSIGN_OR_RETURN(batch_, StagedBatch::make(batch_size_, network_.input.size()));
    PACELINE_ASSIGN_OR_RETURN(parameters_, Staged<float>::make(placed_.floats));
    PACELINE_ASSIGN_OR_RETURN(gradient_, Staged<float>::make(placed_.floats));
    PACELINE_ASSIGN_OR_RETURN(metric_known_, make_event());
    for (std::size_t i = 0; i < network_.layers.size(); ++i) {
      const Layer& layer = network_.layers[i];
      if (layer.weight.size == 0) continue;
      Parameters parameters{layer.weight.offset, placed_.layers[i].weight.offset,
                            layer.weight.size + layer.bias.size, nullptr, nullptr};
      PACELINE_ASSIGN_OR_RETURN(parameters.computed, make_event());
      PACELINE_ASSIGN_OR_RETURN(parameters.arrived, make_event());
      layers_.push_back(std::move(parameters));
    }
    return Status::ok();
  }

  Result<Metric> gradient(std::span<const float> parameters, const Batch& batch, std::span<float> gradient,
                          const FinalFrom& final_from) override {
    PACELINE_RETURN_IF_ERROR(check_batch(network_, batch, batch_size_, keys_needed()));
    check_length(parameters.size());
    check_length(gradient.size());
    return over_when_failed([&]() -> Result<Metric> {
      PACELINE_RETURN_IF_ERROR(begin(parameters, batch, Mode::kTraining));
      PACELINE_RETURN_IF_ERROR(
          program_->backward(vectors(), [this](std::size_t trained) { return bring(layers_[trained]); }));
      PACELINE_RETURN_IF_ERROR(take(gradient, final_from));
      return metric(batch);
    }());
  }

  Result<Metric> evaluate(std::span<const float> parameters, const Batch& batch) override {
    PACELINE_RETURN_IF_ERROR(check_batch(network_, batch, batch_size_, DropoutKeys::kIgnored));
    check_length(parameters.size());
    return over_when_failed([&]() -> Result<Metric> {
      PACELINE_RETURN_IF_ERROR(begin(parameters, batch, Mode::kEvaluation));
      return metric(batch);
    }());
  }

 private:
  void check_length(std::size_t floats) const {
    PACELINE_ASSERT(static_cast<std::int64_t>(floats) == network_.layout.size(),
                    std::to_string(floats) + " floats, expected " + std::to_string(network_.layout.size()));
  }

  DropoutKeys keys_needed() const {
    const bool drops = std::any_of(network_.layers.begin(), network_.layers.end(),
                                   [](const Layer& layer) { return layer.kind == LayerKind::kDropout; });
    return drops ? DropoutKeys::kRequired : DropoutKeys::kIgnored;
  }

  StepVectors vectors() const {
    return {batch_.images.device.data(), parameters_.device.data(), gradient_.device.data(),
            batch_.epochs.device.data(), batch_.sample_ids.device.data()};
  }

  // The next call writes to the staging memory: nothing may still be read from it then.
  Result<Metric> over_when_failed(Result<Metric> result) {
    if (!result.is_ok()) static_cast<void>(gpu_->drain());
    return result;
  }

  // All up to the loss.
  Status begin(std::span<const float> parameters, const Batch& batch, Mode mode) {
    PACELINE_RETURN_IF_ERROR(gpu_->enter());
    PACELINE_RETURN_IF_ERROR(send_filled(batch_.images, batch.images, gpu_->compute()));
    PACELINE_RETURN_IF_ERROR(send_filled(batch_.labels, batch.labels, gpu_->compute()));
    if (mode == Mode::kTraining && keys_needed() == DropoutKeys::kRequired) {
      PACELINE_RETURN_IF_ERROR(send_filled(batch_.epochs, batch.epochs, gpu_->compute()));
      PACELINE_RETURN_IF_ERROR(send_filled(batch_.sample_ids, batch.sample_ids, gpu_->compute()));
    }
    PACELINE_RETURN_IF_ERROR(program_->forward(
        vectors(), mode, [&](std::size_t trained) { return send_parameters(parameters, layers_[trained]); }));
    return compute_loss(batch, mode);
  }

  Status send_parameters(std::span<const float> parameters, const Parameters& layer) {
    std::copy_n(parameters.begin() + layer.flat, layer.size, parameters_.host.data() + layer.staged);
    return parameters_.send(gpu_->compute(), layer.staged, layer.size);
  }

  Status compute_loss(const Batch& batch, Mode mode) {
    const SoftmaxLoss<T> loss{program_->logits(),
                              batch_.labels.device.data(),
                              static_cast<int>(network_.classes),
                              static_cast<int>(batch.size()),
                              batch_.losses.device.data(),
                              batch_.correct.device.data(),
                              mode == Mode::kTraining ? program_->logit_difference() : nullptr};
    PACELINE_CUDA(launch_each(gpu_->compute(), static_cast<int>(batch_size_), loss));
    PACELINE_RETURN_IF_ERROR(batch_.losses.fetch(gpu_->compute(), 0, batch.size()));
    PACELINE_RETURN_IF_ERROR(batch_.correct.fetch(gpu_->compute(), 0, batch.size()));
    PACELINE_CUDA(cudaEventRecord(metric_known_.get(), gpu_->compute()));
    return Status::ok();
  }

  // The copy waits for the layer, and the layers in front of it do not wait for the copy.
  Status bring(const Parameters& layer) {
    PACELINE_CUDA(cudaEventRecord(layer.computed.get(), gpu_->compute()));
    PACELINE_CUDA(cudaStreamWaitEvent(gpu_->copies(), layer.computed.get(), 0));
    PACELINE_RETURN_IF_ERROR(gradient_.fetch(gpu_->copies(), layer.staged, layer.size));
    PACELINE_CUDA(cudaEventRecord(layer.arrived.get(), gpu_->copies()));
    return Status::ok();
  }

  Status take(std::span<float> gradient, const FinalFrom& final_from) {
    for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
      PACELINE_CUDA(cudaEventSynchronize(layer->arrived.get()));
      std::copy_n(gradient_.host.data() + layer->staged, layer->size, gradient.begin() + layer->flat);
      final_from(layer->flat);
    }
    return Status::ok();
  }

  // Added up in the order of the samples, as the other back ends do.
  Result<Metric> metric(const Batch& batch) {
    PACELINE_CUDA(cudaEventSynchronize(metric_known_.get()));
    Metric metric;
    metric.samples = batch.size();
    for (std::int64_t n = 0; n < batch.size(); ++n) {
      metric.loss_sum += batch_.losses.host.data()[n];
      metric.correct += batch_.correct.host.data()[n];
    }
    return metric;
  }

  const std::shared_ptr<const GpuThread> gpu_;
  const NetworkSpec network_;
  const PlacedNetwork placed_;
  const std::int64_t batch_size_;
  std::unique_ptr<Program<T>> program_;
  StagedBatch batch_;
  Staged<float> parameters_;
  Staged<float> gradient_;
  Event metric_known_;
  std::vector<Parameters> layers_;  // those with parameters, the first first
};

template <typename T>
Result<std::unique_ptr<NetworkBackend>> make(std::shared_ptr<const GpuThread> gpu, AlgorithmCache& cache,
                                             NetworkSpec network, std::int64_t batch_size,
                                             Precision precision, std::uint64_t seed) {
  auto backend = std::make_unique<CudaBackend<T>>(std::move(gpu), std::move(network), batch_size);
  PACELINE_RETURN_IF_ERROR(backend->make(cache, precision, seed));
  return std::unique_ptr<NetworkBackend>(std::move(backend));
}

}  // namespace

Result<std::unique_ptr<NetworkBackend>> make_cuda_backend(std::shared_ptr<const GpuThread> gpu,
                                                          AlgorithmCache& cache, NetworkSpec network,
                                                          std::int64_t batch_size, Precision precision,
                                                          std::uint64_t seed) {
  if (batch_size < 1 || batch_size > std::numeric_limits<int>::max()) {
    return invalid_argument("batch size " + std::to_string(batch_size) + ", expected at least 1");
  }
  return precision == Precision::kBf16
             ? make<Bfloat16>(std::move(gpu), cache, std::move(network), batch_size, precision, seed)
             : make<float>(std::move(gpu), cache, std::move(network), batch_size, precision, seed);
}

}  // namespace paceline::cuda
