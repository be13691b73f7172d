// What goes out, and what time brings: heartbeats, leases, deadlines, the end.
#include <algorithm>
#include <boost/asio/post.hpp>
#include <cstdio>
#include <utility>

#include "common/ticks.h"
#include "common/wire/reconnect_pause.h"
#include "server/server_loop.h"
#include "server/unread_messages_max.h"

namespace paceline::server {
namespace {

using std::chrono::milliseconds;

// Held grants are announced after 200 ms, leases are seconds: this is fine enough for both.
constexpr milliseconds kTick{50};
// A tick that comes later than this was not late: the whole process stood still.
constexpr milliseconds kPauseAtLeast{500};

std::string in_seconds(std::chrono::nanoseconds d) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", to_seconds(d));
  return text;
}

}  // namespace

void ServerLoop::send(Speaker speaker, Peer to, wire::Message message) {
  if (speaker == Speaker::kShard) {
    compare(role_.shard_says(message));
    if (follows()) return;
  }
  if (auto* lost = std::get_if<wire::NodeLost>(&message.body); lost && speaker == Speaker::kShard) {
    lost->incarnation = membership_.incarnation_of(lost->node);
    // That it takes nothing may be because it is cut off, or stands still.
    const auto silent = membership_.silent_for(Peer::of(lost->node), ticks());
    if (silent && *silent > config_.cluster.lease / 2) lost->why += "; silent for " + in_seconds(*silent);
  }
  if (!to.is_node() && to.shard() == shard_) {  // the authority's own shard, and the other way round
    local_.emplace_back(speaker, std::move(message));
    return;
  }
  if (!to.is_node() && !is_authority()) return to_authority(std::move(message));
  const wire::PeerId* connection = membership_.connection_of(to);
  if (connection == nullptr) return;  // it has gone, or never came
  if (follows() && to.is_node()) return;
  const bool says_nothing = std::holds_alternative<wire::Held>(message.body);  // it comes again
  if (says_nothing && waiting(*connection) >= kHeartbeatsBehind) return;
  const auto* error = std::get_if<wire::Error>(&message.body);
  if (error != nullptr && error->fatal) expelled_.emplace_back(to, "refused: " + error->message);
  if (!to.is_node()) {
    ReliableChannel& talk = channels_.with(to.shard());
    talk.says(message);
    if (talk.ack_overdue() && !follows()) expelled_.emplace_back(to, "it does not say what it has heard");
  }
  Status status = check_room(*connection);
  if (status.is_ok()) status = say(*connection, std::move(message));
  if (!status.is_ok()) cannot_send(to, status);
}

// Of those that are small: behind what the follower has to have first, and on their way.
std::int64_t ServerLoop::waiting(const wire::PeerId& connection) const {
  return router_->waiting(connection) + role_.waiting(connection);
}

// That a message more may wait for the peer. Other shards are ours: the decisions that wait for one are as
// many as it is behind.
Status ServerLoop::check_room(const wire::PeerId& connection) const {
  const std::int64_t waiting = this->waiting(connection);
  const std::int64_t floats = service_.shard() != nullptr ? service_.shard()->range().size() : 0;
  const std::int64_t most = unread_messages_max(config_.cluster, floats);
  if (waiting < most) return Status::ok();
  const std::optional<Peer> peer = membership_.who(connection);
  if (peer && !peer->is_node()) return Status::ok();
  return resource_exhausted("it does not read what it is sent: " + std::to_string(waiting) +
                            " messages wait for it, expected less than " + std::to_string(most));
}

// What was to leave at the end of a turn. Not to a follower: what it is told leaves at once.
void ServerLoop::not_sent(const wire::PeerId& connection, const Status& why) {
  if (ended_) return;
  const std::optional<Peer> peer = membership_.who(connection);
  const bool present = peer && !membership_.is_gone(*peer);
  present ? cannot_send(*peer, why) : log_.debug(why.message());
}

// Called from within handlers, so what follows waits for the next tick. A shard cannot tell whether a node
// whose connection broke had said all that it had to say to the authority, so there the lease tells.
void ServerLoop::cannot_send(Peer to, const Status& why) {
  if (!is_authority() && why.code() == StatusCode::kUnavailable) return;
  unreachable_.add(to, why, ticks(), to.is_node() ? given_to_come_back(shard_) : given_to_return());
}

