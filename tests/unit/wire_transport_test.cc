// A router and dealers over real sockets: order, volume, lifetimes, and the edge-triggered wake-up.
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/post.hpp>
#include <catch2/catch.hpp>
#include <thread>

#include "tests/unit/wire_loop.h"

namespace paceline::wire {
namespace {

struct Router {
  Context& context;
  boost::asio::io_context io{1};
  std::unique_ptr<RouterSocket> socket;

  Router(Context& c, const std::string& endpoint, RouterSocket::Handler handler,
         TransportOptions options = {})
      : context(c) {
    auto bound = RouterSocket::bind(context, io, endpoint, options, std::move(handler));
    INFO(bound.status().message());
    REQUIRE(bound.is_ok());
    socket = std::move(bound).value();
  }
};

std::unique_ptr<DealerSocket> connect(Context& context, boost::asio::io_context& io,
                                      const std::string& endpoint, DealerSocket::Handler handler,
                                      TransportOptions options = {}) {
  auto connected = DealerSocket::connect(context, io, endpoint, options, std::move(handler));
  REQUIRE(connected.is_ok());
  return std::move(connected).value();
}

std::uint64_t request_of(const Result<Message>& message) {
  return std::get<Pull>(message.value().body).request;
}

// Runs a loop on a thread of its own until this is gone.
class LoopThread {
 public:
  explicit LoopThread(boost::asio::io_context& io)
      : io_(io), thread_([this] {
          const auto work = boost::asio::make_work_guard(io_);
          io_.run();
        }) {}
  ~LoopThread() {
    io_.stop();
    thread_.join();
  }
  LoopThread(const LoopThread&) = delete;

 private:
  boost::asio::io_context& io_;
  std::thread thread_;
};

// While it lives, this process can open no file or socket more; what is open stays so. No CHECK meanwhile:
// the sanitizer opens a pipe to see whether the memory of an object is there.
class NoMoreDescriptors {
 public:
  NoMoreDescriptors() {
    REQUIRE(getrlimit(RLIMIT_NOFILE, &old_) == 0);
    const rlimit limit{3, old_.rlim_max};  // those that every process has
    setrlimit(RLIMIT_NOFILE, &limit);      // if it fails, so does the check that follows
  }
  ~NoMoreDescriptors() { setrlimit(RLIMIT_NOFILE, &old_); }
  NoMoreDescriptors(const NoMoreDescriptors&) = delete;

