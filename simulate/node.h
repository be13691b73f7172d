// A simulated node: its training threads, their thread caches, its process cache and its pulls, all of them
// stamps; in training mode the numbers move along (training.h). What a thread does next the worker's own state
// machine decides (common/step/worker_step.h), and its phases are measured by the real recorder of
// common/timing; here is how long what it decides takes. Only time is virtual.
//
// The node's own I/O thread takes costs.message to send a push or a pull and to take a grant or an answer, of
// however many frames: while one is on its way it has time for the next. It is never busy with another.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "common/cache/snapshot.h"
#include "common/report/phases_csv.h"
#include "common/step/worker_step.h"
#include "common/sync/actions.h"
#include "common/timing/recorder.h"
#include "common/trace/trace.h"
#include "simulate/computation.h"
#include "simulate/events.h"
#include "simulate/group_steps.h"
#include "simulate/local_updates.h"
#include "simulate/network.h"
#include "simulate/plan.h"
#include "simulate/pulls.h"
#include "simulate/reductions.h"
#include "simulate/training.h"

namespace paceline::simulate {

// What the parties of a run share. All of it outlives them.
struct Surroundings {
  const Plan& plan;
  Events& events;
  Network& network;
  Pulls& pulls;
  Computation& computation;
  Training* training;      // the computation's
  Reductions* reductions;  // exchange.kind: allreduce; else nullptr
  GroupSteps* groups;      // of pipeline.stages or train.batch_norm_group; else nullptr
  Ticks& phase_clock;      // what the recorders read: the node sets it before it calls one
};

// Thread: one.
class Node {
 public:
  // `incarnation`: its number (events.h). Its caches are empty.
  Node(NodeId id, std::uint32_t incarnation, const Surroundings& world);
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  Node(Node&&) = default;

  // A grant, or the news that nothing follows, is on its way to `thread`: what its arrival will mean.
  void expect(const sync::Grant& grant) { threads_[grant.worker.thread].expected.push_back(grant); }
  void expect(const sync::FinishWorker& finish) { threads_[finish.worker.thread].finish_held = finish.held; }

  // Events, by thread or pull.
  void grant_arrives(std::uint32_t thread, Ticks now);
  void finish_arrives(std::uint32_t thread, Ticks now);
  void compute_begins(std::uint32_t thread, Ticks now);
  void compute_ends(std::uint32_t thread, Ticks now);
  void push_leaves(std::uint32_t thread, Ticks now);
  // `shard` has answered: with parameters, or that nothing is newer.
  void answer_arrives(std::uint32_t pull, ShardId shard, Ticks now);
  void unchanged(std::uint32_t pull, ShardId shard, Ticks now);
  // All-reduce: the gradients that it contributed to are summed, and applied here.
  void reduced(std::uint32_t thread, Ticks now);
  void parameters_here(std::uint32_t pull, Ticks now);

  // It does nothing from now on.
  void crash(Ticks now) { crashed_at_ = now; }
  bool crashed() const { return crashed_at_.has_value(); }
  Ticks crashed_at() const { return *crashed_at_; }
  NodeId id() const { return id_; }
  // Whether it has reported what it did: all its threads know that nothing follows. A crash after that takes
  // nothing away.
  bool reported() const;
  // What a thread has said of an iteration, and what leaves with it.
  struct Sent {
    Clock clock;
    Metric metric;
    std::string fault;  // what was not finite: then no gradient of it comes
    Version computed_version;
    Revision computed_revision;
    std::int64_t own_updates = 0;
    Ticks left;                                // all of the push, or the report alone
    std::optional<std::uint32_t> pull_behind;  // sent right behind the push, which each shard takes first
    Ticket pull_ticket = 0;                    // of that: its place may be another's by now
  };
  // Of the last few iterations that `thread` has reported the one with this stamp, as events have it.
  const Sent& sent(std::uint32_t thread, std::uint32_t stamp) const;
  // Whether that had left before the node crashed.
  bool has_left(std::uint32_t thread, std::uint32_t stamp) const {
    return !crashed_at_ || sent(thread, stamp).left <= *crashed_at_;
  }

  // What it leaves behind.
  void add_phases(std::vector<WorkerPhases>& phases) const;
  // Of each thread, where run.trace is on.
  void add_spans(trace::Trace& to) const;
  std::int64_t parameter_reads() const;
  std::int64_t server_reads() const;
  std::int64_t overruns() const { return overruns_; }
  std::int64_t steps() const { return steps_; }  // whose gradient was there

 private:
  struct Thread {
    Thread(WorkerId worker, const Plan& plan, Ticks& phase_clock);