void ServerLoop::check_unreachable(Ticks now) {
  const auto heard = [this](Peer peer, Ticks when) { return membership_.heard_since(peer, when); };
  for (const Unreachable::Entry& lost : unreachable_.take_lost(now, heard)) {
    lose(lost.peer, lost.why, now);
    if (lost.peer.is_node()) disconnect(lost.peer.node());  // what waits for it, or was lent to it, goes, too
  }
}

// The peer takes no further part, whether it knows that or not: it may go on talking.
void ServerLoop::lose(Peer peer, const std::string& why, Ticks now) {
  if (membership_.is_gone(peer)) return;
  if (forget_waiting(peer)) return log_.info(to_string(peer) + " is forgotten before its welcome: " + why);
  remove(peer);
  if (authority_) {
    note(peer, {.what = wire::LocalEvent::What::kLost, .text = why}, now);
    return authority_->lost(peer, why, now);
  }
  log_.warn(to_string(peer) + " lost: " + why);
  if (is_authority()) {
    if (!peer.is_node()) cannot_resume(unavailable(to_string(peer) + " was lost: " + why));
    return;
  }
  to_authority({wire::NodeLost{peer.node(), "shard " + to_string(shard_) + ": " + why,
                               membership_.incarnation_of(peer.node())},
                {}});
}

void ServerLoop::send_to(const wire::PeerId& connection, wire::Body body) {
  Status status = check_room(connection);
  if (status.is_ok()) status = say(connection, {std::move(body), {}});
  if (status.is_ok()) return;
  log_.debug(status.message());  // its peer is gone, or its lease will tell; but who does not read may talk
  const std::optional<Peer> peer = membership_.who(connection);
  if (peer && status.code() == StatusCode::kResourceExhausted) cannot_send(*peer, status);
}

// Its ZeroMQ connects anew, and what it then says is a stranger's.
void ServerLoop::disconnect(NodeId node) {
  const Status status = router_->disconnect(membership_.last_connection_of(Peer::of(node)));
  if (!status.is_ok()) log_.debug(to_string(Peer::of(node)) + ": " + status.message());
}

void ServerLoop::refuse(const wire::PeerId& to, const Status& why, bool fatal) {
  ++refused_;
  constexpr std::int64_t kRefusalsLogged = 100;  // a stranger must not fill the disk
  if (refused_ <= kRefusalsLogged) log_.warn("refused: " + why.message());
  send_to(to, wire::Error{why.code(), why.message(), fatal});
  const std::optional<Peer> peer = membership_.who(to);
  if (fatal && peer) expelled_.emplace_back(*peer, "refused: " + why.message());
}

void ServerLoop::schedule_tick() {
  timer_.expires_after(kTick);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error || ended_) return;
    on_tick();
    drain();
    if (!ended_) schedule_tick();
  });
}

void ServerLoop::on_tick() {
  if (follows()) return tick_following();
  look_at_etcd();
  if (ended_) return;
  // Who may not act judges nobody either; afterwards it is as if it had stood still.
  const Ticks now = ticks();
  if (replica_ && role_.served() && !acts()) {
    keep_out(now);
    look_for_stalls(now);
    if (is_shown() && now >= next_status_) show_status(now);
    return;
  }
  // Whoever was stopped (SIGSTOP, a suspended machine, a long apply) finds everybody's last message old.
  const Pause pause{now - last_tick_ - kTick, now};
  if (pause.length > kPauseAtLeast) {
    membership_.discount_pause(pause);
    for (LateJoin& comer : comers_) comer.asked = pause.forgiven(comer.asked);
    service_.discount_pause(pause);
    if (authority_) {
      note(Peer::of(shard_), {.what = wire::LocalEvent::What::kPause, .number = pause.length.count()}, now);
      authority_->discount_pause(pause);
    }
    role_.discount_pause(pause);
    authority_seen_ = pause.forgiven(authority_seen_);
    stalls_.discount_pause(pause);
    log_.debug("this process stood still for " + in_seconds(pause.length));
  }
  const auto since_last = now - std::exchange(last_tick_, now);
  keep_out(now);
  check_unreachable(now);
  look_after_follower(now);
  look_for_follower();
  if (now >= next_heartbeat_) heartbeat(now);
  if (role_.is_held_up(now)) {
    service_.discount_pause({since_last, now});  // nobody could take what has not left here
  } else {
    service_.tick(now);
  }
  check_leases(now);
  look_for_stalls(now);
  if (authority_) {
    // Before anybody is let in nothing comes of it.
    if (!role_.waits_for_follower()) note(Peer::of(shard_), {.what = wire::LocalEvent::What::kTick}, now);
    authority_->tick(now);
    authority_->note_progress(moved(), now);
  } else if (is_authority()) {
    check_resume(now);
  } else {
    check_authority(now);
  }
  // As training begins, too: it says that everybody is there.
  const bool begins = authority_ && authority_->training() && !training_shown_;
  if (is_shown() && (begins || now >= next_status_)) show_status(now);
}

