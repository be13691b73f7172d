// A shard's replica that serves: what happens is told to the one that follows, and what is said waits until
// that has it (server/replicas/event_log.h). Where etcd gives the shard to another one, this one ends.
//
//   etcd  <─ lease, record ─>  LeaderElection: may this one act?
//   node  ── Push ──> note() ──> ShardService      the same event ──> the follower
//   say() ──> held until the follower has what it follows from, and this one acts ──> release() ──> node
//
// Without a follower nobody is let in, until the first one has come: what is acknowledged is to be in two
// places. One that is gone is left out, after which this one goes on alone, until one comes back: then the
// run is handed over (server/authority/hand_over.h).
#include <algorithm>
#include <cstdio>
#include <utility>

#include "common/hex.h"
#include "common/ticks.h"
#include "common/wire/reconnect_pause.h"
#include "server/server_loop.h"

namespace paceline::server {

using As = wire::LogEntry::As;
using What = wire::LocalEvent::What;

Status ServerLoop::open_replica() {
  PACELINE_ASSIGN_OR_RETURN(std::unique_ptr<EtcdClient> etcd, EtcdClient::make(io_, config_.cluster.etcd));
  const auto note_done = [this](std::int64_t number, const Status& result, Ticks now) {
    note(Peer::of(shard_), {What::kDone, number, result.code(), result.message()}, now);
  };
  using Role = ServerOptions::Role;
  replica_ = std::make_unique<Replica>(options_.replica,
                                       ReplicatedBackground(
                                           background_, [this] { return ticks(); }, note_done, log_));
  const bool is_to_follow = options_.role == Role::kFollows;
  if (is_to_follow) replica_->background.follow();
  const std::string prefix =
      "/" + config_.cluster.etcd_prefix + "/" + hex(fingerprint_) + "/shard-" + to_string(shard_);
  LeaderLease leader_lease(prefix, replica_->incarnation,
                           is_to_follow ? LeaderLease::Start::kFollows
                           : options_.replaces || options_.role == Role::kGoesOn
                               ? LeaderLease::Start::kReplaces
                               : LeaderLease::Start::kBegins,
                           std::chrono::floor<std::chrono::seconds>(config_.cluster.lease));
  replica_->election =
      std::make_unique<LeaderElection>(io_, std::move(etcd), std::move(leader_lease), [this] {
        on_election();
        drain();
      });
  role_ = ReplicaRole(is_to_follow ? ReplicaRole::Does::kFollows : ReplicaRole::Does::kServes,
                      replica_->incarnation, *replica_->election);
  replica_->election->start();
  return Status::ok();
}

std::string ServerLoop::own_endpoint() const {
  return config_.cluster.endpoints_of(shard_.value).at(options_.replica);
}

std::string ServerLoop::other_endpoint() const {
  return config_.cluster.endpoints_of(shard_.value).at(1 - options_.replica);
}

Background& ServerLoop::authority_background() {
  return replica_ ? static_cast<Background&>(replica_->background) : background_;
}

// After each of etcd's answers.
void ServerLoop::on_election() {
  if (ended_) return;
  const LeaderLease& leader_lease = replica_->election->leader_lease();
  if (leader_lease.is_refused())
    return end(failed_precondition(leader_lease.describe(steady_now()) + "; --force begins anew"));
  if (role_.follows()) {
    if (replica_->broken && leader_lease.nobody_serves() && !leader_lease.was_complete()) {
      return end(unavailable("the replica that served shard " + to_string(shard_) +
                             " is gone, and this one had not got all that it acknowledged"));
    }
    if (leader_lease.is_concluded() && (leader_lease.is_left_out() || options_.returns)) return end_unheard();
    if (replica_->broken && !leader_lease.was_complete() &&
        steady_now() - replica_->heard > config_.cluster.lease) {
      return come_back("was lost before it had everything");
    }
    if (leader_lease.is_left_out()) return come_back("is left out: it lacks something that was acknowledged");
    if (leader_lease.is_primary()) take_over();
    return;
  }
  if (role_.lease_answered()) {
    log_.info("shard " + to_string(shard_) + "'s follower has all there is");
  }
  if (leader_lease.is_primary() && role_.begins_to_serve()) {
    log_.info("shard " + to_string(shard_) + " is served by this replica, term " +
              std::to_string(leader_lease.term()));
  } else if (role_.served() && (leader_lease.another_serves() || leader_lease.is_left_out())) {
    // Where only its lease has ended, and nobody serves, it may yet serve again (look_at_etcd()).
    replica_->deposed = true;
    end(unavailable("shard " + to_string(shard_) +
                    " is not served by this replica any more: " + leader_lease.describe(steady_now())));
  }
}

bool ServerLoop::acts() const { return role_.acts(); }

// Whether somebody who was here before this replica began to serve has not come to it yet, and may.
bool ServerLoop::awaits_return() const {
  if (!role_.took_over_at()) return false;
  if (ticks() - *role_.took_over_at() > wire::kLeasesToTakeOver * config_.cluster.lease) return false;
  const std::vector<Peer> present = membership_.present();
  return std::any_of(present.begin(), present.end(), [this](Peer peer) {
    if (!is_elsewhere(*membership_.connection_of(peer))) return false;
    return peer.is_node() || channels_.lacks(peer.shard());
  });
}

std::string ServerLoop::why_it_waits() const {
  const std::string shard = "shard " + to_string(shard_);
  const LeaderLease& leader_lease = replica_->election->leader_lease();
  if (!replica_->election->acts()) {
    return shard + " waits for etcd's word that this replica serves: " + leader_lease.describe(steady_now());
  }
  return shard + " waits for its other replica (" + other_endpoint() + ")" +
         (role_.follower() ? " to have what there is" : "");
}

// ---- events

void ServerLoop::note(As as, Peer who, const wire::Body& body, const wire::Payload& payload, Ticks now) {
  role_.note(as, who, body, payload, now);
}

void ServerLoop::note(Peer who, wire::LocalEvent happened, Ticks now) {
  note(As::kHappened, who, wire::Body(std::move(happened)), {}, now);
}

void ServerLoop::end_turn() {
  if (ended_) return;
  for (wire::Message& event : role_.end_turn()) tell_follower(std::move(event));
  release();
}

void ServerLoop::tell_follower(wire::Message event) {
  if (!role_.follower()) return;
  const Status told = router_->send(role_.follower()->connection, std::move(event));
  if (!told.is_ok()) lose_follower(told.message());
}

// ---- what is said

Status ServerLoop::say(const wire::PeerId& to, wire::Message message) {
  if (!replica_) return router_->send(to, std::move(message));
  if (!is_elsewhere(to)) role_.hold(to, std::move(message), ticks());
  return Status::ok();
}

void ServerLoop::release() {
  for (auto& [to, message] : role_.release()) {
    if (!to) {  // else it is said again over the next connection
      const Status said = broken_ ? Status::ok() : dealer_->send(std::move(message));
      if (!said.is_ok()) return end(Status(said).with_context("to the authority"));
      continue;
    }
    const Status said = router_->send(*to, std::move(message));
    if (said.is_ok()) continue;
    const std::optional<Peer> peer = membership_.who(*to);
    if (peer && !membership_.is_gone(*peer)) cannot_send(*peer, said);
  }
}

// ---- the follower

// Whether the message is of one replica to another; of one that follows nobody else is let in.
bool ServerLoop::on_replica(const wire::PeerId& from, const Result<wire::Message>& message) {
  if (!replica_) return false;
  if (role_.follows()) {
    if (!router_->count_rejected(from)) {
      (void)router_->send(from,
                          {wire::Error{StatusCode::kUnavailable,
                                       "this replica of shard " + to_string(shard_) + " follows another",
                                       /*fatal=*/false},
                           {}});
    }
    return true;
  }
  if (message.is_ok() && std::holds_alternative<wire::ReplicaJoin>(message->body)) {
    on_replica_join(from, std::get<wire::ReplicaJoin>(message->body));
    return true;
  }
  if (message.is_ok() && replica_->pulls == from && !from.empty()) {
    if (const auto* pull = std::get_if<wire::FilePull>(&message->body)) {
      on_pull(*pull);
      return true;
    }
  }
  if (!role_.follower() || role_.follower()->connection != from) return false;
  on_follower(message);
  return true;
}

void ServerLoop::on_replica_join(const wire::PeerId& from, const wire::ReplicaJoin& join) {
  const std::string who = "replica of shard " + to_string(join.shard);
  if (role_.follower() && role_.follower()->connection == from) return;  // it says so twice
  Status status = check_key(wire::may_be_server(router_->key_name()), who);
  if (status.is_ok() && join.protocol_version != wire::kProtocolVersion) {
    status = invalid_argument(who + ": protocol version " + std::to_string(join.protocol_version) +
                              ", expected " + std::to_string(wire::kProtocolVersion));
  } else if (status.is_ok() && join.shard != shard_) {
    status = invalid_argument(who + ": this is shard " + to_string(shard_));
  } else if (status.is_ok()) {
    status = check_same_configuration(who, join.config_fingerprint, join.settings, config_);
  }
  if (status.is_ok() && !role_.may_be_followed()) {
    return ask_hand_over(from);
  }
  if (!status.is_ok()) return refuse_join(from, status);
  router_->remember(from);
  if (resumes_ && (!resumed_ || join.has != resume_point_)) return give_checkpoint(from);
  replica_->pulls.clear();
  std::vector<wire::Message> history = role_.follower_comes(from, join.incarnation, ticks());
  log_.info("shard " + to_string(shard_) + " has a follower");
  tell_follower({wire::ReplicaWelcome{generation_, incarnation_, started_at_.ns}, {}});
  for (wire::Message& event : history) tell_follower(std::move(event));
}

void ServerLoop::on_follower(const Result<wire::Message>& message) {
  const Ticks now = ticks();
  role_.follower_seen(now);
  if (!message.is_ok()) return lose_follower("it sent a malformed message: " + message.status().message());
  if (std::holds_alternative<wire::Heartbeat>(message->body)) return;
  const auto* held = std::get_if<wire::LogAck>(&message->body);
  if (held == nullptr) return lose_follower(std::string("it sent a ") + wire::name_of(message->body));
  const Status sound = role_.follower_holds(held->count, now);
  if (!sound.is_ok()) lose_follower(sound.message());
}

void ServerLoop::lose_follower(const std::string& why) {
  if (!role_.follower()) return;
  (void)router_->disconnect(role_.follower()->connection);
  role_.lose_follower();
  const bool waits = role_.may_be_followed();
  log_.warn("shard " + to_string(shard_) + " has lost its follower: " + why +
            (waits ? "; it waits for it to come back"
                   : "; it goes on alone, and what it acknowledges from here on is in one place"));
}

// Said at once: until it changes nobody is told anything.
void ServerLoop::look_at_etcd() {
  if (!replica_ || role_.follows() || !role_.served()) return;
  const bool acts = replica_->election->acts();
  const Ticks now = steady_now();
  if (acts) replica_->heard = now;
  if (now - replica_->heard > wire::kLeasesToTakeOver * config_.cluster.lease) {
    return end(unavailable("shard " + to_string(shard_) + " has waited too long for etcd: " +
                           replica_->election->leader_lease().describe(now)));
  }
  if (std::exchange(replica_->acted, acts) == acts) return;
  if (acts) return log_.info("etcd has answered: this replica serves shard " + to_string(shard_));
  log_.warn("nobody is told anything by shard " + to_string(shard_) +
            " until etcd answers: " + replica_->election->leader_lease().describe(steady_now()));
}

void ServerLoop::look_after_follower(Ticks now) {
  if (const std::string why = role_.why_lost(config_.cluster.lease, now); !why.empty()) lose_follower(why);
}

void ServerLoop::replica_waits(Ticks now, std::vector<Wait>& waits) const {
  if (!replica_ || role_.follows()) return;
  const std::string shard = "shard " + to_string(shard_);
  if (!replica_->election->acts()) {
    waits.push_back({"the wait for etcd", why_it_waits()});
  } else if (role_.waits_for_follower()) {
    waits.push_back({"the wait for the follower", why_it_waits()});
  } else if (role_.lag() > 0 && role_.follower()) {
    char seen[32];
    std::snprintf(seen, sizeof seen, "%.1f", to_seconds(now - role_.follower()->seen));
    waits.push_back({"the wait for the follower to have event " + std::to_string(role_.events_held()),
                     shard + " waits for its follower, last heard of " + seen + " s ago, to have " +
                         std::to_string(role_.lag()) + " events"});
  }
}

// This replica ends: where the run is over, the other one is told so, and etcd; else that one may serve. In
// either case nobody need wait for the lease.
void ServerLoop::end_replica() {
  const bool all_said = !role_.holds() && channels_.authority().unacked().empty();
  const bool is_over = ((authority_ && authority_->over()) || over_) && all_said;
  if (role_.follower() && (is_over || hands_over_)) {
    (void)router_->send(role_.follower()->connection,
                        {wire::RunOver{result_.code(), result_.message(), hands_over_, hands_over_}, {}});
  }
  if (replica_->serving) replica_->serving->close();
  router_->close();
  using Leave = LeaderLease::Leave;
  replica_->election->resign(hands_over_ ? Leave::kHandsOver
                             : is_over   ? Leave::kForGood
                                         : Leave::kForNow,
                             // What its disk still takes is awaited in any case, and said where it fails.
                             [this] { replica_->background.when_not_behind([this] { io_.stop(); }); });
}

}  // namespace paceline::server
