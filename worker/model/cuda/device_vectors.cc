#include "worker/model/cuda/device_vectors.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "common/assert.h"
#include "common/params/step_coefficients.h"
#include "common/params/step_factors.h"
#include "worker/model/cuda/launch.h"
#include "worker/model/cuda/placed_network.h"

namespace paceline::cuda {
namespace {

using Vector = DeviceMemory<float>;

class DeviceVectors final : public CacheVectors {
 public:
  DeviceVectors(std::shared_ptr<const GpuThread> gpu, std::shared_ptr<ThreadModel> model,
                std::shared_ptr<const PinnedPages> pages, const NetworkSpec& network,
                const OptimizerSection& optimizer)
      : gpu_(std::move(gpu)),
        model_(std::move(model)),
        pages_(std::move(pages)),
        places_(parameter_places(network)),
        floats_(place_parameters(network).floats),
        settings_(optimizer),
        factors_(network.layout, optimizer, {0, network.layout.size()}) {}

  ~DeviceVectors() override {
    model_->parameters = nullptr;
    model_->passes_done = [] {};
    static_cast<void>(gpu_->drain());
  }

  Status make() {
    PACELINE_RETURN_IF_ERROR(gpu_->enter());
    if (floats_ > std::numeric_limits<int>::max()) {
      return invalid_argument("a model of " + std::to_string(floats_) +
                              " parameters; a GPU's thread cache takes no more than " +
                              std::to_string(std::numeric_limits<int>::max()));
    }
    PACELINE_ASSIGN_OR_RETURN(read_, make_spinning_event());
    PACELINE_ASSIGN_OR_RETURN(parameters_, zeros());
    if (settings_.kind != OptimizerKind::kSgd) {
      PACELINE_ASSIGN_OR_RETURN(first_, zeros());
    }
    if (settings_.kind == OptimizerKind::kAdam) {
      PACELINE_ASSIGN_OR_RETURN(second_, zeros());
    }
    model_->parameters = parameters_.data();
    model_->passes_done = [this] { held_.clear(); };
    return Status::ok();
  }

  std::span<const float> parameters() const override { return {}; }

  void take_over(std::int64_t begin, SharedFloats values, std::span<const std::size_t> lacking) override {
    const Range range{begin, begin + std::ssize(values.floats)};
    try_to([&]() -> Status {
      PACELINE_RETURN_IF_ERROR(send(range, std::move(values), parameters_));
      for (const std::size_t place : lacking) {
        PACELINE_RETURN_IF_ERROR(place < differences_.size()
                                     ? add(range, differences_[place])
                                     : step(range, gradients_[place - differences_.size()]));
      }
      return Status::ok();
    });
  }

  void let_go() override {
    if (held_.empty()) return;
    try_to([&]() -> Status {
      PACELINE_CUDA(cudaEventRecord(read_.get(), gpu_->compute()));
      PACELINE_CUDA(cudaEventSynchronize(read_.get()));
      held_.clear();
      return Status::ok();
    });
    // What has failed may still read them; whoever lent them is to have them back all the same.
    if (held_.empty()) return;
    static_cast<void>(gpu_->drain());
    held_.clear();
  }

  void keep_gradient(SharedFloats gradient, double rate) override {
    Own own{{}, rate};
    try_to([&]() -> Status {
      PACELINE_ASSIGN_OR_RETURN(own.values, spare());
      const Range whole{0, std::ssize(gradient.floats)};
      if (!is_last(gradient)) return send(whole, std::move(gradient), own.values);
      PACELINE_CUDA(cudaMemcpyAsync(own.values.data(), model_->gradient, own.values.all().size_bytes(),
                                    cudaMemcpyDeviceToDevice, gpu_->compute()));
      return Status::ok();
    });
    gradients_.push_back(std::move(own));
  }

  void apply_newest(Range range) override {
    try_to([&] { return step(range, gradients_.back()); });
  }

  void make_difference() override {
    PACELINE_ASSERT(!gradients_.empty(), "no gradient that could become a difference");
    Own own = std::move(gradients_.front());
    gradients_.pop_front();
    try_to([&] {
      return each_alike(all(), [&](Range at, const StepFactors& factors) -> Status {
        float* const values = own.values.data() + at.begin;
        const float* const from = parameters_.data() + at.begin;
        if (factors.towards != 0.0) {
          return put(at, TowardsDifference{from, values, values, towards(factors), false});
        }
        if (factors.lr == 0.0) return clear(own.values, at);
        const SgdElement element = sgd_step(own, factors);
        const bool from_zero = element.decay.kind == kernels::Decay::kNone;
        return put(at, SgdDifference{from, values, values, element, from_zero});
      });
    });
    differences_.push_back(std::move(own.values));
  }

