// An Authority with its outbox, log and run directory, and the peers that talk to it: for the tests of
// authority_test.cc and authority_end_test.cc.
#pragma once

#include <catch2/catch.hpp>

#include "common/params/model_file.h"
#include "common/report/curve.h"
#include "common/report/run_summary.h"
#include "server/authority/authority.h"
#include "tests/unit/errands.h"
#include "tests/unit/outbox_fixture.h"
#include "tests/unit/store_fixture.h"
#include "tests/unit/temp_folder.h"

namespace paceline::server {
namespace {

using namespace std::chrono_literals;
using Catch::Contains;

const Peer kNode0 = Peer::of(NodeId(0));
const Peer kNode1 = Peer::of(NodeId(1));
const Peer kShard0 = Peer::of(ShardId(0));
const Peer kShard1 = Peer::of(ShardId(1));
// What the nodes' training data come to.
constexpr std::uint64_t kData = 0xda7a;

// Two nodes with one thread each, two shards of four floats, BSP, three versions.
RunConfig small_run() {
  RunConfig config;
  config.cluster.nodes = 2;
  config.cluster.shards = 2;
  config.cluster.endpoints = {"tcp://a:1", "tcp://b:2"};
  config.train.total_iterations = 6;
  config.train.model = "layers";
  return config;
}

struct Run {
  explicit Run(RunConfig c = small_run()) : config(std::move(c)) {
    config.run.out = folder.path();
    auto record = RunRecord::open(config, log);
    REQUIRE(record.is_ok());
    authority.emplace(config, std::move(record).value(), sent, errands, log, now);
  }
  // From now on the log goes there, as far as it is of that level.
  void keep(LogLevel of, std::vector<std::string>& lines) {
    log = Log::to([of, &lines](LogLevel level, const std::string& text) {
      if (level == of) lines.push_back(text);
    });
  }
  void send(Peer from, wire::Body body, std::vector<float> values = {}) {
    const Status taken = authority->handle(from, {std::move(body), payload_of(std::move(values))}, now);
    INFO(taken.message());
    CHECK(taken.is_ok());
    if (!slow_disk) errands.do_all(now);
  }
  // With all files written.
  bool over() {
    errands.do_all(now);
    return authority->over();
  }
  Status refused(Peer from, wire::Body body) { return authority->handle(from, {std::move(body), {}}, now); }
  void pass(std::chrono::nanoseconds time) {
    now = now + time;
    authority->tick(now);
  }
  void gather() {
    const Layout layout = layout_of(8);
    authority->shard_joined(ShardId(1));
    authority->node_joined(NodeId(0), layout, now, 0, kData);
    authority->node_joined(NodeId(1), layout, now, 0, kData);
    for (std::uint32_t k = 0; k < 2; ++k)
      send(Peer::of(ShardId(k)), wire::ShardReady{ShardId(k), layout.hash()});
  }
  void arrive(std::uint32_t node, std::int64_t clock, std::uint32_t thread = 0) {
    for (std::uint32_t k = 0; k < 2; ++k) {
      const WorkerId worker(node, thread);
      send(Peer::of(ShardId(k)), wire::GradientArrived{ShardId(k), worker, Clock(clock), 10, ""});
    }
  }
  void iterate(std::uint32_t node, std::int64_t clock, std::uint32_t thread = 0,
               std::chrono::nanoseconds compute = std::chrono::seconds(1)) {
    arrive(node, clock, thread);
    wire::StepReport report;
    report.worker = WorkerId(node, thread);
    report.clock = Clock(clock);
    report.computed_version = Version(clock);
    report.metric = {1.0, correct, 10};
    report.compute = compute;
    report.loss_scale = loss_scale;
    send(Peer::of(NodeId(node)), report);
  }
  LossScale loss_scale;      // that workers report
  std::int64_t correct = 5;  // likewise, of 10 samples
  void train(std::int64_t from, std::int64_t to) {
    for (std::int64_t clock = from; clock < to; ++clock) {
      iterate(0, clock);
      iterate(1, clock);
    }
  }
  void answer_model(std::uint32_t shard, float value) {
    const auto pulls = sent.of<wire::Pull>(Peer::of(ShardId(shard)));
    REQUIRE(pulls.size() == 1);
    CHECK(pulls[0].exact);
    const wire::Parameters piece{
        pulls[0].request, ShardId(shard), pulls[0].min_version, Revision(6), 0, true, {}};
    send(Peer::of(ShardId(shard)), piece, std::vector<float>(4, value));
  }
  void node_reports(std::uint32_t node) {
    wire::NodeReport report;
    report.node = NodeId(node);
    report.workers.push_back({WorkerId(node, 0), {}, 3, 0, 0});
    send(Peer::of(NodeId(node)), report);
  }
  void shard_reports(std::uint32_t shard) {
    send(Peer::of(ShardId(shard)), wire::ShardReport{ShardId(shard), 100, 200, 3, 1});
  }
  void answer_model() {
    answer_model(0, 1);
    answer_model(1, 1);
  }
  void nodes_report() {
    node_reports(0);
    node_reports(1);
  }
  void shards_report() {
    shard_reports(0);
    shard_reports(1);
  }
  void ends() {
    shards_report();
    REQUIRE(over());
  }
  // Whatever is to be saved, now and at the end: there is no room for it, which costs the run nothing.
  void disk_is_full() {
    const auto to_save = [this] {
      std::vector<Version> versions;
      for (const auto& decision : sent.of<wire::ApplyDecision>(kShard1)) {
        if (decision.save) versions.push_back(decision.version_after);
      }
      return versions;
    };
    for (std::size_t i = 0; i < to_save().size(); ++i) {
      for (const std::uint32_t k : {0U, 1U}) {
        send(Peer::of(ShardId(k)), wire::Saved{ShardId(k), to_save()[i], {}, "No space left on device"});
      }
    }
  }
  RunSummary summary() {
    auto read = read_summary(config.run.out);
    REQUIRE(read.is_ok());
    return *read;
  }

  testing::TempFolder folder;
  RunConfig config;
  Log log;
  Sent sent;
  Errands errands;
  bool slow_disk = false;
  Ticks now{1};
  std::optional<Authority> authority;
};

// Everybody has come, and training has begun.
struct TrainingRun : Run {
  explicit TrainingRun(RunConfig c = small_run()) : Run(std::move(c)) { gather(); }
};

}  // namespace
}  // namespace paceline::server
