// The layout of a model's parameters: named tensors laid one after another in one flat float32 vector. Every
// daemon of a run must agree on it; its hash travels with the join (docs/PROTOCOL.md).
#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "common/status.h"

namespace paceline {

// One named tensor. `offset` is its first element in the flat vector, in floats.
struct Tensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t offset = 0;

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

  // Appends a tensor behind the last one and returns its index. Every dimension must be positive.
  // Errors: kInvalidArgument for an empty or repeated name, a dimension < 1, or more than 2^40 floats in all.
  Result<std::size_t> add(std::string name, std::vector<std::int64_t> shape);

  const std::vector<Tensor>& tensors() const { return tensors_; }
  // The length of the flat vector, in floats.
  std::int64_t size() const { return size_; }
  // FNV-1a (64 bit) over names and shapes, in order. Two layouts with the same hash are taken to be the same.
  std::uint64_t hash() const;
  // The tensor that holds element `index` of the flat vector; nullptr when out of range. For error messages.
  const Tensor* tensor_at(std::int64_t index) const;

 private:
  std::vector<Tensor> tensors_;
  std::unordered_set<std::string> names_;  // of the tensors: a join may bring 65,536 of them
  std::int64_t size_ = 0;
};

}  // namespace paceline
