// What is said within one turn of a loop leaves together: which messages make one, in which order they are
// handed out, how they are counted, and what becomes of them when somebody goes.
#include <boost/asio/post.hpp>
#include <catch2/catch.hpp>

#include "common/wire/codec.h"
#include "common/wire/connections.h"
#include "common/wire/gathered.h"
#include "tests/unit/sharing_pair.h"

namespace paceline::wire {
namespace {

Outgoing reported(const Body& body, std::size_t payload_bytes = 0) {
  Outgoing message{"", {}, name_of(body), counter_of(body), travels_with_others(body)};
  message.payload.size = payload_bytes;
  return message;
}

// How many of them each message carries.
std::vector<std::size_t> split(const std::vector<Outgoing>& reported) {
  std::vector<std::size_t> sizes;
  std::vector<Outgoing> together;
  for (const Outgoing& message : reported) {
    if (!joins(together, message)) sizes.push_back(std::exchange(together, {}).size());
    together.push_back(message);
    if (!message.travels_with_others) sizes.push_back(std::exchange(together, {}).size());
  }
  if (!together.empty()) sizes.push_back(together.size());
  return sizes;
}

TEST_CASE("a message has one payload at most, and takes along what was said around it") {
  using Messages = std::vector<Outgoing>;
  using Sizes = std::vector<std::size_t>;
  CHECK(split(Messages{reported(Pull{}), reported(Push{}, 4), reported(StepReport{})}) == Sizes{3});
  CHECK(split(Messages{reported(Pull{}), reported(Push{}, 4), reported(Push{}, 4), reported(StepReport{})}) ==
        Sizes{2, 2});
  CHECK(split(Messages{reported(Parameters{}, 4), reported(Parameters{}, 4), reported(Grant{})}) ==
        Sizes{1, 2});
  CHECK(split(Messages{reported(Push{}, 4), reported(Heartbeat{}), reported(StepReport{}),
                       reported(Pull{})}) == Sizes{1, 1, 2});
  CHECK(split(Messages{reported(Join{}), reported(NodeReady{})}) == Sizes{1, 1});
  CHECK(split(Messages(20, reported(Grant{}))) == Sizes{16, 4});
  CHECK(carrier(Messages{reported(Pull{}), reported(Push{}, 4), reported(StepReport{})}) == 1);
  CHECK(carrier(Messages{reported(Grant{}), reported(Unchanged{})}) == 0);
}

// A server and a node in one loop, each of which says in one turn what it has to say.
struct Ends {
  TemporaryFolder folder;
  Context context;
  boost::asio::io_context io{1};
  std::vector<std::string> up, down, unsent;
  std::function<void(const PeerId& from, const Message&)> on_up = [](const PeerId&, const Message&) {};
  PeerId node;
  std::unique_ptr<RouterSocket> router;
  std::unique_ptr<DealerSocket> dealer;

  explicit Ends(bool tcp = false, const std::shared_ptr<SharedSegment>& memory = nullptr) {
    TransportOptions options;
    options.on_unsent = [this](const PeerId&, const Status& why) { unsent.push_back(why.message()); };
    auto bound = RouterSocket::bind(context, io, tcp ? "tcp://127.0.0.1:0" : folder.ipc("ends"), options,
                                    [this](const PeerId& from, Result<Message> message) {
                                      REQUIRE(message.is_ok());
                                      node = from;
                                      up.push_back(name_of(message->body));
                                      on_up(from, *message);
                                    });
    REQUIRE(bound.is_ok());
    router = std::move(bound).value();
    options.memory = memory;
    options.their_memory_bytes_max = kSegmentBytes;
    auto connected =
        DealerSocket::connect(context, io, router->endpoint(), options, [this](Result<Message> message) {
          REQUIRE(message.is_ok());
          down.push_back(name_of(message->body));
        });
    REQUIRE(connected.is_ok());
    dealer = std::move(connected).value();
  }

