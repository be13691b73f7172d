// DecisionRecord: what the core decides, as people are told of it: in the run's record and in its log.
//
// Thread: one at a time (the server's loop).
#pragma once

#include <cstdint>
#include <string>

#include "common/config/run_config.h"
#include "common/instant.h"
#include "common/log/log.h"
#include "common/sync/actions.h"
#include "common/wire/messages.h"
#include "server/authority/run_core.h"
#include "server/authority/run_record.h"

namespace paceline::server {

class DecisionRecord {
 public:
  // All outlive this.
  DecisionRecord(const RunConfig& config, const RunCore& core, RunRecord& record, const Log& log);

  // In the order in which they are carried out.
  void note(const sync::Apply& action, Ticks now);
  void note(const sync::VersionAdvanced& action, Ticks now);
  void note(const sync::ThresholdChanged& action, Ticks now);
  void note(const sync::PolicySwitched& action, Ticks now);
  void note(const sync::WindowClosed& action, Ticks now);
  // The work that is left has been shared out anew, if it has, after what an event has led to.
  void note_plan();
  // The core has taken this report of an iteration that was skipped.
  void note_skipped(const wire::StepReport& report);
  // Nobody trains any more.
  void note(const sync::AllFinished& action, Ticks now);

 private:
  // Once, where what the run goes by is what nobody counts.
  void miss_accuracy(std::int64_t window);
  void log_batch_sizes();
  std::string skips_so_far() const;

  const RunConfig& config_;
  const RunCore& core_;
  RunRecord& record_;
  const Log& log_;
  Revision revision_;              // what the last decision led to
  std::uint64_t plan_change_ = 0;  // what is in the log of it
  bool has_missed_accuracy_ = false;
};

}  // namespace paceline::server
