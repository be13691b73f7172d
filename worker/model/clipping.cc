#include "worker/model/clipping.h"

#include <cmath>
#include <utility>

namespace paceline {
namespace {

class ClippingBackend final : public NetworkBackend {
 public:
  ClippingBackend(Layout layout, double bound, std::unique_ptr<NetworkBackend> backend)
      : layout_(std::move(layout)), bound_(bound), backend_(std::move(backend)) {}

  Result<Metric> gradient(std::span<const float> parameters, const Batch& batch, std::span<float> gradient,
                          const FinalFrom& final_from) override {
    PACELINE_ASSIGN_OR_RETURN(const Metric metric,
                              backend_->gradient(parameters, batch, gradient, whole_at_the_end));
    double squares = 0.0;
    for_each_trained(gradient, [&](float value) {
      squares += static_cast<double>(value) * value;
      return value;
    });
    const double norm = std::sqrt(squares);
    // A norm that is no number is left for those who look for one.
    if (norm > bound_) {
      const auto scale = static_cast<float>(bound_ / norm);
      for_each_trained(gradient, [&](float value) { return value * scale; });
    }
    final_from(0);
    return metric;
  }

  Result<Metric> evaluate(std::span<const float> parameters, const Batch& batch) override {
    return backend_->evaluate(parameters, batch);
  }
  void predict(const Batch& next) override { backend_->predict(next); }
  Status forget() override { return backend_->forget(); }

 private:
  template <typename Change>
  void for_each_trained(std::span<float> gradient, const Change& change) const {
    for (const Tensor& tensor : layout_.tensors()) {
      if (tensor.traits.role == TensorRole::kBuffer || tensor.traits.lr_factor == 0.0) continue;
      for (float& value : gradient.subspan(tensor.offset, tensor.size())) value = change(value);
    }
  }

  const Layout layout_;
  const double bound_;
  const std::unique_ptr<NetworkBackend> backend_;
};

}  // namespace

MakeBackend clipping(MakeBackend make, std::optional<double> bound) {
  if (!bound) return make;
  return [make = std::move(make), bound = *bound](
             const NetworkSpec& network, std::int64_t batch_size,
             std::uint64_t seed) -> Result<std::unique_ptr<NetworkBackend>> {
    PACELINE_ASSIGN_OR_RETURN(auto backend, make(network, batch_size, seed));
    return std::unique_ptr<NetworkBackend>(
        std::make_unique<ClippingBackend>(network.layout, bound, std::move(backend)));
  };
}

}  // namespace paceline
