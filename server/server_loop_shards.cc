// The authority and the other shards: how these join, what they say to each other (reliable_channel.h), and how a
// shard goes on over another connection where the one before broke while both live. A shard that does not
// come back is lost, as one that is silent for a lease.
#include <boost/asio/post.hpp>
#include <utility>

#include "common/config/load.h"
#include "common/ticks.h"
#include "common/wire/reconnect_pause.h"
#include "server/server_loop.h"

namespace paceline::server {
// ---- at the authority

// A shard says it once over a connection, and what it says a second time is not answered.
bool ServerLoop::count_rejected_join(const wire::PeerId& from, const wire::ShardJoin& join) {
  const std::optional<Peer> known = membership_.who(from);
  if (!known) return false;  // counted if it is refused
  const bool present = !membership_.is_gone(*known);
  const bool broken = router_->joined_in_vain(from);
  if (broken && present) expelled_.emplace_back(*known, "refused: it went on joining");
  return broken || (present && *known == Peer::of(join.shard));
}

void ServerLoop::on_shard_join(const wire::PeerId& from, const wire::ShardJoin& join, Ticks now) {
  if (count_rejected_join(from, join)) return;
  // Of one that has begun anew; the one before may yet have to hear that it is to.
  if (authority_ && authority_->hands_over() && join.goes_on != generation_) {
    return send_to(from, wire::Error{StatusCode::kUnavailable, "the authority is about to go on", false});
  }
  if (!is_authority()) {
    return refuse_join(from, failed_precondition("shard " + to_string(join.shard) + " joined shard " +
                                                 to_string(shard_) + ", which is not the authority"));
  }
  const std::string key = router_->key_name();
  const Status own_key = check_key(wire::may_be_server(key), "shard " + to_string(join.shard));
  if (!own_key.is_ok()) return refuse_join(from, own_key);
  if (join.goes_on != 0 || membership_.is_here(join)) return on_shard_rejoin(from, join, now);
  Status status;
  if (join.protocol_version == wire::kProtocolVersion && join.resumes != resumes_) {
    status = failed_precondition(
        "shard " + to_string(join.shard) + " was started " +
        (join.resumes ? "with --resume, the authority without" : "without --resume, the authority with it"));
  } else {
    status = membership_.admit(join, from, now);
  }
  if (!status.is_ok()) {
    const bool ours = authority_ && join.shard.value < config_.cluster.shards;
    if (ours) authority_->join_refused(Peer::of(join.shard), status.message());
    return refuse_join(from, status);
  }
  router_->remember(from);
  note(wire::LogEntry::As::kAdmission, Peer::of(join.shard), join, {}, now);
  channels_.begin(join.shard);
  if (resumes_) return on_resuming_shard(from, join, now);
  send_to(from, wire::ShardWelcome{generation_, {}, 0});
  authority_->shard_joined(join.shard);
}

// For the log, of the `times`-th time.
std::string ServerLoop::said_again(const ReliableChannel& talk, std::int64_t times) {
  const std::size_t count = talk.unacked().size();
  return std::to_string(count) + (count == 1 ? " message is" : " messages are") + " said again" +
         (times == kReconnectsLogged ? "; what else breaks of it is counted, not logged" : "");
}

// One that says nothing of going on had not heard its welcome, or waits for it: the checkpoint is not chosen
// yet.
void ServerLoop::on_shard_rejoin(const wire::PeerId& from, const wire::ShardJoin& join, Ticks now) {
  const Peer shard = Peer::of(join.shard);
  const bool other_run = join.goes_on != 0 && (!authority_ || join.goes_on != generation_);
  if (other_run || !membership_.is_here(join)) {
    return refuse_join(from, failed_precondition(to_string(shard) + " has gone from this run"));
  }
  if (membership_.is_behind(join)) return router_->give_up(from);  // it has gone, and was read late
  const wire::PeerId before = *membership_.connection_of(shard);
  Status moved = unreachable_.dropped(shard);
  if (moved.is_ok()) moved = channels_.with(join.shard).on_ack(join.heard);
  if (moved.is_ok()) moved = membership_.go_on(join, from, now);
  if (!moved.is_ok()) {
    expelled_.emplace_back(shard, moved.message());
    return refuse_join(from, moved);
  }
  note(wire::LogEntry::As::kReturn, shard, join, {}, now);
  role_.drop(before);
  router_->give_up(before);
  unreachable_.forget(shard);
  router_->remember(from);
  ++reconnects_;
  if (membership_.moves_of(shard) <= kReconnectsLogged) {
    log_.warn(to_string(shard) + "'s connection to the authority broke, and it goes on over another one: " +
              said_again(channels_.with(join.shard), membership_.moves_of(shard)));
  }
  if (!authority_) return;
  send_to(from, wire::ShardWelcome{generation_, resume_point_, channels_.with(join.shard).tell()});
  for (const wire::Message& message : channels_.with(join.shard).unacked()) {
    const Status said = say(from, message);
    if (!said.is_ok()) return cannot_send(shard, said);
  }
}

void ServerLoop::on_shard(Peer from, const wire::Message& message, Ticks now) {
  const bool tells = channels_.with(from.shard()).hears(message);
  if (!authority_) {
    if (tells) tell_heard(from);
    if (const auto* leave = std::get_if<wire::Leave>(&message.body)) {
      return cannot_resume(unavailable(to_string(from) + " has left: " + leave->fault));
    }
    if (const auto* asked = std::get_if<wire::StopRun>(&message.body)) {
      return cannot_resume(aborted(to_string(from) + ": " + asked->reason));
    }
    if (const auto* lost = std::get_if<wire::NodeLost>(&message.body)) {
      if (lost->node.value < config_.cluster.nodes) remove(Peer::of(lost->node));
    }
    return;
  }
  note(wire::LogEntry::As::kToAuthority, from, message.body, message.payload, now);
  const Status status = authority_->handle(from, message, now);
  if (!status.is_ok()) refuse(*membership_.connection_of(from), status, /*fatal=*/false);
  if (tells) tell_heard(from);  // behind the event that it is
}

void ServerLoop::tell_heard(Peer shard) {
  const wire::PeerId* connection = membership_.connection_of(shard);
  if (connection != nullptr) send_to(*connection, wire::Heartbeat{{}, {}, channels_.with(shard.shard()).tell()});
}

// ---- at another shard

Status ServerLoop::connect_to_authority(wire::Context& context) {
  wire::TransportOptions options;
  options.on_denied = [this](const Status& why) { on_denied(why); };
  const std::int64_t number = ++connection_;
  options.on_broken = [this, number] {
    boost::asio::post(io_, [this, number] { on_authority_broken(number); });
  };
  if (!config_.security.keys.empty() && client_keys_ == nullptr) {
    PACELINE_ASSIGN_OR_RETURN(wire::ClientKeys keys, wire::read_shard_keys(config_.security.keys));
    client_keys_ = std::make_shared<const wire::ClientKeys>(std::move(keys));
  }
  options.client_keys = client_keys_;
  PACELINE_ASSIGN_OR_RETURN(dealer_, wire::DealerSocket::connect(context, io_, authority_endpoint(), options,
                                                                 [this](Result<wire::Message> message) {
                                                                   on_dealer(std::move(message));
                                                                   drain();
                                                                 }));
  wire::ShardJoin join{.shard = shard_,
                       .config_fingerprint = fingerprint_,
                       .resumes = resumes_,
                       .intact = own_files_.intact,
                       .incarnation = incarnation_,
                       .goes_on = welcomed_ ? generation_ : 0,
                       .connection = number,
                       .heard = channels_.authority().tell(),
                       .settings = settings(config_)};
  return dealer_->send({std::move(join), {}});
}

std::string ServerLoop::authority_endpoint() const {
  const std::vector<std::string> endpoints = config_.cluster.endpoints_of(kAuthority.value);
  return endpoints[authority_at_ % endpoints.size()];
}

// Nothing has been heard of it: another replica may serve by now, and none of them may yet.
void ServerLoop::look_for_authority(Ticks now) {
  if (!broken_) return on_authority_broken(connection_);
  if (broken_->connected && now - broken_->asked > wire::kAnswersWithin) connect_again();
}

// What came over it has been handled. ZeroMQ itself would connect anew, but what is queued would then leave
// before the join, as a stranger's.
void ServerLoop::on_authority_broken(std::int64_t connection) {
  if (ended_ || connection != connection_ || (broken_ && !broken_->connected)) return;
  // An authority that has failed waits for nobody; one that hands over does.
  if (over_ && !over_->is_ok() && !hands_over_) return end(*over_);
  if (!broken_) {
    broken_.emplace();
    if (++authority_breaks_ <= kReconnectsLogged) {
      log_.info("the connection to the authority broke; joining it again over another one");
    }
  }
  connect_again();
}

void ServerLoop::connect_again() {
  broken_->connected = false;
  connect_in(wire::reconnect_pause(broken_->attempts));
}

void ServerLoop::connect_in(std::chrono::milliseconds pause) {
  rejoin_timer_.expires_after(pause);
  rejoin_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error || ended_ || !broken_) return;
    if (!role_.all_is_held()) return connect_in(std::chrono::milliseconds(5));  // the join says what was heard
    if (dealer_) dealer_->close(wire::DealerSocket::Queued::kIsDropped);
    broken_->connected = true;
    broken_->asked = ticks();
    if (broken_->attempts++ > 0) ++authority_at_;
    if (const Status asked = connect_to_authority(*context_); !asked.is_ok()) {
      log_.warn("no connection to the authority: " + asked.message());
      connect_again();
    }
  });
}

