// The client against scripted servers over real sockets: joining, one iteration's messages, silence, and
// letting go of every waiter.
#include <atomic>
#include <catch2/catch.hpp>
#include <future>
#include <memory>

#include "common/encode/encode.h"
#include "common/ticks.h"
#include "tests/unit/scripted_server.h"
#include "tests/unit/temp_folder.h"
#include "tests/unit/worker_fixture.h"
#include "worker/client/ps_client.h"

namespace paceline {
namespace {

using namespace std::chrono_literals;
using testing::grant_of;
using testing::payload_of;
using testing::ScriptedServer;
using testing::TempFolder;

const Range kLeft{0, 3};
const Range kRight{3, 5};

// Two servers, a layout of five floats, frames of two floats.
struct NoLanding : ParameterLanding {
  bool land(ShardId, const cache::SliceStamp&, const SlicePiece&) override { return false; }
};

struct Fixture {
  TempFolder folder;
  wire::Context context;
  Layout layout;
  ProcessCache cache{{kLeft, kRight}};
  PsClientOptions options;
  std::unique_ptr<ScriptedServer> left;
  std::unique_ptr<ScriptedServer> right;
  std::unique_ptr<PsClient> client;
  NoLanding landing;

  Fixture() {
    REQUIRE(layout.add("w", {5}).is_ok());
    options.cluster.shards = 2;
    options.cluster.endpoints = {"ipc://" + (folder / "0").string(), "ipc://" + (folder / "1").string()};
    options.cluster.frame_bytes = 8;
    options.cluster.heartbeat = 10ms;
    options.cluster.lease = 20s;
    options.cluster.start_timeout = 20s;
    options.incarnation = 77;
    options.config_fingerprint = 99;
  }
  void start_servers() {
    left = std::make_unique<ScriptedServer>(context, options.cluster.endpoints[0]);
    right = std::make_unique<ScriptedServer>(context, options.cluster.endpoints[1]);
  }
  std::future<Status> start_client() {
    client = std::make_unique<PsClient>(options, layout, context, cache);
    return std::async(std::launch::async, [this] { return client->start(); });
  }
  // Both servers, joined and welcomed.
  void join() {
    start_servers();
    auto started = start_client();
    REQUIRE(left->expect<wire::Join>());
    left->send(wire::Welcome{ShardId(0), kLeft});
    REQUIRE(right->expect<wire::Join>());
    right->send(wire::Welcome{ShardId(1), kRight});
    const Status status = started.get();
    INFO(status.message());
    REQUIRE(status.is_ok());
  }
};

TEST_CASE("a gradient that is computed leaves in parts, but where something is owed") {
  const auto leaves_in_parts = [](Encoding encoding) {
    Fixture f;
    f.options.cluster.gradient_encoding = encoding;
    f.options.cluster.top_k_share = 0.5;
    return PsClient(f.options, f.layout, f.context, f.cache).floats_at_once() < 1'000'000;
  };
  CHECK(leaves_in_parts(Encoding::kFp32));
  CHECK(leaves_in_parts(Encoding::kBf16));
  CHECK_FALSE(leaves_in_parts(Encoding::kInt8));
  CHECK_FALSE(leaves_in_parts(Encoding::kTopK));
}

TEST_CASE("a node joins every server with what they must agree on") {
  Fixture f;
  f.start_servers();
  auto started = f.start_client();
  const auto join = f.right->expect<wire::Join>();
  REQUIRE(join);
  CHECK(join->incarnation == 77);
  CHECK(join->config_fingerprint == 99);
  CHECK(join->layout_hash == f.layout.hash());
  REQUIRE(f.left->expect<wire::Join>());
  f.left->send(wire::Welcome{ShardId(0), kLeft});
  f.right->send(wire::Welcome{ShardId(1), kRight});
  CHECK(started.get().is_ok());
}

TEST_CASE("a refused join ends the start with the server's words") {
  Fixture f;
  f.start_servers();
  auto started = f.start_client();
  REQUIRE(f.right->expect<wire::Join>());
  f.right->send(wire::Error{StatusCode::kFailedPrecondition, "layout hash 1, expected 2", true});
  const Status status = started.get();
  CHECK(status.code() == StatusCode::kFailedPrecondition);
  CHECK_THAT(status.message(),
             Catch::Contains("server shard 1") && Catch::Contains("layout hash 1, expected 2"));
}

TEST_CASE("a server that holds another range is not the one the run was configured for") {
  Fixture f;
  f.start_servers();
  auto started = f.start_client();
  REQUIRE(f.left->expect<wire::Join>());
  f.left->send(wire::Welcome{ShardId(0), Range{0, 5}});
  CHECK_THAT(started.get().message(), Catch::Contains("[0, 5), expected shard 0 with [0, 3)"));
}

TEST_CASE("who does not answer within start_timeout is named, and only they") {
  Fixture f;
  f.options.cluster.start_timeout = 300ms;
  f.left = std::make_unique<ScriptedServer>(f.context, f.options.cluster.endpoints[0]);
  auto started = f.start_client();
  REQUIRE(f.left->expect<wire::Join>());
  f.left->send(wire::Welcome{ShardId(0), kLeft});
  const Status status = started.get();
  CHECK(status.code() == StatusCode::kDeadlineExceeded);
  CHECK_THAT(status.message(), Catch::Contains("server shard 1") && !Catch::Contains("server shard 0"));
}

TEST_CASE("the initial parameters reach each shard in frames, its own part alone") {
  Fixture f;
  f.join();
  f.client->send_initial_parameters({1, 2, 3, 4, 5});
  const auto first = f.left->expect<wire::InitialParameters>();
  CHECK(f.left->payload().floats()[1] == 2.0F);
  const auto second = f.left->expect<wire::InitialParameters>();
  REQUIRE((first && second));
  CHECK_FALSE(first->last);
  CHECK(second->offset == 2);
  CHECK(second->last);
  REQUIRE(f.right->expect<wire::InitialParameters>());
  CHECK(f.right->payload().floats()[0] == 4.0F);
}

TEST_CASE("a grant reaches its worker; gradient, report and pull leave in that order") {
  Fixture f;
  f.join();
  f.left->send(grant_of(0, Threshold(0), 0));
  const auto next = f.client->next_instruction(0);
  REQUIRE(next.is_ok());
  CHECK(std::get<Granted>(*next).grant.threshold == Threshold(0));

  auto gradient = std::make_shared<const std::vector<float>>(std::vector<float>{1, 2, 3, 4, 5});
  const std::weak_ptr<const std::vector<float>> watched = gradient;
  f.client->push({WorkerId(0, 0), Clock(0), 2, Version(0), Revision(0), std::move(gradient)});
  f.client->report({WorkerId(0, 0), Clock(0), Metric{1.0, 1, 2}});
  const Ticket ticket = f.client->request_parameters(Version(1));

  const auto push = f.left->expect<wire::Push>();
  REQUIRE(push);
  CHECK((push->offset == 2 && push->samples == 0 && !push->last));
  CHECK(f.left->payload().floats()[0] == 3.0F);
  const auto last = f.left->expect<wire::Push>();
  REQUIRE(last);
  CHECK((last->offset == 0 && last->samples == 2 && last->last));
  CHECK(f.left->expect<wire::StepReport>()->metric.correct == 1);
  const auto pull = f.left->expect<wire::Pull>();
  REQUIRE(pull);
  CHECK(pull->min_version == Version(1));
  CHECK(f.right->expect<wire::Push>()->last);
  CHECK(f.right->payload().floats()[0] == 4.0F);
  REQUIRE(f.right->expect<wire::Pull>());  // the step report went to the authority alone

  f.left->send(wire::Parameters{ticket, ShardId(0), Version(1), Revision(1), 0, true, {Clock(1)}},
               payload_of({7, 7, 7}));
  f.right->send(wire::Parameters{ticket, ShardId(1), Version(1), Revision(1), 0, true, {Clock(1)}},
                payload_of({8, 8}));
  CHECK(f.client->await_parameters(ticket, f.landing).is_ok());
  CHECK(f.cache.state().version == Version(1));
}

TEST_CASE(
    "a wait for parameters ahead ends when nothing follows, but not where a grant is to be taken first") {
  Fixture f;
  f.options.cluster.threads_per_node = 2;
  f.join();
  f.left->send(grant_of(0, Threshold(0), 0));
  f.left->send(wire::FinishWorker{WorkerId(0, 0), "share done", 0ns});
  const Ticket needed = f.client->request_parameters(Version(0));
  REQUIRE(f.left->expect<wire::Pull>());
  REQUIRE(f.right->expect<wire::Pull>());
  const std::vector<Clock> applied{Clock(0), Clock(0)};
  f.left->send(wire::Parameters{needed, ShardId(0), Version(0), Revision(0), 0, true, applied},
               payload_of({7, 7, 7}));
  f.right->send(wire::Parameters{needed, ShardId(1), Version(0), Revision(0), 0, true, applied},
                payload_of({8, 8}));
  const auto landed = f.client->await_ahead(0, needed, f.landing);
  REQUIRE(landed.is_ok());
  CHECK(landed->has_value());

  REQUIRE(f.client->next_instruction(0).is_ok());
  const Ticket unneeded = f.client->request_parameters(Version(0));
  auto waiting =
      std::async(std::launch::async, [&] { return f.client->await_ahead(1, unneeded, f.landing); });
  f.left->send(wire::FinishWorker{WorkerId(0, 1), "share done", 0ns});
  for (const auto& given_up : {waiting.get(), f.client->await_ahead(0, unneeded, f.landing)}) {
    REQUIRE(given_up.is_ok());
    CHECK_FALSE(given_up->has_value());
  }
}

TEST_CASE("an instruction says what building the report and parsing the answer took on the I/O thread") {
  Fixture f;
  f.join();
  f.left->send(grant_of(0, Threshold(0), 0));
  const auto first = f.client->next_instruction(0);
  REQUIRE(first.is_ok());
  CHECK(std::get<Granted>(*first).report.building == 0ns);
  CHECK(std::get<Granted>(*first).report.parsing > 0ns);
  const Ticks begun = steady_now();
  f.client->report({WorkerId(0, 0), Clock(0), Metric{1.0, 1, 2}});
  REQUIRE(f.left->expect<wire::StepReport>());
  const bool goes_on = GENERATE(true, false);
  goes_on ? f.left->send(grant_of(1, Threshold(0), 1))
          : f.left->send(wire::FinishWorker{WorkerId(0, 0), "share done", {}});
  const auto next = f.client->next_instruction(0);
  REQUIRE(next.is_ok());
  const ReportTime took = std::visit([](const auto& i) { return i.report; }, *next);
  CHECK(took.building > 0ns);
  CHECK(took.parsing > 0ns);
  CHECK(took.building + took.parsing <= steady_now() - begun);
}

TEST_CASE("a live authority that never answers a report ends the node with what it waits for") {
  Fixture f;
  f.options.cluster.lease = 300ms;
  f.join();
  f.left->send(grant_of(4, Threshold(0), 4));
  REQUIRE(f.client->next_instruction(0).is_ok());
  f.client->report({WorkerId(0, 0), Clock(4), Metric{1.0, 1, 2}});
  auto waiting = std::async(std::launch::async, [&] { return f.client->next_instruction(0).status(); });
  while (waiting.wait_for(50ms) != std::future_status::ready) {  // until GrantWatch::kAtLeast has passed
    f.left->send(wire::Heartbeat{});
    f.right->send(wire::Heartbeat{});
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

TEST_CASE("gradients go up and parameters come down in fewer bytes") {
  Fixture f;
  f.options.cluster.threads_per_node = 2;
  f.options.cluster.gradient_encoding = Encoding::kTopK;
  f.options.cluster.top_k_share = 0.5;
  f.options.cluster.parameter_encoding = Encoding::kFp16;
  f.join();
  const auto push = [&](std::uint32_t thread, std::vector<float> gradient) {
    f.client->push({WorkerId(0, thread), Clock(0), 2, Version(0), Revision(0),
                    std::make_shared<const std::vector<float>>(std::move(gradient))});
  };
  // The floats of the next frame that `server` gets.
  const auto next = [](ScriptedServer& server) {
    REQUIRE(server.expect<wire::Push>());
    std::vector<float> values(static_cast<std::size_t>(server.payload().count()));
    CHECK(server.payload().encoding == Encoding::kTopK);
    REQUIRE(decode(Encoding::kTopK, server.payload().bytes(), values).is_ok());
    return values;
  };
  using Values = std::vector<float>;
  push(0, {1, 2, 3, 5, 4});  // frames of two floats, one of each is sent
  CHECK(next(*f.left) == Values{3});
  CHECK(next(*f.left) == Values{0, 2});
  CHECK(next(*f.right) == Values{5, 0});
  push(1, {4, 1, 0, 0, 0});  // another thread owes nothing of it
  CHECK(next(*f.left) == Values{0});
  CHECK(next(*f.left) == Values{4, 0});
  push(0, {1, 1, 0, 0, 0});  // with what was left out
  CHECK(next(*f.left) == Values{0});
  CHECK(next(*f.left) == Values{2, 0});

  const Ticket ticket = f.client->request_parameters(Version(0));
  const auto half = [](const Values& values) {
    const Encoder encoder{Encoding::kFp16};
    const auto owner = std::make_shared<Values>(values.size());
    auto* const bytes = reinterpret_cast<std::byte*>(owner->data());
    encoder.encode(values, {bytes, 2 * values.size()});
    return wire::Payload{owner, bytes, 2 * values.size(), Encoding::kFp16, std::ssize(values)};
  };
  const std::vector<Clock> applied{Clock(0), Clock(0)};
  REQUIRE(f.left->expect<wire::Pull>());
  f.left->send(wire::Parameters{ticket, ShardId(0), Version(0), Revision(0), 0, true, applied},
               half({0.5F, 1, 65504}));
  REQUIRE(f.right->expect<wire::Pull>());
  f.right->send(wire::Parameters{ticket, ShardId(1), Version(0), Revision(0), 0, true, applied},
                half({-2, 3}));
  REQUIRE(f.client->await_parameters(ticket, f.landing).is_ok());
  Values flat(5);
  for (const auto& slice : f.cache.snapshot()) slice->copy_to(flat);
  CHECK(flat == Values{0.5F, 1, 65504, -2, 3});
}

TEST_CASE("the gradient is the caller's again once every byte has left") {
  Fixture f;
  f.join();
  std::promise<void> released;
  std::shared_ptr<const std::vector<float>> gradient(new std::vector<float>(5, 1.0F),
                                                     [&](const std::vector<float>* v) {
                                                       delete v;
                                                       released.set_value();
                                                     });
  f.client->push({WorkerId(0, 0), Clock(0), 1, Version(0), Revision(0), std::move(gradient)});
  CHECK(released.get_future().wait_for(20s) == std::future_status::ready);
}

TEST_CASE("a server that falls silent for longer than the lease is named, and every waiter released") {
  Fixture f;
  f.options.cluster.lease = 300ms;
  f.join();
  auto grant = std::async(std::launch::async, [&] { return f.client->next_instruction(0).status(); });
  auto evaluation = std::async(std::launch::async, [&] { return f.client->next_evaluation().status(); });
  const Status status = grant.get();
  CHECK(status.code() == StatusCode::kDeadlineExceeded);
  CHECK_THAT(status.message(), Catch::Contains("server shard") && Catch::Contains("silent for 0."));
  CHECK(evaluation.get().message() == status.message());
}

TEST_CASE("a held grant is no silence: news of it restart the deadline") {
  Fixture f;
  f.options.cluster.lease = 500ms;
  f.join();
  auto waiting = std::async(std::launch::async, [&] { return f.client->next_instruction(0); });
  // Several leases long, both servers are heard of by answering the client's heartbeats; the authority with
  // Held.
  const auto until = std::chrono::steady_clock::now() + 1200ms;
  while (std::chrono::steady_clock::now() < until) {
    REQUIRE(f.left->expect<wire::Heartbeat>());
    f.left->send(wire::Held{WorkerId(0, 0), Clock(5), Staleness(2), Threshold(1), WorkerId(1, 0), 200ms});
    REQUIRE(f.right->expect<wire::Heartbeat>());
    f.right->send(wire::Heartbeat{});
  }
  f.left->send(grant_of(5, Threshold(1), 4));
  CHECK(waiting.get().is_ok());
}

TEST_CASE("servers that were not heard of while this process stood still are not taken for silent") {
  Fixture f;
  f.options.cluster.lease = 1500ms;
  std::promise<void> stands;
  std::promise<void> goes_on;
  std::promise<void> noticed;
  bool said = false;
  std::shared_future<void> let_go = goes_on.get_future().share();
  // The I/O thread logs a refusal, and stands still in that.
  f.options.log = Log::to([&](LogLevel level, const std::string& text) {
    if (text.find("stood still") != std::string::npos && !std::exchange(said, true)) noticed.set_value();
    if (level != LogLevel::kWarn) return;
    stands.set_value();
    let_go.wait();
  });
  f.join();
  f.left->send(wire::Error{StatusCode::kOutOfOrder, "push of clock 3, expected 4", false});
  REQUIRE(stands.get_future().wait_for(20s) == std::future_status::ready);
  CHECK(let_go.wait_for(2500ms) == std::future_status::timeout);  // the servers say nothing either
  goes_on.set_value();
  REQUIRE(noticed.get_future().wait_for(20s) == std::future_status::ready);
  for (const auto& server : {f.left.get(), f.right.get()}) server->send(wire::Heartbeat{});
  f.left->send(grant_of(0, Threshold(0), 0));
  CHECK(f.client->next_instruction(0).is_ok());
  CHECK(f.client->closed().is_ok());
}

TEST_CASE("an exact version is fetched past the process cache") {
  Fixture f;
  f.join();
  f.left->send(wire::Evaluate{Version(6), true});
  const auto request = f.client->next_evaluation();
  REQUIRE(request.is_ok());
  CHECK(request->final_model);
  std::vector<float> flat(5);
  auto fetched = std::async(std::launch::async, [&] { return f.client->fetch_exact(Version(6), flat); });
  const auto pull = f.left->expect<wire::Pull>();
  REQUIRE(pull);
  CHECK(pull->exact);
  f.left->send(wire::Parameters{pull->request, ShardId(0), Version(6), Revision(6), 0, true, {Clock(6)}},
               payload_of({1, 2, 3}));
  REQUIRE(f.right->expect<wire::Pull>());
  f.right->send(wire::Parameters{pull->request, ShardId(1), Version(6), Revision(6), 0, true, {Clock(6)}},
                payload_of({4, 5}));
  CHECK(fetched.get().is_ok());
  CHECK(flat == std::vector<float>{1, 2, 3, 4, 5});
  CHECK(f.cache.state().version == kNoVersion);
}

TEST_CASE("of the evaluations asked for while none was taken, the newest is wanted") {
  Fixture f;
  f.join();
  for (const std::int64_t version : {5, 10, 15, 20, 25, 30})
    f.left->send(wire::Evaluate{Version(version), false});
  f.left->send(grant_of(0, Threshold(0), 0));
  REQUIRE(f.client->next_instruction(0).is_ok());  // so all of them are there
  CHECK(f.client->next_evaluation()->version == Version(30));
}

TEST_CASE("a version that was released before it was fetched is no fault of the node, which goes on") {
  Fixture f;
  f.join();
  std::vector<float> flat(5);
  auto fetched = std::async(std::launch::async, [&] { return f.client->fetch_exact(Version(6), flat); });
  REQUIRE(f.left->expect<wire::Pull>());
  REQUIRE(f.right->expect<wire::Pull>());
  for (const auto& server : {f.left.get(), f.right.get()}) {
    server->send(wire::Error{StatusCode::kNotFound, "version 6 is not retained", false});
  }
  const Status late = fetched.get();
  CHECK(late.code() == StatusCode::kNotFound);
  CHECK_THAT(late.message(), Catch::Contains("server shard") && Catch::Contains("version 6 is not retained"));
  CHECK(f.client->closed().is_ok());
  f.left->send(grant_of(0, Threshold(0), 0));
  CHECK(f.client->next_instruction(0).is_ok());
}

TEST_CASE("finish reports and ends with what the authority says of the run") {
  const bool well = GENERATE(true, false);
  Fixture f;
  f.join();
  auto ended = std::async(std::launch::async, [&] {
    wire::NodeReport report;
    report.server_reads = 12;
    return f.client->finish(report);
  });
  const auto report = f.left->expect<wire::NodeReport>();
  REQUIRE(report);
  CHECK(report->server_reads == 12);
  f.left->send(well ? wire::RunOver{} : wire::RunOver{StatusCode::kAborted, "loss is nan"});
  const Status status = ended.get();
  CHECK(status.is_ok() == well);
  CHECK(status.message() == (well ? "" : "loss is nan"));
}

TEST_CASE("a node that is done waits for the authority alone: the other shards go before it is told") {
  Fixture f;
  f.options.cluster.lease = 500ms;
  f.join();
  auto ended = std::async(std::launch::async, [&] { return f.client->finish({}); });
  REQUIRE(f.left->expect<wire::NodeReport>());
  f.right.reset();
  const auto until = std::chrono::steady_clock::now() + 1200ms;
  while (std::chrono::steady_clock::now() < until) {
    REQUIRE(f.left->expect<wire::Heartbeat>());
    f.left->send(wire::Heartbeat{});
  }
  const bool told = GENERATE(true, false);
  if (told) f.left->send(wire::RunOver{});
  const Status status = ended.get();
  INFO(status.message());
  CHECK(status.is_ok() == told);
  if (!told) CHECK_THAT(status.message(), Catch::Contains("server shard 0") && Catch::Contains("silent"));
}

TEST_CASE("leaving tells every server why and releases every waiter, those it does not know of, too") {
  Fixture f;
  std::atomic<int> closed = 0;
  f.options.on_closed = [&closed] { ++closed; };
  f.join();
  CHECK(closed == 0);
  auto waiting = std::async(std::launch::async, [&] { return f.client->next_instruction(0).status(); });
  const Ticket ticket = f.client->request_parameters(Version(1));
  auto pulling =
      std::async(std::launch::async, [&] { return f.client->await_parameters(ticket, f.landing).status(); });
  f.client->leave(aborted("stopped by a signal"));
  CHECK(waiting.get().message() == "stopped by a signal");
  CHECK(pulling.get().message() == "stopped by a signal");
  CHECK(f.left->expect<wire::Leave>()->fault == "stopped by a signal");
  CHECK(f.right->expect<wire::Leave>()->fault == "stopped by a signal");
  f.client->close(aborted("again"));
  CHECK(closed == 1);
  f.client.reset();
  CHECK(closed == 1);
}

TEST_CASE("a refused push is no end; parameters that nobody asked for are") {
  Fixture f;
  f.join();
  f.left->send(wire::Error{StatusCode::kOutOfOrder, "push of clock 3, expected 4", false});
  f.left->send(grant_of(0, Threshold(0), 0));
  CHECK(f.client->next_instruction(0).is_ok());
  f.right->send(wire::Parameters{999, ShardId(1), Version(1), Revision(1), 0, true, {Clock(1)}},
                payload_of({1, 1}));
  const Status status = f.client->next_instruction(0).status();
  CHECK(status.code() == StatusCode::kInvalidArgument);
  CHECK_THAT(status.message(), Catch::Contains("server shard 1") && Catch::Contains("no such request"));
}

}  // namespace
}  // namespace paceline
