#include "server/cuda/shard_on_gpu.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "common/assert.h"
#include "common/cuda/launch.h"
#include "common/cuda/resources.h"
#include "common/params/step_coefficients.h"
#include "server/cuda/apply_bodies.h"

namespace paceline::cuda {
namespace {

using server::DeviceStep;
using server::DeviceSum;
using server::DeviceVector;

// Of one launch, whose indices are an int's.
constexpr std::int64_t kIndicesMax = std::int64_t{1} << 30;

// Of the memory that is free, what places for gradients may take beyond the first: others, workers say, have
// yet to come.
constexpr std::int64_t kFreeShare = 4;

// Larger shards take a third of a millisecond and more to come down: who waits for that sleeps, and a wake-up
// makes it no longer by much.
constexpr std::int64_t kSpunForMax = std::int64_t{4} << 20;

class ShardOnGpu final : public server::ShardDevice {
 public:
  ShardOnGpu(int device, std::shared_ptr<const PinnedPages> pages, const server::DeviceShard& shard)
      : device_(device),
        pages_(std::move(pages)),
        floats_(shard.floats),
        optimizer_(shard.optimizer),
        factors_(shard.factors) {}
  ~ShardOnGpu() override { drain(); }

  Status make(const server::DeviceShard& shard) {
    PACELINE_RETURN_IF_ERROR(enter());
    PACELINE_ASSIGN_OR_RETURN(up_, make_stream());
    PACELINE_ASSIGN_OR_RETURN(steps_, make_stream());
    PACELINE_ASSIGN_OR_RETURN(down_, make_stream());
    PACELINE_ASSIGN_OR_RETURN(sent_, make_event_to_wait_for());
    PACELINE_ASSIGN_OR_RETURN(stepped_, make_event());
    PACELINE_ASSIGN_OR_RETURN(fetched_, make_event_to_wait_for());
    PACELINE_ASSIGN_OR_RETURN(parameters_, make_device_memory<float>(floats_));
    if (optimizer_.kind != OptimizerKind::kSgd) PACELINE_RETURN_IF_ERROR(make_zeros(first_));
    if (optimizer_.kind == OptimizerKind::kAdam) PACELINE_RETURN_IF_ERROR(make_zeros(second_));
    if (shard.adds) {
      PACELINE_ASSIGN_OR_RETURN(sum_, make_device_memory<float>(floats_));
    }
    PACELINE_RETURN_IF_ERROR(add_place());
    return add_places_ahead(shard.gradients);
  }

  std::size_t places() const override { return places_.size(); }

  Status load(DeviceVector vector, std::int64_t offset, std::span<const float> values) override {
    PACELINE_RETURN_IF_ERROR(enter());
    bool pinned = false;  // what is not is read at once, and the rest until finish()
    return pages_->send(steps_.get(), values, memory_of(vector).data() + offset, pinned);
  }

  Status begin(std::size_t place) override {
    PACELINE_RETURN_IF_ERROR(enter());
    if (!places_[place].is_read) return Status::ok();
    PACELINE_CUDA(cudaEventRecord(stepped_.get(), steps_.get()));
    PACELINE_CUDA(cudaStreamWaitEvent(up_.get(), stepped_.get(), cudaEventWaitDefault));
    for (Place& each : places_) each.is_read = false;
    return Status::ok();
  }

  Status send(std::size_t place, std::int64_t offset, SharedFloats values) override {
    PACELINE_RETURN_IF_ERROR(enter());
    PACELINE_ASSIGN_OR_RETURN(bool pinned, is_pinned(values.floats.data()));
    const std::span<const float> from = values.floats;
    // Ahead of the copies: one that was begun is not over because another one could not be.
    held_.push_back(std::move(values));
    is_sending_ = true;
    PACELINE_RETURN_IF_ERROR(pages_->send(up_.get(), from, places_[place].floats.data() + offset, pinned));
    if (!pinned) held_.pop_back();
    return Status::ok();
  }

  Status settle() override {
    if (held_.empty()) return Status::ok();
    PACELINE_RETURN_IF_ERROR(enter());
    PACELINE_CUDA(cudaEventRecord(sent_.get(), up_.get()));
    PACELINE_CUDA(cudaEventSynchronize(sent_.get()));
    held_.clear();
    waited_for_ = 0;
    return Status::ok();
  }

  Status add(std::size_t place, Range part, float weight, DeviceSum sum) override {
    if (sum_.size() != floats_) return failed_precondition("a mean of several, for which no sum was made");
    PACELINE_RETURN_IF_ERROR(go_behind_sent(place));
    return each_launch(part, [&](std::int64_t begin, int indices) -> Status {
      float* const to = sum_.data() + begin;
      const float* const gradient = gradient_in(place, begin);
      if (sum == DeviceSum::kBegins) {
        PACELINE_CUDA(launch_each(steps_.get(), indices, BeginSum{to, gradient, weight}));
      } else {
        PACELINE_CUDA(launch_each(steps_.get(), indices, AddToSum{to, gradient, weight}));
      }
      return Status::ok();
    });
  }