void ServerLoop::on_denied(const Status& why) {
  if (ended_) return;
  const Status status = Status(why).with_context("the authority (" + authority_endpoint() + ")");
  if (!welcomed_) return end(status);
  log_.warn(status.message());
}

void ServerLoop::on_dealer(Result<wire::Message> message) {
  if (ended_ || (broken_ && !broken_->connected)) return;
  if (!broken_) authority_seen_ = ticks();  // else it may be another one, until it has welcomed this shard
  if (!message.is_ok()) return end(message.status());
  if (ReliableChannel::counts(message->body, ReliableChannel::End::kAuthority) &&
      std::holds_alternative<wire::RunOver>(message->body)) {
    note(wire::LogEntry::As::kToShard, Peer::of(kAuthority), message->body, {}, ticks());
  }
  const bool tells = channels_.authority().hears(*message);
  const wire::Body& body = message->body;
  if (const auto* beat = std::get_if<wire::Heartbeat>(&body)) {
    // Before its welcome it may be another authority's yet.
    if (welcomed_)
      note(Peer::of(kAuthority), {.what = wire::LocalEvent::What::kHeard, .number = beat->heard}, ticks());
    const Status heard = welcomed_ ? channels_.authority().on_ack(beat->heard) : Status::ok();
    if (!heard.is_ok()) end(Status(heard).with_context("from the authority"));
  } else if (const auto* welcome = std::get_if<wire::ShardWelcome>(&body)) {
    on_shard_welcome(*welcome);
  } else if (const auto* over = std::get_if<wire::RunOver>(&body)) {
    run_over(*over);
  } else if (const auto* error = std::get_if<wire::Error>(&body)) {
    on_authority_error(*error);
  } else {
    to_service(Peer::of(kAuthority), std::move(*message));
  }
  if (tells && !ended_) to_authority({wire::Heartbeat{{}, moved(), channels_.authority().tell()}, {}});
  end_if_heard();
}

