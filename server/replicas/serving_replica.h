// ServingReplica: a shard's replica that serves: it lets the other one follow, tells it what happens, and lets it
// go where it does not come on (replica_role.h has the rules). Where etcd gives the shard to another one, this
// one ends.
//
//   etcd  <─ lease, record ─>  LeaderElection: may this one act?
//   node  ── Push ──> note() ──> ShardService      the same event ──> the follower
//   send() ──> held until the follower has what it follows from, and this one acts ──> release() ──> node
//
// A replica that comes back, or late, has the run reconfigured (reconfigure_requests.h), and is given the checkpoint
// that it goes on from (checkpoint_giver.h).
//
// Thread: the server's loop.
#pragma once

#include <string>
#include <vector>

#include "common/log/stall_log.h"
#include "server/replicas/checkpoint_giver.h"
#include "server/replicas/leader_lease.h"
#include "server/replicas/reconfigure_requests.h"

namespace paceline::server {

class ServingReplica {
 public:
  // All outlive this.
  ServingReplica(const ServerSetup& setup, const RunClock& clock, EndOfRun& end, ReplicaRole& role,
                 PeerConnections& connections, OwnAuthority& authority, AuthorityLink& link,
                 const RunGeneration& generation);

  // Whether the message is of one replica to another.
  [[nodiscard]] bool on_message(const wire::PeerId& from, const Result<wire::Message>& message);
  // After each of etcd's answers.
  void on_lease(const LeaderLease& lease);
  // What has happened in this turn.
  void send_turn();
  void beat();
  // In each tick: whether etcd lets it act. Said at once: until it changes nobody is told anything.
  void check_lease(const LeaderLease& lease);
  // In each tick in which it acts.
  void check_follower(Ticks now);
  // It serves from now on, in another one's place.
  void begin() { could_act_ = steady_now(); }
  void on_refused(const Status& why) { requests_.on_refused(why); }

  std::vector<Wait> waits(Ticks now) const;
  // Another one serves: a reconfiguration is that one's.
  bool is_deposed() const { return deposed_; }
  // There is a replica that is to follow it after a reconfiguration.
  bool expects_follower() const { return role_.follower() || requests_.is_asked(); }

 private:
  void on_join(const wire::PeerId& from, const wire::ReplicaJoin& join);
  void on_follower(const Result<wire::Message>& message);
  void send_event(wire::Message event);
  void lose_follower(const std::string& why);
  void check_follower_comes();

  const ServerSetup& setup_;
  const RunClock& clock_;
  EndOfRun& end_;
  ReplicaRole& role_;
  PeerConnections& connections_;
  const RunGeneration& generation_;
  CheckpointGiver giver_;
  ReconfigureRequests requests_;
  bool acted_ = false;  // when that was last looked at
  Ticks could_act_{};   // the last time
  bool deposed_ = false;
};

}  // namespace paceline::server
