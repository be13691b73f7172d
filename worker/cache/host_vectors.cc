#include "worker/cache/host_vectors.h"

#include <algorithm>
#include <utility>

#include "common/assert.h"
#include "common/params/vector_ops.h"

namespace paceline {
namespace {

// Floats: three arrays of this many lie in a core's own cache.
constexpr std::int64_t kStretch = 8192;

std::span<float> part(std::vector<float>& flat, const Range& range) {
  return std::span(flat).subspan(static_cast<std::size_t>(range.begin),
                                 static_cast<std::size_t>(range.size()));
}

}  // namespace

HostVectors::HostVectors(const OptimizerSection& optimizer, std::int64_t floats)
    : HostVectors(optimizer, floats, {}, TakenOver::kCopied) {}

HostVectors::HostVectors(const OptimizerSection& optimizer, const Layout& layout, TakenOver whole)
    : HostVectors(optimizer, layout.size(), FactorRanges(layout, optimizer, {0, layout.size()}), whole) {}

HostVectors::HostVectors(const OptimizerSection& optimizer, std::int64_t floats, FactorRanges factors,
                         TakenOver whole)
    : settings_(optimizer),
      factors_(std::move(factors)),
      floats_(floats),
      whole_(whole),
      parameters_(whole == TakenOver::kCopied ? static_cast<std::size_t>(floats) : 0),
      stretch_(floats > kCachedFloatsMax ? kStretch : 0) {}

void HostVectors::take_over(std::int64_t begin, SharedFloats values, std::span<const std::size_t> lacking) {
  if (whole_ == TakenOver::kHeld && lacking.empty() && std::ssize(values.floats) == floats_) {
    held_ = std::move(values);
    return;
  }
  own_parameters();
  const std::int64_t last = begin + std::ssize(values.floats);
  for (std::int64_t at = begin; at < last; at += kStretch) {
    const std::span<float> out = part(parameters_, {at, std::min(at + kStretch, last)});
    take_over_stretch(at, values.floats.subspan(static_cast<std::size_t>(at - begin), out.size()), out,
                      lacking);
  }
}

// To be changed: a copy of what is held.
std::vector<float>& HostVectors::own_parameters() {
  parameters_.resize(static_cast<std::size_t>(floats_));
  if (held_) copy_part(parameters_, held_->floats, floats_);
  held_.reset();
  return parameters_;
}

void HostVectors::take_over_stretch(std::int64_t begin, std::span<const float> in, std::span<float> out,
                                    std::span<const std::size_t> lacking) {
  const bool past_cache = outgrow_the_cache();
  for (const std::size_t place : lacking) {
    // A step that is the last is made where it belongs; what is added to is read first.
    const bool last_step = place == lacking.back() && place >= differences_.size();
    const std::span<float> made = past_cache && !last_step ? std::span(stretch_).first(out.size()) : out;
    add_own(place, begin, in, made, past_cache && last_step ? Stores::kPastCache : Stores::kCached);
    in = made;
  }
  if (in.data() != out.data()) copy_part(out, in, floats_);
}

void HostVectors::add_own(std::size_t place, std::int64_t begin, std::span<const float> in,
                          std::span<float> out, Stores stores) {
  if (place >= differences_.size()) {
    return apply(gradients_[place - differences_.size()], begin, in, out, stores);
  }
  if (in.data() != out.data()) std::copy(in.begin(), in.end(), out.begin());
  add_weighted(out, part(differences_[place], {begin, begin + std::ssize(out)}), 1.0F);
}

void HostVectors::keep_gradient(SharedFloats gradient, double rate) {
  gradients_.push_back({std::move(gradient), rate});
}

void HostVectors::apply_newest(Range range) {
  PACELINE_ASSERT(!gradients_.empty(), "no gradient to apply");
  const std::span<float> parameters = part(own_parameters(), range);
  apply(gradients_.back(), range.begin, parameters, parameters, Stores::kCached);
}

// Without a state it is the same step wherever it is made.
void HostVectors::apply(const OwnGradient& own, std::int64_t begin, std::span<const float> in,
                        std::span<float> out, Stores stores) {
  const auto values = own.values.floats.subspan(static_cast<std::size_t>(begin), out.size());
  optimizer().apply_stateless(begin, in, out, values, own.rate, stores);
}

// A step from 0 is the difference, but where there is weight decay, which takes its share of the parameters
// that are here, and of a buffer, whose step does.
void HostVectors::make_difference() {
  PACELINE_ASSERT(!gradients_.empty(), "no gradient that could become a difference");
  std::vector<float> difference = spare_difference();
  const OwnGradient& own = gradients_.front();
  const std::vector<float> zeros(static_cast<std::size_t>(kStretch));
  own_parameters();
  for (std::int64_t begin = 0; begin < floats_; begin += kStretch) {
    factors_.for_each({begin, std::min(begin + kStretch, floats_)}, [&](Range alike, const StepFactors& of) {
      const bool from_zero = of.towards == 0.0 && (settings_.weight_decay == 0.0 || of.decay == 0.0);
      const Stores stores = from_zero && outgrow_the_cache() ? Stores::kPastCache : Stores::kCached;
      const std::span<float> out = part(difference, alike);
      const std::span<const float> in =
          from_zero ? std::span(zeros).first(out.size()) : std::span<const float>(part(parameters_, alike));
      apply(own, alike.begin, in, out, stores);
      if (!from_zero) subtract(out, out, in);
    });
  }
  differences_.push_back(std::move(difference));
  gradients_.pop_front();
}

void HostVectors::apply_with_state(SharedFloats gradient, double learning_rate, double scale) {
  std::vector<float> kept = spare_difference();
  own_parameters();
  optimizer().begin_step(learning_rate);
  if (optimizer().measures()) optimizer().measure(floats_of(parameters_), floats_of(gradient.floats));
  // A stretch at a time, so that what one loop leaves the next one finds in the processor's cache.
  for (std::int64_t begin = 0; begin < floats_; begin += kStretch) {
    const Range stretch{begin, std::min(begin + kStretch, floats_)};
    const std::span<float> parameters = part(parameters_, stretch);
    const std::span<float> difference = part(kept, stretch);
    optimizer().apply(begin, parameters, difference,
                      gradient.floats.subspan(static_cast<std::size_t>(begin), parameters.size()));
    subtract(difference, difference, parameters);
    if (scale != 1.0) paceline::scale(difference, static_cast<float>(scale));
    // Added as a refresh will add it, so that both give the same bits.
    add_weighted(parameters, difference, 1.0F);
  }
  differences_.push_back(std::move(kept));
}

void HostVectors::drop_oldest() {
  PACELINE_ASSERT(!differences_.empty() || !gradients_.empty(), "no own update to drop");
  if (differences_.empty()) {
    gradients_.pop_front();
    return;
  }
  spare_.push_back(std::move(differences_.front()));
  differences_.pop_front();
}

OptimizerState& HostVectors::optimizer() {
  if (!optimizer_) {
    optimizer_.emplace(settings_, floats_, std::max<std::int64_t>(1, floats_), factors_);
  }
  return *optimizer_;
}

std::vector<float> HostVectors::spare_difference() {
  if (spare_.empty()) spare_.emplace_back(static_cast<std::size_t>(floats_));
  std::vector<float> spare = std::move(spare_.back());
  spare_.pop_back();
  return spare;
}

}  // namespace paceline
