// Workers that come late, are lost and come back, at the engine: what the scenarios do not show.
#include <catch2/catch.hpp>
#include <set>

#include "common/random.h"
#include "common/sync/engine.h"

namespace paceline::sync {
namespace {

EngineConfig nodes_of_one_thread(std::uint32_t nodes) {
  EngineConfig config;
  config.cluster = {nodes, 1};
  config.policy.kind = PolicyKind::kSsp;
  config.policy.threshold = 2;
  config.total_iterations = 1'000'000;
  return config;
}

// An engine whose workers are one thread each of a node, and complete what they are told to.
class Cast {
 public:
  explicit Cast(const EngineConfig& config) : engine(config) {}

  std::vector<Action> take(const Event& event) {
    std::vector<Action> actions;
    now_ = now_ + std::chrono::milliseconds(1);
    engine.step(event, now_, actions);
    for (const Action& action : actions) {
      if (const auto* grant = std::get_if<Grant>(&action)) grants_[grant->worker.node.value] = *grant;
    }
    return actions;
  }
  std::vector<Action> join(std::uint32_t node) { return take(Joined{WorkerId(node, 0)}); }
  std::vector<Action> complete(std::uint32_t node) {
    const Grant grant = grants_.at(node);
    take(GradientArrived{ShardId(0), grant.worker, grant.clock, grant.samples, ""});
    StepReported report;
    report.worker = grant.worker;
    report.clock = grant.clock;
    report.metric = {1.0, 1, grant.samples};
    report.computed_version = grant.version;
    report.computed_revision = grant.revision;
    return take(report);
  }
  const Grant& grant(std::uint32_t node) const { return grants_.at(node); }
  bool runs(std::uint32_t node) const {
    const WorkerId worker(node, 0);
    return engine.is_live(worker) && !engine.is_held(worker);
  }

  Engine engine;

