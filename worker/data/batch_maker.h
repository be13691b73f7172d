// Makes mini-batches: the pure function (data set, seed, positions) -> MiniBatch that the loader threads run
// ahead of time, and the fixed batches that an evaluation reads.
#pragma once

#include <cstdint>

#include "common/batch_part.h"
#include "worker/data/augment.h"
#include "worker/data/batch.h"
#include "worker/data/data_set.h"
#include "worker/data/sampler.h"

namespace paceline {

// kLeftOut: whoever gets the mini-batch has the training set, and makes them from samples and epochs.
enum class Images { kRendered, kLeftOut };

// Thread: immutable; any. Different threads fill different batches at the same time.
class BatchMaker {
 public:
  // train: not empty; kept.
  BatchMaker(DataSetPtr train, const PixelRule& pixels, const BatchOptions& options,
             Images images = Images::kRendered);

  // Fills `batch` with the samples at the positions of `part`, at least one. Reuses the batch's memory.
  void make(const BatchPart& part, MiniBatch& batch) const;

 private:
  DataSetPtr train_;
  PixelRule pixels_;
  BatchOptions options_;
  Images images_;
  Sampler sampler_;
};

// Fills `batch` with samples [first, first + count) of `set`, cut off at its end: in order, not augmented,
// epoch 0. For evaluation, with the training set's rule. 0 <= first < set.size(), count > 0.
void make_evaluation_batch(const DataSet& set, const PixelRule& pixels, std::int64_t first,
                           std::int64_t count, MiniBatch& batch);

}  // namespace paceline
