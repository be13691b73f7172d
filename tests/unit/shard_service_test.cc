// A shard's conversation: who may say what, what is answered now, later or never.
#include "server/shard_service.h"

#include <catch2/catch.hpp>

#include "common/config/load.h"
#include "tests/unit/checkpoint_fixture.h"
#include "tests/unit/errands.h"
#include "tests/unit/outbox_fixture.h"
#include "tests/unit/store_fixture.h"
#include "tests/unit/temp_folder.h"

namespace paceline::server {
namespace {

using wire::Error;
using wire::Parameters;

const Peer kNode0 = Peer::of(NodeId(0));
const Peer kNode1 = Peer::of(NodeId(1));
const Peer kTheAuthority = Peer::of(kAuthority);
const WorkerId kWorker(0, 0);

// Two nodes with one thread each and one shard of six floats in blocks of four.
struct Conversation {
  explicit Conversation(
      std::int64_t floats = 6, void (*configure)(RunConfig&) = [](RunConfig&) {}) {
    config.cluster.nodes = 2;
    config.cluster.frame_bytes = 4 * sizeof(float);
    configure(config);
    service.emplace(ShardId(0), config, sent, log, [] {});
    REQUIRE(service->open(layout_of(floats)).is_ok());
  }
  void say(Peer from, wire::Body body, std::vector<float> values = {}) {
    REQUIRE(service->handle(from, {std::move(body), payload_of(std::move(values))}).is_ok());
  }
  void initialize() { say(kNode0, wire::InitialParameters{0, true}, std::vector<float>(6, 1.0F)); }
  // The iteration of the worker at `clock`, pushed and decided.
  void iterate(std::int64_t clock, bool retain = false) {
    say(kNode0, push_of(kWorker, clock), std::vector<float>(6, 1.0F));
    auto decision = decision_of(clock, {{kWorker, Clock(clock), 1}}, clock + 1);
    decision.revision_after = Revision(clock + 1);
    decision.retain = retain;
    say(kTheAuthority, decision);
  }
  wire::Pull pull(std::int64_t min_version, bool exact = false, Revision have = kNoRevision) {
    return {++requests, Version(min_version), exact, have};
  }

