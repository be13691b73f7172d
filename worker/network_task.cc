#include "worker/network_task.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "common/accumulated_parts.h"
#include "common/network/network.h"
#include "worker/data/batch_maker.h"
#include "worker/data/loader.h"
#include "worker/model/accumulating.h"
#include "worker/model/backend_per_size.h"
#include "worker/model/clipping.h"
#include "worker/model/gpu_module.h"
#include "worker/model/norm_meeting.h"
#include "worker/model/peer_norm_group.h"
#include "worker/pipeline/stage_trainer.h"
#include "worker/run_data.h"

namespace paceline {
namespace {

// Large enough to keep the back end busy, small enough for its arena to stay small.
constexpr std::int64_t kEvaluationBatch = 256;

Batch view(const MiniBatch& batch) { return {batch.images, batch.labels, batch.samples, batch.epochs}; }

using MakeVectors = std::function<Result<std::unique_ptr<CacheVectors>>(const OptimizerSection&)>;

// A training thread's: mini-batches from its queue, gradients from its back ends.
class NetworkTrainer final : public Task {
 public:
  // `make_vectors`: where the thread cache lies; empty: in the host's memory.
  // `norm_group`: of nodes, that `backends` go by, or null. `loss_scaler`: theirs, or null.
  NetworkTrainer(BatchQueue queue, BackendPerSize backends, MakeVectors make_vectors,
                 std::shared_ptr<PeerNormGroup> norm_group, std::shared_ptr<LossScaler> loss_scaler)
      : queue_(std::move(queue)),
        loss_scaler_(std::move(loss_scaler)),
        norm_group_(std::move(norm_group)),
        backends_(std::move(backends)),
        make_vectors_(std::move(make_vectors)) {}

  Result<std::unique_ptr<CacheVectors>> make_cache_vectors(const OptimizerSection& optimizer,
                                                           std::int64_t) override {
    if (make_vectors_ == nullptr) return std::unique_ptr<CacheVectors>();
    return make_vectors_(optimizer);
  }

  // A GPU may still read what was predicted, and the queue makes another one there if that does not come.
  Status load(const Step& step) override {
    if (norm_group_ != nullptr) norm_group_->begin(step.clock);
    if (loss_scaler_ != nullptr && step.loss_scale.scale > 0.0) loss_scaler_->go_on(step.loss_scale);
    const bool comes = std::exchange(predicted_, std::nullopt) == step.batch;
    if (!comes && backend_ != nullptr) PACELINE_RETURN_IF_ERROR(backend_->forget());
    PACELINE_ASSIGN_OR_RETURN(batch_, queue_.next(step.batch, InRow{step.local_step, step.local_steps}));
    backend_ = nullptr;  // which of() may end
    PACELINE_ASSIGN_OR_RETURN(backend_, backends_.of(step.batch.samples));
    return Status::ok();
  }
  Result<Metric> compute(std::span<const float> parameters, std::span<float> gradient,
                         const FinalFrom& final_from) override {
    if (const auto following = queue_.following()) {
      backend_->predict(view(*following->batch));
      predicted_ = following->part;
    }
    return backend_->gradient(parameters, view(*batch_), gradient, final_from);
  }
  LossScale loss_scale() const override {
    return loss_scaler_ == nullptr ? LossScale{} : loss_scaler_->state();
  }
  std::chrono::nanoseconds waited() const override {
    return norm_group_ == nullptr ? std::chrono::nanoseconds(0) : norm_group_->waited();
  }
  Result<Metric> evaluate(std::span<const float>) override {
    return failed_precondition("a training thread's task does not evaluate");
  }

 private:
  BatchQueue queue_;
  const std::shared_ptr<LossScaler> loss_scaler_;
  const std::shared_ptr<PeerNormGroup> norm_group_;
  BackendPerSize backends_;  // gone before the queue, whose mini-batches one of them may still read
  const MakeVectors make_vectors_;
  const MiniBatch* batch_ = nullptr;    // the queue's
  NetworkBackend* backend_ = nullptr;   // of backends_, for its size
  std::optional<BatchPart> predicted_;  // by backend_, in the last compute()
};

// How often evaluations were stopped, as of an evaluator's making: one more, and it is to stop.
class Stops {
 public:
  using Count = std::shared_ptr<const std::atomic<std::uint64_t>>;
  explicit Stops(Count count) : count_(std::move(count)), before_(*count_) {}
  bool one_more() const { return *count_ != before_; }