  Status step(std::size_t place, Range part, const DeviceStep& step) override {
    PACELINE_RETURN_IF_ERROR(go_behind_sent(place));
    Status put;
    factors_.for_each(part, [&](Range same, const StepFactors& factors) {
      const bool changes = factors.lr != 0.0 || factors.towards != 0.0;
      if (put.is_ok() && changes) put = put_in(place, same, step, factors);
    });
    return put;
  }

  Status fetch(DeviceVector vector, std::int64_t offset, std::span<float> to) override {
    PACELINE_RETURN_IF_ERROR(enter());
    PACELINE_RETURN_IF_ERROR(go_behind_steps());
    PACELINE_ASSIGN_OR_RETURN(const bool pinned, is_pinned(to.data()));
    const float* const from = memory_of(vector).data() + offset;
    if (!pinned) return fetch_by_detour(from, to);
    PACELINE_CUDA(cudaMemcpyAsync(to.data(), from, to.size_bytes(), cudaMemcpyDeviceToHost, down_.get()));
    return Status::ok();
  }

  Status finish() override {
    PACELINE_RETURN_IF_ERROR(enter());
    is_computing_ = true;  // what was loaded, too, is waited for
    PACELINE_RETURN_IF_ERROR(go_behind_steps());
    PACELINE_CUDA(cudaEventRecord(fetched_.get(), down_.get()));
    PACELINE_CUDA(cudaEventSynchronize(fetched_.get()));
    held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(waited_for_));
    waited_for_ = 0;
    return Status::ok();
  }

  void drain() override {
    static_cast<void>(cudaSetDevice(device_));
    for (const Stream* stream : {&up_, &steps_, &down_}) {
      if (*stream) static_cast<void>(cudaStreamSynchronize(stream->get()));
    }
    held_.clear();
    waited_for_ = 0;
  }

 private:
  struct Place {
    DeviceMemory<float> floats;
    bool is_read = false;  // by what was put into `steps_` since begin()
  };

  Status add_place() {
    Place place;
    PACELINE_ASSIGN_OR_RETURN(place.floats, make_device_memory<float>(floats_));
    places_.push_back(std::move(place));
    return Status::ok();
  }
  // Of use and not needed: where others have taken the memory meanwhile there are fewer.
  Status add_places_ahead(std::size_t wanted) {
    std::size_t free = 0;
    std::size_t total = 0;
    PACELINE_CUDA(cudaMemGetInfo(&free, &total));
    const std::size_t bytes = std::max<std::size_t>(1, static_cast<std::size_t>(floats_) * sizeof(float));
    wanted = std::min(wanted, free / kFreeShare / bytes);
    for (Status added = Status::ok(); wanted > 0 && added.is_ok(); --wanted) {
      added = add_place();
      if (added.code() != StatusCode::kResourceExhausted) PACELINE_RETURN_IF_ERROR(added);
    }
    return Status::ok();
  }
  Result<Event> make_event_to_wait_for() const {
    return floats_ > kSpunForMax ? make_event() : make_spinning_event();
  }

  // Makes its GPU the calling thread's current one.
  Status enter() const {
    PACELINE_CUDA(cudaSetDevice(device_));
    return Status::ok();
  }

  Status make_zeros(DeviceMemory<float>& vector) const {
    PACELINE_ASSIGN_OR_RETURN(vector, make_device_memory<float>(floats_));
    if (floats_ == 0) return Status::ok();
    PACELINE_CUDA(cudaMemsetAsync(vector.data(), 0, vector.all().size_bytes(), steps_.get()));
    return Status::ok();
  }

  const DeviceMemory<float>& memory_of(DeviceVector vector) const {
    switch (vector) {
      case DeviceVector::kParameters:
        return parameters_;
      case DeviceVector::kFirst:
        return first_;
      case DeviceVector::kSecond:
        break;
    }
    return second_;
  }
  const float* gradient_in(std::size_t place, std::int64_t begin) const {
    return places_[place].floats.data() + begin;
  }

  // What is put into `steps_` next is behind all that was sent, and reads `place`.
  Status go_behind_sent(std::size_t place) {
    PACELINE_RETURN_IF_ERROR(enter());
    places_[place].is_read = true;
    is_computing_ = true;
    if (!std::exchange(is_sending_, false)) return Status::ok();
    PACELINE_CUDA(cudaEventRecord(sent_.get(), up_.get()));
    PACELINE_CUDA(cudaStreamWaitEvent(steps_.get(), sent_.get(), cudaEventWaitDefault));
    waited_for_ = held_.size();
    return Status::ok();
  }
  // What is put into `down_` next is behind all that was put into `steps_`.
  Status go_behind_steps() {
    if (!std::exchange(is_computing_, false)) return Status::ok();
    PACELINE_CUDA(cudaEventRecord(stepped_.get(), steps_.get()));
    PACELINE_CUDA(cudaStreamWaitEvent(down_.get(), stepped_.get(), cudaEventWaitDefault));
    return Status::ok();
  }

