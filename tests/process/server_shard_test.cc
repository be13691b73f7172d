// Another shard than the authority's, and an authority that says what a test tells it to: connections that
// break, refusals, and an authority that goes.
#include <catch2/catch.hpp>

#include "tests/process/scripted_node.h"
#include "tests/unit/scripted_server.h"
#include "tests/unit/temp_folder.h"

namespace paceline::server {
namespace {

using namespace std::chrono_literals;
using testing::ScriptedServer;

struct ShardOfTwo {
  explicit ShardOfTwo(ServerOptions options = {}) {
    config.run.out = folder.path();
    config.cluster.shards = 2;
    config.cluster.endpoints = {"ipc://" + (folder / "s0").string(), "ipc://" + (folder / "s1").string()};
    config.cluster.heartbeat = 50ms;
    config.cluster.lease = 30s;
    authority.emplace(context, config.cluster.endpoints[0]);
    shard.emplace(config, ShardId(1), context, Log(), options);
    REQUIRE(shard->started().is_ok());
  }
  wire::ShardJoin join() {
    auto reported = authority->expect<wire::ShardJoin>();
    REQUIRE(reported);
    return *reported;
  }
  void welcome(std::int64_t received = 0) { authority->send(wire::ShardWelcome{1, {}, received}); }
  // A node that gives the shard its parameters, of which that tells the authority.
  void make_ready() {
    node.emplace(context, std::vector<std::string>{config.cluster.endpoints[1]});
    node->send(0, join_of(config, 0, 5));
    const auto welcomed = node->receive<wire::Welcome>(0);
    node->send(0, wire::InitialParameters{0, true},
               std::vector<float>(static_cast<std::size_t>(welcomed.range.size()), 10));
  }

  testing::TempFolder folder;
  RunConfig config;
  wire::Context context;
  std::optional<ScriptedServer> authority;
  std::optional<RunningServer> shard;
  std::optional<ScriptedNode> node;
};

TEST_CASE("a shard whose connection breaks joins again, as itself, and says again what was not heard") {
  ShardOfTwo run;
  const wire::ShardJoin first = run.join();
  CHECK((first.incarnation != 0 && first.goes_on == 0 && first.connection == 1 && first.acked == 0));
  run.welcome();
  run.make_ready();
  REQUIRE(run.authority->expect<wire::ShardReady>());
  run.authority->send(wire::NodeAdmitted{NodeId(0), 1000});
  REQUIRE(run.authority->expect_that<wire::Heartbeat>([](const auto& beat) { return beat.acked == 1; }));
  run.authority->break_connection();

  const wire::ShardJoin second = run.join();
  CHECK((second.incarnation == first.incarnation && second.goes_on == 1 && second.connection == 2));
  CHECK(second.acked == 1);
  run.welcome(/*heard=*/0);
  REQUIRE(run.authority->expect_next<wire::ShardReady>());
  run.authority->break_connection();

  CHECK(run.join().connection == 3);
  run.welcome(/*heard=*/1);
  run.authority->send(wire::NodeAdmitted{NodeId(0), 1000});
  std::optional<wire::Heartbeat> beat;
  do {
    beat = run.authority->expect_next<wire::Heartbeat>();  // and nothing again
    REQUIRE(beat);
  } while (beat->acked < 2);
}

TEST_CASE("a shard that its authority does not know by its connection joins over another one") {
  ShardOfTwo run;
  run.join();
  if (GENERATE(true, false)) {
    run.welcome();
    REQUIRE(run.authority->expect<wire::Heartbeat>());
  }
  run.authority->send(wire::Error{StatusCode::kNotFound, "a stranger's", /*fatal=*/true});
  CHECK(run.join().connection == 2);
}

TEST_CASE("a shard that waits to be welcomed lives, over whatever connection") {
  ServerOptions options;
  options.resume = true;
  ShardOfTwo run(options);
  CHECK(run.join().resumes);
  REQUIRE(run.authority->expect<wire::Heartbeat>());
  run.authority->break_connection();
  const wire::ShardJoin again = run.join();
  CHECK((again.resumes && again.goes_on == 0 && again.connection == 2));
  REQUIRE(run.authority->expect_next<wire::Heartbeat>());
}

TEST_CASE("a shard whose run is over ends as that did, whether its last word is heard or not") {
  ShardOfTwo run;
  run.join();
  run.welcome();
  run.authority->send(wire::RunOver{});
  REQUIRE(run.authority->expect<wire::ShardReport>());
  SECTION("it is heard") { run.authority->send(wire::Heartbeat{{}, {}, 1}); }
  SECTION("the authority has gone") { run.authority.reset(); }
  SECTION("the authority has taken it out") {
    run.authority->break_connection();
    run.join();
    run.authority->send(wire::Error{StatusCode::kFailedPrecondition, "it has gone", /*fatal=*/true});
  }
  CHECK(run.shard->result().is_ok());
}

TEST_CASE("a shard of a run that has failed waits for nobody whose connection breaks") {
  ShardOfTwo run;
  run.join();
  run.welcome();
  run.authority->send(wire::RunOver{StatusCode::kAborted, "by the test", false});
  REQUIRE(run.authority->expect<wire::ShardReport>());
  run.authority->break_connection();
  CHECK(run.shard->result().code() == StatusCode::kAborted);
}

TEST_CASE("a shard whose authority has heard what was not said, or forgets what it has heard, ends") {
  ShardOfTwo run;
  run.join();
  run.welcome(/*heard=*/1);
  CHECK(run.shard->result().message() == "from the authority: messages acknowledged: got 1, expected 0 to 0");
}

}  // namespace
}  // namespace paceline::server
