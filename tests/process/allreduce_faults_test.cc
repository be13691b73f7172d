// All-reduces to which something happens: a sum that is not finite, a node that fails or leaves.
#include <catch2/catch.hpp>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/wire/keys.h"
#include "tests/process/network_run.h"
#include "tests/process/summing_run.h"
#include "tests/unit/temp_folder.h"
#include "tests/unit/wrapped_tasks.h"

namespace paceline::test {

namespace {

// Whose gradient of clock 7 something befalls first.
class Befallen final : public testing::WrappedTask {
 public:
  using AtSeven = std::function<Status(std::span<float> gradient)>;
  enum class Loss { kAsItIs, kNan };
  Befallen(std::unique_ptr<Task> task, AtSeven at_seven, Loss loss)
      : WrappedTask(std::move(task)), at_seven_(std::move(at_seven)), loss_(loss) {}
  static std::unique_ptr<TaskFactory> tasks(const RunConfig& config, const AtSeven& at_seven,
                                            Loss loss = Loss::kAsItIs) {
    return std::make_unique<testing::WrappedTasks>(
        testing::network_tasks(config), [at_seven, loss](std::unique_ptr<Task> task, WorkerId) {
          return std::make_unique<Befallen>(std::move(task), at_seven, loss);
        });
  }
  Status load(const Step& step) override {
    clock_ = step.clock;
    return WrappedTask::load(step);
  }
  Result<Metric> compute(std::span<const float> parameters, std::span<float> gradient,
                         const FinalFrom& final_from) override {
    if (clock_ != Clock(7)) return WrappedTask::compute(parameters, gradient, final_from);
    PACELINE_ASSIGN_OR_RETURN(Metric metric, WrappedTask::compute(parameters, gradient, whole_at_the_end));
    PACELINE_RETURN_IF_ERROR(at_seven_(gradient));
    if (loss_ == Loss::kNan) metric.loss_sum = std::numeric_limits<double>::quiet_NaN();
    return metric;
  }

