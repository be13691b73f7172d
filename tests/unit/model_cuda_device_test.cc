// What the CUDA back end asks of a GPU: in which order, with which algorithms and which math. On the fake one
// alone, which can say so (tests/fake_cuda/fake_cuda.h).
#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <optional>
#include <set>

#include "tests/fake_cuda/fake_cuda.h"
#include "tests/unit/cuda_predicted_fixture.h"
#include "worker/model/cuda/algorithms.h"

using namespace paceline;

namespace {

// Nothing is lost between the two but the order of float sums: 1e-5, as for oneDNN.
constexpr double kFakeTolerance = 1e-5;
// Beside a reference that rounds where the back end does: what is left are a filter's gradient, which cuDNN
// gives in bfloat16, and float sums that fall to the other side of a rounding.
constexpr double kNarrowTolerance = 5e-3;

// Longer than any algorithm of the fake cuDNN takes, so that what is measured with events is not taken.
constexpr float kSlow = 1000.0F;

// Of a step.
std::set<std::string> products_of(Precision precision, float milliseconds) {
  fake_cuda::set_up({.milliseconds = milliseconds});
  const NetworkSpec network = small_network();
  const RandomBatch batch(network, 2, 1);
  const std::vector<float> parameters = random_parameters(network, 1);
  std::vector<float> gradient(parameters.size());
  const auto backend = cuda_backend_of(network, 2, precision);
  const std::size_t measured = fake_cuda::products().size();
  REQUIRE(backend->gradient(parameters, batch.all(), gradient, whole_at_the_end).is_ok());
  const auto products = fake_cuda::products();
  return {products.begin() + static_cast<std::ptrdiff_t>(measured), products.end()};
}

}  // namespace

TEST_CASE("work_that_is_done_late_and_work_that_is_done_at_once_come_to_the_same") {
  const auto work =
      GENERATE(fake_cuda::Work::kWhenWaitedFor, fake_cuda::Work::kAtOnce, fake_cuda::Work::kAtRandom);
  fake_cuda::set_up({.work = work});
  std::uint64_t seed = 70;
  for (const auto& layers : cuda_networks()) {
    INFO("network " << seed - 70);
    check_cuda_against_reference(network_of(layers, {3, 12, 10}, 10), 4, 3, seed++, kFakeTolerance);
  }
  for (const auto& layers : cuda_graphs({3, 12, 10})) {
    INFO("network " << seed - 70);
    check_cuda_against_reference(network_of(layers, {3, 12, 10}, 10), 4, 3, seed++, kFakeTolerance);
  }
  check_cuda_against_reference(ready_made("cifar_cnn_small", 0.1), 4, 4, 7, kFakeTolerance);
  CHECK(fake_cuda::mistakes().empty());
  CHECK(fake_cuda::alive() == 0);
}

// Also of what was sent ahead in streams of their own, with the thread cache on the GPU and without.
TEST_CASE("steps_give_the_same_bits_however_far_the_streams_have_come") {
  const auto cache = GENERATE(PredictedFixture::Cache::kOnHost, PredictedFixture::Cache::kOnGpu);
  const ImagesAre images = GENERATE(ImagesAre::kPinned, ImagesAre::kOnHeap);
  for (std::uint64_t seed = 1; seed <= 25; ++seed) {
    CAPTURE(seed);
    fake_cuda::set_up({.work = fake_cuda::Work::kAtRandom, .seed = seed});
    {
      PredictedFixture f(cache);
      const MovableBatch a = f.batch(4, seed, images), b = f.batch(3, seed + 1, images);
      MovableBatch next = f.batch(4, seed + 2, images);
      for (int round = 0; round < 3; ++round) {
        f.backend->predict(next.all());
        f.check_step(a.all());
        f.check_step(b.all());
        f.check_step(next.all());
        f.backend->predict(next.all());
        f.check_step(a.all());
        REQUIRE(f.backend->forget().is_ok());
        next.become(a);
      }
    }
    CHECK(fake_cuda::mistakes().empty());
    CHECK(fake_cuda::alive() == 0);
  }
}

