// The client against scripted servers over real sockets: joining, one iteration's messages, and letting go of
// every waiter.
#include <atomic>
#include <catch2/catch.hpp>
#include <future>
#include <memory>

#include "common/encode/encode.h"
#include "common/ticks.h"
#include "tests/unit/client_fixture.h"
#include "tests/unit/worker_fixture.h"

namespace paceline {
namespace {

using namespace std::chrono_literals;
using testing::ClientFixture;
using testing::JoinedClient;
using testing::kLeft;
using testing::kRight;
using testing::payload_of;
using testing::ScriptedServer;
using testing::wire_grant_of;

TEST_CASE("a gradient that is computed leaves in parts, but where something is owed") {
  const auto pushed_in_parts = [](Encoding encoding) {
    ClientFixture f;
    f.options.cluster.gradient_encoding = encoding;
    f.options.cluster.top_k_share = 0.5;
    return PsClient(f.options, f.layout, f.context, f.cache).floats_at_once() < 1'000'000;
  };
  CHECK(pushed_in_parts(Encoding::kFp32));
  CHECK(pushed_in_parts(Encoding::kBf16));
  CHECK_FALSE(pushed_in_parts(Encoding::kInt8));
  CHECK_FALSE(pushed_in_parts(Encoding::kTopK));
}

TEST_CASE("a node joins every server with what they must agree on") {
  ClientFixture f;
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
  ClientFixture f;
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
  ClientFixture f;
  f.start_servers();
  auto started = f.start_client();
  REQUIRE(f.left->expect<wire::Join>());
  f.left->send(wire::Welcome{ShardId(0), Range{0, 5}});
  CHECK_THAT(started.get().message(), Catch::Contains("[0, 5), expected shard 0 with [0, 3)"));
}

TEST_CASE("the initial parameters reach each shard in frames, its own part alone") {
  JoinedClient f;
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
  JoinedClient f;
  f.left->send(wire_grant_of(0, Threshold(0), 0));
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
  CHECK(f.client->await_parameters(ticket, f.sink).is_ok());
  CHECK(f.cache.state().version == Version(1));
}

TEST_CASE("the pull, the last piece and the report that a thread says one after the other are one message") {
  ClientFixture f;
  std::promise<void> io_is_held, go_on;
  std::atomic<bool> holds{false};
  f.options.heartbeat = [&] {  // by the I/O thread, which else may be done with the first by then
    if (holds.exchange(false)) {
      io_is_held.set_value();
      go_on.get_future().wait();
    }
    return wire::Heartbeat();
  };
  f.join();
  holds = true;  // not before: a shard that has welcomed is sent heartbeats while another is yet to be heard
  io_is_held.get_future().wait();
  const std::int64_t left_before = f.left->messages_received();
  const std::int64_t right_before = f.right->messages_received();
  f.client->request_early(Version(0));
  auto gradient = std::make_shared<const std::vector<float>>(std::vector<float>{1, 2, 3, 4, 5});
  f.client->push({WorkerId(0, 0), Clock(0), 2, Version(0), Revision(0), std::move(gradient)});
  f.client->report({WorkerId(0, 0), Clock(0), Metric{1.0, 1, 2}});
  go_on.set_value();
  REQUIRE(f.left->expect<wire::Pull>());
  REQUIRE(f.left->expect_next<wire::Push>());
  REQUIRE(f.left->expect_next<wire::Push>());
  REQUIRE(f.left->expect_next<wire::StepReport>());
  REQUIRE(f.right->expect<wire::Pull>());
  REQUIRE(f.right->expect_next<wire::Push>());
  // The pull with the first of two frames, the second with the report. The other shard has one frame.
  CHECK(f.left->messages_received() - left_before == 2);
  CHECK(f.right->messages_received() - right_before == 1);
}

TEST_CASE(
    "a wait for parameters ahead ends when nothing follows, but not where a grant is to be taken first") {
  ClientFixture f;
  f.options.cluster.threads_per_node = 2;
  f.join();
  f.left->send(wire_grant_of(0, Threshold(0), 0));
  f.left->send(wire::FinishWorker{WorkerId(0, 0), "share done", 0ns});
  const Ticket needed = f.client->request_parameters(Version(0));
  REQUIRE(f.left->expect<wire::Pull>());
  REQUIRE(f.right->expect<wire::Pull>());
  const std::vector<Clock> applied{Clock(0), Clock(0)};
  f.left->send(wire::Parameters{needed, ShardId(0), Version(0), Revision(0), 0, true, applied},
               payload_of({7, 7, 7}));
  f.right->send(wire::Parameters{needed, ShardId(1), Version(0), Revision(0), 0, true, applied},
                payload_of({8, 8}));
  const auto sink = f.client->await_early(0, needed, f.sink);
  REQUIRE(sink.is_ok());
  CHECK(sink->has_value());

  REQUIRE(f.client->next_instruction(0).is_ok());
  const Ticket unneeded = f.client->request_parameters(Version(0));
  auto waiting = std::async(std::launch::async, [&] { return f.client->await_early(1, unneeded, f.sink); });
  f.left->send(wire::FinishWorker{WorkerId(0, 1), "share done", 0ns});
  for (const auto& given_up : {waiting.get(), f.client->await_early(0, unneeded, f.sink)}) {
    REQUIRE(given_up.is_ok());
    CHECK_FALSE(given_up->has_value());
  }
}

TEST_CASE("an instruction says what building the report and parsing the answer took on the I/O thread") {
  JoinedClient f;
  f.left->send(wire_grant_of(0, Threshold(0), 0));
  const auto first = f.client->next_instruction(0);
  REQUIRE(first.is_ok());
  CHECK(std::get<Granted>(*first).report.building == 0ns);
  CHECK(std::get<Granted>(*first).report.parsing > 0ns);
  const Ticks begun = steady_now();
  f.client->report({WorkerId(0, 0), Clock(0), Metric{1.0, 1, 2}});
  REQUIRE(f.left->expect<wire::StepReport>());
  const bool goes_on = GENERATE(true, false);
  goes_on ? f.left->send(wire_grant_of(1, Threshold(0), 1))
          : f.left->send(wire::FinishWorker{WorkerId(0, 0), "share done", {}});
  const auto next = f.client->next_instruction(0);
  REQUIRE(next.is_ok());
  const ReportTime took = std::visit([](const auto& i) { return i.report; }, *next);
  CHECK(took.building > 0ns);
  CHECK(took.parsing > 0ns);
  CHECK(took.building + took.parsing <= steady_now() - begun);
}

TEST_CASE("gradients go up and parameters come down in fewer bytes") {
  ClientFixture f;
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
  REQUIRE(f.client->await_parameters(ticket, f.sink).is_ok());
  Values flat(5);
  for (const auto& slice : f.cache.snapshot()) slice->copy_to(flat);
  CHECK(flat == Values{0.5F, 1, 65504, -2, 3});
}

TEST_CASE("the gradient is the caller's again once every byte has left and it is granted past") {
  JoinedClient f;
  std::promise<void> released;
  std::shared_ptr<const std::vector<float>> gradient(new std::vector<float>(5, 1.0F),
                                                     [&](const std::vector<float>* v) {
                                                       delete v;
                                                       released.set_value();
                                                     });
  f.client->push({WorkerId(0, 0), Clock(0), 1, Version(0), Revision(0), std::move(gradient)});
  auto is_released = released.get_future();
  REQUIRE(f.left->expect_that<wire::Push>([](const wire::Push& push) { return push.last; }));
  CHECK(is_released.wait_for(0s) == std::future_status::timeout);  // it may have to be said again
  f.left->send(testing::wire_grant_of(1, Threshold(0), 0));
  CHECK(is_released.wait_for(20s) == std::future_status::ready);
}

TEST_CASE("finish reports and ends with what the authority says of the run") {
  const bool well = GENERATE(true, false);
  JoinedClient f;
  auto ended = std::async(std::launch::async, [&] {
    wire::NodeReport report;
    report.server_reads = 12;
    report.samples_left_out = 3;
    return f.client->finish(report);
  });
  const auto report = f.left->expect<wire::NodeReport>();
  REQUIRE(report);
  CHECK(report->server_reads == 12);
  CHECK(report->samples_left_out == 3);
  f.left->send(well ? wire::RunOver{} : wire::RunOver{StatusCode::kAborted, "loss is nan"});
  const Status status = ended.get();
  CHECK(status.is_ok() == well);
  CHECK(status.message() == (well ? "" : "loss is nan"));
}

TEST_CASE("leaving tells every server why and releases every waiter, those it does not know of, too") {
  ClientFixture f;
  std::atomic<int> closed = 0;
  f.options.on_closed = [&closed] { ++closed; };
  f.join();
  CHECK(closed == 0);
  auto waiting = std::async(std::launch::async, [&] { return f.client->next_instruction(0).status(); });
  const Ticket ticket = f.client->request_parameters(Version(1));
  auto pulling =
      std::async(std::launch::async, [&] { return f.client->await_parameters(ticket, f.sink).status(); });
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

TEST_CASE("that a run cannot go on is said to the authority, ahead of the goodbye") {
  JoinedClient f;
  f.client->fail_run(data_loss("the optimizer's state of node 1 is lost"));
  f.client->leave(aborted("it cannot go on"));
  const auto reported = f.left->expect<wire::Error>();
  REQUIRE(reported);
  CHECK((reported->code == StatusCode::kDataLoss &&
         reported->message == "the optimizer's state of node 1 is lost"));
  CHECK(f.left->expect<wire::Leave>()->fault == "it cannot go on");
  CHECK(f.right->expect<wire::Leave>()->fault == "it cannot go on");
}

TEST_CASE("a refused push is no end; parameters that nobody asked for are") {
  JoinedClient f;
  f.left->send(wire::Error{StatusCode::kOutOfOrder, "push of clock 3, expected 4", false});
  f.left->send(wire_grant_of(0, Threshold(0), 0));
  CHECK(f.client->next_instruction(0).is_ok());
  f.right->send(wire::Parameters{999, ShardId(1), Version(1), Revision(1), 0, true, {Clock(1)}},
                payload_of({1, 1}));
  const Status status = f.client->next_instruction(0).status();
  CHECK(status.code() == StatusCode::kInvalidArgument);
  CHECK_THAT(status.message(), Catch::Contains("server shard 1") && Catch::Contains("no such request"));
}

// It would wait for the end, and the server for the report.
TEST_CASE("a node whose report cannot be read goes, and says why") {
  JoinedClient f;
  auto over = std::async(std::launch::async, [&] { return f.client->finish({}); });
  REQUIRE(f.left->expect<wire::NodeReport>());
  f.left->send(wire::Error{StatusCode::kInvalidArgument, "NodeReport.reducing_ns: got -7, expected 0 to 9"});
  const Status status = over.get();
  CHECK_THAT(status.message(),
             Catch::Contains("server shard 0") &&
                 Catch::Contains(" cannot read what this node sends: NodeReport.reducing_ns: got -7"));
  CHECK(f.left->expect<wire::Leave>()->fault == status.message());
}

}  // namespace
}  // namespace paceline
