// Trace: what a run's processes recorded of every instant (run.trace), in memory: the stretches of each
// worker's phases, what the authority took and decided, what each shard applied. Instants are those of one
// process's steady clock until align() (align.h) has brought them together.
//
// On disk it is the Chrome trace-event format (trace_file.h), which Perfetto opens; `paceline explain` and
// the simulator read it back.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"
#include "common/instant.h"
#include "common/schedule/pass_span.h"
#include "common/timing/bucket_span.h"
#include "common/timing/phase_span.h"

namespace paceline::trace {

// What the authority took and what it decided, one kind for each.
enum class DecisionKind : std::uint8_t {
  kJoined,      // a worker takes part
  kReported,    // it has completed an iteration, as far as it is concerned
  kHeld,        // it is to wait: too far ahead
  kGranted,     // it may begin an iteration
  kFinished,    // it has no further one
  kApplied,     // gradients are applied: a new revision, maybe a new version
  kWindow,      // the metrics of a window are complete
  kThreshold,   // another threshold
  kPolicy,      // another policy (policy: switch)
  kLost,        // a node has gone
  kStopping,    // nobody gets another grant
  kEvaluation,  // a node is asked for the test set's metric
  kEvaluated,   // it has answered
  kSaving,      // a checkpoint is asked for
  kSaved,       // it is whole on disk, or was given up
  kParted,      // all-reduce: a formation is over, since a node of it is lost
  kFormed,      // those that are left go on as the next one
};
inline constexpr std::array<const char*, 17> kDecisionNames = {
    "joined", "report", "hold",     "grant",     "finish", "apply", "window", "threshold", "policy",
    "lost",   "stop",   "evaluate", "evaluated", "save",   "saved", "parted", "formed"};
constexpr const char* name_of(DecisionKind kind) { return kDecisionNames[static_cast<std::size_t>(kind)]; }
std::optional<DecisionKind> decision_named(std::string_view name);

// What ended a hold.
enum class Release : std::uint8_t {
  kWorker,     // the clock of `by` moved
  kThreshold,  // it rose
  kLoss,       // the node of `by` went
  kOther,
};
inline constexpr std::array<const char*, 4> kReleaseNames = {"worker", "threshold", "loss", "other"};
constexpr const char* name_of(Release release) { return kReleaseNames[static_cast<std::size_t>(release)]; }
std::optional<Release> release_named(std::string_view name);

// Only what its kind has is set.
struct Decision {
  Ticks at = {};
  DecisionKind kind = DecisionKind::kReported;
  std::optional<WorkerId> worker = {};  // joined, report, hold, grant, finish
  std::optional<NodeId> node = {};      // lost, evaluate; parted: who is lost, where that is known by then
  std::optional<Clock> clock = {};      // report: done; hold, grant, finish: that it would begin
  std::optional<Clock> min_clock = {};  // hold, grant: the slowest's
  std::optional<Threshold> threshold = {};  // hold, grant; window, threshold, policy: from here on
  std::optional<double> lpr = {};           // per cent, the newest; hold, grant, window, threshold
  std::optional<Version> version = {};    // grant: the oldest that it may compute with; else the one reached
  std::optional<Revision> revision = {};  // apply
  std::optional<std::int64_t> gradients = {};         // apply: how many
  std::optional<std::chrono::nanoseconds> held = {};  // grant, finish: by the threshold
  std::optional<Release> release = {};                // grant that was held: what ended that
  std::optional<WorkerId> by = {};                    // hold: the slowest; grant: see release
  bool operator==(const Decision&) const = default;
};

// One decision being applied by a shard.
struct ApplySpan {
  Ticks begin;
  std::chrono::nanoseconds length{0};
  Version version;  // after it
  Revision revision;
  std::int64_t gradients = 0;
  bool operator==(const ApplySpan&) const = default;
};

// A process that recorded.
struct Process {
  std::optional<ShardId> server;  // a server, else
  NodeId node;                    // a node
  std::string machine;            // equal ones have one steady clock; empty: not known
  std::int64_t wall_ns = 0;       // the wall clock less the steady one, when it wrote
  // By how much its instants have been moved onto the authority's clock, and how wrong that may be; no error:
  // nothing says so. Of a process's own part: not moved.
  std::chrono::nanoseconds moved{0};
  std::optional<std::chrono::nanoseconds> error = std::chrono::nanoseconds(0);
};
std::string to_string(const Process& process);  // "server 0", "node 3"

struct WorkerSpans {
  WorkerId worker;
  std::vector<PhaseSpan> spans;  // in the order of time; none overlaps
  std::int64_t left_out = 0;     // older ones, that there was no room for
};

// Of a node that is a stage of a pipeline.
struct StageSpans {
  NodeId node;
  std::vector<schedule::PassSpan> spans;  // in the order of time; none overlaps
  std::int64_t left_out = 0;
};

// Of a node of an all-reduce.
struct BucketSpans {
  NodeId node;
  std::vector<BucketSpan> spans;  // in the order of time; none overlaps
  std::int64_t left_out = 0;
};

struct ShardSpans {
  ShardId shard;
  std::vector<ApplySpan> spans;
  std::int64_t left_out = 0;
};

struct Trace {
  std::vector<Process> processes;
  std::vector<WorkerSpans> workers;
  std::vector<StageSpans> stages;
  std::vector<BucketSpans> buckets;
  std::vector<ShardSpans> shards;
  std::vector<Decision> decisions;  // in the order of time
  std::int64_t decisions_left_out = 0;
  std::optional<Ticks> first_grant;  // where seconds of a run are counted from; of one that was
                                     // gone on with, by so much earlier as it had trained before

  std::int64_t events() const;
  std::int64_t left_out() const;
  const WorkerSpans* find(WorkerId worker) const;
  // Workers that joined or were granted an iteration, and of which there is no span: the part of their node
  // is missing. In order.
  std::vector<WorkerId> without_spans() const;
};

}  // namespace paceline::trace
