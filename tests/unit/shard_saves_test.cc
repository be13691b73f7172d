// What a shard saves: its own state, and that of nodes that hold the parameters themselves.
#include <catch2/catch.hpp>
#include <filesystem>

#include "common/config/load.h"
#include "server/service/shard_service.h"
#include "tests/unit/checkpoint_fixture.h"
#include "tests/unit/errands.h"
#include "tests/unit/outbox_fixture.h"
#include "tests/unit/shard_peers.h"
#include "tests/unit/store_fixture.h"
#include "tests/unit/temp_folder.h"

namespace paceline::server {
namespace {

// Two nodes that hold the parameters, six floats in blocks of four, and a momentum.
struct OfNodes {
  explicit OfNodes(bool shares = false) {
    config.exchange.shard_optimizer = shares;
    config.cluster.nodes = 2;
    config.cluster.frame_bytes = 4 * sizeof(float);
    config.exchange.kind = ExchangeKind::kAllreduce;
    config.train.optimizer.kind = OptimizerKind::kMomentum;
    config.run.out = run.path();
    checkpoints.emplace(ShardId(0), config, errands, sent, log);
    service.emplace(ShardId(0), config, sent, log, [] {}, &*checkpoints);
    REQUIRE(service->open(layout_of(6)).is_ok());
  }
  void send(Peer from, wire::Body body, std::vector<float> values = {}) {
    REQUIRE(service->handle(from, {std::move(body), payload_of(std::move(values))}).is_ok());
  }
  void decide(std::int64_t clock, bool save) {
    auto decision = decision_of(clock, {}, clock + 1);
    decision.save = save;
    send(kTheAuthority, decision);
  }
  // Parameters of `value`, a momentum of ten times that, in pieces.
  void state(std::int64_t version, float value, std::int64_t pieces = 4) {
    const std::int64_t begins[] = {0, 4, 6, 10, 12};
    for (std::int64_t i = 0; i < pieces; ++i) {
      send(kNode0, wire::NodeState{Version(version), begins[i], i == 3},
           std::vector<float>(static_cast<std::size_t>(begins[i + 1] - begins[i]),
                              i < 2 ? value : 10 * value));
    }
  }
  ShardFile saved(std::int64_t version) {
    errands.do_all(Ticks(1));
    const CheckpointFolder folder(run.path(), fingerprint(config, AgreedBy::kRun));
    auto file = read_shard_file(
        folder.shard_file({1, Version(version)}, ShardId(0)),
        {{1, Version(version)}, fingerprint(config, AgreedBy::kRun), ShardId(0), {}, {}, {}}, 4);
    REQUIRE(file.is_ok());
    return std::move(file).value();
  }

