// A shard's conversation: what nodes and the authority send about parameters and gradients, and what they are
// answered. It judges what a well-formed message means in the present state; the store (server/store) does
// the work. The authority's own shard is driven in exactly the same way.
//
//   node       InitialParameters, Push, Withdraw, Pull  -> Parameters | Unchanged | Error
//              StateWanted -> NodeState; NodeState (all-reduce)
//   authority  ApplyDecision, DiscardGradient, NodeLost, Release, ForgetSaved, Pull
//   to the authority: ShardReady, GradientArrived, NodeLost (a node that does not read its answers), Saved
//
// Memory: a pull for which the shard would have to hold a third state of its parameters waits
// (server/store/reply_window.h). Nor is a version retained in the place of a released one whose replies are still
// leaving: what the authority has said since then waits, in order.
//
// Thread: the server's loop.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "common/config/run_config.h"
#include "common/instant.h"
#include "common/log/log.h"
#include "common/log/stall_log.h"
#include "common/newest.h"
#include "common/params/layout.h"
#include "common/pause.h"
#include "common/status.h"
#include "common/trace/trace.h"
#include "common/wire/messages.h"
#include "common/wire/shared_memory.h"
#include "server/checkpoint/shard_file.h"
#include "server/peers/last_seen.h"
#include "server/peers/peer.h"
#include "server/service/node_states.h"
#include "server/service/shard_checkpoints.h"
#include "server/service/state_durations.h"
#include "server/store/pending_pulls.h"
#include "server/store/reply_window.h"
#include "server/store/shard.h"

namespace paceline::server {

class ShardService {
 public:
  // `outbox` and `log` must outlive the service. `replies_sent` is called when replies have left for which
  // somebody may be waiting, from any thread, perhaps from within a call of this service, perhaps after it is
  // gone; it must see to it that on_replies_sent() is called soon. `checkpoints` outlives the service; null:
  // no authority asks for any.
  ShardService(ShardId id, const RunConfig& config, Outbox& outbox, const Log& log,
               std::function<void()> replies_sent, ShardCheckpoints* checkpoints = nullptr);

  // A node has come with this layout; the first one makes the shard. Returns the range held.
  // Errors: kResourceExhausted when the range does not fit into this machine's memory; kUnavailable when its
  // parameters are to lie in shared memory (cluster.shared_memory: on) and that cannot be had.
  Result<Range> open(const Layout& layout);
  // The shard goes on from this file of its own in place of initial parameters: now, where it is open, else
  // when it is. The authority is told (ShardReady). Before any initial parameters; once. Errors, and then of
  // open() too, with which this service is of no use: kFailedPrecondition it is of another layout or range;
  // those of Shard::restore.
  [[nodiscard]] Status resume_from(ShardFile file);
  // Whether the shard has its parameters.
  bool is_initialized() const { return shard_ && shard_->ready(); }
  // Where the shard's parameters lie, to be shared with nodes of this machine; null: on the heap.
  const std::shared_ptr<wire::SharedSegment>& memory() const { return memory_; }
  // The most that a node's segment may have: its gradients. Once there is a shard.
  std::int64_t node_memory_max() const { return node_memory_max_; }

  // What has been applied, and when (run.trace); null: nobody recorded it.
  const std::optional<Newest<trace::ApplySpan>>& applied() const { return applied_; }

  // One message. What is wrong with it is answered with Error and counted; the Status is of another kind: an
  // error says that this shard no longer agrees with the authority and the run cannot go on.
  [[nodiscard]] Status handle(Peer from, wire::Message message);

  // Answers those who waited for replies to leave. The Status is as that of handle().
  [[nodiscard]] Status on_replies_sent();

  // Does a little of what can be done before it is asked for: of gradients that are arriving (store/
  // speculative_apply.h), some 0.1 ms of work. False when there was nothing. For time that would be spent waiting.
  bool work_ahead();
  bool may_work_ahead() const { return shard_ && shard_->may_work_ahead(); }

  // Whether another process of a lost node could be served: nothing of what the one before was sent is still
  // on its way, and what the authority has decided of it is done.
  bool has_parted_with(NodeId node) const { return replies_.to(node) == 0 && postponed_.empty(); }
  // A node is welcomed: where one of its processes was lost, and has_parted_with() it, it is served again.
  void on_welcome(NodeId node);

