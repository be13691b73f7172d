// What comes in, and whom it is for.
#include "server/server_loop.h"

#include <boost/asio/post.hpp>

#include "common/config/load.h"
#include "common/config/local_endpoint.h"
#include "common/process/descriptors.h"
#include "common/ticks.h"
#include "common/trace/trace_file.h"
#include "server/connections_max.h"

namespace paceline::server {

ServerLoop::ServerLoop(boost::asio::io_context& io, const RunConfig& config, ShardId shard, const Log& log,
                       ServerOptions options)
    : io_(io),
      config_(config),
      shard_(shard),
      log_(log),
      options_(options),
      fingerprint_(fingerprint(config)),
      run_fingerprint_(fingerprint(config, AgreedBy::kRun)),
      shard_port_(*this, Speaker::kShard),
      authority_port_(*this, Speaker::kAuthority),
      channels_(shard),
      membership_(config, shard),
      reads_ours_is_open_(config.cluster.nodes, false),
      replies_left_(std::make_shared<Wake>(io, [this] { on_replies_left(); })),
      shard_checkpoints_(shard, config, background_, shard_port_, log),
      service_(
          shard, config, shard_port_, log, [wake = replies_left_] { wake->call(); }, &shard_checkpoints_,
          options_.device),
      background_(io, [this] { drain(); }),
      resumes_(options_.resume && options_.role != ServerOptions::Role::kFollows),
      comers_(config.cluster.nodes),
      timer_(io),
      rejoin_timer_(io),
      display_(options_.progress, options_.progress_style, terminal_size) {}

ServerLoop::~ServerLoop() { replies_left_->close(); }

Result<wire::TransportOptions> ServerLoop::listening() {
  wire::TransportOptions options;
  options.connections_max = static_cast<int>(connections_max(config_.cluster, descriptor_limit()));
  options.on_unsent = [this](const wire::PeerId& to, const Status& why) { not_sent(to, why); };
  if (options_.device != nullptr) {
    options.pin = [this](std::span<const std::byte> pages) { return pin(pages); };
  }
  if (config_.security.keys.empty()) return options;
  PACELINE_ASSIGN_OR_RETURN(wire::ServerKeys keys,
                            wire::read_server_keys(config_.security.keys, config_.cluster.nodes));
  options.server_keys = std::make_shared<const wire::ServerKeys>(std::move(keys));
  return options;
}

std::shared_ptr<void> ServerLoop::pin(std::span<const std::byte> pages) {
  Result<std::shared_ptr<void>> pinned = options_.device->pin(pages);
  if (pinned.is_ok()) return std::move(pinned).value();
  if (!std::exchange(pin_failure_is_said_, true)) {
    log_.warn("nodes' memory cannot be pinned, and gradients take longer to the GPU: " +
              pinned.status().message());
  }
  return nullptr;
}

Status ServerLoop::open(wire::Context& context) {
  if (resumes_) PACELINE_RETURN_IF_ERROR(look_for_checkpoints());
  PACELINE_ASSIGN_OR_RETURN(const wire::TransportOptions listens, listening());
  PACELINE_ASSIGN_OR_RETURN(
      router_, wire::RouterSocket::bind(context, io_, own_endpoint(), listens,
                                        [this](const wire::PeerId& from, Result<wire::Message> message) {
                                          on_router(from, std::move(message));
                                          drain();
                                        }));
  const Ticks now = ticks();
  started_at_ = last_tick_ = next_heartbeat_ = next_status_ = next_look_ = authority_seen_ = now;
  context_ = &context;
  if (config_.cluster.replicas > 1) PACELINE_RETURN_IF_ERROR(open_replica());
  if (follows()) {
    PACELINE_RETURN_IF_ERROR(follow(context));
  } else if (is_authority() && resumes_) {
    choose_checkpoint(now);  // where no other shard is to be asked
    if (ended_) return result_;
  } else if (is_authority()) {
    PACELINE_ASSIGN_OR_RETURN(RunRecord record, RunRecord::open(config_, log_));
    authority_.emplace(config_, std::move(record), authority_port_, authority_background(), log_, now);
  } else {
    PACELINE_RETURN_IF_ERROR(connect_to_authority(context));
  }
  log_.info("shard " + to_string(shard_) + " listens on " + router_->endpoint());
  const std::string wrong = wrongly_loopback(config_.cluster.endpoints, own_endpoint(), router_->endpoint());
  if (!wrong.empty()) log_.warn(wrong + "; " + kLoopbackAdvice);
  if (!follows()) PACELINE_RETURN_IF_ERROR(open_http(now));
  schedule_tick();
  return Status::ok();
}

void ServerLoop::on_router(const wire::PeerId& from, Result<wire::Message> message) {
  if (ended_) return;
  if (is_elsewhere(from))
    return (void)router_->count_rejected(from);  // a name of ours, which it chose itself
  if (on_replica(from, message)) return;
  const Ticks now = ticks();
  const std::optional<Peer> peer = membership_.who(from);
  if (!message.is_ok()) {
    log_.debug("malformed message from " + (peer ? to_string(*peer) : "a stranger") + ": " +
               message.status().message());
    // The socket has counted it.
    if (peer && !peer->is_node()) {  // it may have been one that counts (reliable_channel.h)
      send_to(from, wire::Error{message.status().code(), message.status().message(), /*fatal=*/true});
      expelled_.emplace_back(*peer, "refused: " + message.status().message());
      return;
    }
    if (router_->said_malformed(from)) {
      if (peer) expelled_.emplace_back(*peer, "refused: it went on sending malformed messages");
      return;
    }
    if (peer)
      send_to(from, wire::Error{message.status().code(), message.status().message(), /*fatal=*/false});
    return;
  }
  if (const auto* join = std::get_if<wire::Join>(&message->body)) return on_join(from, *join, now);
  if (const auto* join = std::get_if<wire::ShardJoin>(&message->body)) return on_shard_join(from, *join, now);
  if (!peer) return refuse_stranger(from, message->body);
  if (membership_.is_gone(*peer)) return refuse_gone(from, *peer);
  membership_.seen(*peer, now);
  if (const Status shared = settle_sharing(from, *peer, message->body); !shared.is_ok()) {
    return refuse(from, shared, /*fatal=*/true);
  }
  if (const auto* beat = std::get_if<wire::Heartbeat>(&message->body)) return on_heartbeat(*peer, *beat);
  if (peer->is_node()) {
    on_node(*peer, std::move(*message), now);
  } else {
    on_shard(*peer, *message, now);
  }
}

void ServerLoop::refuse_stranger(const wire::PeerId& from, const wire::Body& body) {
  const bool broken = router_->count_rejected(from);
  if (broken || std::holds_alternative<wire::Leave>(body)) return;  // whose join was refused says goodbye
  refuse(from,
         not_found(std::string(wire::name_of(body)) +
                   " before a join on this connection (a process of a node that was lost with the one before "
                   "is not let in again)"),
         /*fatal=*/true);
}

// What it sent before it left may still be under way; one that was only taken for lost must learn of it.
void ServerLoop::refuse_gone(const wire::PeerId& from, Peer peer) {
  if (router_->count_rejected(from)) return;
  send_to(from, wire::Error{StatusCode::kFailedPrecondition, to_string(peer) + " has gone from this run",
                            /*fatal=*/true});
}

// That the sender of the message being handled may speak as `who`, by its key. Where the run has keys, one
// whose key has no name may not: that would be a connection about which nobody was asked.
Status ServerLoop::check_key(bool may, const std::string& who) const {
  if (may || config_.security.keys.empty()) return Status::ok();
  const std::string name = router_->key_name();
  return failed_precondition(who + ": got " + (name.empty() ? "no key" : "the key " + name + ".key") +
                             ", expected " + who + "'s own");
}

void ServerLoop::on_join(const wire::PeerId& from, const wire::Join& join, Ticks now) {
  if (count_rejected_join(from, join, now)) return;
  const std::string key = router_->key_name();
  const Status own_key = check_key(wire::may_be_node(key, join.node.value), "node " + to_string(join.node));
  const bool ours = join.node.value < config_.cluster.nodes;
  if (!own_key.is_ok()) {
    if (authority_ && ours) authority_->join_refused(Peer::of(join.node), own_key.message());
    return refuse_join(from, own_key);
  }
  if (membership_.is_behind(join)) return router_->give_up(from);  // it has gone, and was read late
  if (goes_on(from, join)) return on_rejoin(from, join, now);
  // Before it counts: its number is another process's in this run.
  const bool is_new = ours && join.protocol_version == wire::kProtocolVersion &&
                      membership_.last_connection_of(Peer::of(join.node)).empty();
  if (const Status fits = check_generation(join); is_new && !waits_for_resume() && !fits.is_ok()) {
    if (authority_) authority_->join_refused(Peer::of(join.node), fits.message());
    return refuse_join(from, fits);
  }
  if (role_.waits_for_follower()) {
    const Status not_yet = unavailable(why_it_waits());
    if (authority_ && ours) authority_->join_refused(Peer::of(join.node), not_yet.message());
    return retry_later(from, join.node, not_yet);
  }
  evict_previous(from, join);
  if (const Status may = check_admission(from, join, now); may.code() == StatusCode::kUnavailable) {
    return retry_later(from, join.node, may);
  } else if (!may.is_ok()) {
    if (authority_) authority_->join_refused(Peer::of(join.node), may.message());
    return refuse_join(from, may);
  }
  const Result<Layout> layout = membership_.admit(join, from, now);
  Result<Range> range = layout.is_ok() ? service_.open(*layout) : layout.status();
  if (range.is_ok()) {
    if (const Status shared = share_memory(from, join.node); !shared.is_ok()) range = shared;
  }
  if (!range.is_ok()) {
    if (layout.is_ok()) remove(Peer::of(join.node));
    if (authority_ && ours) authority_->join_refused(Peer::of(join.node), range.status().message());
    return refuse_join(from, range.status());
  }
  router_->remember(from);
  if (!waits_for_resume()) return welcome(join, *layout, now);
  // What the handler alone can do is done; the answer comes when there is something to go on from.
  std::erase_if(waiting_, [&](const Waiting& one) { return one.join.node == join.node; });
  waiting_.push_back({from, join, *layout});
}

// A join may name 65,536 tensors, which takes the others' time. A node says it once, and again when it has
// heard nothing for a lease; whoever goes on with it sooner, or though it was refused, has its connection
// broken. To a server that was away all arrive at once, which is not held against the node: it says few
// (worker/client/joining.h), and those count little.
bool ServerLoop::count_rejected_join(const wire::PeerId& from, const wire::Join& join, Ticks now) {
  const std::optional<Peer> known = membership_.who(from);
  if (!known) return false;  // counted if it is refused
  const bool present = !membership_.is_gone(*known);
  const bool in_time = now - membership_.joined_at(*known) >= config_.cluster.heartbeat;
  const bool again = present && *known == Peer::of(join.node);
  if (again && in_time) return false;
  if (!(again ? router_->count_rejected(from) : router_->joined_in_vain(from))) return false;
  if (present) expelled_.emplace_back(*known, "refused: it went on joining");
  return true;
}

void ServerLoop::refuse_join(const wire::PeerId& from, const Status& why) {
  const bool stranger = !membership_.who(from);  // others have been counted
  if (stranger && router_->joined_in_vain(from)) return;
  refuse(from, why, /*fatal=*/true);
}

// A process that has been in this generation, or a later one, of which this server knows nothing, has met
// another server in this one's place.
Status ServerLoop::check_generation(const wire::Join& join) const {
  if (join.last_generation < generation_) return Status::ok();
  return failed_precondition("node " + to_string(join.node) + ": it has been in generation " +
                             std::to_string(join.last_generation) + " of the run, expected one before " +
                             std::to_string(generation_) + ", which shard " + to_string(shard_) + " is in");
}

void ServerLoop::welcome(const wire::Join& join, const Layout& layout, Ticks now) {
  const Peer node = Peer::of(join.node);
  const wire::PeerId* connection = membership_.connection_of(node);
  if (connection == nullptr) return;  // it has gone meanwhile
  membership_.seen(node, now);        // it may have had to wait without a word
  if (const Status fits = check_generation(join); !fits.is_ok()) {
    return refuse(*connection, fits, /*fatal=*/true);
  }
  note(wire::LogEntry::As::kAdmission, node, join, {}, now);
  service_.on_welcome(join.node);
  send_to(*connection, wire::Welcome{shard_, service_.shard()->range(), generation_,
                                     service_.is_initialized(), authority_ && authority_->training()});
  if (authority_) authority_->node_joined(join.node, layout, now, join.incarnation, join.data_fingerprint);
}

// What it has pushed and is not applied yet keeps its memory mapped.
void ServerLoop::remove(Peer peer) {
  note(peer, {.what = wire::LocalEvent::What::kRemoved}, ticks());
  membership_.remove(peer);
  if (peer.is_node()) router_->unmap(membership_.last_connection_of(peer));
}

// Whether it can be had is known only once it has been tried: it takes the same machine, and the same user.
// Here, whether we can read the node's; whether it can read ours, its next message says.
Status ServerLoop::share_memory(const wire::PeerId& with, NodeId node) {
  if (service_.memory() == nullptr) return Status::ok();
  const Status shared = router_->share_memory(with, service_.memory(), service_.node_memory_max());
  reads_ours_is_open_[node.value] = shared.is_ok();
  return shared.is_ok() ? shared : judge_sharing(node, shared);
}

// With the first message behind its Join; one that says goodbye says nothing of memory.
Status ServerLoop::settle_sharing(const wire::PeerId& from, Peer peer, const wire::Body& body) {
  if (!peer.is_node() || !reads_ours_is_open_[peer.number] || std::holds_alternative<wire::Leave>(body)) {
    return Status::ok();
  }
  reads_ours_is_open_[peer.number] = false;
  return judge_sharing(peer.node(), router_->shares_memory(from));
}

Status ServerLoop::judge_sharing(NodeId node, const Status& shared) {
  const std::string who = "node " + to_string(node);
  if (shared.is_ok() && membership_.moves_of(node) > 0) return shared;  // it says so of each connection
  if (shared.is_ok()) {
    log_.info(who + " shares memory with shard " + to_string(shard_));
  } else if (config_.cluster.shared_memory == SharedMemory::kOn) {
    return Status(shared).with_context("cluster.shared_memory is on, but " + who + " cannot share memory");
  } else {
    log_.info(who + " shares no memory with shard " + to_string(shard_) + ": " + shared.message());
  }
  return Status::ok();
}

void ServerLoop::on_heartbeat(Peer from, const wire::Heartbeat& beat) {
  if (!authority_) return;
  if (!from.is_node()) {
    moved_elsewhere_[from.shard()] = beat.traffic;
    note(from, {.what = wire::LocalEvent::What::kHeard, .number = beat.heard}, ticks());
    const Status heard = channels_.on_ack(from.shard(), beat.heard);
    if (!heard.is_ok()) refuse(*membership_.connection_of(from), heard, /*fatal=*/true);
    return;
  }
  LateJoin& comer = comers_[from.number];
  if (comer.asks != 0 && beat.answer == comer.asks) comer.is_answered = true;
  const Status status = authority_->heard(from.node(), beat);
  if (!status.is_ok()) refuse(*membership_.connection_of(from), status, /*fatal=*/true);
}

void ServerLoop::on_node(Peer from, wire::Message message, Ticks now) {
  const wire::Body& body = message.body;
  if (waits_for_resume()) return on_waiting_node(from, body);
  if (std::holds_alternative<wire::Push>(body) || std::holds_alternative<wire::Withdraw>(body) ||
      std::holds_alternative<wire::Pull>(body) || std::holds_alternative<wire::InitialParameters>(body) ||
      std::holds_alternative<wire::NodeState>(body) || std::holds_alternative<wire::StateWanted>(body)) {
    return to_service(from, std::move(message));
  }
  const bool leaves = std::holds_alternative<wire::Leave>(body);
  if (!authority_) {
    // It tells the authority too, whose NodeLost says what to forget.
    if (leaves) return remove(from);
    return refuse(*membership_.connection_of(from),
                  invalid_argument(std::string(wire::name_of(body)) + " from " + to_string(from) +
                                   " to shard " + to_string(shard_) + ": it is for the authority"),
                  /*fatal=*/true);
  }
  note(wire::LogEntry::As::kToAuthority, from, message.body, message.payload, now);
  const Status status = authority_->handle(from, message, now);
  if (leaves) return remove(from);
  // What was said twice is ignored; anything else wrong is a node that this run cannot go on with.
  if (status.code() == StatusCode::kOutOfOrder && membership_.moves_of(from.node()) > 0) {
    ++repeated_;  // as it may: it does not know that it was heard
  } else if (!status.is_ok()) {
    refuse(*membership_.connection_of(from), status, /*fatal=*/status.code() != StatusCode::kOutOfOrder);
  }
}

// A decision, or what makes a gradient whole, where the shard is so large that nobody is to wait for it with
// what was said before.
bool ServerLoop::takes_long(const wire::Body& body) const {
  constexpr std::int64_t kQuickFloats = 64 * 1024;
  if (service_.shard() == nullptr || service_.shard()->range().size() <= kQuickFloats) return false;
  const auto* push = std::get_if<wire::Push>(&body);
  return std::holds_alternative<wire::ApplyDecision>(body) || (push != nullptr && push->last);
}

void ServerLoop::to_service(Peer from, wire::Message message) {
  // The authority's word to its own shard follows from what the authority was told. What a pull is answered
  // is no event: it changes nothing.
  const bool follows_by_itself = authority_ && !from.is_node();
  if (!follows_by_itself && !(from.is_node() && std::holds_alternative<wire::Pull>(message.body))) {
    note(wire::LogEntry::As::kToShard, from, message.body, message.payload, ticks());
  }
  if (takes_long(message.body)) router_->leave();
  if (const auto* admitted = std::get_if<wire::NodeAdmitted>(&message.body)) return on_admitted(*admitted);
  if (const auto* lost = std::get_if<wire::NodeLost>(&message.body)) {
    if (is_of_a_former_process(*lost)) return;
    role_.forget(lost->node);
    const Peer node = Peer::of(lost->node);
    if (lost->node.value < config_.cluster.nodes && !membership_.is_gone(node)) {
      remove(node);
      if (!authority_) log_.warn(to_string(node) + (lost->why.empty() ? " has left" : " lost: " + lost->why));
    }
  }
  on_shard_status(service_.handle(from, std::move(message)));
}

void ServerLoop::on_replies_left() {
  if (ended_) return;
  on_shard_status(service_.on_replies_left());
  drain();
}

// What the shard's service says after each call.
void ServerLoop::on_shard_status(const Status& shard_state) {
  if (shard_state.is_ok()) return;
  const bool device_failed = !service_.status().is_ok();  // which is no reason for another replica to end
  if (device_failed && std::exchange(device_is_judged_, true)) return;
  if (device_failed && replica_ && !follows() && !(acts() && role_.serves_alone())) return leave_with(shard_state);
  if (follows()) {  // as the one that serves has found, too, and said: at the end of the turn it is known
    replica_->fault = shard_state;
    return;
  }
  // The shard's parameters are no longer what the authority takes them for.
  if (authority_) {
    const Ticks now = ticks();
    note(Peer::of(shard_), {wire::LocalEvent::What::kFail, 0, shard_state.code(), shard_state.message()},
         now);
    authority_->fail(shard_state, now);
    return;
  }
  if (is_authority()) return cannot_resume(shard_state);
  leave_with(shard_state);
}

// The authority ends the run for this shard. What it recorded is there before it says that it is done, so
// that the authority finds it.
void ServerLoop::run_over(const wire::RunOver& over) {
  if (!service_.applied()) return shard_is_done(over);
  trace::Trace part;
  part.processes.push_back(trace::this_process(shard_));
  part.shards.push_back({shard_, service_.applied()->in_order(), service_.applied()->left_out()});
  background_.run([file = std::filesystem::path(config_.run.out) / trace::part_name(shard_),
                   part = std::move(part)] { return trace::write_trace(file, part); },
                  [this, over](const Status& written, Ticks) {
                    if (!written.is_ok()) log_.warn("no trace of this shard: " + written.message());
                    shard_is_done(over);
                  });
}

void ServerLoop::shard_is_done(const wire::RunOver& over) {
  hands_over_ = over.hands_over;
  report_shard();
  if (authority_) return;
  over_ = Status(over.code, over.message);
  end_if_heard();
}

// What the two speakers of this process have said to each other, in order, until nothing is left; and whom
// they have refused for good.
void ServerLoop::drain() {
  if (!ended_) on_shard_status(service_.status());
  answer_for_files();
  while (!ended_ && !(local_.empty() && expelled_.empty())) {
    for (const auto& [peer, why] : std::exchange(expelled_, {})) lose(peer, why, ticks());
    if (local_.empty()) continue;
    auto [speaker, message] = std::move(local_.front());
    local_.pop_front();
    if (speaker == Speaker::kShard) {
      const Ticks now = ticks();
      note(wire::LogEntry::As::kToAuthority, Peer::of(shard_), message.body, message.payload, now);
      const Status status = authority_ ? authority_->handle(Peer::of(shard_), message, now)
                                       : failed_precondition(std::string(wire::name_of(message.body)) +
                                                             " of the shard before the run goes on");
      if (!status.is_ok()) log_.warn(status.message());
    } else if (const auto* over = std::get_if<wire::RunOver>(&message.body)) {
      run_over(*over);
    } else {
      to_service(Peer::of(kAuthority), std::move(message));
    }
  }
  end_turn();
  const bool said = !replica_ || !role_.served() || (!role_.holds() && !awaits_return());
  const bool written = !replica_ || !replica_->background.is_behind();
  if (!ended_ && !follows() && authority_ && authority_->over() && said && written) {
    end(authority_->result());
  }
  if (!ended_ && !works_ahead_ && service_.may_work_ahead()) {
    works_ahead_ = true;
    boost::asio::post(io_, [this] { work_ahead(); });
  }
}

// Behind what the sockets have for us: they are looked at again before this is called the next time.
void ServerLoop::work_ahead() {
  works_ahead_ = false;
  if (ended_) return;
  const bool has_worked = service_.work_ahead();
  if (!service_.status().is_ok()) return drain();
  if (!has_worked) return;
  works_ahead_ = true;
  boost::asio::post(io_, [this] { work_ahead(); });
}

}  // namespace paceline::server
