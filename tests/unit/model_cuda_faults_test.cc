// What goes wrong on a GPU, on the fake one: any call may fail. What comes of it is an error that names the
// call; nothing is leaked, nothing else is done wrong, and a back end goes on when the next call works.
#include <algorithm>
#include <cstddef>
#include <memory_resource>
#include <thread>

#include "common/cuda/resources.h"
#include "tests/fake_cuda/device.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/unit/cuda_predicted_fixture.h"
#include "tests/unit/cuda_resident_fixture.h"
#include "worker/model/norm_meeting.h"

using namespace paceline;
using Catch::Contains;

namespace {

const std::vector<LayerConfig> kLayers = {relu(), conv(3, 3),   relu(),  pool(2),
                                          relu(), dropout(0.2), dense(4)};

std::string refusal(const fake_cuda::Machine& machine, const GpuChoice& choice) {
  fake_cuda::set_up(machine);
  const auto gpus = cuda::open_gpus(choice);
  REQUIRE_FALSE(gpus.is_ok());
  CHECK(gpus.status().code() == StatusCode::kUnavailable);
  return gpus.status().message();
}

// Opens the GPUs, makes a back end, and asks it for a gradient and an evaluation.
Status use(const NetworkSpec& network, Precision precision) {
  const RandomBatch batch(network, 2, 1);
  const std::vector<float> parameters = random_parameters(network, 1);
  std::vector<float> gradient(parameters.size());
  PACELINE_ASSIGN_OR_RETURN(const auto gpus, cuda::open_gpus({{}, precision}));
  PACELINE_ASSIGN_OR_RETURN(const ThreadOfGpu thread, gpus->for_thread(0, nullptr));
  PACELINE_ASSIGN_OR_RETURN(const auto backend, thread.make_backend(network, 2, 5));
  PACELINE_RETURN_IF_ERROR(backend->gradient(parameters, batch.all(), gradient, whole_at_the_end).status());
  return backend->evaluate(parameters, batch.all()).status();
}

// The same with a gradient of samples that are kept on the GPU.
Status use_resident(const NetworkSpec& network, Precision precision) {
  const ResidentFixture set(5, {Augment::kYes, 2});
  const MiniBatch batch = set.made({0, 2});
  const std::vector<float> parameters = random_parameters(network, 1);
  std::vector<float> gradient(parameters.size());
  PACELINE_ASSIGN_OR_RETURN(const auto gpus, cuda::open_gpus({{}, precision}));
  PACELINE_RETURN_IF_ERROR(gpus->keep(*set.data, set.normalization, set.options).status());
  PACELINE_ASSIGN_OR_RETURN(const ThreadOfGpu thread, gpus->for_thread(0, nullptr));
  PACELINE_ASSIGN_OR_RETURN(const auto backend, thread.make_backend(network, 2, 5));
  return backend->gradient(parameters, without_images(batch), gradient, whole_at_the_end).status();
}

// The same with the thread cache on the GPU: three steps, the third of them a graph that was captured before,
// each with its own update.
Status use_thread_cache(const NetworkSpec& network, OptimizerKind kind) {
  OptimizerSection optimizer;
  optimizer.kind = kind;
  const RandomBatch batch(network, 2, 1);
  const auto floats = std::make_shared<const std::vector<float>>(random_parameters(network, 1));
  PACELINE_ASSIGN_OR_RETURN(const auto gpus, cuda::open_gpus({}));
  PACELINE_ASSIGN_OR_RETURN(const ThreadOfGpu thread, gpus->for_thread(0, nullptr));
  PACELINE_ASSIGN_OR_RETURN(const auto backend, thread.make_backend(network, 2, 5));
  PACELINE_ASSIGN_OR_RETURN(const auto vectors, thread.make_vectors(network, optimizer));
  vectors->take_over(0, SharedFloats(floats), {});
  for (int step = 0; step < 3; ++step) {
    const auto gradient = std::make_shared<std::vector<float>>(floats->size());
    PACELINE_RETURN_IF_ERROR(backend->gradient({}, batch.all(), *gradient, whole_at_the_end).status());
    if (kind == OptimizerKind::kSgd) {
      vectors->keep_gradient(gradient, 0.1);
      vectors->apply_newest({0, network.layout.size()});
      vectors->make_difference();
    } else {
      vectors->apply_with_state(gradient, 0.1, 0.5);
    }
    const std::size_t lacking = 0;
    vectors->take_over(0, SharedFloats(floats), {&lacking, 1});
    vectors->drop_oldest();
    PACELINE_RETURN_IF_ERROR(vectors->status());
  }
  return Status::ok();
}

// A group of which nobody else is a member.
Status use_norm_group(const NetworkSpec& network) {
  NormMeeting meeting(1);
  const RandomBatch batch(network, 2, 1);
  const std::vector<float> parameters = random_parameters(network, 1);
  std::vector<float> gradient(parameters.size());
  PACELINE_ASSIGN_OR_RETURN(const auto gpus, cuda::open_gpus({}));
  PACELINE_ASSIGN_OR_RETURN(const ThreadOfGpu thread, gpus->for_thread(0, &meeting.member(0)));
  PACELINE_ASSIGN_OR_RETURN(const auto backend, thread.make_backend(network, 2, 5));
  return backend->gradient(parameters, batch.all(), gradient, whole_at_the_end).status();
}

// Steps of sent mini-batches, each predicted but the last, which is smaller; one that does not come is
// forgotten.
enum class SentFrom { kPinned, kHeap };  // but the first, which are on the heap
Status use_predicted(const NetworkSpec& network, SentFrom from) {
  OptimizerSection optimizer;
  const auto floats = std::make_shared<const std::vector<float>>(random_parameters(network, 1));
  PACELINE_ASSIGN_OR_RETURN(const auto gpus, cuda::open_gpus({}));
  PACELINE_ASSIGN_OR_RETURN(const ThreadOfGpu thread, gpus->for_thread(0, nullptr));
  std::vector<RandomBatch> samples;
  std::vector<cuda::PinnedMemory<float>> images;  // gone after the back end
  for (const std::int64_t n : {2, 2, 2, 1}) {
    samples.emplace_back(network, n, samples.size());
    PACELINE_ASSIGN_OR_RETURN(auto pinned, cuda::make_pinned_memory<float>(n * network.input.size()));
    std::copy(samples.back().images.begin(), samples.back().images.end(), pinned.data());
    images.push_back(std::move(pinned));
  }
  const auto batch = [&](std::size_t i) {
    Batch all = samples[i].all();
    if (i > 0 && from == SentFrom::kPinned) all.images = images[i].all();
    return all;
  };
  PACELINE_ASSIGN_OR_RETURN(const auto backend, thread.make_backend(network, 2, 5));
  PACELINE_ASSIGN_OR_RETURN(const auto vectors, thread.make_vectors(network, optimizer));
  vectors->take_over(0, SharedFloats(floats), {});
  std::vector<float> gradient(floats->size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    backend->predict(batch((i + 1) % samples.size()));
    PACELINE_RETURN_IF_ERROR(backend->gradient({}, batch(i), gradient, whole_at_the_end).status());
  }
  PACELINE_RETURN_IF_ERROR(backend->forget());
  return vectors->status();
}

// Calls of the above whose failure costs time and nothing else: memory and events to measure with how else
// the gradient of kLayers' filter can be had.
constexpr std::int64_t kToMeasure = 6;
// And memory for the graph of a step.
constexpr std::int64_t kGraph = 1;

// `too_late`: how many of the calls wait for what is thrown away, when nobody is left to be told.
// `passed_over`: how many ask for what is of use and not needed.
void check_that_each_call_may_fail(const std::function<Status()>& used, std::int64_t too_late = 3,
                                   std::int64_t passed_over = 0) {
  fake_cuda::set_up({});
  REQUIRE(used().is_ok());
  const std::int64_t calls = fake_cuda::calls();
  CHECK(fake_cuda::alive() == 0);
  std::int64_t waited_too_long = 0;
  std::int64_t without = 0;
  for (std::int64_t nth = 1; nth <= calls; ++nth) {
    fake_cuda::set_up({});
    fake_cuda::fail_call(nth);
    const Status status = used();
    CAPTURE(nth, fake_cuda::failed_call(), status.message());
    if (status.is_ok()) {
      ++(fake_cuda::failed_call() == "cudaStreamSynchronize" ? waited_too_long : without);
    } else {
      std::string named = fake_cuda::failed_call();
      CHECK_THAT(status.message(), Contains(named + ": "));
    }
    CHECK(fake_cuda::mistakes().empty());
    CHECK(fake_cuda::alive() == 0);
  }
  CHECK(waited_too_long == too_late);
  CHECK(without == passed_over);
}

}  // namespace

