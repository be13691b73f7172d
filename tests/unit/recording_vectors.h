// A thread cache's vectors that lie nowhere, as seen from the host: the passes asked for, in words.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "common/task/cache_vectors.h"

namespace paceline::testing {

// What is left of RecordingVectors when whoever owns them has gone.
struct RecordedPasses {
  std::vector<std::string> passes;
  std::string fails_at;  // the first word of the pass that fails; empty: none does
  Status status = Status::ok();
  std::chrono::nanoseconds device_overlap{0};

  // Those since the last call.
  std::vector<std::string> take() { return std::exchange(passes, {}); }
};

class RecordingVectors final : public CacheVectors {
 public:
  explicit RecordingVectors(std::shared_ptr<RecordedPasses> to) : to_(std::move(to)) {}

  std::span<const float> parameters() const override { return {}; }
  void take_over(std::int64_t begin, SharedFloats values, std::span<const std::size_t> lacking) override {
    std::ostringstream what;
    what << begin << " + " << values.floats.size();
    for (const std::size_t place : lacking) what << ", lacks " << place;
    record("take", what.str());
  }
  void keep_gradient(SharedFloats, double rate) override {
    ++gradients_;
    record("keep", in_words(rate));
  }
  void apply_newest(Range range) override {
    record("apply", std::to_string(range.begin) + " + " + std::to_string(range.size()));
  }
  void make_difference() override {
    --gradients_;
    ++differences_;
    record("difference", "of the oldest");
  }
  void apply_with_state(SharedFloats, double learning_rate, double scale) override {
    ++differences_;
    record("step", in_words(learning_rate) + " of which " + in_words(scale));
  }
  void drop_oldest() override {
    --(differences_ > 0 ? differences_ : gradients_);
    record("drop", "the oldest");
  }
  std::size_t differences() const override { return differences_; }
  std::size_t gradients() const override { return gradients_; }
  std::size_t gradients_held() const override { return 0; }  // as on a device, which has copies
  Status status() const override { return to_->status; }
  std::chrono::nanoseconds take_device_overlap() override { return to_->device_overlap; }

 private:
  static std::string in_words(double number) {
    std::ostringstream words;
    words << number;
    return words.str();
  }
  void record(const std::string& pass, const std::string& what) {
    to_->passes.push_back(pass + " " + what);
    if (pass == to_->fails_at && to_->status.is_ok()) to_->status = unavailable("the GPU fell off the bus");
  }

  const std::shared_ptr<RecordedPasses> to_;
  std::size_t differences_ = 0;
  std::size_t gradients_ = 0;
};

}  // namespace paceline::testing