 private:
  Count count_;
  std::uint64_t before_;
};

// The evaluator's: the whole test set, in order, or samples that are spread over it.
class NetworkEvaluator final : public Task {
 public:
  // `backend`: made for `at_once` of the `samples`, which are at most the test set's.
  NetworkEvaluator(std::shared_ptr<const Samples> test, std::int64_t samples, std::int64_t at_once,
                   std::unique_ptr<NetworkBackend> backend, Stops stop)
      : test_(std::move(test)),
        samples_(samples),
        at_once_(at_once),
        backend_(std::move(backend)),
        stop_(std::move(stop)) {}

  Status load(const Step&) override { return failed_precondition("an evaluator has no mini-batches"); }
  Result<Metric> compute(std::span<const float>, std::span<float>, const FinalFrom&) override {
    return failed_precondition("an evaluator makes no gradients");
  }
  Result<Metric> evaluate(std::span<const float> parameters) override {
    Metric sum;
    for (std::int64_t first = 0; first < samples_; first += at_once_) {
      if (stop_.one_more()) return aborted("the evaluation was stopped");
      PACELINE_RETURN_IF_ERROR(
          make_evaluation_batch(*test_, samples_, first, std::min(at_once_, samples_ - first), batch_));
      if (batch_.size == 0) continue;  // none of them can be read
      PACELINE_ASSIGN_OR_RETURN(const Metric part, backend_->evaluate(parameters, view(batch_)));
      sum.loss_sum += part.loss_sum;
      sum.correct += part.correct;
      sum.samples += part.samples;
    }
    return sum;
  }

 private:
  std::shared_ptr<const Samples> test_;
  std::int64_t samples_;
  std::int64_t at_once_;
  std::unique_ptr<NetworkBackend> backend_;
  MiniBatch batch_;
  Stops stop_;
};

// `at_once_max`: of samples that the back end of `make` is for.
Result<std::unique_ptr<Task>> make_network_evaluator(const RunConfig& config, const MakeBackend& make,
                                                     const NetworkSpec& network, const RunData& data,
                                                     std::int64_t at_once_max, Stops stop) {
  PACELINE_ASSIGN_OR_RETURN(auto test, data.test());
  const std::int64_t asked = config.train.eval_samples;
  const std::int64_t samples = asked == 0 ? test->size() : std::min(asked, test->size());
  const std::int64_t at_once = std::min(at_once_max, samples);
  PACELINE_ASSIGN_OR_RETURN(auto backend, make(network, at_once, config.run.seed));
  return std::unique_ptr<Task>(std::make_unique<NetworkEvaluator>(std::move(test), samples, at_once,
                                                                  std::move(backend), std::move(stop)));
}

// `group`: of batch norms, or null.
MakeBackend on_cpu(Backend kind, Precision precision, NormGroup* group) {
  return [=](const NetworkSpec& network, std::int64_t batch_size, std::uint64_t seed) {
    return make_backend(kind, network, batch_size, seed, group, precision);
  };
}

// A node's GPUs, or null where it computes on the CPU. Errors: what its machine cannot compute.
Result<std::shared_ptr<Gpus>> gpus_of(const TrainSection& train) {
  if (train.device == Device::kCpu) {
    PACELINE_RETURN_IF_ERROR(check_precision(train.backend, train.precision));
    return std::shared_ptr<Gpus>();
  }
  return load_gpus({train.devices, train.precision});
}

// Whether the training set is on the GPUs, too. `gpus`: null for the CPU.
Result<Kept> keep_on(Gpus* gpus, const RunConfig& config, const RunData& data) {
  if (gpus == nullptr || config.data.on_device == OnDevice::kOff || data.in_memory() == nullptr)
    return Kept::kNo;
  if (data.pixels().means != nullptr) return Kept::kNo;  // a GPU has a mean for each channel
  return gpus->keep(*data.in_memory(), data.pixels().channels, data.options());
}

// Without images a sample is a few draws of numbers: one thread makes the mini-batches of all. Those that go
// to a GPU are read by it where they are made.
LoaderOptions loader_options(const DataSection& config, Kept on_gpus, Gpus* gpus) {
  LoaderOptions options{.threads = config.loader_threads, .prefetch = config.prefetch_batches};
  if (on_gpus == Kept::kYes) {
    options.threads = 1;
  } else if (gpus != nullptr) {
    options.memory = gpus->page_locked(nullptr);
  }
  return options;
}

class NetworkTasks final : public TaskFactory {
 public:
  // `gpus`: null for the CPU. `meeting`: make_network_tasks()'s.
  NetworkTasks(const RunConfig& config, NetworkSpec network, std::shared_ptr<Gpus> gpus, RunData data,
               Kept on_gpus, std::size_t sizes_kept, NormMeeting* meeting)
      : config_(config),
        gpus_(std::move(gpus)),
        sizes_kept_(sizes_kept),
        meeting_(meeting),
        network_(std::move(network)),
        data_(std::move(data)) {
    if (!config.pipeline.enabled()) loader_ = make_loader(on_gpus);
  }
  // After the construction, of a pipeline. Errors: StageTasks::make()'s.
  Status cut_into_stages() {
    if (!config_.pipeline.enabled()) return Status::ok();
    PACELINE_ASSIGN_OR_RETURN(stages_, StageTasks::make(config_, network_));
    return Status::ok();
  }