TEST_CASE("fp32_is_computed_without_tensor_cores_and_the_others_with_them") {
  // Algorithm 1: the fastest that is deterministic, of what the fake one offers. Math 3: FMA, 0: default, 1:
  // tensor cores. Type 0: float, 9 (cuBLAS 14): bfloat16, 2: float16. Compute 68: 32F, 77: 32F_FAST_TF32.
  CHECK(products_of(Precision::kFp32, kSlow) ==
        std::set<std::string>{"forward algo 1 math 3 type 0", "data algo 1 math 3 type 0",
                              "filter algo 1 math 3 type 0", "gemm compute 68 type 0"});
  CHECK(products_of(Precision::kTf32, kSlow) ==
        std::set<std::string>{"forward algo 1 math 0 type 0", "data algo 1 math 0 type 0",
                              "filter algo 1 math 0 type 0", "gemm compute 77 type 0"});
  CHECK(products_of(Precision::kBf16, kSlow) ==
        std::set<std::string>{"forward algo 1 math 1 type 9", "data algo 1 math 1 type 9",
                              "filter algo 1 math 1 type 9", "gemm compute 68 type 14"});
  CHECK(products_of(Precision::kFp16, kSlow) ==
        std::set<std::string>{"forward algo 1 math 1 type 2", "data algo 1 math 1 type 2",
                              "filter algo 1 math 1 type 2", "gemm compute 68 type 2"});
}

TEST_CASE("a_filter_with_few_inputs_is_unfolded_where_that_is_faster") {
  CHECK(products_of(Precision::kFp32, 0.0F) ==
        std::set<std::string>{"forward algo 1 math 3 type 0", "data algo 1 math 3 type 0",
                              "gemms compute 68 type 0", "gemm compute 68 type 0"});
  CHECK(products_of(Precision::kTf32, 0.0F).count("gemms compute 77 type 0") == 1);
  CHECK(products_of(Precision::kBf16, 0.0F).count("gemms compute 68 type 14") == 1);
}

TEST_CASE("a_filter_with_many_inputs_is_cudnns") {
  fake_cuda::set_up({});
  const NetworkSpec network = network_of({conv(4, 3), dense(5)}, {29, 4, 4}, 5);  // 29 x 3 x 3 > 256
  static_cast<void>(cuda_backend_of(network, 2));
  const auto products = fake_cuda::products();
  CHECK(std::none_of(products.begin(), products.end(),
                     [](const std::string& product) { return product.starts_with("gemms"); }));
}

TEST_CASE("a_back_end_has_gone_through_a_step_when_it_is_made") {
  const Precision precision = GENERATE(Precision::kFp32, Precision::kBf16, Precision::kFp16);
  fake_cuda::set_up({.milliseconds = kSlow});
  const NetworkSpec network = small_network();
  const auto backend = cuda_backend_of(network, 2, precision);
  const auto of_making = fake_cuda::products();
  const RandomBatch batch(network, 2, 1);
  const std::vector<float> parameters = random_parameters(network, 1);
  std::vector<float> gradient(parameters.size());
  REQUIRE(backend->gradient(parameters, batch.all(), gradient, whole_at_the_end).is_ok());
  const auto with_step = fake_cuda::products();
  const std::vector<std::string> step(with_step.begin() + std::ssize(of_making), with_step.end());
  REQUIRE(step.size() > 5);
  CHECK(std::vector<std::string>(of_making.end() - std::ssize(step), of_making.end()) == step);
}

