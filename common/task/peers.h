// What tasks of different nodes say to each other while they compute: the stages of a pipeline send activations and
// what comes back through them. The mesh carries it (worker/mesh/channels.h); in tests threads do.
//
// What is sent to a node is received there in the same order. Floats are written once, where the sender has been given
// room for them, and are not changed any more: a receiver of the same machine may read them there.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/ids.h"
#include "common/status.h"

namespace paceline {

// A message's floats, and whoever keeps them there: shared by copies, let go of with the last one. Thread: any, one at
// a time.
class PeerFloats {
 public:
  PeerFloats() = default;
  PeerFloats(std::vector<float> floats) {
    const auto owned = std::make_shared<const std::vector<float>>(std::move(floats));
    floats_ = *owned;
    owner_ = owned;
  }
  PeerFloats(std::span<const float> floats, std::shared_ptr<const void> owner)
      : floats_(floats), owner_(std::move(owner)) {}

  operator std::span<const float>() const { return floats_; }
  std::span<const float> span() const { return floats_; }
  std::size_t size() const { return floats_.size(); }

 private:
  std::span<const float> floats_;
  std::shared_ptr<const void> owner_;
};

// Where a message's floats are to be written; not zeros.
class PeerRoom {
 public:
  PeerRoom() = default;
  PeerRoom(std::span<float> floats, std::shared_ptr<const void> owner)
      : floats_(floats), owner_(std::move(owner)) {}
  static PeerRoom on_the_heap(std::int64_t floats) {
    const std::shared_ptr<float[]> made(new float[static_cast<std::size_t>(floats)]);
    return {{made.get(), static_cast<std::size_t>(floats)}, made};
  }

  std::span<float> span() const { return floats_; }
  // They are written.
  PeerFloats done() && { return {floats_, std::move(owner_)}; }

 private:
  std::span<float> floats_;
  std::shared_ptr<const void> owner_;
};

struct PeerMessage {
  // What it is, for the receiver to compare with what it expects.
  std::int64_t clock = 0;
  std::int64_t position = 0;  // of the mini-batch's first sample in the run (common/batch_part.h)
  std::uint32_t micro_batch = 0;
  std::uint32_t backward = 0;  // 0: activations, forward; 1: what comes back
  // Of the mini-batch, on its way back.
  double loss_sum = 0.0;
  std::int64_t correct = 0;
  PeerFloats floats = {};
  std::int64_t samples = 0;  // of the mini-batch
};

// What may come from a node. More is a mistake, and is found before memory is asked for.
struct PeerBounds {
  std::int64_t floats = 0;   // of a message
  std::size_t messages = 0;  // that have come and were not received yet
  // And what goes to it, for which room is made in shared memory: of a message, and so many that are not read yet.
  std::int64_t floats_sent = 0;
  std::size_t messages_sent = 0;
};

class PeerChannels {
 public:
  virtual ~PeerChannels() = default;

  // Room for the floats of a message to node `to`: where that one reads them, if it can, and there is room.
  virtual PeerRoom room(NodeId to, std::int64_t floats) {
    static_cast<void>(to);
    return PeerRoom::on_the_heap(floats);
  }
  // Takes `message` for node `to`, and does not wait until it has left. Errors: as receive().
  virtual Status send(NodeId to, PeerMessage message) = 0;
  // Waits for the next message of node `from`, for so long (nullopt: without a limit). Errors: kDeadlineExceeded it has
  // not come; and for good: kUnavailable, naming the node that is gone; kAborted closed.
  virtual Result<PeerMessage> receive_within(NodeId from,
                                             std::optional<std::chrono::milliseconds> within) = 0;
  Result<PeerMessage> receive(NodeId from) { return receive_within(from, std::nullopt); }
};

}  // namespace paceline
