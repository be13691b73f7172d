// What the CUDA back end asks of a GPU: in which order, with which algorithms and which math. On the fake one
// alone, which can say so (tests/fake_cuda/fake_cuda.h).
#include <set>
#include <thread>

#include "tests/fake_cuda/fake_cuda.h"
#include "tests/unit/cuda_fixture.h"

using namespace paceline;

namespace {

// Nothing is lost between the two but the order of float sums: 1e-5, as for oneDNN.
constexpr double kFakeTolerance = 1e-5;

NetworkSpec small_network() {
  return network_of({conv(4, 3), relu(), pool(2), dropout(0.2), conv(3, 3), relu(), dense(5)}, {3, 8, 8}, 5);
}

std::set<std::string> products_of(Precision precision) {
  fake_cuda::set_up({});
  const NetworkSpec network = small_network();
  const RandomBatch batch(network, 2, 1);
  const std::vector<float> parameters = random_parameters(network, 1);
  std::vector<float> gradient(parameters.size());
  REQUIRE(cuda_backend_of(network, 2, precision)
              ->gradient(parameters, batch.all(), gradient, whole_at_the_end)
              .is_ok());
  const auto products = fake_cuda::products();
  return {products.begin(), products.end()};
}

}  // namespace

TEST_CASE("work_that_is_done_late_and_work_that_is_done_at_once_come_to_the_same") {
  const auto work = GENERATE(fake_cuda::Work::kWhenWaitedFor, fake_cuda::Work::kAtOnce);
  fake_cuda::set_up({.work = work});
  std::uint64_t seed = 70;
  for (const auto& layers : cuda_networks()) {
    INFO("network " << seed - 70);
    check_cuda_against_reference(network_of(layers, {3, 12, 10}, 10), 4, 3, seed++, kFakeTolerance);
  }
  check_cuda_against_reference(ready_made("cifar_cnn_small", 0.1), 4, 4, 7, kFakeTolerance);
  CHECK(fake_cuda::mistakes().empty());
  CHECK(fake_cuda::alive() == 0);
}

TEST_CASE("fp32_is_computed_without_tensor_cores_and_the_others_with_them") {
  // Algorithm 1: the fastest that is deterministic, of what the fake one offers. Math 3: FMA, 0: default, 1:
  // tensor cores. Type 0: float, 9 (cuBLAS 14): bfloat16. Compute 68: 32F, 77: 32F_FAST_TF32.
  CHECK(products_of(Precision::kFp32) ==
        std::set<std::string>{"forward algo 1 math 3 type 0", "data algo 1 math 3 type 0",
                              "filter algo 1 math 3 type 0", "gemm compute 68 type 0"});
  CHECK(products_of(Precision::kTf32) ==
        std::set<std::string>{"forward algo 1 math 0 type 0", "data algo 1 math 0 type 0",
                              "filter algo 1 math 0 type 0", "gemm compute 77 type 0"});
  CHECK(products_of(Precision::kBf16) ==
        std::set<std::string>{"forward algo 1 math 1 type 9", "data algo 1 math 1 type 9",
                              "filter algo 1 math 1 type 9", "gemm compute 68 type 14"});
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

TEST_CASE("threads_take_the_gpus_in_turn_and_agree_to_the_bit") {
  fake_cuda::set_up({.gpus = 2});
  const NetworkSpec network = small_network();
  const RandomBatch batch(network, 3, 1);
  const std::vector<float> parameters = random_parameters(network, 1);
  const auto gpus = cuda::open_gpus({{1, 0}, Precision::kFp32});
  REQUIRE(gpus.is_ok());
  std::vector<std::vector<float>> gradients(4, std::vector<float>(parameters.size()));
  std::vector<std::thread> threads;
  for (std::uint32_t j = 0; j < gradients.size(); ++j) {
    threads.emplace_back([&, j] {
      const auto make = (*gpus)->for_thread(j);
      if (!make) return gradients[j].clear();
      const auto backend = (*make)(network, 4, 5);
      if (!backend) return gradients[j].clear();
      for (int i = 0; i < 3; ++i) {
        if (!(*backend)->gradient(parameters, batch.all(), gradients[j], whole_at_the_end))
          gradients[j].clear();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_FALSE(gradients[0].empty());
  for (const auto& gradient : gradients) CHECK(gradient == gradients[0]);
  CHECK(fake_cuda::mistakes().empty());
  CHECK(fake_cuda::alive() == 0);
}

TEST_CASE("back_ends_of_one_thread_on_two_gpus_do_not_get_into_each_others_way") {
  fake_cuda::set_up({.gpus = 2});
  const NetworkSpec network = small_network();
  const RandomBatch batch(network, 2, 1);
  const std::vector<float> parameters = random_parameters(network, 1);
  {
    const auto gpus = cuda::open_gpus({});
    const auto first = (*(*gpus)->for_thread(0))(network, 2, 5);
    const auto second = (*(*gpus)->for_thread(1))(network, 2, 5);
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
  // Each layer's event and the metric's; no stream, and not the device.
  REQUIRE(backend->gradient(parameters, batch.all(), gradient, whole_at_the_end).is_ok());
  CHECK(fake_cuda::waits() ==
        std::vector<std::string>{"cudaEventSynchronize", "cudaEventSynchronize", "cudaEventSynchronize"});
}
