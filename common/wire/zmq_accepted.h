// AcceptedConnections: a router's connections, as far as they are not its peers' messages: who may come in by its key
// (zmq_gate.h), who has connected, how many may be there and what is held against them (connections.h), who sends a
// message without an end (unfinished.h); and the peers whose connection was broken or given up, of which what is still
// read is dropped.
//
// Thread: the one that runs the socket's loop.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>
#include <zmq.hpp>

#include "common/instant.h"
#include "common/status.h"
#include "common/wire/accepted_at.h"
#include "common/wire/connections.h"
#include "common/wire/socket_id.h"
#include "common/wire/transport.h"
#include "common/wire/unfinished.h"
#include "common/wire/zmq_context.h"
#include "common/wire/zmq_monitor.h"

namespace paceline::wire {

class AcceptedConnections {
 public:
  // The last two: Unfinished's.
  AcceptedConnections(Context::Impl& context, const TransportOptions& options, std::int64_t held_bytes_max,
                      std::int64_t held_bytes_max_unread);
  ~AcceptedConnections() { deregister(); }
  AcceptedConnections(const AcceptedConnections&) = delete;
  AcceptedConnections& operator=(const AcceptedConnections&) = delete;

  // Before `socket` is bound: from now on keys are asked for, unless `keys` is null, and it is known who
  // connects. ZeroMQ tells on a socket of its own, before it hands out anything of the connection. Throws
  // zmq::error_t.
  void watch(zmq::socket_t& socket, const ServerKeys* keys);
  void bound(const std::string& endpoint) { at_.emplace(endpoint); }
  // Before the socket is closed, and after that.
  void unwatch() { monitor_.reset(); }
  void deregister();

  // The header of the message that is being handled; null: none is.
  void handles(zmq::message_t* header);
  // Of that message: as RouterSocket's.
  std::string key_name() const;
  void remember(const PeerId& from);
  // Something is held against who sent it. Whether its connection was broken for that.
  bool count(Wrong what, const PeerId& from);

  // Whether what is read of this peer is dropped; it is counted then.
  bool drop_if_ignored(const PeerId& from, TrafficCounters& counters) const;
  // Errors, as RouterSocket::disconnect(): kNotFound; kResourceExhausted, nothing has changed.
  Status disconnect(const PeerId& peer);
  // After that: it is a stranger's, whether it is closed or not.
  void give_up(const PeerId& peer);

  // As RouterSocket's. `all_read`: as Unfinished::break_up()'s.
  int break_unfinished(const std::function<bool()>& all_read, std::vector<PeerId>* whose);
  std::vector<std::string> keep_out(Ticks now, TrafficCounters& counters);

 private:
  void poll_monitor();
  int descriptor() const;

  Context::Impl& context_;
  const std::shared_ptr<Admission> admission_;  // whom it lets in, and whom it did not
  bool has_keys_ = false;                       // else everybody is let in
  std::string domain_;                          // by which ZeroMQ asks for it, while the gate is open
  std::optional<ZmqMonitor> monitor_;
  std::optional<AcceptedAt> at_;  // once it is bound
  Unfinished unfinished_;
  Connections all_;
  zmq::message_t* handled_ = nullptr;
  std::unordered_map<PeerId, SocketId> remembered_;
  std::deque<PeerId> dropped_;   // the last whose connections were broken for what they said
  std::deque<PeerId> given_up_;  // and the last that were given up for others
};

}  // namespace paceline::wire