  testing::TempFolder run;
  Errands errands;
  RunConfig config;
  Log log;
  Sent sent;
  std::optional<ShardCheckpoints> checkpoints;
  std::optional<ShardService> service;
};

TEST_CASE("a decision that is to be saved is written as it was, and the authority is told of the file") {
  testing::TempFolder run;
  Errands errands;
  RunConfig config;
  config.cluster.nodes = 2;
  config.run.out = run.path();
  Log log;
  Sent sent;
  ShardCheckpoints checkpoints(ShardId(0), config, errands, sent, log);
  ShardService service(ShardId(0), config, sent, log, [] {}, &checkpoints);
  const auto send = [&](Peer from, wire::Body body, std::vector<float> values = {}) {
    REQUIRE(service.handle(from, {std::move(body), payload_of(std::move(values))}).is_ok());
  };
  REQUIRE(service.open(layout_of(6)).is_ok());
  send(kNode0, wire::InitialParameters{0, true}, std::vector<float>(6, 1.0F));
  for (std::int64_t clock = 0; clock < 2; ++clock) {
    send(kNode0, push_of(kWorker, clock), std::vector<float>(6, 1.0F));
    auto decision = decision_of(clock, {{kWorker, Clock(clock), 1}}, clock + 1);
    decision.save = clock == 0;
    send(kTheAuthority, decision);
  }
  CHECK(sent.to_authority<wire::Saved>().empty());
  errands.do_all(Ticks(1));  // another version is there by now
  const auto saved = sent.to_authority<wire::Saved>();
  REQUIRE(saved.size() == 1);
  CHECK((saved[0].version == Version(1) && saved[0].fault.empty()));

  const CheckpointFolder folder(run.path(), fingerprint(config, AgreedBy::kRun));
  const auto intact = folder.intact(ShardId(0));
  REQUIRE(intact->files.size() == 1);
  CHECK(intact->files[0].digest == saved[0].digest);
  const auto file =
      read_shard_file(folder.shard_file({1, Version(1)}, ShardId(0)),
                      {{1, Version(1)}, fingerprint(config, AgreedBy::kRun), ShardId(0), {}, {}, {}}, 4);
  REQUIRE(file.is_ok());
  CHECK(file->image.decisions == 1);
  const float lr = static_cast<float>(1.0);
  CHECK(values_of(file->image.parameters) == std::vector<float>(6, 1.0F - lr));
  send(kTheAuthority, wire::ForgetSaved{{1, Version(2)}});
  errands.do_all(Ticks(2));
  CHECK(folder.intact(ShardId(0))->files.empty());
}

TEST_CASE("what is saved of nodes that hold the parameters is node 0's state at that version") {
  OfNodes s;
  s.send(kNode0, wire::InitialParameters{0, false}, std::vector<float>(4, 1.0F));
  s.send(kNode0, wire::InitialParameters{4, true}, std::vector<float>(2, 1.0F));
  s.decide(0, true);
  s.decide(1, false);  // training goes on
  SECTION("which comes after the decision") { s.state(1, 7.0F); }
  SECTION("which begins anew after a connection that broke and a piece that was lost with it") {
    s.state(1, 7.0F, 1);
    s.send(kNode0, wire::NodeState{Version(1), 6, false}, std::vector<float>(4, 2.0F));
    s.state(1, 7.0F);
  }
  const ShardFile file = s.saved(1);
  CHECK(file.image.decisions == 1);
  CHECK(values_of(file.image.parameters) == std::vector<float>(6, 7.0F));
  CHECK(file.image.optimizer.steps == 1);
  CHECK(values_of(file.image.optimizer.first) == std::vector<float>(6, 70.0F));
  CHECK(s.sent.to_authority<wire::ShardReady>().back().version == Version(1));
}

TEST_CASE("a state of another version than the one that is saved is not saved as that") {
  OfNodes s;
  s.send(kNode0, wire::InitialParameters{0, true}, std::vector<float>(6, 1.0F));
  s.state(1, 7.0F);
  s.decide(0, false);
  s.decide(1, true);
  s.errands.do_all(Ticks(1));
  CHECK(s.sent.to_authority<wire::Saved>().empty());
  SECTION("it comes") {
    s.state(2, 8.0F);
    CHECK(values_of(s.saved(2).image.parameters) == std::vector<float>(6, 8.0F));
  }
  SECTION("it does not come any more: the connection broke") {
    s.service->on_reconnect(NodeId(0));
    const auto saved = s.sent.to_authority<wire::Saved>();
    REQUIRE(saved.size() == 1);
    CHECK(saved[0].version == Version(2));
    CHECK(saved[0].fault == "node 0's connection broke while it sent its state");
  }
}

TEST_CASE("nodes are sent what a run begins with, once it is there, and what it goes on from") {
  OfNodes s;
  const auto received = [&s] {
    std::vector<float> floats;
    for (const auto& entry : s.sent.entries) {
      const auto* piece = std::get_if<wire::NodeState>(&entry.message.body);
      if (entry.to != kNode1 || piece == nullptr) continue;
      CHECK(piece->offset == std::ssize(floats));
      const auto values = entry.message.payload.floats();
      floats.insert(floats.end(), values.begin(), values.end());
    }
    return floats;
  };
  s.send(kNode1, wire::StateWanted{});
  CHECK(received().empty());
  SECTION("the parameters alone") {
    s.send(kNode0, wire::InitialParameters{0, true}, std::vector<float>(6, 1.0F));
    CHECK(received() == std::vector<float>(6, 1.0F));
  }
  SECTION("from a checkpoint, with the optimizer's state") {
    OfNodes before;
    before.send(kNode0, wire::InitialParameters{0, true}, std::vector<float>(6, 1.0F));
    before.decide(0, true);
    before.state(1, 7.0F);
    REQUIRE(s.service->resume_from(before.saved(1)).is_ok());
    std::vector<float> all(6, 7.0F);
    all.resize(12, 70.0F);
    CHECK(received() == all);
  }
}

TEST_CASE("where each node has a part of the state it is saved once all of it has come, in any order") {
  OfNodes s(/*shards=*/true);
  s.send(kNode0, wire::InitialParameters{0, true}, std::vector<float>(6, 1.0F));
  s.decide(0, true);
  const auto part = [&s](Peer from, std::int64_t begin, std::int64_t floats, float value) {
    s.send(from, wire::NodeState{Version(1), begin, false},
           std::vector<float>(static_cast<std::size_t>(floats), value));
  };
  part(kNode1, 9, 3, 70.0F);
  part(kNode0, 0, 2, 7.0F);
  part(kNode0, 6, 2, 70.0F);
  part(kNode1, 3, 3, 7.0F);
  SECTION("with what a keeper sends once more") {
    part(kNode1, 1, 2, 7.0F);
    part(kNode1, 7, 2, 70.0F);
    part(kNode0, 0, 6, 7.0F);
    const ShardFile file = s.saved(1);
    CHECK(values_of(file.image.parameters) == std::vector<float>(6, 7.0F));
    CHECK(values_of(file.image.optimizer.first) == std::vector<float>(6, 70.0F));
    CHECK(s.sent.to_authority<wire::ShardReady>().back().version == Version(1));
  }
  SECTION("a node that is lost meanwhile costs the checkpoint") {
    s.send(kTheAuthority, wire::NodeLost{NodeId(1)});
    CHECK(s.sent.to_authority<wire::Saved>().back().fault == "node 1 was lost while it sent its state");
  }
}

TEST_CASE("a state is node 0's to send, of as many floats as there are") {
  OfNodes s;
  s.send(kNode0, wire::InitialParameters{0, true}, std::vector<float>(6, 1.0F));
  s.send(kNode1, wire::NodeState{Version(1), 0, false}, std::vector<float>(6, 2.0F));
  s.send(kNode0, wire::NodeState{Version(1), 0, false}, std::vector<float>(7, 2.0F));  // of two vectors
  s.send(kNode0, wire::NodeState{Version(1), 12, true}, std::vector<float>(6, 2.0F));  // of a third
  CHECK(s.sent.of<wire::Error>(kNode1).size() == 1);
  CHECK(s.sent.of<wire::Error>(kNode0).size() == 2);
}

TEST_CASE(
    "of a checkpoint that another shard has failed nothing stays beyond the next, of a complete one all") {
  testing::TempFolder run;
  Errands errands;
  RunConfig config;
  config.cluster.shards = 2;
  config.run.out = run.path();
  Log log;
  Sent sent;
  ShardCheckpoints checkpoints(ShardId(1), config, errands, sent, log);
  const CheckpointFolder folder(run.path(), fingerprint(config, AgreedBy::kRun));
  const auto save = [&](std::int64_t version) {
    ShardImage image;
    image.version = Version(version);
    checkpoints.save(std::move(image), Range{0, 0}, 1);
    errands.do_all(Ticks(1));
  };
  const auto there = [&](std::int64_t version) {
    return std::filesystem::exists(folder.shard_file({1, Version(version)}, ShardId(1)));
  };
  save(1);
  save(2);
  CHECK((!there(1) && there(2)));
  CHECK_FALSE(std::filesystem::exists(folder.folder({1, Version(1)})));
  checkpoints.forget({1, Version(2)});
  save(3);
  CHECK((there(2) && there(3)));
  save(3);  // once more: it is the run's last version, and another shard had failed it
  CHECK(there(3));
}

TEST_CASE("a file that cannot be written is told with the system's reason, and the shard goes on") {
  testing::TempFolder run;
  put_file(run / "checkpoint", "in the way of the folder");
  Errands errands;
  RunConfig config;
  config.run.out = run.path();
  Log log;
  Sent sent;
  ShardCheckpoints checkpoints(ShardId(0), config, errands, sent, log);
  ShardService service(ShardId(0), config, sent, log, [] {}, &checkpoints);
  REQUIRE(service.open(layout_of(6)).is_ok());
  const auto initial = payload_of(std::vector<float>(6, 1.0F));
  REQUIRE(service.handle(kNode0, {wire::InitialParameters{0, true}, initial}).is_ok());
  auto decision = decision_of(0, {}, 1);
  decision.save = true;
  REQUIRE(service.handle(kTheAuthority, {decision, {}}).is_ok());
  errands.do_all(Ticks(1));
  const auto saved = sent.to_authority<wire::Saved>();
  REQUIRE(saved.size() == 1);
  CHECK_THAT(saved[0].fault, Catch::Contains("checkpoint"));
  decision.sequence = 1;
  CHECK(service.handle(kTheAuthority, {decision, {}}).is_ok());
}

}  // namespace
}  // namespace paceline::server
