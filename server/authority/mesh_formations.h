// MeshFormations: nodes that are connected to each other: what they say and are told of their formations, one after
// another (formations.h has what makes one).
//
//   a node   Peers{endpoint, formation left}   ->   the others of that formation: it is over, and why; say where you
//                                                   are
//                                                  reached
//   all      Peers{endpoint}                   ->   all: Peers of the next one, once it is known whom it has
//
// Thread: one at a time (the server's loop).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/config/run_config.h"
#include "common/instant.h"
#include "common/log/log.h"
#include "common/status.h"
#include "common/trace/decision_log.h"
#include "common/wire/messages.h"
#include "server/authority/formations.h"
#include "server/authority/run_members.h"
#include "server/authority/run_outbox.h"

namespace paceline::server {

class MeshFormations {
 public:
  // How long a node that is alive may take, in leases, to say where it is reached in the next formation, which none of
  // its threads that computes has to say.
  static constexpr int kLeases = 2;

  // All outlive this. `trace`: of the authority's decisions; null: there is none.
  MeshFormations(const RunConfig& config, const RunMembers& members, RunOutbox& outbox,
                 trace::DecisionLog* trace, const Log& log);

  // `peers`, at `version` of the run. `goes_on`: who is left goes on without one that is lost. kLost: the one whom
  // `from` has lost, or itself, is. kEndpoint: the next formation may be complete: form(). Errors: kInvalidArgument.
  enum class News { kNothingNew, kLost, kEndpoint };
  Result<News> on_peers(NodeId from, const wire::Peers& peers, Version version, bool goes_on, Ticks now);
  // The next one, if all have said where they are reached. Not OK: there will be none, and why.
  [[nodiscard]] Status form(Version version, Ticks now);
  // The others go on without it: the formation is over.
  void lost(NodeId node, const std::string& why, Ticks now);
  // The newest, and that it is over where it is. Who knows it does nothing twice.
  void resend(NodeId node);
  // Who is here and has not said where it is reached in the next one, which waits for that.
  std::vector<NodeId> awaited() const;
  // Of those, who has not said so in time; and what that is.
  std::vector<NodeId> overdue(Ticks now) const;
  Status too_late() const;

  // All who are here have made the step; who is in the one under way.
  void stepped();
  bool is_in_sum(NodeId node) const { return formations_.is_in_sum(node); }

 private:
  Status check(NodeId from, const wire::Peers& peers, Version version) const;
  void end(std::optional<NodeId> lost, std::string why, Ticks now);
  wire::Peers over() const;

  const RunConfig& config_;
  const RunMembers& members_;
  RunOutbox& outbox_;
  trace::DecisionLog* const trace_;
  const Log& log_;
  Formations formations_;
  wire::Peers newest_;  // as its nodes were told
  Ticks over_since_;
  std::string why_over_;  // the first reason of all, as its nodes were told
};

}  // namespace paceline::server
