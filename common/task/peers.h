// What tasks of different nodes say to each other while they compute: the stages of a pipeline send activations and
// what comes back through them. The mesh carries it (worker/mesh/channels.h); in tests threads do.
//
// What is sent to a node is received there in the same order. A message is owned by whoever has it, and is not
// copied on its way within a process.
#pragma once

#include <cstdint>
#include <vector>

#include "common/ids.h"
#include "common/status.h"

namespace paceline {

struct PeerMessage {
  // What it is, for the receiver to compare with what it expects.
  std::int64_t clock = 0;
  std::int64_t position = 0;  // of the mini-batch's first sample in the run (common/batch_part.h)
  std::uint32_t micro_batch = 0;
  std::uint32_t backward = 0;  // 0: activations, forward; 1: what comes back
  // Of the mini-batch, on its way back.
  double loss_sum = 0.0;
  std::int64_t correct = 0;
  std::vector<float> floats;
};

// What may come from a node. More is a mistake, and is found before memory is asked for.
struct PeerBounds {
  std::int64_t floats = 0;   // of a message
  std::size_t messages = 0;  // that have come and were not received yet
};

class PeerChannels {
 public:
  virtual ~PeerChannels() = default;

  // Takes `message` for node `to`, and does not wait until it has left. Errors: as receive().
  virtual Status send(NodeId to, PeerMessage message) = 0;
  // Waits for the next message of node `from`. Errors, for good: kUnavailable, naming the node that is gone;
  // kDeadlineExceeded nothing has come for too long; kAborted closed.
  virtual Result<PeerMessage> receive(NodeId from) = 0;
};

}  // namespace paceline