  const Layout& layout() const override { return network_.layout; }
  std::uint64_t data_fingerprint() const override { return data_.fingerprint(); }
  void initialize(std::span<float> parameters) const override {
    initialize_parameters(network_, config_.run.seed, parameters);
  }

  Range trained_by(NodeId node) const override {
    return stages_ == nullptr ? TaskFactory::trained_by(node) : stages_->trained_by(node);
  }
  void meet(std::shared_ptr<PeerChannels> peers) override {
    if (stages_ != nullptr) return stages_->meet(std::move(peers));
    const std::lock_guard lock(norm_group_mutex_);
    peers_ = std::move(peers);
    if (norm_group_ != nullptr) norm_group_->meet(peers_);
  }
  std::vector<PeerBounds> peer_bounds(NodeId node) const override {
    if (stages_ != nullptr) return stages_->peer_bounds(node);
    const std::uint32_t members = config_.train.batch_norm_group;
    return members == 1 ? std::vector<PeerBounds>() : PeerNormGroup::peer_bounds(node, members, network_);
  }
  void record_passes(schedule::PassSpans* into) override {
    if (stages_ != nullptr) stages_->record_passes(into);
  }
  StageReport stage_report() const override { return stages_ == nullptr ? StageReport() : stages_->report(); }

  Result<std::unique_ptr<Task>> make_trainer(WorkerId worker) override {
    if (stages_ != nullptr) {
      return stages_->make_trainer(worker.node, [this](bool with_images) {
        return make_loader(with_images ? Kept::kNo : Kept::kYes);
      });
    }
    const std::shared_ptr<PeerNormGroup> norm_group = norm_group_of(worker.node);
    NormGroup* const group = meeting_ == nullptr
                                 ? norm_group.get()
                                 : &meeting_->member(worker.node.value % config_.train.batch_norm_group);
    PACELINE_ASSIGN_OR_RETURN(Computing with, computing_for(worker.thread, group));
    if (with.loss_scaler != nullptr) with.loss_scaler->steps_of_a_gradient(config_.train.accumulate);
    const MakeBackend make = clipping(accumulating(std::move(with.make_backend), config_.train.accumulate),
                                      config_.train.clip_gradients);
    BackendPerSize backends(make, network_, config_.run.seed, sizes_kept_);
    // What the library refuses is known now, and the first step need not wait.
    PACELINE_RETURN_IF_ERROR(backends.of(config_.train.batch_size).status());
    return std::unique_ptr<Task>(std::make_unique<NetworkTrainer>(
        loader_->open(predicted_batches(config_, worker)), std::move(backends), std::move(with.make_vectors),
        norm_group, std::move(with.loss_scaler)));
  }
  // Mini-batches and dropout are functions of the step; what is predicted is only a hint.
  bool trainers_are_alike() const override {
    return stages_ == nullptr && config_.train.batch_norm_group == 1 &&
           config_.train.precision != Precision::kFp16;  // whose loss scale is a worker's own
  }
  Result<std::unique_ptr<Task>> make_evaluator() override {
    if (stages_ != nullptr) {  // whose activations are a micro-batch's, however many there are at once
      return make_network_evaluator(config_, stages_->evaluating(), network_, data_, kEvaluationBatch,
                                    Stops(stopped_));
    }
    // As `paceline evaluate` does.
    if (gpus_ == nullptr) {
      return make_network_evaluator(config_, on_cpu(config_.train.backend, Precision::kFp32, nullptr),
                                    network_, data_, evaluated_at_once(config_.train), Stops(stopped_));
    }
    // With the first thread's GPU, and a stream of its own there.
    PACELINE_ASSIGN_OR_RETURN(const Computing with, computing_for(0, nullptr));
    return make_network_evaluator(config_, with.make_backend, network_, data_,
                                  evaluated_at_once(config_.train), Stops(stopped_));
  }
  void warn_to(std::function<void(const std::string&)> warn) override {
    data_.warn_to(warn);
    if (gpus_ != nullptr) gpus_->warn_to(std::move(warn));
  }
  std::int64_t samples_left_out(NodeId node) const override { return data_.samples_left_out_by(node); }
  std::string computes_on(std::uint32_t thread) const override {
    return gpus_ == nullptr ? "" : "GPU " + std::to_string(gpus_->device_of(thread));
  }
  std::shared_ptr<std::pmr::memory_resource> gradient_memory(
      std::shared_ptr<std::pmr::memory_resource> upstream) override {
    return gpus_ == nullptr ? std::move(upstream) : gpus_->page_locked(std::move(upstream));
  }
  std::shared_ptr<std::pmr::memory_resource> parameter_memory() override {
    return gpus_ == nullptr ? nullptr : gpus_->page_locked(nullptr);
  }
  Result<std::shared_ptr<void>> pin(std::span<const std::byte> pages) override {
    if (gpus_ == nullptr) return std::shared_ptr<void>();
    return gpus_->pin(pages);
  }
  void stop_evaluating() override { ++*stopped_; }

