#include "worker/train/gradient_upload.h"

#include <cmath>
#include <utility>

#include "common/params/non_finite.h"
#include "common/params/vector_ops.h"

namespace paceline {

bool worker_checks_finite(OnNan on_nan, Encoding gradients) {
  return on_nan == OnNan::kSkip || gradients != Encoding::kFp32;
}

GradientUpload::GradientUpload(Exchange& exchange, Contribution gradient, bool checks)
    : exchange_(exchange),
      gradient_(std::move(gradient)),
      checks_(checks),
      ready_from_(std::ssize(gradient_.values.floats)) {}

void GradientUpload::final_from(std::int64_t begin) {
  const std::int64_t size = std::ssize(gradient_.values.floats);
  if (mistake_.is_ok() && (begin < 0 || begin > size)) {
    mistake_ =
        invalid_argument("the task says that its gradient is final from element " + std::to_string(begin) +
                         ", expected one in [0, " + std::to_string(size) + "]");
  }
  if (!mistake_.is_ok() || begin >= ready_from_) return;
  if (checks_) check_finite(begin);
  ready_from_ = begin;
  if (!non_finite_) exchange_.push_early(gradient_, begin);
}

void GradientUpload::check_finite(std::int64_t begin) {
  const auto fresh = gradient_.values.floats.subspan(static_cast<std::size_t>(begin),
                                                     static_cast<std::size_t>(ready_from_ - begin));
  if (const auto at = first_non_finite(fresh)) non_finite_ = begin + *at;
  ready_from_ = begin;
}

std::string GradientUpload::fault(const Metric& metric, const Layout& layout) {
  const bool loss_is_finite = std::isfinite(metric.loss_sum);
  if (!checks_ && loss_is_finite) return {};
  if (!checks_)
    ready_from_ = std::ssize(gradient_.values.floats);  // nothing more leaves; which tensor, if any?
  const std::int64_t at_once = exchange_.floats_at_once();
  while (ready_from_ > at_once) {
    check_finite(ready_from_ - at_once);
    if (!non_finite_ && loss_is_finite) exchange_.push_early(gradient_, ready_from_);
  }
  check_finite(0);
  return describe_non_finite(metric, gradient_.values.floats, non_finite_, layout);
}

void GradientUpload::push(std::int64_t samples) {
  gradient_.samples = samples;
  exchange_.push(std::move(gradient_));
}

}  // namespace paceline
