// The authority of a replica that follows: what it decides of files that the one that serves has written,
// while its own disk is slower than that one's, or full.
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <future>

#include "server/loop/background_thread.h"
#include "server/replicas/replicated_background.h"
#include "tests/unit/saving_run.h"

namespace paceline::server {
namespace {

// Its disk takes nothing before let_go(); the test is the one that serves.
struct Following : Run {
  explicit Following(RunConfig c) : Run(std::move(c)) {
    disk.run(
        [this] {
          const bool waited = free.get_future().wait_for(20s) == std::future_status::ready;
          return waited ? Status::ok() : internal_error("nobody let go");
        },
        [](const Status& waited, Ticks) { CHECK(waited.is_ok()); });
    auto record = RunRecord::open(config, log);
    REQUIRE(record.is_ok());
    authority.emplace(config, std::move(record).value(), sent, background, log, now);
    background.follow();
    gather();
  }
  void let_go() { free.set_value(); }
  // Until so many pieces of work are done here.
  void wait_for(int works) {
    loop.restart();
    const auto until_done = boost::asio::make_work_guard(loop);
    while (behind < works + 1) REQUIRE(loop.run_one_for(20s) == 1);
  }
  void save(std::int64_t version) {
    const CheckpointFolder checkpoints(config.run.out, fingerprint(config, AgreedBy::kRun));
    const CheckpointId id{1, Version(version)};
    REQUIRE(checkpoints.make(id).is_ok());
    REQUIRE(write_file_atomically(checkpoints.shard_file(id, ShardId(0)), "12345").is_ok());
    for (std::uint32_t k = 0; k < 2; ++k) {
      send(Peer::of(ShardId(k)), wire::Saved{ShardId(k), Version(version), {5, k + 1}, ""});
    }
  }

  boost::asio::io_context loop;
  int behind = 0;
  std::promise<void> free;
  BackgroundThread disk{loop, [this] { ++behind; }};
  ReplicatedBackground background{disk, [this] { return now; }, [](std::int64_t, const Status&, Ticks) {},
                                  log};
};

TEST_CASE("a checkpoint counts when the one that serves says so, while this one's disk still takes it") {
  Following run(saving_run());
  run.train(0, 1);
  run.save(1);
  run.let_go();  // the work goes on beside what follows
  CHECK(run.background.done(0, Status::ok(), run.now).is_ok());
  // What it is told to keep is told by who knows; this one says only that the checkpoint is complete.
  CHECK(run.sent.of<wire::ForgetSaved>(kShard1).size() == 1);
  run.train(1, 2);
  CHECK(run.sent.of<wire::ApplyDecision>(kShard1).back().save);
  run.wait_for(1);
  run.save(2);
  run.wait_for(2);
  CHECK(run.background.done(1, Status::ok(), run.now).is_ok());
  CHECK(run.sent.of<wire::ForgetSaved>(kShard1).back().oldest_kept == CheckpointId{1, Version(1)});
}

// To where all is over, by the word of the one that serves.
void to_the_end(Following& run) {
  run.train(0, 3);
  run.answer_model();
  run.nodes_report();
  run.send(kNode0, wire::EvaluationReport{Version(3), {50.0, 75, 100}, ""});
}

TEST_CASE("a checkpoint of which this one's disk lacks a file is none here, whatever counts") {
  Following run(saving_run());
  std::vector<std::string> warnings;
  run.keep(LogLevel::kWarn, warnings);
  run.let_go();
  const CheckpointFolder checkpoints(run.config.run.out, fingerprint(run.config, AgreedBy::kRun));
  run.train(0, 1);
  run.save(1);
  run.wait_for(1);
  CHECK(run.background.done(0, Status::ok(), run.now).is_ok());
  run.train(1, 2);
  run.save(2);
  CHECK(run.background.done(1, Status::ok(), run.now).is_ok());
  run.wait_for(2);
  CHECK(warnings.empty());
  CHECK(checkpoints.complete()->checkpoints.size() == 2);

  run.train(2, 3);
  for (std::uint32_t k = 0; k < 2; ++k) {  // its own has failed, as it says elsewhere
    run.send(Peer::of(ShardId(k)), wire::Saved{ShardId(k), Version(3), {5, k + 1}, ""});
  }
  CHECK(run.background.done(2, Status::ok(), run.now).is_ok());
  run.wait_for(3);
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], Contains("the checkpoint of version 3 ") && Contains("shard-0: it is missing"));
  CHECK_FALSE(std::filesystem::exists(checkpoints.folder({1, Version(3)})));
  CHECK(checkpoints.complete()->checkpoints.at(0).id == CheckpointId{1, Version(2)});
}

TEST_CASE("a model that counts and is not on this one's disk fails the run where this one comes to serve") {
  Following run(small_run());
  std::filesystem::create_directory(run.folder / "model.bin");
  run.let_go();
  to_the_end(run);
  CHECK(run.background.done(0, Status::ok(), run.now).is_ok());
  CHECK(run.authority->take_missing().is_ok());
  run.wait_for(1);
  run.background.take_over();
  const Status missing = run.authority->take_missing();
  CHECK_THAT(missing.message(), Contains("model.bin"));
  run.authority->fail_for_missing(missing, run.now);
  run.wait_for(2);  // the results
  REQUIRE(run.authority->over());
  CHECK(run.authority->result().message() == missing.message());
  CHECK(run.summary().status == "failed");
  CHECK(run.sent.of<wire::RunOver>(kNode0).back().code == missing.code());
}

TEST_CASE("where the run was over already, too: its summary is written again") {
  Following run(small_run());
  std::filesystem::create_directory(run.folder / "model.bin");
  to_the_end(run);
  CHECK(run.background.done(0, Status::ok(), run.now).is_ok());
  run.shards_report();
  CHECK(run.background.done(1, Status::ok(), run.now).is_ok());
  REQUIRE(run.authority->over());
  run.background.take_over();
  CHECK(run.background.is_behind());
  run.let_go();
  run.wait_for(2);
  CHECK(run.summary().status == "ok");
  const Status missing = run.authority->take_missing();
  REQUIRE_FALSE(missing.is_ok());
  run.authority->fail_for_missing(missing, run.now);
  CHECK_FALSE(run.authority->over());
  run.wait_for(3);
  REQUIRE(run.authority->over());
  CHECK_FALSE(run.authority->result().is_ok());
  CHECK(run.summary().status == "failed");
  CHECK_THAT(run.summary().reason, Contains("model.bin"));
}

TEST_CASE("a trace that counts before this one's disk has it is in this one's summary") {
  RunConfig config = small_run();
  config.run.trace = true;
  Following run(config);
  run.train(0, 3);
  run.answer_model();
  run.nodes_report();
  run.send(kNode0, wire::EvaluationReport{Version(3), {50.0, 75, 100}, ""});
  run.let_go();
  CHECK(run.background.done(0, Status::ok(), run.now).is_ok());  // model.bin
  run.shards_report();
  CHECK(run.background.done(1, Status::ok(), run.now).is_ok());  // the trace
  CHECK(run.background.done(2, Status::ok(), run.now).is_ok());  // the results
  REQUIRE(run.authority->over());
  run.wait_for(3);
  REQUIRE(run.summary().traced.has_value());
  CHECK(run.summary().traced->events > 0);
}

}  // namespace
}  // namespace paceline::server
