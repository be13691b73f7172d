#include "worker/emulate/emulator.h"

#include <cmath>

namespace paceline {
namespace {

double slowdown_of(const std::vector<double>& factors, NodeId node) {
  if (factors.empty()) return 1.0;
  if (factors.size() == 1) return factors.front();
  PACELINE_ASSERT(node.value < factors.size(), "emulate.slowdown has no factor for node " + to_string(node));
  return factors[node.value];
}

}  // namespace

double jitter_draw(JitterKind kind, double spread, CounterRandom& random) {
  switch (kind) {
    case JitterKind::kNone:
      return 1.0;
    case JitterKind::kUniform:
      return 1.0 + spread * (2.0 * random.next_double() - 1.0);
    case JitterKind::kLognormal:
      return std::exp(spread * random.next_normal() - 0.5 * spread * spread);
    case JitterKind::kExponential:
      return 1.0 - spread - spread * std::log1p(-random.next_double());
  }
  return 1.0;
}

Emulator::Emulator(const EmulateSection& settings, std::uint64_t seed, Cluster cluster, WorkerId worker,
                   std::int64_t batch_size)
    : settings_(settings),
      seed_(seed),
      rank_(cluster.rank_of(worker)),
      slowdown_(slowdown_of(settings.slowdown, worker.node)),
      batch_size_(batch_size) {}

std::optional<Duration> Emulator::duration(Clock clock, std::int64_t samples) const {
  if (!settings_.base_step) return std::nullopt;
  CounterRandom random(seed_, Stream::kEmulation, rank_.value, static_cast<std::uint64_t>(clock.value));
  const double factor = slowdown_ * jitter_draw(settings_.jitter, settings_.jitter_spread, random);
  const Duration whole(std::llround(static_cast<double>(settings_.base_step->count()) * factor));
  if (samples == batch_size_) return whole;
  const double share = static_cast<double>(samples) / static_cast<double>(batch_size_);
  return Duration(std::llround(static_cast<double>(whole.count()) * share));
}

}  // namespace paceline
