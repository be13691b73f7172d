// ServerConnections: a client's connections, one to every server, from the first Join until they are shut down:
// who has welcomed the node, who is silent, who is asked again (joining.h), and how it goes on where one breaks
// (server_connections_reconnect.cc). What comes over them goes to others (Events), who tell it of what it is for.
//
// Thread: the I/O thread (io_turns.h), but for what says otherwise.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/instant.h"
#include "common/params/layout.h"
#include "common/status.h"
#include "common/wire/transport.h"
#include "worker/client/client_state.h"
#include "worker/client/client_waits.h"
#include "worker/client/joining.h"
#include "worker/client/ps_client_options.h"
#include "worker/client/pulls.h"
#include "worker/client/server_link.h"
#include "worker/client/shard_part.h"
#include "worker/client/unacked_messages.h"

namespace paceline {

class ServerConnections {
 public:
  // What the client is made of besides; all of it outlives this.
  struct Client {
    const PsClientOptions& options;
    const Layout& layout;
    wire::Context& context;
    boost::asio::io_context& io;
    ClientState& state;
    Pulls& pulls;
    UnackedMessages& unacked;
    ClientWaits& waits;
  };
  struct Events {
    // A server's first Welcome has come, ahead of what lets a waiter go.
    std::function<void(const ServerLink&, const wire::Welcome&)> joined;
    // Whatever comes over a server's connection.
    std::function<void(ServerLink&, Result<wire::Message>)> came;
    // Servers are lost that the client cannot do without: it says goodbye, and shuts down.
    std::function<void(Lost, const Status&)> lost;
    // A server lives, and owes this node a word for too long, or cannot read what it says.
    std::function<void(const Status&)> owes;
    // The client cannot go on, and has nothing to say.
    std::function<void(Status)> failed;
  };
  ServerConnections(Client client, const std::vector<ShardPart>& parts, Events events);

  // Connects to every server and joins; heartbeats and the deadlines for silence begin.
  void connect_all();
  // Waits until all servers have welcomed the node, and returns the generation of the run that they are of. Errors:
  // those of PsClient::start(). Thread: any.
  Result<std::uint64_t> await_joined();
  // Whether a server shares memory with this node. Thread: any.
  bool shares_memory() const { return shares_memory_; }

  // Calls `send` with each link; where it fails that server is lost. What a server whose connection broke would not
  // get it gets when it has welcomed the node again.
  template <typename Send>
  void each(const Send& send) {
    for (ServerLink& link : links_) {
      if (link.socket == nullptr) continue;  // never connected, or shut down
      if (link.broken) continue;
      if (Status sent = send(link); !sent.is_ok()) return lose(link, sent);
    }
  }
  // The same of the authority alone.
  void send_to_authority(const wire::Body& body);
  // To all servers. Over a connection that is not welcomed yet, too: after its Join the server knows who leaves.
  void send_leave(const wire::Leave& leave);
  // No socket is left, and the loop is stopped; a goodbye has left before.
  void shut_down();

  // A server's Welcome: the first over its link, or the one after a connection that broke, after which all that it
  // may not have heard is said again. After a first one: where it was the last that the authority waits for, and
  // training is under way there, the node says that it is ready.
  Status welcome(ServerLink& link, const wire::Welcome& welcome);
  // Whether another server than that of `link` has not said that it has parameters.
  bool others_lack_parameters(const ServerLink& link) const;
  // A server has refused something, or this node.
  Status refused(ServerLink& link, const wire::Error& error);
  // The authority, or a server, has ended this run in a way that can be resumed. It is asked again, where this node
  // is still joining again, after the loss of its servers; else it is lost.
  void ended(ServerLink& link, const Status& how);

 private:
  Status connect(ServerLink& link);
  Status ask(ServerLink& link);
  Status ask_if_due(ServerLink& link);
  Status confirm_sharing(ServerLink& link);
  void log_unanswered(ServerLink& link);
  void denied(ServerLink& link, const Status& why);
  Status refused_for_good(ServerLink& link, const wire::Error& error);
  void beat();
  void lose(const ServerLink& link, const Status& why);

  // A connection that broke.
  void broke(ServerLink& link, std::int64_t connection, const std::string& how);
  void reconnect_in(ServerLink& link, std::chrono::nanoseconds delay);
  void reconnect(ServerLink& link);
  bool tries_other_replica(ServerLink& link, Ticks now);
  Status back(ServerLink& link, const wire::Welcome& welcome);

  const Client client_;
  const ClusterSection& cluster_;
  const Log log_;
  const Events events_;
  std::vector<ServerLink> links_;
  Joining joining_;
  ClientWaits& waits_;
  boost::asio::steady_timer timer_;  // of the heartbeat, or of a goodbye
  std::atomic<bool> shares_memory_ = false;
  std::int64_t reconnects_ = 0;
  std::optional<Ticks> left_at_;
  bool shut_ = false;
};

}  // namespace paceline
