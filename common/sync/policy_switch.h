// PolicySwitch: one policy after another in one run, without a restart. Li, Mangoubi, Xu and Guo,
// "Sync-Switch: hybrid parameter synchronization for distributed deep learning", ICDCS 2021: synchronous
// first, while stale gradients do most harm, then less so, which is faster.
//   [{policy: bsp, until: {progress: 0.5}}, {policy: ssp, threshold: 3}]
// Under BSP the first half of the iterations; at the first version at which they are completed SSP takes
// over: s is 3 from there on, and the held are looked at again at once.
//
// A policy takes over at a version, and begins as it would begin a run: with its own initial threshold and
// having seen no window. The first it sees is the first that begins at that version or later, and there is
// none before it to compare it with:
//   W = 10, [{policy: bsp, until: {version: 15}}, {policy: dtssp, threshold: 3}]
// [10, 20) is half BSP's and nobody's; [20, 30) is DTSSP's first, so s can move at version 40.
// How gradients are applied is of the stage, too (policy_stage.h: BSP, then ASP); the engine sees to it.
// Each worker stands where it stands, since when its clock moved there: its last push is to the policy what
// the begin of training is to a run's first. The clocks stay as they are; where the new policy allows less,
// the fast are held until they may go on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/sync/engine_state.h"
#include "common/sync/policy.h"

namespace paceline::sync {

// The configuration of one stage as a policy of its own.
PolicyConfig policy_of(const PolicyConfig& config, const PolicyStage& stage);

class PolicySwitch final : public Policy {
 public:
  explicit PolicySwitch(const PolicyConfig& config);

  std::size_t stage() const override { return stage_; }
  Threshold threshold() const override { return current_->threshold(); }
  Threshold threshold_for(Rank worker, Clock clock) const override {
    return current_->threshold_for(worker, clock);
  }
  Clock floor(const ClockTable& clocks) const override { return current_->floor(clocks); }
  void on_window(const WindowResult& window) override;
  void on_clock(Rank worker, Clock clock, Ticks now, const ClockTable& clocks) override;
  void on_departure(Rank worker) override;
  void on_version(Version version, Ticks now, const ClockTable& clocks) override;
  void save(PolicyState& state) const override;
  Status resume(const EngineState& state) override;
  std::size_t state_size() const override { return live_.size() + current_->state_size(); }

 private:
  // Where a live worker stands, and since when.
  struct Place {
    Clock clock;
    Ticks since;
  };
  bool is_over(const StageUntil& until, Version version) const;

  PolicyConfig config_;
  std::size_t stage_ = 0;
  std::unique_ptr<Policy> current_;
  std::vector<std::optional<Place>> live_;  // by rank: for the next policy
  std::int64_t iterations_ = 0;             // completed
  Version begun_at_;                        // this stage
  std::optional<StageWindow> window_;       // the last of this stage
};

}  // namespace paceline::sync
