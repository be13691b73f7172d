// The stopwatch of one training thread. From its first grant to its last reply the thread is always in one
// phase; to switch costs one clock read, which ends one phase and begins the next, so nothing falls between
// two phases.
//
//   recorder.begin(Phase::kTCacheParam);          the first grant came
//   recorder.enter(Phase::kBatch);                switch
//   recorder.enter(Phase::kComputeGrads);
//   recorder.enter(Phase::kPsApplyGrads);         an exchange begins; which phases it was is known at its end
//   recorder.end_exchange(exchange, Phase::kTCacheParam);
//   recorder.end(exchange);                       the last reply came
//
// What the thread does in no phase (leave()) is unaccounted: wall minus the sum, the wall taken with its own
// pair of clock reads so that it is a check and not a sum of the same numbers.
//
// Counts: every phase entered counts once when it ends. An exchange counts once in BARRIER, STEP and
// PS_APPLY_GRADS, also where that part was 0, and in PS_PARAM when parameters were fetched: so the mean of
// BARRIER is the mean wait of an iteration, not of the unlucky ones.
//
// Thread: one. Cost: a clock read and three additions, some 30-60 ns a switch. Memory: 4 KiB for each thread,
// and 128 bytes for each power of two of nanoseconds that a phase has lasted: some 10 KiB, so that ten
// thousand simulated threads have one each.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "common/ticks.h"
#include "common/timing/exchange.h"
#include "common/timing/histogram.h"
#include "common/timing/phase_span.h"
#include "common/timing/phase_times.h"
#include "common/timing/phase_totals.h"
#include "common/timing/phases.h"

namespace paceline {

class PhaseRecorder {
 public:
  // `clock`: what time it is, never going backwards; tests bring their own. `spans`: where each stretch of a
  // phase is kept besides, for a trace; nullptr: nowhere. Outlives the recorder.
  explicit PhaseRecorder(std::function<Ticks()> clock = steady_now, PhaseSpans* spans = nullptr);

  // What begins from here on is for the iteration stamped `clock`, and so are BARRIER and PS_PARAM of the
  // exchange that runs. For the spans alone.
  void at(Clock iteration) { iteration_ = iteration; }

  // Starts the wall and the first phase. Once.
  void begin(Phase first);

  // Ends the running phase, if any, and begins `next` (which may be the same again: it counts twice).
  void enter(Phase next);

  // Ends the running phase without beginning another: the time until the next enter() is unaccounted.
  void leave();

  // Ends the running phase, which was an exchange: its time goes to the four phases of split_exchange(),
  // whichever phase was entered for it. Then begins `next`.
  void end_exchange(const ExchangeTimes& exchange, Phase next);

  // The running phase began `length` later than it was entered: what an earlier one, `of`, had asked a device
  // for went on until then. At most all of it so far. `of` has then the time, and was not entered once more:
  // sums and spans have it, percentiles do not.
  void shift_start(std::chrono::nanoseconds length, Phase of);

  // Work of `phase` that ran in the shadow of computing: reported beside the phases, in none of them. >= 0.
  void add_hidden(Phase phase, std::chrono::nanoseconds duration);

  // Ends the running phase and the wall. Once; afterwards only totals().
  void end();
  // The same where the running phase is the last exchange.
  void end(const ExchangeTimes& last);
  // The same, but as if the running phase had not begun: it was for nothing, and is in no phase, nor in the
  // wall.
  void end_without_last();

  // The running phase; there is one.
  Phase current() const { return current_.value(); }

  // Between begin() and end(), and not yet ended.
  bool running() const { return wall_begin_.has_value() && !wall_end_.has_value(); }

  // The sums alone, without reading a clock: while it runs, as of the end of the last whole phase.
  PhaseTimes times() const;
  // What was recorded. Before end(), the wall runs to now and the running phase is not in it yet.
  PhaseTotals totals() const;

 private:
  static constexpr std::size_t kBuckets = 32;
  using Buckets = std::array<std::uint32_t, kBuckets>;
  struct Stat {
    std::int64_t count = 0;
    std::int64_t total_ns = 0;
    std::int64_t hidden_ns = 0;
    // By power of two (common/timing/histogram.h), made when a duration first falls there.
    std::array<std::unique_ptr<Buckets>, kHistogramBuckets / kBuckets> histogram;
  };

  void add(Phase phase, std::chrono::nanoseconds duration);
  void add_span(Phase phase, Ticks begin, std::chrono::nanoseconds length, Clock iteration);
  // Ends the running phase at `now`.
  void close(Ticks now);
  // Ends the running phase, an exchange, at `now`.
  void close(Ticks now, const ExchangeTimes& exchange);

  std::function<Ticks()> clock_;
  std::unique_ptr<std::array<Stat, kPhaseCount>> stats_;
  std::optional<Ticks> wall_begin_;
  std::optional<Ticks> wall_end_;
  std::optional<Phase> current_;
  Ticks current_begin_;  // of what is running, be it no phase
  PhaseSpans* spans_;
  Clock iteration_;
  Clock current_iteration_;  // of the running phase
};

}  // namespace paceline
