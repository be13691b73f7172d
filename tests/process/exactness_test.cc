// Exact (docs/SYNC.md, What is reproducible): under BSP with combine: mean a distributed run *is* the run of
// one worker with the larger mini-batch, and the same seed gives the same bits, however the parameters are
// cut into shards, the workers into nodes, and in whatever order their messages arrive. Built-in network,
// real servers and nodes over ipc, augmentation and dropout on.
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "tests/process/counting_task.h"
#include "tests/process/network_run.h"
#include "tests/process/random_run.h"
#include "tests/unit/training_fixture.h"
#include "tests/unit/wrapped_tasks.h"

namespace paceline::testing {
namespace {

// Of what is tried in several ways, under the thread sanitizer fewer: which threads there are, and what they
// say to each other, is the same in all of them.
#if defined(__SANITIZE_THREAD__)
constexpr bool kAllWays = false;
#else
constexpr bool kAllWays = true;
#endif

constexpr std::int64_t kSteps = 20;
constexpr std::int64_t kGlobalBatch = 16;

struct Shape {
  std::uint32_t nodes = 1;
  std::uint32_t threads = 1;
  std::uint32_t shards = 1;
  Encoding gradients = Encoding::kFp32;
  Encoding parameters = Encoding::kFp32;
};

RunConfig config_of(Backend backend, OptimizerKind optimizer, const Shape& shape) {
  RunConfig config;
  config.run.seed = 7;
  config.cluster.nodes = shape.nodes;
  config.cluster.threads_per_node = shape.threads;
  config.cluster.shards = shape.shards;
  config.cluster.frame_bytes = 4096;  // pushes and replies of several frames
  config.cluster.gradient_encoding = shape.gradients;
  config.cluster.parameter_encoding = shape.parameters;
  if (shape.gradients == Encoding::kTopK) config.cluster.top_k_share = 0.1;
  config.sync.policy = PolicyKind::kBsp;
  config.sync.combine = CombineMode::kMean;
  config.train.backend = backend;
  config.train.model = "layers";
  config.train.layers = {{LayerKind::kConv, 4, 5, 2}, {LayerKind::kRelu},
                         {LayerKind::kPool, 0, 2, 2}, {LayerKind::kDropout, 0, 0, 0, -1, 0.25},
                         {LayerKind::kFlatten},       {LayerKind::kDense, 10}};
  config.train.optimizer.kind = optimizer;
  config.train.optimizer.lr = optimizer == OptimizerKind::kAdam ? 0.001 : 0.05;
  const std::int64_t workers = config.cluster.cluster().workers();
  config.train.batch_size = kGlobalBatch / workers;
  config.train.total_iterations = kSteps * workers;
  config.data.path = test::training_data();
  config.data.augment = true;
  return config;
}

// The order in which a run's gradients set off for the servers: the ranks of their workers, clock after
// clock.
class Order {
 public:
  void add(Rank rank) {
    const std::lock_guard lock(mutex_);
    ranks_.push_back(rank.value);
  }
  const std::vector<std::uint32_t>& ranks() const { return ranks_; }  // once the run is over

 private:
  std::mutex mutex_;
  std::vector<std::uint32_t> ranks_;
};

// Spins before and after computing, another time at every call of every run: the order in which gradients
// arrive is never the same, and never the workers' order.
class JitteringTask final : public WrappedTask {
 public:
  JitteringTask(std::unique_ptr<Task> task, Rank rank, Order& order)
      : WrappedTask(std::move(task)), rank_(rank), order_(order) {}
  Status load(const Step& step) override {
    jitter();
    return WrappedTask::load(step);
  }
  Result<Metric> compute(std::span<const float> parameters, std::span<float> gradient,
                         const FinalFrom& final_from) override {
    auto metric = WrappedTask::compute(parameters, gradient, final_from);
    jitter();
    order_.add(rank_);
    return metric;
  }

