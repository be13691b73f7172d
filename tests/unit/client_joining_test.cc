// Joining, and joining again after servers were lost, over real sockets: which servers a node takes, which
// refusals pass, and what it says when they do not.
#include <catch2/catch.hpp>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/unit/client_fixture.h"
#include "tests/unit/worker_fixture.h"
#include "worker/client/joining.h"

namespace paceline {
namespace {

using namespace std::chrono_literals;
using testing::ClientFixture;
using testing::JoinedClient;
using testing::kLeft;
using testing::kRight;

constexpr bool kHasParameters = true;

// A client whose servers, of generation 1, were lost.
struct AgainFixture : ClientFixture {
  std::future<Status> started;

  explicit AgainFixture(Lost lost = Lost::kTheAuthority) {
    options.lost = lost;
    options.last_generation = 1;
    options.cluster.reconnect_timeout = 20s;
  }
  void begin() {
    start_servers();
    started = start_client();
  }
  // The left server is asked, and answers as one of that generation.
  bool left_welcomes(std::uint64_t generation) {
    const auto join = left->expect<wire::Join>();
    left->send(wire::Welcome{ShardId(0), kLeft, generation, kHasParameters});
    return join.has_value();
  }
  bool right_welcomes(std::uint64_t generation) {
    const auto join = right->expect<wire::Join>();
    right->send(wire::Welcome{ShardId(1), kRight, generation, kHasParameters});
    return join.has_value();
  }
};

wire::Error refusal(StatusCode code = StatusCode::kFailedPrecondition) {
  return {code, "node 0: it has gone", true};
}

TEST_CASE("node 0 sends its initial parameters to those shards that have none") {
  ClientFixture f;
  f.start_servers();
  auto started = f.start_client();
  REQUIRE(f.left->expect<wire::Join>()->last_generation == 0);
  f.left->send(wire::Welcome{ShardId(0), kLeft, 1, kHasParameters});
  REQUIRE(f.right->expect<wire::Join>());
  f.right->send(wire::Welcome{ShardId(1), kRight, 1});
  REQUIRE(started.get().is_ok());
  CHECK(f.client->generation() == 1);
  f.client->send_initial_parameters({1, 2, 3, 4, 5});
  CHECK(f.right->expect<wire::InitialParameters>());
  const Ticket ticket = f.client->request_parameters(Version(0));
  const auto pull = f.left->expect_next<wire::Pull>();  // and nothing before it
  REQUIRE(pull);
  CHECK(pull->request == ticket);
}

TEST_CASE("a node is not started between generations: it joins the older ones again") {
  ClientFixture f;
  f.start_servers();
  auto started = f.start_client();
  REQUIRE(f.right->expect<wire::Join>());
  f.right->send(wire::Welcome{ShardId(1), kRight, 1});
  REQUIRE(f.left->expect<wire::Join>());
  f.left->send(wire::Welcome{ShardId(0), kLeft, 2, kHasParameters});
  REQUIRE(f.right->expect<wire::Join>());
  CHECK(started.wait_for(0s) == std::future_status::timeout);
  f.right->send(wire::Welcome{ShardId(1), kRight, 2, kHasParameters});
  CHECK(started.get().is_ok());
  CHECK(f.client->generation() == 2);
}

// Before it gives up, which is a long time: the user can mend what is wrong.
TEST_CASE("a server that does not answer is told of with the reason, and the node keeps trying") {
  std::promise<std::string> reported;
  ClientFixture f;
  f.options.log = Log::to([&, once = std::make_shared<std::once_flag>()](LogLevel, const std::string& line) {
    if (line.find("does not answer") != line.npos) std::call_once(*once, [&] { reported.set_value(line); });
  });
  f.left = std::make_unique<testing::ScriptedServer>(f.context, f.options.cluster.endpoints[0]);
  auto started = f.start_client();
  REQUIRE(f.left->expect<wire::Join>());
  f.left->send(wire::Welcome{ShardId(0), kLeft});
  CHECK(reported.get_future().get() ==
        "server shard 1 (" + f.options.cluster.endpoints[1] +
            ") does not answer: it refuses the connection: no server listens there "
            "yet; this node keeps trying");
  f.right = std::make_unique<testing::ScriptedServer>(f.context, f.options.cluster.endpoints[1]);
  REQUIRE(f.right->expect<wire::Join>());
  f.right->send(wire::Welcome{ShardId(1), kRight});
  CHECK(started.get().is_ok());
}

TEST_CASE("after a loss a node joins servers of a later generation, and says which its last was") {
  AgainFixture f;
  f.begin();
  const auto join = f.left->expect<wire::Join>();
  REQUIRE(join);
  CHECK(join->last_generation == 1);
  CHECK(join->incarnation == 77);
  f.left->send(wire::Welcome{ShardId(0), kLeft, 1});  // as a run that was begun anew
  REQUIRE(f.right_welcomes(3));
  REQUIRE(f.left_welcomes(3));
  CHECK(f.started.get().is_ok());
  CHECK(f.client->generation() == 3);
}

TEST_CASE("a refusal may pass: of a shard; of the authority where another one was lost, or for a while") {
  const auto lost = GENERATE(Lost::kShard, Lost::kTheAuthority);
  AgainFixture f(lost);
  f.begin();
  REQUIRE(f.left->expect<wire::Join>());
  f.left->send(refusal(lost == Lost::kShard ? StatusCode::kFailedPrecondition : StatusCode::kUnavailable));
  REQUIRE(f.right->expect<wire::Join>());
  f.right->send(refusal());
  REQUIRE(f.left_welcomes(2));
  REQUIRE(f.right_welcomes(2));
  CHECK(f.started.get().is_ok());
}

TEST_CASE(
    "a refusal is final: of an authority that was lost and goes on without the node; of what is wrong") {
  const bool authority = GENERATE(true, false);
  AgainFixture f;
  f.begin();
  auto& server = authority ? *f.left : *f.right;
  REQUIRE(server.expect<wire::Join>());
  server.send(authority ? refusal() : refusal(StatusCode::kInvalidArgument));
  CHECK_THAT(f.started.get().message(), Catch::Contains(authority ? "server shard 0" : "server shard 1") &&
                                            Catch::EndsWith("refuses us: node 0: it has gone"));
  CHECK(f.client->lost() == Lost::kNothing);
}

TEST_CASE("a join that nobody answers is said again, since whoever was there may have ended with it") {
  AgainFixture f;
  f.options.cluster.lease = 1s;
  f.begin();
  REQUIRE(f.left->expect<wire::Join>());
  REQUIRE(f.left_welcomes(2));
  REQUIRE(f.right_welcomes(2));
  CHECK(f.started.get().is_ok());
}

// Times are passed in: how many Joins a server that is away for all that time finds when it is back.
int joins_sent_in(std::chrono::seconds reconnect_timeout, std::chrono::seconds lease) {
  ClusterSection cluster;
  cluster.lease = lease;
  cluster.reconnect_timeout = reconnect_timeout;
  ClientState state(1);
  std::vector<ServerLink> links;
  links.push_back({ShardId(0), {""}, Range{0, 1}, ShardPart{}, nullptr, 0, false, {}, {}});
  const Joining joining(links, state, Lost::kTheAuthority, 1, cluster);
  const Ticks begin;
  int joins = 0;
  for (std::chrono::seconds after{0}; after < reconnect_timeout; after += std::chrono::seconds(1)) {
    if (after.count() > 0 && joining.due(links[0], begin + after) != Joining::Due::kJoin) continue;
    joining.asked(links[0], begin + after);
    ++joins;
  }
  return joins;
}

TEST_CASE("a server that is away for long finds few joins: one for each lease, and at most 33") {
  CHECK(joins_sent_in(60s, 9s) == 6);
  CHECK(joins_sent_in(std::chrono::hours(1), 9s) == 32);
  CHECK(joins_sent_in(std::chrono::hours(24), 1s) <= 33);
}

TEST_CASE("a server that ends once it has welcomed the node is joined again") {
  AgainFixture f;
  f.options.cluster.lease = 1s;
  f.begin();
  REQUIRE(f.left_welcomes(2));
  f.left->send(testing::wire_grant_of(7, Threshold(0), 7));
  f.left.reset();
  f.left = std::make_unique<testing::ScriptedServer>(f.context, f.options.cluster.endpoints[0]);
  REQUIRE(f.left_welcomes(3));
  REQUIRE(f.right_welcomes(3));
  CHECK(f.started.get().is_ok());
  f.left->send(testing::wire_grant_of(5, Threshold(0), 5));
  const auto next = f.client->next_instruction(0);  // not what the one before had granted
  REQUIRE(next.is_ok());
  CHECK(std::get<Granted>(*next).grant.clock == Clock(5));
}

TEST_CASE("who does not come back within reconnect_timeout is named, with what it has said") {
  AgainFixture f(Lost::kShard);
  f.options.cluster.reconnect_timeout = 500ms;
  f.begin();
  REQUIRE(f.left_welcomes(2));
  REQUIRE(f.right->expect<wire::Join>());
  f.right->send(refusal());
  const Status status = f.started.get();
  CHECK(status.code() == StatusCode::kDeadlineExceeded);
  CHECK_THAT(status.message(),
             Catch::Matches(R"(server shard 1 \(ipc://.*/1\) \(refuses us: node 0: it has gone\) )"
                            R"(did not let node 0 join again within 1 s )"
                            R"(\(cluster\.reconnect_timeout\))"));
}

TEST_CASE("a stop while servers are gone ends the wait for them at once") {
  AgainFixture f;
  f.started = f.start_client();
  f.client->close(aborted("stopped by a signal"));
  CHECK(f.started.get().message() == "stopped by a signal");
  CHECK(f.client->lost() == Lost::kNothing);
}

TEST_CASE("a node that cannot be let in yet asks again, and says when it is ready") {
  ClientFixture f;
  f.start_servers();
  auto started = f.start_client();
  const auto first = f.left->expect<wire::Join>();
  REQUIRE(first);
  f.left->send(wire::Error{StatusCode::kUnavailable, "node 0: a process of it is here", false});
  const auto again = f.left->expect_next<wire::Join>();
  REQUIRE(again);
  CHECK(again->incarnation == first->incarnation);
  f.left->send(wire::Welcome{ShardId(0), kLeft, 1, kHasParameters, /*under_way=*/true});
  REQUIRE(f.right->expect<wire::Join>());
  CHECK(started.wait_for(0s) == std::future_status::timeout);
  f.right->send(wire::Welcome{ShardId(1), kRight, 1, kHasParameters});
  CHECK(started.get().is_ok());
  CHECK(f.left->expect_next<wire::NodeReady>());
}

TEST_CASE("who never lets a node in is named, with what it has said") {
  ClientFixture f;
  f.options.cluster.start_timeout = 300ms;
  f.start_servers();
  auto started = f.start_client();
  REQUIRE(f.left->expect<wire::Join>());
  f.left->send(wire::Error{StatusCode::kUnavailable, "node 0: a process of it is here", false});
  REQUIRE(f.right->expect<wire::Join>());
  f.right->send(wire::Welcome{ShardId(1), kRight, 1});
  CHECK_THAT(
      started.get().message(),
      Catch::Matches(R"(server shard 0 \(ipc://.*/0\) \(node 0: a process of it is here\) did not answer )"
                     R"(node 0's join within 1 s)"));
}

// ---- which losses there are

TEST_CASE("silence is the loss of the server that was silent") {
  const bool authority = GENERATE(true, false);
  ClientFixture f;
  f.options.cluster.lease = 1s;
  f.time.use(f.options);
  f.join();
  auto waiting = std::async(std::launch::async, [&] { return f.client->next_instruction(0).status(); });
  while (!f.time.is_closed()) {
    REQUIRE(f.is_received(authority ? *f.right : *f.left));
    f.time.pass(500ms);
  }
  CHECK_THAT(waiting.get().message(), Catch::Contains("silent for"));
  CHECK(f.client->lost() == (authority ? Lost::kTheAuthority : Lost::kShard));
}

TEST_CASE("a server that does not know the node any more, once it had welcomed it, is lost") {
  const auto code = GENERATE(StatusCode::kFailedPrecondition, StatusCode::kOutOfOrder);
  JoinedClient f;
  f.left->send(wire::Error{code, "Heartbeat before a join on this connection", true});
  CHECK_THAT(f.client->next_instruction(0).status().message(), Catch::Contains("Heartbeat before a join"));
  CHECK(f.client->lost() == (code == StatusCode::kFailedPrecondition ? Lost::kTheAuthority : Lost::kNothing));
}

TEST_CASE("a run that ends so that it can be resumed is a loss to who waits for that, to others the end") {
  const bool waits = GENERATE(true, false);
  ClientFixture f;
  if (waits) f.options.cluster.reconnect_timeout = 20s;
  f.join();
  f.left->send(wire::RunOver{StatusCode::kUnavailable, "server shard 1 lost", true});
  CHECK(f.client->next_instruction(0).status().message() == "server shard 1 lost");
  CHECK(f.client->lost() == (waits ? Lost::kShard : Lost::kNothing));
  CHECK(f.client->run_over().has_value() != waits);
}

// It ends only then (worker/session.h), however the others go on.
TEST_CASE("a node that has left because of another one hears how the run ended") {
  ClientFixture f;
  f.options.cluster.reconnect_timeout = 20s;
  f.join();
  f.client->leave(unavailable("node 1 closed its connection"), NodeId(1));
  CHECK_FALSE(f.client->run_over());
  f.left->send(wire::RunOver{StatusCode::kUnavailable, "node 1 lost", /*resumable=*/true});
  const auto over = f.client->run_over(20s);
  REQUIRE(over);
  CHECK(over->message() == "node 1 lost");
}

TEST_CASE(
    "who has left because of another one waits for no end of the run once nobody can say it, or it is closed "
    "anew") {
  ClientFixture f;
  f.join();
  f.client->leave(unavailable("node 1 closed its connection"), NodeId(1));
  SECTION("its connection to the authority breaks") { f.left.reset(); }
  SECTION("it is stopped") { f.client->close(aborted("stopped by a signal")); }
  CHECK_FALSE(f.client->run_over(1h));
}

}  // namespace
}  // namespace paceline
