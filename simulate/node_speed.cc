#include "simulate/node_speed.h"

#include <algorithm>
#include <cmath>

#include "common/random.h"
#include "simulate/virtual_time.h"

namespace paceline::simulate {
namespace {

double ns_of(Duration d) { return static_cast<double>(d.count()); }

// share = slow / (slow + normal).
double normal_ns(const SimulatedCompute& compute) {
  if (compute.slow_share <= 0.0) return ns_of(compute.slow_length);
  return ns_of(compute.slow_length) * (1.0 - compute.slow_share) / compute.slow_share;
}

}  // namespace

Periods::Periods(Kind kind, std::uint64_t seed, NodeId node, double ordinary_ns, double other_ns)
    : seed_(seed), node_(node.value), kind_(kind), mean_ns_{ordinary_ns, other_ns} {
  draw();
}

void Periods::draw() {
  CounterRandom random(seed_, Stream::kSimulatedSpeed, node_, static_cast<std::uint64_t>(kind_), number_);
  const double length = -mean_ns_[number_ % 2] * std::log1p(-random.next_double());
  until_ = after(until_, length_of(std::max(length, 1.0)));
}

void Periods::move_to(Ticks now) {
  while (until_ <= now && until_ < kEndOfTime) {
    ++number_;
    draw();
  }
}

NodeSpeed::NodeSpeed(const SimulatedCompute& compute, std::uint64_t seed, NodeId node)
    : slows_(compute.slow_share > 0.0),
      pauses_(compute.pause_every.has_value()),
      slow_factor_(compute.slow_factor),
      slow_(Periods::Kind::kSlow, seed, node, normal_ns(compute), ns_of(compute.slow_length)),
      pause_(Periods::Kind::kPause, seed, node, ns_of(compute.pause_every.value_or(compute.pause_length)),
             ns_of(compute.pause_length)) {}

bool NodeSpeed::varies(const SimulatedCompute& compute) {
  return compute.slow_share > 0.0 || compute.pause_every.has_value();
}

Ticks NodeSpeed::done(Ticks start, std::chrono::nanoseconds work) {
  Ticks now = start;
  auto left = static_cast<double>(work.count());
  while (now < kEndOfTime) {
    if (slows_) slow_.move_to(now);
    if (pauses_) pause_.move_to(now);
    Ticks until = kEndOfTime;
    if (slows_) until = std::min(until, slow_.until());
    if (pauses_) until = std::min(until, pause_.until());
    const bool paused = pauses_ && pause_.other();
    const double speed = slows_ && slow_.other() ? 1.0 / slow_factor_ : 1.0;
    const double needed = left / speed;
    if (!paused && needed <= static_cast<double>((until - now).count())) {
      return now + std::chrono::nanoseconds(std::llround(needed));
    }
    if (!paused) left -= static_cast<double>((until - now).count()) * speed;
    now = until;
  }
  return kEndOfTime;
}

}  // namespace paceline::simulate
