// Why workers waited: the stretches of a trace in which a worker had nothing to compute, each divided by
// cause. Pure: a trace in, numbers out; explain.h says them.
//
// A wait is what lies between two computations: the exchange after clock c, the parameters and the
// mini-batch of the next one. Its causes:
//   barrier      held by the threshold; for whom, and what that worker did meanwhile
//   server       its report was there, but its gradient not whole on every server, or nothing decided yet
//   network      the rest of sending a gradient and hearing of it: both ways, and building the report
//   parameters   granted, and what it is to compute with was not here yet
//   data         its mini-batch was not ready
//   sum          all-reduce: every gradient was there, and the sum was not; for whom (sum_waits.h)
//   formation    all-reduce: a node was lost, and those that are left had not met, or begun to sum again
//   stage        in its steps, for other stages (pipeline.stages; stage_waits.h), or other members of its norm group
//                (train.batch_norm_group)
// In an all-reduce `network` is the node's own step, the report of it and the answer.
//
// Worked example: an exchange of 100 ms; the report is taken 20 ms after its begin, the worker is held 5 ms
// later and let go 60 ms after that, and goes on 15 ms after the grant: barrier 60, server 5, network 35.
#pragma once

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/status.h"
#include "common/timing/phases.h"
#include "common/trace/trace.h"
#include "tools/stage_waits.h"
#include "tools/sum_waits.h"

namespace paceline {

enum class WaitCause : std::uint8_t {
  kBarrier,
  kNetwork,
  kServer,
  kParameters,
  kData,
  kSum,
  kFormation,
  kStage
};
inline constexpr std::array<const char*, 8> kWaitCauses = {"barrier", "network", "server",    "parameters",
                                                           "data",    "sum",     "formation", "stage"};
constexpr const char* name_of(WaitCause cause) { return kWaitCauses[static_cast<std::size_t>(cause)]; }

using TimesByPhase = std::array<std::chrono::nanoseconds, kPhaseCount>;

struct Wait {
  WorkerId worker;
  Clock clock;  // of the iteration that it waited to begin; after the last, the one that did not come
  Clock after;  // of the one before; the same where there was none
  Ticks begin;
  std::chrono::nanoseconds length{0};
  std::array<std::chrono::nanoseconds, kWaitCauses.size()> causes{};
  std::optional<trace::Decision> hold;     // where it was held
  std::optional<trace::Decision> grant;    // none: it is left out of the trace, or nothing followed
  std::optional<WorkerId> whom;            // barrier: who let it go, else whom it was held for
  TimesByPhase of_whom{};                  // what that worker did meanwhile
  std::optional<WorkerId> beside;          // stage: its only neighbour; none: others, too
  StageWaits::Times of_stages{};           // stage: whose doing it was; empty: the trace has no passes
  SumWaits::Times of_sum{};                // sum: for whom, as far as it was for anybody
  SumWaits::Times of_formation{};          // formation: who was lost
  bool is_summed = false;                  // after a step of an all-reduce
  std::chrono::nanoseconds evaluating{0};  // of it, while a node evaluated
  TimesByPhase then{};                     // of the iteration that follows

  std::chrono::nanoseconds operator[](WaitCause cause) const {
    return causes[static_cast<std::size_t>(cause)];
  }
};

// How workers exchange what they computed (exchange.kind). In an all-reduce everyone reports once the sum is there, so
// an exchange is a barrier until the last worker has computed, for whom the others waited.
enum class ExchangedBy : std::uint8_t { kServers, kAllreduce };

// All of them, of each worker in the order of time, in worker order. `stages`: of a pipeline; 1: none.
// `norm_group`: nodes of one; 1: none.
std::vector<Wait> waits_of(const trace::Trace& trace, ExchangedBy by = ExchangedBy::kServers,
                           std::uint32_t stages = 1, std::uint32_t norm_group = 1);

// Of one of its causes, where that is known in parts: whose doing it was, for how long each; else empty.
const SumWaits::Times& doing_of(const Wait& wait, WaitCause cause);

// What a cause cost, each list with the costliest first. `workers`: whose doing it was. At the barrier these
// are those for whom others were held, as far as the trace has the decisions, of stages and sums those that were waited
// for, of formations those who were lost. No worker causes the other waits; of them these are those who waited.
// `waiting`: who waited.
struct CauseCost {
  WaitCause cause;
  std::chrono::nanoseconds total{0};
  std::vector<std::pair<WorkerId, std::chrono::nanoseconds>> workers;
  std::vector<std::pair<WorkerId, std::chrono::nanoseconds>> waiting;
  std::chrono::nanoseconds of_unknown{0};  // barrier, stage: nobody knows for whom; sum: for nobody
  bool is_summed = false;                  // in an all-reduce
};
std::vector<CauseCost> costs_of(const std::vector<Wait>& waits);

// The longest, at most `most`, the longest first.
std::vector<Wait> costliest(std::vector<Wait> waits, std::size_t most);

// Whether the authority lost the node, as far as the trace has its decisions.
bool was_lost(const trace::Trace& trace, NodeId node);

// The time of all workers that the trace has.
std::chrono::nanoseconds worker_time(const trace::Trace& trace);

}  // namespace paceline
