// Training mode: the bits are those of the daemons, every gradient is computed with the parameters that its
// worker had at that time, and what is computed takes nothing of the virtual time that is assumed.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <span>

#include "common/fnv1a.h"
#include "simulate/training.h"
#include "tests/process/counting_task.h"
#include "tests/process/network_run.h"
#include "tests/unit/recorded_training.h"
#include "tests/unit/training_fixture.h"
#include "worker/network_task.h"

namespace paceline::test {
namespace {

using Catch::Contains;
using simulate::Outcome;
using testing::CountingFactory;
using testing::CountingOptions;
using testing::PlainOptimizer;

void check_equals_real(const RunConfig& config) {
  const Outcome simulated = trained(config);
  const testing::ClusterRun real = testing::run_network(config);
  REQUIRE(simulated.model);
  CHECK(same_floats(simulated.model->parameters, real.model.parameters));
  CHECK(simulated.model->info.version == real.model.info.version);
  CHECK(simulated.model->info.revision == real.model.info.revision);
  CHECK(simulated.summary.test_accuracy == real.summary.test_accuracy);
  CHECK(simulated.summary.test_loss == real.summary.test_loss);
  CHECK(simulated.summary.iterations == real.summary.iterations);
  REQUIRE_FALSE(simulated.curve.empty());
  CHECK(simulated.curve.back().test_loss == real.summary.test_loss);
  CHECK(simulated.curve.back().iterations == real.summary.iterations);
}

CountingOptions counting_options(const RunConfig& config, std::int64_t blocks = 3) {
  CountingOptions options;
  options.cluster = config.cluster.cluster();
  options.blocks = blocks;
  return options;
}

}  // namespace

TEST_CASE("a_simulated_bsp_run_ends_with_the_very_bits_of_the_real_one") {
  struct Case {
    std::uint32_t nodes, threads, shards;
    OptimizerKind optimizer = OptimizerKind::kSgd;
    CombineMode combine = CombineMode::kMean;
    Encoding gradients = Encoding::kFp32;
    Encoding parameters = Encoding::kFp32;
    std::int64_t local_steps = 1;
  };
  const auto each = GENERATE(
      Case{2, 2, 1}, Case{2, 2, 3, OptimizerKind::kMomentum}, Case{4, 1, 3, OptimizerKind::kAdam},
      Case{2, 2, 2, OptimizerKind::kAdam, CombineMode::kEach},
      Case{2, 2, 3, OptimizerKind::kSgd, CombineMode::kMean, Encoding::kFp16, Encoding::kBf16},
      Case{2, 2, 2, OptimizerKind::kSgd, CombineMode::kMean, Encoding::kInt8, Encoding::kFp16},
      Case{2, 1, 2, OptimizerKind::kMomentum, CombineMode::kMean, Encoding::kTopK, Encoding::kFp32},
      Case{2, 2, 2, OptimizerKind::kMomentum, CombineMode::kMean, Encoding::kInt8, Encoding::kFp16, 4});
  CAPTURE(each.nodes, each.threads, each.shards, static_cast<int>(each.optimizer),
          static_cast<int>(each.gradients));
  RunConfig config = with_policy(training_config(each.nodes, each.threads, each.shards), PolicyKind::kBsp,
                                 ApplyMode::kVersioned, each.combine);
  config.train.optimizer.kind = each.optimizer;
  config.train.optimizer.lr = each.optimizer == OptimizerKind::kAdam ? 0.001 : 0.05;
  config.train.optimizer.schedule.kind = ScheduleKind::kCosine;
  config.train.optimizer.schedule.warmup_versions = 5;
  config.train.eval_every_clocks = 6;  // the final model is not one of them
  config.cluster.gradient_encoding = each.gradients;
  config.cluster.parameter_encoding = each.parameters;
  if (each.gradients == Encoding::kTopK) config.cluster.top_k_share = 0.1;
  if (each.local_steps > 1) {
    config = with_local_steps(config, each.local_steps);
    config.train.optimizer.nesterov = true;
    config.train.warm_start_steps = 3;
    config.train.eval_every_clocks = 2;
  }
  check_equals_real(config);
}

// The bits themselves, so that whoever rearranges the step of a worker or a server keeps them. They depend on the
// C library's exp and log in the last place: where another one is used, and nothing else has changed, the digests
// here are to be replaced.
TEST_CASE("a_bsp_run_ends_with_the_very_bits_of_former_releases") {
  struct Case {
    OptimizerKind optimizer;
    CombineMode combine;
    std::uint64_t digest;
  };
  const auto each = GENERATE(Case{OptimizerKind::kSgd, CombineMode::kMean, 0x3c14a6734f97facf},
                             Case{OptimizerKind::kSgd, CombineMode::kEach, 0xa21c96b83d3a82c5},
                             Case{OptimizerKind::kMomentum, CombineMode::kMean, 0x64f8236c3a29b0fd});
  CAPTURE(static_cast<int>(each.optimizer), static_cast<int>(each.combine));
  RunConfig config =
      with_policy(training_config(2, 2, 2), PolicyKind::kBsp, ApplyMode::kVersioned, each.combine);
  config.train.optimizer.kind = each.optimizer;
  const auto digest = [](const std::vector<float>& floats) {
    const auto bytes = std::as_bytes(std::span(floats));
    return fnv1a({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  };
  const Outcome simulated = trained(config);
  REQUIRE(simulated.model);
  CHECK(digest(simulated.model->parameters) == each.digest);
  CHECK(digest(testing::run_network(config).model.parameters) == each.digest);
}

TEST_CASE("so_does_one_worker_under_ssp_where_timing_decides_nothing") {
  RunConfig config =
      with_policy(training_config(1, 1, 2), PolicyKind::kSsp, ApplyMode::kVersioned, CombineMode::kMean);
  config.sync.threshold = 3;
  config.train.backend = Backend::kOnednn;
  check_equals_real(config);
}

TEST_CASE("one_worker_under_asp_is_a_plain_loop") {
  RunConfig config = with_policy(training_config(1, 1), PolicyKind::kAsp, ApplyMode::kEager);
  config.sync.pull_order = GENERATE(PullOrder::kBeforePush, PullOrder::kAfterPush);
  config.simulate.network.latency = std::chrono::milliseconds(250);  // parameters are after all the time
  const Outcome run = trained(config);
  const auto tasks = make_network_tasks(config);
  REQUIRE(tasks.is_ok());
  const auto task = (*tasks)->make_trainer(WorkerId(0, 0));
  REQUIRE(task.is_ok());
  std::vector<float> parameters(static_cast<std::size_t>((*tasks)->layout().size()));
  std::vector<float> gradient(parameters.size());
  (*tasks)->initialize(parameters);
  PlainOptimizer sgd(config.train.optimizer, parameters.size());
  for (std::int64_t i = 0; i < config.train.total_iterations; ++i) {
    Step step;
    step.iteration = i;
    step.batch = {i * config.train.batch_size, config.train.batch_size};
    REQUIRE((*task)->load(step).is_ok());
    REQUIRE((*task)->compute(parameters, gradient, whole_at_the_end).is_ok());
    sgd.apply(parameters, gradient, config.train.optimizer.lr);
  }
  REQUIRE(run.model);
  CHECK(same_floats(run.model->parameters, parameters));
}

TEST_CASE("every_gradient_is_computed_with_the_parameters_that_its_worker_had_then") {
  struct Case {
    PolicyKind policy;
    ApplyMode apply;
    CombineMode combine;
    std::optional<std::int64_t> refresh = 1;
    PullOrder pull_order = PullOrder::kAuto;
  };
  const auto each =
      GENERATE(Case{PolicyKind::kSsp, ApplyMode::kVersioned, CombineMode::kEach},
               Case{PolicyKind::kSsp, ApplyMode::kVersioned, CombineMode::kEach, std::nullopt},
               Case{PolicyKind::kSsp, ApplyMode::kVersioned, CombineMode::kMean, std::nullopt},
               Case{PolicyKind::kSsp, ApplyMode::kEager, CombineMode::kEach},
               Case{PolicyKind::kSsp, ApplyMode::kEager, CombineMode::kEach, 1, PullOrder::kAfterPush},
               Case{PolicyKind::kAsp, ApplyMode::kEager, CombineMode::kEach},
               Case{PolicyKind::kAsp, ApplyMode::kEager, CombineMode::kEach, 1, PullOrder::kAfterPush});
  CAPTURE(static_cast<int>(each.policy), static_cast<int>(each.apply), static_cast<int>(each.combine),
          static_cast<int>(each.pull_order));
  RunConfig config = with_policy(training_config(3, 2), each.policy, each.apply, each.combine);
  if (each.policy == PolicyKind::kSsp) config.sync.threshold = 3;
  config.sync.refresh_clocks = each.refresh;
  config.sync.pull_order = each.pull_order;
  config.simulate.compute.slowdown = {1, 1.5, 2};
  config.simulate.network.server_bandwidth = 200'000;  // answers are on their way for a while
  RecordingTasks tasks(config);
  Decisions decisions;
  const Outcome run = watched(config, tasks, decisions);

  PlainServer server(config, tasks, tasks.reads(), decisions.applied);
  const std::int64_t averaged = each.combine == CombineMode::kMean ? 6 * config.train.batch_size : 0;
  std::int64_t own = 0;  // gradients that were added again
  std::int64_t wrong = 0;
  std::map<WorkerId, Revision> read;
  for (const Read& each_read : tasks.reads()) {
    const Step& step = each_read.step;
    const auto expected = server.read(step, config.train.optimizer.lr, averaged, own);
    wrong += same_floats(each_read.parameters, expected) ? 0 : 1;
    CHECK(step.version >= step.min_version);
    CHECK(step.revision >= read[step.worker]);
    read[step.worker] = step.revision;
  }
  CHECK(wrong == 0);
  CHECK(own > 0);
  CHECK(std::ssize(tasks.reads()) == config.train.total_iterations);
  REQUIRE(run.model);
  CHECK(same_floats(run.model->parameters, server.states.rbegin()->second));
}

// Sync-Switch: four times the learning rate for the mean of four, then each gradient by itself. After BSP
// nothing is on its way, so what everybody computes with is known to the bit on both sides of the switch.
TEST_CASE("bsp_then_asp_averages_each_clock_and_then_applies_each_gradient_by_itself") {
  RunConfig config =
      with_policy(training_config(2, 2), PolicyKind::kSwitch, ApplyMode::kVersioned, CombineMode::kMean);
  config.sync.stages.resize(2);
  config.sync.stages[0].policy = PolicyKind::kBsp;
  config.sync.stages[0].lr_scale = 4.0;
  config.sync.stages[0].until = {StageEnd::kProgress, 0.25};
  config.sync.stages[1].policy = PolicyKind::kAsp;
  config.simulate.compute.slowdown = {1, 2};
  config.simulate.network.server_bandwidth = 200'000;
  RecordingTasks tasks(config);
  Decisions decisions;
  const Outcome run = watched(config, tasks, decisions);

  const std::int64_t averaged = 5;  // clocks: a quarter of 20
  PlainServer server(config, tasks, tasks.reads(), decisions.applied);
  std::int64_t own = 0, wrong = 0;
  for (const Read& read : tasks.reads()) {
    const bool first = read.step.clock.value < averaged;
    const double lr = config.train.optimizer.lr * (first ? 4.0 : 1.0);
    const auto expected = server.read(read.step, lr, first ? 4 * config.train.batch_size : 0, own);
    wrong += same_floats(read.parameters, expected) ? 0 : 1;
    if (first) CHECK(read.step.version.value == read.step.clock.value);
  }
  CHECK(wrong == 0);
  CHECK(own > 0);
  CHECK(std::ssize(tasks.reads()) == config.train.total_iterations);
  const auto in_stage = [&](std::size_t stage) {
    return std::count_if(decisions.applied.begin(), decisions.applied.end(), [stage](const sync::Apply& a) {
      return a.stage == stage && !a.contributors.empty();
    });
  };
  CHECK(in_stage(0) == averaged);
  CHECK(in_stage(1) == config.train.total_iterations - 4 * averaged);
  REQUIRE(run.model);
  CHECK(same_floats(run.model->parameters, server.states.rbegin()->second));
  REQUIRE(run.summary.switches.size() == 2);
  CHECK(run.summary.switches[1].version == Version(averaged));
}

TEST_CASE("what_stale_gradients_become_is_the_same_in_a_simulated_run") {
  const auto kind = GENERATE(CompensationKind::kNone, CompensationKind::kConstant);
  CAPTURE(static_cast<int>(kind));
  RunConfig config = with_policy(training_config(3, 1, 2), PolicyKind::kAsp, ApplyMode::kEager);
  config.train.optimizer.delay_compensation = {kind, 0.5, 0.95};
  const bool inverse = kind == CompensationKind::kNone;
  if (inverse) config.train.optimizer.staleness = StalenessScaling::kInverse;
  config.simulate.compute.slowdown = {1, 1.5, 2};
  config.simulate.network.server_bandwidth = 200'000;
  RecordingTasks tasks(config);
  Decisions decisions;
  const Outcome run = watched(config, tasks, decisions);

  std::map<Own, const Read*> reads;
  for (const Read& read : tasks.reads()) reads[{read.step.worker, read.step.clock}] = &read;
  std::vector<float> now(static_cast<std::size_t>(tasks.layout().size()));
  tasks.initialize(now);
  PlainOptimizer sgd(config.train.optimizer, now.size());
  std::int64_t stale = 0;
  for (const sync::Apply& decision : decisions.applied) {
    for (const sync::Contributor& c : decision.contributors) {
      const Read& read = *reads.at({c.worker, c.clock});
      std::vector<float> gradient = read.gradient;
      for (std::size_t i = 0; i < gradient.size() && !inverse; ++i) {
        const float g = gradient[i];
        gradient[i] = g + 0.5F * g * (now[i] - read.parameters[i]) * g;
      }
      const double divisor = inverse && c.staleness > 1 ? static_cast<double>(c.staleness) : 1.0;
      sgd.apply(now, gradient, config.train.optimizer.lr / divisor);
      stale += c.staleness > 1 ? 1 : 0;
    }
  }
  CHECK(stale > 10);
  REQUIRE(run.model);
  CHECK(same_floats(run.model->parameters, now));
}

TEST_CASE("what_is_computed_takes_nothing_of_the_time_that_is_assumed") {
  const auto policy = GENERATE(PolicyKind::kBsp, PolicyKind::kSsp, PolicyKind::kAsp);
  CAPTURE(static_cast<int>(policy));
  RunConfig config = with_policy(training_config(3, 2, 3), policy,
                                 policy == PolicyKind::kAsp ? ApplyMode::kEager : ApplyMode::kVersioned);
  if (policy == PolicyKind::kSsp) config.sync.threshold = 2;
  config.simulate.network.server_bandwidth = 1'000'000;
  config.simulate.compute.slowdown = {1, 1.3, 1.6};
  config.simulate.events = {{std::chrono::milliseconds(700), 2, ClusterEventKind::kCrash}};
  config.cluster.lease = std::chrono::seconds(1);
  config.cluster.heartbeat = std::chrono::milliseconds(100);
  config.train.eval_every_clocks = 4;
  CountingFactory counting(counting_options(config, 500));
  config.train.optimizer.lr = 1.0;
  Decisions of_training;
  const Outcome training = watched(config, counting, of_training);

  config.simulate.mode = SimulateMode::kTiming;
  const auto plan = simulate::make_plan(config, nullptr, &counting.layout());
  REQUIRE(plan);
  simulate::TimedComputation computation(*plan);
  Decisions of_timing;
  const auto timing = simulate::World(*plan, computation, &of_timing).run();
  REQUIRE(timing);
  CHECK(of_training.used.size() > 50);
  CHECK(of_training.used == of_timing.used);  // versions, revisions and instants
  CHECK(training.events == timing->events);
  CHECK(training.summary.wall_seconds == timing->summary.wall_seconds);
  CHECK(training.summary.bytes_pulled == timing->summary.bytes_pulled);
  CHECK(training.summary.server_reads == timing->summary.server_reads);
  CHECK(training.summary.lost_nodes == 1);
  REQUIRE(training.phases.size() == timing->phases.size());
  for (std::size_t w = 0; w < training.phases.size(); ++w) {
    for (const Phase phase : {Phase::kBarrier, Phase::kPsParam, Phase::kPsApplyGrads, Phase::kComputeGrads}) {
      CHECK(training.phases[w].totals[phase].total_ns == timing->phases[w].totals[phase].total_ns);
    }
  }
}

// Under versioned application version v is every live worker's gradients stamped below v, and no others.
TEST_CASE("a_read_of_version_v_counts_v_of_everybody_and_all_of_its_own") {
  RunConfig config = with_policy(training_config(3, 2), PolicyKind::kSsp);
  config.sync.threshold = 3;
  config.train.optimizer.lr = 1.0;
  config.simulate.compute.slowdown = {1, 1.5, 2};
  const Cluster cluster = config.cluster.cluster();
  std::int64_t wrong = 0;
  std::int64_t stale = 0;
  CountingOptions options = counting_options(config);
  options.on_read = [&](const testing::Read& read) {
    for (std::size_t i = 0; i < read.counts.size(); ++i) {
      const bool own = i % cluster.workers() == cluster.rank_of(read.step.worker).value;
      const std::int64_t expected = own ? read.step.clock.value : read.step.version.value;
      const auto count = static_cast<std::int64_t>(read.counts[i]);
      wrong += count != expected ? 1 : 0;
      stale += count < read.step.clock.value ? 1 : 0;
    }
  };
  CountingFactory counting(options);
  const Outcome run = trained(config, &counting);
  CHECK(wrong == 0);
  CHECK(stale > 100);
  REQUIRE(run.model);
  for (const float count : run.model->parameters) CHECK(count == 20.0F);
}

TEST_CASE("a_gradient_of_a_node_that_crashes_is_in_all_shards_or_in_none") {
  const auto apply = GENERATE(ApplyMode::kVersioned, ApplyMode::kEager);
  RunConfig config = with_policy(training_config(3, 2, 3), PolicyKind::kSsp, apply);
  config.sync.threshold = 2;
  config.train.optimizer.lr = 1.0;
  config.train.total_iterations = 600;
  config.simulate.network.bandwidth = {2000};  // most of the time a push is on its way
  config.simulate.network.server_bandwidth = 20'000;
  config.cluster.lease = std::chrono::seconds(1);
  config.cluster.heartbeat = std::chrono::milliseconds(100);
  for (int at = 2000; at < 2600; at += 37) {
    config.simulate.events = {{std::chrono::milliseconds(at), 1, ClusterEventKind::kCrash}};
    CountingFactory counting(counting_options(config));
    const Outcome run = trained(config, &counting);
    CHECK(run.summary.lost_nodes == 1);
    CHECK(run.summary.iterations == 600);
    REQUIRE(run.model);
    const std::vector<float>& counts = run.model->parameters;
    for (std::size_t column = 0; column < 6; ++column) {
      CHECK(counts[column] == counts[column + 6]);
      CHECK(counts[column] == counts[column + 12]);
      const bool crashed = column == 2 || column == 3;
      CHECK((crashed ? counts[column] < 100.0F : counts[column] > 100.0F));  // what it leaves the others do
    }
  }
}

TEST_CASE("a_gradient_that_is_not_finite_is_left_out_or_ends_the_run_as_the_daemons_do") {
  RunConfig config = with_policy(training_config(2, 1, 2), PolicyKind::kSsp);
  config.sync.threshold = 2;
  config.train.optimizer.lr = 1.0;
  CountingOptions options = counting_options(config);
  options.is_not_finite = [](const Step& step) {
    return step.worker == WorkerId(1, 0) && step.clock == Clock(4);
  };
  config.train.on_nan = OnNan::kSkip;
  CountingFactory skips(options);
  const Outcome skipped = trained(config, &skips);
  CHECK(skipped.summary.status == "ok");
  CHECK(skipped.summary.skipped == 1);
  REQUIRE(skipped.model);
  for (std::size_t i = 0; i < skipped.model->parameters.size(); ++i) {
    CHECK(skipped.model->parameters[i] == (i % 2 == 1 ? 19.0F : 20.0F));
  }

  config.train.on_nan = OnNan::kStop;
  CountingFactory stops(options);
  const Outcome stopped = trained(config, &stops);
  CHECK(stopped.summary.status == "failed");
  CHECK_THAT(stopped.summary.reason,
             Contains("1.0") && Contains("not finite") && Contains("gradient of counts is nan"));
  CHECK_FALSE(stopped.summary.test_accuracy);
  CHECK(stopped.model);

  // What is not finite after a part that has left, as a delta that is finite, is named, too.
  config = with_local_steps(config, 2);
  config.train.inner_optimizer.kind = OptimizerKind::kSgd;
  config.train.inner_optimizer.lr = 0.5;
  config.exchange.hidden = true;
  config.exchange.fragments = 2;
  options.local_steps = 2;
  options.diverges = [](const Step& step) {
    return step.worker == WorkerId(1, 0) && step.clock == Clock(2) && step.local_step == 1;
  };
  CountingFactory diverges(options);
  CHECK_THAT(trained(config, &diverges).summary.reason, Contains("gradient of counts is nan"));
}

// Error feedback adds up to more than float32 holds: found by the shard, not by the worker.
TEST_CASE("what_only_the_encoding_makes_infinite_is_found_where_the_daemons_find_it") {
  RunConfig config = with_policy(training_config(2, 1, 2), PolicyKind::kBsp);
  config.cluster.gradient_encoding = Encoding::kTopK;
  config.cluster.top_k_share = 0.01;
  config.train.on_nan = OnNan::kSkip;
  config.train.skips_max = 1.0;  // most are
  CountingOptions options = counting_options(config, 8);
  options.gradient_scale = 2e38F;
  CountingFactory counting(options);
  const Outcome run = trained(config, &counting);
  CHECK(run.summary.status == "ok");
  CHECK(run.summary.skipped > 0);
  REQUIRE(run.model);
  CHECK_FALSE(first_non_finite(run.model->parameters));
}

TEST_CASE("a_task_that_fails_ends_the_simulation_and_says_where") {
  const RunConfig config = with_policy(training_config(2, 1), PolicyKind::kBsp);
  CountingOptions options = counting_options(config);
  options.before_compute = [](const Step& step) {
    return step.clock == Clock(3) ? data_loss("the disk is gone") : Status::ok();
  };
  CountingFactory counting(options);
  const auto run = simulate::simulate(config, {}, &counting);
  REQUIRE_FALSE(run);
  CHECK_THAT(run.status().message(), Contains("at clock 3") && Contains("the disk is gone"));
}

// The counting task says that it has computed from ten samples, whatever it is given.
TEST_CASE("so_does_a_task_that_counts_other_samples_than_were_granted_where_sizes_follow_speed") {
  RunConfig config =
      with_policy(training_config(2, 1), PolicyKind::kBsp, ApplyMode::kVersioned, CombineMode::kMean);
  config.train.batch_size = 16;
  CountingFactory counting(counting_options(config));
  CHECK(trained(config, &counting).summary.status == "ok");
  config.train.batch_balance = BatchSizing::kBySpeed;
  const auto run = simulate::simulate(config, {}, &counting);
  REQUIRE_FALSE(run);
  CHECK(run.status().code() == StatusCode::kInvalidArgument);
  CHECK_THAT(run.status().message(),
             Contains("at clock 0") && Contains("computed from 10 samples, expected 16 as granted"));
}

}  // namespace paceline::test
