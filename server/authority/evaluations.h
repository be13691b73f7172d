// Evaluations: the test of what has been learned, while a run trains and at its end (evaluation.h has when): the node
// that is asked, what comes of it, and what does not.
//
// Thread: one at a time (the server's loop).
#pragma once

#include <chrono>
#include <string>

#include "common/config/run_config.h"
#include "common/instant.h"
#include "common/log/log.h"
#include "common/log/stall_log.h"
#include "common/status.h"
#include "common/wire/messages.h"
#include "server/authority/checkpoints.h"
#include "server/authority/evaluation.h"
#include "server/authority/run_core.h"
#include "server/authority/run_members.h"
#include "server/authority/run_outbox.h"
#include "server/authority/run_outcome.h"
#include "server/authority/run_record.h"

namespace paceline::server {

class Evaluations {
 public:
  // How long a node that is alive may take for one, which is a pass over the test data.
  static constexpr int kLeases = 60;

  // All outlive this.
  Evaluations(const RunConfig& config, RunCore& core, const RunMembers& members, RunOutcome& state,
              RunRecord& record, Checkpoints& checkpoints, RunOutbox& outbox, const Log& log);
  Evaluations(const Evaluations&) = delete;

  const EvaluationSchedule& schedule() const { return schedule_; }
  bool idle() const { return schedule_.idle(); }
  // From the question to its report.
  std::chrono::nanoseconds usual() const { return usual_.usual(); }

  // The version has been reached. True: every shard is to retain it; it will be evaluated.
  bool reached(Version version, const Moment& moment);
  // The final model, once idle(); `moment`: when training was over. Where that version has been evaluated, and is one
  // state, its measure is the run's; of a run that has failed there is none.
  void reached_final(const Moment& moment);
  // Asks the lowest-numbered node for the one that is due, if one is.
  void ask(Ticks now);

  // A report. kOnTarget: it is as good as run.target_accuracy. Errors: kInvalidArgument, kOutOfOrder: it was not asked
  // for.
  enum class Taken { kTooLate, kTaken, kOnTarget };
  Result<Taken> take(NodeId from, const wire::EvaluationReport& report, Ticks now);

  // The node has gone: another one is asked next.
  void gone(NodeId node) { schedule_.gone(node); }
  // Nobody is left to ask.
  void abandon();
  // A node whose heartbeats come but whose report does not would hold the end of the run open for ever.
  void check(Ticks now);

 private:
  void not_evaluated(Version version, const std::string& why);
  void give_up(Version version, const std::string& why);
  // Whatever goes by test accuracy goes without.
  void miss_accuracy(Version version);

  const RunConfig& config_;
  RunCore& core_;
  const RunMembers& members_;
  RunOutcome& state_;
  RunRecord& record_;
  Checkpoints& checkpoints_;
  RunOutbox& outbox_;
  const Log& log_;
  EvaluationSchedule schedule_;
  Ticks asked_at_;               // of the one under way
  DurationBaseline usual_;       // until its report
  Version newest_ = kNoVersion;  // that has been evaluated
  bool of_the_end_ = false;      // from now on
  bool has_missed_accuracy_ = false;
};

}  // namespace paceline::server
