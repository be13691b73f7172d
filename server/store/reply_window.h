// ReplyWindow: the replies that the transport has been given and has not let go of, and the states of the shard
// that they keep alive.
//
// A reply shares the blocks of the state it is made of; what overwrites that state then goes into copies. So
// that a shard never holds more than parameters x (2 + retained versions), however slowly its nodes read, at
// most one state is leaving at a time, besides exact ones, which are made of retained versions. A pull that
// comes while an older state than the current one is leaving joins it, or waits until it has left:
//
//   revision 9 is current, 7 (version 3) is leaving to node 0
//     node 1 has revision 5 (version 2), needs version 3   joins: its answer is made of revision 7
//     node 1 has revision 7, needs version 3               is told that what it has will do
//     node 1 has revision 7, needs version 4               waits; when 7 has left it is answered from what is
//                                                          current then
//     node 1 has revision 9                                nothing to send: never waits
//
// Who waits must not wait for those who come after it: from then on only those join who cannot go on with
// what they have. A node is answered with newer and newer revisions (docs/SYNC.md, What a worker sees), so
// each joins a state once, and every state has left when its readers have read. A reader that does not read,
// or reads too slowly, is found by stuck().
//
// Where parameters travel in another encoding than float32, a state that is leaving is encoded once, as its
// first reply is made: its readers share those bytes, and the state's blocks are held no longer than that.
//
// What a node has will do only while few of its own gradients are missing there, `missing_max` for each
// thread: it keeps a difference for each of them (common/cache/own_updates.h), and under ASP nothing else
// would bound these.
//
// Thread: the server's loop. Pieces are let go of on any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/encode/encode.h"
#include "common/ids.h"
#include "common/instant.h"
#include "common/pause.h"
#include "common/wire/messages.h"
#include "server/peers/peer.h"
#include "server/store/shard.h"

namespace paceline::server {

// How many pieces somebody else still holds. Thread: any.
class PieceCount {
 public:
  // `none_left` is called by whoever lets go of the last one.
  explicit PieceCount(std::function<void()> none_left = {}) : none_left_(std::move(none_left)) {}
  void add() { count_.fetch_add(1, std::memory_order_relaxed); }
  void let_go() {
    if (count_.fetch_sub(1, std::memory_order_acq_rel) == 1 && none_left_) none_left_();
  }
  // What was done with a piece before it was let go of has happened for whoever no longer counts it.
  std::int64_t value() const { return count_.load(std::memory_order_acquire); }

 private:
  std::atomic<std::int64_t> count_{0};
  const std::function<void()> none_left_;
};

class ReplyWindow {
  struct Reader;

 public:
  // `encoding`: of all replies but exact ones. `none_left` is called when all pieces of a state have left:
  // from any thread, at any time, also after this object is gone. It must only see to it that what waits is
  // looked at again.
  ReplyWindow(Cluster cluster, std::int64_t missing_max, Encoding encoding, std::function<void()> none_left);

  // What a node has of this shard, and what of its own threads' gradients is in it.
  struct NodeSnapshot {
    Version version = kNoVersion;
    Revision revision = kNoRevision;
    std::vector<Clock> applied;
  };
  // What a pull (not an exact one) of `to` is to be answered with while `now` is current. Valid until the
  // next call.
  struct Source {
    // This: `now`, or the older state that is leaving, whose blocks may have gone: begin() knows.
    const Snapshot* state = nullptr;
    const NodeSnapshot* held = nullptr;  // or that it has this already, which is new enough
    // Else nothing: not before the older state has left, or the version is not there.
    explicit operator bool() const { return state != nullptr || held != nullptr; }
  };
  Source source(const Snapshot& now, Peer to, const wire::Pull& pull);

  // A reply that is being sent: each of its pieces is counted until its payload is let go of.
  class Reply {
   public:
    // Block i of the state that the reply was begun with. To be asked for from 0 on, in order.
    wire::Payload piece(std::int64_t i) const;

   private:
    friend class ReplyWindow;
    const Snapshot* state_ = nullptr;    // as it is, or
    ReplyWindow* encoded_by_ = nullptr;  // what is leaving, encoded
    std::shared_ptr<PieceCount> of_state_;
    std::shared_ptr<PieceCount> of_reply_;  // null: to the authority
    Reader* to_ = nullptr;                  // null: to the authority
  };
  // A reply to `to` made of `state`, which source() said; or an exact one, made of a retained version. Used
  // up before the next call.
  Reply begin(Peer to, const Snapshot& state);
  Reply begin_exact(Peer to, const Snapshot& retained);
  // `to` has `state` and is told so.
  void confirm(Peer to, const Snapshot& state);

