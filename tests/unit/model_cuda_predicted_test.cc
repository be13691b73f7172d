// The next mini-batch goes to the GPU beside the step of the one before: whether one was predicted, rightly or
// not, or not at all makes no difference to a gradient. On a real GPU (gpu_test) and on the fake one
// (model_cuda_test).
#include <array>

#include "tests/unit/cuda_predicted_fixture.h"

using namespace paceline;
using Cache = PredictedFixture::Cache;

TEST_CASE("a_predicted_mini_batch_gives_the_gradient_that_it_gives_unpredicted_to_the_bit") {
  const ImagesAre images = GENERATE(ImagesAre::kPinned, ImagesAre::kOnHeap);
  const Cache cache = GENERATE(Cache::kOnHost, Cache::kOnGpu);
  const Precision precision = GENERATE(Precision::kFp32, Precision::kBf16);
  PredictedFixture f(cache, precision);
  std::vector<MovableBatch> batches;
  std::uint64_t seed = Catch::rngSeed();
  for (const std::int64_t samples : {4, 4, 4, 4, 3, 4, 1, 4, 4})
    batches.push_back(f.batch(samples, seed++, images));
  for (std::size_t i = 0; i < batches.size(); ++i) {
    INFO("step " << i);
    if (i + 1 < batches.size()) f.backend->predict(batches[i + 1].all());
    f.check_step(batches[i].all());
  }
}

TEST_CASE("a_mini_batch_that_was_not_predicted_comes_in_between_and_the_predicted_one_after_it") {
  const Cache cache = GENERATE(Cache::kOnHost, Cache::kOnGpu);
  PredictedFixture f(cache);
  const MovableBatch a = f.batch(4, 1), b = f.batch(4, 2), c = f.batch(4, 3), d = f.batch(2, 4);
  for (int round = 0; round < 3; ++round) {
    f.backend->predict(b.all());
    f.check_step(a.all());
    f.check_step(c.all());
    f.check_step(d.all());
    const auto evaluated = f.backend->evaluate(f.vectors ? std::span<const float>() : f.parameters, d.all());
    REQUIRE(evaluated.is_ok());
    CHECK(evaluated->loss_sum == f.reference->evaluate(f.parameters, d.all())->loss_sum);
    f.check_step(b.all());
    f.check_step(b.all());  // and once more, from the host
  }
}

TEST_CASE("memory_of_a_mini_batch_that_was_forgotten_may_hold_another_one") {
  const ImagesAre images = GENERATE(ImagesAre::kPinned, ImagesAre::kOnHeap);
  PredictedFixture f(Cache::kOnGpu);
  const MovableBatch a = f.batch(4, 1, images), other = f.batch(4, 3, images);
  MovableBatch next = f.batch(4, 2, images);
  for (int round = 0; round < 3; ++round) {
    f.backend->predict(next.all());
    f.check_step(a.all());
    REQUIRE(f.backend->forget().is_ok());
    next.become(other);
    f.check_step(next.all());
    REQUIRE(f.backend->forget().is_ok());  // nothing is predicted
    next.become(a);
    f.check_step(next.all());
  }
}

TEST_CASE("of_several_hints_the_last_counts_and_what_a_back_end_cannot_take_is_none") {
  PredictedFixture f(Cache::kOnGpu);
  const MovableBatch a = f.batch(4, 1), b = f.batch(4, 2), c = f.batch(3, 3), large = f.batch(5, 4);
  f.backend->predict(b.all());
  f.backend->predict(c.all());
  f.check_step(a.all());
  f.backend->predict(b.all());  // c is there already, and does not come
  f.check_step(a.all());
  f.check_step(b.all());
  f.check_step(c.all());
  Batch no_images = b.all();
  no_images.images = {};
  Batch no_names = b.all();
  no_names.epochs = {};  // which dropout needs
  for (const Batch& bad : {large.all(), no_images, no_names}) {
    f.backend->predict(bad);
    f.check_step(a.all());
  }
  f.check_step(b.all());
}
