#include "server/shards/authority_link.h"

#include <boost/asio/post.hpp>

#include "common/config/load.h"
#include "common/wire/reconnect_pause.h"
#include "server/peers/reconnects.h"
#include "server/run/seconds_text.h"

namespace paceline::server {

AuthorityLink::AuthorityLink(boost::asio::io_context& io, const ServerSetup& setup, const RunClock& clock,
                             EndOfRun& end, ReplicaRole& role, ServerChannels& channels,
                             const RunGeneration& generation)
    : io_(io),
      setup_(setup),
      clock_(clock),
      end_(end),
      role_(role),
      channels_(channels),
      generation_(generation),
      timer_(io) {}

void AuthorityLink::use(wire::Context& context, Handler handler, std::vector<wire::IntactFile> intact) {
  context_ = &context;
  handler_ = std::move(handler);
  intact_ = std::move(intact);
  seen_ = clock_.now();
}

std::string AuthorityLink::endpoint() const {
  const std::vector<std::string> endpoints = setup_.config.cluster.endpoints_of(kAuthority.value);
  return endpoints[at_ % endpoints.size()];
}

// ---- its connections

Status AuthorityLink::connect() {
  wire::TransportOptions options;
  options.on_denied = [this](const Status& why) { on_denied(why); };
  const std::int64_t number = ++connection_;
  options.on_broken = [this, number] { boost::asio::post(io_, [this, number] { on_broken(number); }); };
  if (!setup_.config.security.keys.empty() && keys_ == nullptr) {
    PACELINE_ASSIGN_OR_RETURN(wire::ClientKeys keys, wire::read_shard_keys(setup_.config.security.keys));
    keys_ = std::make_shared<const wire::ClientKeys>(std::move(keys));
  }
  options.client_keys = keys_;
  PACELINE_ASSIGN_OR_RETURN(dealer_,
                            wire::DealerSocket::connect(*context_, io_, endpoint(), options, handler_));
  wire::ShardJoin join{.shard = setup_.shard,
                       .config_fingerprint = setup_.fingerprint,
                       .resumes = generation_.resumes,
                       .intact = intact_,
                       .incarnation = generation_.incarnation,
                       .goes_on = welcomed_ ? generation_.number : 0,
                       .connection = number,
                       .acked = channels_.authority().ack(),
                       .settings = settings(setup_.config)};
  return dealer_->send({std::move(join), {}});
}

void AuthorityLink::take_over(std::uint64_t term) {
  seen_ = clock_.now();
  connection_ = static_cast<std::int64_t>(term) << 32;
  broken_.emplace();
  connect_again();
}

// Nothing has been heard of it: another replica may serve by now, and none of them may yet.
void AuthorityLink::find_serving(Ticks now) {
  if (!broken_) return on_broken(connection_);
  if (broken_->connected && now - broken_->asked > wire::kAnswersWithin) connect_again();
}

// What came over it has been handled. ZeroMQ itself would connect anew, but what is queued would then leave
// before the join, as a stranger's.
void AuthorityLink::on_broken(std::int64_t connection) {
  if (end_.ended() || connection != connection_ || (broken_ && !broken_->connected)) return;
  // An authority that has failed waits for nobody; one that reconfigures does.
  if (end_.result_of_run() && !end_.result_of_run()->is_ok() && !end_.reconfigures())
    return end_.end(*end_.result_of_run());
  if (!broken_) {
    broken_.emplace();
    if (++breaks_ <= kReconnectsLogged) {
      setup_.log.info("the connection to the authority broke; joining it again over another one");
    }
  }
  connect_again();
}

void AuthorityLink::connect_again() {
  broken_->connected = false;
  connect_in(wire::reconnect_pause(broken_->attempts));
}

void AuthorityLink::connect_in(std::chrono::milliseconds pause) {
  timer_.expires_after(pause);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error || end_.ended() || !broken_) return;
    if (!role_.all_is_held())
      return connect_in(std::chrono::milliseconds(5));  // the join says what was heard
    if (dealer_) dealer_->close(wire::DealerSocket::Queued::kIsDropped);
    broken_->connected = true;
    broken_->asked = clock_.now();
    if (broken_->attempts++ > 0) ++at_;
    if (const Status asked = connect(); !asked.is_ok()) {
      setup_.log.warn("no connection to the authority: " + asked.message());
      connect_again();
    }
  });
}

