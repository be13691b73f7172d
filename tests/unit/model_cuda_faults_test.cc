// What goes wrong on a GPU, on the fake one: any call may fail. What comes of it is an error that names the
// call; nothing is leaked, nothing else is done wrong, and a back end goes on when the next call works.
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/unit/cuda_fixture.h"

using namespace paceline;
using Catch::Matchers::Contains;

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
  PACELINE_ASSIGN_OR_RETURN(const MakeBackend make, gpus->for_thread(0));
  PACELINE_ASSIGN_OR_RETURN(const auto backend, make(network, 2, 5));
  PACELINE_RETURN_IF_ERROR(backend->gradient(parameters, batch.all(), gradient, whole_at_the_end).status());
  return backend->evaluate(parameters, batch.all()).status();
}

}  // namespace

TEST_CASE("what_is_missing_for_a_gpu_is_named") {
  CHECK(refusal({.gpus = 0}, {}) == "cudaGetDeviceCount: no CUDA-capable device is detected");
  CHECK(refusal({.gpus = 2}, {{0, 2}, Precision::kFp32}) ==
        "GPU 2 of train.devices: this machine has 2, numbered from 0");
  CHECK(refusal({.capability = 7}, {{}, Precision::kBf16}) ==
        "GPU 0 has compute capability 7.x; precision tf32 or bf16 needs 8.0 (train.precision: fp32)");
  fake_cuda::set_up({.capability = 7});
  CHECK(cuda::open_gpus({}).is_ok());
}

TEST_CASE("any_call_may_fail_and_is_named_and_nothing_is_leaked") {
  const Precision precision = GENERATE(Precision::kFp32, Precision::kBf16);
  const NetworkSpec network = network_of(kLayers, {3, 6, 6}, 4);
  fake_cuda::set_up({});
  REQUIRE(use(network, precision).is_ok());
  const std::int64_t calls = fake_cuda::calls();
  CHECK(fake_cuda::alive() == 0);
  std::int64_t failed = 0;
  for (std::int64_t nth = 1; nth <= calls; ++nth) {
    fake_cuda::set_up({});
    fake_cuda::fail_call(nth);
    const Status status = use(network, precision);
    CAPTURE(nth, fake_cuda::failed_call(), status.message());
    // The last ones are those that wait for what is thrown away: too late for anybody to be told.
    if (status.is_ok()) {
      CHECK(fake_cuda::failed_call() == "cudaStreamSynchronize");
    } else {
      ++failed;
      std::string named = fake_cuda::failed_call();
      CHECK_THAT(status.message(), Contains(named + ": "));
    }
    CHECK(fake_cuda::mistakes().empty());
    CHECK(fake_cuda::alive() == 0);
  }
  CHECK(calls - failed == 2);
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
    const std::int64_t before = fake_cuda::calls();
    REQUIRE(backend->gradient(parameters, batch.all(), expected, whole_at_the_end).is_ok());
    const std::int64_t calls = fake_cuda::calls() - before;
    for (std::int64_t nth = 1; nth <= calls; ++nth) {
      fake_cuda::fail_call(nth);
      std::int64_t said = 0;
      const auto metric = backend->gradient(random_parameters(network, 3), other.all(), got,
                                            [&said](std::int64_t) { ++said; });
      CHECK_FALSE(metric.is_ok());
      CHECK(said <= 2);
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
  const auto make = (*cuda::open_gpus({}))->for_thread(0);
  fake_cuda::fail_call(2);  // after cudaSetDevice
  const auto backend = (*make)(network, 64, 5);
  CHECK(backend.status().code() == StatusCode::kResourceExhausted);
  CHECK(backend.status().message() == "1 MiB on the GPU: cudaMalloc: out of memory");
}

TEST_CASE("a_tensor_that_a_gpu_cannot_count_is_refused") {
  fake_cuda::set_up({});
  const NetworkSpec network = network_of({conv(64, 3), dense(4)}, {3, 600, 600}, 4);
  const auto make = (*cuda::open_gpus({}))->for_thread(0);
  CHECK_THAT((*make)(network, 1000, 5).status().message(),
             Contains("layer 0 (conv): a tensor of 23040000000 elements with mini-batches of 1000 samples"));
  CHECK(fake_cuda::mistakes().empty());
}