    WorkerId id;
    step::WorkerStep step;
    std::deque<sync::Grant> expected;  // on their way to it, or waiting for it
    std::size_t arrived = 0;           // of these, have come
    bool awaits = true;                // it looks for the next
    sync::Grant grant;
    std::chrono::nanoseconds finish_held{0};
    cache::ThreadCacheState state;
    cache::SnapshotStamp taken;
    LocalUpdates own;
    std::vector<Ticket> pulled;   // sent, or joined, with the last push: by fragment, as far as asked
    std::int64_t waits_for = 0;   // so many pulls
    bool installs_early = false;  // it waits for that, before it looks for its grant
    bool landed = false;          // what it reads next has been copied to its place as it came
    bool finished = false;        // the news that nothing follows came
    struct {
      std::optional<Ticket> ticket;
      Ticks since;
      std::optional<Ticks> until;
    } ahead;  // parameters asked for while computing
    Computation::Step computation;
    Ticks round_began;                  // with the first of its local steps
    Ticks step_began;                   // the local step
    Computation::Computed computed;     // of the round: its metrics together
    std::int64_t own_updates = 0;       // in the parameters it computes with, besides
    Ticks push_left;                    // of the push that leaves now
    std::int64_t fragments_sent = 0;    // of it
    std::deque<Sent> sent;              // the newest last
    std::unique_ptr<PhaseSpans> spans;  // null: run.trace is off
    PhaseRecorder phases;
  };

  // Takes an event of the thread's state machine and carries out what follows.
  void tell(Thread& t, const step::Event& event, Ticks now);
  void carry_out(Thread& t, const step::AwaitParameters& action, Ticks now);
  void carry_out(Thread& t, const step::MakeCurrent& action, Ticks now);
  void carry_out(Thread& t, const step::LoadBatch& action, Ticks now);
  void carry_out(Thread& t, const step::Pull& action, Ticks now);
  void carry_out(Thread& t, const step::Compute& action, Ticks now);
  void carry_out(Thread& t, const step::SendFragment& action, Ticks now);
  void carry_out(Thread& t, const step::CheckGradient&, Ticks now);
  void carry_out(Thread& t, const step::ApplyLocally&, Ticks now);
  void carry_out(Thread& t, const step::Contribute&, Ticks now);
  void carry_out(Thread&, const step::Withdraw&, Ticks) {}  // nothing of it has left
  void carry_out(Thread& t, const step::Report& action, Ticks now);
  void carry_out(Thread& t, const step::InstallEarly&, Ticks now);
  void carry_out(Thread& t, const step::AwaitInstruction&, Ticks now);
  void begin(Thread& t, Ticks now);

  void enter(Thread& t, Phase phase, Ticks at);
  void note_existence(const sync::Grant& grant);
  step::View look(const Thread& t) const;
  bool process_is_newer(const Thread& t) const;
  std::chrono::nanoseconds refresh(Thread& t);
  // What was left until now of applying own gradients; returns when that is done.
  Ticks settle(Thread& t, Ticks at);
  struct Request {
    Ticket ticket;
    std::uint32_t place;
    bool sent;
  };
  cache::SliceStamp reduced_stamp() const;
  Request request(Version min_version, std::int64_t fragment = 0);
  std::int64_t fragments() const { return std::ssize(world_->plan.fragments); }
  std::int64_t floats_of(std::uint32_t slice) const;
  void send(std::uint32_t pull, Ticks now);
  void answered(std::uint32_t pull, Ticks now);
  bool is_open(Ticket ticket) const;
  cache::ProcessCacheState process_state() const { return {process_.version(), process_.revision()}; }
  cache::ProcessCacheState newest_known() const;
  std::chrono::nanoseconds per_float(double ns) const;
  const std::vector<ShardSizes>& shards() const { return world_->plan.shards_of(id_); }
  Rank rank_of(const Thread& t) const { return world_->plan.cluster.rank_of(t.id); }
  // As events name it.
  std::uint32_t number_of(const Thread& t) const {
    return incarnation_ * world_->plan.cluster.threads_per_node + t.id.thread;
  }

  NodeId id_;
  std::uint32_t incarnation_;
  const Surroundings* world_;
  std::vector<Thread> threads_;
  cache::SnapshotStamp process_;
  cache::ProcessCacheState known_;
  std::vector<std::uint32_t> open_pulls_;  // in the order in which they were asked
  std::optional<Ticks> crashed_at_;
  Version reduced_{0};  // all-reduce: of its parameters
  std::int64_t overruns_ = 0;
  std::int64_t steps_ = 0;
};

}  // namespace paceline::simulate
