// Training threads that share GPUs, for the tests of that on a real GPU and on the fake one.
#pragma once

#include <memory_resource>
#include <thread>
#include <utility>

#include "tests/unit/cuda_predicted_fixture.h"

namespace paceline {

// What the `index`-th thread of a node does: steps with a thread cache on its GPU, where `parameters` come to
// from memory that all share, each mini-batch predicted in the step before. Returns the gradient at the end.
inline Result<std::vector<float>> train(Gpus& gpus, std::uint32_t index, const NetworkSpec& network,
                                        const SharedFloats& parameters, OptimizerKind kind) {
  OptimizerSection optimizer;
  optimizer.kind = kind;
  PACELINE_ASSIGN_OR_RETURN(const ThreadOfGpu thread, gpus.for_thread(index, nullptr));
  std::vector<MovableBatch> batches;
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    batches.emplace_back(network, 3, seed, gpus.page_locked(nullptr));
  }
  PACELINE_ASSIGN_OR_RETURN(const auto vectors, thread.make_vectors(network, optimizer));
  PACELINE_ASSIGN_OR_RETURN(const auto backend, thread.make_backend(network, 3, 5));
  vectors->take_over(0, parameters, {});
  const auto gradient = std::make_shared<std::vector<float>>(network.layout.size());
  for (std::size_t step = 0; step < 5; ++step) {
    backend->predict(batches[(step + 1) % 2].all());
    const Batch batch = batches[step % 2].all();
    PACELINE_RETURN_IF_ERROR(backend->gradient({}, batch, *gradient, whole_at_the_end).status());
    if (kind == OptimizerKind::kSgd) {
      vectors->keep_gradient(gradient, 0.1);
      vectors->apply_newest({0, network.layout.size()});
    } else {
      vectors->apply_with_state(gradient, 0.1, 0.5);
    }
    // Every other time with what the servers have, which lacks the own update.
    const std::size_t lacking = 0;
    if (step % 2 == 1) vectors->take_over(0, parameters, {&lacking, 1});
    vectors->drop_oldest();
    PACELINE_RETURN_IF_ERROR(vectors->status());
  }
  PACELINE_RETURN_IF_ERROR(backend->forget());
  return *gradient;
}

// Four threads at once come to what one alone does, to the bit.
inline void check_threads_agree(Gpus& gpus, const NetworkSpec& network, OptimizerKind kind) {
  const auto memory = gpus.page_locked(nullptr);
  const std::vector<float> values = random_parameters(network, 1);
  const auto held = std::make_shared<std::pmr::vector<float>>(values.begin(), values.end(), memory.get());
  const SharedFloats parameters{held, std::span<const float>(*held)};
  const auto expected = train(gpus, 0, network, parameters, kind);
  INFO(expected.status().message());
  REQUIRE(expected.is_ok());
  std::vector<std::vector<float>> gradients(4);
  std::vector<std::thread> threads;
  for (std::uint32_t j = 0; j < gradients.size(); ++j) {
    threads.emplace_back([&, j] {
      auto trained = train(gpus, j, network, parameters, kind);
      if (trained.is_ok()) gradients[j] = std::move(trained).value();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& gradient : gradients) CHECK(gradient == *expected);
}

}  // namespace paceline
