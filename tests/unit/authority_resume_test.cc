// An authority that goes on from a checkpoint: who is waited for, what is left to do, and what the record
// says.
#include <filesystem>
#include <fstream>

#include "tests/unit/saving_run.h"

namespace paceline::server {
namespace {

// Two nodes, six iterations; version 1 is saved, and nothing after it.
struct SavedRun : SavingRun {
  SavedRun() {
    now = now + 2s;
    train(0, 1);
    save(1);
  }
};

// The same, of which new servers go on, and have read their checkpoint.
struct ResumedRun : SavedRun {
  ResumedRun() {
    resume();
    shards_ready();
  }
};

TEST_CASE(
    "a resumed run goes on at its version when those who were there have joined, and does what is left") {
  SavedRun run;
  run.now = run.now + 100s;
  run.resume();
  run.shards_ready();
  run.come(0);
  CHECK_FALSE(run.authority->training());
  run.come(1);
  REQUIRE(run.authority->training());
  const auto granted = run.sent.of<wire::Grant>(kNode1);
  REQUIRE(granted.size() == 1);
  CHECK((granted[0].clock == Clock(1) && granted[0].iteration == 3 && granted[0].min_version == Version(1)));
  run.now = run.now + 3s;
  run.train(1, 3);
  const auto decisions = run.sent.of<wire::ApplyDecision>(kShard1);
  REQUIRE(decisions.size() >= 2);
  CHECK((decisions[0].sequence == 1 && decisions[0].version_after == Version(2)));
  CHECK(decisions[0].revision_after == Revision(4));
  run.answer_model();
  run.send(kNode0, wire::EvaluationReport{Version(3), {50.0, 75, 100}, ""});
  run.nodes_report();
  run.disk_is_full();
  run.ends();
  const RunSummary summary = run.summary();
  CHECK((summary.status == "ok" && summary.iterations == 6));
  CHECK((summary.generation == 2 && summary.resumed_from == Version(1)));
  CHECK(summary.wall_seconds == Approx(5.0));  // of training: what lay between is not
  CHECK(summary.staleness->clocks.mean == Approx(0.0));
}

TEST_CASE("a worker is told the loss scale that it has said last, also by who resumes the run") {
  RunConfig config = saving_run();
  config.train.precision = Precision::kFp16;
  config.train.on_nan = OnNan::kSkip;
  SavingRun run(config);
  CHECK(run.sent.of<wire::Grant>(kNode1).back().loss_scale == LossScale{});
  run.loss_scale = {4096.0, 7};
  run.train(0, 1);
  CHECK(run.sent.of<wire::Grant>(kNode1).back().loss_scale == run.loss_scale);
  run.save(1);
  run.resume();
  run.shards_ready();
  run.come(0);
  run.come(1);
  REQUIRE(run.authority->training());
  CHECK(run.sent.of<wire::Grant>(kNode0).back().loss_scale == run.loss_scale);
  CHECK(run.sent.of<wire::Grant>(kNode1).back().loss_scale == run.loss_scale);
}

TEST_CASE("what was counted before a resume is known apart") {
  ResumedRun run;
  run.come(0);
  run.come(1);
  run.train(1, 2);
  const RunStatus status = run.authority->status([](Peer) { return std::nullopt; }, run.now);
  CHECK((status.before.iterations == 2 && status.iterations == 4));
}

TEST_CASE("the staleness of before a resume is in the record of after it") {
  ResumedRun run;
  run.come(0);
  run.come(1);
  run.train(1, 2);
  const auto saved = run.sent.of<wire::ApplyDecision>(kShard1);
  REQUIRE(saved.back().save);
  for (const std::uint32_t k : {0U, 1U}) {
    const CheckpointId id{2, Version(2)};
    REQUIRE(run.checkpoints().make(id).is_ok());
    REQUIRE(write_file_atomically(run.checkpoints().shard_file(id, ShardId(k)), "12345").is_ok());
    run.send(Peer::of(ShardId(k)), wire::Saved{ShardId(k), Version(2), {5, 1}, ""});
  }
  const Manifest manifest = run.checkpoints().complete()->checkpoints.at(0);
  CHECK(manifest.id == CheckpointId{2, Version(2)});
  CHECK(manifest.decisions == 2);
  const auto record = run_record_from_bytes(manifest.record, run.config.cluster.cluster());
  REQUIRE(record.is_ok());
  CHECK(record->staleness[0].clocks.count == 2);
  CHECK(record->checkpoints == 1);
}

TEST_CASE("a curve that cannot be read is put aside with a warning, and the run goes on") {
  SavedRun run;
  run.keep(LogLevel::kWarn, run.warnings);
  const std::filesystem::path file = run.folder / "curve.csv";
  const std::string broken = read_file(file, 1 << 20).value() + std::string(40, '\0') + "\n";
  REQUIRE(write_file_atomically(file, broken).is_ok());
  run.resume();
  REQUIRE(run.warnings.size() == 1);
  CHECK_THAT(run.warnings[0], Contains("curve.csv.broken"));
  CHECK(read_file(run.folder / "curve.csv.broken", 1 << 20).value() == broken);
  CHECK(read_curve(run.folder.path())->empty());
  run.shards_ready();
  run.come(0);
  run.come(1);
  CHECK(run.authority->training());
}

TEST_CASE("what was recorded before goes when training goes on, and other files stay") {
  SavedRun run;
  const std::filesystem::path part = run.folder / "trace-node-1.json",
                              other = run.folder / "trace-of-mine.json";
  for (const auto& file : {part, other, run.folder / "trace.json"})
    REQUIRE(write_file_atomically(file, "{}"));
  run.resume();
  run.shards_ready();
  CHECK(std::filesystem::exists(part));
  run.come(0);
  run.come(1);
  REQUIRE(run.authority->training());
  run.errands.do_all(run.now);
  CHECK_FALSE(std::filesystem::exists(part));
  CHECK_FALSE(std::filesystem::exists(run.folder / "trace.json"));
  CHECK(std::filesystem::exists(other));
}

TEST_CASE("a shard that is ready before any node has come here is no mistake; one of another layout is") {
  ResumedRun run;
  CHECK_FALSE(run.over());
  run.send(kShard1, wire::ShardReady{ShardId(1), 4711});
  REQUIRE(run.over());
  CHECK_THAT(run.authority->result().message(), Contains("layout"));
}

TEST_CASE("a node that does not come is lost after start_timeout, and the others go on without it") {
  ResumedRun run;
  run.come(1);
  run.pass(run.config.cluster.start_timeout);
  CHECK_FALSE(run.authority->training());
  run.pass(1s);
  REQUIRE(run.authority->training());
  CHECK(run.sent.of<wire::NodeLost>(kShard1).at(0).node == NodeId(0));
  CHECK(run.sent.of<wire::Grant>(kNode1).size() == 1);
  // It does the rest alone: four iterations.
  for (std::int64_t clock = 1; clock < 5; ++clock) run.iterate(1, clock);
  run.answer_model();
  run.send(kNode1, wire::EvaluationReport{Version(5), {50.0, 75, 100}, ""});
  run.node_reports(1);
  run.disk_is_full();
  run.ends();
  CHECK((run.summary().iterations == 6 && run.summary().lost_nodes == 1));
}

TEST_CASE("a node that was lost before the save is not waited for, and takes part if it is there in time") {
  const auto at_start = GENERATE(as<std::optional<std::uint32_t>>{}, std::nullopt, 2U);
  for (const bool comes : {false, true}) {
    RunConfig config = saving_run();
    config.cluster.nodes_at_start = at_start;
    SavingRun run(config);
    run.authority->lost(kNode0, "silent for 10.2 s", run.now);
    run.iterate(1, 0);
    run.save(1);
    run.resume();
    if (comes) run.come(0);
    run.come(1);
    CHECK_FALSE(run.authority->training());
    run.shards_ready();
    REQUIRE(run.authority->training());
    CHECK(run.sent.of<wire::Grant>(kNode0).size() == (comes ? 1 : 0));
    CHECK(run.sent.of<wire::NodeLost>(kShard1).size() == (comes ? 0 : 1));
    run.authority->fail(aborted("enough is known"), run.now);
    REQUIRE(run.over());
    const std::vector<std::string> returned = run.summary().returned;
    CHECK(returned == std::vector<std::string>(comes ? 1 : 0, "node 0 at version 1"));
    CHECK(run.summary().late_nodes == 0);
  }
}

TEST_CASE("of a run whose nodes were all lost those who come are waited for, and nobody is refused") {
  RunConfig config = saving_run(100);
  config.cluster.nodes = 3;
  const bool come_and_go = GENERATE(false, true);
  if (come_and_go) config.cluster.nodes_at_start = 2;
  if (!come_and_go) {
    config.sync.policy = PolicyKind::kBackup;
    config.sync.backup_workers = 1;
  }
  SavingRun run(config);
  if (!come_and_go) run.come(2);
  run.train(0, 1);
  for (const std::uint32_t node : {0U, 1U, 2U}) {
    if (come_and_go && node == 2) continue;  // it never came
    run.authority->lost(Peer::of(NodeId(node)), "its connection broke", run.now);
  }
  REQUIRE(run.versions_to_save() == std::vector<std::int64_t>{1});
  run.save(1);
  run.resume();
  run.shards_ready();
  run.come(1);
  CHECK_FALSE(run.authority->training());
  run.come(0);
  CHECK(run.authority->training() == come_and_go);
  if (!come_and_go) run.come(2);
  REQUIRE(run.authority->training());
  for (const Peer node : {kNode0, kNode1}) {
    CHECK(run.sent.of<wire::Grant>(node).size() == 1);
    CHECK(run.sent.of<wire::Error>(node).empty());
  }
  run.authority->fail(aborted("enough is known"), run.now);
  REQUIRE(run.over());
  CHECK(run.summary().lost_nodes == (come_and_go ? 2 : 3));
  CHECK(run.summary().returned_nodes == run.summary().lost_nodes);
}

TEST_CASE(
    "of a run whose nodes were all lost nobody waits for more than can come, and who goes again is lost") {
  RunConfig config = saving_run(100);
  config.cluster.nodes_at_start = 2;
  SavingRun run(config);
  run.keep(LogLevel::kWarn, run.warnings);
  run.train(0, 1);
  for (const Peer node : {kNode0, kNode1}) run.authority->lost(node, "its connection broke", run.now);
  run.save(1);
  run.resume();
  run.shards_ready();
  run.warnings.clear();
  SECTION("all programs end") {
    run.authority->program_ended(NodeId(1), "status 1", run.now);
    CHECK_FALSE(run.over());
    run.authority->program_ended(NodeId(0), "status 1", run.now);
    REQUIRE(run.over());
    CHECK_THAT(run.authority->result().message(),
               Contains("the last was node 0: its program has ended with status 1"));
  }
  SECTION("all programs but one's end") {
    run.come(1);
    CHECK_FALSE(run.authority->training());
    run.authority->program_ended(NodeId(0), "status 1", run.now);
    REQUIRE(run.authority->training());
    CHECK(run.sent.of<wire::Grant>(kNode1).size() == 1);
    CHECK(run.warnings.empty());
  }
  SECTION("it had joined") {
    run.come(1);
    run.authority->lost(kNode1, "silent for 10.2 s", run.now);
    CHECK(run.warnings == std::vector<std::string>{"node 1 lost: silent for 10.2 s"});
    run.authority->fail(aborted("enough is known"), run.now);
    REQUIRE(run.over());
    CHECK(run.summary().lost_nodes == 3);
  }
}

TEST_CASE("a node that comes first to a resumed run is late, also where training has not gone on yet") {
  RunConfig config = saving_run();
  config.cluster.nodes = 3;
  config.cluster.nodes_at_start = 2;
  SavingRun run(config);
  run.train(0, 1);
  run.save(1);
  run.resume();
  run.shards_ready();
  for (const std::uint32_t node : {0U, 2U, 1U}) run.come(node);
  REQUIRE(run.authority->training());
  run.authority->fail(aborted("enough is known"), run.now);
  REQUIRE(run.over());
  CHECK(run.summary().late == std::vector<std::string>{"node 2 at version 1"});
  CHECK(run.summary().returned_nodes == 0);
}

TEST_CASE("a node that is lost again before training goes on does not hold the others up") {
  SavedRun run;
  run.resume();
  run.come(0);
  run.come(1);
  run.authority->lost(kNode0, "its connection broke", run.now);
  CHECK_FALSE(run.authority->training());
  run.shards_ready();
  REQUIRE(run.authority->training());
  CHECK(run.sent.of<wire::Grant>(kNode1).size() == 1);
}

TEST_CASE("a program that ends before training goes on ends the run, if its node was there at the save") {
  const bool was_lost = GENERATE(false, true);
  SavingRun run;
  if (was_lost) {
    run.authority->lost(kNode0, "silent for 10.2 s", run.now);
    run.iterate(1, 0);
  } else {
    run.train(0, 1);
  }
  run.save(1);
  run.resume();
  run.come(1);
  run.authority->program_ended(NodeId(0), "status 1", run.now);
  if (was_lost) {
    run.shards_ready();
    CHECK(run.authority->training());
    return;
  }
  REQUIRE(run.over());
  CHECK(run.authority->result().message() == "node 0 has not joined: its program has ended with status 1");
  CHECK(run.complete() == std::vector<CheckpointId>{{1, Version(1)}});
}

TEST_CASE("what an end of the run has left goes when the run goes on, not before") {
  SavedRun run;
  const std::filesystem::path model = run.folder / "model.bin";
  REQUIRE(write_file_atomically(model, "of the run that was stopped").is_ok());
  // Of a process that was killed as it wrote; and what is nobody's business here.
  const std::filesystem::path begun = run.folder / ".phases_so_far.csv.2781.18.tmp";
  const std::filesystem::path other = run.folder / ".notes.txt.1.1.tmp";
  for (const auto& file : {begun, other}) std::ofstream(file) << "half of";
  run.resume();
  run.shards_ready();
  run.come(0);
  run.errands.do_all(run.now);
  CHECK(std::filesystem::exists(model));
  run.come(1);
  REQUIRE(run.authority->training());
  run.errands.do_all(run.now);
  CHECK_FALSE(std::filesystem::exists(model));
  CHECK_FALSE(std::filesystem::exists(begun));
  CHECK(std::filesystem::exists(other));
}

TEST_CASE("with nobody there the resumed run fails, and can be resumed again") {
  ResumedRun run;
  run.pass(run.config.cluster.start_timeout + 1s);
  REQUIRE(run.over());
  CHECK_THAT(run.authority->result().message(), Contains("node 0, node 1 have not joined"));
  CHECK(run.complete() == std::vector<CheckpointId>{{1, Version(1)}});
}

TEST_CASE("a shard that reads for long is waited for, and nodes for start_timeout after it") {
  SavedRun run;
  run.resume();
  run.come(0);
  run.send(kShard0, wire::ShardReady{ShardId(0), layout_of(8).hash()});
  run.pass(run.config.cluster.start_timeout + Checkpoints::kLeases * run.config.cluster.lease);
  CHECK_FALSE(run.authority->over());
  SECTION("it has read") {
    run.send(kShard1, wire::ShardReady{ShardId(1), layout_of(8).hash()});
    run.pass(run.config.cluster.start_timeout);
    CHECK_FALSE(run.authority->training());
    run.pass(1s);
    CHECK(run.authority->training());
  }
  SECTION("it never has, and nodes are told that other servers may go on") {
    run.pass(1s);
    REQUIRE(run.over());
    CHECK_THAT(run.authority->result().message(), Contains("node 1 has not joined"));
    CHECK(run.sent.of<wire::RunOver>(kNode0).at(0).resumable);
  }
}

TEST_CASE(
    "nodes of a resumed run that fails before it goes on wait for another, unless it cannot fit or was "
    "stopped") {
  for (const auto& [why, resumable] :
       std::vector<std::pair<Status, bool>>{{data_loss("a file has gone bad since it was chosen"), true},
                                            {resource_exhausted("no memory"), true},
                                            {failed_precondition("another parameter layout"), false}}) {
    SavedRun run;
    run.resume();
    run.come(0);
    run.authority->fail(why, run.now);
    CHECK(run.sent.of<wire::RunOver>(kNode0).at(0).resumable == resumable);
  }
  SavedRun run;
  run.resume();
  run.come(0);
  run.authority->stop("stopped by a signal", run.now);
  CHECK_FALSE(run.sent.of<wire::RunOver>(kNode0).at(0).resumable);
}

TEST_CASE("a node that is on its way in as the last one is lost waits for the run to be resumed") {
  SavingRun run;
  run.train(0, 1);
  run.save(1);
  run.authority->lost(kNode1, "its connection broke", run.now);
  run.authority->node_joined(NodeId(1), layout_of(8), run.now, 77);  // all servers are still to welcome it
  run.authority->lost(kNode0, "its connection broke", run.now);
  CHECK(run.authority->may_come(NodeId(0)).code() == StatusCode::kUnavailable);  // it asks until others go on
  run.answer_model();
  run.ends();
  CHECK_THAT(run.authority->result().message(), Contains("every node was lost"));
  const auto received = run.sent.of<wire::RunOver>(kNode1);
  REQUIRE(received.size() == 1);
  CHECK(received[0].resumable);
}

TEST_CASE("without a checkpoint it is told that the run is over, and who asks then is refused") {
  TrainingRun run;
  run.authority->lost(kNode1, "its connection broke", run.now);
  run.authority->node_joined(NodeId(1), layout_of(8), run.now, 77);
  run.authority->lost(kNode0, "its connection broke", run.now);
  CHECK(run.authority->may_come(NodeId(0)).code() == StatusCode::kFailedPrecondition);
  run.answer_model();
  run.ends();
  CHECK_FALSE(run.sent.of<wire::RunOver>(kNode1).at(0).resumable);
}

TEST_CASE("a shard that is lost ends the run, and nodes are told whether it can go on from a checkpoint") {
  for (const bool saved : {false, true}) {
    SavingRun run;
    run.train(0, 1);
    if (saved) run.save(1);
    run.authority->lost(kShard1, "its connection broke", run.now);
    const auto received = run.sent.of<wire::RunOver>(kNode0);
    REQUIRE(received.size() == 1);
    CHECK(received[0].resumable == saved);
    CHECK(received[0].code == StatusCode::kUnavailable);
  }
}

}  // namespace
}  // namespace paceline::server
