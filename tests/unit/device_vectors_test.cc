// The thread cache's vectors on a GPU against those in the host's memory: the same passes give the same
// parameters, to the bit, as seen by the network that computes with them. On the fake GPU; gpu_test has the
// real one.
#include <sys/mman.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <utility>

#include "tests/unit/cuda_fixture.h"
#include "worker/cache/host_vectors.h"

using namespace paceline;

namespace {

// Sizes that are no multiple of 64: on the GPU there is something between the layers.
NetworkSpec odd_network() {
  return network_of({conv(5, 3), relu(), pool(2), dense(7), relu(), dense(4)}, {3, 8, 8}, 4);
}

// The same, its first layer slow and spared of weight decay, and its second not trained.
NetworkSpec unevenly_trained_network() {
  LayerConfig slow = conv(5, 3);
  slow.lr_factor = 0.5;
  slow.decay_factor = 0.0;
  LayerConfig frozen = dense(7);
  frozen.lr_factor = 0.0;
  return network_of({slow, relu(), pool(2), frozen, relu(), dense(4)}, {3, 8, 8}, 4);
}

// With buffers, which go towards what was measured.
NetworkSpec normalised_network() {
  LayerConfig slow = batch_norm();
  slow.momentum = 0.3;
  return network_of({conv_without_bias(5, 3), batch_norm(), relu(), pool(2), dense(7), slow, dense(4)},
                    {3, 8, 8}, 4);
}

using MakeNetwork = NetworkSpec (*)();

SharedFloats shared(std::vector<float> values) {
  return std::make_shared<const std::vector<float>>(std::move(values));
}

// Vectors of both kinds, through the same passes; and the back end that computes with those on the GPU.
struct Both {
  explicit Both(const OptimizerSection& optimizer, NetworkSpec of = odd_network())
      : network(std::move(of)), batch(network, 4, Catch::rngSeed() + 1), host(optimizer, network.layout) {
    auto all = cuda::open_gpus({});
    REQUIRE(all.is_ok());
    gpus = std::move(all).value();
    auto opened = gpus->for_thread(0, nullptr);
    REQUIRE(opened.is_ok());
    thread = *opened;
    auto made = thread.make_vectors(network, optimizer);
    REQUIRE(made.is_ok());
    device = std::move(made).value();
    auto backend_made = thread.make_backend(network, 4, 5);
    REQUIRE(backend_made.is_ok());
    backend = std::move(backend_made).value();
    // Of the same GPUs: threads of a node compute with the same algorithms.
    const auto other = gpus->for_thread(1, nullptr);
    REQUIRE(other.is_ok());
    auto reference_made = other->make_backend(network, 4, 5);
    REQUIRE(reference_made.is_ok());
    reference = std::move(reference_made).value();
  }

  void take_over(std::int64_t begin, const std::vector<float>& values, std::vector<std::size_t> lacking) {
    host.take_over(begin, shared(values), lacking);
    device->take_over(begin, shared(values), lacking);
  }

  // A step on what is there: the gradient is the one that a back end makes of the host's vector.
  SharedFloats check_step() {
    const auto size = static_cast<std::size_t>(network.layout.size());
    auto got = std::make_shared<std::vector<float>>(size);
    std::vector<float> expected(size);
    const auto metric = backend->gradient({}, batch.all(), *got, whole_at_the_end);
    INFO(metric.status().message());
    REQUIRE(metric.is_ok());
    REQUIRE(reference->gradient(host.parameters(), batch.all(), expected, whole_at_the_end).is_ok());
    CHECK(std::memcmp(got->data(), expected.data(), size * sizeof(float)) == 0);
    CHECK(device->status().is_ok());
    return SharedFloats(std::shared_ptr<const std::vector<float>>(got));
  }

  std::shared_ptr<Gpus> gpus;
  NetworkSpec network;
  RandomBatch batch;
  HostVectors host;
  ThreadOfGpu thread;
  std::unique_ptr<CacheVectors> device;
  std::unique_ptr<NetworkBackend> backend;
  std::unique_ptr<NetworkBackend> reference;
};

// Pages that are shared and that this process only reads, as those of a server, with `values` after `offset`
// bytes of them.
std::shared_ptr<const std::byte> read_only(const std::vector<float>& values, std::size_t offset,
                                           std::size_t bytes) {
  void* const pages = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(pages != MAP_FAILED);
  std::memcpy(static_cast<std::byte*>(pages) + offset, values.data(), values.size() * sizeof(float));
  REQUIRE(::mprotect(pages, bytes, PROT_READ) == 0);
  return {static_cast<const std::byte*>(pages),
          [bytes](const std::byte* p) { ::munmap(const_cast<std::byte*>(p), bytes); }};
}

OptimizerSection optimizer_of(OptimizerKind kind, double decay, bool decoupled) {
  OptimizerSection optimizer;
  optimizer.kind = kind;
  optimizer.momentum = 0.9;
  optimizer.weight_decay = decay;
  optimizer.decoupled = decoupled;
  return optimizer;
}

}  // namespace

