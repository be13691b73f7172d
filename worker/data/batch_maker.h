// Makes mini-batches: the pure function (data set, seed, positions) -> MiniBatch that the loader threads run
// ahead of time, and the fixed batches that an evaluation reads.
#pragma once

#include <cstdint>
#include <memory>

#include "common/batch_part.h"
#include "common/label.h"
#include "common/status.h"
#include "worker/data/augment.h"
#include "worker/data/batch.h"
#include "worker/data/data_set.h"
#include "worker/data/sampler.h"
#include "worker/data/samples.h"

namespace paceline {

// kLeftOut: whoever gets the mini-batch has the training set, and makes them from samples and epochs.
enum class Images { kRendered, kLeftOut };

// A data set in memory as samples. Thread: immutable.
class SamplesInMemory final : public Samples {
 public:
  // set: not empty; kept.
  SamplesInMemory(DataSetPtr set, const PixelRule& pixels, const BatchOptions& options);

  std::int64_t size() const override { return set_->size(); }
  std::int64_t floats() const override { return kImageSize; }
  Label label(std::int64_t sample) const override { return set_->labels[static_cast<std::size_t>(sample)]; }
  Result<std::int64_t> train(const SampleRef& ref, std::span<float> out) const override;
  Result<bool> evaluate(std::int64_t sample, std::span<float> out) const override;

 private:
  DataSetPtr set_;
  PixelRule pixels_;
  BatchOptions options_;
};

// Thread: immutable; any. Different threads fill different batches at the same time.
class BatchMaker {
 public:
  // seed: of the run. As many samples as `parts` has nodes, or more.
  BatchMaker(std::shared_ptr<const Samples> train, std::uint64_t seed, Images images = Images::kRendered,
             const FixedParts& parts = {});
  // Of a set in memory, not empty.
  BatchMaker(DataSetPtr train, const PixelRule& pixels, const BatchOptions& options,
             Images images = Images::kRendered);

  // Fills `batch` with the samples at the positions of `part`, at least one. Reuses the batch's memory.
  // Errors: those of Samples::train(); none from a set in memory.
  [[nodiscard]] Status make(const BatchPart& part, MiniBatch& batch) const;

 private:
  std::shared_ptr<const Samples> train_;
  Images images_;
  Sampler sampler_;
};

// Fills `batch` with samples [first, first + count) of `set`, cut off at its end: in order, not augmented,
// epoch 0, without those that cannot be read, so that it may be empty. For evaluation. 0 <= first <
// set.size(), count > 0. Errors: those of Samples::evaluate().
[[nodiscard]] Status make_evaluation_batch(const Samples& set, std::int64_t first, std::int64_t count,
                                           MiniBatch& batch);
// The same of places [first, first + count) of an evaluation of `of` samples, spread over the set: one of each `of`-th
// part of it, drawn, and the same one in every run. Classes have their shares so, in a set that is sorted by them and
// in one where they take turns. 0 <= first < of <= set.size().
//
//   3 of 7 samples    place 0 is 0 or 1, place 1 is 2 or 3, place 2 is 4, 5 or 6
[[nodiscard]] Status make_evaluation_batch(const Samples& set, std::int64_t of, std::int64_t first,
                                           std::int64_t count, MiniBatch& batch);
// Of a set in memory, with the training set's rule.
void make_evaluation_batch(const DataSet& set, const PixelRule& pixels, std::int64_t first,
                           std::int64_t count, MiniBatch& batch);

}  // namespace paceline
