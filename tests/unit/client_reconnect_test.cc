// A connection that breaks while its server lives: what a node says over the next one, over real sockets.
#include <catch2/catch.hpp>
#include <future>
#include <memory>
#include <optional>
#include <vector>

#include "tests/unit/client_fixture.h"
#include "tests/unit/worker_fixture.h"

namespace paceline {
namespace {

using namespace std::chrono_literals;
using testing::ClientFixture;
using testing::kLeft;
using testing::kRight;
using testing::payload_of;
using testing::wire_grant_of;

using SentBytes = std::vector<std::byte>;

struct ReconnectFixture : ClientFixture {
  // The connection to the left server, the authority, breaks; what the node says first over the next one.
  std::optional<wire::Join> left_breaks() {
    left->break_connection();
    return left->expect<wire::Join>();
  }
  void left_welcomes(std::uint64_t generation = 1) {
    left->send(wire::Welcome{ShardId(0), kLeft, generation, /*initialized=*/true, /*under_way=*/true});
  }
  bool breaks_and_is_back() {
    const bool joined = left_breaks().has_value();
    left_welcomes();
    return joined;
  }
  void push(std::int64_t clock, std::vector<float> values) {
    client->push({WorkerId(0, 0), Clock(clock), 2, Version(0), Revision(0),
                  std::make_shared<const std::vector<float>>(std::move(values))});
  }
  // The bytes of the left server's next whole gradient.
  SentBytes pushed() {
    SentBytes bytes;
    for (bool last = false; !last;) {
      const auto piece = left->expect<wire::Push>();
      REQUIRE(piece);
      last = piece->last;
      bytes.insert(bytes.end(), left->payload().data, left->payload().data + left->payload().size);
    }
    return bytes;
  }
  Clock granted() {
    const auto next = client->next_instruction(0);
    REQUIRE(next.is_ok());
    return std::get<Granted>(*next).grant.clock;
  }
};

// Both servers have welcomed the node.
struct JoinedToReconnect : ReconnectFixture {
  JoinedToReconnect() { join(); }
};

TEST_CASE("over another connection a node joins as the process it is, and says again what may be lost") {
  JoinedToReconnect f;
  f.left->send(wire_grant_of(0, Threshold(0), 0));
  REQUIRE(f.granted() == Clock(0));
  f.push(0, {1, 2, 3, 4, 5});
  f.client->report({WorkerId(0, 0), Clock(0), Metric{1.0, 1, 2}});
  const Ticket ticket = f.client->request_parameters(Version(1));
  REQUIRE(f.left->expect<wire::Pull>());
  const auto join = f.left_breaks();
  REQUIRE(join);
  CHECK((join->incarnation == 77 && join->goes_on == 1 && join->gradients_again == 1));
  f.left_welcomes();

  const auto push = f.left->expect_next<wire::Push>();  // and nothing before it
  REQUIRE(push);
  CHECK((push->clock == Clock(0) && push->offset == 2));
  CHECK(f.left->payload().floats()[0] == 3.0F);
  const auto last = f.left->expect_next<wire::Push>();
  REQUIRE(last);
  CHECK((last->last && last->samples == 2));
  CHECK(f.left->expect_next<wire::StepReport>()->clock == Clock(0));
  const auto pull = f.left->expect_next<wire::Pull>();
  REQUIRE(pull);
  CHECK((pull->request == ticket && pull->min_version == Version(1)));

  // The other server's connection stands: it hears of it once.
  REQUIRE(f.right->expect_next<wire::Push>());
  REQUIRE(f.right->expect_next<wire::Pull>());
  f.left->send(wire_grant_of(1, Threshold(0), 1));
  REQUIRE(f.granted() == Clock(1));
  f.push(1, {1, 1, 1, 1, 1});
  const auto next = f.right->expect_next<wire::Push>();
  REQUIRE(next);
  CHECK(next->clock == Clock(1));
}

TEST_CASE("a gradient in fewer bytes is said again in the same ones, and is owed once") {
  const auto encoding = GENERATE(Encoding::kInt8, Encoding::kTopK, Encoding::kBf16);
  ReconnectFixture f;
  f.options.cluster.gradient_encoding = encoding;
  f.options.cluster.top_k_share = 0.5;
  f.join();
  f.push(0, {3, 2, 0.3F, 4, 5});
  const SentBytes first = f.pushed();
  REQUIRE(f.breaks_and_is_back());
  CHECK(f.pushed() == first);
  f.left->send(wire_grant_of(1, Threshold(0), 1));
  REQUIRE(f.granted() == Clock(1));

  ReconnectFixture calm;
  calm.options.cluster = f.options.cluster;
  calm.options.cluster.endpoints = {"ipc://" + (calm.folder / "0").string(),
                                    "ipc://" + (calm.folder / "1").string()};
  calm.join();
  calm.push(0, {3, 2, 0.3F, 4, 5});
  REQUIRE(calm.pushed() == first);
  f.push(1, {1, 1, 1, 1, 1});
  calm.push(1, {1, 1, 1, 1, 1});
  CHECK(f.pushed() == calm.pushed());
}

TEST_CASE("what is granted past, withdrawn or answered is not said again") {
  JoinedToReconnect f;
  f.push(0, {1, 2, 3, 4, 5});
  f.client->report({WorkerId(0, 0), Clock(0), Metric{1.0, 1, 2}});
  const Ticket ticket = f.client->request_parameters(Version(0));
  REQUIRE(f.left->expect<wire::Pull>());
  f.left->send(wire::Parameters{ticket, ShardId(0), Version(0), Revision(0), 0, true, {Clock(0)}},
               payload_of({7, 7, 7}));
  f.left->send(wire_grant_of(1, Threshold(0), 1));
  REQUIRE(f.granted() == Clock(1));
  Contribution second{WorkerId(0, 0), Clock(1),    2,
                      Version(0),     Revision(0), std::make_shared<const std::vector<float>>(5, 1.0F)};
  f.client->push_early(second, 0);
  REQUIRE(f.left->expect_that<wire::Push>([](const wire::Push& push) { return push.clock == Clock(1); }));
  f.client->withdraw(second);
  REQUIRE(f.left->expect<wire::Withdraw>());
  f.client->report({WorkerId(0, 0), Clock(1), {}, {}, {}, true, "loss is nan"});
  REQUIRE(f.left->expect<wire::StepReport>());
  REQUIRE(f.breaks_and_is_back());
  const auto report = f.left->expect_next<wire::StepReport>();  // and nothing before it
  REQUIRE(report);
  CHECK((report->clock == Clock(1) && report->skipped));
}

TEST_CASE("of a gradient that is still computed what has left is said again, and the rest follows") {
  JoinedToReconnect f;
  const Contribution gradient{WorkerId(0, 0),
                              Clock(0),
                              2,
                              Version(0),
                              Revision(0),
                              std::make_shared<const std::vector<float>>(std::vector<float>{1, 2, 3, 4, 5})};
  f.client->push_early(gradient, 2);
  REQUIRE(f.left->expect<wire::Push>()->offset == 2);
  REQUIRE(f.left_breaks());
  f.client->push(gradient);  // while there is no connection to send it over
  REQUIRE(f.right->expect_that<wire::Push>([](const wire::Push& push) { return push.last; }));
  f.left_welcomes();
  const auto early = f.left->expect_next<wire::Push>();
  const auto rest = f.left->expect_next<wire::Push>();
  REQUIRE((early && rest));
  CHECK((early->offset == 2 && !early->last));
  CHECK((rest->offset == 0 && rest->last));
}

TEST_CASE("what the authority says again is not done twice: grants, the end, evaluations") {
  JoinedToReconnect f;
  for (int times = 0; times < 3; ++times) f.left->send(wire_grant_of(4, Threshold(0), 4));
  f.left->send(wire_grant_of(5, Threshold(0), 5));
  CHECK(f.granted() == Clock(4));
  CHECK(f.granted() == Clock(5));
  f.left->send(wire::Evaluate{Version(3), false});
  REQUIRE(f.client->next_evaluation().is_ok());
  wire::EvaluationReport evaluated;
  evaluated.version = Version(3);
  evaluated.metric = {1.0, 1, 2};
  f.client->report_evaluation(evaluated);
  REQUIRE(f.left->expect<wire::EvaluationReport>());
  REQUIRE(f.breaks_and_is_back());
  CHECK(f.left->expect_next<wire::EvaluationReport>()->version == Version(3));
  f.left->send(wire::Evaluate{Version(3), false});
  f.left->send(wire::Evaluate{Version(4), false});
  CHECK(f.client->next_evaluation()->version == Version(4));
  f.left->send(wire::FinishWorker{WorkerId(0, 0), "share done"});
  f.left->send(wire::FinishWorker{WorkerId(0, 0), "share done"});
  const auto finished = f.client->next_instruction(0);
  REQUIRE(finished.is_ok());
  CHECK(std::holds_alternative<Finished>(*finished));
}

TEST_CASE("an answer that had come in part is asked for again, and comes whole") {
  JoinedToReconnect f;
  const Ticket ticket = f.client->request_parameters(Version(1));
  REQUIRE(f.right->expect<wire::Pull>());
  f.right->send(wire::Parameters{ticket, ShardId(1), Version(1), Revision(1), 0, true, {Clock(1)}},
                payload_of({8, 8}));
  REQUIRE(f.left->expect<wire::Pull>());
  f.left->send(wire::Parameters{ticket, ShardId(0), Version(1), Revision(1), 0, false, {Clock(1)}},
               payload_of({1, 1}));
  REQUIRE(f.breaks_and_is_back());
  REQUIRE(f.left->expect<wire::Pull>()->request == ticket);
  f.left->send(wire::Parameters{ticket, ShardId(0), Version(2), Revision(2), 0, false, {Clock(2)}},
               payload_of({7, 7}));
  f.left->send(wire::Parameters{ticket, ShardId(0), Version(2), Revision(2), 2, true, {}}, payload_of({7}));
  const auto done = f.client->await_parameters(ticket, f.sink);
  INFO(done.status().message());
  REQUIRE(done.is_ok());
  std::vector<float> flat(5);
  for (const auto& slice : f.cache.snapshot()) slice->copy_to(flat);
  CHECK(flat == std::vector<float>{7, 7, 7, 8, 8});
}

TEST_CASE("a server that does not know the connection is joined over another one") {
  JoinedToReconnect f;
  f.left->send(wire::Error{StatusCode::kNotFound, "Heartbeat before a join on this connection", true});
  const auto join = f.left->expect<wire::Join>();
  REQUIRE(join);
  CHECK(join->goes_on == 1);
  f.left_welcomes();
  f.left->send(wire_grant_of(0, Threshold(0), 0));
  CHECK(f.granted() == Clock(0));
}

TEST_CASE("who is not let in again has lost its servers, as by their silence") {
  const auto code = GENERATE(StatusCode::kFailedPrecondition, StatusCode::kOk);
  ReconnectFixture f;
  f.options.cluster.lease = 1s;
  f.join();
  REQUIRE(f.left_breaks());
  if (code != StatusCode::kOk) f.left->send(wire::Error{code, "node 0 has gone from this run", true});
  auto waiting = std::async(std::launch::async, [&] { return f.client->next_instruction(0).status(); });
  while (waiting.wait_for(20ms) != std::future_status::ready) f.right->send(wire::Heartbeat{});
  const Status status = waiting.get();
  CHECK_THAT(status.message(), Catch::Contains("server shard 0") &&
                                   Catch::Contains(code == StatusCode::kOk ? "silent for" : "has gone"));
  CHECK(f.client->lost() == Lost::kTheAuthority);
}

TEST_CASE("a connection that breaks again and again is made anew each time") {
  JoinedToReconnect f;
  f.client->report({WorkerId(0, 0), Clock(0), Metric{1.0, 1, 2}});
  for (int times = 0; times < 4; ++times) REQUIRE(f.left_breaks());
  f.left_welcomes();
  REQUIRE(f.left->expect_next<wire::StepReport>());
  REQUIRE(f.breaks_and_is_back());
  CHECK(f.left->expect_next<wire::StepReport>());
}

TEST_CASE("a connection that breaks before the welcome came is joined over another one") {
  ReconnectFixture f;
  f.start_servers();
  auto started = f.start_client();
  REQUIRE(f.left->expect<wire::Join>());
  f.left->send(wire::Welcome{ShardId(0), kLeft});
  const auto again = f.left_breaks();  // which it may have heard, or not
  REQUIRE(again);
  CHECK((again->goes_on == 0 && again->incarnation == 77));
  f.left->send(wire::Welcome{ShardId(0), kLeft});
  REQUIRE(f.right->expect<wire::Join>());
  f.right->send(wire::Welcome{ShardId(1), kRight});
  CHECK(started.get().is_ok());
}

TEST_CASE("initial parameters are sent again to a server that has not got them all") {
  const bool has_them = GENERATE(true, false);
  JoinedToReconnect f;
  f.client->send_initial_parameters({1, 2, 3, 4, 5});
  REQUIRE(f.left->expect<wire::InitialParameters>());
  REQUIRE(f.left_breaks());
  f.left->send(wire::Welcome{ShardId(0), kLeft, 1, has_them});
  const Ticket ticket = f.client->request_parameters(Version(0));
  if (!has_them) {
    REQUIRE(f.left->expect_next<wire::InitialParameters>()->offset == 0);
    REQUIRE(f.left->expect_next<wire::InitialParameters>()->last);
  }
  const auto pull = f.left->expect_next<wire::Pull>();
  REQUIRE(pull);
  CHECK(pull->request == ticket);
}

TEST_CASE("a node that is done says its report again to the authority, and misses no other shard") {
  JoinedToReconnect f;
  auto ended = std::async(std::launch::async, [&] { return f.client->finish({}); });
  REQUIRE(f.left->expect<wire::NodeReport>());
  SECTION("which has ended, as it is to") { f.right.reset(); }
  SECTION("which has lost it, as by its silence") {
    f.right->send(wire::Error{StatusCode::kFailedPrecondition, "node 0 has gone from this run", true});
    REQUIRE(f.is_received(*f.right));
  }
  REQUIRE(f.breaks_and_is_back());
  REQUIRE(f.left->expect<wire::NodeReport>());
  f.left->send(wire::RunOver{});
  CHECK(ended.get().is_ok());
}

}  // namespace
}  // namespace paceline