void ServerLoop::on_shard_welcome(const wire::ShardWelcome& welcome) {
  const bool first = !std::exchange(welcomed_, true);
  note(Peer::of(kAuthority), {.what = wire::LocalEvent::What::kHeard, .number = welcome.heard}, ticks());
  if (const Status heard = channels_.authority().on_ack(welcome.heard); !heard.is_ok()) {
    return end(Status(heard).with_context("from the authority"));
  }
  authority_seen_ = ticks();
  if (std::exchange(broken_, std::nullopt)) {
    if (authority_breaks_ <= kReconnectsLogged) {
      log_.info("the authority has welcomed this shard over another connection: " +
                said_again(channels_.authority(), authority_breaks_));
    }
    role_.drop({});
    for (const wire::Message& message : channels_.authority().unacked()) {
      if (replica_) {
        role_.hold({}, message, ticks());
        continue;
      }
      if (const Status said = dealer_->send(message); !said.is_ok()) return end(said);
    }
  }
  if (!first) return;
  log_.info("joined the authority at " + authority_endpoint());
  if (!resumes_) return shard_checkpoints_.forget_all();
  if (welcome.resume_from) go_on_from(*welcome.resume_from, welcome.generation);
  if (!is_to_stop_.empty()) ask_to_stop(is_to_stop_);
}

void ServerLoop::on_authority_error(const wire::Error& error) {
  const Status status(error.code, "the authority refuses shard " + to_string(shard_) + ": " + error.message);
  const bool unknown =
      error.code == StatusCode::kNotFound;  // it may know this shard, but not this connection
  if (error.fatal && unknown) return on_authority_broken(connection_);
  const bool follows_another =
      !error.fatal && error.code == StatusCode::kUnavailable;  // or does not serve yet
  if (follows_another && broken_) return connect_again();
  if (follows_another && !welcomed_) return on_authority_broken(connection_);
  if (error.fatal) return end(status);
  const bool of_hand_over = replica_ && replica_->asked_for_hand_over;
  if (of_hand_over && error.code == StatusCode::kFailedPrecondition) replica_->refused = status;
  log_.warn(status.message());
}

// The run is over, and the authority has this shard's last word.
void ServerLoop::end_if_heard() {
  if (over_ && channels_.authority().unacked().empty() && !follows()) end(*over_);
}

void ServerLoop::to_authority(wire::Message message) {
  channels_.authority().says(message);
  if (ReliableChannel::counts(message.body, ReliableChannel::End::kShard)) {
    note(wire::LogEntry::As::kSaid, Peer::of(shard_), message.body, message.payload, ticks());
  }
  if (broken_) return;
  if (replica_) return role_.hold({}, std::move(message), ticks());
  const Status said = dealer_->send(std::move(message));
  if (!said.is_ok()) end(Status(said).with_context("to the authority"));
}

// Ends with `why`, whether the authority hears it or not.
void ServerLoop::leave_with(const Status& why) {
  const bool may_go_on = replica_ && !(acts() && role_.serves_alone());  // with the other replica
  if (may_go_on || !dealer_) return end(why);
  const wire::Message leave{wire::Leave{why.message()}, {}};
  channels_.authority().says(leave);
  const Status said = broken_ ? Status::ok() : dealer_->send(leave);
  if (!said.is_ok()) log_.warn("to the authority: " + said.message());
  end(why);
}

}  // namespace paceline::server