  RunConfig config;
  Log log;
  Sent sent;
  std::optional<ShardService> service;
  std::uint64_t requests = 0;
};

TEST_CASE("the authority is told once the initial parameters are whole, and they come from node 0 only") {
  Conversation c;
  c.say(kNode1, wire::InitialParameters{0, true}, std::vector<float>(6));
  CHECK(c.sent.of<Error>(kNode1).size() == 1);
  CHECK(c.sent.to_authority<wire::ShardReady>().empty());
  c.initialize();
  CHECK(c.sent.to_authority<wire::ShardReady>().size() == 1);
}

TEST_CASE("a whole gradient is reported to the authority, one in another's name is refused") {
  Conversation c;
  c.initialize();
  c.say(kNode0, push_of(kWorker, 0), std::vector<float>(6));
  c.say(kNode1, push_of(kWorker, 1), std::vector<float>(6));
  const auto arrived = c.sent.to_authority<wire::GradientArrived>();
  REQUIRE(arrived.size() == 1);
  CHECK(arrived[0].worker == kWorker);
  CHECK(c.sent.of<Error>(kNode1).size() == 1);
  CHECK(c.service->refused() == 1);
}

TEST_CASE("a push that came twice is ignored; one after a gap is an error that its sender cannot outlive") {
  Conversation c;
  c.initialize();
  c.say(kNode0, push_of(kWorker, 0), std::vector<float>(6));
  c.say(kNode0, push_of(kWorker, 0), std::vector<float>(6));
  c.say(kNode0, push_of(kWorker, 1), std::vector<float>(4));
  const auto errors = c.sent.of<Error>(kNode0);
  REQUIRE(errors.size() == 2);
  CHECK_FALSE(errors[0].fatal);
  CHECK(errors[1].fatal);
}

TEST_CASE("a gradient is withdrawn by its own worker, and only while it is here in part") {
  Conversation c;
  c.initialize();
  c.say(kNode0, push_of(kWorker, 0, 4, false), {1, 1});
  c.say(kNode1, wire::Withdraw{kWorker, Clock(0)});
  REQUIRE(c.sent.of<Error>(kNode1).size() == 1);
  CHECK(c.sent.of<Error>(kNode1)[0].message == "withdrawal from node 1 in the name of worker 0.0");
  c.say(kNode0, wire::Withdraw{kWorker, Clock(0)});
  CHECK(c.sent.of<Error>(kNode0).empty());
  c.say(kNode0, push_of(kWorker, 1), std::vector<float>(6));
  CHECK(c.sent.to_authority<wire::GradientArrived>().size() == 1);
  c.say(kNode0, wire::Withdraw{kWorker, Clock(1)});
  REQUIRE(c.sent.of<Error>(kNode0).size() == 1);
  CHECK_FALSE(c.sent.of<Error>(kNode0)[0].fatal);
}

// Grant and decision travel on different connections: a worker may push on before the decision about its
// last gradient is here.
// Two are held where gradients are applied as they come.
TEST_CASE("a gradient that fills its worker's bound is announced when a decision has made room") {
  Conversation c;
  c.initialize();
  c.say(kNode0, push_of(kWorker, 0), std::vector<float>(6));
  c.say(kNode0, push_of(kWorker, 1), std::vector<float>(6));
  CHECK(c.sent.to_authority<wire::GradientArrived>().size() == 1);  // or the third might come now
  c.say(kTheAuthority, decision_of(0, {{kWorker, Clock(0), 1}}, 1));
  const auto arrived = c.sent.to_authority<wire::GradientArrived>();
  REQUIRE(arrived.size() == 2);
  CHECK(arrived[1].clock == Clock(1));
  CHECK(c.service->refused() == 0);
}

TEST_CASE("a pull is answered in pieces of one revision; the first carries the node's applied clocks") {
  Conversation c;
  c.initialize();
  c.iterate(0);
  c.say(kNode0, c.pull(1));
  const auto pieces = c.sent.of<Parameters>(kNode0);
  REQUIRE(pieces.size() == 2);
  CHECK((pieces[0].offset == 0 && !pieces[0].last));
  CHECK((pieces[1].offset == 4 && pieces[1].last && pieces[1].applied.empty()));
  CHECK(pieces[0].applied == std::vector<Clock>{Clock(1)});
  CHECK((pieces[0].version == Version(1) && pieces[0].revision == Revision(1)));
  CHECK(c.sent.entries.back().message.payload.floats()[0] == 0.0F);  // 1 - 1
}

TEST_CASE("a_node_that_trains_a_part_is_sent_that_alone") {
  Conversation c;
  std::vector<float> initial = {0, 1, 2, 3, 4, 5};
  c.say(kNode0, wire::InitialParameters{0, true}, initial);
  const auto sent = [&c](Range part) {
    c.sent.clear();
    wire::Pull pull = c.pull(0);
    pull.part = part;
    c.say(kNode0, pull);
    std::vector<float> floats;
    for (const Sent::Entry& entry : c.sent.entries) {
      const auto piece = entry.message.payload.floats();
      floats.insert(floats.end(), piece.begin(), piece.end());
    }
    return floats;
  };
  CHECK(sent({1, 5}) == std::vector<float>{1, 2, 3, 4});    // over the end of a block
  CHECK(c.sent.of<Parameters>(kNode0).back().offset == 3);  // of the part
  CHECK(c.sent.of<Parameters>(kNode0).back().last);
  CHECK(sent({4, 6}) == std::vector<float>{4, 5});
  CHECK(c.sent.of<Parameters>(kNode0).size() == 1);
  CHECK(sent({0, 0}).empty());
  CHECK(c.sent.of<Parameters>(kNode0).front().last);
  sent({5, 7});
  CHECK_THAT(c.sent.of<Error>(kNode0).at(0).message, Catch::Contains("expected some of [0, 6)"));
}

// One worker's push and pull at once: the current state goes down while the gradient comes up, and these two
// states are all there is.
TEST_CASE("a state that is leaving stays whole while the next one is made of the frames that arrive") {
  Conversation c(6, [](RunConfig& config) {
    config.cluster.nodes = 1;
    config.sync.policy = PolicyKind::kAsp;
    config.sync.apply = ApplyMode::kEager;
    config.sync.combine = CombineMode::kEach;
  });
  c.initialize();
  for (std::int64_t clock = 0; clock < 3; ++clock) {
    c.sent.clear();  // the last answer has been read
    c.say(kNode0, c.pull(0, false, Revision(clock - 1)));
    REQUIRE(c.sent.of<Parameters>(kNode0).size() == 2);
    std::vector<float> before;
    const auto floats_sent = [&] {
      std::vector<float> floats;
      for (const Sent::Entry& entry : c.sent.entries) {
        const auto part = entry.message.payload.floats();
        floats.insert(floats.end(), part.begin(), part.end());
      }
      return floats;
    };
    before = floats_sent();
    auto push = push_of(kWorker, clock);
    push.offset = 4;
    push.last = false;
    push.samples = 0;
    c.say(kNode0, push, {1, 1});
    CHECK(c.service->work_ahead());  // a third of it is here
    c.say(kNode0, push_of(kWorker, clock), {1, 1, 1, 1});
    CHECK_FALSE(c.service->work_ahead());  // the last piece is applied as it comes
    CHECK(c.service->shard()->blocks_in_use() == 4);
    auto decision = decision_of(clock, {{kWorker, Clock(clock), 1}}, clock + 1);
    decision.revision_after = Revision(clock + 1);
    decision.learning_rate = c.config.train.optimizer.lr;
    c.say(kTheAuthority, decision);
    CHECK(c.service->shard()->next().committed() == 2 * (clock + 1));
    CHECK(c.service->shard()->blocks_in_use() == 4);  // what has left is the next one's
    CHECK(floats_sent() == before);
  }
}

TEST_CASE("a pull for a version to come is held until it is there") {
  Conversation c;
  c.say(kNode1, c.pull(0));  // not even the initial parameters are
  CHECK(c.sent.of<Parameters>(kNode1).empty());
  c.initialize();
  CHECK(c.sent.of<Parameters>(kNode1).size() == 2);
  c.sent.clear();
  c.say(kNode1, c.pull(2));
  c.iterate(0);
  CHECK(c.sent.of<Parameters>(kNode1).empty());
  c.iterate(1);
  CHECK(c.sent.of<Parameters>(kNode1).size() == 2);
}

TEST_CASE("who has the newest revision is told that nothing changed") {
  Conversation c;
  c.initialize();
  c.iterate(0);
  c.say(kNode0, c.pull(0, false, Revision(1)));
  REQUIRE(c.sent.of<wire::Unchanged>(kNode0).size() == 1);
  CHECK(c.sent.of<Parameters>(kNode0).empty());
  c.say(kNode0, c.pull(0, false, Revision(0)));
  CHECK(c.sent.of<Parameters>(kNode0).size() == 2);
}

TEST_CASE("an exact version is the retained one, held before it is there, refused after it was released") {
  Conversation c;
  c.initialize();
  c.say(kNode1, c.pull(1, true));
  c.iterate(0, /*retain=*/true);
  REQUIRE(c.sent.of<Parameters>(kNode1).size() == 2);
  c.iterate(1);
  c.say(kNode1, c.pull(1, true));
  REQUIRE(c.sent.of<Parameters>(kNode1).size() == 4);
  CHECK(c.sent.of<Parameters>(kNode1)[3].version == Version(1));
  CHECK(c.sent.entries.back().message.payload.floats()[0] == 0.0F);  // not the newest, which is -1
  c.say(kNode1, c.pull(3, true));                                    // never retained
  c.say(kTheAuthority, wire::Release{Version(1)});
  c.say(kNode1, c.pull(1, true));
  CHECK(c.sent.of<Error>(kNode1).size() == 1);
  c.iterate(2);
  c.iterate(3);
  const auto errors = c.sent.of<Error>(kNode1);
  REQUIRE(errors.size() == 2);
  for (const Error& error : errors) CHECK((error.code == StatusCode::kNotFound && !error.fatal));
}

TEST_CASE("held pulls are bounded for each node") {
  Conversation c;
  c.initialize();
  for (int i = 0; i < 3; ++i) c.say(kNode1, c.pull(9));  // one thread, and two more
  CHECK(c.sent.of<Error>(kNode1).empty());
  c.say(kNode1, c.pull(9));
  CHECK(c.sent.of<Error>(kNode1).size() == 1);
  c.say(kNode0, c.pull(9));  // another node has its own share
  CHECK(c.sent.of<Error>(kNode0).empty());
}

TEST_CASE("who does not read its answers gets no more of them") {
  Conversation c;
  c.initialize();
  for (int i = 0; i < 10; ++i) c.say(kNode1, c.pull(0));  // nothing leaves: `sent` keeps every payload
  CHECK_FALSE(c.sent.of<Error>(kNode1).empty());
  c.sent.clear();
  c.say(kNode1, c.pull(0));
  CHECK(c.sent.of<Error>(kNode1).empty());
}

TEST_CASE("a lost node is refused, and its held pulls are forgotten") {
  Conversation c;
  c.initialize();
  c.say(kNode0, push_of(kWorker, 0, 5, false), {1});
  CHECK(c.service->shard()->gradients_held() == 1);
  c.say(kNode0, c.pull(5));
  c.say(kTheAuthority, wire::NodeLost{NodeId(0)});
  CHECK(c.service->shard()->gradients_held() == 0);
  c.say(kNode0, push_of(kWorker, 0), std::vector<float>(5));
  CHECK(c.sent.of<Error>(kNode0).size() == 1);
}

TEST_CASE("a message that is not for a shard, or comes too early, is refused and the shard lives on") {
  Conversation c;
  c.say(kNode0, push_of(kWorker, 0), std::vector<float>(6));  // before the initial parameters
  c.say(kNode0, wire::Grant{});
  CHECK(c.sent.of<Error>(kNode0).size() == 2);
  c.initialize();
  CHECK(c.sent.to_authority<wire::ShardReady>().size() == 1);
}

TEST_CASE("a decision that does not follow the last one ends the shard") {
  Conversation c;
  c.initialize();
  const Status status = c.service->handle(kTheAuthority, {decision_of(3, {}, 1), {}});
  CHECK(status.code() == StatusCode::kOutOfOrder);
}

TEST_CASE("a layout that this machine cannot hold is refused before memory is taken") {
  RunConfig config;
  Sent sent;
  const Log log;
  ShardService service(ShardId(0), config, sent, log, [] {});
  CHECK(service.open(layout_of(std::int64_t{1} << 40)).status().code() == StatusCode::kResourceExhausted);
}

TEST_CASE("a decision that is to be saved is written as it was, and the authority is told of the file") {
  testing::TempFolder run;
  Errands errands;
  RunConfig config;
  config.cluster.nodes = 2;
  config.run.out = run.path();
  Log log;
  Sent sent;
  ShardCheckpoints checkpoints(ShardId(0), config, errands, sent, log);
  ShardService service(
      ShardId(0), config, sent, log, [] {}, &checkpoints);
  const auto say = [&](Peer from, wire::Body body, std::vector<float> values = {}) {
    REQUIRE(service.handle(from, {std::move(body), payload_of(std::move(values))}).is_ok());
  };
  REQUIRE(service.open(layout_of(6)).is_ok());
  say(kNode0, wire::InitialParameters{0, true}, std::vector<float>(6, 1.0F));
  for (std::int64_t clock = 0; clock < 2; ++clock) {
    say(kNode0, push_of(kWorker, clock), std::vector<float>(6, 1.0F));
    auto decision = decision_of(clock, {{kWorker, Clock(clock), 1}}, clock + 1);
    decision.save = clock == 0;
    say(kTheAuthority, decision);
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
  say(kTheAuthority, wire::ForgetSaved{{1, Version(2)}});
  errands.do_all(Ticks(2));
  CHECK(folder.intact(ShardId(0))->files.empty());
}

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
    service.emplace(
        ShardId(0), config, sent, log, [] {}, &*checkpoints);
    REQUIRE(service->open(layout_of(6)).is_ok());
  }
  void say(Peer from, wire::Body body, std::vector<float> values = {}) {
    REQUIRE(service->handle(from, {std::move(body), payload_of(std::move(values))}).is_ok());
  }
  void decide(std::int64_t clock, bool save) {
    auto decision = decision_of(clock, {}, clock + 1);
    decision.save = save;
    say(kTheAuthority, decision);
  }
  // Parameters of `value`, a momentum of ten times that, in pieces.
  void state(std::int64_t version, float value, std::int64_t pieces = 4) {
    const std::int64_t begins[] = {0, 4, 6, 10, 12};
    for (std::int64_t i = 0; i < pieces; ++i) {
      say(kNode0, wire::NodeState{Version(version), begins[i], i == 3},
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

}  // namespace

TEST_CASE("what is saved of nodes that hold the parameters is node 0's state at that version") {
  OfNodes s;
  s.say(kNode0, wire::InitialParameters{0, false}, std::vector<float>(4, 1.0F));
  s.say(kNode0, wire::InitialParameters{4, true}, std::vector<float>(2, 1.0F));
  s.decide(0, true);
  s.decide(1, false);  // training goes on
  SECTION("which comes behind the decision") { s.state(1, 7.0F); }
  SECTION("which begins anew behind a connection that broke and a piece that was lost with it") {
    s.state(1, 7.0F, 1);
    s.say(kNode0, wire::NodeState{Version(1), 6, false}, std::vector<float>(4, 2.0F));
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
  s.say(kNode0, wire::InitialParameters{0, true}, std::vector<float>(6, 1.0F));
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
    s.service->on_rejoin(NodeId(0));
    const auto saved = s.sent.to_authority<wire::Saved>();
    REQUIRE(saved.size() == 1);
    CHECK(saved[0].version == Version(2));
    CHECK(saved[0].fault == "node 0's connection broke while it sent its state");
  }
}

TEST_CASE("nodes are sent what a run begins with, once it is there, and what it goes on from") {
  OfNodes s;
  const auto heard = [&s] {
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
  s.say(kNode1, wire::StateWanted{});
  CHECK(heard().empty());
  SECTION("the parameters alone") {
    s.say(kNode0, wire::InitialParameters{0, true}, std::vector<float>(6, 1.0F));
    CHECK(heard() == std::vector<float>(6, 1.0F));
  }
  SECTION("from a checkpoint, with the optimizer's state") {
    OfNodes before;
    before.say(kNode0, wire::InitialParameters{0, true}, std::vector<float>(6, 1.0F));
    before.decide(0, true);
    before.state(1, 7.0F);
    REQUIRE(s.service->resume_from(before.saved(1)).is_ok());
    std::vector<float> all(6, 7.0F);
    all.resize(12, 70.0F);
    CHECK(heard() == all);
  }
}

TEST_CASE("where each node has a part of the state it is saved once all of it has come, in any order") {
  OfNodes s(/*shards=*/true);
  s.say(kNode0, wire::InitialParameters{0, true}, std::vector<float>(6, 1.0F));
  s.decide(0, true);
  const auto part = [&s](Peer from, std::int64_t begin, std::int64_t floats, float value) {
    s.say(from, wire::NodeState{Version(1), begin, false},
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
    s.say(kTheAuthority, wire::NodeLost{NodeId(1)});
    CHECK(s.sent.to_authority<wire::Saved>().back().fault == "node 1 was lost while it sent its state");
  }
}

TEST_CASE(
    "a state is node 0's to send, of as many floats as there are, and where nodes hold the parameters") {
  OfNodes s;
  s.say(kNode0, wire::InitialParameters{0, true}, std::vector<float>(6, 1.0F));
  s.say(kNode1, wire::NodeState{Version(1), 0, false}, std::vector<float>(6, 2.0F));
  s.say(kNode0, wire::NodeState{Version(1), 0, false}, std::vector<float>(7, 2.0F));  // of two vectors
  s.say(kNode0, wire::NodeState{Version(1), 12, true}, std::vector<float>(6, 2.0F));  // of a third
  CHECK(s.sent.of<Error>(kNode1).size() == 1);
  CHECK(s.sent.of<Error>(kNode0).size() == 2);
  Conversation by_servers;
  by_servers.initialize();
  by_servers.say(kNode0, wire::NodeState{Version(1), 0, true}, std::vector<float>(6, 2.0F));
  CHECK(by_servers.sent.of<Error>(kNode0).size() == 1);
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
  ShardService service(
      ShardId(0), config, sent, log, [] {}, &checkpoints);
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