 private:
  static void jitter() {
    static std::atomic<std::uint64_t> calls{0};
    CounterRandom random(1, Stream::kTest, calls++);
    spin_for(std::chrono::microseconds(random.next_below(1500)));
  }
  const Rank rank_;
  Order& order_;
};

struct Trained {
  std::vector<float> parameters;
  std::vector<std::uint32_t> order;  // see Order
  RunSummary summary;
};

Trained train(const RunConfig& config) {
  Order order;
  const auto jittering = [&](std::unique_ptr<Task> task, WorkerId worker) {
    return std::make_unique<JitteringTask>(std::move(task), config.cluster.cluster().rank_of(worker), order);
  };
  const auto run = run_cluster(config, [&](NodeId, const StopNode&) {
    return std::make_unique<WrappedTasks>(network_tasks(config), jittering);
  });
  INFO(run.status().message());
  REQUIRE(run.is_ok());
  INFO(run->summary.reason);
  // A machine that is too slow for what it emulates marks the run invalid; its bits are as good.
  REQUIRE((run->summary.status == "ok" || run->summary.overruns > 0));
  REQUIRE(run->summary.final_version == Version(kSteps));
  return {run->model.parameters, order.ranks(), run->summary};
}

std::vector<float> train(Backend backend, OptimizerKind optimizer, const Shape& shape) {
  return train(config_of(backend, optimizer, shape)).parameters;
}

// One node is slower than the other, and every iteration of every worker lasts another time.
RunConfig emulated(RunConfig config) {
  config.emulate.base_step = std::chrono::milliseconds(2);
  config.emulate.slowdown = {1.0, 1.5};
  config.emulate.jitter = JitterKind::kLognormal;
  config.emulate.jitter_spread = 0.5;
  return config;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
  return std::sqrt(sum);
}

std::vector<float> initial_parameters() {
  const auto tasks = network_tasks(config_of(Backend::kReference, OptimizerKind::kSgd, {1, 1, 1}));
  std::vector<float> parameters(static_cast<std::size_t>(tasks->layout().size()));
  tasks->initialize(parameters);
  return parameters;
}

// How far two runs are apart, in relation to how far training went: stricter than to the parameters' norm.
double relative_distance(const std::vector<float>& a, const std::vector<float>& b) {
  const double way = distance(b, initial_parameters());
  REQUIRE(way > 0.01 * distance(b, std::vector<float>(b.size())));  // it has gone somewhere
  return distance(a, b) / way;
}

}  // namespace

TEST_CASE("k_workers_equal_one_worker_with_the_k_fold_mini_batch") {
  const OptimizerKind optimizer = GENERATE(OptimizerKind::kSgd, OptimizerKind::kMomentum);
  if (!kAllWays && optimizer == OptimizerKind::kSgd) return;
  const char* const name = optimizer == OptimizerKind::kSgd ? "SGD" : "momentum";
  const auto one = train(Backend::kReference, optimizer, {1, 1, 1});
  for (const Shape shape : {Shape{2, 1, 1}, Shape{2, 2, 3}, Shape{1, 8, 1}}) {
    const auto several = train(Backend::kReference, optimizer, shape);
    CAPTURE(name, shape.nodes, shape.threads);
    const double apart = relative_distance(several, one);
    WARN(name << ", " << shape.nodes * shape.threads << " workers: " << apart);
    // Only the order of float additions differs: some 1e-7 a step, twenty steps.
    CHECK(apart <= 1e-5);
    CHECK(apart > 0.0);  // or the runs were not two different ones
  }
}

TEST_CASE("the_same_holds_for_adam_within_what_its_division_makes_of_rounding") {
  const auto one = train(Backend::kReference, OptimizerKind::kAdam, {1, 1, 1});
  const auto four = train(Backend::kReference, OptimizerKind::kAdam, {2, 2, 2});
  const double apart = relative_distance(four, one);
  WARN("Adam, 4 workers: " << apart);
  // Measured: 2.4e-7. Ten times SGD's bound, because Adam divides by the gradient's own size: an element
  // whose gradient is nothing but rounding moves by a whole learning rate all the same.
  CHECK(apart <= 1e-4);
}

TEST_CASE("the_same_seed_gives_the_same_bits_whatever_the_shards_nodes_threads_and_order_of_arrival") {
  const Backend backend = GENERATE(Backend::kReference, Backend::kOnednn);
  const OptimizerKind optimizer =
      GENERATE(OptimizerKind::kSgd, OptimizerKind::kMomentum, OptimizerKind::kAdam);
  // SGD with oneDNN, the others with the reference.
  if (!kAllWays && (backend == Backend::kOnednn) != (optimizer == OptimizerKind::kSgd)) return;
  CAPTURE(static_cast<int>(backend), static_cast<int>(optimizer));
  const RunConfig two_by_two = config_of(backend, optimizer, {2, 2, 1});
  const Trained first = train(two_by_two);
  std::set<std::vector<std::uint32_t>> orders{first.order};
  for (const RunConfig& other :
       {two_by_two, emulated(two_by_two), config_of(backend, optimizer, {2, 2, 3}),
        config_of(backend, optimizer, {4, 1, 3}), config_of(backend, optimizer, {1, 4, 1})}) {
    CAPTURE(other.cluster.nodes, other.cluster.shards, other.emulate.base_step.has_value());
    const Trained again = train(other);
    CHECK(test::same_floats(again.parameters, first.parameters));
    orders.insert(again.order);
  }
  CHECK(orders.size() > 1);  // or nothing was shown about the order of arrival
}

TEST_CASE("the_same_seed_gives_the_same_bits_in_every_encoding_and_in_16_bits_whatever_the_shards") {
  const Encoding gradients = GENERATE(Encoding::kFp16, Encoding::kBf16, Encoding::kInt8, Encoding::kTopK);
  // Of both kinds, one that rounds and one that owes, one.
  if (!kAllWays && (gradients == Encoding::kFp16 || gradients == Encoding::kTopK)) return;
  const Encoding parameters = gradients == Encoding::kBf16 ? Encoding::kBf16 : Encoding::kFp16;
  CAPTURE(static_cast<int>(gradients));
  const auto run = [&](std::uint32_t nodes, std::uint32_t threads, std::uint32_t shards) {
    return train(
        config_of(Backend::kReference, OptimizerKind::kSgd, {nodes, threads, shards, gradients, parameters}));
  };
  const Trained first = run(2, 2, 1);
  CHECK(test::same_floats(run(2, 2, 1).parameters, first.parameters));
  CHECK(test::same_floats(run(4, 1, 1).parameters, first.parameters));
  if (only_rounds(gradients)) {
    CHECK(test::same_floats(run(2, 2, 3).parameters, first.parameters));
    CHECK(test::same_floats(run(4, 1, 3).parameters, first.parameters));
  }
  // It is another way than that of float32, to nearly the same place; and fewer bytes.
  RunConfig sent = config_of(Backend::kReference, OptimizerKind::kSgd, {2, 2, 1});
  sent.cluster.shared_memory = SharedMemory::kOff;  // what is shared is no bytes at all
  const Trained plain = train(sent);
  const double apart = relative_distance(first.parameters, plain.parameters);
  WARN("gradients in encoding " << static_cast<int>(gradients) << ": " << apart << ", pushed "
                                << first.summary.bytes_pushed << " of " << plain.summary.bytes_pushed
                                << " bytes, pulled " << first.summary.bytes_pulled << " of "
                                << plain.summary.bytes_pulled);
  CHECK(apart > 0.0);
  CHECK(apart < (only_rounds(gradients) ? 0.1 : 1.0));
  const double most = only_rounds(gradients) ? 0.55 : 0.35;  // of small frames the headers count
  CHECK(static_cast<double>(first.summary.bytes_pushed) <
        most * static_cast<double>(plain.summary.bytes_pushed));
  CHECK(static_cast<double>(first.summary.bytes_pulled) <
        0.65 * static_cast<double>(plain.summary.bytes_pulled));
}

// Each of four local steps adds a quarter. One node takes longer for one than half of the time, and so takes one in
// each round; the other takes as many as fit. Of n and m mini-batches the first delta, n quarters, counts n / (n + m).
TEST_CASE("rounds_that_end_by_time_differ_in_size_and_weigh_by_their_samples") {
  constexpr std::int64_t kRounds = 4;
  constexpr std::size_t kRows = 3;
  RunConfig config;
  config.cluster.nodes = 2;
  config.sync.policy = PolicyKind::kBsp;
  config.sync.combine = CombineMode::kMean;
  config.train.batch_size = 10;
  config.train.local_steps = 4;
  config.train.local_time = std::chrono::milliseconds(160);
  config.train.has_inner_optimizer = true;
  config.train.inner_optimizer.kind = OptimizerKind::kSgd;
  config.train.inner_optimizer.lr = 0.25;
  config.train.optimizer.kind = OptimizerKind::kSgd;
  config.train.optimizer.lr = 1.0;
  config.train.total_iterations = kRounds * 2 * 4;
  std::mutex mutex;
  std::map<Clock, std::array<std::int64_t, 2>> taken;
  CountingOptions options;
  options.cluster = config.cluster.cluster();
  options.blocks = kRows;
  options.local_steps = 4;
  options.after_compute = [&](const Step& step) {
    if (step.worker.node == NodeId(1)) spin_for(std::chrono::milliseconds(90));
    const std::lock_guard lock(mutex);
    ++taken[step.clock][step.worker.node.value];
  };
  const auto run = run_cluster(
      config, [&](NodeId, const StopNode&) { return std::make_unique<CountingFactory>(options); });
  INFO(run.status().message());
  REQUIRE(run.is_ok());
  CHECK(run->summary.iterations == config.train.total_iterations);
  REQUIRE(std::ssize(taken) == kRounds);
  double expected[2] = {0.0, 0.0};
  bool differ = false;
  for (const auto& [clock, steps] : taken) {
    CHECK((steps[0] >= 1 && steps[0] <= 4 && steps[1] == 1));
    differ = differ || steps[0] != steps[1];
    for (std::size_t w = 0; w < 2; ++w) {
      const auto n = static_cast<double>(steps[w]);
      expected[w] += n / 4.0 * n / static_cast<double>(steps[0] + steps[1]);
    }
  }
  CHECK(differ);
  for (std::size_t row = 0; row < kRows; ++row) {
    for (std::size_t w = 0; w < 2; ++w) {
      CHECK(run->model.parameters[2 * row + w] == Approx(expected[w]).margin(1e-5));
    }
  }
}

}  // namespace paceline::testing
