// ServerTicks: what a server does as time passes, 20 times a second: it says that it lives, takes for lost who is
// silent or cannot be reached, tells the authority and the shard what time it is, and shows how the run goes.
//
// Thread: the server's loop.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>

#include "common/instant.h"
#include "common/pause.h"
#include "server/peers/server_channels.h"
#include "server/replicas/replication.h"
#include "server/run/resuming.h"
#include "server/run/run_display.h"
#include "server/run/server_view.h"
#include "server/sessions/node_sessions.h"
#include "server/shards/authority_link.h"

namespace paceline::server {

class ServerTicks {
 public:
  // What there is of a server. All outlive this; `replication` may be null.
  struct Server {
    const ServerSetup& setup;
    const RunClock& clock;
    const EndOfRun& end;
    ReplicaRole& role;
    PeerConnections& connections;
    NodeSessions& sessions;
    ServerChannels& channels;
    AuthorityLink& link;
    ShardService& service;
    OwnAuthority& authority;
    Resuming& resuming;
    const std::unique_ptr<Replication>& replication;
    const ServerView& view;
    RunDisplay& display;
  };
  using Lose = std::function<void(Peer, const std::string& why, Loss, Ticks now)>;
  // `lose` is called for whoever is lost; `drain` after each tick.
  ServerTicks(boost::asio::io_context& io, Server server, Lose lose, std::function<void()> drain)
      : server_(server), lose_(std::move(lose)), drain_(std::move(drain)), timer_(io) {}

  // Until the run ends, or end().
  void begin(Ticks now);
  void end() { timer_.cancel(); }
  // A replica that follows: the one that serves had a tick at that time.
  void ticked(Ticks at) { last_ = at; }
  // Heartbeats leave with the next tick.
  void beat_next(Ticks now) { next_heartbeat_ = now; }

 private:
  void schedule();
  void tick();
  void discount_pause(const Pause& pause);
  void heartbeat(Ticks now);
  bool trains() const { return server_.authority && server_.authority->training(); }
  bool is_done(Peer peer) const;

  const Server server_;
  const Lose lose_;
  const std::function<void()> drain_;
  boost::asio::steady_timer timer_;
  Ticks last_;
  Ticks next_heartbeat_;
};

}  // namespace paceline::server
