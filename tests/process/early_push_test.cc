// Gradients that leave while they are computed, or in parts once they are, over real sockets: what turns out
// not to be finite, after most of it has left, is never applied anywhere, and the gradients after it count
// exactly.
#include <atomic>
#include <catch2/catch.hpp>
#include <vector>

#include "common/random.h"
#include "tests/process/counting_task.h"
#include "tests/process/local_cluster.h"
#include "tests/process/random_run.h"

namespace paceline::testing {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kIterations = 48;
#if defined(__SANITIZE_THREAD__)
constexpr std::uint32_t kShardCounts[] = {3};  // what goes on on one goes on on the first of three
#else
constexpr std::uint32_t kShardCounts[] = {1, 3};
#endif

struct Way {
  PolicyKind policy;
  ApplyMode apply;
};
constexpr Way kPushWays[] = {{PolicyKind::kBsp, ApplyMode::kVersioned},
                             {PolicyKind::kSsp, ApplyMode::kVersioned},
                             {PolicyKind::kSsp, ApplyMode::kEager},
                             {PolicyKind::kDtssp, ApplyMode::kVersioned},
                             {PolicyKind::kAsp, ApplyMode::kEager}};

RunConfig config_of(Way way, std::uint32_t shards) {
  RunConfig config;
  config.cluster.nodes = 2;
  config.cluster.threads_per_node = 2;
  config.cluster.shards = shards;
  config.cluster.frame_bytes = 2 * sizeof(float);
  config.cluster.shared_memory = SharedMemory::kOff;
  config.train.total_iterations = kIterations;
  config.train.batch_size = 10;
  config.train.optimizer.lr = 1.0;
  config.train.on_nan = OnNan::kSkip;
  config.train.skips_max = 1.0;  // however many
  config.sync.policy = way.policy;
  config.sync.apply = way.apply;
  config.sync.combine = CombineMode::kEach;
  config.sync.threshold = 2;
  config.sync.threshold_min = 1;
  config.sync.threshold_max = 4;
  return config;
}

CountingOptions counting(const RunConfig& config, std::int64_t rows) {
  CountingOptions options;
  options.cluster = config.cluster.cluster();
  options.blocks = rows;
  options.in_parts = true;
  return options;
}

Result<ClusterRun> run_on(const RunConfig& config, const CountingOptions& options) {
  return run_cluster(config,
                     [&](NodeId, const StopNode&) { return std::make_unique<CountingFactory>(options); });
}

// Gradients are computed in one piece, and leave in parts of two floats while the rest is looked at. The same
// run, and how many were taken back at the authority's shard, which has the lowest elements.
struct RunInParts {
  Result<ClusterRun> run;
  std::int64_t withdrawn = 0;
};
RunInParts run_in_parts(const RunConfig& config, CountingOptions options) {
  options.in_parts = false;
  std::atomic<std::int64_t> withdrawn{0};
  const auto receive = [&](const wire::PeerId&, const wire::Body& message) {
    if (std::holds_alternative<wire::Withdraw>(message)) ++withdrawn;
  };
  NodeOptions node_options;
  node_options.floats_at_once = 2;
  auto run = run_cluster(
      config, [&](NodeId, const StopNode&) { return std::make_unique<CountingFactory>(options); }, {},
      receive, node_options);
  return {std::move(run), withdrawn};
}

// One iteration in three.
bool fails(const Step& step) {
  return CounterRandom(9, Stream::kTest, step.worker.node.value * 2 + step.worker.thread,
                       static_cast<std::uint64_t>(step.clock.value))
             .next_below(3) == 0;
}

// No worker has a gradient in the model that was not finite, and each of its others once, in every row.
void check_counts(const ClusterRun& run, const Cluster& cluster) {
  std::int64_t failed = 0;
  for (std::uint32_t rank = 0; rank < cluster.workers(); ++rank) {
    Step step;
    step.worker = cluster.worker_at(Rank(rank));
    float finite = 0.0F;
    for (std::int64_t c = 0; c < kIterations / cluster.workers(); ++c) {
      step.clock = Clock(c);
      fails(step) ? ++failed : finite += 1.0F;
    }
    for (std::size_t i = rank; i < run.model.parameters.size(); i += cluster.workers()) {
      CHECK(run.model.parameters[i] == finite);
    }
  }
  CHECK(failed > 0);
  CHECK(run.summary.skipped == failed);
  CHECK(run.summary.iterations == kIterations - failed);
  CHECK(run.summary.malformed == 0);  // a withdrawal of what is not there would be refused
}

// Under on_nan: stop, when worker 1.0 is not finite at clock 3.
Result<ClusterRun> run_to_its_failure(RunConfig config, std::int64_t rows) {
  config.train.on_nan = OnNan::kStop;
  CountingOptions options = counting(config, rows);
  options.is_not_finite = [](const Step& step) {
    return step.worker == WorkerId(1, 0) && step.clock == Clock(3);
  };
  auto run = run_on(config, options);
  INFO(run.status().message());
  REQUIRE(run.is_ok());
  CHECK(run->summary.status == "failed");
  CHECK_THAT(run->summary.reason, Catch::Contains("worker 1.0") && Catch::Contains("clock 3") &&
                                      Catch::Contains("gradient of counts is nan at ["));
  return run;
}

}  // namespace

