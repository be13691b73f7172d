// ReportTotals: sums over what nodes and shards report once they are done, of the run's last generation.
//
// Thread: one at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/config/run_config.h"
#include "common/report/phases_csv.h"
#include "common/report/run_summary.h"
#include "common/traffic.h"
#include "common/wire/messages.h"

namespace paceline::server {

class ReportTotals {
 public:
  // `config` must outlive the totals.
  explicit ReportTotals(const RunConfig& config);

  // Once for each node.
  void add(const wire::NodeReport& report);
  void add(const wire::ShardReport& report);
  // Of a node that sends no report.
  void add_reduced(const Traffic& reduced);

  bool has(NodeId node) const { return reported_.contains(node); }
  // How a run ends that would be "ok" but for emulated steps that did not fit: more than 1 % of them (and
  // more than two) and its timing says nothing (docs/CONFIG.md). Empty: it is valid.
  std::string invalid_because() const;
  // A summary that has these sums alone.
  const RunSummary& sums() const { return sums_; }
  // In worker order.
  std::vector<WorkerPhases> phases() const;

 private:
  void add_algorithms(const wire::NodeReport& report);
  void add_stage(NodeId node, const StageReport& stage);
  void add_cut(PipelineSummary& pipeline) const;

  const RunConfig* config_;
  RunSummary sums_;
  std::set<NodeId> reported_;
  std::vector<WorkerPhases> phases_;
  std::int64_t steps_ = 0;                                        // iterations done, skipped ones included
  Traffic reduced_;                                               // of an all-reduce
  std::map<std::uint32_t, std::vector<std::string>> algorithms_;  // by stage
  std::chrono::nanoseconds stages_busy_{0};                       // of a pipeline, of all reports
  std::chrono::nanoseconds stages_time_{0};
};

}  // namespace paceline::server
