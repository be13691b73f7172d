#include "server/replicas/following_replica.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "common/config/load.h"
#include "common/wire/reconnect_pause.h"

namespace paceline::server {

FollowingReplica::FollowingReplica(boost::asio::io_context& io, EventReplay::Server server, RunClock& clock,
                                   EndOfRun& end, Background& background, ReplicatedBackground& replicated,
                                   const LeaderElection& election, ShardLease::Incarnation self,
                                   Handlers handlers)
    : io_(io),
      server_(std::move(server)),
      setup_(server_.setup),
      clock_(clock),
      end_(end),
      role_(server_.role),
      election_(election),
      self_(self),
      handlers_(std::move(handlers)),
      taker_(
          setup_, end, background,
          [this](wire::Message message) { return serving_->send(std::move(message)); },
          [this] {
            if (const Status asked = ask(); !asked.is_ok()) setup_.log.debug(asked.message());
          }),
      replay_(server_, taker_, replicated) {}

// ---- its connection to the one that serves

Status FollowingReplica::open(wire::Context& context) {
  wire::TransportOptions options;
  options.on_denied = [this](const Status& why) {
    if (!end_.ended() && !role_.followed().has_begun()) {
      end_.end(Status(why).with_context("the replica that serves"));
    }
  };
  options.on_broken = [this] { boost::asio::post(io_, [this] { on_broken(); }); };
  if (!setup_.config.security.keys.empty()) {
    PACELINE_ASSIGN_OR_RETURN(wire::ClientKeys keys, wire::read_shard_keys(setup_.config.security.keys));
    options.client_keys = std::make_shared<const wire::ClientKeys>(std::move(keys));
  }
  const std::string endpoint = setup_.other_endpoint();
  PACELINE_ASSIGN_OR_RETURN(serving_, wire::DealerSocket::connect(context, io_, endpoint, options,
                                                                  [this](Result<wire::Message> message) {
                                                                    if (!end_.ended())
                                                                      on_message(std::move(message));
                                                                  }));
  setup_.log.info(setup_.name() + ": this replica follows " + endpoint);
  last_received_ = steady_now() + setup_.options.asks_after;
  next_word_ = last_received_ + setup_.config.cluster.heartbeat;
  return setup_.options.asks_after.count() > 0 ? Status::ok() : ask();
}

Status FollowingReplica::ask() {
  return serving_->send({wire::ReplicaJoin{wire::kProtocolVersion, setup_.shard, setup_.fingerprint, self_,
                                           taker_.has(), settings(setup_.config)},
                         {}});
}

// What it has not told nobody else has heard either. Whether it is gone etcd knows.
void FollowingReplica::on_broken() {
  if (end_.ended() || !role_.follows()) return;
  if (!role_.followed().has_begun()) return taker_.broke();  // it is asked again
  if (std::exchange(broken_, true)) return;
  setup_.log.info("the connection to the replica that serves " + setup_.name() + " broke after event " +
                  std::to_string(role_.followed().applied()));
}

void FollowingReplica::close() {
  if (serving_) serving_->close();
}

// ---- what it hears

void FollowingReplica::on_message(Result<wire::Message> message) {
  if (!role_.follows() || broken_) return;
  last_received_ = steady_now();
  if (!message.is_ok()) {
    return end_.end(Status(message.status()).with_context("from the replica that serves"));
  }
  if (message->logged) return on_event(*std::move(message));
  if (const auto* resumes = std::get_if<wire::ReplicaResumes>(&message->body)) {
    if (!role_.followed().has_begun()) taker_.on_resumes(*resumes);
  } else if (const auto* piece = std::get_if<wire::FilePiece>(&message->body)) {
    taker_.on_piece(*piece, message->payload);
  } else if (const auto* welcome = std::get_if<wire::ReplicaWelcome>(&message->body)) {
    const Status begun = begin(*welcome);
    if (!begun.is_ok()) return end_.end(begun);
    send_ack();  // there may be nothing yet
  } else if (const auto* error = std::get_if<wire::Error>(&message->body)) {
    const Status why(error->code, "the replica that serves: " + error->message);
    // One that does not serve yet, or cannot be followed just now, is asked again.
    error->fatal ? end_.end(why) : setup_.log.debug(why.message());
  } else if (const auto* over = std::get_if<wire::RunOver>(&message->body)) {
    end_.reconfigures(over->reconfigures);
    end_.end(Status(over->code, over->message));
  }
}

Status FollowingReplica::begin(const wire::ReplicaWelcome& welcome) {
  if (!role_.followed().begin()) return Status::ok();
  next_word_ = steady_now();
  RunGeneration& generation = server_.generation;
  generation.number = welcome.generation;
  generation.incarnation = welcome.incarnation;
  generation.resumes = taker_.has().has_value();
  if (generation.resumes) return Status::ok();  // from kResumed on there is something
  if (setup_.is_authority()) return server_.authority.begin(Ticks(welcome.began));
  server_.checkpoints.forget_all();
  return Status::ok();
}

void FollowingReplica::on_event(wire::Message event) {
  Result<std::vector<wire::Message>> turn = role_.followed().on_event(std::move(event));
  if (!turn.is_ok()) return end_.end(turn.status());
  if (turn->empty()) return;
  for (wire::Message& each : *turn) {
    const Ticks at(each.logged->at);
    const auto* local_event = std::get_if<wire::LocalEvent>(&each.body);
    const bool fails = local_event != nullptr && local_event->what == wire::LocalEvent::What::kFail;
    if (fails && server_.authority) fault_ = Status::ok();  // it is not this replica's alone
    clock_.go_by(at);
    if (const Status done = replay_.apply(std::move(each), at); !done.is_ok()) end_.end(done);
    role_.followed().applied_one();
    handlers_.after_event(at);
    if (end_.ended()) return;
  }
  if (!fault_.is_ok()) return end_.end(replay_.in_another_state(fault_));
  send_ack();
}

void FollowingReplica::send_ack() {
  const Status sent = serving_->send({wire::LogAck{role_.followed().applied()}, {}});
  if (!sent.is_ok()) setup_.log.debug(sent.message());  // it is gone, and on_broken() comes
}

// ---- time, and etcd

void FollowingReplica::tick() {
  const Ticks now = steady_now();
  for (const std::string& line : server_.connections.router().keep_out(now)) {
    setup_.log.warn("kept out " + line);
  }
  const ClusterSection& cluster = setup_.config.cluster;
  // While it is told to ask again, or given a checkpoint, it waits.
  if (!role_.followed().has_begun() &&
      now - std::max(clock_.began_at(), last_received_) > cluster.start_timeout) {
    return end_.end(deadline_exceeded(
        "the replica that serves " + setup_.name() + " (" + setup_.other_endpoint() +
        ") has not let this one follow within cluster.start_timeout: " + election_.describe()));
  }
  if (role_.followed().has_begun() && now - last_received_ > 2 * wire::kLeasesToTakeOver * cluster.lease) {
    return end_.end(unavailable("nobody serves " + setup_.name() + ": " + election_.describe()));
  }
  if (now < next_word_ || broken_) return;
  // Until it is welcomed it asks again: the one that it asked may have died with the question.
  next_word_ = now + cluster.heartbeat;
  if (taker_.is_under_way()) return;
  const Status sent = role_.followed().has_begun() ? serving_->send({wire::Heartbeat{}, {}}) : ask();
  if (!sent.is_ok()) setup_.log.debug(sent.message());
}

void FollowingReplica::on_lease(const LeaderLease& lease) {
  if (broken_ && lease.nobody_serves() && !lease.was_complete()) {
    return end_.end(unavailable("the replica that served " + setup_.name() +
                                " is gone, and this one had not got all that it acknowledged"));
  }
  if (lease.is_concluded() && (lease.is_left_out() || setup_.options.rejoins)) return end_without_result();
  if (broken_ && !lease.was_complete() && steady_now() - last_received_ > setup_.config.cluster.lease) {
    return rejoin("was lost before it had everything");
  }
  if (lease.is_left_out()) return rejoin("is left out: it lacks something that was acknowledged");
  if (lease.is_primary()) take_over(lease);
}

// Nobody else acts, or will. Time goes on from the last event.
void FollowingReplica::take_over(const LeaderLease& lease) {
  if (!fault_.is_ok()) return end_.end(fault_);
  const Ticks now = clock_.now();
  role_.take_over(now);
  serving_->close(wire::DealerSocket::Queued::kIsDropped);
  setup_.log.warn(setup_.name() + " is served by this replica from here on, term " +
                  std::to_string(lease.term()) + ", from event " +
                  std::to_string(role_.followed().applied()) + " on; what it acknowledges is in one place");
  server_.connections.members().adopt(now);
  clock_.begin();
  handlers_.takes_over(now);
}

// The one that serves goes on without this one, which lives: the connection between them broke, or it was
// slow. What it has is of no use any more. It comes back as one that is started again does.
void FollowingReplica::rejoin(const std::string& why) {
  const std::string what = "this replica of " + setup_.name() + " " + why;
  if (!fault_.is_ok() || !can_reconfigure(setup_.config).is_ok()) {
    return end_.end(failed_precondition(what + "; start it again"));
  }
  // Where it is being reconfigured the one that serves has left this one out only because it goes.
  if (server_.authority && server_.authority->reconfigures()) end_.reconfigures(true);
  if (!end_.reconfigures()) {
    end_.rejoin_later();
    setup_.log.warn(what + "; it comes back, for which the run is reconfigured");
  }
  end_.end(unavailable(what));
}

// The run is over, and the last word of the one that served has not come.
void FollowingReplica::end_without_result() {
  if (server_.authority && server_.authority->over()) return end_.end(server_.authority->result());
  if (end_.result_of_run()) return end_.end(*end_.result_of_run());
  end_.end(unavailable("the run is over, and this replica of " + setup_.name() +
                       " was lost before it had all of it: the files are with the one that served"));
}

Wait FollowingReplica::wait() const {
  return {"the wait for the replica that serves",
          setup_.name() + "'s second replica follows the first, from which it has " +
              std::to_string(role_.followed().applied()) + " events: " + election_.describe()};
}

}  // namespace paceline::server
