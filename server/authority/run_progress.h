// RunProgress: how fast a run goes, and what goes between its nodes: for its status.
//
// Thread: one at a time (the server's loop).
#pragma once

#include <map>
#include <optional>

#include "common/config/run_config.h"
#include "common/ids.h"
#include "common/instant.h"
#include "common/live/run_status.h"
#include "common/timing/recent_rate.h"
#include "common/traffic.h"
#include "server/authority/run_core.h"
#include "server/authority/run_record.h"
#include "server/authority/step_reports.h"

namespace paceline::server {

class RunProgress {
 public:
  // As the core is resumed. `core` and `reports` outlive this.
  RunProgress(const RunConfig& config, const RunCore& core, const RunRecord& record,
              const StepReports& reports)
      : core_(core), reports_(reports) {
    const sync::Engine& engine = core.engine();
    before_ = {core.iterations_applied(), config.train.iterations_in(engine.iterations_skipped()),
               config.train.iterations_in(engine.iterations_dropped()),
               config.train.iterations_in(engine.iterations_lost()), record.churn().so_far().lost_nodes};
  }

  // Time passes while training goes on; from its begin on.
  void read(Ticks now) {
    iteration_rate_.read(core_.iterations_applied(), now);
    sample_rate_.read(reports_.trained().samples(), now);
  }
  std::optional<double> iterations_per_second(Ticks now) const {
    return iteration_rate_.per_second(core_.iterations_applied(), now);
  }
  std::optional<double> samples_per_second(Ticks now) const {
    return sample_rate_.per_second(reports_.trained().samples(), now);
  }
  // What earlier generations had counted.
  const CountsBefore& before() const { return before_; }

  // What a node of an all-reduce has sent the others, by its heartbeat.
  void on_heartbeat(NodeId from, const Traffic& traffic) {
    if (traffic.reduced > 0) reduced_[from] = traffic;
  }
  // The same, as of the last one; nothing of one that has sent nothing.
  const Traffic* reduced(NodeId node) const {
    const auto sent = reduced_.find(node);
    return sent == reduced_.end() ? nullptr : &sent->second;
  }
  Traffic reduced() const {
    Traffic sum;
    for (const auto& [node, traffic] : reduced_) sum += traffic;
    return sum;
  }

 private:
  const RunCore& core_;
  const StepReports& reports_;
  CountsBefore before_;
  RecentRate iteration_rate_;
  RecentRate sample_rate_;
  std::map<NodeId, Traffic> reduced_;
};

}  // namespace paceline::server
