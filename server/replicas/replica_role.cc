#include "server/replicas/replica_role.h"

#include <algorithm>
#include <utility>

#include "server/run/seconds_text.h"

namespace paceline::server {
namespace {

constexpr std::chrono::milliseconds kHeldUpAfter{100};

}  // namespace

// ---- events

wire::Message ReplicaRole::event(wire::LogEntry::As as, Peer who, wire::Body body, wire::Payload payload,
                                 Ticks now) {
  wire::LogEntry logged{as, 0, false, now.ns};
  if (who.is_node()) {
    logged.node = who.node();
  } else {
    logged.shard = who.shard();
  }
  return {std::move(body), std::move(payload), logged};
}

void ReplicaRole::note(wire::LogEntry::As as, Peer who, const wire::Body& body, const wire::Payload& payload,
                       Ticks now) {
  if (serves()) events_.add(event(as, who, body, payload, now));
}

std::vector<wire::Message> ReplicaRole::end_turn() {
  return serves() ? events_.end_turn() : std::vector<wire::Message>();
}

// ---- what is said

void ReplicaRole::hold(EventLog::To to, wire::Message message, Ticks now) {
  if (serves()) events_.hold(std::move(to), std::move(message), now);
}

std::vector<EventLog::Output> ReplicaRole::release() {
  if (!serves() || !acts()) return {};
  return events_.take(serves_alone());
}

bool ReplicaRole::is_held_up(Ticks now) const {
  const std::optional<Ticks> since = events_.holds_since();
  return since && now - *since > kHeldUpAfter;
}

// ---- the follower

void ReplicaRole::note_complete() {
  ShardLease::Members members{self_};
  if (follower_ && follower_->complete) members.insert(follower_->incarnation);
  (void)lease_->set_complete(std::move(members));
}

std::vector<wire::Message> ReplicaRole::follower_comes(wire::PeerId connection, Incarnation incarnation,
                                                       Ticks now) {
  follower_ = Follower{std::move(connection), incarnation, now, now};
  return events_.follow();
}

Status ReplicaRole::follower_holds(std::int64_t count, Ticks now) {
  PACELINE_RETURN_IF_ERROR(events_.held(count));
  follower_->moved = now;
  // It has all there is: from here on nothing counts that it has not.
  if (!follower_->complete && events_.lag() == 0) {
    follower_->complete = true;
    note_complete();
  }
  return Status::ok();
}

bool ReplicaRole::lose_follower() {
  if (!std::exchange(follower_, std::nullopt)) return false;
  events_.unfollow();
  note_complete();
  return true;
}

std::string ReplicaRole::why_lost(std::chrono::nanoseconds lease, Ticks now) const {
  if (!follower_) return {};
  const auto silent = now - follower_->seen;
  if (silent > lease) return "silent for " + seconds_text(silent);
  // It lives, and does not come on.
  const std::optional<Ticks> since = events_.holds_since();
  const bool lags = since && events_.lag() > 0 && acts();
  if (!lags || now - std::max(*since, follower_->moved) <= lease) return {};
  return "it has taken no event for " + seconds_text(now - follower_->moved);
}

std::string ReplicaRole::why_it_waits(const std::string& shard, const std::string& other) const {
  if (!acts()) return shard + " waits for etcd's word that this replica serves: " + lease_->describe();
  return shard + " waits for its other replica (" + other + ")" + (follower_ ? " to have what there is" : "");
}

void ReplicaRole::discount_pause(const Pause& pause) {
  if (!follower_) return;
  follower_->seen = pause.discounted(follower_->seen);
  follower_->moved = pause.discounted(follower_->moved);
}

void ReplicaRole::end_waiting() {
  was_followed_ = true;
  events_.end_following();
  note_complete();
}

bool ReplicaRole::lease_answered() {
  note_complete();
  if (!follower_ || !lease_->has_complete(follower_->incarnation)) return false;
  if (std::exchange(was_followed_, true)) return false;
  events_.discard_history();
  return true;
}

// ---- one that follows

std::optional<UncommittedOutputs::BothSaved> ReplicaRole::on_shard_output(const wire::Message& message) {
  if (follows()) return uncommitted_.add(message);
  return has_other() ? uncommitted_.add_late(message) : std::nullopt;
}

void ReplicaRole::forget(NodeId node) {
  if (follows()) uncommitted_.forget(node);
}

void ReplicaRole::take_over(Ticks now) {
  does_ = Does::kServes;
  served_ = true;
  was_followed_ = true;  // as far as that goes
  followed_.end();
  took_over_at_ = now;
  events_.end_following();
  note_complete();
}

}  // namespace paceline::server
