// Mini-batches that are handed to a back end ahead of their step, for the tests of that on a real GPU and on
// the fake one.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory_resource>
#include <utility>

#include "tests/unit/cuda_fixture.h"

namespace paceline {

// Whether the GPU reads the images where they lie.
enum class ImagesAre { kPinned, kOnHeap };

// A mini-batch of noise that may become another one, in its place.
class MovableBatch {
 public:
  MovableBatch(const NetworkSpec& network, std::int64_t n, std::uint64_t seed,
               std::shared_ptr<std::pmr::memory_resource> memory)
      : memory_(std::move(memory)),
        batch_(network, n, seed),
        images_(batch_.images.begin(), batch_.images.end(),
                memory_ != nullptr ? memory_.get() : std::pmr::new_delete_resource()) {}

  Batch all() const {
    Batch batch = batch_.all();
    batch.images = images_;
    return batch;
  }
  // The images become those of `other`, of as many samples, and so does the rest.
  void become(const MovableBatch& other) {
    std::copy(other.images_.begin(), other.images_.end(), images_.begin());
    std::copy(other.batch_.labels.begin(), other.batch_.labels.end(), batch_.labels.begin());
    std::copy(other.batch_.ids.begin(), other.batch_.ids.end(), batch_.ids.begin());
  }

 private:
  std::shared_ptr<std::pmr::memory_resource> memory_;
  RandomBatch batch_;
  std::pmr::vector<float> images_;
};

// A thread of the node's GPUs with one back end, which computes from parameters in `vectors`, if there are
// such, else from the host's; and batches for it.
struct PredictedFixture {
  static constexpr std::int64_t kBuiltFor = 4;
  enum class Cache { kOnGpu, kOnHost };

  explicit PredictedFixture(Cache where = Cache::kOnHost, Precision precision = Precision::kFp32,
                            NetworkSpec of = small_network())
      : network(std::move(of)), parameters(random_parameters(network, 1)) {
    auto opened = cuda::open_gpus({{}, precision});
    INFO(opened.status().message());
    REQUIRE(opened.is_ok());
    gpus = std::move(opened).value();
    gpus->warn_to([this](const std::string& what) { warnings.push_back(what); });
    auto thread = gpus->for_thread(0, nullptr);
    REQUIRE(thread.is_ok());
    if (where == Cache::kOnGpu) {
      auto made = thread->make_vectors(network, {});
      REQUIRE(made.is_ok());
      vectors = std::move(made).value();
      vectors->take_over(0, std::make_shared<const std::vector<float>>(parameters), {});
    }
    backend = std::move(thread->make_backend(network, kBuiltFor, 5)).value();
    // Of the same GPUs: with the same algorithms.
    reference = std::move(gpus->for_thread(1, nullptr)->make_backend(network, kBuiltFor, 5)).value();
  }

  MovableBatch batch(std::int64_t samples, std::uint64_t seed, ImagesAre images = ImagesAre::kPinned) const {
    return {network, samples, seed, images == ImagesAre::kPinned ? gpus->page_locked(nullptr) : nullptr};
  }

  Result<Metric> step(const Batch& of, std::vector<float>& gradient) {
    const std::span<const float> from = vectors != nullptr ? std::span<const float>() : parameters;
    return backend->gradient(from, of, gradient, whole_at_the_end);
  }

  // The gradient of `of` is, to the bit, what the reference makes of it, which nothing is said to ahead.
  void check_step(const Batch& of) {
    std::vector<float> got(parameters.size(), std::nanf(""));
    std::vector<float> expected(parameters.size());
    const auto metric = step(of, got);
    INFO(metric.status().message());
    REQUIRE(metric.is_ok());
    const auto should = reference->gradient(parameters, of, expected, whole_at_the_end);
    REQUIRE(should.is_ok());
    CHECK(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)) == 0);
    CHECK(metric->loss_sum == should->loss_sum);
    CHECK(metric->correct == should->correct);
    CHECK(metric->samples == of.size());
  }

  NetworkSpec network;
  std::vector<float> parameters;
  std::vector<std::string> warnings = {};
  std::shared_ptr<Gpus> gpus;
  std::unique_ptr<CacheVectors> vectors;
  std::unique_ptr<NetworkBackend> backend;
  std::unique_ptr<NetworkBackend> reference;
};

}  // namespace paceline
