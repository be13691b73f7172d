// ServerLoop: the only I/O of a server. Sockets and timers in, decoded messages to the shard's service and to
// the authority, and what they send out again.
//
//   nodes, at the authority the other shards    PeerConnections ─┐
//   other shards: the authority                 AuthorityLink  ──┼─> ShardService, Authority ─> send() ─> out
//   server_ticks.h: leases, held grants, heartbeats, progress ───┘
//
// What belongs together is a part of its own, with its own state; the loop says whom a message is for:
//
//   sessions/       nodes: joining, going on over another connection, coming late; sharing memory
//   shards/         the authority and the other shards
//   replicas/       a shard's second server: serving, following, taking over, coming back
//   server/run/resuming.h      a run that is resumed, until this shard has what it goes on from
//   server/service/shard_end.h     what a shard does once the run is over; server/run/end_of_run.h how it went
//   server/run/server_view.h   what the server says of itself; server/run/run_display.h where it is shown
//
// Thread: the one that runs `io`.
#pragma once

#include <boost/asio/io_context.hpp>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/config/run_config.h"
#include "common/log/log.h"
#include "common/wire/transport.h"
#include "server/loop/background_thread.h"
#include "server/loop/own_authority.h"
#include "server/loop/own_shard.h"
#include "server/loop/server_requests.h"
#include "server/loop/server_setup.h"
#include "server/loop/server_ticks.h"
#include "server/loop/speaker.h"
#include "server/loop/wake.h"
#include "server/peers/server_channels.h"
#include "server/replicas/replica_role.h"
#include "server/replicas/replication.h"
#include "server/run/end_of_run.h"
#include "server/run/resuming.h"
#include "server/run/run_clock.h"
#include "server/run/run_display.h"
#include "server/run/run_generation.h"
#include "server/run/server_view.h"
#include "server/service/shard_checkpoints.h"
#include "server/service/shard_end.h"
#include "server/service/shard_service.h"
#include "server/sessions/node_sessions.h"
#include "server/sessions/peer_connections.h"
#include "server/shards/authority_link.h"
#include "server/shards/shard_peers.h"

namespace paceline::server {

class ServerLoop final : private SpeakerOutbox::Route {
 public:
  ServerLoop(boost::asio::io_context& io, const RunConfig& config, ShardId shard, const Log& log,
             ServerOptions options);
  ~ServerLoop() override {
    replies_sent_->close();
    authority_.end();  // its background may be the replication's, which is made after it
  }
  ServerLoop(const ServerLoop&) = delete;

  [[nodiscard]] Status open(wire::Context& context);
  std::string endpoint() const { return connections_.router().endpoint(); }
  std::string http_address() const { return display_.http_address(); }
  // What its process asks of it.
  ServerRequests& requests() { return requests_; }
  // How the run went, once the loop has ended.
  const Status& result() const { return end_.result(); }
  std::optional<RestartRequest> restart_request() const { return end_.restart_request(); }
  const ShardService& service() const { return service_; }

 private:
  EventReplay::Server replayed();
  [[nodiscard]] Status begin(wire::Context& context, Ticks now);

  // What comes in.
  void on_router(const wire::PeerId& from, Result<wire::Message> message);
  void on_node(Peer from, wire::Message message, Ticks now);
  void to_shard(Peer from, wire::Message message);
  void on_lost(const wire::NodeLost& lost);
  void to_authority(Peer from, const wire::Message& message, Ticks now);
  void on_authority(Result<wire::Message> message);

  // What goes out, and whoever is lost by that.
  void send(Speaker speaker, Peer to, wire::Message message) override;
  void disconnect(NodeId node) override { connections_.disconnect(node); }
  void drain();
  void deliver(Speaker speaker, wire::Message message);
  void lose(Peer peer, const std::string& why, Loss loss, Ticks now);

  void take_over(Ticks now);
  void close();

  boost::asio::io_context& io_;
  const ServerSetup setup_;
  RunClock clock_;
  EndOfRun end_;
  RunGeneration generation_;
  ReplicaRole role_;
  ServerChannels channels_;
  SpeakerOutbox shard_outbox_;
  SpeakerOutbox authority_outbox_;
  const std::shared_ptr<Wake> replies_sent_;  // by ZeroMQ's thread
  ShardCheckpoints shard_checkpoints_;
  ShardService service_;
  BackgroundThread background_;
  OwnAuthority authority_;  // shard 0 only
  PeerConnections connections_;
  NodeSessions sessions_;
  AuthorityLink link_;
  ShardPeers shards_;
  Resuming resuming_;
  SavedComparison comparison_;
  ShardEnd shard_end_;
  std::unique_ptr<Replication> replication_;  // cluster.replicas: 2
  OwnShard own_shard_;
  ServerView view_;
  RunDisplay display_;
  ServerRequests requests_;
  ServerTicks ticks_;
  std::deque<std::pair<Speaker, wire::Message>> local_;  // from that speaker to the other one
};

}  // namespace paceline::server
