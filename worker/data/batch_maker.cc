// Fills mini-batches; see batch_maker.h.
#include "worker/data/batch_maker.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "common/assert.h"
#include "common/random.h"

namespace paceline {
namespace {

void resize(MiniBatch& batch, std::int64_t size, std::int64_t floats) {
  const auto n = static_cast<std::size_t>(size);
  batch.size = size;
  batch.images.resize(n * static_cast<std::size_t>(floats));
  batch.labels.resize(n);
  batch.samples.resize(n);
  batch.epochs.resize(n);
}

// The place's image.
std::span<float> image_at(MiniBatch& batch, std::int64_t place, std::int64_t floats) {
  return std::span(batch.images)
      .subspan(static_cast<std::size_t>(place * floats), static_cast<std::size_t>(floats));
}

void put_reference(const Samples& set, const SampleRef& ref, std::int64_t place, MiniBatch& batch) {
  const auto i = static_cast<std::size_t>(place);
  batch.labels[i] = set.label(ref.sample);
  batch.samples[i] = ref.sample;
  batch.epochs[i] = ref.epoch;
}

// The sample at a place of an evaluation of `of` samples.
std::int64_t spread_over(std::int64_t size, std::int64_t of, std::int64_t place) {
  const std::int64_t begin = place * size / of;
  const std::int64_t end = (place + 1) * size / of;
  CounterRandom random(0, Stream::kEvaluation, static_cast<std::uint64_t>(place));
  return begin + static_cast<std::int64_t>(random.next_below(static_cast<std::uint64_t>(end - begin)));
}

}  // namespace

SamplesInMemory::SamplesInMemory(DataSetPtr set, const PixelRule& pixels, const BatchOptions& options)
    : set_(std::move(set)), pixels_(pixels), options_(options) {
  PACELINE_ASSERT(set_ != nullptr && set_->size() > 0, "samples of an empty data set");
}

Result<std::int64_t> SamplesInMemory::train(const SampleRef& ref, std::span<float> out) const {
  render(set_->image(ref.sample), options_.augmentation_of(ref.epoch, ref.sample), pixels_, out);
  return ref.sample;
}

Result<bool> SamplesInMemory::evaluate(std::int64_t sample, std::span<float> out) const {
  render(set_->image(sample), {}, pixels_, out);
  return true;
}

BatchMaker::BatchMaker(std::shared_ptr<const Samples> train, std::uint64_t seed, Images images,
                       const FixedParts& parts)
    : train_(std::move(train)), images_(images), sampler_(train_->size(), seed, parts) {}

BatchMaker::BatchMaker(DataSetPtr train, const PixelRule& pixels, const BatchOptions& options, Images images)
    : BatchMaker(std::make_shared<const SamplesInMemory>(std::move(train), pixels, options), options.seed,
                 images) {}

Status BatchMaker::make(const BatchPart& part, MiniBatch& batch) const {
  PACELINE_ASSERT(part.position >= 0 && part.samples > 0, "a mini-batch of " + to_string(part));
  const std::int64_t floats = images_ == Images::kRendered ? train_->floats() : 0;
  resize(batch, part.samples, floats);
  for (std::int64_t i = 0; i < part.samples; ++i) {
    SampleRef ref = sampler_.at(part.position + i);
    if (images_ == Images::kRendered) {
      PACELINE_ASSIGN_OR_RETURN(ref.sample, train_->train(ref, image_at(batch, i, floats)));
    }
    put_reference(*train_, ref, i, batch);
  }
  return Status::ok();
}

Status make_evaluation_batch(const Samples& set, std::int64_t first, std::int64_t count, MiniBatch& batch) {
  return make_evaluation_batch(set, set.size(), first, count, batch);
}

Status make_evaluation_batch(const Samples& set, std::int64_t of, std::int64_t first, std::int64_t count,
                             MiniBatch& batch) {
  PACELINE_ASSERT(of <= set.size() && first >= 0 && first < of && count > 0,
                  std::to_string(first) + " + " + std::to_string(count) + " of " + std::to_string(of) +
                      " of " + std::to_string(set.size()) + " samples");
  const std::int64_t end = std::min(first + count, of);
  const std::int64_t floats = set.floats();
  resize(batch, end - first, floats);
  std::int64_t filled = 0;
  for (std::int64_t place = first; place < end; ++place) {
    const std::int64_t sample = spread_over(set.size(), of, place);
    PACELINE_ASSIGN_OR_RETURN(const bool is_there, set.evaluate(sample, image_at(batch, filled, floats)));
    if (is_there) put_reference(set, {0, sample}, filled++, batch);
  }
  resize(batch, filled, floats);
  return Status::ok();
}

void make_evaluation_batch(const DataSet& set, const PixelRule& pixels, std::int64_t first,
                           std::int64_t count, MiniBatch& batch) {
  // Not owned: it outlives this call.
  const DataSetPtr borrowed(std::shared_ptr<void>(), &set);
  const Status made = make_evaluation_batch(SamplesInMemory(borrowed, pixels, {}), first, count, batch);
  PACELINE_ASSERT(made.is_ok(), made.message());
}

}  // namespace paceline
