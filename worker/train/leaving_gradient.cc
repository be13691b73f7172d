#include "worker/train/leaving_gradient.h"

#include <cmath>
#include <utility>

#include "common/params/vector_ops.h"
#include "worker/train/finite.h"

namespace paceline {

LeavingGradient::LeavingGradient(ParameterExchange& exchange, LocalGradient gradient)
    : exchange_(exchange),
      gradient_(std::move(gradient)),
      checked_from_(std::ssize(gradient_.values.floats)) {}

void LeavingGradient::final_from(std::int64_t begin) {
  const std::int64_t size = std::ssize(gradient_.values.floats);
  if (mistake_.is_ok() && (begin < 0 || begin > size)) {
    mistake_ =
        invalid_argument("the task says that its gradient is final from element " + std::to_string(begin) +
                         ", expected one in [0, " + std::to_string(size) + "]");
  }
  if (!mistake_.is_ok() || begin >= checked_from_) return;
  look_at(begin);
  if (!non_finite_) exchange_.push_early(gradient_, begin);
}

void LeavingGradient::look_at(std::int64_t begin) {
  const auto fresh = gradient_.values.floats.subspan(static_cast<std::size_t>(begin),
                                                     static_cast<std::size_t>(checked_from_ - begin));
  if (const auto at = first_non_finite(fresh)) non_finite_ = begin + *at;
  checked_from_ = begin;
}

std::string LeavingGradient::fault(const Metric& metric, const Layout& layout) {
  const std::int64_t at_once = exchange_.floats_at_once();
  while (checked_from_ > at_once) {
    look_at(checked_from_ - at_once);
    if (!non_finite_ && std::isfinite(metric.loss_sum)) exchange_.push_early(gradient_, checked_from_);
  }
  look_at(0);
  return describe_non_finite(metric, gradient_.values.floats, non_finite_, layout);
}

void LeavingGradient::push(std::int64_t samples) {
  gradient_.samples = samples;
  exchange_.push(std::move(gradient_));
}

}  // namespace paceline
