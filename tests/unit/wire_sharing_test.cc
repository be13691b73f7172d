// Payloads that lie in memory which both sides see: they arrive equal and are let go of, whichever side dies;
// what lies outside of a segment is refused; and where memory cannot be shared, payloads are sent as ever.
// The segments themselves: wire_segment_test.cc.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/post.hpp>
#include <catch2/catch.hpp>
#include <cstring>
#include <optional>
#include <thread>

#include "common/wire/codec.h"
#include "common/wire/shared_memory.h"
#include "tests/unit/segments.h"
#include "tests/unit/wire_loop.h"

namespace paceline::wire {
namespace {

constexpr std::size_t kFloats = 64 * 1024;

// `floats` of the value `value` in the segment; `alive` counts those not let go of.
Payload in(const std::shared_ptr<SharedSegment>& memory, float value, std::atomic<int>& alive,
           std::size_t floats = kFloats) {
  const std::size_t bytes = floats * sizeof(float);
  auto* values = static_cast<float*>(memory->allocate(bytes, alignof(float)));
  std::fill_n(values, floats, value);
  ++alive;
  const std::shared_ptr<const void> owner(values, [memory, bytes, &alive](float* v) {
    memory->deallocate(v, bytes, alignof(float));
    --alive;
  });
  return {owner, reinterpret_cast<const std::byte*>(values), bytes};
}

bool all_are(const Payload& payload, float value) {
  const auto floats = payload.floats();
  return floats.size() == kFloats && std::count(floats.begin(), floats.end(), value) == kFloats;
}

// A router and a dealer on one loop. The dealer has said its first message, and the router has answered.
struct Pair {
  TemporaryFolder folder;
  Context context;
  boost::asio::io_context io{1};
  std::shared_ptr<SharedSegment> of_router = segment();
  std::shared_ptr<SharedSegment> of_dealer = segment();
  bool router_shares = true;
  std::int64_t router_maps_max = kSegmentBytes;
  PeerId peer;
  Status shared = internal_error("the router was not asked");
  std::vector<Result<Message>> at_router;
  std::vector<Result<Message>> at_dealer;
  std::unique_ptr<RouterSocket> router;
  std::unique_ptr<DealerSocket> dealer;

  explicit Pair(const std::string& transport = "ipc", bool shares = true,
                std::int64_t dealer_maps_max = kSegmentBytes, std::int64_t router_max = kSegmentBytes)
      : router_shares(shares), router_maps_max(router_max) {
    const std::string endpoint = transport == "ipc" ? folder.ipc("pair") : "tcp://127.0.0.1:0";
    auto bound =
        RouterSocket::bind(context, io, endpoint, {}, [this](const PeerId& from, Result<Message> message) {
          if (peer.empty()) {
            peer = from;
            router->remember(from);
            if (router_shares) shared = router->share_memory(from, of_router, router_maps_max);
            (void)router->send(from, {Welcome{}, {}});
          }
          at_router.push_back(std::move(message));
        });
    REQUIRE(bound.is_ok());
    router = std::move(bound).value();
    TransportOptions options;
    options.memory = of_dealer;
    options.their_memory_bytes_max = dealer_maps_max;
    auto connected = DealerSocket::connect(context, io, router->endpoint(), options,
                                           [this](Result<Message> m) { at_dealer.push_back(std::move(m)); });
    REQUIRE(connected.is_ok());
    dealer = std::move(connected).value();
    REQUIRE(dealer->send({Join{.threads = 1, .tensors = {{"w", {1}, 0}}}, {}}).is_ok());
    REQUIRE(run_until(io, [&] { return at_dealer.size() == 1; }));
    // What follows the Welcome says that the dealer reads the router's memory.
    REQUIRE(dealer->send({Heartbeat{}, {}}).is_ok());
    REQUIRE(run_until(io, [&] { return at_router.size() == 2; }));
    at_router.clear();
    at_dealer.clear();
  }
  Status push(Payload payload) {
    return dealer->send({Push{.last = true, .samples = 1}, std::move(payload)});
  }
  // The `n`-th message at the router.
  const Result<Message>& routed(std::size_t n = 0) {
    REQUIRE(run_until(io, [&] { return at_router.size() > n; }));
    return at_router[n];
  }
};

// A peer that speaks ZeroMQ and says what our transport would not.
class ZmqDealer {
 public:
  explicit ZmqDealer(const std::string& endpoint)
      : context_(zmq_ctx_new()), socket_(zmq_socket(context_, ZMQ_DEALER)) {
    const int linger = 0;
    zmq_setsockopt(socket_, ZMQ_LINGER, &linger, sizeof(linger));
    REQUIRE(zmq_connect(socket_, endpoint.c_str()) == 0);
  }
  ~ZmqDealer() {
    zmq_close(socket_);
    zmq_ctx_term(context_);
  }
  ZmqDealer(const ZmqDealer&) = delete;
  void send(const std::string& header, const std::string& payload = "") {
    REQUIRE(zmq_send(socket_, header.data(), header.size(), payload.empty() ? 0 : ZMQ_SNDMORE) >= 0);
    if (!payload.empty()) REQUIRE(zmq_send(socket_, payload.data(), payload.size(), 0) >= 0);
  }

