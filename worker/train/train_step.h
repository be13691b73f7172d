// One iteration of one worker, in the order of the data's path. Read this first: every other file of worker/
// is a part that train_step() calls.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include "common/cache/freshness.h"
#include "common/config/run_config.h"
#include "common/ids.h"
#include "common/params/layout.h"
#include "common/status.h"
#include "common/task/task.h"
#include "common/timing/recorder.h"
#include "worker/cache/process_cache.h"
#include "worker/cache/thread_cache.h"
#include "worker/client/exchange.h"
#include "worker/emulate/compute_slots.h"
#include "worker/emulate/emulator.h"
#include "worker/emulate/pace.h"
#include "worker/train/batch_limits.h"
#include "worker/train/gradient_buffers.h"
#include "worker/train/work_watch.h"

namespace paceline {

// What one training thread works with. The references are the node's and outlive it; the rest is the thread's
// own.
struct Training {
  WorkerId worker;
  const Layout& layout;
  std::optional<std::int64_t> refresh_clocks;  // cache::FreshnessRules
  bool pulls_ahead = true;                     // there, too
  bool applies_locally = false;                // cache::keeps_own_updates()
  bool looks = true;                           // worker_looks(), for NaN
  BatchLimits batches = {};                    // that a grant may ask for
  std::chrono::nanoseconds deadline;           // for whatever should never take long: cluster.lease

  ParameterExchange& exchange;
  ProcessCache& process_cache;
  Task& task;
  PaceClock& pace;
  ComputeSlots* slots = nullptr;  // only where a cluster is emulated

  ThreadCache cache;
  GradientBuffers gradients;
  Emulator emulator;
  PhaseRecorder phases;
  std::function<Ticks()> clock;  // the recorder's
  ShownTimes* shown = nullptr;   // where its times are seen while it trains; null: nowhere
  WorkWatch* watch = nullptr;    // where it is seen what it is at; null: nowhere

  // The parameters asked for with the last push, and, where they do not wait for the grant, when they were
  // here and had landed.
  struct Asked {
    Ticket ticket = 0;
    Version min_version;
  };
  struct Landed {
    Ticks installed;
    Ticks done;
  };
  std::optional<Asked> with_push = {};
  bool lands_first = false;  // before it looks for its grant
  std::optional<Landed> landed = {};

  // What it has done so far.
  std::int64_t iterations = 0;  // that made a gradient
  std::int64_t skipped = 0;
  std::int64_t overruns = 0;
  std::int64_t bytes_early = 0;  // of gradients, handed over while the rest was computed
  std::int64_t parameter_reads = 0;
  std::int64_t server_reads = 0;          // of them, those that waited for a server
  std::chrono::nanoseconds reporting{0};  // this thread's part of the last step report
};

// Phase STEP of the exchange that ends: the training thread's part and what was done for it elsewhere.
inline std::chrono::nanoseconds report_time(const Training& t, const ReportTime& elsewhere) {
  return t.reporting + elsewhere.building + elsewhere.parsing;
}

// Runs the iteration that `granted` allows, from reading the parameters to sending gradient and report. When
// it returns, the exchange is under way: the next grant ends it. Errors: the exchange was closed, the grant
// asks for samples that the run does not have, the task failed or counts other ones than were granted, or the
// thread cache's memory failed; the worker cannot go on.
Status train_step(Training& training, const Granted& granted);

}  // namespace paceline
