// Runs of pipelines in virtual time: the rows of their plans, which nodes carry out, against the formula.
#include <algorithm>
#include <string>
#include <vector>

#include "common/network/network.h"
#include "common/network/stages.h"
#include "common/schedule/pipeline.h"
#include "tests/unit/simulate_fixture.h"
#include "tools/explain_waits.h"

namespace paceline::test {
namespace {

// Stages that are a convolution each, and equally much work.
std::vector<std::string> equal_stages(std::uint32_t stages, std::uint32_t micro_batches,
                                      const char* schedule) {
  std::string layers;
  std::string balance;
  for (std::uint32_t s = 0; s < stages; ++s) {
    layers += "{kind: conv, out: 3, kernel: 3}, ";
    balance += s + 1 < stages ? "1, " : "3";
  }
  return {"train.layers=[" + layers + "{kind: global_average_pool}, {kind: dense, out: 10}]",
          "pipeline.balance=[" + balance + "]",
          "pipeline.stages=" + std::to_string(stages),
          "pipeline.micro_batches=" + std::to_string(micro_batches),
          std::string("pipeline.schedule=") + schedule,
          "cluster.nodes=" + std::to_string(stages),
          "train.batch_size=8",
          "train.total_iterations=" + std::to_string(3 * stages)};
}

std::vector<std::string> with(std::vector<std::string> given, const std::vector<std::string>& more) {
  given.insert(given.end(), more.begin(), more.end());
  return given;
}

simulate::Outcome run(const std::vector<std::string>& overrides) {
  Result<simulate::SimulatedRun> ran = simulate::simulate(plain_config(overrides));
  INFO(ran.status().message());
  REQUIRE(ran.is_ok());
  return std::move(ran).value().outcome;
}

// Huang et al. 2018, section 2.3: (K - 1) / (M + K - 1).
TEST_CASE("a_simulated_pipeline_of_equal_stages_has_the_bubble_of_the_formula") {
  const char* const schedule = GENERATE("gpipe", "1f1b");
  for (const std::uint32_t stages : {4U, 8U, 16U}) {
    for (const std::uint32_t micro_batches : {stages, 4 * stages, 8 * stages}) {
      INFO(stages << " stages, " << micro_batches << " micro-batches, " << schedule);
      const simulate::Outcome outcome = run(equal_stages(stages, micro_batches, schedule));
      CHECK(outcome.summary.status == "ok");
      CHECK(outcome.summary.iterations == 3 * stages);
      REQUIRE(outcome.summary.pipeline);
      const double formula = schedule::bubble_formula(stages, micro_batches);
      CHECK(outcome.summary.pipeline->bubble_share == Approx(formula).epsilon(0.1));
      // A stage computes for as long as a worker did with the whole network: 100 ms.
      const double step = 0.1 * (micro_batches + stages - 1) / micro_batches;
      CHECK(outcome.summary.wall_seconds == Approx(3 * step).epsilon(0.01));
      check_accounted(outcome);
    }
  }
}

// Narayanan et al. 2021, section 2.2: (K - 1) / (v M + K - 1); and where messages take their time, v times as many do.
TEST_CASE("a_simulated_pipeline_of_chunks_has_a_smaller_bubble_and_more_messages") {
  for (const std::uint32_t micro_batches : {4U, 16U}) {
    const auto interleaved =
        with(equal_stages(8, micro_batches, "interleaved"),
             {"cluster.nodes=4", "pipeline.stages=4", "train.total_iterations=12", "train.batch_size=16"});
    const simulate::Outcome outcome = run(interleaved);
    REQUIRE(outcome.summary.pipeline);
    CHECK(outcome.summary.pipeline->chunks == 2);
    const double formula = schedule::bubble_formula(4, micro_batches, 2);
    CHECK(outcome.summary.pipeline->bubble_share == Approx(formula).epsilon(0.1));
    CHECK(outcome.summary.wall_seconds == Approx(3 * 0.1 / (1.0 - formula)).epsilon(0.02));
    check_accounted(outcome);
    // A micro-batch's way is through eight chunks and back.
    const simulate::Outcome far = run(with(interleaved, {"simulate.network.latency=10ms"}));
    CHECK(far.summary.wall_seconds > outcome.summary.wall_seconds + 3 * 14 * 0.01);
    const simulate::Outcome slow =
        run(with(interleaved, {"run.trace=true", "simulate.compute.slowdown=[1, 1, 3, 1]"}));
    const CauseCost cost = costs_of(waits_of(slow.recorded.value(), ExchangedBy::kServers, 4)).back();
    CHECK(cost.cause == WaitCause::kStage);
    CHECK(cost.workers.at(0).first == WorkerId(NodeId(2), 0));
    CHECK(3 * cost.workers[0].second > 2 * cost.total);
  }
}

TEST_CASE("what_a_simulated_stage_waits_for_costs_its_group_and_no_other_memory") {
  const auto plain = equal_stages(2, 4, "gpipe");
  const simulate::Outcome kept = run(plain);
  const simulate::Outcome again = run(with(plain, {"pipeline.rematerialize=on"}));
  // Three steps. The first stage waits for what comes back, the last for its first micro-batch. It has a dense layer
  // more.
  const PipelineSummary& stages = *kept.summary.pipeline;
  CHECK(stages.busy_seconds[0] == Approx(3 * 0.1).epsilon(0.01));
  CHECK((stages.idle_for_previous_seconds[0] == 0.0 && stages.idle_for_next_seconds[1] == Approx(0.0)));
  CHECK(stages.idle_for_next_seconds[0] == Approx(3 * 0.1 / 4).epsilon(0.01));
  CHECK(stages.idle_for_previous_seconds[1] == Approx(3 * 0.1 / 12).epsilon(0.01));
  // Two stages, all forward passes but the last micro-batch's once more; the first in the bubble.
  CHECK(again.summary.wall_seconds > 1.1 * kept.summary.wall_seconds);
  CHECK(again.summary.wall_seconds < 4.0 / 3.0 * kept.summary.wall_seconds);
  for (std::size_t s = 0; s < 2; ++s) {
    CHECK(again.summary.pipeline->peak_activation_bytes[s] < kept.summary.pipeline->peak_activation_bytes[s]);
  }
  // Messages are on their way twice as often as there are stages to pass, at least.
  const simulate::Outcome far = run(with(plain, {"simulate.network.latency=10ms"}));
  CHECK(far.summary.wall_seconds > kept.summary.wall_seconds + 3 * 0.02);
  // One slow node holds up its own group, and the other waits at the servers.
  const simulate::Outcome slow = run(with(
      plain, {"cluster.nodes=4", "train.total_iterations=12", "simulate.compute.slowdown=[1, 2, 1, 1]"}));
  CHECK(slow.summary.wall_seconds > 1.5 * kept.summary.wall_seconds);
  CHECK(barrier(slow, 2) > 1.5 * barrier(kept, 0));
  check_accounted(slow);
}

// Huang et al. 2018, section 3: what is kept more than halves, for a quarter more time.
TEST_CASE("rematerialisation_halves_what_twenty_layers_keep_for_less_than_a_third_more_time") {
  const auto deep = with(equal_stages(20, 8, "gpipe"),
                         {"cluster.nodes=2", "pipeline.stages=2", "pipeline.balance=[10, 12]"});
  const simulate::Outcome kept = run(deep);
  const simulate::Outcome again = run(with(deep, {"pipeline.rematerialize=on"}));
  CHECK(again.summary.wall_seconds <= 1.3 * kept.summary.wall_seconds);
  CHECK(again.summary.wall_seconds > 1.1 * kept.summary.wall_seconds);
  for (std::size_t s = 0; s < 2; ++s) {
    CHECK(2 * again.summary.pipeline->peak_activation_bytes[s] <=
          kept.summary.pipeline->peak_activation_bytes[s]);
  }
}

TEST_CASE("a_simulated_trace_has_the_passes_that_say_for_whom_stages_waited") {
  const simulate::Outcome outcome =
      run(with(equal_stages(3, 4, "gpipe"), {"run.trace=true", "simulate.compute.slowdown=[1, 1, 3]"}));
  const trace::Trace& traced = outcome.recorded.value();
  REQUIRE(traced.stages.size() == 3);
  for (const trace::StageSpans& stage : traced.stages) CHECK(stage.spans.size() == 3 * 2 * 4);
  const CauseCost cost = costs_of(waits_of(traced, ExchangedBy::kServers, 3)).back();
  CHECK(cost.cause == WaitCause::kStage);
  CHECK(cost.of_unknown.count() == 0);
  CHECK(cost.workers.at(0).first == WorkerId(NodeId(2), 0));
  CHECK(3 * cost.workers[0].second > 2 * cost.total);  // of stage 0, which is not beside it, too
}

// Of 84 and 124 parameters. Messages take 10 ms: one forward, one back, two of each sum, a report and a grant.
TEST_CASE("simulated_groups_sum_stage_by_stage_once_each_stage_has_ended") {
  const simulate::Outcome outcome =
      run(with(equal_stages(2, 1, "gpipe"),
               {"cluster.nodes=4", "train.total_iterations=12", "sync.policy=bsp", "exchange.kind=allreduce",
                "exchange.on_loss=stop", "exchange.algorithm=ring", "simulate.network.latency=10ms"}));
  CHECK(outcome.summary.wall_seconds == Approx(3 * (0.2 + 6 * 0.01)));
  CHECK(outcome.summary.bytes_reduced == 3 * 2 * (84 + 124) * 4);
  CHECK((outcome.summary.iterations == 12 && outcome.summary.final_version == Version(3)));
  check_accounted(outcome);
}

// Of 84 and 8494 parameters, at 20 us for each float that is added or applied: two and a half of them for each float.
TEST_CASE("a_simulated_stage_that_ends_first_begins_its_sum_before_the_others_end") {
  const simulate::Outcome outcome =
      run(with(equal_stages(2, 1, "gpipe"),
               {"train.layers=[{kind: conv, out: 3, kernel: 3}, {kind: conv, out: 3, kernel: 3}, {kind: "
                "global_average_pool}, {kind: dense, out: 600}, {kind: dense, out: 10}]",
                "pipeline.balance=[1, 4]", "cluster.nodes=4", "train.total_iterations=12", "sync.policy=bsp",
                "exchange.kind=allreduce", "exchange.on_loss=stop", "exchange.algorithm=ring",
                "simulate.network.latency=10ms", "simulate.costs.apply=20000"}));
  // Three steps of two groups. The first stage's way back comes after the end of the last one, and a message.
  const double way_back = 2.0 / 3.0 * outcome.summary.pipeline->busy_seconds[0] / 6.0;
  const double last_ends = 0.2 + 0.01 - way_back;
  const double sum = 2.5 * 8494 * 20e-6 + 2 * 0.01;
  CHECK(outcome.summary.wall_seconds == Approx(3 * (last_ends + sum + 2 * 0.01)).epsilon(0.001));
}

// All nodes are alike, and three layers have elements and no products.
TEST_CASE("a_simulated_stage_takes_its_share_of_products_and_elements") {
  const char* const layers =
      "train.layers=[{kind: conv, out: 3, kernel: 1}, {kind: relu}, {kind: relu}, {kind: relu}, {kind: conv, "
      "out: 3, kernel: 1}, {kind: global_average_pool}, {kind: dense, out: 10}]";
  const auto overrides = with(equal_stages(2, 4, "gpipe"), {layers, "pipeline.balance=[4, 3]"});
  const PipelineSummary ran = *run(overrides).summary.pipeline;
  CHECK(ran.layers == std::vector<std::int64_t>{4, 3});
  CHECK(ran.parameters == std::vector<std::int64_t>{12, 52});
  const std::vector<double>& busy = ran.busy_seconds;
  // Of each pixel 9 products and 12 elements, and 9 and 3.
  CHECK(busy[0] / busy[1] == Approx(21.0 / 12.0).epsilon(0.01));
}

// Twelve equal layers on nodes of which the last is twice as fast.
TEST_CASE("a_cut_by_speed_is_faster_than_an_equal_one") {
  const NetworkSpec network = [] {
    const auto twelve = equal_stages(12, 1, "1f1b");
    auto built = build_network(plain_config(twelve));
    REQUIRE(built.is_ok());
    return std::move(built).value();
  }();
  std::vector<double> costs(network.layers.size(), 0.0);
  std::fill_n(costs.begin(), 12, 1.0);
  const std::vector<double> speeds = {1.0, 1.0, 2.0};
  const auto wall = [&](const std::vector<double>& by_speeds) {
    const auto cut = cut_by_costs(network, costs, 3, by_speeds);
    REQUIRE(cut.is_ok());
    std::string balance;
    for (const StageSpec& stage : *cut)
      balance += (balance.empty() ? "" : ", ") + std::to_string(stage.last - stage.first);
    return run(with(equal_stages(12, 48, "1f1b"),
                    {"cluster.nodes=3", "pipeline.stages=3", "pipeline.balance=[" + balance + "]",
                     "train.batch_size=16", "simulate.compute.mean=1s",
                     "simulate.compute.slowdown=[2, 2, 1]"}))
        .summary.wall_seconds;
  };
  CHECK(wall({}) > 1.3 * wall(speeds));
}

TEST_CASE("what_a_simulation_of_stages_does_not_go_with_is_refused") {
  const auto refusal = [](const std::vector<std::string>& more) {
    return simulate::simulate(plain_config(with(equal_stages(2, 4, "1f1b"), more))).status().message();
  };
  CHECK_THAT(refusal({"simulate.mode=training"}),
             Catch::Matchers::StartsWith("simulate.mode: stages train as"));
  CHECK_THAT(refusal({"simulate.events=[{at: 1s, node: 0, kind: crash}]"}),
             Catch::Matchers::StartsWith("simulate.events: a pipeline ends with"));
  CHECK_THAT(simulate::simulate(plain_config(equal_stages(2, 4, "1f1b")), "runs/none").status().message(),
             Catch::Matchers::StartsWith("pipeline.stages: a trace has no times of the whole network"));
}

}  // namespace
}  // namespace paceline::test
