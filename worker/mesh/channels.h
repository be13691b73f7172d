// Channels: messages of tasks (common/task/peers.h) over one TCP connection to every other node. Connections as those
// of an all-reduce (mesh.h); what goes over them is not known beforehand, so each message says how long it is.
//
// Stages that sum with other groups' also send their parameters to the one that evaluates. They
// wait to be received by another thread, but leave in the order of all messages.
//
// One thread sends and receives for all, so that messages are on their way while their senders compute.
//
// Between nodes of one machine floats stay where their sender has written them, in a segment that the other one maps to
// read (common/wire/shared_memory.h); over the connection goes where. Whoever has read them says so, and that room is
// given away again:
//
//   node 0   room, write, send --- head: at byte 4096 --> node 1   read there
//            (room again)      <-- at byte 4096: read ---          let go of
//
// What finds no room there is sent. It is the same order, and the same end when a node is gone.
//
// On the wire, little endian: a head of 72 bytes, then the floats that do not lie there. `backward` says what it is:
// 0 or 1 of a task, 2 parameters, whose clock is their version, 3 to 5 of the shared memory (channels.cc). A node that
// is gone ends what concerns it alone, and so does one that sends what is no message, or more than its bounds.
//
// Thread: any, each node's messages received by one. Memory: what has been sent and has not left, and what has come
// and has not been received, as far as its bounds allow.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/status.h"
#include "common/task/peers.h"
#include "common/wire/shared_memory.h"
#include "worker/mesh/mesh.h"

namespace paceline::mesh {

class Channels final : public PeerChannels {
 public:
  // How many versions of a node's parameters wait to be received; the oldest goes for a further one.
  static constexpr std::size_t kVersionsMax = 2;
  // What may come from a node: messages, and so many floats of parameters.
  struct Bounds {
    std::vector<PeerBounds> messages;      // by rank; of those after its end nothing is expected
    std::vector<std::int64_t> parameters;  // likewise
  };

  // Over `connections` (handshake.h); of a rank without one nothing is expected, and nothing is sent to it.
  // `stop` outlives the channels: they end when it is set.
  // What another stage computes may take long: receive() waits without limit. The authority sees to nodes that are
  // silent, and a process that ends closes its connections.
  static std::shared_ptr<Channels> over(PeerConnections connections, Place place, StopFlag& stop,
                                        Bounds bounds);
  ~Channels() override;
  Channels(const Channels&) = delete;
  Channels& operator=(const Channels&) = delete;

  PeerRoom room(NodeId to, std::int64_t floats) override;
  Status send(NodeId to, PeerMessage message) override;
  Result<PeerMessage> receive_within(NodeId from, std::optional<std::chrono::milliseconds> within) override;

  // The same of a node's parameters at a version. It arrives, or the node is lost, so what has been sent once is not
  // sent again, nor what is older: versions ascend.
  Status send_parameters(NodeId to, Version version, std::vector<float> floats);
  bool has_sent_parameters(NodeId to, Version version) const;
  // Waits for exactly these. Errors: also kNotFound later ones have come, so these never will.
  Result<std::vector<float>> receive_parameters(NodeId from, Version version);

  // Whether that node reads floats where they are written. Soon after over().
  bool shares_with(NodeId node) const;
  // So many messages it has been sent without their floats.
  std::int64_t shared() const;
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
    std::int64_t samples = 0;
    std::int64_t at = kSent;  // the floats, in the sender's segment
    std::uint64_t magic = 0;
  };
  static constexpr std::int64_t kSent = -1;
  // Places that have been read, on their way back to whose they are.
  struct Read {
    std::mutex mutex;
    std::vector<std::pair<std::uint32_t, std::int64_t>> places;  // rank, place
  };
  class Lent;
  struct Peer {
    std::unique_ptr<Connection> connection;  // null: this node
    PeerBounds bounds;
    std::int64_t parameters_max = 0;
    std::shared_ptr<wire::SharedSegment> segment;  // for what goes there; null: nothing is shared
    // After the lock.
    bool maps = false;            // it reads there
    std::deque<PeerMessage> out;  // the first may be on its way in part
    std::deque<PeerMessage> in;
    std::deque<PeerMessage> parameters;      // ascending versions
    std::optional<Version> parameters_sent;  // the newest
    Status gone;
    // The thread's alone.
    Head sending;
    std::size_t sent = 0;  // bytes of the first message, its head included; its head is made at 0
    Head head;
    PeerMessage coming;
    PeerRoom arriving;  // its floats, where they are sent
    std::size_t received = 0;
    std::map<std::int64_t, PeerFloats> lent;            // by place, until they are read
    std::shared_ptr<const wire::MappedSegment> mapped;  // the peer's
  };

  Channels(Place place, StopFlag& stop);
  void run();
  bool send_some(Peer& peer, std::uint32_t rank);
  void receive_some(Peer& peer, std::uint32_t rank);
  bool receive_into(Peer& peer, std::uint32_t rank, void* into, std::size_t bytes);
  bool begin_message(Peer& peer, std::uint32_t rank);
  bool refuse_head(const Head& head, Peer& peer, std::uint32_t rank);
  PeerFloats lent_by(Peer& peer, std::uint32_t rank, const Head& head);
  void take_message(Peer& peer, std::uint32_t rank);
  void map(Peer& peer, std::uint32_t rank);
  void offer_memory(Peer& peer);
  void give_back_read();
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
  std::int64_t shared_ = 0;
  const std::shared_ptr<Read> read_ = std::make_shared<Read>();
  std::thread thread_;
};

}  // namespace paceline::mesh
