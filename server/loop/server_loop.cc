#include "server/loop/server_loop.h"

#include "common/config/local_endpoint.h"

namespace paceline::server {
namespace {

using As = wire::LogEntry::As;
using What = wire::LocalEvent::What;

// What a node may say to a shard; all else is for the authority.
bool is_for_a_shard(const wire::Body& body) {
  return std::holds_alternative<wire::Push>(body) || std::holds_alternative<wire::Withdraw>(body) ||
         std::holds_alternative<wire::Pull>(body) || std::holds_alternative<wire::InitialParameters>(body) ||
         std::holds_alternative<wire::NodeState>(body) || std::holds_alternative<wire::StateWanted>(body);
}

// A decision, or what makes a gradient whole, where the shard is so large that nobody is to wait for it with
// what was said before.
bool takes_long(const Shard* shard, const wire::Body& body) {
  constexpr std::int64_t kQuickFloats = 64 * 1024;
  if (shard == nullptr || shard->range().size() <= kQuickFloats) return false;
  const auto* push = std::get_if<wire::Push>(&body);
  return std::holds_alternative<wire::ApplyDecision>(body) || (push != nullptr && push->last);
}

}  // namespace

ServerLoop::ServerLoop(boost::asio::io_context& io, const RunConfig& config, ShardId shard, const Log& log,
                       ServerOptions options)
    : io_(io),
      setup_(config, shard, log, std::move(options)),
      end_([this] { close(); }),
      channels_(shard),
      shard_outbox_(Speaker::kShard, *this),
      authority_outbox_(Speaker::kAuthority, *this),
      replies_sent_(std::make_shared<Wake>(io, [this] { own_shard_.on_replies_sent(); })),
      shard_checkpoints_(shard, config, background_, shard_outbox_, log),
      service_(
          shard, config, shard_outbox_, log, [wake = replies_sent_] { wake->call(); }, &shard_checkpoints_),
      background_(io, [this] { drain(); }),
      authority_(setup_, authority_outbox_, background_),
      connections_(setup_, clock_, end_, role_, service_),
      sessions_(setup_, clock_, role_, connections_, service_, authority_, generation_),
      link_(io, setup_, clock_, end_, role_, channels_, generation_),
      shards_(setup_, clock_, role_, connections_, channels_, authority_, generation_),
      resuming_(setup_, clock_, end_, role_, connections_, sessions_, channels_, service_, shard_checkpoints_,
                authority_, background_, generation_,
                [this](const Status& state) { own_shard_.on_status(state); }),
      comparison_(log),
      shard_end_(setup_, end_, connections_, service_, authority_, link_, background_, shard_outbox_),
      own_shard_(io, service_, {setup_, clock_, end_, role_, authority_, link_, resuming_, replication_},
                 [this] { drain(); }),
      view_({setup_, end_, connections_, shards_, link_, service_, authority_, generation_, resuming_, role_,
             replication_}),
      display_(setup_, [this](Ticks now) { return view_.status(display_.stall(), now); }),
      requests_(io, {setup_, clock_, end_, role_, authority_, link_, resuming_, view_, display_},
                [this] { drain(); }),
      ticks_(
          io,
          {setup_, clock_, end_, role_, connections_, sessions_, channels_, link_, service_, authority_,
           resuming_, replication_, view_, display_},
          [this](Peer peer, const std::string& why, Loss loss, Ticks now) { lose(peer, why, loss, now); },
          [this] { drain(); }) {
  generation_.resumes = setup_.options.resume && setup_.options.role != ServerOptions::Role::kFollows;
}

Status ServerLoop::open(wire::Context& context) {
  if (generation_.resumes) PACELINE_RETURN_IF_ERROR(resuming_.find_checkpoints());
  PACELINE_RETURN_IF_ERROR(
      connections_.open(context, io_, [this](const wire::PeerId& from, Result<wire::Message> message) {
        on_router(from, std::move(message));
        drain();
      }));
  clock_.begin();
  const Ticks now = clock_.began_at();
  display_.begin(now);
  PACELINE_RETURN_IF_ERROR(begin(context, now));
  if (end_.ended()) return end_.result();
  const std::string bound = connections_.router().endpoint();
  setup_.log.info(setup_.name() + " listens on " + bound);
  const std::string wrong = wrongly_loopback(setup_.config.cluster.endpoints, setup_.endpoint(), bound);
  if (!wrong.empty()) setup_.log.warn(wrong + "; " + kLoopbackAdvice);
  if (!role_.follows()) PACELINE_RETURN_IF_ERROR(display_.open_http(now));
  ticks_.begin(now);
  return Status::ok();
}

Status ServerLoop::begin(wire::Context& context, Ticks now) {
  link_.use(
      context,
      [this](Result<wire::Message> message) {
        on_authority(std::move(message));
        drain();
      },
      resuming_.intact());
  if (setup_.config.cluster.replicas > 1) {
    replication_ = std::make_unique<Replication>(
        io_, replayed(), clock_, end_, background_, [this] { drain(); },
        FollowingReplica::Handlers{[this](Ticks at) {
                                     ticks_.ticked(at);
                                     drain();
                                   },
                                   [this](Ticks at) { take_over(at); }});
    authority_.use(replication_->background());
    PACELINE_RETURN_IF_ERROR(replication_->open());
  }
  if (role_.follows()) return replication_->follow(context);
  if (!setup_.is_authority()) return link_.connect();
  if (!generation_.resumes) return authority_.begin(now);
  resuming_.choose(now);  // where no other shard is to be asked
  return Status::ok();
}

EventReplay::Server ServerLoop::replayed() {
  return {setup_,
          role_,
          connections_,
          sessions_,
          channels_,
          link_,
          service_,
          shard_checkpoints_,
          authority_,
          generation_,
          resuming_,
          comparison_,
          [this](Peer who, wire::Message message) { to_shard(who, std::move(message)); },
          [this](const wire::RunOver& over) { shard_end_.run_over(over); },
          [this](Ticks at) { authority_->note_progress(view_.moved(), at); }};
}

// ---- what comes in

void ServerLoop::on_router(const wire::PeerId& from, Result<wire::Message> message) {
  if (end_.ended()) return;
  if (replication_ && replication_->on_message(from, message)) return;
  const Ticks now = clock_.now();
  const std::optional<Peer> peer = connections_.members().who(from);
  if (!message.is_ok()) return connections_.on_malformed(from, peer, message.status());
  const wire::Body& body = message->body;
  if (const auto* join = std::get_if<wire::Join>(&body)) return sessions_.on_join(from, *join, now);
  if (const auto* join = std::get_if<wire::ShardJoin>(&body)) {
    if (shards_.on_join(from, *join, now)) resuming_.on_shard(from, *join, now);
    return;
  }
  if (!peer) return connections_.refuse_unknown(from, body);
  if (connections_.members().is_gone(*peer)) return connections_.refuse_gone(from, *peer);
  connections_.members().seen(*peer, now);
  if (const Status shared = sessions_.sharing().confirm(from, *peer, body); !shared.is_ok()) {
    return connections_.refuse(from, shared, /*fatal=*/true);
  }
  const auto* beat = std::get_if<wire::Heartbeat>(&body);
  if (beat != nullptr && !peer->is_node()) return shards_.on_heartbeat(*peer, *beat);
  if (beat != nullptr) return sessions_.on_heartbeat(peer->node(), *beat);
  if (peer->is_node()) return on_node(*peer, std::move(*message), now);
  const bool early = !authority_;
  shards_.on(*peer, *message, now);
  if (early) resuming_.on_early(*peer, *message);
}

void ServerLoop::on_node(Peer from, wire::Message message, Ticks now) {
  if (generation_.waits()) return sessions_.on_waiting(from, message.body);
  if (is_for_a_shard(message.body)) return to_shard(from, std::move(message));
  to_authority(from, message, now);
}

void ServerLoop::to_shard(Peer from, wire::Message message) {
  // The authority's word to its own shard follows from what the authority was told. What a pull is answered
  // is no event: it changes nothing.
  const wire::Body& body = message.body;
  const bool follows_by_itself = authority_ && !from.is_node();
  if (!follows_by_itself && !(from.is_node() && std::holds_alternative<wire::Pull>(body))) {
    role_.note(As::kToShard, from, body, message.payload, clock_.now());
  }
  if (takes_long(service_.shard(), body)) connections_.router().flush();
  if (const auto* admitted = std::get_if<wire::NodeAdmitted>(&body)) {
    if (!sessions_.late_joins().admitted(*admitted)) return;
    message.body = wire::NodeLost{admitted->node, "another one is let in"};
  } else if (const auto* lost = std::get_if<wire::NodeLost>(&body)) {
    if (sessions_.late_joins().is_of_a_former_process(*lost)) return;
    on_lost(*lost);
  }
  own_shard_.on_status(service_.handle(from, std::move(message)));
}

// By the authority's word.
void ServerLoop::on_lost(const wire::NodeLost& lost) {
  role_.forget(lost.node);
  const Peer node = Peer::of(lost.node);
  if (lost.node.value >= setup_.config.cluster.nodes || connections_.members().is_gone(node)) return;
  connections_.remove(node);
  const std::string how = lost.why.empty() ? " has left" : " lost: " + lost.why;
  if (!authority_) setup_.log.warn(to_string(node) + how);
}

void ServerLoop::to_authority(Peer from, const wire::Message& message, Ticks now) {
  Status status;
  if (authority_) {
    role_.note(As::kToAuthority, from, message.body, message.payload, now);
    status = authority_->handle(from, message, now);
    if (status.is_ok()) connections_.losses().ended_elsewhere(message.body, now);
  } else {
    status = invalid_argument(std::string(wire::name_of(message.body)) + " from " + to_string(from) + " to " +
                              setup_.name() + ": it is for the authority");
  }
  // It tells the authority too, whose NodeLost says other shards what to forget.
  if (std::holds_alternative<wire::Leave>(message.body)) return connections_.remove(from);
  if (!status.is_ok()) connections_.refuse_unless_repeated(from.node(), status);
}

// At another shard.
void ServerLoop::on_authority(Result<wire::Message> message) {
  if (end_.ended()) return;
  AuthorityLink::Received what = link_.on_message(std::move(message));
  if (what.refused && replication_) replication_->serving().on_refused(*what.refused);
  if (what.welcome && !generation_.resumes) {
    shard_checkpoints_.forget_all();
  } else if (what.welcome) {
    if (what.welcome->resume_from) {
      resuming_.go_on_from(*what.welcome->resume_from, what.welcome->generation);
    }
    if (!resuming_.is_to_stop().empty()) link_.ask_to_stop(resuming_.is_to_stop());
  } else if (what.message) {
    if (const auto* over = std::get_if<wire::RunOver>(&what.message->body)) {
      shard_end_.run_over(*over);
    } else {
      to_shard(Peer::of(kAuthority), *std::move(what.message));
    }
  }
  link_.acknowledge(what, view_.moved());
}

// ---- what goes out

void ServerLoop::send(Speaker speaker, Peer to, wire::Message message) {
  if (speaker == Speaker::kShard) {
    const Status same = comparison_.compare(role_.on_shard_output(message));
    if (!same.is_ok()) role_.follows() ? end_.end(same) : own_shard_.on_status(same);
    if (role_.follows()) return;
    if (auto* lost = std::get_if<wire::NodeLost>(&message.body)) {
      lost->incarnation = connections_.members().incarnation_of(lost->node);
      lost->why += connections_.losses().long_silence_of(Peer::of(lost->node), clock_.now());
    }
  }
  if (to == Peer::of(setup_.shard)) {  // the authority's own shard, and the other way round
    local_.emplace_back(speaker, std::move(message));
  } else if (!to.is_node() && !setup_.is_authority()) {
    link_.send(std::move(message));
  } else {
    connections_.send(to, std::move(message), to.is_node() ? nullptr : &channels_.with(to.shard()));
  }
}

// What the two speakers of this process have said to each other, in order, until nothing is left; and whom
// they have refused for good.
void ServerLoop::drain() {
  if (replication_) replication_->answer_for_files();
  while (!end_.ended() && (!local_.empty() || connections_.losses().has_evicted())) {
    for (const auto& [peer, why] : connections_.losses().take_evicted()) {
      lose(peer, why, Loss::kForGood, clock_.now());
    }
    if (local_.empty()) continue;
    auto [speaker, message] = std::move(local_.front());
    local_.pop_front();
    deliver(speaker, std::move(message));
  }
  if (replication_) replication_->end_turn();
  const bool done = !replication_ || replication_->is_done();
  const bool over = authority_ && authority_->over() && !role_.follows();
  if (!end_.ended() && over && done) end_.end(authority_->result());
  if (!end_.ended()) own_shard_.work_ahead();
}

void ServerLoop::deliver(Speaker speaker, wire::Message message) {
  if (speaker == Speaker::kAuthority) {
    const auto* over = std::get_if<wire::RunOver>(&message.body);
    return over != nullptr ? shard_end_.run_over(*over) : to_shard(Peer::of(kAuthority), std::move(message));
  }
  const Ticks now = clock_.now();
  const Peer own = Peer::of(setup_.shard);
  role_.note(As::kToAuthority, own, message.body, message.payload, now);
  const Status status = authority_ ? authority_->handle(own, message, now)
                                   : failed_precondition(std::string(wire::name_of(message.body)) +
                                                         " of the shard before the run goes on");
  if (!status.is_ok()) setup_.log.warn(status.message());
}

// The peer takes no further part, whether it knows that or not: it may go on talking.
void ServerLoop::lose(Peer peer, const std::string& why, Loss loss, Ticks now) {
  if (connections_.members().is_gone(peer)) return;
  if (sessions_.forget_waiting(peer)) {
    return setup_.log.info(to_string(peer) + " is forgotten before its welcome: " + why);
  }
  connections_.remove(peer);
  if (authority_) {
    role_.note(peer, {.what = What::kLost, .text = why}, now);
    return authority_->lost(peer, why, now);
  }
  setup_.log.warn(to_string(peer) + " lost: " + why);
  if (setup_.is_authority() && peer.is_node()) return;
  if (setup_.is_authority()) return resuming_.fail(unavailable(to_string(peer) + " was lost: " + why));
  link_.send({wire::NodeLost{peer.node(), setup_.name() + ": " + why,
                             connections_.members().incarnation_of(peer.node()), loss == Loss::kOutOfReach},
              {}});
}

// ---- its ends

// Of another replica: from now on this one serves.
void ServerLoop::take_over(Ticks now) {
  ticks_.beat_next(now);
  display_.begin(now);
  for (wire::Message& message : role_.take_uncommitted()) {
    send(Speaker::kShard, Peer::of(kAuthority), std::move(message));
  }
  replication_->take_over();
  if (!setup_.is_authority()) return link_.take_over(replication_->term());
  if (const Status shown = display_.open_http(now); !shown.is_ok()) setup_.log.warn(shown.message());
}

// What is queued still leaves: the sockets linger.
void ServerLoop::close() {
  if (authority_ && !role_.follows()) end_.reconfigures(authority_->over() && authority_->reconfigures());
  if (replication_ && replication_->serving().is_deposed()) end_.reconfigures(false);
  if (end_.reconfigures() || end_.rejoins()) {
    end_.restart(replication_ ? replication_->restart_request() : RestartRequest{.serves = true});
  }
  display_.end(clock_.now());
  const bool is_logged = setup_.is_authority() && (!replication_ || (authority_ && authority_->over()));
  if (!is_logged && !end_.result().is_ok()) {
    end_.restart_request() ? setup_.log.info(end_.result().message())
                           : setup_.log.error(end_.result().message());
  }
  ticks_.end();
  connections_.log_kept_out();
  link_.close();
  if (replication_) return replication_->end([this] { io_.stop(); });
  connections_.router().close();
  io_.stop();
}

}  // namespace paceline::server
