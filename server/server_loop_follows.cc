// A shard's replica that follows: it does with its shard, and its authority, what the one that serves did
// with its own, event by event, and says nothing. Where etcd gives the shard to it, it goes on from there, in
// the same generation: its peers come back over other connections (server_loop_rejoin.cc), and to them it is
// the process that they knew.
//
//   ReplicaJoin   ->  the one that serves; where that has been resumed, it gives its checkpoint's files first
//                     (server/replicas/checkpoint_pull.h)
//                 <-  ReplicaWelcome, then all that has happened, turn by turn
//   LogAck{n}    ->  after each turn
//
// A turn is what one message, or one moment, has led to: half of one is nothing.
#include <bit>
#include <boost/asio/post.hpp>
#include <utility>

#include "common/config/load.h"
#include "common/ticks.h"
#include "common/wire/reconnect_pause.h"
#include "server/server_loop.h"

namespace paceline::server {

using As = wire::LogEntry::As;
using What = wire::LocalEvent::What;

Status ServerLoop::follow(wire::Context& context) {
  const std::string endpoint = other_endpoint();
  wire::TransportOptions options;
  options.on_denied = [this](const Status& why) {
    if (!ended_ && !role_.is_welcomed()) end(Status(why).with_context("the replica that serves"));
  };
  options.on_broken = [this] { boost::asio::post(io_, [this] { on_serving_broken(); }); };
  if (!config_.security.keys.empty()) {
    PACELINE_ASSIGN_OR_RETURN(wire::ClientKeys keys, wire::read_shard_keys(config_.security.keys));
    options.client_keys = std::make_shared<const wire::ClientKeys>(std::move(keys));
  }
  PACELINE_ASSIGN_OR_RETURN(
      replica_->serving,
      wire::DealerSocket::connect(context, io_, endpoint, options, [this](Result<wire::Message> message) {
        if (!ended_) on_serving(std::move(message));
      }));
  log_.info("shard " + to_string(shard_) + ": this replica follows " + endpoint);
  replica_->heard = steady_now() + options_.asks_after;
  next_heartbeat_ = replica_->heard + config_.cluster.heartbeat;
  return options_.asks_after.count() > 0 ? Status::ok() : ask_to_follow();
}

Status ServerLoop::ask_to_follow() {
  return replica_->serving->send({wire::ReplicaJoin{wire::kProtocolVersion, shard_, fingerprint_,
                                                    replica_->incarnation, replica_->has, settings(config_)},
                                  {}});
}

// The one that serves goes on without this one, which lives: the connection between them broke, or it was
// slow. What it has is of no use any more. It comes back as one that is started again does.
void ServerLoop::come_back(const std::string& why) {
  const std::string what = "this replica of shard " + to_string(shard_) + " " + why;
  if (!replica_->fault.is_ok() || !can_hand_over(config_).is_ok()) {
    return end(failed_precondition(what + "; start it again"));
  }
  // Where it is being handed over the one that serves has left this one out only because it goes.
  hands_over_ = hands_over_ || (authority_ && authority_->hands_over());
  returns_ = !hands_over_;
  if (returns_) log_.warn(what + "; it comes back, for which the run is handed over");
  end(unavailable(what));
}

// The run is over, and the last word of the one that served has not come.
void ServerLoop::end_unheard() {
  if (authority_ && authority_->over()) return end(authority_->result());
  if (over_) return end(*over_);
  end(unavailable("the run is over, and this replica of shard " + to_string(shard_) +
                  " was lost before it had all of it: the files are with the one that served"));
}

// What it has not told nobody else has heard either. Whether it is gone etcd knows.
void ServerLoop::on_serving_broken() {
  if (ended_ || !role_.follows()) return;
  if (!role_.is_welcomed()) return replica_->pull.reset();  // it is asked again, and gives it from the start
  if (std::exchange(replica_->broken, true)) return;
  log_.info("the connection to the replica that serves shard " + to_string(shard_) + " broke after event " +
            std::to_string(role_.applied()));
}

void ServerLoop::on_serving(Result<wire::Message> message) {
  if (!role_.follows() || replica_->broken) return;
  replica_->heard = steady_now();
  if (!message.is_ok()) return end(Status(message.status()).with_context("from the replica that serves"));
  if (message->logged) return on_event(*std::move(message));
  if (const auto* resumes = std::get_if<wire::ReplicaResumes>(&message->body)) {
    on_resumes(*resumes);
  } else if (const auto* piece = std::get_if<wire::FilePiece>(&message->body)) {
    if (!replica_->pull) return;
    const Status written = replica_->pull->on(*piece, message->payload);
    if (!written.is_ok()) return end(Status(written).with_context("the checkpoint to go on from"));
    pull_more();
  } else if (const auto* welcome = std::get_if<wire::ReplicaWelcome>(&message->body)) {
    const Status begun = begin_following(*welcome);
    if (!begun.is_ok()) return end(begun);
    tell_held();  // there may be nothing yet
  } else if (const auto* error = std::get_if<wire::Error>(&message->body)) {
    const Status why(error->code, "the replica that serves: " + error->message);
    // One that does not serve yet, or cannot be followed just now, is asked again.
    error->fatal ? end(why) : log_.debug(why.message());
  } else if (const auto* over = std::get_if<wire::RunOver>(&message->body)) {
    hands_over_ = over->hands_over;
    end(Status(over->code, over->message));
  }
}

Status ServerLoop::begin_following(const wire::ReplicaWelcome& welcome) {
  if (!role_.welcomed()) return Status::ok();
  next_heartbeat_ = steady_now();
  generation_ = welcome.generation;
  incarnation_ = welcome.incarnation;
  resumes_ = replica_->has.has_value();
  if (resumes_) return Status::ok();  // from kResumed on there is something
  if (!is_authority()) {
    shard_checkpoints_.forget_all();
    return Status::ok();
  }
  PACELINE_ASSIGN_OR_RETURN(RunRecord record, RunRecord::open(config_, log_));
  authority_.emplace(config_, std::move(record), authority_port_, replica_->background, log_,
                     Ticks(welcome.began));
  return Status::ok();
}

void ServerLoop::on_event(wire::Message event) {
  Result<std::vector<wire::Message>> turn = role_.on_event(std::move(event));
  if (!turn.is_ok()) return end(turn.status());
  if (turn->empty()) return;
  for (wire::Message& each : *turn) {
    const Ticks at(each.logged->at);
    shift_ = at - steady_now();
    last_tick_ = at;
    apply(std::move(each), at);
    role_.applied_one();
    drain();
    if (ended_) return;
  }
  if (!replica_->fault.is_ok()) return end(in_another_state(replica_->fault));
  tell_held();
}

// What this server's own device has broken down with is not that.
Status ServerLoop::in_another_state(Status why) const {
  if (!service_.status().is_ok()) return service_.status();
  return std::move(why).with_context("this replica has come to another state");
}

void ServerLoop::tell_held() {
  const Status said = replica_->serving->send({wire::LogAck{role_.applied()}, {}});
  if (!said.is_ok()) log_.debug(said.message());  // it is gone, and on_serving_broken() comes
}

void ServerLoop::apply(wire::Message event, Ticks at) {
  const wire::LogEntry logged = *std::exchange(event.logged, std::nullopt);
  const Peer who = logged.node ? Peer::of(*logged.node) : Peer::of(logged.shard.value_or(shard_));
  const bool known =
      who.is_node() ? who.node().value < config_.cluster.nodes : who.shard().value < config_.cluster.shards;
  if (!known) return end(data_loss("an event of " + to_string(who) + ", which the run has not"));
  channels_.follow(logged, event);
  Status status = Status::ok();
  switch (logged.as) {
    case As::kHappened:
      if (const auto* happened = std::get_if<wire::LocalEvent>(&event.body)) apply(who, *happened, at);
      break;
    case As::kAdmission:
    case As::kReturn:
      status = apply_join(who, event.body, logged.as == As::kReturn, at);
      break;
    case As::kToShard:
      if (!who.is_node() && !is_authority()) {
        welcomed_ = true;
        if (const auto* over = std::get_if<wire::RunOver>(&event.body)) return run_over(*over);
      }
      to_service(who, std::move(event));
      break;
    case As::kToAuthority:
      if (!authority_) break;
      if (!who.is_node() && who.shard() == shard_) {
        compare(role_.other_said(event));
      }
      // What was wrong was refused by the one that serves.
      (void)authority_->handle(who, event, at);
      break;
    case As::kSaid:
      compare(role_.other_said(event));
      break;
  }
  if (!status.is_ok()) end(in_another_state(status));
}

Status ServerLoop::apply_join(Peer who, const wire::Body& body, bool goes_on, Ticks at) {
  if (const auto* join = std::get_if<wire::Join>(&body)) {
    if (goes_on) {
      PACELINE_RETURN_IF_ERROR(membership_.go_on(*join, elsewhere(who), at));
      service_.on_rejoin(join->node);
      if (authority_) authority_->node_rejoined(join->node);
      return Status::ok();
    }
    PACELINE_ASSIGN_OR_RETURN(const Layout layout, membership_.admit(*join, elsewhere(who), at));
    PACELINE_RETURN_IF_ERROR(service_.open(layout).status());
    service_.on_welcome(join->node);
    if (authority_)
      authority_->node_joined(join->node, layout, at, join->incarnation, join->data_fingerprint);
    return Status::ok();
  }
  const auto* join = std::get_if<wire::ShardJoin>(&body);
  if (join == nullptr || !is_authority() || (!authority_ && !waits_for_resume())) {
    return data_loss("a join that is none");
  }
  if (goes_on) {
    PACELINE_RETURN_IF_ERROR(channels_.with(join->shard).on_ack(join->heard));
    return membership_.go_on(*join, elsewhere(who), at);
  }
  PACELINE_RETURN_IF_ERROR(membership_.admit(*join, elsewhere(who), at));
  channels_.begin(join->shard);
  if (authority_) authority_->shard_joined(join->shard);
  return Status::ok();
}

void ServerLoop::apply(Peer who, const wire::LocalEvent& happened, Ticks at) {
  switch (happened.what) {
    case What::kRemoved:
      return remove(who);
    case What::kForgotten:
      if (!who.is_node()) return end(data_loss("room made for " + to_string(who) + ", expected a node"));
      return drop_stale_join(who.node());
    case What::kHeard: {
      if (who.is_node()) return end(data_loss("heard by " + to_string(who) + ", expected a server"));
      welcomed_ = true;
      const Status heard = channels_.on_ack(who.shard(), happened.number);
      if (!heard.is_ok()) end(Status(heard).with_context("this replica has come to another state"));
      return;
    }
    case What::kResumed: {
      const Status resumed = apply_resumed(static_cast<std::uint64_t>(happened.number), at);
      if (!resumed.is_ok()) end(Status(resumed).with_context("the checkpoint to go on from"));
      return;
    }
    default:
      break;
  }
  if (!authority_) return;
  switch (happened.what) {
    case What::kTick:
      authority_->tick(at);
      return authority_->note_progress(moved(), at);
    case What::kPause:
      return authority_->discount_pause({std::chrono::nanoseconds(happened.number), at});
    case What::kLost:
      return authority_->lost(who, happened.text, at);
    case What::kStop:
      return authority_->stop(happened.text, at);
    case What::kSave:
      return authority_->save_checkpoint();
    case What::kFail:
      replica_->fault = Status::ok();  // it is not this replica's alone
      return authority_->fail({happened.code, happened.text}, at);
    case What::kDone: {
      const Status done = replica_->background.done(happened.number, {happened.code, happened.text}, at);
      if (!done.is_ok()) end(Status(done).with_context("this replica has come to another state"));
      return;
    }
    default:
      return;
  }
}

// This replica's file of a checkpoint, and the other one's.
void ServerLoop::compare(const std::optional<UncommittedOutputs::BothSaved>& saved) {
  if (!saved) return;
  if (const Status same = saved->compare(); !same.is_ok()) {
    const Status fault = Status(same).with_context("this replica has come to another state");
    return role_.follows() ? end(fault) : on_shard_status(fault);
  }
  if (!saved->there.fault.empty() || saved->here.fault.empty()) return;
  // A disk that stays full must not fill with that.
  log_.write(std::has_single_bit(++replica_->unsaved) ? LogLevel::kWarn : LogLevel::kDebug,
             "the checkpoint of version " + to_string(saved->here.version) +
                 " is not on this replica's disk: " + saved->here.fault);
}

// What of the run's end counts as written, by the word of the one that served, and is not here.
void ServerLoop::answer_for_files() {
  if (!replica_ || role_.follows() || ended_ || !authority_) return;
  const Status missing = authority_->take_missing();
  if (missing.is_ok()) return;
  const Ticks now = ticks();
  note(Peer::of(shard_), {What::kFail, 0, missing.code(), missing.message()}, now);
  authority_->fail_for_missing(missing, now);
}

// Every 50 ms.
void ServerLoop::tick_following() {
  const Ticks now = steady_now();
  for (const std::string& line : router_->keep_out(now)) log_.warn("kept out " + line);
  // While it is told to ask again, or given a checkpoint, it waits.
  if (!role_.is_welcomed() && now - std::max(started_at_, replica_->heard) > config_.cluster.start_timeout) {
    return end(deadline_exceeded("the replica that serves shard " + to_string(shard_) + " (" +
                                 other_endpoint() +
                                 ") has not let this one follow within cluster.start_timeout: " +
                                 replica_->election->leader_lease().describe(now)));
  }
  if (role_.is_welcomed() && now - replica_->heard > 2 * wire::kLeasesToTakeOver * config_.cluster.lease) {
    return end(unavailable("nobody serves shard " + to_string(shard_) + ": " +
                           replica_->election->leader_lease().describe(now)));
  }
  if (now < next_heartbeat_ || replica_->broken) return;
  // Until it is welcomed it asks again: the one that it asked may have died with the question.
  next_heartbeat_ = now + config_.cluster.heartbeat;
  if (replica_->pull) return;
  const Status said = role_.is_welcomed() ? replica_->serving->send({wire::Heartbeat{}, {}}) : ask_to_follow();
  if (!said.is_ok()) log_.debug(said.message());
}

// Nobody else acts, or will. Time goes on from the last event.
void ServerLoop::take_over() {
  if (!replica_->fault.is_ok()) return end(replica_->fault);
  const LeaderLease& leader_lease = replica_->election->leader_lease();
  const Ticks now = ticks();
  role_.take_over(now);
  replica_->heard = steady_now();
  replica_->serving->close(wire::DealerSocket::Queued::kIsDropped);
  log_.warn("shard " + to_string(shard_) + " is served by this replica from here on, term " +
            std::to_string(leader_lease.term()) + ", from event " + std::to_string(role_.applied()) +
            " on; what it acknowledges is in one place");
  membership_.adopt(now);
  authority_seen_ = started_at_ = next_heartbeat_ = next_status_ = next_look_ = now;
  for (wire::Message& message : role_.take_uncommitted()) {
    send(Speaker::kShard, Peer::of(kAuthority), std::move(message));
  }
  if (!is_authority()) {
    // Later than any that the one before had.
    connection_ = static_cast<std::int64_t>(leader_lease.term()) << 32;
    broken_.emplace();
    connect_again();
  } else {
    replica_->background.take_over();
    if (const Status shown = open_http(now); !shown.is_ok()) log_.warn(shown.message());
  }
}

}  // namespace paceline::server
