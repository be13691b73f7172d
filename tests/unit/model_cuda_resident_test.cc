// The training set on the GPU: a mini-batch that is named there is the one that the loader makes, to the bit.
// On a real GPU (gpu_test) and on the fake one (model_cuda_test).
#include <cstring>

#include "tests/unit/cuda_resident_fixture.h"
#include "worker/model/cuda/bodies.h"

using namespace paceline;
using Catch::Contains;

namespace {

struct Outcome {
  std::vector<float> gradient;
  Metric metric;
};

Outcome outcome_of(NetworkBackend& backend, const NetworkSpec& network, const Batch& batch) {
  const std::vector<float> parameters = random_parameters(network, 3);
  Outcome outcome{std::vector<float>(parameters.size(), std::nanf("")), {}};
  const auto metric = backend.gradient(parameters, batch, outcome.gradient, whole_at_the_end);
  INFO(metric.status().message());
  REQUIRE(metric.is_ok());
  outcome.metric = *metric;
  return outcome;
}

bool same_bits(const Outcome& a, const Outcome& b) {
  return std::memcmp(a.gradient.data(), b.gradient.data(), a.gradient.size() * sizeof(float)) == 0 &&
         std::memcmp(&a.metric.loss_sum, &b.metric.loss_sum, sizeof(double)) == 0 &&
         a.metric.correct == b.metric.correct && a.metric.samples == b.metric.samples;
}

// Both ways on one back end, so that on a GPU both have the same algorithms.
void check_same_either_way(const ResidentFixture& set, const NetworkSpec& network, std::int64_t built_for,
                           const BatchPart& part, Precision precision = Precision::kFp32) {
  CAPTURE(to_string(part), built_for, static_cast<int>(precision));
  const auto backend = set.backend(network, built_for, precision);
  const MiniBatch batch = set.made(part);
  const MiniBatch other = set.made({part.position + part.samples, built_for});
  const Outcome sent = outcome_of(*backend, network, view(batch));
  const Outcome sent_other = outcome_of(*backend, network, view(other));
  REQUIRE_FALSE(same_bits(sent, sent_other));
  // Each after another mini-batch, whose images and labels were in the same places.
  CHECK(same_bits(outcome_of(*backend, network, without_images(batch)), sent));
  CHECK(same_bits(outcome_of(*backend, network, without_images(other)), sent_other));
  CHECK(same_bits(outcome_of(*backend, network, view(batch)), sent));
}

// One product for each pixel: whatever pixel were another one, a weight's gradient would be, too.
NetworkSpec each_pixel() { return network_of({dense(10)}, {3, 32, 32}, 10); }
NetworkSpec with_dropout() {
  return network_of({dropout(0.2), conv(4, 5, 2), relu(), pool(2), dropout(0.3), dense(10)}, {3, 32, 32}, 10);
}

// The kernel's body itself, against the CPU's render().
void check_body(const ResidentFixture& set) {
  const MiniBatch batch = set.made({30, 20});  // of 40: into the next epoch
  constexpr std::int64_t kPlaces = 22;         // two fill up
  std::vector<float> images(kPlaces * kImageSize, std::nanf(""));
  std::vector<Label> labels(kPlaces, 77);
  const cuda::RenderSamples body{
      set.data->pixels.data(), set.data->labels.data(), set.normalization, set.options,  batch.epochs.data(),
      batch.samples.data(),    static_cast<int>(20),    images.data(),     labels.data()};
  for (int i = 0; i < kPlaces * kPlaneSize; ++i) body(i);
  std::int64_t wrong = 0;
  for (std::int64_t n = 0; n < kPlaces; ++n) {
    wrong += labels[n] != (n < 20 ? batch.labels[n] : 0);
    for (std::int64_t i = 0; i < kImageSize; ++i) {
      wrong += images[n * kImageSize + i] != (n < 20 ? batch.images[n * kImageSize + i] : 0.0F);
    }
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("a_mini_batch_of_the_set_on_the_gpu_gives_the_gradient_of_the_loaders_to_the_bit") {
  const Augment augment = GENERATE(Augment::kNo, Augment::kYes);
  const std::uint64_t seed = Catch::rngSeed();
  INFO("seed " << seed << ", augment " << static_cast<int>(augment));
  // More than one piece of the copy to the GPU.
  const ResidentFixture set(400, {augment, seed});
  for (std::int64_t i = 0; i < 10; ++i) check_same_either_way(set, each_pixel(), 1, {i * 397, 1});
  check_same_either_way(set, each_pixel(), 16, {390, 16});  // crosses into the next epoch
  check_same_either_way(set, with_dropout(), 8, {3998, 8});
}

TEST_CASE("a_smaller_mini_batch_of_the_set_on_the_gpu_is_filled_up_as_a_sent_one") {
  const ResidentFixture set(40, {Augment::kYes, Catch::rngSeed() + 1});
  for (const std::int64_t samples : {1, 5}) check_same_either_way(set, with_dropout(), 8, {7, samples});
}

TEST_CASE("a_mini_batch_of_the_set_on_the_gpu_is_the_same_in_bfloat16") {
  const ResidentFixture set(40, {Augment::kYes, Catch::rngSeed() + 2});
  check_same_either_way(set, with_dropout(), 6, {36, 6}, Precision::kBf16);
}

TEST_CASE("pixels_are_the_loaders") {
  const ResidentFixture set(40, {GENERATE(Augment::kNo, Augment::kYes), Catch::rngSeed() + 3});
  check_body(set);
}

TEST_CASE("a_mini_batch_without_images_is_refused_where_its_samples_are_not") {
  const ResidentFixture set(40, {Augment::kNo, 1});
  const NetworkSpec network = each_pixel();
  const std::vector<float> parameters = random_parameters(network, 1);
  std::vector<float> gradient(parameters.size());
  MiniBatch batch = set.made({0, 3});
  const auto refusal = [&](NetworkBackend& backend, const Batch& bad) {
    const auto metric = backend.gradient(parameters, bad, gradient, whole_at_the_end);
    CHECK(metric.status().code() == StatusCode::kInvalidArgument);
    return metric.status().message();
  };
  const std::string no_images = "mini-batch of 3 samples with 0 floats of images, expected 9216";
  CHECK(refusal(*cuda_backend_of(network, 3), without_images(batch)) == no_images);
  CHECK(refusal(*backend_of(Backend::kReference, network, 3), without_images(batch)) == no_images);
  CHECK(refusal(*backend_of(Backend::kOnednn, network, 3), without_images(batch)) == no_images);

  const auto backend = set.backend(network, 3);
  // The test set is not there, and of the training set nothing is evaluated.
  CHECK(backend->evaluate(parameters, without_images(batch)).status().message() == no_images);
  CHECK(backend->evaluate(parameters, view(batch)).is_ok());
  for (const std::int64_t unknown : {std::int64_t{-1}, std::int64_t{40}}) {
    batch.samples[1] = unknown;
    CHECK(refusal(*backend, without_images(batch)) ==
          "mini-batch with sample " + std::to_string(unknown) + " at position 1, expected 0 to 39");
  }
  batch.samples.pop_back();
  CHECK_THAT(refusal(*backend, without_images(batch)), Contains("2 sample ids and 3 epochs"));
}

TEST_CASE("a_network_of_other_images_does_not_take_those_on_the_gpu") {
  const ResidentFixture set(40, {Augment::kNo, 1});
  const NetworkSpec network = network_of({dense(10)}, {3, 8, 8}, 10);
  const MiniBatch batch = set.made({0, 2});
  std::vector<float> gradient(network.layout.size());
  const auto metric =
      set.backend(network, 2)
          ->gradient(random_parameters(network, 1), without_images(batch), gradient, whole_at_the_end);
  CHECK(metric.status().message() == "mini-batch of 2 samples with 0 floats of images, expected 384");
}