 private:
  void* context_;
  void* socket_;
};

}  // namespace

TEST_CASE("a payload in shared memory arrives equal, unsent, and is let go of, both ways") {
  Pair pair(GENERATE("ipc", "tcp"));
  CHECK(pair.shared.message() == "");
  CHECK(pair.dealer->shares_memory().message() == "");
  CHECK(pair.router->shares_memory(pair.peer).message() == "");
  std::atomic<int> alive{0};
  REQUIRE(pair.push(in(pair.of_dealer, 7, alive)).is_ok());
  CHECK(pair.routed().value().payload.borrowed);
  CHECK(all_are(pair.routed().value().payload, 7));
  CHECK(alive == 1);
  CHECK(pair.dealer->counters().push_bytes < 200);
  CHECK(pair.router->counters().push_bytes == pair.dealer->counters().push_bytes);
  CHECK(pair.dealer->counters().shared_bytes == kFloats * sizeof(float));

  pair.at_router.clear();
  CHECK(run_until(pair.io, [&] { return alive == 0; }));

  REQUIRE(pair.router->send(pair.peer, {Parameters{.last = true}, in(pair.of_router, 8, alive)}).is_ok());
  REQUIRE(run_until(pair.io, [&] { return pair.at_dealer.size() == 1; }));
  CHECK(all_are(pair.at_dealer[0].value().payload, 8));
  CHECK(pair.router->counters().parameter_bytes < 200);
  pair.at_dealer.clear();
  CHECK(run_until(pair.io, [&] { return alive == 0; }));
}

TEST_CASE("what is let go of on other threads, one by one, is said") {
  Pair pair;
  std::atomic<int> alive{0};
  constexpr int kPayloads = 50;
  for (int i = 0; i < kPayloads; ++i) REQUIRE(pair.push(in(pair.of_dealer, 1, alive, 1000)).is_ok());
  pair.routed(kPayloads - 1);
  CHECK(alive == kPayloads);
  std::vector<Payload> held;
  for (auto& message : pair.at_router) held.push_back(std::move(message.value().payload));
  std::thread dropping([&held] {
    while (!held.empty()) held.pop_back();
  });
  CHECK(run_until(pair.io, [&] { return alive == 0; }));
  dropping.join();
}

TEST_CASE("one that stays held does not keep the others") {
  Pair pair;
  std::atomic<int> alive{0};
  for (float value : {1.0F, 2.0F, 3.0F}) REQUIRE(pair.push(in(pair.of_dealer, value, alive)).is_ok());
  pair.routed(2);
  pair.at_router.pop_back();
  pair.at_router.pop_back();
  CHECK(run_until(pair.io, [&] { return alive == 1; }));
  CHECK(all_are(pair.routed().value().payload, 1));
}

TEST_CASE("memory outside the segment, what is small, and what is encoded is sent as ever") {
  Pair pair;
  Payloads payloads;
  std::atomic<int> alive{0};
  REQUIRE(pair.push(payloads.make(3, kFloats)).is_ok());
  CHECK_FALSE(pair.routed(0).value().payload.borrowed);
  REQUIRE(pair.push(in(pair.of_dealer, 4, alive, 10)).is_ok());
  CHECK_FALSE(pair.routed(1).value().payload.borrowed);
  CHECK(pair.routed(1).value().payload.floats()[9] == 4);
  Payload encoded = in(pair.of_dealer, 5, alive);
  encoded.encoding = Encoding::kBf16;
  encoded.encoded_floats = 2 * kFloats;
  REQUIRE(pair.push(encoded).is_ok());
  CHECK_FALSE(pair.routed(2).value().payload.borrowed);
  CHECK(pair.dealer->counters().shared_bytes == 0);
}

TEST_CASE("where one side does not share, payloads are sent") {
  Pair pair("ipc", /*shares=*/false);
  CHECK(pair.dealer->shares_memory().message() == "the peer announces no memory");
  std::atomic<int> alive{0};
  REQUIRE(pair.push(in(pair.of_dealer, 5, alive)).is_ok());
  CHECK_FALSE(pair.routed().value().payload.borrowed);
  CHECK(all_are(pair.routed().value().payload, 5));
  CHECK(run_until(pair.io, [&] { return alive == 0; }));
}

TEST_CASE("where one side cannot read the other's memory, payloads are sent both ways") {
  const bool dealer_cannot = GENERATE(true, false);
  Pair pair("ipc", true, dealer_cannot ? 64 : kSegmentBytes, dealer_cannot ? kSegmentBytes : 64);
  const Status cannot = dealer_cannot ? pair.dealer->shares_memory() : pair.shared;
  CHECK_THAT(cannot.message(), Catch::Contains("it has 4194368 bytes, expected at most 128"));
  CHECK(pair.router->shares_memory(pair.peer).message() ==
        (dealer_cannot ? "the peer cannot read the memory of this process" : "no memory is shared with it"));
  // A router that cannot read the dealer's memory does not even say where its own is.
  if (!dealer_cannot) CHECK(pair.dealer->shares_memory().message() == "the peer announces no memory");
  std::atomic<int> alive{0};
  REQUIRE(pair.push(in(pair.of_dealer, 5, alive)).is_ok());
  CHECK_FALSE(pair.routed().value().payload.borrowed);
  CHECK(all_are(pair.routed().value().payload, 5));
  REQUIRE(pair.router->send(pair.peer, {Parameters{.last = true}, in(pair.of_router, 8, alive)}).is_ok());
  REQUIRE(run_until(pair.io, [&] { return pair.at_dealer.size() == 1; }));
  CHECK_FALSE(pair.at_dealer[0].value().payload.borrowed);
  CHECK(all_are(pair.at_dealer[0].value().payload, 8));
  CHECK(run_until(pair.io, [&] { return alive == 0; }));
}

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

TEST_CASE("what a peer held that was killed comes back, and what it had sent stays readable") {
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
  char said = 0;
  REQUIRE(::read(to_parent[0], &said, 1) == 1);  // it holds the parameters
  io.poll();
  CHECK(alive == 1);

  ::kill(victim, SIGKILL);
  ::waitpid(victim, nullptr, 0);
  CHECK(run_until(io, [&] {
    (void)socket->send(peer, {Heartbeat{}, {}});
    return alive == 0;
  }));
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
  int heard = 0;
  std::optional<Result<Message>> last;
  RouterSocket* socket = nullptr;
  auto bound =
      RouterSocket::bind(context, io, folder.ipc("dead"), {}, [&](const PeerId& from, Result<Message> m) {
        if (heard++ == 0) {
          peer = from;
          (void)socket->share_memory(from, memory, kSegmentBytes);
          (void)socket->send(from, {Welcome{}, {}});
        }
        last = std::move(m);
      });
  REQUIRE(bound.is_ok());
  socket = bound.value().get();
  REQUIRE(run_until(io, [&] { return heard == 2; }));
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
  CHECK(alive == 0);
  REQUIRE(run_until(io, [&] { return heard == 3; }));
  INFO(last->status().message());
  REQUIRE(last->is_ok());
  CHECK(all_are(last->value().payload, 7));
  CHECK(socket->counters().malformed == 0);
  ::close(to_child[0]);
  ::close(to_child[1]);
}

TEST_CASE("the memory of a peer that is of no interest any more is kept for what is still to be read there") {
  Pair pair;
  std::atomic<int> alive{0};
  const auto mapped = segments_mapped();  // each side its own and the other's
  REQUIRE(pair.push(in(pair.of_dealer, 1, alive)).is_ok());
  CHECK(all_are(pair.routed(0).value().payload, 1));
  REQUIRE(pair.router->send(pair.peer, {Parameters{.last = true}, in(pair.of_router, 8, alive)}).is_ok());
  REQUIRE(run_until(pair.io, [&] { return pair.at_dealer.size() == 1; }));

  pair.router->unmap(pair.peer);
  CHECK(segments_mapped() == mapped);
  CHECK(all_are(pair.routed(0).value().payload, 1));
  pair.at_router.clear();
  CHECK(segments_mapped() == mapped - 1);

  REQUIRE(pair.push(in(pair.of_dealer, 2, alive)).is_ok());
  REQUIRE(pair.dealer->send({Heartbeat{}, {}}).is_ok());
  CHECK(std::holds_alternative<Heartbeat>(pair.routed(0)->body));
  CHECK(pair.router->counters().malformed == 0);
  pair.at_dealer.clear();  // what was lent to it is let go of as before
  CHECK(run_until(pair.io, [&] { return alive == 2; }));
}

TEST_CASE("what a peer may not say about shared memory is refused and counted, and the socket lives on") {
  const TemporaryFolder folder;
  Context context;
  boost::asio::io_context io{1};
  const auto ours = segment();
  const auto theirs = segment();
  const auto all = static_cast<std::size_t>(kSegmentBytes);
  theirs->deallocate(theirs->allocate(all), all);  // has all its pages
  RouterSocket* socket = nullptr;
  int accepted = 0;
  std::string refused;
  auto bound =
      RouterSocket::bind(context, io, folder.ipc("liar"), {}, [&](const PeerId& from, Result<Message> m) {
        if (!m.is_ok()) refused = m.status().message();
        if (m.is_ok()) ++accepted;
        if (m.is_ok() && std::holds_alternative<Join>(m->body))
          (void)socket->share_memory(from, ours, kSegmentBytes);
      });
  REQUIRE(bound.is_ok());
  socket = bound.value().get();
  ZmqDealer liar(folder.ipc("liar"));
  Payloads payloads;
  const Message push{Push{.last = true, .samples = 1}, payloads.make(0, 1024)};
  const auto says = [&](const Beside& beside, const std::string& payload = "") {
    refused.clear();
    const int before = accepted;
    liar.send(encode(push, beside).value(), payload);
    REQUIRE(run_until(io, [&] { return accepted > before || !refused.empty(); }));
    return refused;
  };
  CHECK(says({.region = Region{1, 0, 4096}}) == "header.region: got one, expected none unless shared");
  const Message join{Join{.threads = 1, .tensors = {{"w", {1}, 0}}}, {}};
  liar.send(encode(join, {.segment = theirs->ref()}).value());
  REQUIRE(run_until(io, [&] { return accepted == 1; }));
  const std::int64_t size = theirs->ref().bytes;
  CHECK(says({.region = Region{1, size - 4096, 4096}}).empty());
  CHECK_THAT(says({.region = Region{1, size - 4092, 4096}}), Catch::Contains("expected them within the"));
  CHECK_THAT(says({.region = Region{1, std::int64_t{1} << 59, 4096}}),
             Catch::Contains("expected them within"));
  CHECK(says({.region = Region{1, -64, 4096}}) ==
        "header.region.offset: got -64, expected 0 to 1152921504606846976");
  CHECK(says({.region = Region{1, 66, 4096}}) == "header.region.offset: got 66, expected a multiple of 4");
  CHECK(says({.region = Region{1, 64, kPayloadBytesMax + 4}}) ==
        "header.region.bytes: got 1048580, expected 1 to 1048576");
  CHECK(says({.region = Region{1, 64, 4094}}) == "Push.payload: got 4094 bytes, expected a multiple of 4");
  CHECK(says({.region = Region{1, 64, 4096}}, std::string(4096, 'x')) ==
        "header.region: got a payload frame too, expected one of the two");
  CHECK(says({.let_go = {9}}, std::string(4096, '\0')) ==
        "header.let_go: got 9, expected a number that is lent");
  CHECK_THAT(says({.let_go = std::vector<std::uint64_t>(kLetGoMax + 1, 9)}, std::string(4096, '\0')),
             Catch::Contains("header.let_go"));
  Message encoded{Push{.last = true, .samples = 1}, payloads.make(0, 256)};
  encoded.payload.encoding = Encoding::kTopK;
  encoded.payload.encoded_floats = 1024;
  refused.clear();
  liar.send(encode(encoded, {.region = Region{1, 64, 1024}}).value());
  REQUIRE(run_until(io, [&] { return !refused.empty(); }));
  CHECK(refused == "header.region: got one of an encoded payload, expected float32");
  for (const Beside& bodiless : {Beside{.reads_segment = true}, Beside{.region = Region{1, 64, 4096}}}) {
    refused.clear();
    liar.send(encode(bodiless), bodiless.region ? "" : "payload");
    REQUIRE(run_until(io, [&] { return !refused.empty(); }));
    CHECK(refused == "header: got a payload without a body, expected neither or both");
  }
  CHECK(socket->counters().malformed == 13);
  CHECK(says({}, std::string(4096, '\0')).empty());
}

// Reading its gaps would make the pages that it does not have, at the reader's cost.
TEST_CASE("a segment whose size is a lie takes no memory, whatever its regions are said to be") {
  const TemporaryFolder folder;
  Context context;
  boost::asio::io_context io{1};
  const auto ours = segment();
  const auto theirs = segment();
  void* const written = theirs->allocate(100'000);
  const auto descriptor = static_cast<int>(theirs->ref().descriptor);
  const std::int64_t in_use = bytes_in_use(descriptor);
  REQUIRE(in_use < 110'000);
  std::vector<Result<Message>> heard;
  RouterSocket* socket = nullptr;
  auto bound =
      RouterSocket::bind(context, io, folder.ipc("sparse"), {}, [&](const PeerId& from, Result<Message> m) {
        if (heard.empty()) CHECK(socket->share_memory(from, ours, kSegmentBytes).is_ok());
        heard.push_back(std::move(m));
      });
  REQUIRE(bound.is_ok());
  socket = bound.value().get();
  ZmqDealer liar(folder.ipc("sparse"));
  const Message join{Join{.threads = 1, .tensors = {{"w", {1}, 0}}}, {}};
  liar.send(encode(join, {.segment = theirs->ref()}).value());
  REQUIRE(run_until(io, [&] { return heard.size() == 1; }));
  Payloads payloads;
  const Message push{Push{.last = true, .samples = 1}, payloads.make(0, 16 * 1024)};
  for (std::int64_t at = 131'072; at + 65'536 <= kSegmentBytes; at += 65'536) {
    heard.resize(1, invalid_argument(""));
    liar.send(encode(push, {.region = Region{1, at, 65'536}}).value());
    REQUIRE(run_until(io, [&] { return heard.size() == 2; }));
    REQUIRE_THAT(heard[1].status().message(), Catch::Contains("expected them where the sender has written"));
  }
  CHECK(bytes_in_use(descriptor) == in_use);
  heard.resize(1, invalid_argument(""));
  liar.send(encode(push, {.region = Region{1, 64, 65'536}}).value());
  REQUIRE(run_until(io, [&] { return heard.size() == 2; }));
  CHECK(heard[1].is_ok());
  theirs->deallocate(written, 100'000);
}

TEST_CASE("one that announces our own memory learns nothing and shares nothing") {
  const TemporaryFolder folder;
  Context context;
  boost::asio::io_context io{1};
  const auto ours = segment();
  std::optional<Status> shared;
  RouterSocket* socket = nullptr;
  auto bound =
      RouterSocket::bind(context, io, folder.ipc("echo"), {}, [&](const PeerId& from, Result<Message> m) {
        REQUIRE(m.is_ok());
        shared = socket->share_memory(from, ours, kSegmentBytes);
      });
  REQUIRE(bound.is_ok());
  socket = bound.value().get();
  ZmqDealer echo(folder.ipc("echo"));
  const Message join{Join{.threads = 1, .tensors = {{"w", {1}, 0}}}, {}};
  echo.send(encode(join, {.segment = ours->ref()}).value());
  REQUIRE(run_until(io, [&] { return shared.has_value(); }));
  CHECK(shared->message() == "the peer announces our own memory");
}

}  // namespace paceline::wire
