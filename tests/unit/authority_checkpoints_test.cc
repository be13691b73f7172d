// The authority and its checkpoints while a run trains: when one is due, what makes it whole, and what a
// fault costs.
#include <algorithm>
#include <catch2/catch.hpp>

#include "common/checkpoint/engine_state.h"
#include "server/authority/save_schedule.h"
#include "tests/unit/saving_run.h"
#include "tests/unit/unwritable_folder.h"

namespace paceline::server {
namespace {

SaveSchedule schedule_of(CheckpointSection config) {
  RunConfig run;
  run.checkpoint = config;
  SaveSchedule schedule(run);
  schedule.begin(Version(0), Ticks(1));
  return schedule;
}

TEST_CASE("by clocks a checkpoint is due with each multiple, or the first version beyond it") {
  SaveSchedule schedule = schedule_of({10, {}, 2});
  CHECK_FALSE(schedule.reached(Version(9), Ticks(2)));
  CHECK(schedule.reached(Version(12), Ticks(2)));
  schedule.written();
  CHECK_FALSE(schedule.reached(Version(12), Ticks(3)));
  CHECK_FALSE(schedule.reached(Version(19), Ticks(3)));
  CHECK(schedule.reached(Version(20), Ticks(3)));
}

TEST_CASE("one that comes due while another is under way is left out, and counted") {
  SaveSchedule schedule = schedule_of({10, {}, 2});
  REQUIRE(schedule.reached(Version(10), Ticks(2)));
  CHECK_FALSE(schedule.reached(Version(20), Ticks(3)));
  CHECK(schedule.left_out() == 1);
  schedule.written();
  CHECK_FALSE(schedule.reached(Version(21), Ticks(4)));
  CHECK(schedule.reached(Version(30), Ticks(5)));
}

TEST_CASE("by time a checkpoint is due with the first version after the interval") {
  SaveSchedule schedule = schedule_of({{}, std::chrono::seconds(5), 2});
  CHECK_FALSE(schedule.reached(Version(1), Ticks(1) + 4s));
  CHECK(schedule.reached(Version(2), Ticks(1) + 5s));
  CHECK_FALSE(schedule.reached(Version(3), Ticks(1) + 11s));  // under way
  schedule.written();
  CHECK_FALSE(schedule.reached(Version(2), Ticks(1) + 12s));  // it is saved
  CHECK(schedule.reached(Version(4), Ticks(1) + 12s));
}

TEST_CASE("without a schedule nothing is due, at a stop neither; with one the last state is, once") {
  SaveSchedule none = schedule_of({});
  CHECK_FALSE(none.reached(Version(10), Ticks(2) + 100h));
  CHECK_FALSE(none.reached_last(Version(10), Ticks(2)));
  SaveSchedule some = schedule_of({10, {}, 2});
  CHECK(some.reached_last(Version(3), Ticks(2)));
  some.written();
  CHECK_FALSE(some.reached_last(Version(3), Ticks(2)));
}

TEST_CASE(
    "what somebody asks for is due with the next version, also without a schedule, and at a stop from then "
    "on") {
  SaveSchedule none = schedule_of({});
  none.ask();
  CHECK(none.reached(Version(1), Ticks(2)));
  CHECK_FALSE(none.reached(Version(2), Ticks(3)));
  none.ask();
  CHECK_FALSE(none.reached(Version(3), Ticks(4)));  // one is under way
  none.written();
  CHECK(none.reached(Version(4), Ticks(5)));
  none.written();
  CHECK_FALSE(none.reached(Version(5), Ticks(6)));
  CHECK(none.reached_last(Version(5), Ticks(7)));
}

TEST_CASE("of a run that may end by time the last state is due without a schedule, too") {
  RunConfig run;
  run.run.max_seconds = 5s;
  SaveSchedule schedule(run);
  schedule.begin(Version(0), Ticks(1));
  CHECK_FALSE(schedule.reached(Version(10), Ticks(2) + 100h));
  CHECK(schedule.reached_last(Version(10), Ticks(2)));
}

TEST_CASE("a last state whose checkpoint has failed is due at a stop, once more") {
  SaveSchedule schedule = schedule_of({1, {}, 2});
  REQUIRE(schedule.reached(Version(1), Ticks(2)));
  schedule.written();
  REQUIRE(schedule.reached(Version(2), Ticks(3)));
  schedule.failed();
  CHECK_FALSE(schedule.reached(Version(2), Ticks(4)));
  CHECK(schedule.reached_last(Version(2), Ticks(4)));
}

TEST_CASE("a checkpoint is whole once every shard has written its part, and not before") {
  SavingRun run;
  run.train(0, 1);
  CHECK(run.versions_to_save() == std::vector<std::int64_t>{1});
  run.save(0, 1);
  CHECK(run.complete().empty());
  run.save(1, 1);
  REQUIRE(run.complete() == std::vector<CheckpointId>{{1, Version(1)}});
  CHECK(run.sent.of<wire::ForgetSaved>(kShard1).back().oldest_kept == CheckpointId{1, Version(1)});
  CHECK(run.sent.of<wire::ForgetSaved>(kShard0).empty());  // what is here prune() has seen to
}

TEST_CASE("a run that saves nothing saves the next version for whoever asks, once") {
  SavingRun run(small_run());
  run.train(0, 1);
  run.authority->save_checkpoint();
  run.train(1, 2);
  run.save(2);
  run.train(2, 3);
  CHECK(run.versions_to_save() == std::vector<std::int64_t>{2});
  CHECK(run.complete() == std::vector<CheckpointId>{{1, Version(2)}});
}

TEST_CASE(
    "a checkpoint is of one clock of all stages, so none is saved for whoever asks where there is none") {
  RunConfig config = small_run();
  config.pipeline.stages = 2;
  config.sync.policy = PolicyKind::kSsp;
  config.sync.combine = CombineMode::kEach;
  const bool eager = GENERATE(true, false);
  config.sync.apply = eager ? ApplyMode::kEager : ApplyMode::kVersioned;
  SavingRun run(config);
  run.keep(LogLevel::kWarn, run.warnings);
  run.authority->save_checkpoint();
  REQUIRE(run.warnings.size() == 1);
  CHECK_THAT(run.warnings[0], Contains(eager ? "none is saved" : "the next version 0 is saved"));
  run.train(0, 1);
  CHECK(run.versions_to_save() == (eager ? std::vector<std::int64_t>{} : std::vector<std::int64_t>{1}));
}

TEST_CASE("the manifest says what the run goes on from: versions, the core's state, the record, time") {
  SavingRun run;
  run.now = run.now + 2s;
  run.train(0, 1);
  run.save(1);
  const Manifest manifest = run.checkpoints().complete()->checkpoints.at(0);
  CHECK(manifest.revision == Revision(2));
  CHECK(manifest.decisions == 1);
  CHECK(manifest.layout_hash == layout_of(8).hash());
  CHECK(manifest.data_fingerprint == kData);
  CHECK(manifest.shards == std::vector<FileDigest>{{5, 1}, {5, 2}});
  CHECK(manifest.seconds_trained == Approx(2.0));
  const auto engine = checkpoint::engine_state_from_bytes(manifest.engine);
  REQUIRE(engine.is_ok());
  CHECK(engine->version == Version(1));
  CHECK(engine->left == sync::IterationRanges{{2, 4}});
  const auto record = run_record_from_bytes(manifest.record, run.config.cluster.cluster());
  REQUIRE(record.is_ok());
  CHECK(record->staleness[1].clocks.count == 1);
}

TEST_CASE("while one is being written training goes on, and the next one is left out") {
  SavingRun run;
  run.train(0, 2);
  CHECK(run.versions_to_save() == std::vector<std::int64_t>{1});
  run.save(1);
  run.train(2, 3);
  CHECK(run.versions_to_save() == std::vector<std::int64_t>{1, 3});
}

TEST_CASE("a shard that cannot write costs this checkpoint alone, and is named") {
  SavingRun run;
  run.keep(LogLevel::kWarn, run.warnings);
  run.train(0, 1);
  run.save(0, 1);
  run.send(kShard1, wire::Saved{ShardId(1), Version(1), {}, "No space left on device"});
  CHECK(run.complete().empty());
  CHECK_FALSE(std::filesystem::exists(run.checkpoints().folder({1, Version(1)})));
  REQUIRE(run.warnings.size() == 1);
  CHECK_THAT(run.warnings[0], Contains("version 1") && Contains("shard 1: No space left on device"));
  run.train(1, 2);
  run.save(2);
  CHECK(run.complete() == std::vector<CheckpointId>{{1, Version(2)}});
}

TEST_CASE("a disk that stays full is said ever more seldom, and again after it was not") {
  RunConfig config = saving_run();
  config.train.total_iterations = 40;
  SavingRun run(config);
  run.keep(LogLevel::kWarn, run.warnings);
  for (std::int64_t version = 1; version <= 10; ++version) {
    run.train(version - 1, version);
    run.save(0, version);
    run.send(kShard1, wire::Saved{ShardId(1), Version(version), {}, "No space left on device"});
  }
  REQUIRE(run.warnings.size() == 4);  // 1, 2, 4, 8
  CHECK_THAT(run.warnings[3], Contains("version 8 ") && Contains("8 have failed in a row"));
  run.train(10, 11);
  run.save(11);
  run.train(11, 12);
  run.send(kShard1, wire::Saved{ShardId(1), Version(12), {}, "No space left on device"});
  run.save(0, 12);
  REQUIRE(run.warnings.size() == 5);
  CHECK_THAT(run.warnings[4], Contains("the newest is that of version 11 of generation 1"));
}

TEST_CASE("a manifest that cannot be written costs this checkpoint alone") {
  SavingRun run;
  run.slow_disk = true;
  run.train(0, 1);
  run.save(1);
  {
    const testing::UnwritableFolder refused(run.checkpoints().folder({1, Version(1)}));
    run.errands.do_all(run.now);
  }
  run.errands.do_all(run.now);
  CHECK(run.complete().empty());
  run.slow_disk = false;
  run.train(1, 2);
  run.save(2);
  CHECK(run.complete() == std::vector<CheckpointId>{{1, Version(2)}});
}

TEST_CASE("as many whole checkpoints stay as are to be kept") {
  SavingRun run;
  for (std::int64_t version = 1; version <= 3; ++version) {
    run.train(version - 1, version);
    run.save(version);
  }
  CHECK(run.complete() == std::vector<CheckpointId>{{1, Version(3)}, {1, Version(2)}});
  CHECK(run.sent.of<wire::ForgetSaved>(kShard1).back().oldest_kept == CheckpointId{1, Version(2)});
}

TEST_CASE("a run that a signal stops saves its last state, and ends when it is on disk") {
  SavingRun run(saving_run(100));
  run.train(0, 1);
  run.authority->stop("stopped by a signal", run.now);
  run.iterate(0, 1);
  run.iterate(1, 1);
  CHECK(run.versions_to_save() == std::vector<std::int64_t>{2});
  run.answer_model();
  run.send(kNode0, wire::EvaluationReport{Version(2), {50.0, 75, 100}, ""});
  run.nodes_report();
  CHECK(run.sent.of<wire::RunOver>(kShard1).empty());
  run.save(2);
  CHECK(run.complete() == std::vector<CheckpointId>{{1, Version(2)}});
  CHECK(run.sent.of<wire::RunOver>(kShard1).size() == 1);
  run.ends();
  CHECK(run.summary().status == "stopped");
  CHECK(run.summary().checkpoints->written == 1);
}

TEST_CASE("a run whose nodes are all lost saves its last state, and says how to go on") {
  SavingRun run(saving_run(100));
  run.keep(LogLevel::kError, run.warnings);
  run.train(0, 2);
  run.authority->lost(kNode0, "silent for 10.2 s", run.now);
  run.authority->lost(kNode1, "silent for 10.2 s", run.now);
  CHECK(run.versions_to_save() == std::vector<std::int64_t>{2});
  run.answer_model();
  CHECK(run.sent.of<wire::RunOver>(kShard1).empty());
  run.save(2);
  run.ends();
  CHECK(run.summary().status == "failed");
  CHECK(run.complete() == std::vector<CheckpointId>{{1, Version(2)}});
  REQUIRE_FALSE(run.warnings.empty());
  CHECK_THAT(run.warnings.back(), Contains("--resume") && Contains("version 2"));
}

TEST_CASE("a run that is stopped and then left by its nodes is a stopped one") {
  SavingRun run(saving_run(100));
  run.train(0, 1);
  run.authority->stop("stopped by a signal", run.now);
  run.authority->lost(kNode0, "it was stopped, too", run.now);
  run.authority->lost(kNode1, "it was stopped, too", run.now);
  CHECK(run.versions_to_save() == std::vector<std::int64_t>{1});
  run.answer_model();
  run.save(1);
  run.ends();
  CHECK(run.summary().status == "stopped");
}

TEST_CASE("a last state that is never written does not hold the end open for ever") {
  SavingRun run(saving_run(100));
  run.train(0, 1);
  run.authority->stop("stopped by a signal", run.now);
  run.iterate(0, 1);
  run.iterate(1, 1);
  run.answer_model();
  run.send(kNode0, wire::EvaluationReport{Version(2), {50.0, 75, 100}, ""});
  run.nodes_report();
  run.pass(Checkpoints::kLeases * run.config.cluster.lease + 1s);
  run.errands.do_all(run.now);
  CHECK(run.sent.of<wire::RunOver>(kShard1).size() == 1);
  run.ends();
  CHECK(run.summary().checkpoints->failed == 1);
}

TEST_CASE("a shard that never says that its part is written ends that checkpoint, not those after it") {
  SavingRun run;
  run.keep(LogLevel::kWarn, run.warnings);
  run.train(0, 1);
  run.save(0, 1);
  run.pass(Checkpoints::kLeases * run.config.cluster.lease);
  CHECK(run.warnings.empty());
  run.pass(1s);
  run.errands.do_all(run.now);
  REQUIRE(run.warnings.size() == 1);
  CHECK_THAT(run.warnings[0], Contains("version 1") && Contains("shard 1: not written within 600 s"));
  run.send(kShard1, wire::Saved{ShardId(1), Version(1), {5, 1}, ""});  // too late
  CHECK(run.complete().empty());
  run.train(1, 2);
  run.save(2);
  CHECK(run.complete() == std::vector<CheckpointId>{{1, Version(2)}});
}

TEST_CASE(
    "what a shard says of a version that was given up is not taken for what it says of it saved once more") {
  SavingRun run;
  run.train(0, 1);
  run.save(0, 1);
  run.pass(Checkpoints::kLeases * run.config.cluster.lease + 1s);
  run.errands.do_all(run.now);
  run.keep(LogLevel::kWarn, run.warnings);
  const bool answers = GENERATE(false, true);
  if (answers) run.send(kShard1, wire::Saved{ShardId(1), Version(1), {5, 2}, ""});
  run.authority->lost(kNode0, "silent for 10.2 s", run.now);
  run.authority->lost(kNode1, "silent for 10.2 s", run.now);
  CHECK(run.versions_to_save() == std::vector<std::int64_t>(answers ? 2 : 1, 1));
  const auto is_said = [](const std::string& line) {
    return line == "version 1 is not saved once more: shard 1 still owes its file of it";
  };
  CHECK(std::count_if(run.warnings.begin(), run.warnings.end(), is_said) == (answers ? 0 : 1));
  run.save(1);
  CHECK(run.complete().size() == (answers ? 1 : 0));
  run.answer_model();
  run.ends();
}

TEST_CASE("a run that is complete saves its last state behind its model, so that it can be extended") {
  SavingRun run(saving_run(100));
  run.train(0, 3);
  run.send(kNode0, wire::EvaluationReport{Version(3), {50.0, 75, 100}, ""});
  run.nodes_report();
  CHECK(run.versions_to_save().empty());
  run.answer_model();
  CHECK(run.versions_to_save() == std::vector<std::int64_t>{3});
  CHECK(run.sent.of<wire::RunOver>(kShard1).empty());
  run.save(3);
  run.ends();
  CHECK(run.authority->result().is_ok());
  CHECK(run.summary().status == "ok");
  CHECK(run.complete() == std::vector<CheckpointId>{{1, Version(3)}});
  const Manifest manifest = run.checkpoints().complete()->checkpoints.at(0);
  CHECK(checkpoint::engine_state_from_bytes(manifest.engine)->left.empty());
}

TEST_CASE("a last state that cannot be written costs a complete run nothing") {
  SavingRun run(saving_run(100));
  run.train(0, 3);
  run.send(kNode0, wire::EvaluationReport{Version(3), {50.0, 75, 100}, ""});
  run.nodes_report();
  run.answer_model();
  run.save(0, 3);
  run.send(kShard1, wire::Saved{ShardId(1), Version(3), {}, "No space left on device"});
  run.ends();
  CHECK(run.authority->result().is_ok());
  CHECK(run.summary().checkpoints->failed == 1);
}

RunConfig keeping_the_best() {
  RunConfig config = saving_run(100);
  config.train.eval_every_clocks = 1;
  config.train.total_iterations = 40;
  config.checkpoint.keep = 1;
  config.checkpoint.keep_best = 1;
  return config;
}

TEST_CASE("keep_best: each evaluated version is saved, and the best one stays beside the newest") {
  SavingRun run(keeping_the_best());
  const auto evaluated = [&](std::int64_t version, std::int64_t correct) {
    run.send(kNode0, wire::EvaluationReport{Version(version), {50.0, correct, 100}, ""});
  };
  run.train(0, 1);
  CHECK(run.versions_to_save() == std::vector<std::int64_t>{1});
  run.save(1);
  evaluated(1, 60);
  run.train(1, 2);
  run.save(2);
  evaluated(2, 75);
  run.train(2, 3);
  run.save(3);
  evaluated(3, 70);
  run.train(3, 4);
  run.save(4);
  CHECK(run.complete() == std::vector<CheckpointId>{{1, Version(4)}, {1, Version(2)}});
  const auto best = run.checkpoints().best();
  REQUIRE(best.has_value());
  CHECK((best->id == CheckpointId{1, Version(2)} && best->accuracy == 0.75));
  // The other shards are told which of those that are older stay.
  const auto received = run.sent.of<wire::ForgetSaved>(kShard1).back();
  CHECK(received.oldest_kept == CheckpointId{1, Version(4)});
  CHECK(std::count(received.spared.begin(), received.spared.end(), CheckpointId{1, Version(2)}) == 1);
}

TEST_CASE(
    "keep_best: one that is being evaluated stays until it is known, and a resumed run knows the best") {
  SavingRun run(keeping_the_best());
  run.train(0, 1);
  run.save(1);
  run.train(1, 2);  // waits for its evaluation
  run.save(2);
  CHECK(run.complete() == std::vector<CheckpointId>{{1, Version(2)}, {1, Version(1)}});
  run.send(kNode0, wire::EvaluationReport{Version(1), {50.0, 75, 100}, ""});
  CHECK(run.checkpoints().best()->id == CheckpointId{1, Version(1)});
  run.resume();
  run.shards_ready();
  run.come(0);
  run.come(1);
  run.iterate(0, 2);
  run.iterate(1, 2);
  const CheckpointId after{2, Version(3)};
  for (const std::uint32_t k : {0U, 1U}) {
    REQUIRE(run.checkpoints().make(after).is_ok());
    REQUIRE(write_file_atomically(run.checkpoints().shard_file(after, ShardId(k)), "12345").is_ok());
    run.send(Peer::of(ShardId(k)), wire::Saved{ShardId(k), Version(3), {5, k + 1}, ""});
  }
  CHECK(run.complete() == std::vector<CheckpointId>{after, {1, Version(1)}});
  run.send(kNode0, wire::EvaluationReport{Version(3), {50.0, 74, 100}, ""});
  CHECK(run.checkpoints().best()->id == CheckpointId{1, Version(1)});
}

TEST_CASE("what a shard says of another's file, twice or too late changes nothing") {
  SavingRun run;
  run.train(0, 1);
  CHECK(run.refused(kShard1, wire::Saved{ShardId(0), Version(1), {5, 1}, ""}).code() ==
        StatusCode::kInvalidArgument);
  run.save(0, 1);
  run.save(0, 1);
  run.send(kShard1, wire::Saved{ShardId(1), Version(7), {5, 1}, ""});
  CHECK(run.complete().empty());
  run.save(1, 1);
  CHECK(run.complete().size() == 1);
}

TEST_CASE("a run's record comes back from its bytes as it was, and no other bytes are one") {
  const Cluster cluster{2, 1};
  RunRecordState state;
  state.switches.push_back({"bsp", Version(0), 0.0, Threshold(0)});
  state.switches.push_back({"asp", Version(7), 1.5, Threshold::infinite()});
  state.churn.lost_nodes = 1;
  state.churn.lost = {"node 1: silent for 10.2 s"};
  state.churn.returned_nodes = 1;
  state.churn.returned = {"node 1 at version 3"};
  state.churn.late_nodes = 2;
  state.churn.late = {"node 2 at version 4", "node 3 at version 5"};
  state.churn.away = {NodeId(1)};
  for (std::uint32_t r = 0; r < 2; ++r) {
    state.staleness.push_back({cluster.worker_at(Rank(r)), {}, {}});
    state.staleness[r].clocks.add(r, 3);
    state.staleness[r].gradients.add(100 * r);
  }
  state.batch_sizes = WorkerBatchSizes{{8, 16}, {8, 8}, {16, 16}};
  state.loss_scales = {{2.0, 9}, {65536.0, 0}};
  state.test_accuracy = 0.5;
  state.checkpoints = 3;
  const std::string bytes = to_bytes(state);
  const auto back = run_record_from_bytes(bytes, cluster);
  REQUIRE(back.is_ok());
  CHECK(to_bytes(*back) == bytes);
  CHECK(back->switches[1].threshold.is_infinite());
  CHECK((back->churn.returned == state.churn.returned && back->churn.late == state.churn.late &&
         back->churn.late_nodes == 2 && back->churn.away == state.churn.away));
  CHECK(back->staleness[1].gradients.max == 100);
  CHECK_FALSE(back->lpr.has_value());
  CHECK(back->loss_scales == state.loss_scales);

  CHECK(run_record_from_bytes(bytes, Cluster{3, 1}).status().message() ==
        "run record: staleness: got 2 workers, expected 3");
  state.loss_scales[1].scale = 3.0;
  CHECK(run_record_from_bytes(to_bytes(state), cluster).status().message() ==
        "run record: loss scale: got 3.000000, expected 0, or a power of two up to 2^24");
  state.loss_scales.pop_back();
  CHECK(run_record_from_bytes(to_bytes(state), cluster).status().message() ==
        "run record: loss scales: got 1, expected 2");
  state.loss_scales.clear();
  state.churn.away = {NodeId(2)};
  CHECK(run_record_from_bytes(to_bytes(state), cluster).status().message() ==
        "run record: away: got node 2, expected one of 2");
  CHECK(run_record_from_bytes("\xff\xff", cluster).status().code() == StatusCode::kDataLoss);
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    (void)run_record_from_bytes(bytes.substr(0, cut), cluster);  // an error or a record, never more
  }
}

}  // namespace
}  // namespace paceline::server
