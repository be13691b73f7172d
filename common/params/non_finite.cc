#include "common/params/non_finite.h"

#include <cmath>

#include "common/assert.h"

namespace paceline {
namespace {

const char* kind_of(double value) { return std::isnan(value) ? "nan" : "infinite"; }

// "[3, 0, 2]": where element `index` of a row-major tensor stands.
std::string place_in(const Tensor& tensor, std::int64_t index) {
  std::string place;
  for (auto d = tensor.shape.rbegin(); d != tensor.shape.rend(); ++d) {
    place = std::to_string(index % *d) + (place.empty() ? "" : ", ") + place;
    index /= *d;
  }
  return "[" + place + "]";
}

}  // namespace

std::string describe_non_finite(float value, std::int64_t index, const Layout& layout) {
  const Tensor* const tensor = layout.tensor_at(index);
  PACELINE_ASSERT(tensor != nullptr, "element " + std::to_string(index) + " lies outside the layout");
  return "gradient of " + tensor->name + " is " + kind_of(value) + " at " +
         place_in(*tensor, index - tensor->offset);
}

std::string describe_non_finite(const Metric& metric, std::span<const float> gradient,
                                std::optional<std::int64_t> at, const Layout& layout) {
  if (at) return describe_non_finite(gradient[static_cast<std::size_t>(*at)], *at, layout);
  if (!std::isfinite(metric.loss_sum)) return std::string("loss is ") + kind_of(metric.loss_sum);
  return {};
}

}  // namespace paceline
