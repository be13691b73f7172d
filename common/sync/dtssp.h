// DTSSP, SSP with a dynamic threshold (DTSSP paper, section 3-3): s follows the learning progress ratio.
// While learning goes well there is room for staleness, so s rises and the fast wait less; when it falters s
// falls and the parameters everybody computes with are fresher.
//   LPR > increase_above   ->  s + 1, at most max
//   LPR < decrease_below   ->  s - 1, at least min
//   otherwise              ->  s stays
// With the paper's values (s = 3 in 3..10, +-5 %): accuracy 0.30 -> 0.33 is +10 %, s becomes 4; then 0.33 ->
// 0.34 is +3 %, s stays 4; then 0.34 -> 0.31 is -8.8 %, s becomes 3, and 3 is the least.
#pragma once

#include "common/sync/policy.h"

namespace paceline::sync {

class Dtssp final : public Policy {
 public:
  explicit Dtssp(const PolicyConfig& config);

  Threshold threshold() const override { return Threshold(s_); }
  void on_window(const WindowResult& window) override;
  void save(PolicyState& state) const override;
  Status resume(const EngineState& state) override;

 private:
  PolicyConfig config_;
  std::int64_t s_;
};

}  // namespace paceline::sync
