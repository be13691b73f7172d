// The parameters that each worker may be computing with, or has computed with for a gradient that is not
// decided yet: what delay compensation compares with what they have become (common/params/
// delay_compensation.h).
//
// With one thread for each node a worker computes with a state that was sent to its node, and on top of it
// its own gradients that the state lacks (read-my-writes). So the states that were sent are kept, by
// revision. When a gradient of the worker is applied, its local apply is made on each kept state that lacks
// it, as the worker does: the same step of SGD on the same floats. So the backup is, bit for bit, what the
// worker computed with. A push names its revision, and revisions never fall (monotonic): older states go when
// a gradient is applied.
//
//   worker A: sent 40; A@3 comes, computed with 40            states 40
//   sent 42, which lacks A@3 (its pull was ahead of the push) states 40 42
//   A@3 is applied as revision 43, with w - 40                states 40 + A@3, 42 + A@3
//   A@4 comes, computed with 42, and is applied as 47, with w - (42 + A@3)         states 42 + A@3 + A@4, ...
//
// States share their blocks with the shard's until either changes (copy-on-write). Memory: typically two
// states for each worker (the one it computes with and the one it has asked for ahead), at most one for each
// gradient that is held of it, and kNotPushedMax.
// Thread: one at a time (the server's loop); step() may have different blocks in several.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"
#include "common/params/blocks.h"
#include "server/store/gradient_store.h"

namespace paceline::server {

class Backups {
 public:
  // States that no gradient held was computed with: what the worker computes with, or has computed with and
  // not pushed yet, and what it has asked for ahead. Of one that is sent more without a gradient of its being
  // applied (its iterations are skipped, say) the oldest of these goes.
  static constexpr std::ptrdiff_t kNotPushedMax = 3;

  // And so many more, until a gradient of the worker is applied, as its connection broke meanwhile: each time
  // it may ask again for what it has not got, and be sent a newer state.
  static constexpr std::ptrdiff_t kAgainMax = 4;

  // Of this many workers, one on each node.
  explicit Backups(std::uint32_t workers) : by_node_(workers), again_(workers, 0) {}

  // The node's connection broke, and it goes on over another one.
  void reconnected(NodeId node) { again_[node.value] = std::min(again_[node.value] + 1, kAgainMax); }

  // The node is sent this state. `gradients`: what is held.
  void sent(NodeId node, Revision revision, const BlockRange& state, const GradientStore& gradients);

  // The state of this revision that the worker has, own updates in it; nullptr when there is none.
  const BlockRange* find(WorkerId worker, Revision revision) const;

  // A gradient computed with `computed` is being applied as revision `applied`: what is older goes, unless a
  // gradient held was computed with it (of a worker that goes back). Returns the states that lack it, whose
  // local apply is due. Valid until the next call.
  std::vector<BlockRange*> lacking(WorkerId worker, Revision computed, Revision applied,
                                   const GradientStore& gradients);

  // All of them: for tests.
  std::size_t states() const;

 private:
  struct State {
    Revision revision;
    BlockRange parameters;
  };
  std::vector<std::deque<State>> by_node_;  // revisions ascending
  std::vector<std::ptrdiff_t> again_;       // by node: since its last gradient was applied
};

}  // namespace paceline::server
