// A run that is reconfigured to servers that begin anew (reconfiguration.h): when, with what saved, who
// is told what, and what stands in the way.
#include <catch2/catch.hpp>

#include "server/authority/reconfigure.h"
#include "tests/unit/saving_run.h"

namespace paceline::server {
namespace {

RunConfig config_that_reconfigures() {
  RunConfig config = saving_run(100);
  config.train.total_iterations = 20;
  config.cluster.reconnect_timeout = 40s;
  return config;
}

// Both workers have done clock 0; worker 0.0 clock 1, too.
struct ReconfiguredRun : SavingRun {
  explicit ReconfiguredRun(RunConfig c = config_that_reconfigures()) : SavingRun(std::move(c)) {
    keep(LogLevel::kWarn, warnings);
    train(0, 1);
    iterate(0, 1);
  }
  Status ask() { return refused(kShard1, wire::Reconfigure{"a replica of shard 1 has come back"}); }
  std::int64_t granted() const {
    return std::ssize(sent.of<wire::Grant>(kNode0)) + std::ssize(sent.of<wire::Grant>(kNode1));
  }
};

TEST_CASE("a run is handed over at rest, with the state of that moment saved by all shards") {
  ReconfiguredRun run;
  REQUIRE(run.ask().is_ok());
  CHECK(run.ask().is_ok());  // again, meanwhile
  run.pass(50ms);
  CHECK(run.versions_to_save().empty());  // worker 1.0 is in clock 1
  const std::int64_t granted = run.granted();
  run.iterate(1, 1);
  run.pass(50ms);
  CHECK(run.granted() == granted);  // nobody goes further
  REQUIRE(run.versions_to_save() == std::vector<std::int64_t>{2});
  run.save(0, 2);
  run.pass(50ms);
  CHECK(run.sent.of<wire::RunOver>(kShard1).empty());
  run.save(1, 2);
  run.pass(50ms);
  // This server is there until each shard has heard of it: over another connection, if need be.
  CHECK(run.authority->reconfigures());
  run.shard_reports(0);
  run.pass(run.config.cluster.lease);
  CHECK_FALSE(run.over());
  run.shard_reports(1);
  REQUIRE(run.over());
  CHECK(run.authority->reconfigures());
  CHECK(run.complete().front() == CheckpointId{1, Version(2)});
  const auto to_shard = run.sent.of<wire::RunOver>(kShard1);
  REQUIRE(to_shard.size() == 1);
  CHECK((to_shard[0].reconfigures && to_shard[0].resumable));
  const auto to_node = run.sent.of<wire::RunOver>(kNode0);
  REQUIRE(to_node.size() == 1);
  CHECK((to_node[0].resumable && !to_node[0].reconfigures && to_node[0].code == StatusCode::kUnavailable));
  CHECK(run.summary().status == "stopped");
}

TEST_CASE("nobody is let in while a run quiesces: whoever comes is to ask again") {
  ReconfiguredRun run;
  run.authority->lost(kNode1, "silent", run.now);
  REQUIRE(run.ask().is_ok());
  CHECK(run.authority->may_come(NodeId(1)).code() == StatusCode::kUnavailable);
}

TEST_CASE("a state that cannot be saved costs the reconfiguration, and the run goes on") {
  ReconfiguredRun run;
  REQUIRE(run.ask().is_ok());
  run.iterate(1, 1);
  run.pass(50ms);
  const std::int64_t granted = run.granted();
  run.save(0, 2);
  run.send(kShard1, wire::Saved{ShardId(1), Version(2), {}, "No space left on device"});
  run.pass(50ms);
  CHECK(run.granted() == granted + 2);
  REQUIRE(run.warnings.size() == 2);
  CHECK_THAT(run.warnings.back(),
             Contains("goes on without the server that has come back") && Contains("could not be saved"));
  CHECK(run.ask().code() == StatusCode::kUnavailable);  // not at once again
  run.pass(kLeasesBetween * run.config.cluster.lease + 1s);
  CHECK(run.ask().is_ok());
}

TEST_CASE("an iteration that does not end costs the reconfiguration, and the run goes on when it does") {
  ReconfiguredRun run;
  REQUIRE(run.ask().is_ok());
  run.pass(50ms);
  run.pass(StopDeadline::kLeases * run.config.cluster.lease + 1s);
  REQUIRE(run.warnings.size() == 1);
  CHECK_THAT(run.warnings[0], Contains("an iteration that is under way does not end"));
  const std::int64_t granted = run.granted();
  run.iterate(1, 1);
  CHECK(run.granted() == granted + 2);
}

TEST_CASE("of a version that is saved no second checkpoint is made: a run waits for the next one") {
  ReconfiguredRun run(([] {
    RunConfig config = config_that_reconfigures();
    config.checkpoint.every_clocks = 1;
    return config;
  })());
  run.save(1);
  REQUIRE(run.ask().is_ok());
  run.pass(50ms);
  run.iterate(1, 1);  // version 2, of which no checkpoint is made meanwhile
  CHECK(run.versions_to_save() == std::vector<std::int64_t>{1});
  run.pass(50ms);
  run.train(2, 3);
  run.pass(50ms);
  REQUIRE(run.versions_to_save() == std::vector<std::int64_t>{1, 3});
  run.save(3);
  run.pass(50ms);
  CHECK(run.authority->reconfigures());
  CHECK(run.complete().front().version == Version(3));
}

TEST_CASE("a shard that is lost before it has heard of it ends the run, which can be resumed") {
  ReconfiguredRun run;
  REQUIRE(run.ask().is_ok());
  run.iterate(1, 1);
  run.pass(50ms);
  run.save(2);
  run.pass(50ms);
  run.shard_reports(0);
  run.authority->lost(kShard1, "silent", run.now);
  REQUIRE(run.over());
  CHECK_FALSE(run.authority->reconfigures());
  CHECK(run.summary().status == "failed");
  CHECK(run.sent.of<wire::RunOver>(kNode0).front().resumable);
}

TEST_CASE("what a run must have to be reconfigured is named") {
  CHECK(can_reconfigure(config_that_reconfigures()).is_ok());
  RunConfig config = config_that_reconfigures();
  config.checkpoint = {};
  CHECK_THAT(can_reconfigure(config).message(), Contains("checkpoint.every"));
  config = config_that_reconfigures();
  config.cluster.reconnect_timeout = 39s;
  CHECK_THAT(can_reconfigure(config).message(), Contains("cluster.reconnect_timeout"));
  config = config_that_reconfigures();
  config.sync.policy = PolicyKind::kBackup;
  config.sync.backup_workers = 1;
  CHECK_THAT(can_reconfigure(config).message(), Contains("sync.backup_workers"));
}

TEST_CASE("before training begins, and when it ends, nothing is reconfigured") {
  Run gathering(config_that_reconfigures());
  CHECK(gathering.authority->reconfigure("a replica has come back", gathering.now).code() ==
        StatusCode::kUnavailable);
  ReconfiguredRun run;
  run.authority->stop("a signal", run.now);
  CHECK(run.ask().code() == StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace paceline::server