// Whoever fills this process's memory with a message that does not end, or is not let in.
void ServerLoop::keep_out(Ticks now) {
  for (const std::string& line : router_->keep_out(now)) log_.warn("kept out " + line);
  std::vector<wire::PeerId> whose;
  const int broken = router_->break_unfinished(&whose);
  if (broken == 0) return;
  for (const wire::PeerId& connection : whose) {  // else it would come back over another one
    const std::optional<Peer> peer = membership_.who(connection);
    if (peer) expelled_.emplace_back(*peer, "refused: it sent a message without an end");
  }
  log_.warn("broke " + std::to_string(broken) + " connection" + (broken == 1 ? "" : "s") +
            " that sent a message without an end");
}

void ServerLoop::heartbeat(Ticks now) {
  next_heartbeat_ = now + config_.cluster.heartbeat;
  if (role_.follower()) tell_follower({wire::Heartbeat{}, {}});
  if (!acts()) return;  // nobody hears of this one before it serves
  for (const Peer peer : membership_.present()) say_heartbeat(peer, {});
  if (!dealer_ || (broken_ && !broken_->connected)) return;
  wire::Message beat{wire::Heartbeat{{}, moved(), channels_.authority().tell()}, {}};
  if (replica_) return role_.hold({}, std::move(beat), now);
  const Status status = dealer_->send(std::move(beat));
  if (!status.is_ok()) log_.debug(status.message());  // it is not there yet, or its lease will tell
}

void ServerLoop::say_heartbeat(Peer peer, wire::Heartbeat beat) {
  const wire::PeerId& connection = *membership_.connection_of(peer);
  if (is_elsewhere(connection)) return;
  Status status = check_room(connection);  // who has asked for too much need not ask again to be found
  if (status.is_ok()) {
    if (waiting(connection) >= kHeartbeatsBehind) return;
    if (peer.is_node()) {
      status = router_->send(connection, {std::move(beat), {}});
    } else {
      beat.heard = channels_.with(peer.shard()).tell();
      status = say(connection, {std::move(beat), {}});
    }
  }
  if (!status.is_ok()) cannot_send(peer, status);
}

// A node that talks to the authority alone is of no use, so every shard looks; the authority decides.
void ServerLoop::check_leases(Ticks now) {
  for (const Membership::Silence& silence : membership_.silent(now)) {
    // Who waits for us says nothing.
    const auto is_it = [&](const Waiting& one) { return Peer::of(one.join.node) == silence.peer; };
    if (std::any_of(waiting_.begin(), waiting_.end(), is_it)) continue;
    const bool returns = !silence.peer.is_node() || is_elsewhere(*membership_.connection_of(silence.peer));
    const bool may_return = returns && silence.silent <= given_to_return();
    if (may_return) continue;
    lose(silence.peer, "silent for " + in_seconds(silence.silent), now);
  }
}

void ServerLoop::check_authority(Ticks now) {
  const std::string who = "the authority (" + authority_endpoint() + ")";
  if (!welcomed_ && now - started_at_ > config_.cluster.start_timeout) {
    return end(
        deadline_exceeded(who + " has not answered within " + in_seconds(config_.cluster.start_timeout)));
  }
  const std::chrono::nanoseconds silent = now - authority_seen_;
  const bool has_replicas = config_.cluster.replicas > 1;
  if (over_ && silent > (has_replicas ? given_to_return() : given_to_come_back(kAuthority))) {
    return end(*over_);  // it may have gone, too
  }
  const bool is_missed = welcomed_ && silent > config_.cluster.lease;
  if (has_replicas && (!welcomed_ || silent <= given_to_return())) {
    const bool unanswered = !welcomed_ && now - started_at_ > wire::kAnswersWithin;
    if (is_missed || broken_ || unanswered) look_for_authority(now);
    return;
  }
  if (is_missed) end(unavailable(who + " was silent for " + in_seconds(silent)));
}