TEST_CASE("a_gradient_that_is_not_finite_after_most_of_it_has_left_is_applied_nowhere") {
  const Way way = GENERATE(from_range(std::begin(kPushWays), std::end(kPushWays)));
  const std::uint32_t shards = GENERATE(from_range(std::begin(kShardCounts), std::end(kShardCounts)));
  RunConfig config = config_of(way, shards);
  std::int64_t rows = 6;
  SECTION("sent as float32") {}
  SECTION("sent as fp16, bf16 or int8") {
    config.cluster.gradient_encoding = GENERATE(Encoding::kFp16, Encoding::kBf16, Encoding::kInt8);
  }
  SECTION("sent as pairs") {
    config.cluster.gradient_encoding = Encoding::kTopK;
    config.cluster.top_k_share = 1.0;
  }
  SECTION("in frames of which all but a tail leaves early") {
    config.cluster.gradient_encoding = GENERATE(Encoding::kFp32, Encoding::kInt8);
    config.cluster.frame_bytes = 8 * 1024;
    rows = 1500;
  }
  SECTION("read in place") {
    share_memory(config);
    config.cluster.frame_bytes = 2048;
    rows = large_rows(config);
  }
  CAPTURE(static_cast<int>(way.policy), static_cast<int>(way.apply), shards);
  CountingOptions options = counting(config, rows);
  options.is_not_finite = fails;
  const auto run = run_on(config, options);
  INFO(run.status().message());
  REQUIRE(run.is_ok());
  for (const Status& server : run->servers) CHECK(server.is_ok());
  for (const Status& node : run->nodes) CHECK(node.is_ok());
  check_counts(*run, options.cluster);
  CHECK(run->summary.bytes_pushed_early > 0);
}

// The first element alone is not finite, so all parts before the last have left when it is seen.
TEST_CASE("a_computed_gradient_that_is_not_finite_behind_parts_that_have_left_is_applied_nowhere") {
  const Way way = GENERATE(from_range(std::begin(kPushWays), std::end(kPushWays)));
  const std::uint32_t shards = GENERATE(from_range(std::begin(kShardCounts), std::end(kShardCounts)));
  RunConfig config = config_of(way, shards);
  config.cluster.gradient_encoding = GENERATE(Encoding::kFp32, Encoding::kFp16);
  CAPTURE(static_cast<int>(way.policy), static_cast<int>(way.apply), shards);
  CountingOptions options = counting(config, 6);
  options.is_not_finite = fails;
  const auto [run, withdrawn] = run_in_parts(config, options);
  INFO(run.status().message());
  REQUIRE(run.is_ok());
  for (const Status& server : run->servers) CHECK(server.is_ok());
  for (const Status& node : run->nodes) CHECK(node.is_ok());
  check_counts(*run, options.cluster);
  CHECK(withdrawn == run->summary.skipped);
  CHECK(run->summary.bytes_pushed_early == 0);  // nothing hid after computing
}

TEST_CASE("under_on_nan_stop_the_run_ends_with_worker_clock_and_tensor_though_most_of_it_has_left") {
  const RunConfig config = config_of(kPushWays[0], 3);
  const auto run = run_to_its_failure(config, 6);
  // BSP: all of the clocks before it, nothing of it; the clock itself counts for the others, or for none.
  const auto workers = static_cast<std::size_t>(config.cluster.cluster().workers());
  for (std::size_t i = 0; i < run->model.parameters.size(); ++i) {
    const float value = run->model.parameters[i];
    CAPTURE(i, value);
    if (i % workers == 2) {
      CHECK(value == 3.0F);
    } else {
      CHECK((value == 3.0F || value == 4.0F));
      CHECK(value == run->model.parameters[i % workers]);  // on every shard or on none
    }
  }
}

// The shards alone look there, or, in fp16, the worker, too.
TEST_CASE("under_on_nan_stop_nothing_that_is_not_finite_is_applied_in_any_way_to_synchronise") {
  const Way way = GENERATE(from_range(std::begin(kPushWays), std::end(kPushWays)));
  RunConfig config = config_of(way, GENERATE(from_range(std::begin(kShardCounts), std::end(kShardCounts))));
  std::int64_t rows = 6;
  SECTION("sent as float32") {}
  SECTION("sent as fp16") { config.cluster.gradient_encoding = Encoding::kFp16; }
  SECTION("read in place") {
    share_memory(config);
    config.cluster.frame_bytes = 2048;
    rows = large_rows(config);
  }
  SECTION("averaged") {
    if (way.apply == ApplyMode::kVersioned) config.sync.combine = CombineMode::kMean;
  }
  CAPTURE(static_cast<int>(way.policy), static_cast<int>(way.apply), config.cluster.shards);
  const auto run = run_to_its_failure(config, rows);
  const auto workers = static_cast<std::size_t>(config.cluster.cluster().workers());
  std::int64_t wrong = 0;  // beyond what its worker did, not finite, or not the same on every shard
  for (std::size_t i = 0; i < run->model.parameters.size(); ++i) {
    const float value = run->model.parameters[i];
    const float done = i % workers == 2 ? 3.0F : static_cast<float>(kIterations);
    if (!(value >= 0.0F && value <= done && value == run->model.parameters[i % workers])) ++wrong;
  }
  CHECK(wrong == 0);
}