TEST_CASE("own_gradients_on_a_gpu_are_what_they_are_on_the_host") {
  const double decay = GENERATE(0.0, 0.01);
  const bool decoupled = GENERATE(false, true);
  const MakeNetwork network = GENERATE(&odd_network, &unevenly_trained_network, &normalised_network);
  Both both(optimizer_of(OptimizerKind::kSgd, decay, decoupled), network());
  const std::vector<float> first = random_parameters(both.network, Catch::rngSeed() + 2);
  const std::vector<float> second = random_parameters(both.network, Catch::rngSeed() + 3);
  const std::int64_t size = both.network.layout.size();
  both.take_over(0, first, {});
  for (int i = 0; i < 3; ++i) {  // the third step is a graph's
    const SharedFloats gradient = both.check_step();
    both.host.keep_gradient(gradient, 0.1);
    both.device->keep_gradient(gradient, 0.1);
    both.host.apply_newest({0, size});
    both.device->apply_newest({0, size});
  }
  const SharedFloats last = both.check_step();
  // One that the GPU has not computed, and is to be sent there.
  const SharedFloats foreign = shared(random_parameters(both.network, 9));
  both.host.keep_gradient(foreign, 0.05);
  both.device->keep_gradient(foreign, 0.05);
  both.host.apply_newest({3, size - 5});
  both.device->apply_newest({3, size - 5});
  both.check_step();
  // A snapshot in pieces that end within layers, which lacks some of them; one of these as a difference.
  both.host.make_difference();
  both.device->make_difference();
  CHECK(both.device->differences() == 1);
  CHECK(both.device->gradients() == 3);
  const auto part = [&second](std::int64_t begin, std::int64_t end) {
    return std::vector<float>(second.begin() + begin, second.begin() + end);
  };
  both.take_over(0, part(0, 101), {0, 2, 3});
  both.take_over(101, part(101, 150), {});
  both.take_over(150, part(150, size), {1, 3});
  both.check_step();
  for (int i = 0; i < 4; ++i) {
    both.host.drop_oldest();
    both.device->drop_oldest();
  }
  CHECK(both.device->differences() + both.device->gradients() == 0);
  both.check_step();
}

TEST_CASE("steps_with_a_state_on_a_gpu_are_what_they_are_on_the_host") {
  const OptimizerKind kind = GENERATE(OptimizerKind::kMomentum, OptimizerKind::kAdam);
  const double decay = GENERATE(0.0, 0.01);
  const bool decoupled = GENERATE(false, true);
  const bool nesterov = GENERATE(false, true);
  OptimizerSection optimizer = optimizer_of(kind, decay, decoupled);
  optimizer.nesterov = nesterov && kind == OptimizerKind::kMomentum;
  const MakeNetwork network = GENERATE(&odd_network, &unevenly_trained_network, &normalised_network);
  Both both(optimizer, network());
  both.take_over(0, random_parameters(both.network, Catch::rngSeed() + 2), {});
  for (int i = 0; i < 3; ++i) {
    const double scale = i == 1 ? 0.25 : 1.0;
    const SharedFloats gradient = both.check_step();
    both.host.apply_with_state(gradient, 0.01, scale);
    both.device->apply_with_state(gradient, 0.01, scale);
  }
  const SharedFloats last = both.check_step();
  const SharedFloats foreign = shared(random_parameters(both.network, 9));
  both.host.apply_with_state(foreign, 0.01, 1.0);
  both.device->apply_with_state(foreign, 0.01, 1.0);
  both.check_step();
  both.take_over(0, random_parameters(both.network, Catch::rngSeed() + 4), {1, 2, 3});
  both.check_step();
}

// A server's memory is pinned as it grows, and a payload lies wherever it likes there.
TEST_CASE("parameters_in_pages_pinned_one_by_one_or_not_arrive_and_are_held_until_they_have") {
  constexpr std::size_t kPage = 4096;
  constexpr std::size_t kPages = 9;
  constexpr std::size_t kOffset = 64;
  Both both(OptimizerSection{}, network_of({dense(40), relu(), dense(4)}, {3, 8, 8}, 4));
  const std::vector<float> values = random_parameters(both.network, Catch::rngSeed() + 2);
  REQUIRE(values.size() * sizeof(float) > (kPages - 2) * kPage);
  const auto memory = read_only(values, kOffset, kPages * kPage);
  std::vector<std::shared_ptr<void>> pins;
  // By page: 0 and 1 together, 2, 4 and 5; not 3 and what is after them.
  for (const auto& [first, pages] : {std::pair(0, 2), std::pair(2, 1), std::pair(4, 2)}) {
    auto pinned = both.gpus->pin({memory.get() + first * kPage, pages * kPage});
    REQUIRE(pinned.is_ok());
    pins.push_back(std::move(pinned).value());
  }
  const auto take = [&](std::size_t begin, std::size_t end) {
    const auto* const floats = reinterpret_cast<const float*>(memory.get() + kOffset);
    const SharedFloats part(memory, {floats + begin, end - begin});
    both.host.take_over(static_cast<std::int64_t>(begin), part, {});
    both.device->take_over(static_cast<std::int64_t>(begin), part, {});
  };
  take(0, values.size());
  CHECK(memory.use_count() == 2);
  both.check_step();
  CHECK(memory.use_count() == 1);
  both.take_over(0, random_parameters(both.network, Catch::rngSeed() + 3), {});
  take(3 * kPage / sizeof(float), 5 * kPage / sizeof(float));  // begins where nothing is pinned
  CHECK(memory.use_count() == 2);
  both.check_step();
  CHECK(memory.use_count() == 1);
  take(0, values.size());
  both.device->let_go();
  CHECK(memory.use_count() == 1);
  both.check_step();
  pins.clear();
  take(0, values.size());  // has been read by now
  CHECK(memory.use_count() == 1);
  both.check_step();
}
