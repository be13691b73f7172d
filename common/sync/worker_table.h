// WorkerTable: what the core knows of each worker: whether it is there, its clock, and the iteration that it is
// in. Where grants go ahead (grants_ahead.cc) also the iteration after that. It takes the messages about an
// iteration, and refuses what its worker was not granted.
//
//   0.0 is in the iteration stamped 4 and was granted 5: messages stamped 4 and 5 are taken
//   stamped 6: kFailedPrecondition, not granted; stamped 3: kOutOfOrder, expected 4
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"
#include "common/instant.h"
#include "common/status.h"
#include "common/sync/events.h"
#include "common/sync/running_iteration.h"

namespace paceline::sync {

// kLate: it is in an iteration whose clock has closed without it; its own clock has moved on (backup).
enum class WorkerPhase : std::uint8_t { kAbsent, kJoined, kRunning, kLate, kHeld, kFinished, kGone };

// Whose turn it is next is anybody's guess, so a step waits for its worker's entry to come from memory:
// once, for the two cache lines that a processor fetches together.
struct alignas(128) WorkerEntry {
  explicit WorkerEntry(std::uint32_t shards) : running(shards) {}

  bool in_iteration() const { return phase == WorkerPhase::kRunning || phase == WorkerPhase::kLate; }
  bool live() const { return in_iteration() || phase == WorkerPhase::kHeld; }
  // Of the iteration it is in, else where it stands.
  Clock stamp() const { return phase == WorkerPhase::kLate ? needed : clock; }

  WorkerPhase phase = WorkerPhase::kAbsent;
  bool fresh = false;           // it came while training went on, and has not been granted anything
  bool starts_over = true;      // what it had of former rounds counts for nothing; until it completes one
  bool held = false;            // kRunning, where grants go ahead: its worker waited for this one
  std::uint32_t staleness = 0;  // of its last gradient that was decided
  Clock clock;
  RunningIteration running;  // kRunning, kLate
  // kHeld: the floor that releases it (kRunning: see AheadGrant); kLate: the stamp of `running`; kGone: the
  // first that it never had.
  Clock needed;
  Ticks since;        // kRunning: it was granted; kHeld: it asked
  Ticks next_notice;  // kHeld
};
static_assert(sizeof(WorkerEntry) == 128);

// Of a worker in kRunning: the iteration after the one that it is in.
struct AheadGrant {
  explicit AheadGrant(std::uint32_t shards) : running(shards) {}
  enum class Phase : std::uint8_t { kNone, kAsked, kGranted };
  Phase phase = Phase::kNone;
  Clock needed;                   // kAsked: the floor that releases it
  std::optional<Ticks> reported;  // kAsked: the iteration before was, and the worker waits
  bool held = false;              // kGranted: it did
  RunningIteration running;       // kGranted
};

// Thread: one (the engine's).
class WorkerTable {
 public:
  // None is there yet. `ahead`: grants go ahead.
  WorkerTable(Cluster cluster, std::uint32_t shards, bool ahead);

  std::uint32_t size() const { return static_cast<std::uint32_t>(workers_.size()); }
  WorkerEntry& operator[](Rank rank) { return workers_[rank.value]; }
  const WorkerEntry& operator[](Rank rank) const { return workers_[rank.value]; }
  std::vector<WorkerEntry>::const_iterator begin() const { return workers_.begin(); }
  std::vector<WorkerEntry>::const_iterator end() const { return workers_.end(); }
  WorkerId id(Rank rank) const { return cluster_.worker_at(rank); }
  Rank rank_of(WorkerId worker) const;  // of this run

  bool grants_ahead() const { return !ahead_.empty(); }
  AheadGrant& ahead(Rank rank) { return ahead_[rank.value]; }  // where grants go ahead
  const AheadGrant& ahead(Rank rank) const { return ahead_[rank.value]; }
  bool granted_ahead(Rank rank) const {
    return !ahead_.empty() && ahead_[rank.value].phase == AheadGrant::Phase::kGranted;
  }
  // Its clock has moved: it is in what it was granted ahead, since `now`.
  void promote(Rank rank, Ticks now);

  // Errors, which change nothing: kInvalidArgument no such shard or worker; kFailedPrecondition not granted;
  // kOutOfOrder over, or no grant at all; and those of RunningIteration::add().
  Status add(const GradientArrived& arrival);
  Status add(const StepReported& report, Version version, Revision revision, Ticks now);

  // Of those that `rank` is in or was granted ahead, the one stamped `clock`.
  RunningIteration& iteration(Rank rank, Clock clock);
  // What is known of the iteration that a worker is in; nothing while it is in none.
  struct Iteration {
    Clock clock;  // its timestamp: below the worker's clock where it is late (backup)
    bool reported = false;
    std::uint64_t lacking = 0;   // bit k: shard k does not hold its gradient whole
    bool computes_next = false;  // reported, and the next is granted ahead and not reported
  };
  std::optional<Iteration> iteration_of(Rank rank) const;
  // Whether it has been granted the iteration stamped `clock`, and has not reported it.
  bool awaits_report(Rank rank, Clock clock) const;
  // The first that stands at the min clock of the live ones; who is late only where nobody else does, since it
  // has not begun what is waited for. There is one.
  Rank slowest(Clock min_clock) const;
  // Before training began: all threads of `node` have.
  bool all_joined(NodeId node) const;

  std::size_t entries() const { return workers_.size() + ahead_.size(); }

 private:
  Status check_granted(WorkerId worker, Clock clock, const char* what) const;

  Cluster cluster_;
  std::uint32_t shards_;
  std::vector<WorkerEntry> workers_;  // by rank
  std::vector<AheadGrant> ahead_;     // likewise, where grants go ahead
};

}  // namespace paceline::sync
