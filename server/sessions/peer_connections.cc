#include "server/sessions/peer_connections.h"

#include "common/process/descriptors.h"
#include "server/peers/connections_max.h"
#include "server/peers/unread_messages_max.h"

namespace paceline::server {
namespace {

constexpr std::int64_t kRefusalsLogged = 100;  // a stranger must not fill the disk

}  // namespace

Result<wire::TransportOptions> PeerConnections::listening() {
  const RunConfig& config = setup_.config;
  wire::TransportOptions options;
  options.connections_max = static_cast<int>(connections_max(config.cluster, descriptor_limit()));
  options.on_unsent = [this](const wire::PeerId& to, const Status& why) { not_sent(to, why); };
  if (config.security.keys.empty()) return options;
  PACELINE_ASSIGN_OR_RETURN(wire::ServerKeys keys,
                            wire::read_server_keys(config.security.keys, config.cluster.nodes));
  options.server_keys = std::make_shared<const wire::ServerKeys>(std::move(keys));
  return options;
}

Status PeerConnections::open(wire::Context& context, boost::asio::io_context& io,
                             wire::RouterSocket::Handler handler) {
  PACELINE_ASSIGN_OR_RETURN(const wire::TransportOptions listens, listening());
  auto bound = wire::RouterSocket::bind(context, io, setup_.endpoint(), listens, std::move(handler));
  if (!bound) return Status(bound.status()).with_context("cluster.endpoints");
  router_ = std::move(bound).value();
  return Status::ok();
}

// ---- what is said

Status PeerConnections::send_or_hold(const wire::PeerId& to, wire::Message message) {
  if (!role_.has_other()) return router_->send(to, std::move(message));
  role_.hold(to, std::move(message), clock_.now());
  return Status::ok();
}

void PeerConnections::send_released_output(const wire::PeerId& to, wire::Message message) {
  const Status sent = router_->send(to, std::move(message));
  if (sent.is_ok()) return;
  const std::optional<Peer> peer = members_.who(to);
  if (peer && !members_.is_gone(*peer)) cannot_send(*peer, sent);
}

void PeerConnections::send_to(const wire::PeerId& connection, wire::Body body) {
  Status status = check_room(connection);
  if (status.is_ok()) status = send_or_hold(connection, {std::move(body), {}});
  if (status.is_ok()) return;
  // Its peer is gone, or its lease will tell; but who does not read may talk.
  setup_.log.debug(status.message());
  const std::optional<Peer> peer = members_.who(connection);
  if (peer && status.code() == StatusCode::kResourceExhausted) cannot_send(*peer, status);
}

void PeerConnections::send_to(Peer peer, wire::Body body) {
  const wire::PeerId* connection = members_.connection_of(peer);
  if (connection != nullptr) send_to(*connection, std::move(body));
}

void PeerConnections::send(Peer to, wire::Message message, ReliableChannel* channel) {
  if (!members_.is_present(to)) return;  // it has gone, or never came
  if (role_.follows() && to.is_node()) return;
  const wire::PeerId* connection = members_.connection_of(to);
  const bool is_repeated = std::holds_alternative<wire::HeldNotice>(message.body);  // it comes again
  if (is_repeated && connection != nullptr && waiting(*connection) >= kHeartbeatsUnread) return;
  const auto* error = std::get_if<wire::Error>(&message.body);
  if (error != nullptr && error->fatal) losses_.evict(to, "refused: " + error->message);
  if (channel != nullptr) {
    channel->on_send(message);
    if (channel->ack_overdue() && !role_.follows()) losses_.evict(to, "it acknowledges nothing");
  }
  if (connection == nullptr) return;  // it is elsewhere, and hears of it when it comes
  Status status = check_room(*connection);
  if (status.is_ok()) status = send_or_hold(*connection, std::move(message));
  if (!status.is_ok()) cannot_send(to, status);
}

void PeerConnections::beat(Peer peer, wire::Heartbeat beat, ReliableChannel* channel) {
  const wire::PeerId* connection = members_.connection_of(peer);
  if (connection == nullptr) return;
  Status status = check_room(*connection);  // who has asked for too much need not ask again to be found
  if (status.is_ok()) {
    if (waiting(*connection) >= kHeartbeatsUnread) return;
    if (channel == nullptr) {
      status = router_->send(*connection, {std::move(beat), {}});
    } else {
      beat.acked = channel->ack();
      status = send_or_hold(*connection, {std::move(beat), {}});
    }
  }
  if (!status.is_ok()) cannot_send(peer, status);
}

// Of those that are small: after what the follower has to have first, and on their way.
std::int64_t PeerConnections::waiting(const wire::PeerId& connection) const {
  return router_->waiting(connection) + role_.log().waiting(connection);
}

// That a message more may wait for the peer. Other shards are ours: the decisions that wait for one are as
// many as it is behind.
Status PeerConnections::check_room(const wire::PeerId& connection) const {
  const std::int64_t waiting = this->waiting(connection);
  const std::int64_t floats = service_.shard() != nullptr ? service_.shard()->range().size() : 0;
  const std::int64_t most = unread_messages_max(setup_.config, floats);
  if (waiting < most) return Status::ok();
  const std::optional<Peer> peer = members_.who(connection);
  if (peer && !peer->is_node()) return Status::ok();
  return resource_exhausted("it does not read what it is sent: " + std::to_string(waiting) +
                            " messages wait for it, expected less than " + std::to_string(most));
}

void PeerConnections::refuse(const wire::PeerId& to, const Status& why, bool fatal) {
  note_refused(why);
  send_to(to, wire::Error{why.code(), why.message(), fatal});
  const std::optional<Peer> peer = members_.who(to);
  if (fatal && peer) losses_.evict(*peer, "refused: " + why.message());
}

void PeerConnections::refuse(Peer to, const Status& why, bool fatal) {
  note_refused(why);
  send_to(to, wire::Error{why.code(), why.message(), fatal});
  if (fatal) losses_.evict(to, "refused: " + why.message());
}

// It does not know that it was heard.
void PeerConnections::refuse_unless_repeated(NodeId node, const Status& why) {
  const bool is_old = why.code() == StatusCode::kOutOfOrder;
  if (is_old && members_.moves_of(node) > 0) {
    ++repeated_;
  } else {
    refuse(Peer::of(node), why, /*fatal=*/!is_old);
  }
}

void PeerConnections::note_refused(const Status& why) {
  if (++refused_ <= kRefusalsLogged) setup_.log.warn("refused: " + why.message());
}

// What was to leave at the end of a turn. Not to a follower: what it is told leaves at once.
void PeerConnections::not_sent(const wire::PeerId& connection, const Status& why) {
  if (end_.ended()) return;
  const std::optional<Peer> peer = members_.who(connection);
  const bool present = peer && !members_.is_gone(*peer);
  present ? cannot_send(*peer, why) : setup_.log.debug(why.message());
}

// Called from within handlers, so what follows waits for the next tick. A shard cannot tell whether a node
// whose connection broke had said all that it had to say to the authority, so there the lease tells.
void PeerConnections::cannot_send(Peer to, const Status& why) {
  if (!setup_.is_authority() && why.code() == StatusCode::kUnavailable) return;
  losses_.unsent(to, why, clock_.now());
}

// ---- who is not let in, or has gone

// The socket has counted it.
void PeerConnections::on_malformed(const wire::PeerId& from, const std::optional<Peer>& peer,
                                   const Status& why) {
  // What cannot be read may be what the run waits for.
  const bool is_logged = peer && malformed_logged_++ < kRefusalsLogged;
  setup_.log.write(
      is_logged ? LogLevel::kWarn : LogLevel::kDebug,
      "malformed message from " + (peer ? to_string(*peer) : "an unknown peer") + ": " + why.message());
  if (peer && !peer->is_node()) {  // it may have been one that counts (server/peers/reliable_channel.h)
    send_to(from, wire::Error{why.code(), why.message(), /*fatal=*/true});
    losses_.evict(*peer, "refused: " + why.message());
    return;
  }
  if (router_->count_malformed(from)) {
    if (peer) losses_.evict(*peer, "refused: it went on sending malformed messages");
    return;
  }
  if (peer) send_to(from, wire::Error{why.code(), why.message(), /*fatal=*/false});
}

void PeerConnections::refuse_unknown(const wire::PeerId& from, const wire::Body& body) {
  const bool broken = router_->count_rejected(from);
  if (broken || std::holds_alternative<wire::Leave>(body)) return;  // whose join was refused says goodbye
  refuse(from,
         not_found(std::string(wire::name_of(body)) +
                   " before a join on this connection (a process of a node that was lost with the one before "
                   "is not let in again)"),
         /*fatal=*/true);
}

// What it sent before it left may still be under way; one that was only taken for lost must learn of it.
void PeerConnections::refuse_gone(const wire::PeerId& from, Peer peer) {
  if (router_->count_rejected(from)) return;
  send_to(from, wire::Error{StatusCode::kFailedPrecondition, to_string(peer) + " has gone from this run",
                            /*fatal=*/true});
}

void PeerConnections::refuse_join(const wire::PeerId& from, const Status& why) {
  const bool is_unknown = !members_.who(from);  // others have been counted
  if (is_unknown && router_->count_rejected_join(from)) return;
  refuse(from, why, /*fatal=*/true);
}

void PeerConnections::refuse_outlived(const wire::PeerId& from, const Status& why) {
  if (router_->count_rejected_join(from)) return;
  if (++outlived_ <= kRefusalsLogged) setup_.log.info(why.message());
  send_to(from, wire::Error{why.code(), why.message(), /*fatal=*/true});
}

void PeerConnections::retry_later(const wire::PeerId& from, NodeId node, const Status& why) {
  setup_.log.debug("a process of node " + to_string(node) + " is to ask again: " + why.message());
  if (router_->count_rejected(from)) return;
  send_to(from, wire::Error{why.code(), why.message(), /*fatal=*/false});
}

Status PeerConnections::check_key(bool may, const std::string& who) const {
  if (may || setup_.config.security.keys.empty()) return Status::ok();
  const std::string name = router_->key_name();
  return failed_precondition(who + ": got " + (name.empty() ? "no key" : "the key " + name + ".key") +
                             ", expected " + who + "'s own");
}

void PeerConnections::give_up(Peer peer, const Membership::Connection& before) {
  if (before) {
    role_.drop(*before);
    router_->give_up(*before);
  }
  losses_.unreachable().forget(peer);
}

void PeerConnections::remove(Peer peer) {
  role_.note(peer, {.what = wire::LocalEvent::What::kRemoved}, clock_.now());
  members_.remove(peer);
  if (peer.is_node()) unmap(peer);
}

void PeerConnections::unmap(Peer peer) {
  if (const Membership::Connection& last = members_.last_connection_of(peer)) router_->unmap(*last);
}

void PeerConnections::disconnect(NodeId node) {
  const Membership::Connection& last = members_.last_connection_of(Peer::of(node));
  const Status status = last ? router_->disconnect(*last) : Status::ok();
  if (!status.is_ok()) setup_.log.debug(to_string(Peer::of(node)) + ": " + status.message());
}

void PeerConnections::keep_out(Ticks now) {
  for (const std::string& line : router_->keep_out(now)) setup_.log.warn("kept out " + line);
  std::vector<wire::PeerId> whose;
  const int broken = router_->break_unfinished(&whose);
  if (broken == 0) return;
  for (const wire::PeerId& connection : whose) {  // else it would come back over another one
    const std::optional<Peer> peer = members_.who(connection);
    if (peer) losses_.evict(*peer, "refused: it sent a message without an end");
  }
  setup_.log.warn("broke " + std::to_string(broken) + " connection" + (broken == 1 ? "" : "s") +
                  " that sent a message without an end");
}

void PeerConnections::log_kept_out() const {
  const std::int64_t kept_out = router_->counters().kept_out;
  if (kept_out > 0) setup_.log.info("connections that were kept out: " + std::to_string(kept_out));
}

}  // namespace paceline::server
