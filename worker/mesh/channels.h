// Channels: messages of tasks (common/task/peers.h) over one TCP connection to every other node. Sockets as those of
// an all-reduce (mesh.h); what goes over them is not known beforehand, so each message says how long it is.
//
// One thread sends and receives for all, so that messages are on their way while their senders compute.
//
// On the wire, little endian: a head of 56 bytes, then the floats. A node that is gone ends what concerns it alone, and
// so does one that sends what is no message, or more than its bounds.
//
// Thread: any, each node's messages received by one. Memory: what has been sent and has not left, and what has come
// and has not been received, as far as its bounds allow.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/status.h"
#include "common/task/peers.h"
#include "worker/mesh/mesh.h"

namespace paceline::mesh {

class Channels final : public PeerChannels {
 public:
  // Connects as Mesh::connect() does, with its errors. `stop` outlives the channels: they end when it is set.
  // `bounds`: by rank; of those behind its end nothing is expected.
  // What another stage computes may take long: receive() waits without limit. The authority sees to nodes that are
  // silent, and a process that ends closes its connections.
  static Result<std::shared_ptr<Channels>> connect(const Listening& listening, Place place, StopFlag& stop,
                                                   std::chrono::milliseconds within,
                                                   std::vector<PeerBounds> bounds);
  ~Channels() override;
  Channels(const Channels&) = delete;
  Channels& operator=(const Channels&) = delete;

  Status send(NodeId to, PeerMessage message) override;
  Result<PeerMessage> receive(NodeId from) override;

  // The first node that is gone, if any is. Thread: any.
  std::optional<NodeId> gone() const;

 private:
  // As on the wire.
  struct Head {
    std::int64_t clock = 0;
    std::int64_t position = 0;
    std::int64_t floats = 0;
    double loss_sum = 0.0;
    std::int64_t correct = 0;
    std::uint32_t micro_batch = 0;
    std::uint32_t backward = 0;
    std::uint64_t magic = 0;
  };
  struct Peer {
    std::unique_ptr<Connection> connection;  // null: this node
    PeerBounds bounds;
    // Behind the lock.
    std::deque<PeerMessage> out;  // the first may be on its way in part
    std::deque<PeerMessage> in;
    Status gone;
    // The thread's alone.
    Head sending;
    std::size_t sent = 0;  // bytes of the first message, its head included; its head is made at 0
    Head head;
    PeerMessage coming;
    std::size_t received = 0;
  };

  Channels(Place place, StopFlag& stop);
  void run();
  bool send_some(Peer& peer, std::uint32_t rank);
  void receive_some(Peer& peer, std::uint32_t rank);
  bool receive_into(Peer& peer, std::uint32_t rank, void* into, std::size_t bytes);
  bool begin_message(Peer& peer, std::uint32_t rank);
  void lose(Peer& peer, std::uint32_t rank, const std::string& why);
  Peer& peer_of(NodeId node);

  const Place place_;
  StopFlag& stop_;
  StopFlag wake_;  // somebody has sent, or the channels end
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Peer> peers_;  // by rank
  bool ends_ = false;
  std::optional<NodeId> gone_;
  Status stopped_;
  std::thread thread_;
};

}  // namespace paceline::mesh
