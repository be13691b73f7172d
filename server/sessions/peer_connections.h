// PeerConnections: the socket of a server, who is behind each of its connections (server/peers/membership.h), and whom
// it cannot send to (server/peers/unreachable.h). Whatever a part of the server says to a node, or the authority to
// another shard, leaves through here: at once, or where the shard has a follower when that has what it follows from.
//
// Whoever is refused for good, or takes nothing any more, is noted (evict(), cannot_send()) and lost by the
// loop once the handler is done: the rest of what a handler does must not depend on it.
//
// Thread: the server's loop.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "common/wire/transport.h"
#include "server/loop/server_setup.h"
#include "server/peers/membership.h"
#include "server/peers/peer.h"
#include "server/peers/reliable_channel.h"
#include "server/replicas/replica_role.h"
#include "server/run/end_of_run.h"
#include "server/run/run_clock.h"
#include "server/service/shard_service.h"
#include "server/sessions/losses.h"

namespace paceline::server {

class PeerConnections {
 public:
  // All outlive this.
  PeerConnections(const ServerSetup& setup, const RunClock& clock, const EndOfRun& end, ReplicaRole& role,
                  const ShardService& service)
      : setup_(setup),
        clock_(clock),
        end_(end),
        role_(role),
        service_(service),
        members_(setup.config, setup.shard),
        losses_(setup, members_) {}

  // Binds the server's endpoint. Errors: those of wire::RouterSocket::bind(), and of reading keys.
  [[nodiscard]] Status open(wire::Context& context, boost::asio::io_context& io,
                            wire::RouterSocket::Handler handler);
  wire::RouterSocket& router() { return *router_; }
  const wire::RouterSocket& router() const { return *router_; }
  Membership& members() { return members_; }
  const Membership& members() const { return members_; }

  // ---- what is said
  // Over that connection; where the shard has a follower, once that has what it follows from.
  [[nodiscard]] Status send_or_hold(const wire::PeerId& to, wire::Message message);
  // What release() has given: leaves now.
  void send_released_output(const wire::PeerId& to, wire::Message message);
  void send_to(const wire::PeerId& connection, wire::Body body);
  // To a peer that is here; nothing where it has gone, or has not come to this replica of the shard.
  void send_to(Peer peer, wire::Body body);
  // To a peer that is here; nothing where it has gone, or never came. `channel`: what another shard is told is
  // counted there.
  void send(Peer to, wire::Message message, ReliableChannel* channel = nullptr);
  // A heartbeat to a peer that is here, unless so much waits for it that it need not be told. To another
  // shard it says how much of `channel` was heard.
  void beat(Peer peer, wire::Heartbeat beat, ReliableChannel* channel = nullptr);
  void refuse(const wire::PeerId& to, const Status& why, bool fatal);
  void refuse(Peer to, const Status& why, bool fatal);
  // The authority's answer to a node that said what it could not. What was given twice, as a node may whose connection
  // broke, is ignored; anything else is a node that this run cannot go on with.
  void refuse_unless_repeated(NodeId node, const Status& why);
  void cannot_send(Peer to, const Status& why);

  // ---- who is not let in, or has gone
  void on_malformed(const wire::PeerId& from, const std::optional<Peer>& peer, const Status& why);
  void refuse_unknown(const wire::PeerId& from, const wire::Body& body);
  void refuse_gone(const wire::PeerId& from, Peer peer);
  void refuse_join(const wire::PeerId& from, const Status& why);
  // A node that has outlived the servers it was with, and learns so as it must: `why` is no refusal.
  void refuse_outlived(const wire::PeerId& from, const Status& why);
  void retry_later(const wire::PeerId& from, NodeId node, const Status& why);
  // That the sender of the message being handled may speak as `who`, by its key. Where the run has keys, one
  // whose key has no name may not: that would be a connection about which nobody was asked.
  [[nodiscard]] Status check_key(bool may, const std::string& who) const;
  // It goes on over another connection: what was held for the one before, or comes over it, counts for nothing.
  void give_up(Peer peer, const Membership::Connection& before);
  // And is let in over that one, over which the message being handled came.
  void reconnected(const wire::PeerId& to) {
    router_->remember(to);
    ++reconnects_;
  }
  std::int64_t reconnects() const { return reconnects_; }
  // What it has pushed and is not applied yet keeps its memory mapped.
  void remove(Peer peer);
  // The memory that it shares.
  void unmap(Peer peer);
  // Breaks its connection: ZeroMQ connects anew, and what the peer then says is a stranger's.
  void disconnect(NodeId node);

  // ---- who is to be lost
  Losses& losses() { return losses_; }
  const Losses& losses() const { return losses_; }
  // Whoever fills this process's memory with a message that does not end, or is not let in.
  void keep_out(Ticks now);
  // At the end, how many of those there were.
  void log_kept_out() const;

  // Messages that were refused.
  std::int64_t refused() const { return refused_; }
  // And those for the authority that were said again.
  std::int64_t repeated() const { return repeated_; }

 private:
  Result<wire::TransportOptions> listening();
  std::int64_t waiting(const wire::PeerId& connection) const;
  [[nodiscard]] Status check_room(const wire::PeerId& connection) const;
  void not_sent(const wire::PeerId& connection, const Status& why);
  void note_refused(const Status& why);

  const ServerSetup& setup_;
  const RunClock& clock_;
  const EndOfRun& end_;
  ReplicaRole& role_;
  const ShardService& service_;
  Membership members_;
  std::unique_ptr<wire::RouterSocket> router_;
  Losses losses_;
  std::int64_t refused_ = 0;
  std::int64_t repeated_ = 0;
  std::int64_t malformed_logged_ = 0;  // of members
  std::int64_t outlived_ = 0;
  std::int64_t reconnects_ = 0;  // of nodes, and at the authority of the other shards
};

}  // namespace paceline::server
