// FollowingReplica: a shard's replica that follows: it does with its shard, and its authority, what the one that
// serves did with its own, event by event, and says nothing. Where etcd gives the shard to it, it goes on from
// there, in the same generation: its peers come back over other connections (sessions/, shards/), and to them
// it is the process that they knew.
//
//   ReplicaJoin   ->  the one that serves; where that has been resumed, it gives its checkpoint's files first
//                     (checkpoint_taker.h)
//                 <-  ReplicaWelcome, then all that has happened, turn by turn
//   LogAck{n}    ->  after each turn
//
// Thread: the server's loop.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>

#include "server/replicas/checkpoint_taker.h"
#include "server/replicas/event_replay.h"
#include "server/replicas/leader_election.h"

namespace paceline::server {

class FollowingReplica {
 public:
  struct Handlers {
    std::function<void(Ticks)> after_event;  // an event of that moment is done
    std::function<void(Ticks)> takes_over;   // this replica serves from now on
  };
  // All outlive this, and it all that `background` still calls.
  FollowingReplica(boost::asio::io_context& io, EventReplay::Server server, RunClock& clock, EndOfRun& end,
                   Background& background, ReplicatedBackground& replicated, const LeaderElection& election,
                   ShardLease::Incarnation self, Handlers handlers);

  // Connects to the one that serves, and asks to follow it, at once or after a while (ServerOptions). Errors:
  // of reading keys, and of the socket.
  [[nodiscard]] Status open(wire::Context& context);
  // After each of etcd's answers.
  void on_lease(const LeaderLease& lease);
  // In each tick of the loop: every 50 ms.
  void tick();
  // The shard is broken, as that of the one that serves is too, which says so: at the end of the turn it is
  // known.
  void note_fault(const Status& fault) { fault_ = fault; }
  void close();
  Wait wait() const;

 private:
  [[nodiscard]] Status ask();
  void on_broken();
  void on_message(Result<wire::Message> message);
  [[nodiscard]] Status begin(const wire::ReplicaWelcome& welcome);
  void on_event(wire::Message event);
  void send_ack();
  void take_over(const LeaderLease& lease);
  void rejoin(const std::string& why);
  void end_without_result();

  boost::asio::io_context& io_;
  const EventReplay::Server server_;
  const ServerSetup& setup_;
  RunClock& clock_;
  EndOfRun& end_;
  ReplicaRole& role_;
  const LeaderElection& election_;
  const ShardLease::Incarnation self_;
  const Handlers handlers_;
  CheckpointTaker taker_;
  EventReplay replay_;
  std::unique_ptr<wire::DealerSocket> serving_;  // to the one that serves
  bool broken_ = false;                          // that connection
  Ticks last_received_{};                        // of it, on the steady clock
  Ticks next_word_{};                            // when to say something again
  Status fault_;                                 // of the shard, in this turn
};

}  // namespace paceline::server
