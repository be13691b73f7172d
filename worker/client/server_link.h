// What the I/O thread knows about one server: its connection, into which generation of the run it has
// welcomed this node, and when it was last seen.
//
// Thread: the I/O thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/ids.h"
#include "common/instant.h"
#include "common/params/partition.h"
#include "common/status.h"
#include "common/wire/transport.h"
#include "worker/client/gradient_encoder.h"
#include "worker/client/shard_part.h"
#include "worker/client/unanswered.h"
#include "worker/exchange/run_state.h"

namespace paceline {

// The floats of a frame of cluster.frame_bytes, whatever their encoding.
inline std::int64_t frame_floats(std::int64_t frame_bytes) {
  return std::max<std::int64_t>(1, frame_bytes / static_cast<std::int64_t>(sizeof(float)));
}

struct ServerLink {
  ShardId shard;
  std::vector<std::string> endpoints;  // where it may be had: of each of its replicas
  Range range;                         // what it must hold
  ShardPart part;                      // of that, what this node trains
  std::unique_ptr<wire::DealerSocket> socket;
  std::uint64_t generation = 0;  // that it has welcomed this node into; 0: it has not
  bool initialized = false;      // it has its parameters already, as it said then
  Ticks last_received;
  Ticks asked;                           // when it was last sent a Join
  std::optional<Ticks> reconnects_at{};  // then; what still comes over this connection counts for nothing

  bool was_welcomed = false;    // in this session, whatever has become of that
  bool waits_its_turn = false;  // the server cannot let the node in yet, and that is in the log

  // Its connection broke, and the node connects anew (server_connections_reconnect.cc). Until it is welcomed again
  // nothing else is sent there.
  struct Broken {
    Ticks since;
    int attempts = 0;        // connections that were tried
    bool connected = false;  // with the last of them; else what still comes counts for nothing
    // What the server was lent over those that broke, and may still read: it reads none of it once it has
    // welcomed the node again.
    std::vector<std::shared_ptr<const void>> lent{};
  };
  std::optional<Broken> broken{};
  std::int64_t connection = 0;  // how many there have been
  std::size_t at = 0;           // which of its endpoints the last of them is to
  bool answers = true;          // over that one it has said something else than that another replica serves
  Unanswered unanswered{};      // why not, while it says nothing to a Join

  bool welcomed() const { return generation != 0; }
  // Whether what comes over its connection counts.
  bool is_received() const { return !reconnects_at && (!broken || broken->connected); }

  // "server shard 1 (tcp://10.0.0.1:5556)", as in every message about it.
  std::string name() const { return "server shard " + to_string(shard) + " (" + endpoints[at] + ")"; }

  // Errors as the socket's, naming it.
  Status send(wire::Message message) const;

  // kInvalidArgument when it holds another shard, or another range, than it must.
  Status check(const wire::Welcome& welcome) const;
  // kDeadlineExceeded when nothing came from a server that has welcomed us for longer than `lease`.
  Status check_silence(Ticks now, std::chrono::nanoseconds lease) const;

  // Sends the range's initial values, if the server has none, in payload frames of at most `frame_bytes`,
  // ascending, the last one marked. `values` points at the range's first float, kept alive by `owner`.
  Status send_initial(const std::shared_ptr<const void>& owner, const float* values,
                      std::int64_t frame_bytes);
  // Sends what a run has come to, to the one server of all parameters, in such frames.
  Status send_state(const std::shared_ptr<const RunState>& state, std::int64_t frame_bytes);
  // The same whether it has some or not.
  Status send_parameters(const std::shared_ptr<const void>& owner, const float* values,
                         std::int64_t frame_bytes);
  // Sends floats [begin, end) of the gradient of what this node trains of the range, in such frames, the highest
  // first, each as `push` with its offset; the one at 0 is the last and alone says the samples. `values` points at
  // what it trains; `floats` is whole frames, and a tail whose frame leaves with it is not cut off. What others
  // train is said to be zero.
  Status send_gradient(const wire::Push& push, const std::shared_ptr<const void>& owner, const float* values,
                       std::int64_t frame_bytes, Range floats);
  // Sends what is encoded already of floats [begin, end), frame by frame, likewise; `owner` is kept until each has
  // left, and keeps the frames' bytes. Their offsets are of what it trains.
  Status send_encoded(const wire::Push& push, const std::shared_ptr<const void>& owner,
                      const std::vector<EncodedFrame>& frames, std::int64_t frame_bytes, Range floats);

 private:
  // What others train of the range, where `floats` reach to the end, or to the begin, of what this node does.
  Status send_zeros_above(const wire::Push& push, std::int64_t frame_bytes, Range floats);
  Status send_zeros_below(const wire::Push& push, std::int64_t frame_bytes, Range floats);
  Status send_zeros(const wire::Push& push, std::int64_t frame_bytes, Range floats);
  Status send_piece(wire::Push push, std::int64_t offset, wire::Payload payload);
};

}  // namespace paceline
