// A random walk of the threshold: the control that DTSSP has to beat. s moves by one at each window at which
// DTSSP could have moved it, up or down by a fair coin, and stays within [min, max]; what the training
// learned plays no part. A run whose threshold follows progress says something only beside one whose
// threshold moves as often, as far and within the same range, but blindly.
//
// The coin of window k is a pure function of (seed, k), so a run's walk is known before it begins. With seed
// 4, s = 3 in 3..10: windows 1 to 8 throw - + + - + - + +, s becomes 3 4 5 4 5 4 5 6. A coin that points out
// of the range leaves s at its end; so in the long run each value in the range is as frequent as any other.
#pragma once

#include "common/sync/policy.h"

namespace paceline::sync {

class RandomWalk final : public Policy {
 public:
  explicit RandomWalk(const PolicyConfig& config);

  Threshold threshold() const override { return Threshold(s_); }
  void on_window(const WindowResult& window) override;
  void save(PolicyState& state) const override;
  Status resume(const EngineState& state) override;

 private:
  PolicyConfig config_;
  std::int64_t s_;
};

}  // namespace paceline::sync