  void send(Body body, Payload payload = {}) { REQUIRE(dealer->send({std::move(body), payload}).is_ok()); }
  void answer(Body body, Payload payload = {}) {
    REQUIRE(router->send(node, {std::move(body), payload}).is_ok());
  }
};

const StepReport kReport{.metric = {.loss_sum = 1, .correct = 0, .samples = 1}};
using Names = std::vector<std::string>;

TEST_CASE("an iteration's messages are one up and one down, in order, and counted by what they are") {
  Ends ends(GENERATE(true, false));
  Payloads payloads;
  ends.on_up = [&](const PeerId&, const Message& message) {
    if (std::holds_alternative<Pull>(message.body)) {
      ends.answer(Parameters{.last = true}, payloads.make(0, 8));
    }
    if (std::holds_alternative<StepReport>(message.body)) ends.answer(Grant{.samples = 1});
  };
  ends.send(Pull{});
  ends.send(Push{.last = true, .samples = 1}, payloads.make(0, 2048));
  ends.send(kReport);
  CHECK(ends.dealer->counters().messages_sent == 0);  // it is still the same turn
  REQUIRE(run_until(ends.io, [&] { return ends.down.size() == 2; }));
  CHECK(ends.up == Names{"Pull", "Push", "StepReport"});
  CHECK(ends.down == Names{"Parameters", "Grant"});
  const TrafficCounters& node = ends.dealer->counters();
  const TrafficCounters& server = ends.router->counters();
  CHECK(node.messages_sent == 1);
  CHECK(node.messages_received == 1);
  CHECK(node.push_bytes > 4 * 2048);
  CHECK(node.push_bytes < 4 * 2048 + 64);
  CHECK(node.parameter_bytes > 4 * 8);
  CHECK(node.parameter_bytes < 4 * 8 + 64);
  CHECK(server.push_bytes == node.push_bytes);
  CHECK(server.parameter_bytes == node.parameter_bytes);
  CHECK(server.other_bytes == node.other_bytes);
  CHECK(payloads.released());
  CHECK(ends.unsent.empty());
}

TEST_CASE("what several pieces leave is as many messages, and nothing overtakes anything") {
  Ends ends;
  Payloads payloads;
  ends.send(Pull{});
  for (std::int64_t offset = 2; offset >= 0; --offset) {
    const bool last = offset == 0;
    ends.send(Push{.offset = offset, .last = last, .samples = last ? 1 : 0}, payloads.make(0, 1));
  }
  ends.send(kReport);
  ends.send(Heartbeat{});
  ends.send(Pull{});
  REQUIRE(run_until(ends.io, [&] { return ends.up.size() == 7; }));
  CHECK(ends.up == Names{"Pull", "Push", "Push", "Push", "StepReport", "Heartbeat", "Pull"});
  CHECK(ends.router->counters().messages_received == 5);
}

// The same where each reads the other's memory.
struct SharingEnds : Ends {
  std::shared_ptr<SharedSegment> memory;
  std::shared_ptr<SharedSegment> theirs = segment();

