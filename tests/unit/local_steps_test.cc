// Rounds of local steps: what they are, written out as plain loops without any server, and which way the outer
// step goes.
#include "worker/train/local_steps.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tests/process/counting_task.h"
#include "tests/unit/local_run.h"
#include "tests/unit/optimizer_plain.h"
#include "tests/unit/training_fixture.h"
#include "worker/network_task.h"
#include "worker/train/warm_start.h"

namespace paceline::test {
namespace {

using testing::CountingFactory;
using testing::CountingOptions;
using testing::PlainOptimizer;

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = a.size() == b.size() ? 0.0 : INFINITY;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    largest = std::max(largest, std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  return largest;
}

OptimizerSection optimizer_of(OptimizerKind kind, double lr, bool nesterov = false) {
  OptimizerSection optimizer;
  optimizer.kind = kind;
  optimizer.lr = lr;
  optimizer.nesterov = nesterov;
  return optimizer;
}

// K workers of a run under bsp, each a plain loop with an optimizer of its own, and no server anywhere.
class PlainWorkers {
 public:
  explicit PlainWorkers(const RunConfig& config)
      : config_(config), tasks_(made_tasks(config)), begin_(LocalRun::initial(*tasks_)) {
    for (std::uint32_t r = 0; r < config.cluster.cluster().workers(); ++r) {
      auto task = tasks_->make_trainer(config.cluster.cluster().worker_at(Rank(r)));
      REQUIRE(task.is_ok());
      workers_.push_back(
          {std::move(task).value(), PlainOptimizer(config.train.inner_optimizer, begin_.size())});
    }
  }

  const std::vector<float>& begin() const { return begin_; }
  // Where each worker stands after its local steps of round `clock` from `from` on.
  std::vector<std::vector<float>> ends(std::int64_t clock, const std::vector<float>& from) {
    return ends(clock, std::vector<std::vector<float>>(workers_.size(), from));
  }
  // The same, each from its own. `after`: called after each step of each worker, with how many it has done.
  using After = std::function<void(std::size_t worker, std::int64_t steps, const std::vector<float>& at)>;
  std::vector<std::vector<float>> ends(std::int64_t clock, const std::vector<std::vector<float>>& from,
                                       const After& after = {}) {
    const TrainSection& train = config_.train;
    std::vector<float> gradient(begin_.size());
    std::vector<std::vector<float>> ends;
    for (std::size_t r = 0; r < workers_.size(); ++r) {
      std::vector<float> at = from[r];
      const std::int64_t round = clock * std::ssize(workers_) + static_cast<std::int64_t>(r);
      for (std::int64_t n = 0; n < train.local_steps; ++n) {
        Step step;
        step.batch = {(round * train.local_steps + n) * train.batch_size, train.batch_size};
        REQUIRE(workers_[r].task->load(step).is_ok());
        REQUIRE(workers_[r].task->compute(at, gradient, whole_at_the_end).is_ok());
        workers_[r].inner.apply(at, gradient, train.inner_optimizer.lr);
        if (after) after(r, n + 1, at);
      }
      ends.push_back(std::move(at));
    }
    return ends;
  }