TEST_CASE("what_is_missing_for_a_gpu_is_named") {
  CHECK(refusal({.gpus = 0}, {}) == "cudaGetDeviceCount: no CUDA-capable device is detected");
  CHECK(refusal({.gpus = 2}, {{0, 2}, Precision::kFp32}) ==
        "GPU 2 of train.devices: this machine has 2, numbered from 0");
  CHECK(refusal({.capability = 7}, {{}, Precision::kBf16}) ==
        "GPU 0 has compute capability 7.x; precision bf16 needs 8.0 (train.precision: fp32)");
  fake_cuda::set_up({.capability = 7});
  CHECK(cuda::open_gpus({}).is_ok());
  CHECK(cuda::open_gpus({{}, Precision::kFp16}).is_ok());
}

TEST_CASE("any_call_may_fail_and_is_named_and_nothing_is_leaked") {
  const Precision precision = GENERATE(Precision::kFp32, Precision::kBf16, Precision::kFp16);
  const NetworkSpec network = network_of(kLayers, {3, 6, 6}, 4);
  check_that_each_call_may_fail([&] { return use(network, precision); }, 3, kToMeasure);
}

TEST_CASE("any_call_may_fail_of_norms_sums_and_averages") {
  const NetworkSpec network = network_of(
      {named_layer("a", dense(6)), batch_norm(), relu(), add({"relu1", "a"}), dense(4)}, {3, 4, 4}, 4);
  check_that_each_call_may_fail([&] { return use(network, Precision::kFp32); });
  check_that_each_call_may_fail([&] { return use_norm_group(network); });
  const NetworkSpec averages = network_of(
      {{.kind = LayerKind::kAveragePool, .kernel = 2}, global_average_pool(), dense(4)}, {3, 4, 4}, 4);
  check_that_each_call_may_fail([&] { return use(averages, Precision::kFp32); });
}