 private:
  std::map<std::uint32_t, Grant> grants_;
  Ticks now_;
};

TEST_CASE("how_many_nodes_are_there_at_the_start_is_between_one_and_all") {
  EngineConfig config = nodes_of_one_thread(3);
  for (const std::uint32_t nodes : {1U, 2U, 3U}) {
    config.nodes_at_start = nodes;
    CHECK(validate(config).is_ok());
  }
  for (const std::uint32_t nodes : {0U, 4U}) {
    config.nodes_at_start = nodes;
    CHECK(validate(config).message().find("nodes_at_start: got " + std::to_string(nodes)) == 0);
  }
}

TEST_CASE("with_backup_workers_or_batches_by_speed_all_nodes_are_there_at_the_start") {
  EngineConfig config = nodes_of_one_thread(3);
  config.nodes_at_start = 2;
  config.batch_sizing = BatchSizing::kBySpeed;
  CHECK(validate(config).message().find(
            "nodes_at_start: got 2 of 3 with backup workers or batches by speed") == 0);
  config.nodes_at_start = 3;
  CHECK(validate(config).is_ok());
  config.batch_sizing = BatchSizing::kEqual;
  config.policy.kind = PolicyKind::kBackup;
  config.policy.backup_workers = 0;  // which is bsp
  config.nodes_at_start = 2;
  CHECK(validate(config).is_ok());
  config.policy.backup_workers = 1;
  CHECK_FALSE(validate(config).is_ok());
}

TEST_CASE("a_node_is_there_at_the_start_with_all_its_threads_or_not_yet") {
  EngineConfig config = nodes_of_one_thread(3);
  config.cluster.threads_per_node = 2;
  config.nodes_at_start = 2;
  Cast cast(config);
  for (const WorkerId worker : {WorkerId(0, 0), WorkerId(1, 0), WorkerId(2, 0), WorkerId(2, 1)}) {
    cast.take(Joined{worker});
  }
  cast.take(Lost{NodeId(2)});
  cast.take(Joined{WorkerId(0, 1)});
  CHECK_FALSE(cast.engine.started());
  cast.take(Joined{WorkerId(1, 1)});
  CHECK(cast.engine.started());
  CHECK_FALSE(cast.engine.is_live(WorkerId(2, 0)));
}

TEST_CASE("iterations_of_a_lost_worker_are_counted_where_they_were_begun") {
  Cast cast(nodes_of_one_thread(3));
  for (const std::uint32_t node : {0U, 1U, 2U}) cast.join(node);
  cast.take(Lost{NodeId(1)});
  CHECK(cast.engine.iterations_lost() == 1);
  for (int i = 0; i < 3; ++i) cast.complete(2);  // and is held now
  cast.take(Lost{NodeId(2)});
  CHECK(cast.engine.iterations_lost() == 1);
}

// A clock is updated when somebody comes, too.
TEST_CASE("what_is_lost_when_the_others_have_done_their_share_is_done_by_nobody_and_counted") {
  EngineConfig config = nodes_of_one_thread(2);
  config.policy.kind = PolicyKind::kAsp;
  config.apply = ApplyMode::kEager;
  config.combine = CombineMode::kEach;
  config.total_iterations = 10;
  Cast cast(config);
  for (const std::uint32_t node : {0U, 1U}) cast.join(node);
  cast.complete(1);
  for (int i = 0; i < 5; ++i) cast.complete(0);  // all of its share: it is told so
  CHECK(iterations_undone(cast.engine) == 0);    // node 1 may do its own
  cast.take(Lost{NodeId(1)});
  REQUIRE(cast.engine.finished());
  CHECK(cast.engine.iterations_applied() == 6);
  CHECK(iterations_undone(cast.engine) == 4);  // of them it had begun one
  CHECK(cast.engine.iterations_lost() == 1);
}

TEST_CASE("what_is_lost_before_that_is_done_by_the_others_and_a_run_that_was_stopped_leaves_nothing_undone") {
  EngineConfig config = nodes_of_one_thread(2);
  config.total_iterations = 10;
  for (const bool stops : {false, true}) {
    Cast cast(config);
    for (const std::uint32_t node : {0U, 1U}) cast.join(node);
    cast.take(Lost{NodeId(1)});
    if (stops) cast.take(StopRequested{"enough"});
    while (!cast.engine.finished()) cast.complete(0);
    CHECK(cast.engine.iterations_applied() == (stops ? 1 : 10));
    CHECK(iterations_undone(cast.engine) == 0);
  }
}

TEST_CASE("the_largest_difference_of_clocks_may_be_one_who_comes_back") {
  EngineConfig config = nodes_of_one_thread(2);
  config.policy.threshold = 1;
  Cast cast(config);
  cast.join(0);
  cast.join(1);
  cast.complete(0);  // and is granted clock 1
  cast.take(Lost{NodeId(0)});
  CHECK(cast.engine.max_clock_gap() == Staleness(1));
  cast.join(0);  // at clock 2
  CHECK(cast.engine.max_clock_gap() == Staleness(2));
  cast.complete(1);
  CHECK(cast.engine.max_clock_gap() == Staleness(2));
}

// The interval between two pushes is what DSSP predicts from; that between a loss and a return is none.
TEST_CASE("under_dssp_one_who_has_come_back_has_no_interval_and_no_extra_iterations") {
  EngineConfig config = nodes_of_one_thread(2);
  config.policy.kind = PolicyKind::kDssp;
  config.policy.threshold_min = 0;
  config.policy.threshold_max = 6;
  Cast cast(config);
  cast.join(0);
  cast.join(1);
  cast.complete(0);
  cast.complete(1);
  cast.take(Lost{NodeId(1)});
  cast.join(1);
  for (int i = 0; i < 6 && cast.runs(0); ++i) cast.complete(0);
  const Clock stopped_at = cast.engine.clock_of(WorkerId(0, 0));
  CHECK_FALSE(cast.runs(0));
  CHECK(stopped_at - cast.engine.clock_of(WorkerId(1, 0)) <= Staleness(1));
}

TEST_CASE("who_comes_completes_nothing_by_coming_so_a_switch_by_iterations_is_not_nearer") {
  EngineConfig config = nodes_of_one_thread(3);
  config.policy.kind = PolicyKind::kSwitch;
  PolicyStage first, second;
  first.policy = PolicyKind::kBsp;
  first.until = {StageEnd::kIterations, 5};
  second.policy = PolicyKind::kSsp;
  config.policy.stages = {first, second};
  config.nodes_at_start = 2;
  Cast cast(config);
  cast.join(0);
  cast.join(1);
  cast.complete(0);
  cast.complete(1);
  cast.join(2);
  cast.take(Lost{NodeId(2)});
  cast.join(2);
  for (const std::uint32_t node : {0U, 1U}) cast.complete(node);
  CHECK(cast.engine.version() == Version(2));
  CHECK(cast.engine.threshold() == Threshold(0));  // four are completed
  for (const std::uint32_t node : {0U, 1U, 2U}) cast.complete(node);
  CHECK(cast.engine.threshold() == Threshold(3));
}

TEST_CASE("however_often_nodes_come_and_go_every_iteration_is_done_once_and_memory_grows_by_little_a_loss") {
  EngineConfig config = nodes_of_one_thread(6);
  config.total_iterations = 20'000;
  config.share = GENERATE(Share::kEven, Share::kPool);
  config.apply = GENERATE(ApplyMode::kVersioned, ApplyMode::kEager);
  config.combine = CombineMode::kEach;
  Cast cast(config);
  for (std::uint32_t node = 0; node < 6; ++node) cast.join(node);
  CounterRandom random(5, Stream::kTest, 8);
  std::size_t largest = 0;
  std::int64_t comings = 0;
  std::set<std::int64_t> done;
  while (!cast.engine.finished()) {
    const auto node = static_cast<std::uint32_t>(random.next_below(6));
    const bool late = cast.engine.iterations_applied() > 19'900;  // from here on all stay
    if (!cast.engine.is_live(WorkerId(node, 0))) {
      if (!cast.engine.finished() && !late) ++comings;
      cast.join(node);
    } else if (node > 0 && !late && random.next_below(40) == 0) {
      cast.take(Lost{NodeId(node)});
    } else if (cast.runs(node)) {
      CHECK(done.insert(cast.grant(node).iteration).second);
      cast.complete(node);
    }
    // What is left undone until the end is part of it: a few numbers for each that was lost.
    if (!late) largest = std::max(largest, cast.engine.state_size());
  }
  CHECK(comings > 400);
  CHECK(largest < static_cast<std::size_t>(40 + 4 * cast.engine.iterations_lost()));
  CHECK(cast.engine.iterations_applied() == 20'000);
  CHECK(std::ssize(done) == 20'000);
}

}  // namespace
}  // namespace paceline::sync
