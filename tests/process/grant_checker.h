// GrantChecker: may a worker go on? (docs/SYNC.md, The one rule), checked on every grant of a run from the
// messages alone: what the nodes reported before, against what the authority then said. It knows the
// configuration and nothing of the engine.
//
// A report is heard before the authority can have it (relay.h), so the number heard from worker j when a
// grant is heard is at least j's clock at that grant: with c - that number > s the grant was wrong, unless j
// had left the clock table. Who reports again later was in it. Worked example, s = 1:
//   heard: report 0.0@0, report 0.0@1, grant 0.0 clock 2, report 0.1@0      0.1 stood at 0: 2 - 0 > 1, wrong
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/config/run_config.h"
#include "common/metric.h"
#include "common/report/run_summary.h"
#include "common/wire/messages.h"

namespace paceline::testing {

// Thread: one at a time.
class GrantChecker {
 public:
  // Under dtssp and random_walk lpr.window_clocks is given.
  explicit GrantChecker(const RunConfig& config);

  // The workers of this node are not heard: `completed(rank)` says how many iterations one has computed, any
  // of which may not be reported yet.
  void node_is_elsewhere(NodeId node, std::function<std::int64_t(std::uint32_t rank)> completed);

  // The next message between the authority and a node, either way.
  void receive(const wire::Body& message);

  // The run is over. Every violation, as a sentence. `all_count`: nobody is elsewhere, left or died, so that
  // all that was reported counts and was heard: the threshold of DTSSP or of the random walk can be computed
  // from it.
  std::vector<std::string> violations(const RunSummary& summary, bool all_count) const;
  std::int64_t grants() const { return static_cast<std::int64_t>(received_.size()); }
  // Of those, before the worker's own report of the iteration before (exchange.hidden).
  std::int64_t grants_ahead() const { return grants_ahead_; }

 private:
  struct SeenGrant {
    wire::Grant grant;
    std::vector<std::int64_t> completed;  // by rank: the most it can have been at the grant
  };
  void on_report(const wire::StepReport& report);
  void on_grant(const wire::Grant& grant);
  std::int64_t completed(std::uint32_t rank) const;
  std::optional<std::string> fault_of(const SeenGrant& received, std::uint32_t rank) const;
  bool threshold_is_of_policy(const wire::Grant& grant) const;
  std::vector<Threshold> thresholds_by_window() const;

  const RunConfig config_;
  const Cluster cluster_;
  std::vector<std::int64_t> reported_;  // by rank
  std::optional<NodeId> elsewhere_;
  std::function<std::int64_t(std::uint32_t)> completed_elsewhere_;
  std::vector<SeenGrant> received_;
  std::int64_t grants_ahead_ = 0;
  std::map<std::int64_t, Metric> windows_;  // of the LPR: what was reported of each
  std::vector<std::string> faults_;
};

}  // namespace paceline::testing