TEST_CASE("any_call_may_fail_with_the_training_set_on_the_gpu") {
  const NetworkSpec network = network_of({dense(10)}, {3, 32, 32}, 10);
  check_that_each_call_may_fail([&] { return use_resident(network, Precision::kFp32); });
}

TEST_CASE("any_call_may_fail_with_mini_batches_that_are_predicted") {
  const NetworkSpec network = network_of(kLayers, {3, 6, 6}, 4);
  constexpr std::int64_t kSecondPlace = 8;  // its memory on either side, and an event
  constexpr std::int64_t kPassedOver = kToMeasure + kSecondPlace + 2 * kGraph;
  check_that_each_call_may_fail([&] { return use_predicted(network, SentFrom::kPinned); }, 6, kPassedOver);
  // And where images land that are not pinned.
  check_that_each_call_may_fail([&] { return use_predicted(network, SentFrom::kHeap); }, 6, kPassedOver + 1);
}

TEST_CASE("any_call_may_fail_with_the_thread_cache_on_the_gpu") {
  const OptimizerKind kind = GENERATE(OptimizerKind::kSgd, OptimizerKind::kMomentum, OptimizerKind::kAdam);
  const NetworkSpec network = network_of(kLayers, {3, 6, 6}, 4);
  check_that_each_call_may_fail([&] { return use_thread_cache(network, kind); }, 6, kToMeasure + kGraph);
}

TEST_CASE("a_step_that_failed_with_a_predicted_mini_batch_has_read_it_and_leaves_the_back_end_fit") {
  fake_cuda::set_up({});
  {
    PredictedFixture f(GENERATE(PredictedFixture::Cache::kOnHost, PredictedFixture::Cache::kOnGpu));
    const MovableBatch a = f.batch(4, 1), b = f.batch(4, 2), c = f.batch(4, 3);
    MovableBatch moved = f.batch(4, 2);
    std::vector<float> gradient(f.parameters.size());
    // Twice, so that what is made once is there, and then with each call failing: of a step that finds its
    // mini-batch on the GPU and sends the next.
    std::int64_t calls = 0;
    for (std::int64_t nth = -2; nth <= calls; ++nth) {
      CAPTURE(nth);
      f.backend->predict(moved.all());
      f.check_step(a.all());
      f.backend->predict(c.all());
      const std::int64_t before = fake_cuda::calls();
      if (nth > 0) fake_cuda::fail_call(nth);
      const auto metric = f.step(moved.all(), gradient);
      CHECK(metric.is_ok() == (nth <= 0));
      if (nth <= 0) calls = fake_cuda::calls() - before;
      // Nothing is read any more, nor taken for what it was.
      if (nth <= 0) REQUIRE(f.backend->forget().is_ok());
      moved.become(nth % 2 == 0 ? b : c);
      f.check_step(moved.all());
      f.check_step(c.all());
    }
    CHECK(calls > 10);
  }
  CHECK(fake_cuda::mistakes().empty());
  CHECK(fake_cuda::alive() == 0);
}

