// RunStatus: what a run says of itself at one moment while it goes. The authority makes one a second
// (server/authority/run_shown.cc); the terminal, the HTTP endpoint and `paceline top` show it. A plain
// value that nobody changes once it is made, so it may be shared between threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"
#include "common/status.h"
#include "common/timing/phase_times.h"
#include "common/timing/straggler_scores.h"
#include "common/traffic.h"

namespace paceline {

struct WorkerStatus {
  WorkerId worker;
  Clock clock;
  // "absent", "joined" (before training), "computing", "pushing" (reported, its gradient not whole
  // everywhere), "held" by the threshold, "finished", "lost".
  std::string state;
  std::string waits_for = {};  // "worker 3.0", "shard 2"; empty: for nobody
  std::optional<StragglerScore> score = {};
  std::optional<PhaseTimes> times = {};  // so far, as its node last said
  // Of the mini-batch, or the round of local steps, that it was granted last; none where all workers have as many.
  std::optional<std::int64_t> samples = {};
};

// A node, or a shard.
struct MemberStatus {
  std::uint32_t number = 0;
  bool up = false;                            // has joined and has not gone
  std::optional<double> silent_seconds = {};  // since it was heard of; nothing of this process itself
};

// Of the server process that the status is from; they only grow.
struct ServerCounts {
  std::int64_t bytes_pushed = 0;  // header and payload bytes given to ZeroMQ, both ways
  std::int64_t bytes_pulled = 0;
  std::int64_t bytes_shared = 0;  // that lie in shared memory instead
  std::int64_t messages_received = 0;
  std::int64_t malformed = 0;
};

// What earlier generations of a resumed run's servers have counted, up to its checkpoint.
struct CountsBefore {
  std::int64_t iterations = 0;
  std::int64_t skipped = 0;
  std::int64_t dropped = 0;
  std::int64_t iterations_lost = 0;
  std::int64_t nodes_lost = 0;
};

struct RunStatus {
  // Of more workers the others are only in what is said of all.
  static constexpr std::size_t kWorkersMax = 1'000;
  static constexpr std::size_t kStragglersMax = 5;
  // Who is one where run.straggler_warning says nothing: half as fast as the fastest, or as it has been.
  static constexpr double kStragglerBelow = 0.5;

  std::string run;
  std::string policy;
  // "resuming", "gathering", "training", "ending", "closing", "filing", "over".
  std::string state;
  std::string outcome = {};  // once it is over: "ok", or why it is not
  double seconds = 0.0;      // of training, since the first grant
  Version version;
  Clock min_clock;  // of the live workers; the version where there are none
  Clock max_clock;
  Threshold threshold;
  std::optional<double> learning_rate = {};  // of the step to `version`
  std::optional<double> lpr = {};            // per cent, of the last window
  std::optional<double> train_loss = {};
  std::optional<double> train_accuracy = {};  // 0..1
  std::optional<double> test_loss = {};
  std::optional<double> test_accuracy = {};
  std::int64_t iterations = 0;  // applied
  std::int64_t iterations_total = 0;
  std::int64_t skipped = 0;
  std::int64_t dropped = 0;
  std::int64_t iterations_lost = 0;
  std::int64_t samples = 0;  // in reported iterations, of this generation of servers
  std::optional<double> iterations_per_second = {};
  std::optional<double> samples_per_second = {};
  double done = 0.0;  // 0..1, of the iterations or of run.max_seconds, whichever is nearer to its end
  std::optional<double> seconds_left = {};
  std::int64_t nodes_lost = 0;
  CountsBefore before = {};               // these are in the counts above
  std::int64_t curve_rows = 0;            // of curve.csv, written by this generation
  std::vector<std::string> waits = {};    // what is waited for, and why it does not come: the first
  std::int64_t waits_total = 0;           // how many such waits there are
  std::string stall = {};                 // the wait that has become long; empty: none
  std::vector<WorkerId> stragglers = {};  // the slowest first, at most kStragglersMax
  std::vector<MemberStatus> nodes = {};
  std::vector<MemberStatus> shards = {};
  std::uint32_t workers_total = 0;
  std::vector<WorkerStatus> workers = {};  // in worker order, at most kWorkersMax
  ServerCounts server;
  Traffic moved = {};  // by all shards since their start, other ones as of their last heartbeats
  // (staleness, how many applied gradients had it) so far, of all workers (common/report/staleness.h).
  std::vector<std::pair<std::int64_t, std::int64_t>> staleness_clocks = {};
  std::vector<std::pair<std::int64_t, std::int64_t>> staleness_gradients = {};

  Staleness gap() const { return max_clock - min_clock; }
  bool over() const { return state == "over"; }
};

// One line of JSON, ASCII; numbers that are not finite are null, an infinite threshold is "inf".
std::string to_json(const RunStatus& status);

// Reads what to_json() wrote; keys that it does not know are ignored. Errors: kDataLoss naming what is
// missing or of another type, or no JSON.
Result<RunStatus> parse_run_status(const std::string& text);

}  // namespace paceline