  void apply_with_state(SharedFloats gradient, double learning_rate, double scale) override {
    Vector difference;
    try_to([&]() -> Status {
      PACELINE_ASSIGN_OR_RETURN(difference, spare());
      const float* from = model_->gradient;
      if (!is_last(gradient)) {
        // Read where it is then overwritten.
        const Range whole{0, std::ssize(gradient.floats)};
        PACELINE_RETURN_IF_ERROR(send(whole, std::move(gradient), difference));
        from = difference.data();
      }
      ++steps_;
      return each_alike(all(), [&](Range at, const StepFactors& factors) {
        if (factors.towards != 0.0) {
          return put(at,
                     TowardsKept{parameters_.data() + at.begin, from + at.begin, difference.data() + at.begin,
                                 static_cast<float>(scale), towards(factors)});
        }
        if (factors.lr == 0.0) return clear(difference, at);
        return step_with_state(at, from + at.begin, difference.data() + at.begin, learning_rate * factors.lr,
                               factors.decay, static_cast<float>(scale));
      });
    });
    differences_.push_back(std::move(difference));
  }

  void drop_oldest() override {
    PACELINE_ASSERT(!gradients_.empty() || !differences_.empty(), "no own update that could be dropped");
    if (differences_.empty()) {
      reuse(std::move(gradients_.front().values));
      gradients_.pop_front();
    } else {
      reuse(std::move(differences_.front()));
      differences_.pop_front();
    }
  }

  std::size_t differences() const override { return differences_.size(); }
  std::size_t gradients() const override { return gradients_.size(); }
  std::size_t gradients_held() const override { return 0; }  // they are on the GPU
  Status status() const override { return status_; }
  std::chrono::nanoseconds take_device_overlap() override {
    return std::exchange(model_->device_overlap, std::chrono::nanoseconds(0));
  }

 private:
  struct Own {
    Vector values;
    double rate;  // learning rate and scale
  };

  template <typename Pass>
  void try_to(const Pass& pass) {
    if (status_.is_ok()) status_ = gpu_->enter();
    if (status_.is_ok()) status_ = pass();
  }

  Result<Vector> zeros() const {
    PACELINE_ASSIGN_OR_RETURN(Vector vector, make_device_memory<float>(floats_));
    PACELINE_CUDA(cudaMemsetAsync(vector.data(), 0, vector.all().size_bytes(), gpu_->compute()));
    return vector;
  }
  // Its content is whatever it was left with.
  Result<Vector> spare() {
    if (spare_.empty()) return zeros();
    Vector vector = std::move(spare_.back());
    spare_.pop_back();
    return vector;
  }
  void reuse(Vector vector) {
    if (vector.size() > 0) spare_.push_back(std::move(vector));
  }

  // Whether it is the one that the last step computed, and so is on the GPU still.
  bool is_last(const SharedFloats& gradient) const {
    return model_->gradient != nullptr && gradient.floats.data() == model_->gradient_on_host;
  }

  // From the host to their places in `into`. Held until the GPU has read them, if it reads them itself, since
  // that is what keeps a server's memory mapped and pinned (wire/sharing.h): what is not pinned has been read
  // when the call returns.
  Status send(Range range, SharedFloats values, const Vector& into) {
    PACELINE_ASSIGN_OR_RETURN(bool pinned, is_pinned(values.floats.data()));
    Status sent;
    for (const ParameterPlace& layer : places_) {
      const Range part{std::max(range.begin, layer.flat), std::min(range.end, layer.flat + layer.size)};
      if (part.begin >= part.end || !sent.is_ok()) continue;
      const std::span<const float> from = values.floats.subspan(
          static_cast<std::size_t>(part.begin - range.begin), static_cast<std::size_t>(part.size()));
      sent =
          pages_->send(gpu_->compute(), from, into.data() + layer.placed + (part.begin - layer.flat), pinned);
    }
    if (pinned) held_.push_back(std::move(values));
    return sent;
  }
  // What lies between the first and the last of them on the GPU: layers' parameters are in the same order
  // there, and what is between them counts for nothing.
  Range placed(Range range) const { return {place_of(range.begin), place_of(range.end - 1) + 1}; }
  std::int64_t place_of(std::int64_t at) const {
    const auto behind =
        std::upper_bound(places_.begin(), places_.end(), at,
                         [](std::int64_t flat, const auto& layer) { return flat < layer.flat; });
    PACELINE_ASSERT(behind != places_.begin(), "a parameter of no layer");
    return std::prev(behind)->placed + (at - std::prev(behind)->flat);
  }