TEST_CASE("who_forgets_has_waited_even_if_that_fails") {
  fake_cuda::set_up({});
  PredictedFixture f;
  const MovableBatch a = f.batch(4, 1), b = f.batch(4, 2);
  MovableBatch next = f.batch(4, 3);
  f.backend->predict(next.all());
  f.check_step(a.all());
  const std::size_t waits = fake_cuda::waits().size();
  fake_cuda::fail_call(1);
  CHECK_THAT(f.backend->forget().message(), Contains("cudaEventSynchronize: "));
  CHECK(fake_cuda::waits().size() == waits + 3);  // for each stream
  next.become(b);
  f.check_step(next.all());
  CHECK(fake_cuda::mistakes().empty());
}

TEST_CASE("a_step_that_repeats_is_a_graph_from_the_second_time_on") {
  fake_cuda::set_up({});
  REQUIRE(use_thread_cache(network_of(kLayers, {3, 6, 6}, 4), OptimizerKind::kSgd).is_ok());
  CHECK(fake_cuda::launches() == 2);  // captured in the second
  CHECK(fake_cuda::mistakes().empty());
}

TEST_CASE("a_step_whose_capture_somebody_else_spoils_is_done_without_a_graph_and_the_next_is_captured") {
  const int spoilt = GENERATE(1, 2, 3);  // of which three are enough
  fake_cuda::set_up({});
  {
    PredictedFixture f(PredictedFixture::Cache::kOnGpu);
    const MovableBatch a = f.batch(4, 1);
    f.check_step(a.all());
    for (int step = 0; step < spoilt; ++step) {
      fake_cuda::spoil_capture();
      f.check_step(a.all());
      CHECK(fake_cuda::launches() == 0);
    }
    f.check_step(a.all());
    f.check_step(a.all());
    CHECK(fake_cuda::launches() == (spoilt < 3 ? 2 : 0));
    const std::string lost = "GPU 0: steps are launched kernel by kernel, since no graph can be made";
    CHECK(f.warnings == (spoilt < 3 ? std::vector<std::string>() : std::vector{lost}));
  }
  CHECK(fake_cuda::mistakes().empty());
  CHECK(fake_cuda::alive() == 0);
}

TEST_CASE("without_memory_to_measure_how_else_a_filters_gradient_can_be_had_it_is_cudnns") {
  fake_cuda::set_up({});
  const NetworkSpec network = network_of(kLayers, {3, 6, 6}, 4);
  REQUIRE(use(network, Precision::kFp32).is_ok());
  const std::int64_t calls = fake_cuda::calls();
  bool was_cudnns = false;
  for (std::int64_t nth = 1; nth <= calls && !was_cudnns; ++nth) {
    fake_cuda::set_up({});
    fake_cuda::fail_call(nth);
    const bool used = use(network, Precision::kFp32).is_ok();
    const auto products = fake_cuda::products();
    was_cudnns = used && fake_cuda::failed_call() == "cudaMalloc" &&
                 std::count(products.begin(), products.end(), "filter algo 1 math 3 type 0") > 0;
  }
  CHECK(was_cudnns);
}

TEST_CASE("a_filters_gradient_is_unfolded_where_cudnn_has_none_or_none_that_repeats_its_bits") {
  const NetworkSpec network = network_of(kLayers, {3, 6, 6}, 4);
  fake_cuda::set_up({.filters = GENERATE(fake_cuda::Filters::kVary, fake_cuda::Filters::kFail)});
  REQUIRE(use(network, Precision::kFp32).is_ok());
  CHECK(fake_cuda::mistakes().empty());
  const auto products = fake_cuda::products();
  CHECK(std::none_of(products.begin(), products.end(),
                     [](const std::string& product) { return product.starts_with("filter "); }));
}

TEST_CASE("a_filter_that_cannot_be_unfolded_takes_what_cudnn_has_or_is_refused") {
  // Of more inputs than are worth unfolding.
  const NetworkSpec network = network_of({conv(3, 3), relu(), dense(4)}, {64, 6, 6}, 4);
  fake_cuda::set_up({.filters = fake_cuda::Filters::kVary});
  CHECK(use(network, Precision::kFp32).is_ok());
  fake_cuda::set_up({.filters = fake_cuda::Filters::kFail});
  CHECK(use(network, Precision::kFp32).message() ==
        "layer 0 (conv): cudnnFindConvolutionBackwardFilterAlgorithm: none of its algorithms works here");
  CHECK(fake_cuda::mistakes().empty());
  CHECK(fake_cuda::alive() == 0);
}