  // launch(begin, indices) for stretches that are `part` together.
  template <typename Launch>
  static Status each_launch(Range part, const Launch& launch) {
    for (std::int64_t begin = part.begin; begin < part.end; begin += kIndicesMax) {
      PACELINE_RETURN_IF_ERROR(launch(begin, static_cast<int>(std::min(kIndicesMax, part.end - begin))));
    }
    return Status::ok();
  }

  // A step of elements that have the same factors.
  Status put_in(std::size_t place, Range part, const DeviceStep& step, const StepFactors& factors) {
    const double rate = step.learning_rate * factors.lr;
    const kernels::WeightDecay decay = weight_decay(optimizer_, rate, factors.decay);
    return each_launch(part, [&](std::int64_t begin, int indices) -> Status {
      const auto launch = [&](const auto& element) { return put_in(place, begin, indices, step, element); };
      if (factors.towards != 0.0) {
        return launch(
            TowardsElement{static_cast<float>(1.0 - factors.towards), static_cast<float>(factors.towards)});
      }
      switch (optimizer_.kind) {
        case OptimizerKind::kSgd:
          return launch(SgdElement{static_cast<float>(rate), decay});
        case OptimizerKind::kMomentum:
          return launch(MomentumElement{first_.data() + begin, momentum_step(optimizer_, rate), decay});
        case OptimizerKind::kAdam:
          return launch(AdamElement{first_.data() + begin, second_.data() + begin,
                                    adam_step(optimizer_, rate, step.t), decay});
        case OptimizerKind::kAdagrad:
        case OptimizerKind::kRmsprop:
        case OptimizerKind::kAdadelta:
        case OptimizerKind::kLars:
        case OptimizerKind::kLamb:
          break;
      }
      PACELINE_ASSERT(false, "an optimizer that is not on a GPU, refused by the configuration");
    });
  }

  template <typename Element>
  Status put_in(std::size_t place, std::int64_t begin, int indices, const DeviceStep& step,
                const Element& element) {
    float* const parameters = parameters_.data() + begin;
    const float* const gradient = gradient_in(place, begin);
    if (!step.mean) {
      const StepInPlace<Element, AsItCame> body{parameters, {gradient}, element};
      PACELINE_CUDA(launch_each(steps_.get(), indices, body));
      return Status::ok();
    }
    const bool has_sum = step.mean->sum == DeviceSum::kGoesOn;
    PACELINE_ASSERT(!has_sum || sum_.size() == floats_, "a sum that goes on has not begun");
    const AsMean mean{has_sum ? sum_.data() + begin : nullptr, gradient, step.mean->weight, step.mean->share};
    const StepInPlace<Element, AsMean> body{parameters, mean, element};
    PACELINE_CUDA(launch_each(steps_.get(), indices, body));
    return Status::ok();
  }

  // Memory that could not be pinned: through some that is, waited for.
  Status fetch_by_detour(const float* from, std::span<float> to) {
    if (detour_.size() < std::ssize(to)) {
      PACELINE_ASSIGN_OR_RETURN(detour_, make_pinned_memory<float>(std::ssize(to)));
    }
    PACELINE_CUDA(
        cudaMemcpyAsync(detour_.data(), from, to.size_bytes(), cudaMemcpyDeviceToHost, down_.get()));
    PACELINE_CUDA(cudaStreamSynchronize(down_.get()));
    std::memcpy(to.data(), detour_.data(), to.size_bytes());
    return Status::ok();
  }

  const int device_;
  const std::shared_ptr<const PinnedPages> pages_;
  const std::int64_t floats_;
  const OptimizerSection optimizer_;
  const FactorRanges factors_;
  Stream up_;
  Stream steps_;
  Stream down_;
  Event sent_;     // recorded in up_
  Event stepped_;  // in steps_
  Event fetched_;  // in down_
  DeviceMemory<float> parameters_;
  DeviceMemory<float> first_;  // as OptimizerState's
  DeviceMemory<float> second_;
  DeviceMemory<float> sum_;  // where there are means of several
  std::vector<Place> places_;
  PinnedMemory<float> detour_;
  bool is_sending_ = false;         // something was put into up_ that steps_ does not wait for
  bool is_computing_ = false;       // something was put into steps_ that down_ does not wait for
  std::vector<SharedFloats> held_;  // the GPU may still be reading them
  std::size_t waited_for_ = 0;      // the first so many of these are behind it when steps_ is
};

}  // namespace

Result<std::unique_ptr<server::ShardDevice>> make_shard_on_gpu(int device,
                                                               std::shared_ptr<const PinnedPages> pages,
                                                               const server::DeviceShard& shard) {
  auto made = std::make_unique<ShardOnGpu>(device, std::move(pages), shard);
  PACELINE_RETURN_IF_ERROR(made->make(shard));
  return std::unique_ptr<server::ShardDevice>(std::move(made));
}

}  // namespace paceline::cuda
