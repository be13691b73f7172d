// Replication: what a server has besides that is one of its shard's two replicas (cluster.replicas: 2): its lease
// at etcd, and what it does as the one that serves (serving_replica.h) or follows (following_replica.h).
//
// Thread: the server's loop.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <vector>

#include "server/replicas/following_replica.h"
#include "server/replicas/leader_election.h"
#include "server/replicas/replicated_background.h"
#include "server/replicas/serving_replica.h"

namespace paceline::server {

class Replication {
 public:
  // All outlive this, and it all that `background` still calls. `drain` is called after each of etcd's
  // answers, once this has done what follows from it.
  Replication(boost::asio::io_context& io, EventReplay::Server server, RunClock& clock, EndOfRun& end,
              Background& background, std::function<void()> drain, FollowingReplica::Handlers handlers);

  // The server's role is known from now on. Errors: kInvalidArgument cluster.etcd.
  [[nodiscard]] Status open();
  // One that follows.
  [[nodiscard]] Status follow(wire::Context& context) { return following_->open(context); }

  // Whether the message is of one replica to another; of one that follows nobody else is let in.
  [[nodiscard]] bool on_message(const wire::PeerId& from, const Result<wire::Message>& message);
  ServingReplica& serving() { return serving_; }
  FollowingReplica& following() { return *following_; }
  // Where the authority has its files written.
  ReplicatedBackground& background() { return replicated_; }

  // What this turn has led to is told to the follower, and what may be said by now is.
  void end_turn();
  // One that serves, in each tick.
  void check_lease() { serving_.check_lease(election_->leader_lease()); }
  // It serves in another one's place.
  std::uint64_t term() const { return election_->leader_lease().term(); }
  void take_over();
  // What of the run's end counts as written, by the word of the one that served, and is not here.
  void answer_for_files();
  // All that is decided is said and written; the run may end.
  bool is_done() const;
  std::vector<Wait> waits(Ticks now) const;
  // How the server goes on, where it is made anew.
  RestartRequest restart_request() const;

  // This replica ends: where the run is over, the other one is told so, and etcd; else that one may serve. In
  // either case nobody need wait for the lease. `gone` is called once its disk has what counts.
  void end(std::function<void()> gone);

 private:
  void on_lease();
  bool awaits_return() const;

  boost::asio::io_context& io_;
  const EventReplay::Server server_;
  const ServerSetup& setup_;
  RunClock& clock_;
  EndOfRun& end_;
  Background& background_;
  ReplicaRole& role_;
  const ShardLease::Incarnation incarnation_ = new_incarnation();  // as etcd knows it
  const std::function<void()> drain_;
  const FollowingReplica::Handlers handlers_;
  ReplicatedBackground replicated_;
  std::unique_ptr<LeaderElection> election_;
  ServingReplica serving_;
  std::unique_ptr<FollowingReplica> following_;
};

}  // namespace paceline::server