// A step is asked for, and then begun: one event after another.
TEST_CASE("what_of_the_thread_caches_passes_goes_on_is_the_time_between_two_events") {
  fake_cuda::set_up({.work = fake_cuda::Work::kAtOnce, .milliseconds = 4.0F});
  PredictedFixture f(PredictedFixture::Cache::kOnGpu);
  const MovableBatch a = f.batch(4, 1);
  f.check_step(a.all());
  CHECK(f.vectors->take_device_overlap() == std::chrono::milliseconds(4));
  f.check_step(a.all());  // as a part of one
  f.check_step(a.all());
  CHECK(f.vectors->take_device_overlap() == std::chrono::milliseconds(8));
}

// More samples than are unfolded at a time: of 3 x 3 x 3 inputs, 64 x 64 positions 32 MiB / 442 kB = 75.
TEST_CASE("a_filter_is_unfolded_in_chunks_of_samples") {
  fake_cuda::set_up({});
  const NetworkSpec network = network_of({conv(2, 3), pool(32, 32), dense(3)}, {3, 64, 64}, 3);
  check_cuda_against_reference(network, 152, 151, 5, kFakeTolerance);
  CHECK(fake_cuda::mistakes().empty());
}

TEST_CASE("both_ways_to_a_filters_gradient_agree_with_the_reference") {
  const float milliseconds = GENERATE(0.0F, kSlow);
  const Precision precision = GENERATE(Precision::kFp32, Precision::kTf32, Precision::kBf16);
  const double tolerance = precision == Precision::kBf16 ? kNarrowTolerance : kFakeTolerance;
  CAPTURE(milliseconds, static_cast<int>(precision));
  fake_cuda::set_up({.milliseconds = milliseconds});
  const Beside beside{precision,
                      precision == Precision::kBf16 ? Activations::kBfloat16 : Activations::kDouble};
  std::uint64_t seed = 170;
  for (const Shape& image : {Shape{3, 12, 10}, Shape{3, 8, 16}}) {
    for (const auto& layers : cuda_networks()) {
      INFO("network " << seed - 170);
      check_cuda_against_reference(network_of(layers, image, 10), 4, 3, seed++, tolerance, beside);
    }
  }
  check_cuda_against_reference(ready_made("cifar_cnn_small", 0.1), 4, 4, 8, tolerance, beside);
  check_cuda_against_reference(ready_made("cifar_cnn", 0.5), 2, 2, 9, tolerance, beside);
  CHECK(fake_cuda::mistakes().empty());
  CHECK(fake_cuda::alive() == 0);
}

TEST_CASE("the_fastest_algorithm_is_taken_that_repeats_its_bits_and_in_fp32_keeps_its_digits") {
  const auto found = [](cudnnConvolutionFwdAlgo_t algorithm, cudnnDeterminism_t determinism,
                        cudnnMathType_t math) {
    cudnnConvolutionFwdAlgoPerf_t perf{};
    perf.algo = algorithm;
    perf.determinism = determinism;
    perf.mathType = math;
    return perf;
  };
  const std::vector<cudnnConvolutionFwdAlgoPerf_t> measured = {
      found(CUDNN_CONVOLUTION_FWD_ALGO_DIRECT, CUDNN_DETERMINISTIC, CUDNN_TENSOR_OP_MATH),
      found(CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED, CUDNN_DETERMINISTIC, CUDNN_FMA_MATH),
      found(CUDNN_CONVOLUTION_FWD_ALGO_GEMM, CUDNN_NON_DETERMINISTIC, CUDNN_FMA_MATH),
      found(CUDNN_CONVOLUTION_FWD_ALGO_FFT, CUDNN_DETERMINISTIC, CUDNN_FMA_MATH)};
  const std::span<const cudnnConvolutionFwdAlgoPerf_t> all(measured);
  CHECK(cuda::choose(all, CUDNN_FMA_MATH)->algorithm == CUDNN_CONVOLUTION_FWD_ALGO_FFT);
  CHECK(cuda::choose(all.first(3), CUDNN_FMA_MATH)->algorithm == CUDNN_CONVOLUTION_FWD_ALGO_GEMM);
  CHECK(cuda::choose(all, CUDNN_DEFAULT_MATH)->algorithm == CUDNN_CONVOLUTION_FWD_ALGO_DIRECT);
  CHECK_FALSE(cuda::choose(all.first(2), CUDNN_FMA_MATH).has_value());
}