 private:
  static std::unique_ptr<TaskFactory> made_tasks(const RunConfig& config) {
    auto tasks = make_network_tasks(config);
    REQUIRE(tasks.is_ok());
    return std::move(tasks).value();
  }
  struct Worker {
    std::unique_ptr<Task> task;
    PlainOptimizer inner;
  };
  const RunConfig& config_;
  const std::unique_ptr<TaskFactory> tasks_;
  const std::vector<float> begin_;
  std::vector<Worker> workers_;
};

std::vector<float> mean(const std::vector<std::vector<float>>& vectors) {
  std::vector<float> mean(vectors.front().size());
  for (std::size_t i = 0; i < mean.size(); ++i) {
    double sum = 0.0;
    for (const auto& vector : vectors) sum += vector[i];
    mean[i] = static_cast<float>(sum / static_cast<double>(vectors.size()));
  }
  return mean;
}

// Three workers under bsp, averaged.
RunConfig averaging(std::int64_t local_steps, OptimizerSection inner, OptimizerSection outer) {
  RunConfig config = with_local_steps(
      with_policy(training_config(1, 3), PolicyKind::kBsp, ApplyMode::kVersioned, CombineMode::kMean),
      local_steps);
  config.train.inner_optimizer = inner;
  config.train.optimizer = outer;
  return config;
}

std::vector<float> trained_locally(const RunConfig& config) {
  auto tasks = make_network_tasks(config);
  REQUIRE(tasks.is_ok());
  LocalRun run(config, **tasks);
  CHECK(run.run() == config.train.total_iterations);
  return run.exchange.parameters();
}

}  // namespace

TEST_CASE("a_delta_is_what_all_steps_of_a_round_have_taken_away_and_has_a_gradient_s_sign") {
  Layout layout;
  REQUIRE(layout.add("w", {1}).is_ok());
  LocalSteps steps(optimizer_of(OptimizerKind::kSgd, 0.5), layout);
  const std::vector<float> begin{10.0F};
  std::vector<float> delta(1);
  steps.begin(begin);
  steps.step(std::vector<float>{2.0F}, 0.5);
  CHECK(steps.parameters()[0] == 9.0F);
  steps.step(std::vector<float>{4.0F}, 0.5);
  CHECK(steps.parameters()[0] == 7.0F);
  steps.delta(begin, delta);
  CHECK(delta[0] == 3.0F);
}

// As local_steps.h says: two parameters, of which the second is cut in mid-round; sgd, rate 1.
TEST_CASE("what_steps_add_to_a_part_that_is_cut_stays_and_is_in_the_next_delta") {
  Layout layout;
  REQUIRE(layout.add("a", {1}).is_ok());
  REQUIRE(layout.add("b", {1}).is_ok());
  LocalSteps steps(optimizer_of(OptimizerKind::kSgd, 1.0), layout);
  const auto step = [&](float by) { steps.step(std::vector<float>{by, by}, 1.0); };
  std::vector<float> begin{10.0F, 10.0F};
  std::vector<float> delta(2);
  steps.begin(begin);
  step(1.0F);
  steps.cut({1, 2}, begin, delta);
  CHECK((delta[1] == 1.0F && steps.uncut() == 1));
  step(2.0F);
  steps.delta(begin, delta);
  CHECK((delta[0] == 3.0F && delta[1] == 1.0F));
  begin = {9.5F, 9.5F};
  steps.begin(begin);
  CHECK((steps.parameters()[0] == 9.5F && steps.parameters()[1] == 7.5F && steps.uncut() == 2));
  step(0.5F);
  steps.cut({1, 2}, begin, delta);
  CHECK(delta[1] == 2.5F);
  step(8.0F);
  steps.forget();
  steps.begin(begin);
  CHECK((steps.parameters()[0] == 9.5F && steps.parameters()[1] == 9.5F));
}

// Two measurements, 4 and 8, each a quarter of the way: 0 -> 1 -> 2.75.
TEST_CASE("of_a_buffer_the_delta_is_what_the_steps_have_made_of_it") {
  Layout layout;
  REQUIRE(layout.add("w", {1}).is_ok());
  REQUIRE(layout.add("mean", {1}, {.role = TensorRole::kBuffer, .lr_factor = 0.25}).is_ok());
  LocalSteps steps(optimizer_of(OptimizerKind::kSgd, 0.5), layout);
  const std::vector<float> begin{10.0F, 0.0F};
  std::vector<float> delta(2);
  steps.begin(begin);
  steps.step(std::vector<float>{2.0F, 4.0F}, 0.5);
  steps.step(std::vector<float>{4.0F, 8.0F}, 0.5);
  steps.delta(begin, delta);
  CHECK(delta == std::vector<float>{3.0F, 2.75F});
}

TEST_CASE("the_inner_optimizer_s_state_stays_over_rounds_until_it_is_to_be_forgotten") {
  Layout layout;
  REQUIRE(layout.add("w", {1}).is_ok());
  LocalSteps steps(optimizer_of(OptimizerKind::kMomentum, 1.0), layout);  // momentum 0.9
  const std::vector<float> begin{0.0F};
  const std::vector<float> gradient{1.0F};
  const auto first_step = [&] {
    steps.begin(begin);
    steps.step(gradient, 1.0);
    return steps.parameters()[0];
  };
  CHECK(first_step() == -1.0F);
  CHECK(first_step() == -1.9F);
  steps.forget();
  CHECK(first_step() == -1.0F);
}

TEST_CASE("k_workers_with_local_steps_are_k_plain_loops_averaged") {
  const auto inner =
      GENERATE(optimizer_of(OptimizerKind::kSgd, 0.05), optimizer_of(OptimizerKind::kMomentum, 0.02, true),
               optimizer_of(OptimizerKind::kAdam, 0.001));
  CAPTURE(static_cast<int>(inner.kind));
  const RunConfig config = averaging(5, inner, optimizer_of(OptimizerKind::kSgd, 1.0));
  PlainWorkers plain(config);
  std::vector<float> expected = plain.begin();
  for (std::int64_t clock = 0; clock < 4; ++clock) expected = mean(plain.ends(clock, expected));
  CHECK(largest_difference(trained_locally(config), expected) < 1e-6);
  CHECK(largest_difference(plain.begin(), expected) > 1e-3);  // it has learned something
}

constexpr std::int64_t kHiddenRounds = 5;

// Three nodes as fast as each other, rounds of 400 ms, an exchange of less than one.
RunConfig hiding(std::int64_t fragments, std::chrono::milliseconds latency) {
  RunConfig config =
      averaging(4, optimizer_of(OptimizerKind::kMomentum, 0.02), optimizer_of(OptimizerKind::kSgd, 1.0));
  config.cluster.nodes = 3;
  config.cluster.threads_per_node = 1;
  config.sync.policy = PolicyKind::kSsp;
  config.sync.threshold = 1;
  config.exchange.hidden = true;
  config.exchange.fragments = fragments;
  config.train.total_iterations = kHiddenRounds * 3 * 4;
  config.simulate.compute.distribution = ComputeKind::kConstant;
  config.simulate.network.latency = latency;
  return config;
}

TEST_CASE("a_hidden_exchange_is_one_round_ahead_and_takes_no_time") {
  RunConfig config = hiding(1, std::chrono::milliseconds(150));
  const simulate::Outcome hidden = trained(config);
  CHECK(hidden.summary.max_grant_gap == Staleness(1));
  // Five rounds of 400 ms and, at the end, what nothing hides.
  CHECK(hidden.summary.wall_seconds < 5 * 0.4 + 0.8);
  config.exchange.hidden = false;
  CHECK(trained(config).summary.wall_seconds > 5 * 0.4 + 4 * 0.3);
}

// Every round begins with the version before the last one and, of the last deltas, with the own one's share: the
// others' are on their way. Each fragment's delta is of its own place in the round on: what its steps add after that is
// in the next one, and in the worker's parameters all the while. A worker's last round leaves whole.
TEST_CASE("fragments_of_a_hidden_exchange_have_deltas_from_their_own_places_on_and_lose_nothing") {
  const std::int64_t count = GENERATE(1, 2, 3, 4);
  CAPTURE(count);
  const RunConfig config = hiding(count, std::chrono::milliseconds(90));
  const simulate::Outcome run = trained(config);

  PlainWorkers plain(config);
  const std::size_t floats = plain.begin().size();
  const std::vector<Range> fragments = partition(std::ssize(plain.begin()), config.exchange.fragments);
  // After so many of the four steps, of the fragments from the last one on.
  const std::vector<std::int64_t> places = count == 1   ? std::vector<std::int64_t>{4}
                                           : count == 2 ? std::vector<std::int64_t>{2, 4}
                                           : count == 3 ? std::vector<std::int64_t>{1, 2, 4}
                                                        : std::vector<std::int64_t>{1, 2, 3, 4};
  std::vector<float> version = plain.begin();
  std::vector<std::vector<float>> from(3, version);                     // without what is below
  std::vector<std::vector<float>> more(3, std::vector<float>(floats));  // of the round before, not sent
  for (std::int64_t clock = 0; clock < kHiddenRounds; ++clock) {
    std::vector<std::vector<float>> at = from;
    for (std::size_t r = 0; r < 3; ++r) {
      for (std::size_t i = 0; i < floats; ++i) at[r][i] += more[r][i];
    }
    std::vector<std::vector<float>> cut(3, std::vector<float>(floats));
    const auto ends =
        plain.ends(clock, at, [&](std::size_t r, std::int64_t done, const std::vector<float>& now) {
          for (std::size_t n = 0; n < places.size(); ++n) {
            const Range& part = fragments[fragments.size() - 1 - n];
            if (done != (clock + 1 == kHiddenRounds ? 4 : places[n])) continue;
            std::copy(now.begin() + part.begin, now.begin() + part.end, cut[r].begin() + part.begin);
          }
        });
    std::vector<float> next = version;
    for (std::size_t r = 0; r < 3; ++r) {
      for (std::size_t i = 0; i < floats; ++i) {
        const float share = (from[r][i] - cut[r][i]) / 3.0F;
        next[i] -= share;
        from[r][i] = version[i] - share;
        more[r][i] = ends[r][i] - cut[r][i];
      }
    }
    version = next;
  }
  REQUIRE(run.model);
  CHECK(largest_difference(run.model->parameters, version) < 1e-6);
  CHECK(run.summary.iterations == config.train.total_iterations);
  CHECK(run.summary.wall_seconds < 5 * 0.4 + 0.8);
}

// v <- mu v + d;  theta <- theta - lr (d + mu v), with d = theta - mean of where the workers got to.
TEST_CASE("the_outer_step_is_nesterov_s_on_the_mean_of_the_deltas_and_goes_where_the_workers_went") {
  RunConfig config = averaging(4, optimizer_of(OptimizerKind::kMomentum, 0.02),
                               optimizer_of(OptimizerKind::kMomentum, 0.7, true));
  config.train.optimizer.momentum = 0.9;
  const std::int64_t rounds = GENERATE(1, 5);
  config.train.total_iterations = rounds * 3 * config.train.local_steps;
  PlainWorkers plain(config);
  std::vector<float> theta = plain.begin();
  std::vector<double> v(theta.size());
  for (std::int64_t clock = 0; clock < rounds; ++clock) {
    const std::vector<float> got_to = mean(plain.ends(clock, theta));
    for (std::size_t i = 0; i < theta.size(); ++i) {
      const double d = static_cast<double>(theta[i]) - static_cast<double>(got_to[i]);
      v[i] = 0.9 * v[i] + d;
      theta[i] = static_cast<float>(static_cast<double>(theta[i]) - 0.7 * (d + 0.9 * v[i]));
    }
  }
  const std::vector<float> run = trained_locally(config);
  CHECK(largest_difference(run, theta) < 1e-6);
  if (rounds > 1) return;
  const std::vector<float> got_to = mean(PlainWorkers(config).ends(0, plain.begin()));
  double along = 0.0;
  for (std::size_t i = 0; i < run.size(); ++i)
    along += (run[i] - plain.begin()[i]) * (got_to[i] - plain.begin()[i]);
  CHECK(along > 0.0);
}

TEST_CASE("one_local_step_with_sgd_inside_and_outside_is_bsp_with_the_mean_of_gradients") {
  const RunConfig rounds =
      averaging(1, optimizer_of(OptimizerKind::kSgd, 0.05), optimizer_of(OptimizerKind::kSgd, 1.0));
  RunConfig gradients = rounds;
  gradients.train.has_inner_optimizer = false;
  gradients.train.optimizer.lr = 0.05;
  CHECK(largest_difference(trained_locally(rounds), trained_locally(gradients)) < 1e-6);
}

// With samples that are none of the run's.
TEST_CASE("a_warm_start_is_a_plain_loop_of_one_worker_behind_the_run_s_positions") {
  RunConfig config =
      averaging(4, optimizer_of(OptimizerKind::kMomentum, 0.02), optimizer_of(OptimizerKind::kSgd, 1.0));
  config.train.warm_start_steps = 6;
  const auto tasks = make_network_tasks(config);
  REQUIRE(tasks.is_ok());
  std::vector<float> warm = LocalRun::initial(**tasks);
  std::vector<float> expected = warm;
  REQUIRE(warm_start(config, **tasks, warm, Status::ok).is_ok());
  const auto task = (*tasks)->make_trainer(WorkerId(0, 0));
  REQUIRE(task.is_ok());
  std::vector<float> gradient(expected.size());
  PlainOptimizer inner(config.train.inner_optimizer, expected.size());
  for (std::int64_t n = 0; n < 6; ++n) {
    Step step;
    step.batch = {(config.train.total_iterations + n) * config.train.batch_size, config.train.batch_size};
    REQUIRE((*task)->load(step).is_ok());
    REQUIRE((*task)->compute(expected, gradient, whole_at_the_end).is_ok());
    inner.apply(expected, gradient, config.train.inner_optimizer.lr);
  }
  CHECK(same_floats(warm, expected));
  config.train.warm_start_steps = 0;
  std::vector<float> cold = LocalRun::initial(**tasks);
  REQUIRE(warm_start(config, **tasks, cold, Status::ok).is_ok());
  CHECK(same_floats(cold, LocalRun::initial(**tasks)));
}

// Each local step adds a quarter, so a round counts one (tests/process/counting_task.h).
TEST_CASE("a_round_with_a_gradient_that_is_not_finite_leaves_nothing_of_itself") {
  RunConfig config =
      averaging(4, optimizer_of(OptimizerKind::kSgd, 0.25), optimizer_of(OptimizerKind::kSgd, 1.0));
  config.train.on_nan = OnNan::kSkip;
  config.train.skips_max = 1.0;
  config.sync.combine = CombineMode::kEach;
  config.train.total_iterations = 3 * 4 * 10;
  CountingOptions options;
  options.cluster = config.cluster.cluster();
  options.local_steps = 4;
  options.is_not_finite = [](const Step& step) {
    return step.worker.thread == 1 && step.clock == Clock(5) && step.local_step == 2;
  };
  CountingFactory tasks(options);
  LocalRun run(config, tasks);
  run.run();
  const std::vector<float> counts = run.exchange.parameters();
  for (std::size_t i = 0; i < counts.size(); ++i) CHECK(counts[i] == (i % 3 == 1 ? 9.0F : 10.0F));
}

namespace {

// Time that passes only where a test says so.
struct SetClock final : PaceClock {
  Ticks at;
  Ticks now() override { return at; }
  void wait_until(Ticks due) override { at = std::max(at, due); }
};

}  // namespace

// Of four local steps of 30 ms each adds a quarter; one at least is taken.
TEST_CASE("a_round_ends_by_time_with_what_it_has_and_what_it_leaves_out_is_in_nothing") {
  const auto [time, steps] =
      GENERATE(table<std::int64_t, std::int64_t>({{1, 1}, {59, 1}, {60, 2}, {119, 3}, {500, 4}}));
  CAPTURE(time);
  RunConfig config = with_local_steps(
      with_policy(training_config(1, 1), PolicyKind::kBsp, ApplyMode::kVersioned, CombineMode::kMean), 4);
  config.train.inner_optimizer = optimizer_of(OptimizerKind::kSgd, 0.25);
  config.train.optimizer = optimizer_of(OptimizerKind::kSgd, 1.0);
  config.train.local_time = std::chrono::milliseconds(time);
  config.train.total_iterations = 4 * 8;
  SetClock clock;
  CountingOptions options;
  options.cluster = config.cluster.cluster();
  options.local_steps = 4;
  options.after_compute = [&](const Step&) { clock.at = clock.at + std::chrono::milliseconds(30); };
  CountingFactory tasks(options);
  LocalRun run(config, tasks);
  run.pace = &clock;
  CHECK(run.run() == 8 * steps);
  for (const float count : run.exchange.parameters()) CHECK(count == 2.0F * static_cast<float>(steps));
  // What no configuration says, how long a mini-batch takes, is measured.
  const std::vector<std::string> too_short{
      "my.yaml:12: train.local_time: shorter than a mini-batch, got 1ms, expected 30ms or more: each round "
      "has one"};
  CHECK(run.reported == (time < 30 ? too_short : std::vector<std::string>()));
}

// The first mini-batch of each thread takes longer, and says nothing of the others.
TEST_CASE("a_time_is_too_short_where_no_thread_s_later_mini_batches_fit_either") {
  const auto [later, expected] =
      GENERATE(table<std::int64_t, std::string>({{5, ""},
                                                 {30,
                                                  "my.yaml:12: train.local_time: shorter than a mini-batch, "
                                                  "got 20ms, expected 30ms or more: each round has one"}}));
  std::string reported;
  TimedRounds rounds(std::chrono::milliseconds(20), "my.yaml:12", 2,
                     Log::to([&](LogLevel, const std::string& line) { reported += line; }));
  for (const std::int64_t took : {std::int64_t{80}, std::int64_t{80}, later, later, later}) {
    rounds.step_took(std::chrono::milliseconds(took), std::chrono::milliseconds(took));
  }
  CHECK(reported == expected);
}

TEST_CASE("inner_rates_count_mini_batches_of_each_worker_whatever_the_number_of_local_steps") {
  RunConfig config =
      averaging(4, optimizer_of(OptimizerKind::kSgd, 1.0), optimizer_of(OptimizerKind::kSgd, 1.0));
  config.train.inner_optimizer.schedule.kind = ScheduleKind::kStep;
  config.train.inner_optimizer.schedule.step_versions = 6;
  config.train.inner_optimizer.schedule.step_factor = 0.5;
  // Round 0 of three workers has the iterations 0 to 11, which are each worker's first four.
  CHECK(inner_rate(config, 0) == 1.0);
  CHECK(inner_rate(config, 11) == 1.0);          // the third worker's fourth
  CHECK(inner_rate(config, 12 + 1) == 1.0);      // the first worker's sixth
  CHECK(inner_rate(config, 12 + 2) == 0.5);      // and seventh
  CHECK(inner_rate(config, 12 + 4 + 2) == 0.5);  // the second worker's seventh
}

}  // namespace paceline::test
