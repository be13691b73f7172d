// The Engine beyond the scenarios: configurations it refuses, memory over a long run, and that it is a
// function of its events.
#include "common/sync/engine.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "common/random.h"
#include "tests/scenario/render.h"

namespace paceline::sync {
namespace {

EngineConfig config_of(PolicyKind kind, ApplyMode apply) {
  EngineConfig config;
  config.cluster = {4, 2};
  config.policy.kind = kind;
  config.apply = apply;
  config.combine = CombineMode::kEach;
  return config;
}

TEST_CASE("what_an_engine_cannot_run_with_is_refused_and_named") {
  const auto refused = [](auto change, const char* name) {
    EngineConfig config = config_of(PolicyKind::kDtssp, ApplyMode::kVersioned);
    REQUIRE(validate(config).is_ok());
    change(config);
    const Status status = validate(config);
    INFO(name << ": " << status.message());
    CHECK(status.code() == StatusCode::kInvalidArgument);
    CHECK(status.message().find(name) != std::string::npos);
  };
  refused([](auto& c) { c.cluster.nodes = 0; }, "nodes");
  refused([](auto& c) { c.cluster.threads_per_node = 0; }, "threads_per_node");
  refused([](auto& c) { c.shards = 0; }, "shards");
  refused([](auto& c) { c.shards = 65; }, "shards");
  refused([](auto& c) { c.total_iterations = 0; }, "total_iterations");
  refused([](auto& c) { c.batch_size = 0; }, "batch_size");
  refused([](auto& c) { c.window_clocks = 0; }, "window_clocks");
  refused([](auto& c) { c.policy.threshold_min = 11; }, "threshold_min");
  refused([](auto& c) { c.policy.threshold = 2; }, "threshold: got 2, expected 3 .. 10");
  refused([](auto& c) { c.policy.threshold = -1; }, "threshold");
  refused([](auto& c) { c.policy.increase_above = std::nan(""); }, "lpr");
  refused([](auto& c) { c.policy.decrease_below = 6.0; }, "decrease_below");
}

TEST_CASE("a_range_that_dssp_would_look_through_for_long_is_refused") {
  EngineConfig config = config_of(PolicyKind::kDssp, ApplyMode::kVersioned);
  config.policy.threshold_max = config.policy.threshold_min + kDsspRangeMax;
  CHECK(validate(config).is_ok());
  ++config.policy.threshold_max;
  CHECK(validate(config).message().find("threshold_max - threshold_min: got 1001") != std::string::npos);
}

TEST_CASE("there_are_fewer_backup_workers_than_workers") {
  EngineConfig config = config_of(PolicyKind::kBackup, ApplyMode::kVersioned);
  config.policy.backup_workers = 7;
  CHECK(validate(config).is_ok());
  for (const std::int64_t b : {8, -1}) {
    config.policy.backup_workers = b;
    const std::string expected = "backup_workers: got " + std::to_string(b) + ", expected 0 .. 7";
    CHECK(validate(config).message().find(expected) != std::string::npos);
  }
}

TEST_CASE("batches_by_speed_need_a_mean_and_even_shares") {
  EngineConfig config = config_of(PolicyKind::kSsp, ApplyMode::kVersioned);
  config.batch_sizing = BatchSizing::kBySpeed;
  CHECK_FALSE(validate(config).is_ok());  // each
  config.combine = CombineMode::kMean;
  CHECK(validate(config).is_ok());
  config.share = Share::kPool;
  CHECK_FALSE(validate(config).is_ok());
  config.share = Share::kEven;
  config.batch_size = 100;
  CHECK_FALSE(validate(config).is_ok());
  config.batch_size = 128;
  config.policy.kind = PolicyKind::kBackup;
  CHECK_FALSE(validate(config).is_ok());
}

TEST_CASE("combinations_without_a_meaning_are_refused") {
  CHECK_FALSE(validate(config_of(PolicyKind::kBsp, ApplyMode::kEager)).is_ok());
  CHECK_FALSE(validate(config_of(PolicyKind::kAsp, ApplyMode::kVersioned)).is_ok());
  CHECK_FALSE(validate(config_of(PolicyKind::kBackup, ApplyMode::kEager)).is_ok());
  EngineConfig eager = config_of(PolicyKind::kSsp, ApplyMode::kEager);
  CHECK(validate(eager).is_ok());
  eager.combine = CombineMode::kMean;
  CHECK_FALSE(validate(eager).is_ok());
}

TEST_CASE("the_default_window_is_twenty_thousand_samples_rounded_up") {
  EngineConfig config;
  config.cluster = {4, 4};
  config.batch_size = 128;
  CHECK(window_clocks_of(config) == 10);  // 20,000 / 2,048 = 9.8
  config.batch_size = 20'000;
  CHECK(window_clocks_of(config) == 1);
}

// Drives `engine` for `steps` completed iterations, whoever may go on drawn at random.
std::vector<std::string> drive(Engine& engine, std::uint64_t seed, int steps, std::size_t* largest_state) {
  std::vector<std::string> log;
  std::vector<Action> actions;
  std::vector<Grant> runnable;
  Ticks now;
  const auto take = [&](const Event& event) {
    actions.clear();
    engine.step(event, now, actions);
    now = now + std::chrono::microseconds(1);
    for (const Action& action : actions) {
      if (log.size() < 5000) log.push_back(test::render(action));
      if (const auto* grant = std::get_if<Grant>(&action)) runnable.push_back(*grant);
    }
    if (largest_state != nullptr) *largest_state = std::max(*largest_state, engine.state_size());
  };
  const Cluster cluster = engine.config().cluster;
  for (std::uint32_t r = 0; r < cluster.workers(); ++r) take(Joined{cluster.worker_at(Rank(r))});
  CounterRandom random(seed, Stream::kTest);
  for (int i = 0; i < steps; ++i) {
    // The first half of the runnable is preferred, so that some workers are faster than others.
    const std::size_t chosen =
        random.next_below(random.next_below(4) > 0 ? runnable.size() / 2 + 1 : runnable.size());
    const Grant grant = runnable[chosen];
    runnable.erase(runnable.begin() + static_cast<std::ptrdiff_t>(chosen));
    StepReported report;
    report.worker = grant.worker;
    report.clock = grant.clock;
    report.metric = {1.0, static_cast<std::int64_t>(random.next_below(32)), 32};
    report.computed_version = grant.version;
    take(report);
    take(GradientArrived{ShardId(0), grant.worker, grant.clock, 32, ""});
  }
  return log;
}

// Stages of a pipeline: an iteration is complete only when all of the group have begun it. Returns the run at its end.
// By a request after `steps` iterations, or by the fault of a gradient of the next.
Engine stopped_in_groups(EngineConfig config, std::uint64_t seed, int steps, bool by_fault) {
  Engine engine(std::move(config));
  const Cluster cluster = engine.config().cluster;
  const std::uint32_t group = engine.config().group;
  std::vector<Action> actions;
  std::vector<Grant> running;
  Ticks now;
  const auto take = [&](const Event& event) {
    actions.clear();
    engine.step(event, now, actions);
    now = now + std::chrono::microseconds(1);
    for (const Action& action : actions) {
      const auto* grant = std::get_if<Grant>(&action);
      if (grant == nullptr) continue;
      running.push_back(*grant);
      if (grant->apply == ApplyMode::kEager)
        CHECK(grant->min_version <= grant->version);  // else it waits for ever
    }
  };
  const auto has_begun = [&](Rank rank, Clock clock) {
    const WorkerId worker = cluster.worker_at(rank);
    if (engine.clock_of(worker) > clock) return true;
    const auto iteration = engine.iteration_of(worker);
    return iteration && iteration->clock == clock;
  };
  const auto is_possible = [&](const Grant& grant) {
    const std::uint32_t first = cluster.rank_of(grant.worker).value / group * group;
    for (std::uint32_t r = first; r < first + group; ++r) {
      if (!has_begun(Rank(r), grant.clock)) return false;
    }
    return true;
  };
  for (std::uint32_t r = 0; r < cluster.workers(); ++r) take(Joined{cluster.worker_at(Rank(r))});
  CounterRandom random(seed, Stream::kTest);
  for (int i = 0;; ++i) {
    if (i == steps && !by_fault) take(StopRequested{"enough"});
    std::vector<std::size_t> possible;
    for (std::size_t at = 0; at < running.size(); ++at) {
      if (is_possible(running[at])) possible.push_back(at);
    }
    if (possible.empty()) return engine;
    const std::size_t chosen = possible[random.next_below(possible.size())];
    const Grant grant = running[chosen];
    running.erase(running.begin() + static_cast<std::ptrdiff_t>(chosen));
    StepReported report;
    report.worker = grant.worker;
    report.clock = grant.clock;
    report.metric = {1.0, 3, 32};
    report.computed_version = grant.version;
    take(report);
    const bool fails = i == steps && by_fault;
    take(GradientArrived{ShardId(0), grant.worker, grant.clock, 32, fails ? "infinite" : ""});
  }
}

TEST_CASE("a_stop_finds_the_stages_of_each_group_at_one_clock") {
  for (const PolicyKind kind : {PolicyKind::kBsp, PolicyKind::kSsp, PolicyKind::kDtssp, PolicyKind::kDssp,
                                PolicyKind::kRandomWalk, PolicyKind::kAsp}) {
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      const bool eager = kind == PolicyKind::kAsp || (kind == PolicyKind::kDssp && seed % 2 == 0);
      EngineConfig config = config_of(kind, eager ? ApplyMode::kEager : ApplyMode::kVersioned);
      config.cluster = {6, 1};
      config.group = 3;
      config.window_clocks = 2;
      config.total_iterations = 100'000;
      for (const bool by_fault : {false, true}) {
        const Engine engine = stopped_in_groups(config, seed, 40 + static_cast<int>(seed), by_fault);
        INFO("policy " << static_cast<int>(kind) << ", seed " << seed << ", fault " << by_fault);
        CHECK(engine.finished());
        for (std::uint32_t node = 0; node < 6; ++node) {
          CHECK(engine.clock_of(WorkerId(node, 0)) == engine.clock_of(WorkerId(node / 3 * 3, 0)));
        }
      }
    }
  }
  EngineConfig config = config_of(PolicyKind::kSsp, ApplyMode::kVersioned);
  config.group = 3;
  CHECK(validate(config).message() == "group: got 3 of 8 workers, expected a divisor");
}

TEST_CASE("a_hundred_thousand_steps_grow_no_memory") {
  for (const PolicyKind kind :
       {PolicyKind::kBsp, PolicyKind::kBackup, PolicyKind::kSsp, PolicyKind::kDtssp, PolicyKind::kDssp}) {
    EngineConfig config = config_of(kind, ApplyMode::kVersioned);
    config.share = Share::kPool;
    config.total_iterations = 1'000'000;
    config.window_clocks = 3;
    Engine engine(config);
    std::size_t largest = 0;
    drive(engine, 1, 100'000, &largest);
    // Workers, held, and per clock between slowest and fastest (at most threshold_max + 1): one count, one
    // list of gradients, one window.
    std::size_t most = 8 + 8 + 3 * 13;
    // DSSP: who came to each of these clocks, and it did use its range.
    if (kind == PolicyKind::kDssp) most += 12 + 8 * 12;
    if (kind == PolicyKind::kDssp) CHECK(engine.max_grant_gap() > Staleness(config.policy.threshold_min));
    CHECK(largest <= most);
    CHECK(engine.iterations_applied() + engine.iterations_dropped() > 99'900);
  }
}

TEST_CASE("the_same_events_give_the_same_actions") {
  EngineConfig config = config_of(PolicyKind::kDtssp, ApplyMode::kVersioned);
  config.window_clocks = 2;
  config.total_iterations = 100'000;
  Engine first(config), second(config), other(config);
  const auto log = drive(first, 5, 2000, nullptr);
  CHECK(log == drive(second, 5, 2000, nullptr));
  CHECK(log != drive(other, 6, 2000, nullptr));
}

TEST_CASE("under_bsp_what_is_applied_does_not_depend_on_the_order_of_arrival") {
  const auto applied = [](std::uint64_t seed) {
    EngineConfig config = config_of(PolicyKind::kBsp, ApplyMode::kVersioned);
    config.total_iterations = 8 * 50;
    Engine engine(config);
    std::vector<std::string> applies;
    for (const std::string& line : drive(engine, seed, 8 * 50, nullptr)) {
      if (line.rfind("apply", 0) == 0) applies.push_back(line);
    }
    return applies;
  };
  const auto reference = applied(1);
  CHECK(reference.size() == 50);
  CHECK(reference == applied(2));
  CHECK(reference == applied(3));
}

TEST_CASE("without_a_backup_worker_every_action_is_bsps") {
  for (const Share share : {Share::kEven, Share::kPool}) {
    EngineConfig config = config_of(PolicyKind::kBsp, ApplyMode::kVersioned);
    config.share = share;
    config.total_iterations = 8 * 50 + 3;
    Engine bsp(config);
    config.policy.kind = PolicyKind::kBackup;
    config.policy.backup_workers = 0;
    Engine backup(config);
    const auto log = drive(bsp, 3, 8 * 50 + 3, nullptr);
    CHECK(log == drive(backup, 3, 8 * 50 + 3, nullptr));
    CHECK((bsp.finished() && backup.finished() && backup.iterations_dropped() == 0));
  }
}

TEST_CASE("the_window_of_a_run_with_backup_workers_counts_the_samples_that_count") {
  EngineConfig config = config_of(PolicyKind::kBackup, ApplyMode::kVersioned);
  config.batch_size = 100;
  config.policy.backup_workers = 0;
  CHECK(window_clocks_of(config) == 25);
  config.policy.backup_workers = 3;
  CHECK(window_clocks_of(config) == 40);
}

TEST_CASE("a_worker_told_to_finish_while_it_is_held_hears_how_long_it_was") {
  EngineConfig config = config_of(PolicyKind::kBsp, ApplyMode::kVersioned);
  config.total_iterations = 100;
  Engine engine(config);
  const Cluster cluster = engine.config().cluster;
  std::vector<Action> actions;
  for (std::uint32_t r = 0; r < cluster.workers(); ++r) {
    engine.step(Joined{cluster.worker_at(Rank(r))}, Ticks(0), actions);
  }
  const WorkerId fast = cluster.worker_at(Rank(0));
  StepReported report;
  report.worker = fast;
  report.metric = {1.0, 0, 32};
  engine.step(report, Ticks(90), actions);
  for (std::uint32_t k = 0; k < engine.config().shards; ++k) {
    engine.step(GradientArrived{ShardId(k), fast, Clock(0), 32, ""}, Ticks(100), actions);
  }
  REQUIRE(engine.is_held(fast));
  actions.clear();
  engine.step(StopRequested{"max_seconds"}, Ticks(130), actions);
  const auto* finish = std::get_if<FinishWorker>(&actions.front());
  REQUIRE(finish != nullptr);
  CHECK((finish->worker == fast && finish->held == std::chrono::nanoseconds(30)));
}

}  // namespace
}  // namespace paceline::sync