  // Whether a node whose connection broke may go on over another one: not where that breaks again and again
  // in the middle of what it is answered, and it comes no further. Errors: kResourceExhausted, then it is
  // lost.
  [[nodiscard]] Status may_reconnect(NodeId node, Ticks now);
  // The node's connection broke, and it goes on over another one, after this: it says again what it is not
  // known to have been heard with, and asks again for what it has not got. From here on what it says twice is
  // no mistake of its: it is dropped, and counted (repeated()).
  void on_reconnect(NodeId node);

  // Time passes: a node that has taken nothing of what it asked for during a lease is reported as lost, and
  // the connection of a lost one that leaves its replies lying is broken.
  void tick(Ticks now);
  // This process did not run for that long.
  void discount_pause(const Pause& pause);

  // What is waited for here, and why it does not come (shard_waits.h): initial parameters, versions that
  // have not been reached, states that are leaving, decisions. What the authority's process can see better it
  // says (server/authority).
  std::vector<Wait> waits(const LastSeen& last_seen, Ticks now) const;

  // Pull requests answered or held, and messages refused.
  std::int64_t pulls() const { return pulls_; }
  std::int64_t refused() const { return refused_; }
  // Messages that had come before, of nodes that said them again after a connection that broke.
  std::int64_t repeated() const { return repeated_; }
  const Shard* shard() const { return shard_ ? &*shard_ : nullptr; }

 private:
  Status on(Peer from, const wire::InitialParameters& piece, const wire::Payload& payload);
  Status on(Peer from, const wire::Push& push, wire::Payload payload);
  Status on(Peer from, const wire::Withdraw& withdraw);
  Status on(Peer from, const wire::Pull& pull);
  struct OfNode;
  struct OfAuthority;
  Status restore();
  bool must_wait(const wire::Body& body);
  Status on_decision(const wire::ApplyDecision& decision);
  void on_lost(NodeId node);
  void part_with_lost(Ticks now);
  bool may_hold_next();
  void announce_withheld();

  // When a pull is answered, and what with. Until the next call of replies_.source(), or a decision.
  struct Answer {
    enum class When { kNow, kLater, kNever };
    When when = When::kLater;
    const Snapshot* retained = nullptr;  // of an exact pull
    ReplyWindow::Source source = {};     // of another
  };
  Answer answer_to(Peer from, const wire::Pull& pull);
  void send_answer(Peer to, const wire::Pull& pull, const Answer& answer);
  void send_parameters(Peer to, const wire::Pull& pull, const Snapshot& state,
                       const ReplyWindow::Reply& reply);
  void answer_ready();
  void refuse(Peer from, const Status& why);

  ShardId id_;
  const RunConfig config_;
  Cluster cluster_;
  Outbox& outbox_;
  const Log& log_;
  ShardCheckpoints* const checkpoints_;
  std::shared_ptr<wire::SharedSegment> memory_;
  std::int64_t node_memory_max_ = 0;
  std::optional<Shard> shard_;
  std::optional<ShardFile> resumed_from_;  // until the shard is open
  std::uint64_t layout_hash_ = 0;
  NodeStates node_states_;  // all-reduce
  PendingPulls pending_;
  std::vector<PendingPull> ready_;  // scratch of answer_ready()
  // Whole gradients that the authority has not been told of, since they fill their worker's bound: decisions
  // about older ones are still under way on another connection, and until they come the worker is to be
  // granted nothing that it would push here. At most one per worker.
  std::vector<wire::GradientArrived> withheld_;
  struct Node {
    bool stuck = false;   // it took nothing for a lease, or too long
    bool lost = false;    // as the authority says
    int cut_answers = 0;  // connections that broke while it was answered, since a gradient of it was whole
    Ticks cut_since;
    bool repeats = false;               // since its connection broke
    std::optional<Ticks> unread_since;  // when it was first seen lost, with replies still to be read
  };
  std::vector<Node> nodes_;
  ReplyWindow replies_;
  bool released_in_replies_ = false;     // exact replies of a version that has been released
  std::deque<wire::Message> postponed_;  // of the authority, since a decision found no room
  StateDurations durations_;
  std::int64_t pulls_ = 0;
  std::int64_t refused_ = 0;
  std::int64_t repeated_ = 0;
  std::optional<Newest<trace::ApplySpan>> applied_;
};

}  // namespace paceline::server