 private:
  const AtSeven at_seven_;
  const Loss loss_;
  Clock clock_;
};

enum class Whom { kNode2, kAll };

// Why a run has no model, in which something befalls node 2, or all nodes, at clock 7.
std::string why_it_failed(const RunConfig& config,
                          const std::function<Befallen::AtSeven(const testing::StopNode&)>& befalls,
                          Whom whom = Whom::kNode2) {
  const auto ended = testing::run_cluster(
      config, [&](NodeId node, const testing::StopNode& stop) -> std::unique_ptr<TaskFactory> {
        const Befallen::AtSeven nothing = [](std::span<float>) { return Status::ok(); };
        const bool befallen = whom == Whom::kAll || node == NodeId(2);
        return Befallen::tasks(config, befallen ? befalls(stop) : nothing);
      });
  REQUIRE_FALSE(ended.is_ok());
  return ended.status().message();
}

}  // namespace

// With on_nan: skip. Of one node, of its gradient or its loss; who has finite ones leaves them out as well, also who
// sees none of the part that is not.
TEST_CASE("a_sum_that_is_not_finite_is_left_out_by_all_and_the_next_one_is_a_step") {
  const auto [threads, of_loss, shards] =
      GENERATE(table<std::uint32_t, bool, bool>({{1U, true, false}, {2U, false, false}, {1U, false, true}}));
  RunConfig config = summing(Algorithm::kBinaryBlocks, 3, threads);
  config.exchange.shard_optimizer = shards;
  config.train.on_nan = OnNan::kSkip;
  config.train.optimizer.kind = OptimizerKind::kAdam;
  Records records(3);
  const auto ended = testing::run_cluster(
      config, [&](NodeId node, const testing::StopNode&) -> std::unique_ptr<TaskFactory> {
        if (node != NodeId(2)) return records.make(config, node);
        return Befallen::tasks(
            config,
            [of_loss = of_loss](std::span<float> gradient) {
              if (!of_loss) gradient[gradient.size() - 3] = std::numeric_limits<float>::infinity();
              return Status::ok();
            },
            of_loss ? Befallen::Loss::kNan : Befallen::Loss::kAsItIs);
      });
  INFO(ended.status().message());
  REQUIRE(ended.is_ok());
  const std::uint32_t workers = config.cluster.cluster().workers();
  CHECK(ended->summary.status == "ok");
  CHECK(ended->summary.skipped == workers);
  CHECK(ended->summary.iterations == config.train.total_iterations - workers);
  CHECK(ended->summary.final_version == Version(20));
  REQUIRE(records.of(0).size() == 20 * threads);
  if (threads > 1) return;  // whose steps are recorded as they come
  for (std::size_t clock = 0; clock < 20; ++clock) {
    REQUIRE(same_floats(records.of(1)[clock], records.of(0)[clock]));
    if (clock > 0) CHECK(same_floats(records.of(0)[clock], records.of(0)[clock - 1]) == (clock == 8));
  }
}

// The run ends, whoever hears of it first and how: no node waits in a sum that never comes.
TEST_CASE("a_node_that_is_lost_is_named_and_none_hangs") {
  const auto algorithm = GENERATE(Algorithm::kRing, Algorithm::kBinaryBlocks, Algorithm::kTorus);
  RunConfig config = summing(algorithm, 4);
  config.exchange.on_loss = OnLoss::kStop;
  SECTION("it leaves") {
    const std::string why = why_it_failed(config, [](const testing::StopNode& stop) {
      return [stop](std::span<float>) {
        stop(NodeId(2), "it has enough");
        return Status::ok();
      };
    });
    CHECK_THAT(why, Catch::Contains("node 2"));
  }
  SECTION("its task fails") {
    const std::string why = why_it_failed(config, [](const testing::StopNode&) {
      return [](std::span<float>) { return internal_error("the task has failed"); };
    });
    CHECK_THAT(why, Catch::Contains("node 2"));
  }
}

// At clock 7, with its gradient in no sum.
TEST_CASE("those_that_are_left_of_an_all_reduce_end_the_run_with_the_same_bits") {
  const auto [algorithm, lost] = GENERATE(table<Algorithm, std::uint32_t>(
      {{Algorithm::kHalvingDoubling, 0U}, {Algorithm::kTorus, 2U}, {Algorithm::kAuto, 3U}}));
  RunConfig config = summing(algorithm, 4);
  config.exchange.shard_optimizer = GENERATE(false, true);
  CAPTURE(static_cast<int>(algorithm), lost, config.exchange.shard_optimizer);
  const testing::TempFolder folder;
  if (lost == 3) {  // whose next formation has another key
    config.security.keys = (folder.path() / "keys").string();
    REQUIRE(wire::make_keys(config.security.keys, std::nullopt).is_ok());
  }
  const NodeId victim(lost);
  Records records(4);
  const auto ended = testing::run_cluster(
      config, [&](NodeId node, const testing::StopNode&) -> std::unique_ptr<TaskFactory> {
        if (node != victim) return records.make(config, node);
        return Befallen::tasks(config,
                               [](std::span<float>) { return internal_error("the task has failed"); });
      });
  INFO(ended.status().message());
  REQUIRE(ended.is_ok());
  CHECK(ended->summary.status == "ok");
  REQUIRE(ended->summary.lost.size() == 1);
  CHECK_THAT(ended->summary.lost.front(), Catch::Matchers::StartsWith("node " + std::to_string(lost) + ": "));
  // 80 iterations: 7 steps of four, then 17 of three; one is left over.
  CHECK(ended->summary.final_version == Version(24));
  CHECK(ended->summary.iterations == 79);
  const std::uint32_t first = lost == 0 ? 1 : 0;
  for (std::uint32_t node = 0; node < 4; ++node) {
    if (NodeId(node) == victim) continue;
    REQUIRE(records.of(node).size() == 24);
    for (std::size_t clock = 0; clock < 24; ++clock) {
      REQUIRE(same_floats(records.of(node)[clock], records.of(first)[clock]));
    }
  }
}

TEST_CASE("a_gradient_that_is_not_finite_ends_the_run_and_names_its_worker") {
  const std::string why = why_it_failed(summing(Algorithm::kRing, 3), [](const testing::StopNode&) {
    return [](std::span<float> gradient) {
      gradient[3] = std::numeric_limits<float>::quiet_NaN();
      return Status::ok();
    };
  });
  CHECK_THAT(why, Catch::Contains("worker 2.0 at clock 7: not finite"));
}

// Two are divided before, and their mean is finite. At this rate so is a step by it.
TEST_CASE("gradients_that_are_finite_and_whose_sum_is_not_end_the_run_but_where_they_are_divided_before") {
  const auto huge = [](float value) {
    return [value](const testing::StopNode&) {
      return [value](std::span<float> gradient) {
        gradient[3] = value;
        return Status::ok();
      };
    };
  };
  RunConfig config = summing(Algorithm::kRing, 3);
  config.train.optimizer.lr = 1e-38;
  const std::string why = why_it_failed(config, huge(3e38F), Whom::kAll);
  CHECK_THAT(why, Catch::Contains("the sum of all gradients is not finite: gradient of "));
  float value = 3e38F;
  SECTION("by two") { config = summing(Algorithm::kRing, 2); }
  SECTION("by three, of what has the range of fp16") {
    config.cluster.gradient_encoding = Encoding::kFp16;
    value = 40'000.0F;  // three of them are more than 65,504
  }
  config.train.optimizer.lr = 1e-38;
  const auto ended = testing::run_cluster(
      config, [&](NodeId, const testing::StopNode& stop) -> std::unique_ptr<TaskFactory> {
        return Befallen::tasks(config, huge(value)(stop));
      });
  INFO(ended.status().message());
  CHECK(ended.is_ok());
}

}  // namespace paceline::test