 private:
  rlimit old_{};
};

TEST_CASE("messages arrive in order and are answered, over ipc and tcp") {
  const TemporaryFolder folder;
  const std::string endpoint = GENERATE(true, false) ? folder.ipc("order") : "tcp://127.0.0.1:0";
  Context context;
  std::atomic<int> unanswered{0};  // Catch2's checks belong to the main thread
  RouterSocket* answer_on = nullptr;
  Router router(context, endpoint, [&](const PeerId& from, Result<Message> message) {
    if (!answer_on->send(from, message.value()).is_ok()) ++unanswered;
  });
  answer_on = router.socket.get();
  constexpr std::uint64_t kMessages = 30'000;
  std::uint64_t answered = 0;
  bool in_order = true;
  boost::asio::io_context io{1};
  const auto dealer = connect(context, io, router.socket->endpoint(), [&](Result<Message> message) {
    in_order = in_order && request_of(message) == answered;
    ++answered;
  });
  {
    const LoopThread thread(router.io);
    std::uint64_t sent = 0;
    REQUIRE(run_until(io, [&] {
      // At most 10,000 on their way, so that no queue fills.
      while (sent < kMessages && sent < answered + 10'000)
        REQUIRE(dealer->send({Pull{.request = sent++}, {}}).is_ok());
      return answered == kMessages;
    }));
  }
  CHECK(in_order);
  CHECK(unanswered == 0);
  CHECK(dealer->counters().messages_sent == kMessages);
  CHECK(dealer->counters().messages_received == kMessages);
  CHECK(router.socket->counters().other_bytes == dealer->counters().other_bytes);
  CHECK(router.socket->counters().malformed == 0);
}

TEST_CASE("no wake-up is missed in a long exchange of single messages within one loop") {
  const TemporaryFolder folder;
  Context context;
  RouterSocket* answer_on = nullptr;
  Router router(context, folder.ipc("pingpong"), [&](const PeerId& from, Result<Message> message) {
    REQUIRE(answer_on->send(from, message.value()).is_ok());
  });
  answer_on = router.socket.get();
  constexpr std::uint64_t kRounds = 5'000;
  DealerSocket* next_on = nullptr;
  std::uint64_t rounds = 0;
  const auto dealer = connect(context, router.io, router.socket->endpoint(), [&](Result<Message> message) {
    rounds = request_of(message);
    if (rounds < kRounds) REQUIRE(next_on->send({Pull{.request = rounds + 1}, {}}).is_ok());
  });
  next_on = dealer.get();
  REQUIRE(dealer->send({Pull{.request = 1}, {}}).is_ok());
  CHECK(run_until(router.io, [&] { return rounds == kRounds; }));
}

TEST_CASE("64 MiB travel in frames of 1 MiB, whole, and every payload is let go of") {
  const TemporaryFolder folder;
  const std::string endpoint = GENERATE(true, false) ? folder.ipc("bulk") : "tcp://127.0.0.1:0";
  constexpr std::int64_t kFrames = 64;
  constexpr std::int64_t kFloats = kPayloadBytesMax / sizeof(float);
  Context context;
  std::atomic<std::int64_t> received{0};
  std::atomic<bool> as_sent{true};
  Router router(context, endpoint, [&](const PeerId&, Result<Message> message) {
    const auto& push = std::get<Push>(message.value().body);
    const auto floats = message.value().payload.floats();
    const bool fine = push.offset == (kFrames - 1 - received) * kFloats &&
                      static_cast<std::int64_t>(floats.size()) == kFloats &&
                      floats.front() == static_cast<float>(received) &&
                      floats.back() == static_cast<float>(received + kFloats - 1);
    if (!fine) as_sent = false;
    ++received;
  });
  Payloads payloads;
  boost::asio::io_context io{1};
  const auto dealer = connect(context, io, router.socket->endpoint(), [](Result<Message>) {});
  const LoopThread thread(router.io);
  for (std::int64_t i = 0; i < kFrames; ++i) {
    const bool last = i + 1 == kFrames;
    const Push push{.offset = (kFrames - 1 - i) * kFloats, .last = last, .samples = last ? 1 : 0};
    REQUIRE(dealer->send({push, payloads.make(static_cast<float>(i), kFloats)}).is_ok());
  }
  REQUIRE(run_until(io, [&] { return received == kFrames; }));
  CHECK(as_sent);
  for (std::int64_t i = 0; i < kFrames; ++i) REQUIRE(payloads.released());
  CHECK(dealer->counters().push_bytes > kFrames * std::int64_t{kPayloadBytesMax});
}

TEST_CASE("a received payload outlives its message, its socket and its context") {
  const TemporaryFolder folder;
  Payload kept;
  Payloads payloads;
  {
    Context context;
    Router router(context, folder.ipc("kept"),
                  [&](const PeerId&, Result<Message> message) { kept = std::move(message.value().payload); });
    const auto dealer = connect(context, router.io, router.socket->endpoint(), [](Result<Message>) {});
    const std::size_t floats = GENERATE(std::size_t{1}, std::size_t{1000}, std::size_t{200'000});
    REQUIRE(dealer->send({Push{.last = true, .samples = 1}, payloads.make(7, floats)}).is_ok());
    REQUIRE(run_until(router.io, [&] { return !kept.empty(); }));
  }
  CHECK(kept.floats().front() == 7.0F);
  CHECK(kept.floats().back() == 7.0F + static_cast<float>(kept.floats().size() - 1));
  CHECK(payloads.released());
}

TEST_CASE("what is sent before the peer is there arrives when it comes") {
  const TemporaryFolder folder;
  Context context;
  boost::asio::io_context io{1};
  const auto dealer = connect(context, io, folder.ipc("late"), [](Result<Message>) {});
  REQUIRE(dealer->send({Heartbeat{}, {}}).is_ok());
  int received = 0;
  Router router(context, folder.ipc("late"), [&](const PeerId&, Result<Message>) { ++received; });
  CHECK(run_until(router.io, [&] { return received == 1; }));
}

TEST_CASE("messages queued at close still leave") {
  const TemporaryFolder folder;
  Context context;
  int received = 0;
  Router router(context, folder.ipc("linger"), [&](const PeerId&, Result<Message>) { ++received; });
  auto dealer = connect(context, router.io, router.socket->endpoint(), [](Result<Message>) {});
  for (int i = 0; i < 100; ++i) REQUIRE(dealer->send({Heartbeat{}, {}}).is_ok());
  dealer.reset();
  CHECK(run_until(router.io, [&] { return received == 100; }));
}

TEST_CASE("a flood of messages leaves room for the rest of the loop") {
  const TemporaryFolder folder;
  Context context;
  int received = 0;
  int received_when_posted_ran = -1;
  boost::asio::io_context* loop = nullptr;
  Router router(context, folder.ipc("flood"), [&](const PeerId&, Result<Message>) {
    if (++received == 1) boost::asio::post(*loop, [&] { received_when_posted_ran = received; });
  });
  loop = &router.io;
  boost::asio::io_context io{1};
  const auto dealer = connect(context, io, router.socket->endpoint(), [](Result<Message>) {});
  for (int i = 0; i < 10'000; ++i) REQUIRE(dealer->send({Heartbeat{}, {}}).is_ok());
  REQUIRE(run_until(router.io, [&] { return received == 10'000; }));
  CHECK(received_when_posted_ran <= 64);  // one batch
}

// More than the peer's queue and the system's buffers hold, so that most of it is still here.
TEST_CASE(
    "a connection that is broken on purpose lets go of what was queued for its peer, and of no other's") {
  const TemporaryFolder folder;
  const std::string endpoint = GENERATE(true, false) ? folder.ipc("broken") : "tcp://127.0.0.1:0";
  Context context;
  std::vector<PeerId> peers;
  RouterSocket* remember_on = nullptr;
  Router router(context, endpoint, [&](const PeerId& from, Result<Message>) {
    if (std::find(peers.begin(), peers.end(), from) != peers.end()) return;
    peers.push_back(from);
    remember_on->remember(from);
  });
  remember_on = router.socket.get();
  boost::asio::io_context never_run{1};
  boost::asio::io_context io{1};
  const auto silent = connect(context, never_run, router.socket->endpoint(), [](Result<Message>) {});
  REQUIRE(silent->send({Heartbeat{}, {}}).is_ok());
  REQUIRE(run_until(router.io, [&] { return peers.size() == 1; }));
  int arrived = 0;
  const auto reader = connect(context, io, router.socket->endpoint(), [&](Result<Message>) { ++arrived; });
  REQUIRE(reader->send({Heartbeat{}, {}}).is_ok());
  REQUIRE(run_until(router.io, [&] { return peers.size() == 2; }));

  constexpr int kMessages = 1500;
  std::atomic<int> alive{0};
  const std::vector<float> values(8 * 1024);
  for (int i = 0; i < kMessages; ++i) {
    ++alive;
    const std::shared_ptr<const void> owner(values.data(), [&alive](const void*) { --alive; });
    const Payload payload{owner, reinterpret_cast<const std::byte*>(values.data()),
                          values.size() * sizeof(float)};
    REQUIRE(router.socket->send(peers[0], {Parameters{}, payload}).is_ok());
  }
  CHECK(alive > 0);
  Status without_descriptors = Status::ok();
  {
    const NoMoreDescriptors none;
    without_descriptors = router.socket->disconnect(peers[0]);
  }
  CHECK(without_descriptors.code() == StatusCode::kResourceExhausted);
  REQUIRE(router.socket->disconnect(peers[0]).is_ok());
  CHECK(run_until(router.io, [&] { return alive == 0; }));
  CHECK(router.socket->disconnect(peers[0]).code() == StatusCode::kNotFound);
  REQUIRE(router.socket->send(peers[1], {Heartbeat{}, {}}).is_ok());
  CHECK(run_until(io, [&] { return arrived == 1; }));
}

TEST_CASE("each peer gets its own answers") {
  const TemporaryFolder folder;
  Context context;
  RouterSocket* answer_on = nullptr;
  Router router(context, folder.ipc("peers"), [&](const PeerId& from, Result<Message> message) {
    REQUIRE(answer_on->send(from, message.value()).is_ok());
  });
  answer_on = router.socket.get();
  std::vector<std::uint64_t> got(8, 0);
  std::vector<std::unique_ptr<DealerSocket>> dealers;
  for (std::uint64_t i = 0; i < got.size(); ++i) {
    dealers.push_back(connect(context, router.io, router.socket->endpoint(),
                              [&got, i](Result<Message> message) { got[i] = request_of(message); }));
    REQUIRE(dealers.back()->send({Pull{.request = 100 + i}, {}}).is_ok());
  }
  CHECK(run_until(router.io, [&] { return std::ranges::count(got, 0U) == 0; }));
  for (std::uint64_t i = 0; i < got.size(); ++i) CHECK(got[i] == 100 + i);
}

}  // namespace
}  // namespace paceline::wire
