// What is lent comes back, and what was borrowed stays readable, whichever side dies.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <optional>
#include <thread>

#include "tests/unit/sharing_pair.h"

namespace paceline::wire {

TEST_CASE("what is lent to a peer comes back when its connection is broken, and when the socket is closed") {
  Pair pair;
  std::atomic<int> alive{0};
  REQUIRE(pair.router->send(pair.peer, {Parameters{.last = true}, in(pair.of_router, 8, alive)}).is_ok());
  REQUIRE(run_until(pair.io, [&] { return pair.at_dealer.size() == 1; }));
  CHECK(alive == 1);
  if (GENERATE(true, false)) {
    REQUIRE(pair.router->disconnect(pair.peer).is_ok());
  } else {
    pair.router->close();
  }
  CHECK(alive == 0);
}

TEST_CASE("what a dealer has lent outlives its socket for who keeps it: the server may still read it") {
  Pair pair;
  std::atomic<int> alive{0};
  REQUIRE(pair.push(in(pair.of_dealer, 5, alive)).is_ok());
  const Payload read = pair.routed()->payload;
  REQUIRE(read.borrowed);
  auto kept = pair.dealer->lent();
  pair.dealer->close(DealerSocket::Queued::kIsDropped);
  pair.dealer.reset();
  CHECK(alive == 1);
  CHECK(all_are(read, 5));
  kept.reset();
  CHECK(alive == 0);
}

TEST_CASE("a connection that is given up brings back what was lent, and says nothing more") {
  Pair pair;
  std::atomic<int> alive{0};
  REQUIRE(pair.router->send(pair.peer, {Parameters{.last = true}, in(pair.of_router, 8, alive)}).is_ok());
  REQUIRE(run_until(pair.io, [&] { return pair.at_dealer.size() == 1; }));
  pair.router->give_up(pair.peer);
  CHECK(alive == 0);
  const auto is_gone = [&] { return !pair.router->send(pair.peer, {Heartbeat{}, {}}).is_ok(); };
  CHECK(run_until(pair.io, is_gone));
}

TEST_CASE("a dealer is told that its connection broke, after all that had come over it") {
  const TemporaryFolder folder;
  Context context;
  boost::asio::io_context io{1};
  PeerId peer;
  std::unique_ptr<RouterSocket> router;
  router =
      RouterSocket::bind(context, io, folder.ipc("breaks"), {}, [&](const PeerId& from, Result<Message>) {
        if (std::exchange(peer, from).empty()) router->remember(from);
      }).value();
  std::vector<std::string> order;
  TransportOptions options;
  options.on_broken = [&] { order.push_back("broken"); };
  const auto dealer =
      DealerSocket::connect(context, io, folder.ipc("breaks"), options, [&](Result<Message> m) {
        order.push_back(name_of(m->body));
      }).value();
  REQUIRE(dealer->send({Heartbeat{}, {}}).is_ok());
  REQUIRE(run_until(io, [&] { return !peer.empty(); }));
  REQUIRE(router->send(peer, {Heartbeat{}, {}}).is_ok());
  REQUIRE(run_until(io, [&] { return order.size() == 1; }));
  REQUIRE(router->send(peer, {Leave{}, {}}).is_ok());
  REQUIRE(run_until(io, [&] { return order.size() == 2; }));
  REQUIRE(router->disconnect(peer).is_ok());
  REQUIRE(run_until(io, [&] { return order.size() == 3; }));
  CHECK(order == std::vector<std::string>{"Heartbeat", "Leave", "broken"});
}

TEST_CASE(
    "what a peer held that was killed comes back once it is given up, and what it had sent is readable") {
  const TemporaryFolder folder;
  const auto memory = segment();
  int to_parent[2];
  REQUIRE(::pipe(to_parent) == 0);
  const pid_t victim = child([&] {
    Context own;
    boost::asio::io_context io{1};
    TransportOptions options;
    options.memory = SharedSegment::create(kSegmentBytes).value();
    options.their_memory_bytes_max = kSegmentBytes;
    std::atomic<int> alive{0};
    std::optional<Message> held;
    auto dealer = DealerSocket::connect(own, io, folder.ipc("killed"), options, [&](Result<Message> message) {
                    if (std::holds_alternative<Parameters>(message.value().body)) held = message.value();
                  }).value();
    (void)dealer->send({Join{.threads = 1, .tensors = {{"w", {1}, 0}}}, {}});
    run_until(io, [&] { return dealer->shares_memory().is_ok(); });
    (void)dealer->send({Push{.last = true, .samples = 1}, in(options.memory, 7, alive)});
    run_until(io, [&] { return held.has_value(); });
    (void)!::write(to_parent[1], "h", 1);
    ::pause();
  });
  Context context;  // made after the fork: ZeroMQ's threads do not come along
  boost::asio::io_context io{1};
  PeerId peer;
  std::optional<Message> pushed;
  RouterSocket* socket = nullptr;
  auto bound =
      RouterSocket::bind(context, io, folder.ipc("killed"), {}, [&](const PeerId& from, Result<Message> m) {
        if (peer.empty()) {
          peer = from;
          (void)socket->share_memory(from, memory, kSegmentBytes);
          (void)socket->send(from, {Welcome{}, {}});
        }
        if (std::holds_alternative<Push>(m.value().body)) pushed = std::move(m).value();
      });
  REQUIRE(bound.is_ok());
  socket = bound.value().get();
  REQUIRE(run_until(io, [&] { return pushed.has_value(); }));
  CHECK(pushed->payload.borrowed);
  std::atomic<int> alive{0};
  REQUIRE(socket->send(peer, {Parameters{.last = true}, in(memory, 8, alive)}).is_ok());
  char reported = 0;
  REQUIRE(::read(to_parent[0], &reported, 1) == 1);  // it holds the parameters
  io.poll();
  CHECK(alive == 1);

  ::kill(victim, SIGKILL);
  ::waitpid(victim, nullptr, 0);
  CHECK(run_until(io, [&] { return !socket->send(peer, {Heartbeat{}, {}}).is_ok(); }));
  CHECK(alive == 1);  // it may live, for all that the connection tells, and read on
  (void)socket->disconnect(peer);
  CHECK(alive == 0);
  CHECK(all_are(pushed->payload, 7));
  ::close(to_parent[0]);
  ::close(to_parent[1]);
}

TEST_CASE("what a peer had sent is read after its death, and what it said of what it held is not missed") {
  const TemporaryFolder folder;
  const auto memory = segment();
  int to_child[2];
  REQUIRE(::pipe(to_child) == 0);
  const pid_t victim = child([&] {
    std::atomic<int> alive{0};
    TransportOptions options;
    options.memory = SharedSegment::create(kSegmentBytes).value();
    options.their_memory_bytes_max = kSegmentBytes;
    Context own;  // which goes only when all is sent
    boost::asio::io_context io{1};
    bool has_read = false;
    auto dealer = DealerSocket::connect(own, io, folder.ipc("dead"), options, [&](Result<Message> message) {
                    has_read |= std::holds_alternative<Parameters>(message.value().body);
                  }).value();
    (void)dealer->send({Join{.threads = 1, .tensors = {{"w", {1}, 0}}}, {}});
    run_until(io, [&] { return dealer->shares_memory().is_ok(); });
    (void)dealer->send({Heartbeat{}, {}});
    run_until(io, [&] { return has_read; });
    char go = 0;
    (void)!::read(to_child[0], &go, 1);
    (void)dealer->send({Push{.last = true, .samples = 1}, in(options.memory, 7, alive)});
  });
  Context context;
  boost::asio::io_context io{1};
  PeerId peer;
  int received = 0;
  std::optional<Result<Message>> last;
  RouterSocket* socket = nullptr;
  auto bound =
      RouterSocket::bind(context, io, folder.ipc("dead"), {}, [&](const PeerId& from, Result<Message> m) {
        if (received++ == 0) {
          peer = from;
          (void)socket->share_memory(from, memory, kSegmentBytes);
          (void)socket->send(from, {Welcome{}, {}});
        }
        last = std::move(m);
      });
  REQUIRE(bound.is_ok());
  socket = bound.value().get();
  REQUIRE(run_until(io, [&] { return received == 2; }));
  std::atomic<int> alive{0};
  // Held on this side, too, so that nothing is let go of before the peer is found gone.
  REQUIRE(socket->send(peer, {Parameters{.last = true}, in(memory, 8, alive)}).is_ok());
  REQUIRE(::write(to_child[1], "g", 1) == 1);
  REQUIRE(::waitpid(victim, nullptr, 0) == victim);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (socket->send(peer, {Heartbeat{}, {}}).is_ok()) {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    std::this_thread::yield();
  }
  CHECK(alive == 1);  // it may live, for all that the connection tells, and read on
  REQUIRE(run_until(io, [&] { return received == 3; }));
  INFO(last->status().message());
  REQUIRE(last->is_ok());
  CHECK(all_are(last->value().payload, 7));
  CHECK(socket->counters().malformed == 0);
  (void)socket->disconnect(peer);
  CHECK(alive == 0);
  ::close(to_child[0]);
  ::close(to_child[1]);
}

}  // namespace paceline::wire
