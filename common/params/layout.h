// The layout of a model's parameters: named tensors laid one after another in one flat float32 vector, and
// how an optimizer is to treat each. Every daemon of a run must agree on it; it travels with the join, and so
// does its hash (docs/PROTOCOL.md).
#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "common/params/partition.h"
#include "common/status.h"

namespace paceline {

// What a tensor is to its layer. Optimizers treat roles differently: `train.optimizer.decay: weights` takes
// weight decay from weights alone.
//
//   kWeight   what inputs are multiplied by
//   kBias     what is added to each channel or unit
//   kNorm     scale and shift of a normalisation
//   kBuffer   state that no gradient trains, as running means: what stands in a gradient's place is what was
//             measured, and a step goes a part of the way there (step_factors.h)
enum class TensorRole { kWeight, kBias, kNorm, kBuffer };

// How a tensor is trained.
struct TensorTraits {
  TensorRole role = TensorRole::kWeight;
  double lr_factor = 1.0;     // times the learning rate, >= 0; 0: the tensor stays as it is. Of a buffer: the
                              // part of the way, at most 1
  double decay_factor = 1.0;  // times the weight decay, >= 0; 0: none
  // A round may have no gradient of it: that is one of -0.0 all over, and a step leaves the tensor and its state in the
  // optimizer as they are, as PyTorch does. Sums and means of several gradients are -0.0 only where all are. No other
  // one has a -0.0: the mark is looked for in each piece that a step is taken in, and blocks, shards and buckets cut
  // those.
  bool may_be_unused = false;
  bool operator==(const TensorTraits&) const = default;
};

// Of a tensor of which nothing else is said: `name` ends in ".bias" or is "bias": a bias; else a weight. Both
// factors are 1.
TensorTraits usual_traits(const std::string& name);

// One named tensor. `offset` is its first element in the flat vector, in floats.
struct Tensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t offset = 0;
  TensorTraits traits{};

  std::int64_t size() const {
    std::int64_t n = 1;
    for (std::int64_t d : shape) n *= d;
    return n;
  }
};

// An ordered list of tensors without gaps. Thread: immutable after construction.
class Layout {
 public:
  Layout() = default;

  // Appends a tensor after the last one and returns its index. Every dimension must be positive.
  // Without `traits` it has the usual ones. Errors: kInvalidArgument for an empty or repeated name, a
  // dimension < 1, more than 2^40 floats in all, or a factor that is negative or not finite.
  Result<std::size_t> add(std::string name, std::vector<std::int64_t> shape);
  Result<std::size_t> add(std::string name, std::vector<std::int64_t> shape, TensorTraits traits);

  const std::vector<Tensor>& tensors() const { return tensors_; }
  // The length of the flat vector, in floats.
  std::int64_t size() const { return size_; }
  // FNV-1a (64 bit) over names and shapes, in order, and after them over traits that are not the usual ones.
  // Two layouts with the same hash are taken to be the same.
  std::uint64_t hash() const;
  // The tensor that holds element `index` of the flat vector; nullptr when out of range. For error messages.
  const Tensor* tensor_at(std::int64_t index) const;

 private:
  std::vector<Tensor> tensors_;
  std::unordered_set<std::string> names_;  // of the tensors: a join may bring 65,536 of them
  std::int64_t size_ = 0;
};

// The layout of the tensors of floats [part.begin, part.end) of `layout` alone, which cuts none of them.
Layout part_of(const Layout& layout, const Range& part);

}  // namespace paceline
