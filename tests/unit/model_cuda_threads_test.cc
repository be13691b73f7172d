// Several training threads on GPUs, on the fake one. A program of its own: the thread sanitizer takes minutes
// for what the other tests of the back end compute on one thread.
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/unit/cuda_norm_group_fixture.h"
#include "tests/unit/cuda_threads_fixture.h"

using namespace paceline;

// Some threads capture their graphs while others still make, or give back, what may wait for a whole GPU.
TEST_CASE("thread_caches_of_several_threads_on_two_gpus_do_what_that_of_one_does") {
  const OptimizerKind kind = GENERATE(OptimizerKind::kSgd, OptimizerKind::kMomentum, OptimizerKind::kAdam);
  const auto work = GENERATE(fake_cuda::Work::kWhenWaitedFor, fake_cuda::Work::kAtRandom);
  fake_cuda::set_up({.gpus = 2, .work = work});
  {
    const auto gpus = cuda::open_gpus({{1, 0}, Precision::kFp32});
    REQUIRE(gpus.is_ok());
    check_threads_agree(**gpus, small_network(), kind);
  }
  CHECK(fake_cuda::mistakes() == std::vector<std::string>());
  CHECK(fake_cuda::alive() == 0);
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
      const auto make = (*gpus)->for_thread(j, nullptr);
      if (!make) return gradients[j].clear();
      const auto backend = make->make_backend(network, 4, 5);
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

// Members on one GPU and on several, whose work is done as late as can be, or by chance.
TEST_CASE("parts_of_a_group_on_gpus_have_the_gradient_of_one_worker_with_the_whole_and_no_graph") {
  const auto are = GENERATE(Members::kNodes, Members::kThreads);
  const auto work = GENERATE(fake_cuda::Work::kWhenWaitedFor, fake_cuda::Work::kAtRandom);
  fake_cuda::set_up({.gpus = 2, .work = work});
  check_groups_on_gpus({{4, 4}, {5, 2, 3}, {2, 2, 2, 2}}, are, 1e-5);
  CHECK(fake_cuda::launches() == 0);
  CHECK(fake_cuda::mistakes() == std::vector<std::string>());
  CHECK(fake_cuda::alive() == 0);
}

TEST_CASE("who_computes_on_a_gpu_is_told_that_its_group_is_no_more") {
  fake_cuda::set_up({});
  {
    const NetworkSpec network = network_of({flatten(), batch_norm(), dense(3)}, {1, 2, 2}, 3);
    const RandomBatch batch(network, 2, 1);
    const std::vector<float> parameters = random_parameters(network, 1);
    std::vector<float> gradient(parameters.size());
    NormMeeting meeting(2);
    const auto backend = cuda_backend_of(network, 2, Precision::kFp32, 5, &meeting.member(0));
    CHECK(backend->evaluate(parameters, batch.all()).is_ok());  // which asks nobody
    meeting.end(invalid_argument("member 1 has no mini-batch"));
    CHECK(backend->gradient(parameters, batch.all(), gradient, whole_at_the_end).status().message() ==
          "member 1 has no mini-batch");
  }
  CHECK(fake_cuda::mistakes().empty());
  CHECK(fake_cuda::alive() == 0);
}