 private:
  // Without images where somebody else has them.
  std::unique_ptr<Loader> make_loader(Kept images) const {
    return std::make_unique<Loader>(data_.maker(images == Kept::kYes ? Images::kLeftOut : Images::kRendered),
                                    loader_options(config_.data, images, gpus_.get()));
  }

  // What a thread computes with.
  struct Computing {
    MakeBackend make_backend;
    MakeVectors make_vectors;
    std::shared_ptr<LossScaler> loss_scaler;  // null: there is none
  };
  // For the calling thread, the node's `index`-th.
  Result<Computing> computing_for(std::uint32_t index, NormGroup* norm_group) const {
    if (gpus_ == nullptr)
      return Computing{on_cpu(config_.train.backend, config_.train.precision, norm_group), {}, {}};
    PACELINE_ASSIGN_OR_RETURN(ThreadOfGpu thread, gpus_->for_thread(index, norm_group));
    return Computing{std::move(thread.make_backend),
                     [make = std::move(thread.make_vectors), network = network_](
                         const OptimizerSection& optimizer) { return make(network, optimizer); },
                     std::move(thread.loss_scaler)};
  }

  // Of the node's one thread; null: its batch norms ask no other node.
  std::shared_ptr<PeerNormGroup> norm_group_of(NodeId node) {
    if (config_.train.batch_norm_group == 1 || meeting_ != nullptr) return nullptr;
    const std::lock_guard lock(norm_group_mutex_);
    norm_group_ = std::make_shared<PeerNormGroup>(node, config_.train.batch_norm_group);
    norm_group_->meet(peers_);
    return norm_group_;
  }