  Range all() const { return {0, places_.empty() ? 0 : places_.back().flat + places_.back().size}; }
  // launch(place on the GPU, factors) for the parts of a flat range that have the same factors. What lies
  // between parts counts for nothing: where all factors are 1 it is one launch.
  template <typename Launch>
  Status each_alike(Range range, const Launch& launch) const {
    if (range.size() == 0) return Status::ok();
    if (factors_.all_are_one()) return launch(placed(range), StepFactors{});
    Status launched;
    for (const ParameterPlace& layer : places_) {
      const Range part{std::max(range.begin, layer.flat), std::min(range.end, layer.flat + layer.size)};
      if (part.begin >= part.end) continue;
      const std::int64_t there = layer.placed - layer.flat;
      factors_.for_each(part, [&](Range same, const StepFactors& factors) {
        if (launched.is_ok()) launched = launch(Range{same.begin + there, same.end + there}, factors);
      });
    }
    return launched;
  }
  Status clear(const Vector& vector, Range at) const {
    PACELINE_CUDA(cudaMemsetAsync(vector.data() + at.begin, 0,
                                  static_cast<std::size_t>(at.size()) * sizeof(float), gpu_->compute()));
    return Status::ok();
  }

  // A body for each element of a range on the GPU.
  template <typename Body>
  Status put(Range at, const Body& body) const {
    PACELINE_CUDA(launch_each(gpu_->compute(), static_cast<int>(at.size()), body));
    return Status::ok();
  }
  static TowardsElement towards(const StepFactors& factors) {
    return {static_cast<float>(1.0 - factors.towards), static_cast<float>(factors.towards)};
  }
  SgdElement sgd_step(const Own& own, const StepFactors& factors) const {
    const double rate = own.rate * factors.lr;
    return {static_cast<float>(rate), weight_decay(settings_, rate, factors.decay)};
  }
  Status step(Range range, const Own& own) {
    return each_alike(range, [&](Range at, const StepFactors& factors) -> Status {
      float* const parameters = parameters_.data() + at.begin;
      const float* const values = own.values.data() + at.begin;
      if (factors.towards != 0.0) return put(at, TowardsInPlace{parameters, values, towards(factors)});
      if (factors.lr == 0.0) return Status::ok();
      return put(at, SgdInPlace{parameters, values, sgd_step(own, factors)});
    });
  }
  // Of elements with the same factors, which are in the rate and the decay: `from` and `difference` are
  // theirs.
  Status step_with_state(Range at, const float* from, float* difference, double rate, double decay_factor,
                         float scale) {
    const kernels::WeightDecay decay = weight_decay(settings_, rate, decay_factor);
    float* const parameters = parameters_.data() + at.begin;
    float* const first = first_.data() + at.begin;
    if (settings_.kind == OptimizerKind::kMomentum) {
      return put(
          at,
          MomentumKept{parameters, from, difference, scale, {first, momentum_step(settings_, rate), decay}});
    }
    PACELINE_ASSERT(settings_.kind == OptimizerKind::kAdam, "a GPU has no step of this optimizer's");
    float* const second = second_.data() + at.begin;
    return put(
        at,
        AdamKept{
            parameters, from, difference, scale, {first, second, adam_step(settings_, rate, steps_), decay}});
  }
  Status add(Range range, const Vector& difference) {
    const Range at = placed(range);
    return put(at, AddDifference{parameters_.data() + at.begin, difference.data() + at.begin});
  }

  const std::shared_ptr<const GpuThread> gpu_;
  const std::shared_ptr<ThreadModel> model_;
  const std::shared_ptr<const PinnedPages> pages_;
  const std::vector<ParameterPlace> places_;
  const std::int64_t floats_;  // on the GPU
  const OptimizerSection settings_;
  const FactorRanges factors_;
  Vector parameters_;
  Vector first_;  // as OptimizerState's
  Vector second_;
  std::int64_t steps_ = 0;
  std::deque<Vector> differences_;
  std::deque<Own> gradients_;
  std::vector<Vector> spare_;
  std::vector<SharedFloats> held_;  // until let_go(), or the step that is computed next is over
  Event read_;                      // let_go()'s: the GPU has come there
  Status status_;
};

}  // namespace

Result<std::unique_ptr<CacheVectors>> make_device_vectors(std::shared_ptr<const GpuThread> gpu,
                                                          std::shared_ptr<ThreadModel> model,
                                                          std::shared_ptr<const PinnedPages> pages,
                                                          const NetworkSpec& network,
                                                          const OptimizerSection& optimizer) {
  auto vectors =
      std::make_unique<DeviceVectors>(std::move(gpu), std::move(model), std::move(pages), network, optimizer);
  PACELINE_RETURN_IF_ERROR(vectors->make());
  return std::unique_ptr<CacheVectors>(std::move(vectors));
}

}  // namespace paceline::cuda