void AuthorityLink::on_denied(const Status& why) {
  if (end_.ended()) return;
  const Status status = Status(why).with_context("the authority (" + endpoint() + ")");
  if (!welcomed_) return end_.end(status);
  setup_.log.warn(status.message());
}

void AuthorityLink::close() {
  timer_.cancel();
  if (dealer_) dealer_->close();
}

// ---- what comes

AuthorityLink::Received AuthorityLink::on_message(Result<wire::Message> message) {
  Received what;
  if (end_.ended() || (broken_ && !broken_->connected)) return what;
  if (!broken_) seen_ = clock_.now();  // else it may be another one, until it has welcomed this shard
  if (!message.is_ok()) {
    end_.end(message.status());
    return what;
  }
  const wire::Body& body = message->body;
  if (std::holds_alternative<wire::RunOver>(body)) {
    role_.note(wire::LogEntry::As::kToShard, Peer::of(kAuthority), body, {}, clock_.now());
  }
  what.ack_due = channels_.authority().on_receive(*message);
  if (const auto* beat = std::get_if<wire::Heartbeat>(&body)) {
    if (welcomed_) on_ack(beat->acked);  // before its welcome it may be another authority's yet
  } else if (const auto* welcome = std::get_if<wire::ShardWelcome>(&body)) {
    if (on_welcome(*welcome)) what.welcome = *welcome;
  } else if (const auto* error = std::get_if<wire::Error>(&body)) {
    what.refused = on_error(*error);
  } else {
    what.message = *std::move(message);
  }
  return what;
}

void AuthorityLink::acknowledge(const Received& what, const Traffic& moved) {
  if (what.ack_due && !end_.ended()) send({wire::Heartbeat{{}, moved, channels_.authority().ack()}, {}});
  end_if_acked();
}

void AuthorityLink::on_ack(std::int64_t count) {
  role_.note(Peer::of(kAuthority), {.what = wire::LocalEvent::What::kAcked, .number = count}, clock_.now());
  const Status acked = channels_.authority().on_ack(count);
  if (!acked.is_ok()) end_.end(Status(acked).with_context("from the authority"));
}

bool AuthorityLink::on_welcome(const wire::ShardWelcome& welcome) {
  const bool first = !std::exchange(welcomed_, true);
  on_ack(welcome.acked);
  if (end_.ended()) return false;
  seen_ = clock_.now();
  if (std::exchange(broken_, std::nullopt)) {
    const ReliableChannel& channel = channels_.authority();
    if (breaks_ <= kReconnectsLogged) {
      setup_.log.info("the authority has welcomed this shard over another connection: " +
                      retransmitted(channel, breaks_));
    }
    role_.drop(EventLog::To::authority());
    for (const wire::Message& message : channel.unacked()) {
      if (role_.has_other()) {
        role_.hold(EventLog::To::authority(), message, clock_.now());
        continue;
      }
      if (const Status sent = dealer_->send(message); !sent.is_ok()) {
        end_.end(sent);
        return false;
      }
    }
  }
  if (first) setup_.log.info("joined the authority at " + endpoint());
  return first;
}

std::optional<Status> AuthorityLink::on_error(const wire::Error& error) {
  const Status status(error.code, "the authority refuses " + setup_.name() + ": " + error.message);
  // It may know this shard, but not this connection; it may follow another, or not serve yet.
  const bool unknown = error.code == StatusCode::kNotFound;
  const bool follows_another = !error.fatal && error.code == StatusCode::kUnavailable;
  if (error.fatal && unknown) {
    on_broken(connection_);
  } else if (follows_another && broken_) {
    connect_again();
  } else if (follows_another && !welcomed_) {
    on_broken(connection_);
  } else if (error.fatal) {
    end_.end(status);
  } else {
    setup_.log.warn(status.message());
    return status;
  }
  return std::nullopt;
}

