// Layout: the order of the tensors, checked as they are added, and the hash that two daemons compare.
#include "common/params/layout.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "common/assert.h"

namespace paceline {
namespace {

constexpr std::int64_t kFloatsMax = std::int64_t{1} << 40;

// FNV-1a, 64 bit. Numbers are hashed as eight little-endian bytes, whatever the machine.
class Fnv1a {
 public:
  void add_byte(unsigned char byte) {
    hash_ ^= byte;
    hash_ *= 0x100000001B3u;
  }
  void add(std::uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8) add_byte(static_cast<unsigned char>(number >> shift));
  }
  void add(const std::string& text) {
    add(text.size());
    for (char c : text) add_byte(static_cast<unsigned char>(c));
  }
  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 0xCBF29CE484222325u;
};

}  // namespace

TensorTraits usual_traits(const std::string& name) {
  const bool bias = name == "bias" || name.ends_with(".bias");
  return {.role = bias ? TensorRole::kBias : TensorRole::kWeight};
}

Result<std::size_t> Layout::add(std::string name, std::vector<std::int64_t> shape) {
  const TensorTraits traits = usual_traits(name);
  return add(std::move(name), std::move(shape), traits);
}

Result<std::size_t> Layout::add(std::string name, std::vector<std::int64_t> shape, TensorTraits traits) {
  if (name.empty()) return invalid_argument("tensor " + std::to_string(tensors_.size()) + " has no name");
  if (names_.contains(name)) {
    return invalid_argument("tensor '" + name + "' appears twice in the layout");
  }
  std::int64_t floats = 1;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] < 1) {
      return invalid_argument("tensor '" + name + "': dimension " + std::to_string(axis) + " is " +
                              std::to_string(shape[axis]) + ", expected at least 1");
    }
    // Divided, not multiplied: the shape may come from the network and must not overflow.
    if (shape[axis] > (kFloatsMax - size_) / floats) {
      return invalid_argument("tensor '" + name + "' makes the layout longer than 2^40 floats");
    }
    floats *= shape[axis];
  }
  if (floats > kFloatsMax - size_)
    return invalid_argument("tensor '" + name + "' makes the layout longer than 2^40 floats");
  for (const double factor : {traits.lr_factor, traits.decay_factor}) {
    if (std::isfinite(factor) && factor >= 0.0) continue;
    return invalid_argument("tensor '" + name + "': factor " + std::to_string(factor) +
                            ", expected a finite one of at least 0");
  }
  names_.insert(name);
  tensors_.push_back({std::move(name), std::move(shape), size_, traits});
  size_ += floats;
  return tensors_.size() - 1;
}

std::uint64_t Layout::hash() const {
  Fnv1a hash;
  hash.add(tensors_.size());
  for (const Tensor& tensor : tensors_) {
    hash.add(tensor.name);
    hash.add(tensor.shape.size());
    for (std::int64_t dimension : tensor.shape) hash.add(static_cast<std::uint64_t>(dimension));
  }
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const TensorTraits& traits = tensors_[i].traits;
    if (traits == usual_traits(tensors_[i].name)) continue;
    hash.add(i);
    hash.add(static_cast<std::uint64_t>(traits.role));
    hash.add(std::bit_cast<std::uint64_t>(traits.lr_factor + 0.0));  // -0 is 0
    hash.add(std::bit_cast<std::uint64_t>(traits.decay_factor + 0.0));
    if (traits.may_be_unused) hash.add(std::uint64_t{1});
  }
  return hash.value();
}

const Tensor* Layout::tensor_at(std::int64_t index) const {
  if (index < 0 || index >= size_) return nullptr;
  const auto after = std::upper_bound(tensors_.begin(), tensors_.end(), index,
                                      [](std::int64_t i, const Tensor& t) { return i < t.offset; });
  return &*std::prev(after);
}

Layout part_of(const Layout& layout, const Range& part) {
  Layout own;
  for (const Tensor& tensor : layout.tensors()) {
    if (tensor.offset < part.begin || tensor.offset >= part.end) continue;
    const auto added = own.add(tensor.name, tensor.shape, tensor.traits);
    PACELINE_ASSERT(added.is_ok(), added.status().message());
  }
  PACELINE_ASSERT(own.size() == part.size(),
                  std::to_string(own.size()) + " floats of a part that cuts a tensor");
  return own;
}

}  // namespace paceline