void ServerLoop::report_shard() {
  const wire::TrafficCounters& counted = router_->counters();
  wire::ShardReport report;
  report.shard = shard_;
  report.bytes_pushed = counted.push_bytes;
  report.bytes_pulled = counted.parameter_bytes;
  report.bytes_shared = counted.shared_bytes;
  report.pulls = service_.pulls();
  report.malformed = counted.malformed + service_.refused() + refused_;
  report.reconnects = reconnects_;
  log_.info("from and to nodes and shards " + std::to_string(counted.messages_received) +
            " messages came and " + std::to_string(counted.messages_sent) + " left");
  if (reconnects_ > 0) {
    log_.info("of nodes whose connections broke " + std::to_string(service_.repeated() + repeated_) +
              " messages came twice, and " + std::to_string(counted.too_late) +
              " were read too late, and dropped");
  }
  shard_port_.send(Peer::of(kAuthority), {report, {}});
}

// Whoever stops all servers at once (a service manager, a batch system) wants what the authority's stop
// saves, for which this shard has to be there. An authority that is gone, too, is silent for a lease at most.
void ServerLoop::ask_to_stop(const std::string& reason) {
  if (!welcomed_) return leave_authority(reason);
  to_authority({wire::StopRun{reason}, {}});
  log_.warn("stopping: " + reason + "; the authority ends the run for this shard, too");
}

void ServerLoop::leave_authority(const std::string& reason) { leave_with(aborted(reason)); }

void ServerLoop::leave(const std::string& reason) {
  boost::asio::post(io_, [this, reason] {
    if (ended_) return;
    follows() ? end(aborted(reason)) : leave_authority(reason);
  });
}

void ServerLoop::stop(const std::string& reason) {
  boost::asio::post(io_, [this, reason] {
    if (ended_) return;
    if (follows()) return end(aborted(reason));
    const bool has_begun = is_authority() ? authority_.has_value() : welcomed_;
    if (hands_over_ || (authority_ && authority_->hands_over()))
      return;  // the next one is told, too (main.cc)
    if (options_.role == ServerOptions::Role::kGoesOn && !has_begun) {
      is_to_stop_ = reason;  // once it knows the others, which are to stop as well
      return;
    }
    if (is_authority() && !authority_) return cannot_resume(aborted(reason));
    if (authority_) {
      const Ticks now = ticks();
      note(Peer::of(shard_), {.what = wire::LocalEvent::What::kStop, .text = reason}, now);
      authority_->stop(reason, now);
    } else {
      ask_to_stop(reason);
    }
    drain();
  });
}

void ServerLoop::save_checkpoint() {
  boost::asio::post(io_, [this] {
    if (ended_) return;
    if (!authority_ || follows()) {
      const bool waits = is_authority() && !follows();
      return log_.warn(std::string("asked for a checkpoint: ") +
                       (waits ? "the run has not gone on yet"
                              : "the server that serves shard 0 is to be asked, all shards save with it"));
    }
    note(Peer::of(shard_), {.what = wire::LocalEvent::What::kSave}, ticks());
    authority_->save_checkpoint();
    drain();
  });
}

// What is queued still leaves: the sockets linger.
void ServerLoop::end(Status result) {
  if (ended_) return;
  ended_ = true;
  for (const std::string& line : stalls_.look({}, ticks())) log_.info(line);
  result_ = over_ ? *over_ : std::move(result);  // what it could not say any more changes nothing
  const bool serves_authority = authority_ && !follows();
  if (serves_authority) hands_over_ = authority_->over() && authority_->hands_over();
  if (replica_ && replica_->deposed) hands_over_ = false;
  if (hands_over_ || returns_) {
    restart_request_ =
        RestartRequest{.serves = !follows(),
                       .expects_follower = replica_ && (role_.follower() || replica_->is_asked),
                       .returns = returns_,
                       .has_followed = returns_ && replica_->election->leader_lease().was_complete()};
  }
  if (is_shown()) show_status(ticks());
  display_.end();
  const bool is_said = is_authority() && (!replica_ || (authority_ && authority_->over()));
  if (!is_said && !result_.is_ok())
    restart_request_ ? log_.info(result_.message()) : log_.error(result_.message());
  timer_.cancel();
  rejoin_timer_.cancel();
  if (const std::int64_t kept_out = router_->counters().kept_out; kept_out > 0) {
    log_.info("connections that were kept out: " + std::to_string(kept_out));
  }
  if (dealer_) dealer_->close();
  if (replica_) return end_replica();
  router_->close();
  io_.stop();
}

}  // namespace paceline::server
