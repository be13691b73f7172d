// Fills mini-batches; see batch_maker.h.
#include "worker/data/batch_maker.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "common/assert.h"

namespace paceline {
namespace {

void resize(MiniBatch& batch, std::int64_t size, Images images) {
  const auto n = static_cast<std::size_t>(size);
  batch.size = size;
  batch.images.resize(images == Images::kRendered ? n * static_cast<std::size_t>(kImageSize) : 0);
  batch.labels.resize(n);
  batch.samples.resize(n);
  batch.epochs.resize(n);
}

void put_reference(const DataSet& set, const SampleRef& ref, std::int64_t place, MiniBatch& batch) {
  const auto i = static_cast<std::size_t>(place);
  batch.labels[i] = set.labels[static_cast<std::size_t>(ref.sample)];
  batch.samples[i] = ref.sample;
  batch.epochs[i] = ref.epoch;
}

void put_image(const DataSet& set, const PixelRule& pixels, const SampleRef& ref,
               const Augmentation& augmentation, std::int64_t place, MiniBatch& batch) {
  const std::span out =
      std::span(batch.images).subspan(static_cast<std::size_t>(place * kImageSize), kImageSize);
  render(set.image(ref.sample), augmentation, pixels, out);
}

DataSetPtr not_empty(DataSetPtr set) {
  PACELINE_ASSERT(set != nullptr && set->size() > 0, "mini-batches of an empty data set");
  return set;
}

}  // namespace

BatchMaker::BatchMaker(DataSetPtr train, const PixelRule& pixels, const BatchOptions& options, Images images)
    : train_(not_empty(std::move(train))),
      pixels_(pixels),
      options_(options),
      images_(images),
      sampler_(train_->size(), options.seed) {}

void BatchMaker::make(const BatchPart& part, MiniBatch& batch) const {
  PACELINE_ASSERT(part.position >= 0 && part.samples > 0, "a mini-batch of " + to_string(part));
  resize(batch, part.samples, images_);
  for (std::int64_t i = 0; i < part.samples; ++i) {
    const SampleRef ref = sampler_.at(part.position + i);
    put_reference(*train_, ref, i, batch);
    if (images_ == Images::kLeftOut) continue;
    put_image(*train_, pixels_, ref, options_.augmentation_of(ref.epoch, ref.sample), i, batch);
  }
}

void make_evaluation_batch(const DataSet& set, const PixelRule& pixels, std::int64_t first,
                           std::int64_t count, MiniBatch& batch) {
  PACELINE_ASSERT(first >= 0 && first < set.size() && count > 0, "samples " + std::to_string(first) + " + " +
                                                                     std::to_string(count) + " of " +
                                                                     std::to_string(set.size()));
  const std::int64_t size = std::min(count, set.size() - first);
  resize(batch, size, Images::kRendered);
  for (std::int64_t i = 0; i < size; ++i) {
    put_reference(set, {0, first + i}, i, batch);
    put_image(set, pixels, {0, first + i}, {}, i, batch);
  }
}

}  // namespace paceline
