// A training thread's gradients in fewer bytes: each cut into frames, as the servers' blocks are, each frame
// encoded on its own (common/encode/encode.h), all into one recycled buffer that is shared with the
// transport. A gradient may be encoded in several parts, as its frames become final.
//
// int8 and top_k leave something out of every gradient. Error feedback sends it later: what is encoded is the
// gradient plus what all earlier ones still lack, and what that encoding leaves out is kept.
//
//   sent = encode(gradient + residual);  residual = (gradient + residual) - decode(sent)
//
// Worked example, top_k keeping one of two:
//   gradient (3, 2)                            sent (3, 0)   residual (0, 2)
//   gradient (1, 1), with the residual (1, 3)  sent (0, 3)   residual (1, 0)
//   computed (4, 3)                            sent (3, 3) + residual (1, 0)
//
// Stich et al., Sparsified SGD with Memory (NeurIPS 2018), section 2; Seide et al., 1-Bit SGD (Interspeech
// 2014), section 3.
//
// The residual changes when the gradient is whole, at once for all of its frames: one that is withdrawn after
// some of them were encoded leaves no trace in it.
//
// A sum that float32 cannot hold is sent as it is, so that the servers find it (train.on_nan), and nothing is
// owed of its frame any more: no later gradient can make up for infinity.
//
// A stage of a pipeline encodes its own parameters alone: what it trains of a shard is cut, and owed, as a shard of its
// own is.
//
// Thread: one at a time (the training thread). Memory: the bytes of each gradient that is on its way: the one
// that the next grant waits for (two under exchange.hidden), and perhaps the one before, which the transport may be
// late to let go of.
// With error feedback also a residual of the gradient's size and two frames.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/encode/encode.h"
#include "common/params/blocks.h"
#include "common/params/partition.h"
#include "common/wire/messages.h"
#include "worker/client/gradient_frames.h"

namespace paceline {

// One frame of a gradient: its floats begin at `offset` of the shard's range.
struct EncodedFrame {
  std::int64_t offset = 0;
  wire::Payload payload;
};

class GradientEncoder {
 public:
  // `ranges`: of the shards, what the node trains of each; `frame_floats` >= 1: floats of a frame, at most;
  // `fragments`: as GradientFrames has them.
  GradientEncoder(Encoder encoder, const std::vector<Range>& ranges, std::int64_t frame_floats,
                  const std::vector<Range>& fragments = {});

  // The frames of `gradient`, the whole flat vector, that lie in `parts` (as GradientFrames cuts), by
  // shard, of each the highest first; an empty range has one frame of nothing. Of one gradient each frame is
  // asked for once, and what was asked for has not changed when the last ones are: then it is whole, and what
  // its frames say is no longer owed. The next one follows then, or after withdraw().
  std::vector<std::vector<EncodedFrame>> encode(std::span<const float> gradient, const ShardParts& parts);
  // The gradient that has been encoded in part will not be sent: what is owed is what it was before it.
  void withdraw() { begin_next(); }

  // The bytes of the gradient that was encoded last, in whole or in part: held by all its frames.
  std::shared_ptr<const void> bytes() const { return bytes_.lock(); }

  // What the gradients that were encoded whole lack, the whole flat vector; empty where nothing is kept, or
  // before the first.
  std::span<const float> residual() const { return residual_; }

 private:
  // Where a frame lies in the vector and where its bytes in the buffer: the same for every gradient.
  struct Place {
    std::size_t shard = 0;
    std::int64_t offset = 0;  // in the shard's range
    Range floats;
    std::size_t begin = 0;
    std::size_t bytes = 0;
  };
  static std::vector<Place> places_of(const Encoder& encoder, const std::vector<Range>& ranges,
                                      std::int64_t frame_floats, const std::vector<Range>& fragments);
  static bool lies_in(const Place& place, const ShardParts& parts);
  // Encodes gradient + residual of a frame, and leaves the residual alone, or, `whole`, makes it what that
  // lacks; update_residual() does so for a frame that was encoded before.
  void encode_owed(std::span<const float> gradient, const Place& place, bool whole);
  void update_residual(std::span<const float> gradient, const Place& place);
  void subtract_sent(std::span<float> owed, const Place& place);
  std::span<std::byte> bytes_at(const Place& place) const;
  void begin_next();

  const Encoder encoder_;
  const std::size_t shards_;
  const std::vector<Place> places_;
  BlockPool buffers_;
  std::shared_ptr<BlockRef> buffer_;     // while a gradient is encoded
  std::weak_ptr<const BlockRef> bytes_;  // and later
  std::vector<bool> encoded_;            // of that gradient, by place
  std::size_t missing_;                  // places that are not
  std::vector<float> residual_;
  std::vector<float> owed_;  // one frame: what is encoded of a gradient that is not whole
  std::vector<float> sent_;  // one frame, as the servers will have it
};

}  // namespace paceline
