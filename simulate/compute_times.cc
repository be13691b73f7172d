#include "simulate/compute_times.h"

#include <algorithm>
#include <cmath>

#include "simulate/virtual_time.h"
#include "worker/emulate/emulator.h"

namespace paceline::simulate {
namespace {

class Emulated final : public ComputeTimes {
 public:
  explicit Emulated(const RunConfig& config) : batch_size_(config.train.batch_size) {
    const Cluster cluster = config.cluster.cluster();
    for (std::uint32_t r = 0; r < cluster.workers(); ++r) {
      emulators_.emplace_back(config.emulate, config.run.seed, cluster, cluster.worker_at(Rank(r)),
                              batch_size_);
    }
  }
  std::chrono::nanoseconds length(Rank worker, Clock clock) const override {
    return std::max(emulators_[worker.value].duration(clock, batch_size_).value(),
                    std::chrono::nanoseconds(1));
  }
  bool counts_from_start() const override { return true; }

 private:
  std::int64_t batch_size_;
  std::vector<Emulator> emulators_;  // by rank
};

class Drawn final : public ComputeTimes {
 public:
  explicit Drawn(const RunConfig& config)
      : compute_(config.simulate.compute), seed_(config.run.seed), cluster_(config.cluster.cluster()) {
    const Duration mean = compute_.mean ? *compute_.mean : config.emulate.base_step.value();
    const std::vector<double>& factors =
        compute_.slowdown.empty() ? config.emulate.slowdown : compute_.slowdown;
    for (std::uint32_t n = 0; n < cluster_.nodes; ++n) {
      mean_ns_.push_back(static_cast<double>(mean.count()) * factor_of(factors, NodeId(n)));
    }
  }
  std::chrono::nanoseconds length(Rank worker, Clock clock) const override {
    const double mean = mean_ns_[cluster_.worker_at(worker).node.value];
    return std::max(length_of(mean * draw(worker, clock)), std::chrono::nanoseconds(1));
  }

 private:
  double draw(Rank worker, Clock clock) const {
    CounterRandom random(seed_, Stream::kSimulatedCompute, worker.value,
                         static_cast<std::uint64_t>(clock.value));
    switch (compute_.distribution) {
      case ComputeKind::kNormal:
        return normal_draw(compute_.cv, random);
      case ComputeKind::kLognormal:
        return lognormal_draw(compute_.cv, random);
      case ComputeKind::kGamma:
        return gamma_draw(compute_.cv, random);
      case ComputeKind::kPareto:
        return pareto_draw(compute_.shape, random);
      case ComputeKind::kConstant:
      case ComputeKind::kEmulated:
        break;
    }
    return 1.0;
  }

  SimulatedCompute compute_;
  std::uint64_t seed_;
  Cluster cluster_;
  std::vector<double> mean_ns_;  // by node
};

// Gamma(shape, 1) for shape >= 1.
double marsaglia_tsang(double shape, CounterRandom& random) {
  const double d = shape - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  for (;;) {
    const double z = random.next_normal();
    const double v = std::pow(1.0 + c * z, 3);
    if (v <= 0.0) continue;
    const double u = 1.0 - random.next_double();
    if (std::log(u) < 0.5 * z * z + d - d * v + d * std::log(v)) return d * v;
  }
}

}  // namespace

double normal_draw(double cv, CounterRandom& random) {
  for (;;) {
    const double draw = 1.0 + cv * random.next_normal();
    if (draw > 0.0) return draw;
  }
}

double lognormal_draw(double cv, CounterRandom& random) {
  const double variance = std::log1p(cv * cv);
  return std::exp(std::sqrt(variance) * random.next_normal() - 0.5 * variance);
}

double gamma_draw(double cv, CounterRandom& random) {
  if (cv == 0.0) return 1.0;
  const double shape = 1.0 / (cv * cv);
  if (shape >= 1.0) return marsaglia_tsang(shape, random) / shape;
  // Gamma(k) = Gamma(k + 1) U^(1/k).
  const double whole = marsaglia_tsang(shape + 1.0, random);
  return whole * std::pow(1.0 - random.next_double(), 1.0 / shape) / shape;
}

double pareto_draw(double shape, CounterRandom& random) {
  return (shape - 1.0) / shape * std::pow(1.0 - random.next_double(), -1.0 / shape);
}

double factor_of(const std::vector<double>& factors, NodeId node) {
  if (factors.empty()) return 1.0;
  return factors.size() == 1 ? factors.front() : factors.at(node.value);
}

std::unique_ptr<ComputeTimes> make_compute_times(const RunConfig& config) {
  if (config.simulate.compute.distribution == ComputeKind::kEmulated)
    return std::make_unique<Emulated>(config);
  return std::make_unique<Drawn>(config);
}

}  // namespace paceline::simulate
