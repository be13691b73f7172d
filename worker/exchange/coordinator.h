// Coordinator: what a training thread needs from whoever decides when it may go on: its grants, somebody who
// takes its reports, and why it waits. The parameter servers' authority is one, reached through a PsClient
// (worker/client/ps_client.h); the engine in this very process is another (tests/unit/local_coordinator.h). What a
// worker contributes, and where its parameters come from, is the Exchange's (exchange.h).
//
// Thread: every member may be called from any training thread; waits end with an error once the coordinator is
// closed.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "common/clock.h"
#include "common/ids.h"
#include "common/instant.h"
#include "common/loss_scale.h"
#include "common/metric.h"
#include "common/status.h"
#include "common/step/grant.h"

namespace paceline {

// What building a report and parsing its answer took, on whatever thread that was done.
struct ReportTime {
  std::chrono::nanoseconds building{0};
  std::chrono::nanoseconds parsing{0};
};

// The worker may begin a round. `arrived`: when this process had it, by the steady clock.
struct Granted {
  step::Grant grant;
  Ticks arrived;
  ReportTime report = {};
};
// The worker has no further round to do.
struct Finished {
  std::string reason;
  std::chrono::nanoseconds held{0};  // by the threshold, until this came instead of a grant
  Ticks arrived;
  ReportTime report = {};
};
using Instruction = std::variant<Granted, Finished>;

// A round is complete.
struct RoundReport {
  WorkerId worker;
  Clock clock;
  Metric metric;
  Version computed_version = {};  // of the parameters it was computed with
  Revision computed_revision = {};
  bool skipped = false;                 // nothing was contributed: it was not finite
  std::string fault = {};               // the loss or tensor that was not finite; empty when fine
  std::int64_t own_updates = 0;         // own gradients in these parameters besides (read-my-writes)
  std::chrono::nanoseconds compute{0};  // how long its gradient took to compute
  LossScale loss_scale = {};            // Task::loss_scale()
};

// Why a grant does not come: the worker leads by more than the threshold allows.
struct GrantHold {
  Clock clock;         // of the round that it wants to begin
  Staleness lead;      // of that before the slowest worker
  WorkerId waits_for;  // that one
  Threshold threshold;
  std::chrono::nanoseconds held{0};  // until this was said

  auto operator<=>(const GrantHold&) const = default;
};

class Coordinator {
 public:
  virtual ~Coordinator() = default;

  // Waits for what node-local training thread `thread` is to do next. Errors: why the coordinator was closed.
  virtual Result<Instruction> next_instruction(std::uint32_t thread) = 0;

  // Says that the round is complete; after what it contributed. Does not wait.
  virtual void report(RoundReport report) = 0;

  // Why `thread`, which has reported, is not granted yet, as far as is known here; nullopt: nothing holds it.
  virtual std::optional<GrantHold> held(std::uint32_t thread) const = 0;
};

}  // namespace paceline