TEST_CASE("no_gradient_is_passed_back_to_the_images") {
  fake_cuda::set_up({});
  const NetworkSpec network = network_of({relu(), conv(4, 3), dense(5)}, {3, 8, 8}, 5);
  const RandomBatch batch(network, 2, 1);
  std::vector<float> gradient(network.layout.size());
  REQUIRE(cuda_backend_of(network, 2)
              ->gradient(random_parameters(network, 1), batch.all(), gradient, whole_at_the_end)
              .is_ok());
  for (const std::string& product : fake_cuda::products()) CHECK(product.find("data") == std::string::npos);
}

TEST_CASE("back_ends_of_one_thread_on_two_gpus_do_not_get_into_each_others_way") {
  fake_cuda::set_up({.gpus = 2});
  const NetworkSpec network = small_network();
  const RandomBatch batch(network, 2, 1);
  const std::vector<float> parameters = random_parameters(network, 1);
  {
    const auto gpus = cuda::open_gpus({});
    const auto first = (*gpus)->for_thread(0, nullptr)->make_backend(network, 2, 5);
    const auto second = (*gpus)->for_thread(1, nullptr)->make_backend(network, 2, 5);
    std::vector<float> one(parameters.size());
    std::vector<float> other(parameters.size());
    CHECK((*first)->gradient(parameters, batch.all(), one, whole_at_the_end).is_ok());
    CHECK((*second)->gradient(parameters, batch.all(), other, whole_at_the_end).is_ok());
    CHECK((*first)->evaluate(parameters, batch.all()).is_ok());
    CHECK(one == other);
  }
  CHECK(fake_cuda::mistakes().empty());
  CHECK(fake_cuda::alive() == 0);
}

TEST_CASE("a_step_waits_for_nothing_but_what_comes_back") {
  fake_cuda::set_up({});
  const NetworkSpec network = network_of({conv(4, 3), relu(), dense(5)}, {3, 8, 8}, 5);
  const RandomBatch batch(network, 2, 1);
  const std::vector<float> parameters = random_parameters(network, 1);
  const auto backend = cuda_backend_of(network, 2);
  std::vector<float> gradient(parameters.size());
  const std::size_t before = fake_cuda::waits().size();
  // Each layer's event and the metric's; no stream, and not the device.
  REQUIRE(backend->gradient(parameters, batch.all(), gradient, whole_at_the_end).is_ok());
  const auto waits = fake_cuda::waits();
  CHECK(std::vector<std::string>(waits.begin() + static_cast<std::ptrdiff_t>(before), waits.end()) ==
        std::vector<std::string>{"cudaEventSynchronize", "cudaEventSynchronize", "cudaEventSynchronize"});
}

namespace {

// How often memory was sent to the GPU, and how many waits were before the first time. Since `begin`.
struct Sent {
  std::int64_t times = 0;
  std::size_t waits = 0;
};
Sent sent_from(const void* memory, std::size_t begin) {
  const auto uploads = fake_cuda::uploads();
  Sent sent;
  for (std::size_t i = begin; i < uploads.size(); ++i) {
    if (uploads[i].from == memory && sent.times++ == 0) sent.waits = uploads[i].waits;
  }
  return sent;
}

}  // namespace

