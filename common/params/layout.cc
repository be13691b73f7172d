// Layout: the order of the tensors, checked as they are added, and the hash that two daemons compare.
#include "common/params/layout.h"

#include <algorithm>

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

Result<std::size_t> Layout::add(std::string name, std::vector<std::int64_t> shape) {
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
  names_.insert(name);
  tensors_.push_back({std::move(name), std::move(shape), size_});
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
  return hash.value();
}

const Tensor* Layout::tensor_at(std::int64_t index) const {
  if (index < 0 || index >= size_) return nullptr;
  const auto behind = std::upper_bound(tensors_.begin(), tensors_.end(), index,
                                       [](std::int64_t i, const Tensor& t) { return i < t.offset; });
  return &*std::prev(behind);
}

}  // namespace paceline