// Gradients go there directly; where memory cannot be pinned they take a detour, and arrive as well.
TEST_CASE("page_locked_memory_is_pinned_while_it_is_held_and_as_it_is_where_that_fails") {
  const bool fails = GENERATE(false, true);
  const NetworkSpec network = network_of(kLayers, {3, 6, 6}, 4);
  const RandomBatch batch(network, 2, 1);
  const std::vector<float> parameters = random_parameters(network, 1);
  std::vector<float> expected(parameters.size());
  fake_cuda::set_up({});
  {
    const auto gpus = cuda::open_gpus({});
    const auto upstream = std::make_shared<std::pmr::monotonic_buffer_resource>();
    const auto memory = (*gpus)->page_locked(GENERATE(false, true) ? upstream : nullptr);
    const auto backend = (*gpus)->for_thread(0, nullptr)->make_backend(network, 2, 5);
    REQUIRE((*backend)->gradient(parameters, batch.all(), expected, whole_at_the_end).is_ok());
    const std::int64_t before = fake_cuda::alive();
    if (fails) fake_cuda::fail_call(2);  // after cudaGetDevice
    std::pmr::vector<float> first(parameters.size(), memory.get());
    std::pmr::vector<float> second(parameters.size(), memory.get());
    CHECK(fake_cuda::alive() - before == (fails ? 1 : 2));
    for (auto* gradient : {&first, &second}) {
      REQUIRE((*backend)->gradient(parameters, batch.all(), *gradient, whole_at_the_end).is_ok());
      CHECK(std::equal(expected.begin(), expected.end(), gradient->begin()));
    }
  }
  CHECK(fake_cuda::mistakes().empty());
  CHECK(fake_cuda::alive() == 0);
}

TEST_CASE("pages_of_others_are_pinned_while_that_is_held_and_are_not_where_that_fails") {
  fake_cuda::set_up({});
  alignas(4096) static std::byte pages[2 * 4096];
  const auto gpus = cuda::open_gpus({});
  std::shared_ptr<void> pin = (*gpus)->pin(pages).value();
  CHECK(fake_cuda::alive() == 1);
  pin.reset();
  CHECK(fake_cuda::alive() == 0);
  fake_cuda::fail_call(2);  // after cudaGetDevice
  CHECK((*gpus)->pin(pages).status().message() == "cudaHostRegister: out of memory");
  CHECK(fake_cuda::alive() == 0);
  CHECK(fake_cuda::mistakes().empty());
}

TEST_CASE("who_pins_pages_has_a_gpu_of_the_node_and_keeps_the_one_that_it_has") {
  fake_cuda::set_up({.gpus = 3});
  alignas(4096) static std::byte pages[4096];
  const auto gpus = cuda::open_gpus({{1, 2}, Precision::kFp32});
  const auto gpu_behind = [&](int before) {
    int after = -1;
    std::thread([&] {
      REQUIRE(cudaSetDevice(before) == cudaSuccess);
      std::shared_ptr<void> pin = (*gpus)->pin(pages).value();
      const int with_it = fake_cuda::current_gpu();
      pin.reset();
      after = fake_cuda::current_gpu() == with_it ? with_it : -1;
    }).join();
    return after;
  };
  CHECK(gpu_behind(0) == 1);  // as of a thread that has chosen none
  CHECK(gpu_behind(1) == 1);
  CHECK(gpu_behind(2) == 2);
  CHECK(fake_cuda::alive() == 0);
}