  // Another process of the node has come, that has nothing; all pieces to the one before have left.
  void forget(NodeId node) { readers_[node.value] = Reader(); }

  // The node's connection broke, and it goes on over another one: nothing of what is still on its way to it
  // will be read, and its transport drops that. What it was answered with it may have got, or not: it is not
  // answered with anything older.
  void reconnected(NodeId node);

  // Whether an older state than `now` is alive in replies.
  bool keeps_older(const Snapshot& now);

  // Lets go of what has left: before the current state is overwritten, since what is held is copied.
  void reap();

  // Pieces of exact replies, and pieces to one node.
  std::int64_t exact() const { return exact_->value(); }
  std::int64_t to(NodeId node) const { return readers_[node.value].waiting(); }

  // The state that replies keep alive, besides retained ones; null where none does.
  const Snapshot* state() const { return state_ ? &state_->snapshot : nullptr; }
  // The nodes that have something to read of what they were sent: how many pieces, and since when they have
  // taken none of them, as stuck() saw it. For whoever has to say why a pull waits.
  struct Reading {
    NodeId node;
    std::int64_t pieces = 0;
    std::optional<Ticks> takes_none_since;
  };
  std::vector<Reading> readings() const;

  // A node that holds on to what it was sent, and for how long it has.
  struct Stuck {
    enum class Why { kTakesNothing, kTakesTooLong };
    NodeId node;
    Why why;
    std::chrono::nanoseconds after;
  };
  // The nodes of whose replies nothing has left for longer than `lease` although some are waiting, and those
  // of whose oldest reply something is left after reply_time(). Each is named once in that time. To be asked
  // every now and then: progress is seen only here.
  std::vector<Stuck> stuck(Ticks now, std::chrono::nanoseconds lease);
  // How long a reply of so many bytes may take, counted from when all that was sent to its node before has
  // left. It is 30 leases, half of the time that a waiting node gives a server (worker/client), so that one
  // slow reader does not make the others give up. A reply that needs longer at 1 MB/s may take as long as
  // that.
  static std::chrono::nanoseconds reply_time(std::int64_t bytes, std::chrono::nanoseconds lease);
  // This process itself did not run for that long.
  void discount_pause(const Pause& pause);

 private:
  // The bytes of one block.
  struct EncodedBlock {
    BlockRef bytes;
    std::size_t size = 0;
    std::int64_t floats = 0;
  };
  struct State {
    // Whole, so that others can join while parts of it have left; its blocks until all of them are encoded.
    Snapshot snapshot;
    std::vector<EncodedBlock> encoded;  // the first of the blocks, or all
    std::shared_ptr<PieceCount> pieces;
    bool awaited = false;  // somebody waits for it to have left
  };
  // A reply that is being sent, or has left.
  struct Outgoing {
    std::shared_ptr<PieceCount> pieces = std::make_shared<PieceCount>();
    std::int64_t bytes = 0;
  };
  struct Reader {
    std::deque<Outgoing> replies;       // the oldest first
    std::optional<Ticks> oldest_since;  // when stuck() first saw that one to be the oldest
    NodeSnapshot answered;              // what it was last answered with: the newest
    std::int64_t sent = 0;              // pieces, since the start
    std::int64_t left = 0;              // of these, when stuck() last looked
    std::optional<Ticks> since;         // when that was seen to change

    std::int64_t waiting() const;
    void forget_what_left();
    bool takes_nothing(Ticks now, std::chrono::nanoseconds limit);
    bool takes_too_long(Ticks now, std::chrono::nanoseconds lease);
  };
  struct Piece;
  bool will_do(const NodeSnapshot& held, const Snapshot& now, Peer to, const wire::Pull& pull) const;
  Reply reply(Peer to, std::shared_ptr<PieceCount> of_state);
  const EncodedBlock& encoded(std::int64_t i);

  const Cluster cluster_;
  const std::int64_t missing_max_;
  const Encoder encoder_;
  std::optional<BlockPool> encoded_pool_;  // made by the first reply
  const std::function<void()> none_left_;
  std::optional<State> state_;
  std::shared_ptr<PieceCount> exact_;
  std::vector<Reader> readers_;  // by node
};

}  // namespace paceline::server
