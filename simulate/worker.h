// A simulated worker: one training thread of a node. What it does next the worker's own state machine decides
// (common/step/worker_step.h), and its phases are measured by the real recorder of common/timing; here is how
// long what it decides takes. Only time is virtual.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/report/phases_csv.h"
#include "common/step/worker_step.h"
#include "common/timing/recorder.h"
#include "common/trace/trace.h"
#include "simulate/instructions.h"
#include "simulate/node_cache.h"
#include "simulate/round.h"
#include "simulate/sent_steps.h"
#include "simulate/surroundings.h"
#include "simulate/thread_stamps.h"

namespace paceline::simulate {

// Thread: one.
class Worker {
 public:
  // `number`: as events have it (events.h). Its cache is empty; `node` is its node's.
  Worker(WorkerId id, std::uint32_t number, NodeCache& node, const Surroundings& world);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // What the authority says to it.
  Instructions& instructions() { return instructions_; }

  // Events, as long as its node is there.
  void grant_arrives(Ticks now);
  void finish_arrives(Ticks now);
  void compute_begins(Ticks now);
  void compute_ends(Ticks now);
  void push_sent(Ticks now);
  // All-reduce: the gradients that it contributed to are summed, and applied here.
  void reduced(Ticks now);
  // One of the pulls that it waits for is answered.
  void arrived(Ticks now);
  // Somebody's is.
  void note_answered(Ticket pull, Ticks now);

  // What it has reported.
  const SentSteps& sent() const { return sent_; }
  // Whether it knows that nothing follows.
  bool finished() const { return instructions_.finished(); }

  // What it leaves behind.
  WorkerPhases phases() const { return {id_, phases_.totals()}; }
  // Where run.trace is on.
  void add_spans(std::vector<trace::WorkerSpans>& to) const;
  struct Totals {
    std::int64_t parameter_reads = 0;
    std::int64_t server_reads = 0;
    std::int64_t overruns = 0;
    std::int64_t steps = 0;  // whose gradient was there
    Totals& operator+=(const Totals& other);
  };
  Totals totals() const { return {step_.reads(), step_.server_reads(), overruns_, round_.steps()}; }

 private:
  // Takes an event of the state machine and carries out what follows.
  void advance(const step::Event& event, Ticks now);
  void carry_out(const step::AwaitParameters& action, Ticks now);
  void carry_out(const step::MakeCurrent& action, Ticks now);
  void carry_out(const step::LoadBatch& action, Ticks now);
  void carry_out(const step::Pull& action, Ticks now);
  void carry_out(const step::Compute& action, Ticks now);
  void carry_out(const step::SendFragment& action, Ticks now);
  void carry_out(const step::CheckGradient&, Ticks now);
  void carry_out(const step::ApplyLocally&, Ticks now);
  void carry_out(const step::Contribute&, Ticks now);
  void carry_out(const step::Withdraw&, Ticks) {}  // nothing of it has left
  void carry_out(const step::Report& action, Ticks now);
  void carry_out(const step::InstallEarly&, Ticks now);
  void carry_out(const step::AwaitInstruction&, Ticks now);
  void begin(Ticks now);
  void reduce(Ticks now);

  step::View view() const;
  // What was left until now of applying own gradients; returns when that is done.
  Ticks apply_deferred(Ticks at);
  // The recorder, where it is `at`.
  PhaseRecorder& phases_at(Ticks at);
  std::int64_t fragments() const { return std::ssize(world_.plan.fragments); }
  const std::vector<ShardSizes>& shards() const { return world_.plan.shards_of(id_.node); }
  Rank rank() const { return world_.plan.cluster.rank_of(id_); }

  const WorkerId id_;
  const std::uint32_t number_;
  const Surroundings& world_;
  NodeCache& node_;
  step::WorkerStep step_;
  Instructions instructions_;
  bool awaits_ = true;  // it looks for the next
  sync::Grant grant_;
  ThreadStamps cache_;
  std::vector<Ticket> pulled_;   // sent, or joined, with the last push: by fragment, as far as asked
  std::int64_t waits_for_ = 0;   // so many pulls
  bool installs_early_ = false;  // it waits for that, before it looks for its grant
  struct {
    std::optional<Ticket> ticket;
    Ticks since;
    std::optional<Ticks> until;
  } ahead_;  // parameters asked for while computing
  Round round_;
  std::int64_t own_updates_ = 0;     // in the parameters it computes with, besides
  Ticks push_left_;                  // of the push that leaves now
  std::int64_t fragments_sent_ = 0;  // of it
  SentSteps sent_;
  std::unique_ptr<PhaseSpans> spans_;  // null: run.trace is off
  PhaseRecorder phases_;
  std::int64_t overruns_ = 0;
};

}  // namespace paceline::simulate