// ---- what is said

void AuthorityLink::send(wire::Message message) {
  channels_.authority().on_send(message);
  if (ReliableChannel::counts(message.body, ReliableChannel::End::kShard)) {
    role_.note(wire::LogEntry::As::kSent, Peer::of(setup_.shard), message.body, message.payload,
               clock_.now());
  }
  if (broken_) return;
  if (role_.has_other()) return role_.hold(EventLog::To::authority(), std::move(message), clock_.now());
  send_released_output(std::move(message));
}

// While the connection is broken it is not: it is said again over the next one.
void AuthorityLink::send_released_output(wire::Message message) {
  const Status sent = broken_ ? Status::ok() : dealer_->send(std::move(message));
  if (!sent.is_ok()) end_.end(Status(sent).with_context("to the authority"));
}

void AuthorityLink::heartbeat(const Traffic& moved) {
  if (!dealer_ || (broken_ && !broken_->connected)) return;
  wire::Message beat{wire::Heartbeat{{}, moved, channels_.authority().ack()}, {}};
  if (role_.has_other()) return role_.hold(EventLog::To::authority(), std::move(beat), clock_.now());
  const Status status = dealer_->send(std::move(beat));
  if (!status.is_ok()) setup_.log.debug(status.message());  // it is not there yet, or its lease will tell
}

void AuthorityLink::leave_with(const Status& why) {
  const bool may_go_on = role_.has_other() && !(role_.acts() && role_.serves_alone());  // the other replica
  if (may_go_on || !dealer_) return end_.end(why);
  const wire::Message leave{wire::Leave{why.message()}, {}};
  channels_.authority().on_send(leave);
  const Status sent = broken_ ? Status::ok() : dealer_->send(leave);
  if (!sent.is_ok()) setup_.log.warn("to the authority: " + sent.message());
  end_.end(why);
}

void AuthorityLink::ask_to_stop(const std::string& reason) {
  if (!welcomed_) return leave_with(aborted(reason));
  send({wire::StopRun{reason}, {}});
  setup_.log.warn("stopping: " + reason + "; the authority ends the run for this shard, too");
}

void AuthorityLink::end_if_acked() {
  if (end_.result_of_run() && channels_.authority().unacked().empty() && !role_.follows())
    end_.end(*end_.result_of_run());
}

void AuthorityLink::check(Ticks now, std::chrono::nanoseconds reconnects_within) {
  const ClusterSection& cluster = setup_.config.cluster;
  const std::string who = "the authority (" + endpoint() + ")";
  const std::chrono::nanoseconds up = now - clock_.began_at();
  if (!welcomed_ && up > cluster.start_timeout) {
    return end_.end(
        deadline_exceeded(who + " has not answered within " + seconds_text(cluster.start_timeout)));
  }
  const std::chrono::nanoseconds silent = now - seen_;
  const bool has_replicas = cluster.replicas > 1;
  const std::chrono::nanoseconds to_return = wire::kLeasesToTakeOver * cluster.lease;
  if (end_.result_of_run() && silent > (has_replicas ? to_return : reconnects_within)) {
    return end_.end(*end_.result_of_run());  // it may have gone, too
  }
  const bool is_missed = welcomed_ && silent > cluster.lease;
  if (has_replicas && (!welcomed_ || silent <= to_return)) {
    const bool unanswered = !welcomed_ && up > wire::kAnswersWithin;
    if (is_missed || broken_ || unanswered) find_serving(now);
    return;
  }
  if (is_missed) end_.end(unavailable(who + " was silent for " + seconds_text(silent)));
}

}  // namespace paceline::server
