// staleness.csv: how old the parameters really were with which each applied gradient was computed, of each
// worker as a histogram, in two units:
//
//   clocks      the gradient's timestamp - the version of the parameters: how many clocks of some worker they
//               lacked at most. At most the s of its grant. Under eager a version is a lower bound.
//   gradients   how many gradients of others and its own were applied between the parameters' state and this
//               one: revision it is applied to - revision it was computed with. With `each` the gradients of
//               one clock are applied one after another, with `mean` at once.
//
//   node,thread,unit,staleness,count
//   0,0,clocks,0,212        212 gradients of worker 0.0 from parameters that lacked nothing of any clock
//   0,0,gradients,3,198
//
// Worked example, versioned, `each`, 4 workers. Worker 2 is granted clock 8 and computes with version 6,
// which is revision 24. Its gradient is the third of clock 8, applied to revision 32 + 2: 2 clocks, 10
// gradients. (Its own two of clocks 6 and 7 are in its thread cache, though not in version 6:
// read-my-writes.)
//
// What counts is decided by the authority, from what workers report of each step: the daemons' authority and
// the simulator's keep this record alike. Staleness below 64 is exact; above, as in
// common/timing/histogram.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include "common/ids.h"
#include "common/status.h"
#include "common/sync/actions.h"

namespace paceline {

// How often which staleness occurred. `histogram`: (bucket, count), buckets as in common/timing/histogram.h,
// ascending and without empty ones.
struct StalenessCounts {
  std::int64_t count = 0;
  std::int64_t sum = 0;
  std::int64_t max = 0;
  std::vector<std::pair<std::uint16_t, std::int64_t>> histogram;

  // value >= 0.
  void add(std::int64_t value, std::int64_t times = 1);
  double mean() const { return count == 0 ? 0.0 : static_cast<double>(sum) / static_cast<double>(count); }
};

// Sums over workers.
void merge(StalenessCounts& into, const StalenessCounts& from);

struct WorkerStaleness {
  WorkerId worker;
  StalenessCounts clocks;
  StalenessCounts gradients;
};

// Listens to what is applied. Thread: one at a time.
class StalenessRecord {
 public:
  explicit StalenessRecord(Cluster cluster);
  // An Apply, each once, in the order of the engine.
  void add(const sync::Apply& apply);

  // Goes on from what another one had counted, one for each worker in order.
  void resume(std::vector<WorkerStaleness> workers) { workers_ = std::move(workers); }

  // In worker order; those of whom nothing was applied have counts of 0.
  const std::vector<WorkerStaleness>& workers() const { return workers_; }

 private:
  Cluster cluster_;
  std::vector<WorkerStaleness> workers_;
};

// <run_dir>/staleness.csv, atomically, in the order given. Errors: common/files/atomic_file.h.
[[nodiscard]] Status write_staleness(const std::filesystem::path& run_dir,
                                     std::span<const WorkerStaleness> workers);

// Reads it back: histograms exactly, sum and max as the histogram has them. Errors: kNotFound no such file;
// kDataLoss naming file, line, got and expected, also where
// numbers are larger than any run's (2^31 in a cell, 2^50 in all).
Result<std::vector<WorkerStaleness>> read_staleness(const std::filesystem::path& run_dir);

}  // namespace paceline
