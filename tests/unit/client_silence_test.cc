// Which silence ends a client, over real sockets: the line names who was silent and what was waited for.
#include <catch2/catch.hpp>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "common/ticks.h"
#include "tests/unit/client_fixture.h"
#include "tests/unit/worker_fixture.h"

namespace paceline {
namespace {

using namespace std::chrono_literals;
using testing::ClientFixture;
using testing::kLeft;
using testing::ScriptedServer;
using testing::wire_grant_of;

TEST_CASE("who does not answer within start_timeout is named, and only they") {
  ClientFixture f;
  f.options.cluster.start_timeout = 300ms;
  f.left = std::make_unique<ScriptedServer>(f.context, f.options.cluster.endpoints[0]);
  auto started = f.start_client();
  REQUIRE(f.left->expect<wire::Join>());
  f.left->send(wire::Welcome{ShardId(0), kLeft});
  const Status status = started.get();
  CHECK(status.code() == StatusCode::kDeadlineExceeded);
  CHECK_THAT(status.message(), Catch::Contains("server shard 1") && !Catch::Contains("server shard 0"));
}

TEST_CASE("a live authority that never answers a report ends the node with what it waits for") {
  ClientFixture f;
  f.options.cluster.lease = 2s;
  f.time.use(f.options);
  f.join();
  f.left->send(wire_grant_of(4, Threshold(0), 4));
  REQUIRE(f.client->next_instruction(0).is_ok());
  f.client->report({WorkerId(0, 0), Clock(4), Metric{1.0, 1, 2}});
  auto waiting = std::async(std::launch::async, [&] { return f.client->next_instruction(0).status(); });
  while (!f.time.is_closed()) {  // until GrantWatch::kLeases have passed
    REQUIRE((f.is_received(*f.left) && f.is_received(*f.right)));
    f.time.pass(1s);
  }
  const Status status = waiting.get();
  CHECK(status.code() == StatusCode::kDeadlineExceeded);
  CHECK_THAT(
      status.message(),
      Catch::Matches(R"(server shard 0 \(ipc://.*/0\) lives, but: worker 0\.0 reported its iteration )"
                     R"(of clock 4 and for \d+\.\d s got neither a grant, nor that it is held, nor that )"
                     R"(it is finished)"));
  CHECK(f.left->expect<wire::Leave>()->fault == status.message());
}

TEST_CASE("a node that is asked whether it is alive says so at once") {
  ClientFixture f;
  f.options.cluster.heartbeat = 1h;  // so it says nothing by itself
  f.options.cluster.lease = 2h;
  f.join();
  f.left->send(wire::Heartbeat{});  // to which there is no answer
  f.left->send(wire::Heartbeat{.answer = 0x8000000000000001U});
  const auto beat = f.left->expect<wire::Heartbeat>();
  REQUIRE(beat);
  CHECK(beat->answer == 0x8000000000000001U);
}

TEST_CASE("a server that falls silent for longer than the lease is named, and every waiter released") {
  ClientFixture f;
  f.options.cluster.lease = 1s;
  f.time.use(f.options);
  f.join();
  auto grant = std::async(std::launch::async, [&] { return f.client->next_instruction(0).status(); });
  auto evaluation = std::async(std::launch::async, [&] { return f.client->next_evaluation().status(); });
  f.time.pass(1100ms);
  const Status status = grant.get();
  CHECK(status.code() == StatusCode::kDeadlineExceeded);
  CHECK_THAT(status.message(),
             Catch::Contains("server shard") && Catch::Matches(R"(.*silent for [1-9]\d*\.\d s.*)"));
  CHECK(evaluation.get().message() == status.message());
}

TEST_CASE("a held grant is no silence: news of it restart the deadline") {
  ClientFixture f;
  f.options.cluster.lease = 2s;
  f.time.use(f.options);
  f.join();
  auto waiting = std::async(std::launch::async, [&] { return f.client->next_instruction(0); });
  // More than two leases long; of the authority nothing but HeldNotice is heard.
  for (auto held = 1s; held < 5s; held += 1s) {
    f.left->send(
        wire::HeldNotice{WorkerId(0, 0), Clock(5), Staleness(2), Threshold(1), WorkerId(1, 0), held});
    const auto is_received = [&] { return f.client->held(0) && f.client->held(0)->held == held; };
    const Ticks until = steady_now() + 20s;
    while (!is_received()) {
      REQUIRE(steady_now() < until);
      std::this_thread::yield();
    }
    REQUIRE(f.is_received(*f.right));
    f.time.pass(1500ms);
  }
  f.left->send(wire_grant_of(5, Threshold(1), 4));
  CHECK(waiting.get().is_ok());
}

TEST_CASE("servers that were not heard of while this process stood still are not taken for silent") {
  ClientFixture f;
  f.options.cluster.lease = 1500ms;
  f.time.use(f.options);
  std::promise<void> stands;
  std::promise<void> goes_on;
  std::promise<void> noticed;
  bool reported = false;
  std::shared_future<void> let_go = goes_on.get_future().share();
  // The I/O thread logs a refusal, and stands still in that.
  f.options.log = Log::to([&](LogLevel level, const std::string& text) {
    if (text.find("stood still") != std::string::npos && !std::exchange(reported, true)) noticed.set_value();
    if (level != LogLevel::kWarn) return;
    stands.set_value();
    let_go.wait();
  });
  f.join();
  f.left->send(wire::Error{StatusCode::kOutOfOrder, "push of clock 3, expected 4", false});
  REQUIRE(stands.get_future().wait_for(20s) == std::future_status::ready);
  f.time.jump(2500ms);  // the servers say nothing either
  goes_on.set_value();
  REQUIRE(noticed.get_future().wait_for(20s) == std::future_status::ready);
  for (const auto& server : {f.left.get(), f.right.get()}) server->send(wire::Heartbeat{});
  f.left->send(wire_grant_of(0, Threshold(0), 0));
  CHECK(f.client->next_instruction(0).is_ok());
  CHECK(f.client->closed().is_ok());
}

TEST_CASE("a node that is done waits for the authority alone: the other shards go before it is told") {
  ClientFixture f;
  f.options.cluster.lease = 2s;
  f.time.use(f.options);
  f.join();
  auto ended = std::async(std::launch::async, [&] { return f.client->finish({}); });
  REQUIRE(f.left->expect<wire::NodeReport>());
  f.right.reset();
  for (int times = 0; times < 4; ++times) {
    REQUIRE(f.is_received(*f.left));
    f.time.pass(1500ms);
  }
  const bool received = GENERATE(true, false);
  received ? f.left->send(wire::RunOver{}) : f.time.pass(2s);
  const Status status = ended.get();
  INFO(status.message());
  CHECK(status.is_ok() == received);
  if (!received) CHECK_THAT(status.message(), Catch::Contains("server shard 0") && Catch::Contains("silent"));
}

}  // namespace
}  // namespace paceline
