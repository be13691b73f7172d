// LateJoins: nodes that come while training goes on: late, or again, as another process of a node that was
// here.
//
//   the authority
//     one process of the node is here    the other is to ask again, and the first is asked for an answer:
//                                        where it comes, the first is alive, and the other refused; else its
//                                        lease, or its broken connection, ends it
//     the node was lost, or never came   let in, where training can take it (Authority::may_come)
//   another shard
//     a process of the node was here     to ask again, until the authority says that it is let in
//                                        (NodeAdmitted), which comes after the loss of the other
//
// Who is to ask again says its Join again a second later, over another connection: all that a join leads to
// happens in the handling of that message, and nothing is kept of one that asks no more.
//
// Thread: the server's loop.
#pragma once

#include <cstdint>
#include <vector>

#include "common/pause.h"
#include "server/loop/own_authority.h"
#include "server/run/run_generation.h"
#include "server/sessions/peer_connections.h"

namespace paceline::server {

class LateJoins {
 public:
  // All outlive this.
  LateJoins(const ServerSetup& setup, const RunClock& clock, ReplicaRole& role, PeerConnections& connections,
            const ShardService& service, const OwnAuthority& authority, const RunGeneration& generation)
      : setup_(setup),
        clock_(clock),
        role_(role),
        connections_(connections),
        service_(service),
        authority_(authority),
        generation_(generation),
        late_(setup.config.cluster.nodes) {}

  // Whether the join may be looked at now. Errors: kUnavailable not yet; others it is refused. Membership says
  // what does not fit otherwise.
  [[nodiscard]] Status check(const wire::PeerId& from, const wire::Join& join, Ticks now);
  // What a heartbeat of the node says: the answer that it was asked for, or none.
  void answered(NodeId node, std::uint64_t answer);
  // At another shard: the authority has let that process in. True: another one was here, and is gone now.
  bool admitted(const wire::NodeAdmitted& admitted);
  // At another shard: the loss is of one that is not here any more, while another one is.
  bool is_of_a_former_process(const wire::NodeLost& lost) const;
  // As if it had never come.
  void forget(NodeId node);
  void discount_pause(const Pause& pause);

 private:
  // Of each node: another process that has asked to be let in while one is here, when that one was asked last
  // whether it is alive, and whether it has said so; and the process that the authority has let in last. 0:
  // none.
  struct LateJoin {
    std::uint64_t asks = 0;
    Ticks asked;
    bool is_answered = false;
    std::uint64_t admitted = 0;
  };
  [[nodiscard]] Status may_follow(const wire::Join& join, Ticks now);

  const ServerSetup& setup_;
  const RunClock& clock_;
  ReplicaRole& role_;
  PeerConnections& connections_;
  const ShardService& service_;
  const OwnAuthority& authority_;
  const RunGeneration& generation_;
  std::vector<LateJoin> late_;
};

}  // namespace paceline::server
