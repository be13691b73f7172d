// A shard with its numbers: the real one (server/store/shard.h), and what of its states is on its way to
// nodes. Which state a pull is answered with is decided by the stamps (simulate/server.h); here are the
// parameters that go with them, and which own gradients are in them.
//
// An answer shares the shard's blocks, as a real reply does: the next gradient is applied to a copy of what
// somebody still holds. Where parameters travel in fewer bytes, each state that is sent is encoded and
// decoded once, and all who get it share the result.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/cache/snapshot.h"
#include "common/config/run_config.h"
#include "common/encode/encode.h"
#include "common/params/blocks.h"
#include "common/params/layout.h"
#include "common/status.h"
#include "common/wire/messages.h"
#include "server/store/shard.h"
#include "worker/cache/snapshot.h"
#include "worker/client/gradient_encoder.h"

namespace paceline::simulate {

// Thread: one.
class TrainingShard {
 public:
  // `initial`: its range of the initial parameters.
  TrainingShard(ShardId id, Range range, const Layout& layout, const RunConfig& config,
                std::span<const float> initial);

  // The gradient that `push` speaks of, whole: its frames, the highest first. What is not finite in it, as it
  // is reported, or nothing. Errors: none that the world could be at fault for; the shard's own.
  Result<std::string> push(wire::Push push, std::vector<EncodedFrame> frames);
  void discard(WorkerId worker, Clock clock) { shard_.discard(worker, clock); }
  [[nodiscard]] Status apply(const wire::ApplyDecision& decision) { return shard_.apply(decision); }

  // What `node` gets: the state of this revision, which is the current one or the one that is leaving; by now
  // of `version`. It is leaving from then on. `part`: of the model, what of the shard was asked for.
  std::shared_ptr<const Slice> answer(NodeId node, Version version, Revision revision, Range part);
  // Which of the own gradients of `node` are in the state of this revision, which it has and is told so.
  std::vector<Clock> confirm(NodeId node, Version version, Revision revision);
  // `node` has lost what it had.
  void forget(NodeId node) { last_answers_[node.value] = {}; }
  // No answer is on its way any more.
  void nothing_in_flight() { in_replies_.reset(); }

  const server::Snapshot& now() const { return shard_.now(); }

 private:
  struct ReplyWindow {
    server::Snapshot state;
    std::vector<SlicePiece> pieces;
  };
  struct LastAnswer {
    Revision revision = kNoRevision;
    std::vector<Clock> applied;
  };
  std::vector<SlicePiece> pieces_of(const BlockRange& blocks);
  wire::Payload payload_of(const BlockRange& blocks, std::int64_t i);
  void hold(NodeId node, Version version, const server::Snapshot& state);

  Cluster cluster_;
  Encoder encoder_;  // of parameters
  server::Shard shard_;
  BlockPool decoded_;
  std::optional<ReplyWindow> in_replies_;
  std::vector<LastAnswer> last_answers_;  // by node: what it was last answered with
};

}  // namespace paceline::simulate