TEST_CASE("a_training_set_of_more_than_a_quarter_of_what_is_free_is_not_kept") {
  const ResidentFixture set(5, {Augment::kYes, 2});
  const std::size_t needed = set.data->pixels.size() + set.data->labels.size();
  fake_cuda::set_up({.gpus = 2, .free_bytes = 4 * needed - 1});
  const NetworkSpec network = network_of({dense(10)}, {3, 32, 32}, 10);
  const std::vector<float> parameters = random_parameters(network, 1);
  std::vector<float> gradient(parameters.size());
  const MiniBatch batch = set.made({0, 2});
  {
    const auto gpus = cuda::open_gpus({});
    CHECK((*gpus)->keep(*set.data, set.normalization, set.options).value() == Kept::kNo);
    CHECK(fake_cuda::alive() == 0);
    const auto make = (*gpus)->for_thread(0, nullptr);
    const auto backend = make->make_backend(network, 2, 5);
    CHECK((*backend)->gradient(parameters, view(batch), gradient, whole_at_the_end).is_ok());
    CHECK_FALSE((*backend)->gradient(parameters, without_images(batch), gradient, whole_at_the_end).is_ok());
  }
  fake_cuda::set_up({.gpus = 2, .free_bytes = 4 * needed});
  {
    const auto gpus = cuda::open_gpus({});
    CHECK((*gpus)->keep(*set.data, set.normalization, set.options).value() == Kept::kYes);
    CHECK(fake_cuda::alive() == 4);  // pixels and labels, on each GPU once
  }
  CHECK(fake_cuda::alive() == 0);
}

TEST_CASE("threads_of_one_gpu_share_what_is_kept_there") {
  fake_cuda::set_up({.gpus = 2});
  const ResidentFixture set(5, {Augment::kYes, 2});
  const auto gpus = cuda::open_gpus({{1, 1}, Precision::kFp32});
  CHECK((*gpus)->keep(*set.data, set.normalization, set.options).value() == Kept::kYes);
  CHECK(fake_cuda::alive() == 2);
  const std::int64_t before = fake_cuda::alive();
  const auto first = (*gpus)->for_thread(0, nullptr);
  const std::int64_t with_one = fake_cuda::alive();
  const auto second = (*gpus)->for_thread(1, nullptr);
  CHECK(fake_cuda::alive() - with_one == with_one - before);
}

TEST_CASE("a_step_that_failed_leaves_the_back_end_fit_for_the_next") {
  const NetworkSpec network = network_of(kLayers, {3, 6, 6}, 4);
  const RandomBatch batch(network, 2, 1);
  const RandomBatch other(network, 2, 2);
  const std::vector<float> parameters = random_parameters(network, 1);
  std::vector<float> expected(parameters.size());
  std::vector<float> got(parameters.size());
  fake_cuda::set_up({});
  {
    const auto backend = cuda_backend_of(network, 2);
    // The first makes what only who computes from the host needs.
    REQUIRE(backend->gradient(parameters, batch.all(), expected, whole_at_the_end).is_ok());
    const std::int64_t before = fake_cuda::calls();
    REQUIRE(backend->gradient(parameters, batch.all(), expected, whole_at_the_end).is_ok());
    const std::int64_t calls = fake_cuda::calls() - before;
    for (std::int64_t nth = 1; nth <= calls; ++nth) {
      fake_cuda::fail_call(nth);
      std::int64_t reported = 0;
      const auto metric = backend->gradient(random_parameters(network, 3), other.all(), got,
                                            [&reported](std::int64_t) { ++reported; });
      CHECK_FALSE(metric.is_ok());
      CHECK(reported <= 2);
      REQUIRE(backend->gradient(parameters, batch.all(), got, whole_at_the_end).is_ok());
      CHECK(got == expected);
    }
  }
  CHECK(fake_cuda::mistakes().empty());
  CHECK(fake_cuda::alive() == 0);
}

TEST_CASE("without_enough_memory_on_the_gpu_the_error_says_how_much_was_asked_for") {
  fake_cuda::set_up({});
  const NetworkSpec network = network_of({dense(4)}, {3, 600, 600}, 4);
  const auto make = (*cuda::open_gpus({}))->for_thread(0, nullptr);
  fake_cuda::fail_call(2);  // after cudaSetDevice
  const auto backend = make->make_backend(network, 64, 5);
  CHECK(backend.status().code() == StatusCode::kResourceExhausted);
  CHECK(backend.status().message() == "1 MiB on the GPU: cudaMalloc: out of memory");
}

TEST_CASE("a_tensor_that_a_gpu_cannot_count_is_refused") {
  fake_cuda::set_up({});
  const NetworkSpec network = network_of({conv(64, 3), dense(4)}, {3, 600, 600}, 4);
  const auto make = (*cuda::open_gpus({}))->for_thread(0, nullptr);
  CHECK_THAT(make->make_backend(network, 1000, 5).status().message(),
             Contains("layer 0 (conv): a tensor of 23040000000 elements with mini-batches of 1000 samples"));
  CHECK(fake_cuda::mistakes().empty());
}
