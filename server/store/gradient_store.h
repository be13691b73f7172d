// The gradients a shard holds and has not applied: each worker's pieces as they came, in the buffers they
// were received into (nothing is copied), until the authority decides their turn or has them discarded.
// Pieces in another encoding than float32 are decoded as they come, zeros among them, too, into one recycled buffer for
// each gradient.
//
// Pieces come from the range's end to its begin, as a backward pass makes them: what is here of a gradient is
// one interval that ends where the range does. A gradient is partial until its `last` piece, which begins at
// 0; only a whole one counts, so a sender that dies half-way, or withdraws what it has begun, leaves no
// trace. Bounds: `gradients_max` gradients per worker, the partial one included (the largest
// threshold + 2: docs/SYNC.md lets a worker lead by s + 1; eager 2; exchange.hidden
// one more: see shard_settings.h), and a
// number of pieces per gradient, so that a peer that sends one float at a time cannot make the bookkeeping
// grow.
//
// Thread: one at a time (the server's loop).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "common/encode/encoding.h"
#include "common/ids.h"
#include "common/params/blocks.h"
#include "common/status.h"
#include "common/wire/messages.h"
#include "server/store/gradient.h"

namespace paceline::server {

class GradientStore {
 public:
  // For a range of `size` floats. `pieces_max` >= 1, `gradients_max` >= 2. `encoding`: of every piece that is
  // not Encoding::kZero.
  GradientStore(Cluster cluster, std::int64_t size, std::size_t gradients_max, std::size_t pieces_max,
                Encoding encoding = Encoding::kFp32);

  // Takes one piece. Returns the gradient when this piece makes it whole (valid until it is discarded), else
  // nullptr; not all of it need have been checked. Errors leave everything as it was: kInvalidArgument
  // unknown worker, samples where they do not belong, a piece outside the range, `last` at the wrong place,
  // another encoding, or bytes that it cannot be; kOutOfOrder a clock or a piece it already has;
  // kFailedPrecondition another clock while one is partial, a gap; kResourceExhausted beyond the bounds.
  Result<Gradient*> add(const wire::Push& push, wire::Payload payload);

  // The whole gradient of `worker` stamped `clock`; nullptr when there is none.
  const Gradient* find(WorkerId worker, Clock clock) const;

  // Whether a gradient of this worker of the cluster that is here, in part or whole, says so.
  bool was_computed_with(WorkerId worker, Revision revision) const;

  // The same, and one that is here only in part, too. Valid until the store changes.
  Gradient* begun(WorkerId worker, Clock clock);
  const Gradient* begun(WorkerId worker, Clock clock) const;

  // Looks at a piece, that nobody has checked, of a gradient that is here in part; false when there is
  // none. To be called in time that would be spent waiting: what is left is checked with the last piece.
  bool check_one_finite();
  bool may_check() const { return !to_check_.empty(); }

  // Forgets a whole gradient; false when there is none. One that is here in part, or still to come, is to be
  // forgotten when it has come whole: its worker does not know that it is late.
  bool discard(WorkerId worker, Clock clock);
  // Whether it was discarded before it had come whole.
  bool is_late(WorkerId worker, Clock clock) const { return clock < inbox(worker).late_below; }
  // Forgets what is here of a gradient whose rest will not come; its worker goes on with a later clock.
  // Errors: kInvalidArgument unknown worker; kOutOfOrder nothing of it is here in part.
  Status withdraw(const wire::Withdraw& withdraw);
  // Forgets what `node` has sent in part. Whole gradients stay: the authority decides about them.
  void drop_partial(NodeId node);
  // Copies what lies in `node`'s own memory of what is here of it: its connection broke, and with this what
  // it lent over it is its own again.
  void copy_borrowed(NodeId node);

  // Whether this worker of the cluster has so many gradients up to this one here that there is no room for `more`.
  bool is_full(WorkerId worker, Clock clock, std::size_t more) const;
  // Whole and partial gradients held now.
  std::size_t held() const;

 private:
  struct Inbox {
    Clock next;                       // the oldest clock it may still send
    Clock late_below;                 // those that come whole from now on are late
    bool partial = false;             // the last of `gradients` is not whole
    bool listed = false;              // in to_check_
    std::vector<Gradient> gradients;  // ascending clocks
  };
  Inbox& inbox(WorkerId worker) { return inboxes_[cluster_.rank_of(worker).value]; }
  const Inbox& inbox(WorkerId worker) const { return inboxes_[cluster_.rank_of(worker).value]; }
  Status check(const wire::Push& push, const wire::Payload& payload) const;
  wire::Payload zeros(std::int64_t floats);
  Result<wire::Payload> decoded(const wire::Push& push, const wire::Payload& payload, float* into);
  void to_be_checked(WorkerId worker);
  void drop_partial(Inbox& box);
  void recycle(Gradient gradient);

  Cluster cluster_;
  std::int64_t size_;
  std::size_t gradients_max_;
  std::size_t pieces_max_;
  Encoding encoding_;
  std::shared_ptr<const float[]> zeros_;  // what pieces as Encoding::kZero are among float32
  std::int64_t zero_floats_ = 0;
  BlockPool decoded_;                   // of the range's size; made as gradients need them
  std::vector<Inbox> inboxes_;          // by rank
  std::deque<std::uint32_t> to_check_;  // ranks, each once: there may be something of the partial gradient
  std::vector<Gradient> recycled_;      // empty, for their pieces' memory
};

}  // namespace paceline::server
