// Newest<T>: the newest of what it is given, at most so many; of the rest it knows how many there were. What
// may take a process's memory while it runs for days is kept in one of these.
//
//   Newest<int> kept(2);  kept.add(7); kept.add(8); kept.add(9);     in_order() 8, 9; left_out() 1
//
// Memory is reserved at once and used as it fills. Thread: one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline {

template <typename T>
class Newest {
 public:
  // `most`: at least 1.
  explicit Newest(std::size_t most) : most_(std::max<std::size_t>(most, 1)) { kept_.reserve(most_); }

  void add(const T& value) {
    if (kept_.size() < most_) {
      kept_.push_back(value);
      return;
    }
    kept_[oldest_] = value;
    oldest_ = oldest_ + 1 == most_ ? 0 : oldest_ + 1;
    ++left_out_;
  }

  // What is kept, in the order in which it was given.
  std::vector<T> in_order() const {
    std::vector<T> all(kept_.begin() + static_cast<std::ptrdiff_t>(oldest_), kept_.end());
    all.insert(all.end(), kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(oldest_));
    return all;
  }
  std::int64_t left_out() const { return left_out_; }

 private:
  std::size_t most_;
  std::vector<T> kept_;
  std::size_t oldest_ = 0;
  std::int64_t left_out_ = 0;
};

}  // namespace paceline
