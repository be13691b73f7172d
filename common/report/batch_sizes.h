// Which mini-batch sizes balanced batches chose (train.batch_balance: speed), of each worker: from the
// grants, so it is what was computed from. The daemons' authority and the simulator's keep this record alike.
//
//   sizes 32 32 of workers 0.0 and 1.0, granted 40 48 40 and 24 16 24 later
//     last 40 24, smallest 32 16, largest 48 32
//
// While sizes change, the last grants of workers that are apart by some clocks are of different settings:
// then their sum is not a clock's.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/ids.h"
#include "common/sync/actions.h"

namespace paceline {

// By rank, in samples; 0 for a worker that was granted nothing.
struct WorkerBatchSizes {
  std::vector<std::int64_t> last;
  std::vector<std::int64_t> smallest;
  std::vector<std::int64_t> largest;
};

// Listens to what is granted. Thread: one at a time.
class BatchSizeRecord {
 public:
  // `batch_size`: what all had at the start. A last clock that is not for all workers has that again, and is
  // left out.
  BatchSizeRecord(Cluster cluster, std::int64_t batch_size, std::int64_t total_iterations);
  // A Grant, each once, in the order of the engine.
  void add(const sync::Grant& grant);

  // Goes on from what another one of this cluster had seen.
  void resume(WorkerBatchSizes sizes) { sizes_ = std::move(sizes); }

  // The sizes granted last, in words, where any is another than when this was asked last, or at the start:
  // "node 0: 152, node 1: 96 to 104". Empty: none is.
  std::string change();

  const WorkerBatchSizes& sizes() const { return sizes_; }

 private:
  Cluster cluster_;
  Clock whole_clocks_;  // below it all workers have an iteration
  WorkerBatchSizes sizes_;
  std::vector<std::int64_t> reported_;
};

// Of one node's threads, from rank `first` on, the smallest of `smallest` and the largest of `largest`, both
// by rank: "152", "96 to 104", or "none" where nobody was granted anything.
std::string batch_range(const std::vector<std::int64_t>& smallest, const std::vector<std::int64_t>& largest,
                        std::size_t first, std::uint32_t threads);

}  // namespace paceline
