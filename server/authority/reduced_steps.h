// ReducedSteps: the steps of an all-reduce, which are reported when all have made them: until then it is open whether
// the sum will be of all nodes (formations.h). A lost node leaves the core after that step, with its gradient if that
// is in the sum, without if the others have made another one.
//
// Thread: one at a time (the server's loop).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/config/run_config.h"
#include "common/ids.h"
#include "common/instant.h"
#include "common/log/log.h"
#include "common/status.h"
#include "common/wire/messages.h"
#include "server/authority/mesh_formations.h"
#include "server/authority/run_core.h"
#include "server/authority/run_members.h"
#include "server/authority/run_outbox.h"
#include "server/authority/run_outcome.h"
#include "server/authority/run_record.h"
#include "server/authority/step_reports.h"

namespace paceline::server {

class ReducedSteps {
 public:
  // All outlive this.
  ReducedSteps(const RunConfig& config, RunCore& core, const RunMembers& members, const RunOutcome& state,
               MeshFormations& formations, StepReports& reports, RunRecord& record, RunOutbox& outbox,
               const Log& log);

  // Whether who is left goes on without one that is lost: after the first step all are connected to each other, and
  // have what they step.
  bool go_on() const;
  // A whole step has been made by this generation.
  bool has_stepped() const { return has_stepped_; }
  // Whether `report` is taken with those of all others.
  bool await(const wire::StepReport& report) const;
  void add(const wire::StepReport& report, Ticks now);
  // `node` is lost, `why`, and go_on(): the others may have made the step, and make up the next formation. Not OK: as
  // take().
  [[nodiscard]] Status go_on_without(NodeId node, const std::string& why, Ticks now);
  // The step, if all who are here have made it. Not OK: the run cannot go on.
  [[nodiscard]] Status take(Ticks now);

  // The worker has made the step under way, and waits for the others.
  bool has_stepped(WorkerId worker) const { return stepped_[cluster_.rank_of(worker).value].has_value(); }
  // Who has made a step waits for those who have not, and hears whom for, as of the core (common/sync/actions.h).
  void send_held_notices(Ticks now);

 private:
  struct Stepped {
    wire::StepReport report;
    Ticks since;
    Ticks next_notice;
  };
  bool takes_part(WorkerId worker) const;
  static bool agree_on_skip(std::vector<wire::StepReport>& steps);
  [[nodiscard]] Status take_last_step(NodeId node, Ticks now);
  void stop_short_of_workers(std::int64_t workers, Ticks now);

  const RunConfig& config_;
  const Cluster cluster_;
  RunCore& core_;
  const RunMembers& members_;
  const RunOutcome& state_;
  MeshFormations& formations_;
  StepReports& reports_;
  RunRecord& record_;
  RunOutbox& outbox_;
  const Log& log_;
  std::vector<std::optional<Stepped>> stepped_;  // by rank: who has made the step under way
  std::vector<NodeId> lost_;                     // since it began
  bool has_stepped_ = false;
};

}  // namespace paceline::server
