// ReconfigureRequests: at a replica that serves: the other one was not there from the start, or was lost since, and
// asks to follow: the run is to be reconfigured (authority/reconfigure.h), after which it may.
//
// Thread: the server's loop.
#pragma once

#include <optional>

#include "server/loop/own_authority.h"
#include "server/sessions/peer_connections.h"
#include "server/shards/authority_link.h"

namespace paceline::server {

class ReconfigureRequests {
 public:
  // All outlive this.
  ReconfigureRequests(const ServerSetup& setup, const RunClock& clock, const ReplicaRole& role,
                      PeerConnections& connections, OwnAuthority& authority, AuthorityLink& link)
      : setup_(setup),
        clock_(clock),
        role_(role),
        connections_(connections),
        authority_(authority),
        link_(link) {}

  // The replica behind that connection asks to follow. One that has not been missed yet is to ask again, too.
  void ask(const wire::PeerId& from);
  // Somebody has asked in vain, whom a reconfiguration would let follow.
  bool is_asked() const { return is_asked_; }
  // Not before that time.
  void not_before(Ticks when) { asked_at_ = when; }
  // The authority has refused something. If it was asked for this, and says never, nobody can come back any
  // more.
  void on_refused(const Status& why) {
    if (asked_at_ && why.code() == StatusCode::kFailedPrecondition) refused_ = why;
  }

 private:
  const ServerSetup& setup_;
  const RunClock& clock_;
  const ReplicaRole& role_;
  PeerConnections& connections_;
  OwnAuthority& authority_;
  AuthorityLink& link_;
  bool is_asked_ = false;
  std::optional<Ticks> asked_at_;  // or when it may be again
  Status refused_;                 // by the authority
};

}  // namespace paceline::server