  const RunConfig config_;
  const std::shared_ptr<Gpus> gpus_;
  const std::size_t sizes_kept_;
  NormMeeting* const meeting_;
  const NetworkSpec network_;
  RunData data_;
  std::unique_ptr<Loader> loader_;      // null: stages have their own
  std::unique_ptr<StageTasks> stages_;  // of a pipeline; else null
  std::mutex norm_group_mutex_;         // guards the two below
  std::shared_ptr<PeerNormGroup> norm_group_;
  std::shared_ptr<PeerChannels> peers_;
  const std::shared_ptr<std::atomic<std::uint64_t>> stopped_ =
      std::make_shared<std::atomic<std::uint64_t>>(0);
};

}  // namespace

std::int64_t evaluated_at_once(const TrainSection& train) {
  return std::min(kEvaluationBatch, largest_part(train.batch_size, train.accumulate));
}

Result<std::unique_ptr<TaskFactory>> make_network_tasks(const RunConfig& config, std::size_t sizes_kept,
                                                        NormMeeting* meeting) {
  // What is wrong with the network is said before a GPU is looked for.
  PACELINE_RETURN_IF_ERROR(build_network(config).status());
  PACELINE_ASSIGN_OR_RETURN(auto gpus, gpus_of(config.train));
  return make_network_tasks_on(std::move(gpus), config, sizes_kept, meeting);
}

Result<std::unique_ptr<TaskFactory>> make_network_tasks_on(std::shared_ptr<Gpus> gpus,
                                                           const RunConfig& config, std::size_t sizes_kept,
                                                           NormMeeting* meeting) {
  PACELINE_ASSIGN_OR_RETURN(NetworkSpec network, build_network(config));
  PACELINE_ASSIGN_OR_RETURN(RunData data, RunData::open(config, RunFolder::kMayBeMade));
  PACELINE_ASSIGN_OR_RETURN(const Kept on_gpus, keep_on(gpus.get(), config, data));
  auto tasks = std::make_unique<NetworkTasks>(config, std::move(network), std::move(gpus), std::move(data),
                                              on_gpus, sizes_kept, meeting);
  PACELINE_RETURN_IF_ERROR(tasks->cut_into_stages());
  return std::unique_ptr<TaskFactory>(std::move(tasks));
}

Result<std::uint64_t> check_data(const RunConfig& config) {
  PACELINE_ASSIGN_OR_RETURN(const RunData data, RunData::open(config, RunFolder::kAsItIs));
  return data.fingerprint_of_both();
}

Result<Layout> network_layout(const RunConfig& config) {
  PACELINE_ASSIGN_OR_RETURN(NetworkSpec network, build_network(config));
  return std::move(network.layout);
}

Result<Metric> evaluate_network(const RunConfig& config, std::span<const float> parameters) {
  PACELINE_ASSIGN_OR_RETURN(const NetworkSpec network, build_network(config));
  if (static_cast<std::int64_t>(parameters.size()) != network.layout.size()) {
    return invalid_argument("a model of " + std::to_string(parameters.size()) + " parameters, but " +
                            config.train.model + " has " + std::to_string(network.layout.size()));
  }
  // On the CPU, wherever it was trained: a model may be looked at on a machine without a GPU. The training set
  // is opened, too: the test set is normalised with its numbers, and labelled by its classes.
  PACELINE_ASSIGN_OR_RETURN(const RunData data, RunData::open(config, RunFolder::kAsItIs));
  PACELINE_ASSIGN_OR_RETURN(
      auto evaluator, make_network_evaluator(config, on_cpu(config.train.backend, Precision::kFp32, nullptr),
                                             network, data, evaluated_at_once(config.train),
                                             Stops(std::make_shared<const std::atomic<std::uint64_t>>(0))));
  return evaluator->evaluate(parameters);
}

}  // namespace paceline
