// HostVectors: a thread cache's vectors in the host's memory, and the processor's passes over them.
//
// Whatever is made of a piece of a slice is made while it is in the processor's cache: piece, gradient and
// place are gone through once, together, and no pass over memory is made for an own update. Parameters that
// outgrow the cache are made within it, a stretch at a time, and written past it.
//
// What never changes once it is given, as an all-reduce's parameters, need not be copied: it is held, and read where it
// lies, until an own update is made on it.
//
// Memory: one parameter vector, or none while one is held, the optimizer's state, the gradients held, and one vector
// for each difference: as many as there ever were at once, recycled.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "common/config/optimizer_section.h"
#include "common/params/layout.h"
#include "common/params/optimizer.h"
#include "common/params/step_factors.h"
#include "common/task/cache_vectors.h"

namespace paceline {

// What becomes of parameters that are taken over whole and lack no own update.
enum class TakenOver { kCopied, kHeld };

class HostVectors final : public CacheVectors {
 public:
  // For the parameters of `layout`, all 0; where they are held, none until they are taken over. Steps use `optimizer`'s
  // kind and settings, and the tensors' traits.
  HostVectors(const OptimizerSection& optimizer, const Layout& layout, TakenOver whole = TakenOver::kCopied);
  // For `floats` parameters whose traits are the usual ones.
  HostVectors(const OptimizerSection& optimizer, std::int64_t floats);

  std::span<const float> parameters() const override {
    return held_ ? held_->floats : std::span<const float>(parameters_);
  }
  void take_over(std::int64_t begin, SharedFloats values, std::span<const std::size_t> lacking) override;
  void keep_gradient(SharedFloats gradient, double rate) override;
  void apply_newest(Range range) override;
  void make_difference() override;
  void apply_with_state(SharedFloats gradient, double learning_rate, double scale) override;
  void drop_oldest() override;
  std::size_t differences() const override { return differences_.size(); }
  std::size_t gradients() const override { return gradients_.size(); }
  Status status() const override { return Status::ok(); }

 private:
  HostVectors(const OptimizerSection& optimizer, std::int64_t floats, FactorRanges factors, TakenOver whole);
  struct OwnGradient {
    SharedFloats values;
    double rate = 0.0;  // learning rate and scale
  };
  std::vector<float>& own_parameters();
  void take_over_stretch(std::int64_t begin, std::span<const float> in, std::span<float> out,
                         std::span<const std::size_t> lacking);
  void add_own(std::size_t place, std::int64_t begin, std::span<const float> in, std::span<float> out,
               Stores stores);
  void apply(const OwnGradient& own, std::int64_t begin, std::span<const float> in, std::span<float> out,
             Stores stores);
  bool outgrow_the_cache() const { return !stretch_.empty(); }
  OptimizerState& optimizer();
  std::vector<float> spare_difference();

  OptimizerSection settings_;
  FactorRanges factors_;
  std::int64_t floats_;
  TakenOver whole_;
  std::optional<SharedFloats> held_;
  std::vector<float> parameters_;            // empty: held, and no update made yet
  std::vector<float> stretch_;               // of parameters too large to be made in their place
  std::optional<OptimizerState> optimizer_;  // made by the first local apply: BSP needs none
  std::deque<std::vector<float>> differences_;
  std::deque<OwnGradient> gradients_;
  std::vector<std::vector<float>> spare_;  // dropped differences, for the next
};

}  // namespace paceline