namespace {

// Rounds of two local steps. the later half leaves between them, and what the second adds to it is in the
// next round's delta.
void push_in_fragments(RunConfig& config, CountingOptions& options) {
  config.exchange.hidden = true;
  config.exchange.fragments = 2;
  config.train.local_steps = 2;
  config.train.has_inner_optimizer = true;
  config.train.inner_optimizer.lr = 0.5;
  config.train.total_iterations *= 2;
  options.local_steps = 2;
  options.in_parts = false;
}

}  // namespace

TEST_CASE(
    "a_round_that_is_not_finite_behind_a_fragment_that_has_left_counts_nowhere_and_the_next_begins_anew") {
  const std::uint32_t shards = GENERATE(from_range(std::begin(kShardCounts), std::end(kShardCounts)));
  RunConfig config = config_of(kPushWays[1], shards);
  std::int64_t rows = 6;
  SECTION("sent as float32") {}
  SECTION("sent as pairs") {
    config.cluster.gradient_encoding = Encoding::kTopK;
    config.cluster.top_k_share = 1.0;
  }
  SECTION("read in place") {
    share_memory(config);
    config.cluster.frame_bytes = 2048;
    rows = large_rows(config);
  }
  CountingOptions options = counting(config, rows);
  push_in_fragments(config, options);
  options.is_not_finite = [](const Step& step) { return step.local_step == 1 && fails(step); };
  const auto run = run_on(config, options);
  INFO(run.status().message());
  REQUIRE(run.is_ok());
  for (const Status& node : run->nodes) CHECK(node.is_ok());
  CHECK(run->summary.bytes_pushed_early > 0);
  const std::uint32_t workers = options.cluster.workers();
  const std::int64_t rounds = kIterations / workers;
  std::int64_t failed = 0;
  std::int64_t wrong = 0;
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    float first = 0.0F;  // of the half that leaves whole
    float later = 0.0F;
    bool left_behind = false;
    for (std::int64_t c = 0; c < rounds; ++c) {
      Step step;
      step.worker = options.cluster.worker_at(Rank(rank));
      step.clock = Clock(c);
      const bool whole = c + 1 == rounds;
      if (fails(step)) {
        ++failed;
      } else {
        first += 1.0F;
        later += (left_behind ? 0.5F : 0.0F) + (whole ? 1.0F : 0.5F);
      }
      left_behind = !fails(step);
    }
    for (std::size_t i = rank; i < run->model.parameters.size(); i += workers) {
      const bool is_later = static_cast<std::int64_t>(i / workers) >= rows / 2;
      if (run->model.parameters[i] != (is_later ? later : first)) ++wrong;
    }
  }
  CHECK(wrong == 0);
  CHECK((failed > 0 && run->summary.skipped == 2 * failed));
}

// The loss alone says so where the part has left as a delta that is finite; the report names the tensor.
TEST_CASE("under_on_nan_stop_a_round_that_is_not_finite_behind_a_fragment_that_has_left_ends_the_run") {
  const bool loss = GENERATE(true, false);
  RunConfig config = config_of(kPushWays[1], 3);
  config.train.on_nan = OnNan::kStop;
  CountingOptions options = counting(config, 6);
  push_in_fragments(config, options);
  (loss ? options.diverges : options.is_not_finite) = [](const Step& step) {
    return step.worker == WorkerId(1, 0) && step.clock == Clock(3) && step.local_step == 1;
  };
  const auto run = run_on(config, options);
  INFO(run.status().message());
  REQUIRE(run.is_ok());
  CHECK(run->summary.status == "failed");
  CHECK_THAT(run->summary.reason, Catch::Contains("worker 1.0") && Catch::Contains("clock 3") &&
                                      Catch::Contains("gradient of counts is nan at ["));
  // Of its rounds before, and of the one that it was granted ahead, which begins anew; of the lost one nothing.
  std::int64_t wrong = 0;
  const std::vector<float>& model = run->model.parameters;
  const float first = model[2];
  const float later = first > 3.0F ? 3.0F : std::max(first - 0.5F, 0.0F);
  CHECK(first <= 4.0F);
  for (std::size_t i = 2; i < model.size(); i += options.cluster.workers()) {
    if (model[i] != (i < model.size() / 2 ? first : later)) ++wrong;
  }
  CHECK(wrong == 0);
}

}  // namespace paceline::testing
