// ReplicaRole: what a server is to its shard's other replica, and what follows from that: what happens is told
// to the one that follows, and what is said waits until that has what it follows from.
//
//   serves    note() each event, end_turn() for the follower; hold() what is to be said, release() what may be
//   follows   followed() until a turn has ended, then the same events are done here; LogAck{applied()}
//   takes over   take_over(), and says what the one before had not said (take_uncommitted())
//
// A turn is what one message, or one moment, has led to: half of one is nothing. Without a follower nobody is
// let in, until the first one has come: what is acknowledged is to be in two places. One that is gone is left
// out, after which this one goes on alone. A server whose shard has no other replica serves alone from the
// start: it notes nothing and holds nothing.
//
// Pure: the server's loop drives it, and the simulation of replicas (tests/sim/replicas) does.
// Thread: one at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/instant.h"
#include "common/pause.h"
#include "common/status.h"
#include "common/wire/messages.h"
#include "common/wire/transport.h"
#include "server/peers/peer.h"
#include "server/replicas/event_log.h"
#include "server/replicas/followed_log.h"
#include "server/replicas/shard_lease.h"
#include "server/replicas/uncommitted_outputs.h"

namespace paceline::server {

class ReplicaRole {
 public:
  using Incarnation = ShardLease::Incarnation;
  enum class Does { kServesAlone, kServes, kFollows };

  // Of a shard without another replica.
  ReplicaRole() = default;
  // `lease` outlives this.
  ReplicaRole(Does does, Incarnation self, ShardLease& lease) : does_(does), self_(self), lease_(&lease) {}

  bool has_other() const { return does_ != Does::kServesAlone; }
  bool follows() const { return does_ == Does::kFollows; }
  // It is one of two, and serves, or is to.
  bool serves() const { return does_ == Does::kServes; }
  // Whether it may say what it has decided. To be asked right before each time it does.
  bool acts() const { return !has_other() || (serves() && lease_->acts()); }
  // Whether nobody but this one needs to have what it acknowledges.
  bool serves_alone() const { return !has_other() || lease_->must_hold() == ShardLease::Members{self_}; }

  // ---- events

  // Those of one that serves, and what it holds.
  const EventLog& log() const { return events_; }

  // It happened, by the log of the one that serves.
  void note(wire::LogEntry::As as, Peer who, const wire::Body& body, const wire::Payload& payload, Ticks now);
  void note(Peer who, wire::LocalEvent local_event, Ticks now) {
    note(wire::LogEntry::As::kLocalEvent, who, wire::Body(std::move(local_event)), {}, now);
  }
  static wire::Message event(wire::LogEntry::As as, Peer who, wire::Body body, wire::Payload payload,
                             Ticks now);
  // What is to be told to the follower, the last of it marked.
  std::vector<wire::Message> end_turn();

  // ---- what is said

  // To be said once the follower has all that has happened so far. One that follows says nothing.
  void hold(EventLog::To to, wire::Message message, Ticks now);
  // What may be said now, in order, and is given away.
  std::vector<EventLog::Output> release();
  // A connection broke: what was held for it is said by nobody; what counts is said again over the next one.
  void drop(const EventLog::To& to) { events_.drop(to); }
  // Whether the follower has all that was heard: else it would be told to have been heard, and might be lost.
  bool all_is_held() const { return !has_other() || serves_alone() || events_.lag() == 0; }
  // What is said waits for the follower for longer than from one tick to the next.
  bool is_held_up(Ticks now) const;

  // ---- the follower

  struct Follower {
    wire::PeerId connection;
    Incarnation incarnation = 0;
    Ticks seen;
    Ticks moved;            // when it last had more events
    bool complete = false;  // it was asked to be noted as such
  };
  const std::optional<Follower>& follower() const { return follower_; }
  // Nobody is let in before the first follower is noted as complete, or was lost.
  bool waits_for_follower() const { return serves() && !was_followed_; }
  // One has come: all that has happened, to be told to it before anything else.
  std::vector<wire::Message> follower_comes(wire::PeerId connection, Incarnation incarnation, Ticks now);
  void follower_seen(Ticks now) { follower_->seen = now; }
  // It has the first `count` events. Errors: EventLog::held().
  [[nodiscard]] Status follower_holds(std::int64_t count, Ticks now);
  // It is not waited for any more. False: there was none.
  bool lose_follower();
  // Why it is to be left out, as silent or as taking nothing for longer than `lease`; empty: it is not.
  std::string why_lost(std::chrono::nanoseconds lease, Ticks now) const;
  // What those are to be told who are not let in: `shard` and its other replica's endpoint are named.
  std::string why_it_waits(const std::string& shard, const std::string& other) const;
  // This process stood still.
  void discount_pause(const Pause& pause);
  // It goes on without one that was to come.
  void end_waiting();

  // What is noted of this shard's replicas may have changed. True: the first follower is complete from now on.
  bool lease_answered();
  // It has said that it serves. False: it had before.
  bool begins_to_serve() { return !std::exchange(served_, true); }
  bool served() const { return served_; }

  // ---- one that follows

  // What it was told.
  FollowedLog& followed() { return followed_; }
  const FollowedLog& followed() const { return followed_; }
  // The one that serves has sent it to the authority. Of files that both have saved: for the comparison.
  std::optional<UncommittedOutputs::BothSaved> on_primary_sent(const wire::Message& event) {
    return uncommitted_.on_primary_sent(event);
  }
  // This replica's shard has an output for the authority. To be sent only by one that serves.
  std::optional<UncommittedOutputs::BothSaved> on_shard_output(const wire::Message& message);
  // Its shard was told that the node is lost.
  void forget(NodeId node);

  // Nobody else acts, or will.
  void take_over(Ticks now);
  std::optional<Ticks> took_over_at() const { return took_over_at_; }
  // What the one before it had not said, and its shard has: to be said now.
  std::vector<wire::Message> take_uncommitted() { return uncommitted_.take(); }

 private:
  void note_complete();

  Does does_ = Does::kServesAlone;
  Incarnation self_ = 0;
  ShardLease* lease_ = nullptr;

  EventLog events_;
  std::optional<Follower> follower_;
  bool was_followed_ = false;  // by one that was noted as complete
  bool served_ = false;

  FollowedLog followed_;
  UncommittedOutputs uncommitted_;
  std::optional<Ticks> took_over_at_;
};

}  // namespace paceline::server
