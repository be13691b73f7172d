// OptimizerState: which loop gets which piece.
#include "common/params/optimizer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/assert.h"
#include "common/params/element_steps.h"
#include "common/params/step_coefficients.h"
#include "common/params/vector_ops.h"

namespace paceline {
OptimizerState::OptimizerState(const OptimizerSection& settings, std::int64_t size)
    : OptimizerState(settings, size, std::max<std::int64_t>(1, size)) {}

OptimizerState::OptimizerState(const OptimizerSection& settings, std::int64_t size, std::int64_t block_floats,
                               FactorRanges factors)
    : settings_(settings), size_(size), factors_(std::move(factors)), ratios_(settings, size, factors_) {
  PACELINE_ASSERT(size >= 0, "size " + std::to_string(size));
  if (state_vectors(settings.kind) >= 1) first_ = StateVector(size, block_floats);
  if (state_vectors(settings.kind) >= 2) second_ = StateVector(size, block_floats);
}

Status check_image(const OptimizerImage& image, OptimizerKind kind, std::int64_t size) {
  const std::int64_t first = state_vectors(kind) >= 1 ? size : 0;
  const std::int64_t second = state_vectors(kind) >= 2 ? size : 0;
  if (image.first.size() == first && image.second.size() == second && image.steps >= 0) return Status::ok();
  return invalid_argument("the optimizer's state: " + std::to_string(image.first.size()) + " and " +
                          std::to_string(image.second.size()) + " floats after " +
                          std::to_string(image.steps) + " steps, expected " + std::to_string(first) +
                          " and " + std::to_string(second));
}

Status OptimizerState::restore(OptimizerImage image) {
  PACELINE_RETURN_IF_ERROR(check_image(image, settings_.kind, size_));
  steps_ = image.steps;
  measured_ = 0;  // no step that is under way
  first_.restore(std::move(image.first));
  second_.restore(std::move(image.second));
  return Status::ok();
}

void OptimizerState::begin_step(double learning_rate) {
  ++steps_;
  learning_rate_ = learning_rate;
}

namespace {

// What was measured stands in the gradient's place.
void go_towards(const kernels::Piece& piece, double part) {
  const auto measured = static_cast<float>(part);
  const auto kept = static_cast<float>(1.0 - part);
  for (std::int64_t i = 0; i < piece.n; ++i) {
    piece.out[i] = kernels::towards(piece.in[i], piece.gradient[i], kept, measured);
  }
}

}  // namespace

void OptimizerState::measure(const FloatsFrom& parameters, const FloatsFrom& gradient, const RunParts& run) {
  PACELINE_ASSERT(measures() && steps_ > measured_,
                  "measured " + std::to_string(measured_) + " of " + std::to_string(steps_) + " steps");
  measured_ = steps_;
  const bool lamb = settings_.kind == OptimizerKind::kLamb;
  if (lamb) {
    run(first_.block_count(), [&](std::int64_t i) { take_into_moments(first_.block(i), gradient); });
  }
  const auto reads = [](const StateVector& state) {
    return [&state](std::int64_t offset, std::int64_t n) { return state.read_from(offset, n); };
  };
  ratios_.measure({parameters, gradient, reads(first_), reads(second_)}, steps_, learning_rate_, run);
}

void OptimizerState::take_into_moments(Range block, const FloatsFrom& gradient) {
  factors_.for_each(block, [&](Range part, const StepFactors& factors) {
    if (factors.lr == 0.0) return;
    for (std::int64_t at = part.begin; at < part.end;) {
      const std::span<const float> floats = gradient(at, part.end - at);
      const std::int64_t n = std::ssize(floats);
      if (is_unused(factors, floats)) {
        at += n;
        continue;
      }
      kernels::best().moments(first_.from(at, n).data(), second_.from(at, n).data(), floats.data(),
                              adam_step(settings_, 1.0, steps_), n);
      at += n;
    }
  });
}

// Calls step(offset, piece, factors, the number of the factors' piece) for the pieces that have the same factors.
// A buffer takes its own step; of what is not trained `out` becomes what `in` is.
template <typename Step>
void OptimizerState::each_piece(std::int64_t offset, std::span<const float> in, std::span<float> out,
                                std::span<const float> gradient, const Step& step) const {
  const auto n = static_cast<std::int64_t>(gradient.size());
  PACELINE_ASSERT(in.size() == gradient.size() && out.size() == gradient.size(),
                  "in " + std::to_string(in.size()) + ", out " + std::to_string(out.size()) + ", gradient " +
                      std::to_string(n));
  PACELINE_ASSERT(offset >= 0 && n <= size_ - offset,
                  "[" + std::to_string(offset) + ", +" + std::to_string(n) + ") of " + std::to_string(size_));
  factors_.for_each_numbered(
      {offset, offset + n}, [&](Range part, const StepFactors& factors, std::size_t number) {
        const std::int64_t at = part.begin - offset;
        const kernels::Piece piece{in.data() + at, out.data() + at, gradient.data() + at, part.size()};
        const auto floats = static_cast<std::size_t>(part.size());
        if (factors.lr != 0.0 && !is_unused(factors, {piece.gradient, floats})) {
          step(part.begin, piece, factors, number);
        } else if (factors.towards != 0.0) {
          go_towards(piece, factors.towards);
        } else if (piece.in != piece.out) {
          std::copy_n(piece.in, piece.n, piece.out);
        }
      });
}

void OptimizerState::apply(std::int64_t offset, std::span<const float> in, std::span<float> out,
                           std::span<const float> gradient, Stores stores) {
  PACELINE_ASSERT(steps_ > 0, "apply() before begin_step()");
  PACELINE_ASSERT(!measures() || measured_ == steps_, "apply() before measure()");
  if (settings_.kind == OptimizerKind::kSgd)
    return apply_stateless(offset, in, out, gradient, learning_rate_, stores);
  each_piece(offset, in, out, gradient,
             [&](std::int64_t begin, const kernels::Piece& piece, const StepFactors& factors,
                 std::size_t number) { step_with_state(begin, piece, factors, ratios_.of(number), stores); });
}

void OptimizerState::step_with_state(std::int64_t offset, const kernels::Piece& whole,
                                     const StepFactors& factors, double trust_ratio, Stores stores) {
  const double rate = learning_rate_ * factors.lr;
  const kernels::WeightDecay decay = weight_decay(settings_, rate * trust_ratio, factors.decay);
  const kernels::Kernels& loops = kernels::best();
  const bool cached = stores == Stores::kCached;
  const auto momentum = cached ? loops.momentum : loops.momentum_past_cache;
  const auto adam = cached ? loops.adam : loops.adam_past_cache;
  for (std::int64_t at = 0; at < whole.n;) {  // block by block of the state
    const std::span<float> first = first_.from(offset + at, whole.n - at);
    const kernels::Piece piece{whole.in + at, whole.out + at, whole.gradient + at, std::ssize(first)};
    const auto second = [&] { return second_.from(offset + at, whole.n - at).data(); };
    switch (settings_.kind) {
      case OptimizerKind::kSgd:
        PACELINE_ASSERT(false, "sgd has no state");
      case OptimizerKind::kMomentum:
      case OptimizerKind::kLars:
        momentum(piece, first.data(), momentum_step(settings_, rate, trust_ratio), decay);
        break;
      case OptimizerKind::kLamb:
        loops.move_by_moments(piece.out, piece.in, first.data(), second(),
                              adam_step(settings_, rate * trust_ratio, steps_), decay.weight, piece.n);
        break;
      case OptimizerKind::kAdam:
        adam(piece, first.data(), second(), adam_step(settings_, rate, steps_), decay);
        break;
      case OptimizerKind::kAdagrad:
      case OptimizerKind::kRmsprop:
        loops.over_root(piece, first.data(), square_step(settings_, rate), decay);
        break;
      case OptimizerKind::kAdadelta:
        loops.adadelta(piece, first.data(), second(), square_step(settings_, rate), decay);
        break;
    }
    at += std::ssize(first);
  }
}

void OptimizerState::apply_stateless(std::int64_t offset, std::span<const float> in, std::span<float> out,
                                     std::span<const float> gradient, double learning_rate,
                                     Stores stores) const {
  PACELINE_ASSERT(settings_.kind == OptimizerKind::kSgd, "a step of an optimizer that has a state");
  const kernels::Kernels& loops = kernels::best();
  each_piece(offset, in, out, gradient,
             [&](std::int64_t, const kernels::Piece& piece, const StepFactors& factors, std::size_t) {
               const double rate = learning_rate * factors.lr;
               const kernels::WeightDecay decay = weight_decay(settings_, rate, factors.decay);
               if (stores == Stores::kPastCache) {
                 loops.sgd_past_cache(piece, static_cast<float>(rate), decay);
               } else {
                 loops.sgd(piece, static_cast<float>(rate), decay);
               }
             });
}

bool OptimizerState::apply_stateless_and_check(std::int64_t offset, std::span<const float> in,
                                               std::span<float> out, std::span<const float> gradient,
                                               double learning_rate, Stores stores) const {
  PACELINE_ASSERT(settings_.kind == OptimizerKind::kSgd, "a step of an optimizer that has a state");
  const kernels::Kernels& loops = kernels::best();
  const auto step = stores == Stores::kPastCache ? loops.sgd_past_cache : loops.sgd_and_check;
  bool found = false;
  // What takes no step is looked at all the same.
  factors_.for_each({offset, offset + std::ssize(gradient)}, [&](Range part, const StepFactors& factors) {
    if (factors.lr != 0.0) return;
    const auto at = static_cast<std::size_t>(part.begin - offset);
    found =
        found || first_non_finite(gradient.subspan(at, static_cast<std::size_t>(part.size()))).has_value();
  });
  each_piece(offset, in, out, gradient,
             [&](std::int64_t, const kernels::Piece& piece, const StepFactors& factors, std::size_t) {
               const double rate = learning_rate * factors.lr;
               const bool here =
                   step(piece, static_cast<float>(rate), weight_decay(settings_, rate, factors.decay));
               found = found || here;
             });
  return found;
}

void OptimizerState::apply(std::span<float> parameters, std::span<const float> gradient,
                           double learning_rate) {
  begin_step(learning_rate);
  if (measures()) measure(floats_of(parameters), floats_of(gradient));
  apply(0, parameters, parameters, gradient);
}

}  // namespace paceline