  explicit SharingEnds(const std::shared_ptr<SharedSegment>& of_node = segment())
      : Ends(false, of_node), memory(of_node) {
    on_up = [this](const PeerId& from, const Message& message) {
      if (std::holds_alternative<Join>(message.body)) {
        REQUIRE(router->share_memory(from, theirs, kSegmentBytes).is_ok());
        answer(Welcome{});
      }
    };
    send(Join{.threads = 1, .tensors = {{"w", {1}, 0}}});
    REQUIRE(run_until(io, [&] { return down.size() == 1; }));
    send(Heartbeat{});
    REQUIRE(run_until(io, [&] { return up.size() == 2; }));
    REQUIRE(dealer->shares_memory().is_ok());
    up.clear();
  }
  // An iteration's messages, the gradient lent.
  void send_iteration(std::atomic<int>& alive) {
    send(Pull{});
    send(Push{.last = true, .samples = 1}, in(memory, 1, alive, 1024));
    send(kReport);
  }
};

TEST_CASE("a payload that is lent takes others along, too") {
  SharingEnds ends;
  const std::int64_t before = ends.dealer->counters().messages_sent;
  std::atomic<int> alive{0};
  ends.send_iteration(alive);
  REQUIRE(run_until(ends.io, [&] { return ends.up.size() == 3; }));
  CHECK(ends.up == Names{"Pull", "Push", "StepReport"});
  CHECK(ends.dealer->counters().messages_sent == before + 1);
  CHECK(ends.dealer->counters().shared_bytes == 4096);
  CHECK(run_until(ends.io, [&] { return alive == 0; }));
}

TEST_CASE("of what travelled with a payload in memory that is unmapped by now, the others are heard") {
  SharingEnds ends;
  ends.router->unmap(ends.node);
  std::atomic<int> alive{0};
  ends.send_iteration(alive);
  ends.send(Heartbeat{});
  REQUIRE(run_until(ends.io, [&] { return ends.up.size() == 3; }));
  CHECK(ends.up == Names{"Pull", "StepReport", "Heartbeat"});
  CHECK(ends.router->counters().malformed == 0);
}

TEST_CASE("whom a server parts with over the first of several messages is not heard with the others") {
  Ends ends;
  ends.on_up = [&](const PeerId& from, const Message&) {
    ends.router->remember(from);
    ends.router->give_up(from);
  };
  ends.send(Pull{});
  ends.send(kReport);
  REQUIRE(run_until(ends.io, [&] { return ends.router->counters().too_late == 1; }));
  CHECK(ends.up == Names{"Pull"});
}

TEST_CASE("what has gathered for whom a server parts with is dropped, and its sender is told nothing") {
  const std::string how = GENERATE("disconnects", "gives up", "has heard enough");
  Ends ends;
  ends.on_up = [&](const PeerId& from, const Message&) {
    ends.router->remember(from);
    ends.answer(Unchanged{});
    ends.answer(Grant{.samples = 1});
    if (how == "disconnects") REQUIRE(ends.router->disconnect(from).is_ok());
    if (how == "gives up") ends.router->give_up(from);
    if (how != "has heard enough") return;
    int count_wrong = 1;
    while (!ends.router->count_malformed(from)) REQUIRE(++count_wrong <= Connections::kMalformedMax);
  };
  ends.send(Pull{});
  REQUIRE(run_until(ends.io, [&] { return !ends.up.empty(); }));  // what is left leaves behind its handler
  INFO(how);
  CHECK(ends.router->counters().messages_sent == 0);
  CHECK(ends.unsent.empty());
}

TEST_CASE("what has gathered for a connection that no longer exists is dropped with it") {
  Ends ends;
  ends.on_up = [&](const PeerId& from, const Message&) {  // not remembered: the transport cannot break it
    ends.answer(Unchanged{});
    CHECK(ends.router->disconnect(from).code() == StatusCode::kNotFound);
  };
  ends.send(Pull{});
  REQUIRE(run_until(ends.io, [&] { return !ends.up.empty(); }));
  CHECK(ends.router->counters().messages_sent == 0);
  CHECK(ends.unsent.empty());
}

TEST_CASE("a socket that its handler closes hands out nothing more") {
  Ends ends;
  ends.on_up = [&](const PeerId&, const Message&) { ends.router->close(); };
  ends.send(Pull{});
  ends.send(kReport);
  REQUIRE(run_until(ends.io, [&] { return !ends.up.empty(); }));
  CHECK(ends.up == Names{"Pull"});
}

TEST_CASE("what cannot be sent is told, and what was said to others leaves") {
  Ends ends;
  ends.send(Pull{});
  REQUIRE(run_until(ends.io, [&] { return ends.up.size() == 1; }));
  REQUIRE(ends.router->send("nobody", {Grant{.samples = 1}, {}}).is_ok());
  ends.answer(Unchanged{});
  REQUIRE(run_until(ends.io, [&] { return ends.down.size() == 1; }));
  CHECK(ends.unsent == Names{"sending Grant: the peer is gone"});
}

TEST_CASE("only what may still be joined waits, and its sender hears of what it had to leave for") {
  const TemporaryFolder folder;
  Context context;
  boost::asio::io_context io{1};
  std::vector<std::string> unsent;
  std::unique_ptr<DealerSocket> dealer;
  TransportOptions options;
  options.send_queue_messages_max = 2;
  options.on_unsent = [&](const PeerId&, const Status& why) {
    unsent.push_back(why.message());
    dealer->close(DealerSocket::Queued::kIsDropped);
  };
  auto connected = DealerSocket::connect(context, io, folder.ipc("nobody"), options, [](Result<Message>) {});
  REQUIRE(connected.is_ok());
  dealer = std::move(connected).value();
  Payloads payloads;
  const auto push = [&] { return dealer->send({Push{.last = true, .samples = 1}, payloads.make(0, 1)}); };
  for (std::int64_t sent = 0; sent < 3; ++sent) {
    REQUIRE(push().is_ok());
    CHECK(dealer->counters().messages_sent == sent);  // it waits; the one before has left
  }
  CHECK(push().code() == StatusCode::kResourceExhausted);  // there is no room for the third, nor is it kept
  CHECK(dealer->send({kReport, {}}).is_ok());
  CHECK(unsent.empty());
  CHECK(run_until(io, [&] { return !unsent.empty(); }));
  CHECK(unsent == Names{"sending StepReport: the peer's queue is full"});
  CHECK(dealer->counters().messages_sent == 2);
}

TEST_CASE("what has gathered leaves at once when it is told to, in the middle of a turn") {
  Ends ends;
  ends.on_up = [&](const PeerId&, const Message& message) {
    ends.answer(std::holds_alternative<Pull>(message.body) ? Body(Unchanged{}) : Body(Grant{.samples = 1}));
    if (std::holds_alternative<Pull>(message.body)) ends.router->flush();
  };
  ends.send(Pull{});
  ends.send(kReport);
  REQUIRE(run_until(ends.io, [&] { return ends.down.size() == 2; }));
  CHECK(ends.down == Names{"Unchanged", "Grant"});
  CHECK(ends.router->counters().messages_sent == 2);
}

TEST_CASE("an event of a log is told to a replica by itself, and at once") {
  Ends ends;
  ends.send(Pull{});
  REQUIRE(run_until(ends.io, [&] { return ends.up.size() == 1; }));
  Message event{Grant{.samples = 1}, {}};
  event.logged = LogEntry{};
  REQUIRE(ends.router->send(ends.node, event).is_ok());
  CHECK(ends.router->counters().messages_sent == 1);
  CHECK(ends.router->send("nobody", event).code() == StatusCode::kUnavailable);
}

TEST_CASE("what was said before a socket is closed still leaves, unless it is not to") {
  for (const bool is_sent : {true, false}) {
    Ends ends;
    ends.send(Pull{});
    REQUIRE(run_until(ends.io, [&] { return ends.up.size() == 1; }));
    ends.send(kReport);
    ends.dealer->close(is_sent ? DealerSocket::Queued::kIsSent : DealerSocket::Queued::kIsDropped);
    CHECK(ends.dealer->counters().messages_sent == (is_sent ? 2 : 1));
    if (is_sent) CHECK(run_until(ends.io, [&] { return ends.up == Names{"Pull", "StepReport"}; }));
  }
}

}  // namespace
}  // namespace paceline::wire
