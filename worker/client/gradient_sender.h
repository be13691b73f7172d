// From a training thread's gradient to what its I/O thread sends: which frames leave now, in which bytes, and
// what has left before the gradient was whole.
//
// Thread: one at a time (the training thread), but for GradientPart::send().
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/instant.h"
#include "worker/client/gradient_encoder.h"
#include "worker/client/gradient_frames.h"
#include "worker/client/server_link.h"
#include "worker/exchange/exchange.h"

namespace paceline {

// What leaves of a gradient at once.
struct GradientPart {
  wire::Push push;
  std::shared_ptr<const void> whole;               // expires when all of the gradient has left
  std::shared_ptr<const void> part;                // expires when this has; holds the above
  std::vector<Revision> slices;                    // Contribution::slices
  ShardParts floats;                               // what to send to whom:
  SharedFloats values;                             // as it lies here, or
  std::vector<std::vector<EncodedFrame>> encoded;  // by shard, where the run has an encoding

  // Sends what is for that server, if there is something. Thread: the I/O thread.
  Status send(ServerLink& link, std::int64_t frame_bytes) const;
  // The same bytes, to be sent again; its `whole` and `part` are its own, so that holding it does not look
  // like bytes that have not left: it has none of either until mark_retransmitted().
  GradientPart kept() const;
  // Sets `whole` and `part`.
  void mark_retransmitted();
};

class GradientSender {
 public:
  // `encoder`: for floats in fewer bytes; `now`: what time it is, on any thread; `fragments`: as GradientFrames has
  // them.
  GradientSender(const std::vector<Range>& shards, std::int64_t frame_floats, std::optional<Encoder> encoder,
                 Ticks (*now)(), const std::vector<Range>& fragments = {});

  // Elements [begin, the vector's end) of the gradient are final: what leaves now; nullopt when it
  // is not a frame.
  std::optional<GradientPart> early(const Contribution& gradient, std::int64_t begin);
  // What the time between the first early() of this gradient and `until` has hidden.
  EarlyPush pushed_early(Ticks until) const;
  // All of it is: what has not left.
  GradientPart rest(const Contribution& gradient);
  // It will not be sent. By shard, whether something of it has left; nullopt when nothing. What was owed
  // before it still is.
  std::optional<std::vector<bool>> withdraw();

 private:
  // A part on its way. `left`: when its last byte had left, in ticks; 0 until then.
  struct OnItsWay {
    Ticks since;
    std::shared_ptr<std::atomic<std::int64_t>> left;
  };
  GradientPart part_of(const Contribution& gradient, ShardParts floats);
  std::shared_ptr<const void> watched(std::shared_ptr<const void> whole);
  void begin_next();

  GradientFrames frames_;
  std::optional<GradientEncoder> encoder_;
  Ticks (*const now_)();
  std::shared_ptr<const void> whole_;  // of the gradient that is leaving
  std::vector<OnItsWay> early_;
  std::int64_t early_bytes_ = 0;
};

}  // namespace paceline
