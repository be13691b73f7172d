// WorkerSpeeds: how fast a run's workers are, as its authority hears it: from a grant to its report, what their
// heartbeats say of their time, and who has become slow.
//
// Pure. Thread: one at a time (the server's loop).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/config/run_config.h"
#include "common/ids.h"
#include "common/instant.h"
#include "common/log/stall_log.h"
#include "common/pause.h"
#include "common/status.h"
#include "common/timing/phase_times.h"
#include "common/timing/straggler_scores.h"
#include "common/wire/messages.h"
#include "server/authority/run_record.h"

namespace paceline::server {

class WorkerSpeeds {
 public:
  explicit WorkerSpeeds(const RunConfig& config);

  void granted(WorkerId worker, Ticks now) {
    granted_at_[rank_of(worker)] = now;
    is_here_[rank_of(worker)] = true;
  }
  // `now` of a worker that the run has not.
  Ticks granted_at(WorkerId worker, Ticks now) const {
    return cluster_.contains(worker) ? granted_at_[rank_of(worker)] : now;
  }
  // The report of what was granted then has come.
  void took(const wire::StepReport& report, Ticks granted, Ticks now);
  // From a grant to its report.
  std::chrono::nanoseconds longest() const { return longest_; }
  std::chrono::nanoseconds usual(Rank rank) const { return iterations_[rank.value].usual(); }
  // The process stood still: no worker was slow for that.
  void discount_pause(const Pause& pause);
  void forget(NodeId node);

  // What a heartbeat says of the node's workers' time. Errors: kInvalidArgument it has not as many workers.
  [[nodiscard]] Status on_heartbeat(NodeId from, const wire::Heartbeat& beat);
  void reported(const wire::NodeReport& report);
  // By rank: of its process so far, as last heard; where nothing was heard all 0.
  const std::vector<PhaseTimes>& times() const { return times_; }

  std::vector<std::optional<StragglerScore>> scores() const { return scores_.scores(); }
  // The slowest first.
  std::vector<StragglerSummary> stragglers() const;
  // What is to be said of those who have become slow since the last time; seldom.
  std::vector<std::string> check_stragglers(Ticks now);

 private:
  std::uint32_t rank_of(WorkerId worker) const { return cluster_.rank_of(worker).value; }

  const Cluster cluster_;
  const std::optional<double> warn_below_;
  std::vector<Ticks> granted_at_;             // by rank: the last grant
  std::vector<bool> is_here_;                 // by rank: it was granted anything, and not forgotten since
  std::chrono::nanoseconds longest_{0};       // from a grant to its report
  std::vector<DurationBaseline> iterations_;  // by rank: the same
  std::vector<PhaseTimes> times_;
  const char* const of_its_stage_;  // said of who is compared with others
  StragglerScores scores_;
  std::optional<StragglerWarnings> warnings_;  // none: nobody is warned of
  Ticks next_check_;
};

}  // namespace paceline::server