TEST_CASE("what_is_predicted_is_in_its_stream_before_the_thread_waits_and_is_not_sent_again") {
  const auto cache = GENERATE(PredictedFixture::Cache::kOnHost, PredictedFixture::Cache::kOnGpu);
  fake_cuda::set_up({});
  {
    PredictedFixture f(cache);
    std::vector<float> gradient(f.parameters.size());
    std::vector<MovableBatch> batches;
    for (std::uint64_t seed = 0; seed < 6; ++seed) batches.push_back(f.batch(4, seed));
    for (std::size_t i = 0; i + 1 < batches.size(); ++i) {
      CAPTURE(i);
      const std::size_t uploads = fake_cuda::uploads().size();
      const std::size_t waits = fake_cuda::waits().size();
      f.backend->predict(batches[i + 1].all());
      CHECK(fake_cuda::uploads().size() == uploads);
      REQUIRE(f.step(batches[i].all(), gradient).is_ok());
      const Sent ahead = sent_from(batches[i + 1].all().images.data(), uploads);
      CHECK(ahead.times == 1);
      CHECK(ahead.waits == waits);
      // What was predicted is not: the first alone is sent in its own step, where it lies, too.
      CHECK(sent_from(batches[i].all().images.data(), uploads).times == (i == 0 ? 1 : 0));
    }
    REQUIRE(f.backend->forget().is_ok());
  }
  CHECK(fake_cuda::mistakes().empty());
  CHECK(fake_cuda::alive() == 0);
}

TEST_CASE("a_step_waits_for_nothing_more_when_something_is_predicted_and_who_forgets_it_waits_for_that") {
  fake_cuda::set_up({});
  PredictedFixture f;
  std::vector<float> gradient(f.parameters.size());
  const MovableBatch a = f.batch(4, 1), b = f.batch(4, 2);
  const auto waits_of = [](const std::function<Status()>& call) {
    const std::size_t before = fake_cuda::waits().size();
    REQUIRE(call().is_ok());
    return fake_cuda::waits().size() - before;
  };
  const auto step = [&](const MovableBatch& batch) { return f.step(batch.all(), gradient).status(); };
  const auto forget = [&] { return f.backend->forget(); };
  const std::size_t of_step = waits_of([&] { return step(a); });
  CHECK(waits_of(forget) == 0);
  f.backend->predict(b.all());
  CHECK(waits_of(forget) == 0);  // it has not been begun
  f.backend->predict(b.all());
  CHECK(waits_of([&] { return step(a); }) == of_step);
  CHECK(waits_of([&] { return step(b); }) == of_step);
  f.backend->predict(a.all());
  CHECK(waits_of([&] { return step(b); }) == of_step);
  CHECK(waits_of(forget) == 1);
  CHECK(waits_of(forget) == 0);
}

TEST_CASE("steps_with_predicted_mini_batches_are_graphs_from_the_second_on_one_for_each_place") {
  fake_cuda::set_up({});
  PredictedFixture f(PredictedFixture::Cache::kOnGpu);
  const std::array<MovableBatch, 2> batches{f.batch(4, 1), f.batch(4, 2)};
  std::vector<float> gradient(f.parameters.size());
  for (std::size_t step = 0; step < 6; ++step) {
    f.backend->predict(batches[(step + 1) % 2].all());
    const std::int64_t alive = fake_cuda::alive();
    REQUIRE(f.step(batches[step % 2].all(), gradient).is_ok());
    CHECK(fake_cuda::launches() == static_cast<std::int64_t>(step));
    if (step >= 3) CHECK(fake_cuda::alive() == alive);
  }
  REQUIRE(f.backend->forget().is_ok());
  CHECK(fake_cuda::mistakes().empty());
}

TEST_CASE("a_back_end_that_goes_has_read_what_it_predicted") {
  fake_cuda::set_up({});
  std::optional<PredictedFixture> f(std::in_place);
  std::vector<float> gradient(f->parameters.size());
  {
    const MovableBatch a = f->batch(4, 1), b = f->batch(4, 2);
    f->backend->predict(b.all());
    REQUIRE(f->step(a.all(), gradient).is_ok());
    f->backend.reset();
  }
  f.reset();
  CHECK(fake_cuda::mistakes().empty());
  CHECK(fake_cuda::alive() == 0);
}
