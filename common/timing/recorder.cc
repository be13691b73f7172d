// PhaseRecorder: one clock read a switch.
#include "common/timing/recorder.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/assert.h"

namespace paceline {

PhaseRecorder::PhaseRecorder(std::function<Ticks()> clock, PhaseSpans* spans)
    : clock_(std::move(clock)), stats_(std::make_unique<std::array<Stat, kPhaseCount>>()), spans_(spans) {}

void PhaseRecorder::add(Phase phase, std::chrono::nanoseconds duration) {
  Stat& stat = (*stats_)[static_cast<std::size_t>(phase)];
  ++stat.count;
  stat.total_ns += duration.count();
  const std::uint16_t bucket = histogram_bucket(duration.count());
  std::unique_ptr<Buckets>& buckets = stat.histogram[bucket / kBuckets];
  if (buckets == nullptr) buckets = std::make_unique<Buckets>();
  ++(*buckets)[bucket % kBuckets];
}

// Of nothing there is nothing to be seen: an exchange that met no barrier has no span of it.
void PhaseRecorder::add_span(Phase phase, Ticks begin, std::chrono::nanoseconds length, Clock iteration) {
  if (spans_ == nullptr || length.count() == 0) return;
  spans_->add({begin, length, iteration, phase});
}

void PhaseRecorder::close(Ticks now) {
  if (!current_) return;
  add(*current_, now - current_begin_);
  add_span(*current_, current_begin_, now - current_begin_, current_iteration_);
}

void PhaseRecorder::begin(Phase first) {
  PACELINE_ASSERT(!wall_begin_, "the recorder has begun already");
  wall_begin_ = clock_();
  enter(first);
}

void PhaseRecorder::enter(Phase next) {
  PACELINE_ASSERT(running(), std::string("enter ") + name_of(next) + " outside begin() and end()");
  const Ticks now = clock_();
  close(now);
  current_ = next;
  current_begin_ = now;
  current_iteration_ = iteration_;
}

void PhaseRecorder::leave() {
  PACELINE_ASSERT(running(), "leave outside begin() and end()");
  const Ticks now = clock_();
  close(now);
  current_.reset();
  current_begin_ = now;
}

void PhaseRecorder::close(Ticks now, const ExchangeTimes& exchange) {
  PACELINE_ASSERT(running() && current_, "an exchange ends that was not entered");
  const ExchangeSplit split = split_exchange(now - current_begin_, exchange);
  add(Phase::kBarrier, split.barrier);
  add(Phase::kStep, split.step);
  add(Phase::kPsApplyGrads, split.ps_apply_grads);
  if (exchange.parameters) add(Phase::kPsParam, split.ps_param);
  if (spans_ != nullptr) {
    Ticks begin = current_begin_;
    const auto next_part = [&](Phase phase, std::chrono::nanoseconds length, Clock iteration) {
      add_span(phase, begin, length, iteration);
      begin = begin + length;
    };
    next_part(Phase::kStep, split.step, current_iteration_);
    next_part(Phase::kPsApplyGrads, split.ps_apply_grads, current_iteration_);
    next_part(Phase::kBarrier, split.barrier, iteration_);
    next_part(Phase::kPsParam, split.ps_param, iteration_);
  }
  current_.reset();
}

void PhaseRecorder::end_exchange(const ExchangeTimes& exchange, Phase next) {
  const Ticks now = clock_();
  close(now, exchange);
  current_ = next;
  current_begin_ = now;
  current_iteration_ = iteration_;
}

void PhaseRecorder::shift_start(std::chrono::nanoseconds length, Phase of) {
  PACELINE_ASSERT(running() && current_, "no phase runs that could have begun late");
  const auto late = std::min(length, clock_() - current_begin_);
  (*stats_)[static_cast<std::size_t>(of)].total_ns += late.count();
  add_span(of, current_begin_, late, current_iteration_);
  current_begin_ = current_begin_ + late;
}

void PhaseRecorder::add_hidden(Phase phase, std::chrono::nanoseconds duration) {
  PACELINE_ASSERT(duration.count() >= 0, std::string("hidden of ") + name_of(phase) + ": " +
                                             std::to_string(duration.count()) + " ns, expected none below 0");
  (*stats_)[static_cast<std::size_t>(phase)].hidden_ns += duration.count();
}

void PhaseRecorder::end() {
  PACELINE_ASSERT(running(), "end without begin, or twice");
  leave();
  wall_end_ = clock_();
}

void PhaseRecorder::end(const ExchangeTimes& last) {
  close(clock_(), last);
  end();
}

void PhaseRecorder::end_without_last() {
  PACELINE_ASSERT(running(), "end without begin, or twice");
  wall_end_ = current_ ? current_begin_ : clock_();
  current_.reset();
}

PhaseTimes PhaseRecorder::times() const {
  PhaseTimes times;
  for (std::size_t i = 0; i < kPhaseCount; ++i) times.phases[i] = (*stats_)[i].total_ns;
  if (wall_begin_) times.wall = (wall_end_.value_or(current_begin_) - *wall_begin_).count();
  return times;
}

PhaseTotals PhaseRecorder::totals() const {
  PhaseTotals totals;
  for (std::size_t i = 0; i < kPhaseCount; ++i) {
    const Stat& stat = (*stats_)[i];
    PhaseStat& out = totals.phases[i];
    out.count = stat.count;
    out.total_ns = stat.total_ns;
    out.hidden_ns = stat.hidden_ns;
    for (std::uint16_t bucket = 0; bucket < kHistogramBuckets; ++bucket) {
      const Buckets* const buckets = stat.histogram[bucket / kBuckets].get();
      const std::uint32_t count = buckets == nullptr ? 0 : (*buckets)[bucket % kBuckets];
      if (count != 0) out.histogram.emplace_back(bucket, count);
    }
  }
  if (wall_begin_) totals.wall_ns = (wall_end_.value_or(clock_()) - *wall_begin_).count();
  return totals;
}

}  // namespace paceline
