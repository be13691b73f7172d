// How fast each worker is, as two scores from 0 to 1 over its last kWindow iterations, so that a straggler
// has a name:
//
//   relative    the fastest worker's mean time for a sample / this worker's: 0.5 is half as fast as the
//               fastest
//   individual  this worker's best mean time for a sample so far / its present one: 0.5 is half as fast as it
//               has been
//
// Stages of a pipeline compute different things: each is compared with the same stage of other groups alone. A stage
// that has the larger share of the network is no straggler.
//
// For a sample, not for an iteration: where batches are balanced, the slower worker's are smaller, so that
// all iterations take as long; with equal batches it is the same.
//
// Which of the two is low tells why: a node that is slower by nature has a low relative score and an
// individual one near 1; one that is being disturbed (another program, heat, a network that fails) loses
// both.
//
//   window 2, batches of 1 for short, worker a: 1.0 1.0 s, worker b: 2.0 2.0 s    a 1, 1     b 0.5, 1
//   then a: 1.0 1.0 s, b: 4.0 4.0 s                                 a 1, 1     b 0.25, 0.5
//
// An iteration's time is the one that its gradient took to compute, as the worker reports it: without what
// the threshold holds it, and without its network. A mean over a window, since a pause that comes back costs
// its share whether it is in every step or in every tenth. Who has not filled a window yet has no scores.
// Definitions of our own; the DTSSP paper (section 3) compares clocks, which under a threshold are held
// together whoever is slow.
//
// Pure: times are passed in, sums are whole nanoseconds. Thread: one. Memory: 2 kWindow numbers
// a worker.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/ids.h"

namespace paceline {

struct StragglerScore {
  double relative = 1.0;
  double individual = 1.0;
  double iteration_seconds = 0.0;  // that an iteration computes, the mean of the window

  double lower() const { return relative < individual ? relative : individual; }
};

class StragglerScores {
 public:
  static constexpr std::size_t kWindow = 16;

  // Worker r is compared with those of which the remainder by `kinds`, >= 1, is the same: the stages of a pipeline.
  explicit StragglerScores(std::uint32_t workers, std::uint32_t kinds = 1)
      : kinds_(kinds), workers_(workers) {}

  // An iteration of `worker` over so many samples took so long; less than 1 ns, or no sample, counts as that.
  void took(Rank worker, std::chrono::nanoseconds time, std::int64_t samples = 1);
  // It is gone: it has no scores, and is not the fastest. It begins anew where it comes back.
  void forget(Rank worker) { workers_[worker.value] = {}; }

  // By rank; nothing of those whose window is not full.
  std::vector<std::optional<StragglerScore>> scores() const;

 private:
  struct Worker {
    struct Iteration {
      std::int64_t ns = 0;
      std::int64_t samples = 0;
    };
    std::array<Iteration, kWindow> window{};
    std::uint64_t seen = 0;
    Iteration sum;
    double best = 0.0;  // the smallest time for a sample of a full window, in ns

    bool known() const { return seen >= kWindow; }
    double sample_ns() const { return static_cast<double>(sum.ns) / static_cast<double>(sum.samples); }
  };
  std::uint32_t kinds_;
  std::vector<Worker> workers_;
};

// Who is to be warned of: each worker once when its lower score falls below a limit, and again only after it
// has risen by a share kAgain of the way from the limit to 1, so that a score that hovers there says it once:
// of 0.5 at 0.55, of 0.95 at 0.955.
class StragglerWarnings {
 public:
  static constexpr double kAgain = 0.1;

  // `limit` in (0, 1).
  StragglerWarnings(std::uint32_t workers, double limit) : limit_(limit), fallen_(workers, false) {}

  // Of these scores, the workers that have fallen since the last call.
  std::vector<Rank> fallen(const std::vector<std::optional<StragglerScore>>& scores);

 private:
  double limit_;
  std::vector<bool> fallen_;
};

}  // namespace paceline
