// How many messages wait for a peer that does not read: counted without asking ZeroMQ, which does not say.
#include <catch2/catch.hpp>

#include "common/wire/unread.h"
#include "tests/unit/wire_loop.h"

namespace paceline::wire {
namespace {

// Sends one, and returns its mark.
std::optional<Mark> send_one(Unread::Queue& queue) {
  const std::optional<Mark> mark = queue.mark();
  queue.sent(mark);
  return mark;
}

TEST_CASE("one message in 32 is marked, and the next when that has left") {
  Unread unread;
  Unread::Queue& queue = unread.of("peer");
  for (int i = 1; i < 32; ++i) CHECK_FALSE(send_one(queue));
  const std::optional<Mark> mark = send_one(queue);
  REQUIRE(mark);
  CHECK(mark->number == 32);
  for (int i = 33; i <= 100; ++i) CHECK_FALSE(send_one(queue));
  CHECK(unread.waiting("peer") == 100);
  mark->left->store(mark->number);
  CHECK(unread.waiting("peer") == 0);
  const std::optional<Mark> next = send_one(queue);
  REQUIRE(next);
  CHECK(next->number == 101);
  CHECK(unread.waiting("peer") == 69);
}

TEST_CASE("peers that come and go leave nothing behind, and one that does not read is not forgotten") {
  Unread unread;
  for (int i = 0; i < 50; ++i) send_one(unread.of("deaf"));
  for (int i = 0; i < 10'000; ++i) send_one(unread.of("stranger " + std::to_string(i)));
  CHECK(unread.peers() < 1000);
  CHECK(unread.waiting("deaf") == 50);
  unread.forget("deaf");
  CHECK(unread.waiting("deaf") == 0);
}

// A router that knows its one peer, and that peer, which reads when its loop is run.
struct Pair {
  TemporaryFolder folder;
  Context context;
  boost::asio::io_context io{1};
  boost::asio::io_context peers_io{1};
  std::unique_ptr<RouterSocket> router;
  std::unique_ptr<DealerSocket> peer;
  PeerId id;
  int received = 0;

  Pair() {
    auto bound = RouterSocket::bind(context, io, folder.ipc("unread"), {},
                                    [this](const PeerId& from, Result<Message>) {
                                      if (id.empty()) router->remember(from);
                                      id = from;
                                    });
    REQUIRE(bound.is_ok());
    router = std::move(bound).value();
    auto connected = DealerSocket::connect(context, peers_io, router->endpoint(), {},
                                           [this](Result<Message>) { ++received; });
    REQUIRE(connected.is_ok());
    peer = std::move(connected).value();
    REQUIRE(peer->send({Heartbeat{}, {}}).is_ok());
    REQUIRE(run_until(io, [this] { return !id.empty(); }));
  }
};

// 20 MB: far more than the system's buffers and the peer's queue (256 messages) hold, whatever their size.
constexpr int kMessages = 20'000;
constexpr std::size_t kFloats = 250;  // a kilobyte: still a small message

void send_many(Pair& pair, Payloads& payloads) {
  for (int i = 0; i < kMessages; ++i) {
    REQUIRE(pair.router->send(pair.id, {Parameters{}, payloads.make(1, kFloats)}).is_ok());
  }
}

TEST_CASE("what a peer does not read is counted, and is nothing any more when it has read") {
  static_assert(kFloats * sizeof(float) <= kCopiedBytesMax);
  Payloads payloads;
  Pair pair;
  send_many(pair, payloads);
  CHECK(pair.router->waiting(pair.id) > kMessages / 4);
  CHECK(pair.router->waiting("nobody") == 0);
  REQUIRE(run_until(pair.peers_io, [&] { return pair.received == kMessages; }));
  CHECK(run_until(pair.io, [&] { return pair.router->waiting(pair.id) == 0; }));
}

TEST_CASE("a peer whose connection is broken has nothing waiting") {
  Payloads payloads;
  Pair pair;
  send_many(pair, payloads);
  CHECK(pair.router->waiting(pair.id) > 0);
  REQUIRE(pair.router->disconnect(pair.id).is_ok());
  CHECK(run_until(pair.io, [&] {
    return pair.router->send(pair.id, {Heartbeat{}, {}}).code() == StatusCode::kUnavailable &&
           pair.router->waiting(pair.id) == 0;
  }));
}

}  // namespace
}  // namespace paceline::wire
