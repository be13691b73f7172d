// What a peer may say about shared memory, and what it may not: what lies outside of a segment, or where that
// has no pages, is refused, and nothing is learnt or gained by it.
#include <zmq.h>

#include <optional>

#include "tests/unit/sharing_pair.h"

namespace paceline::wire {
namespace {

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
    liar.send(encode(push).value() + encode(beside), payload);
    REQUIRE(run_until(io, [&] { return accepted > before || !refused.empty(); }));
    return refused;
  };
  CHECK(says({.region = Region{1, 0, 4096}}) == "header.region: got one, expected none unless shared");
  const Message join{Join{.threads = 1, .tensors = {{"w", {1}, 0}}}, {}};
  liar.send(encode(join).value() + encode(Beside{.segment = theirs->ref()}));
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
  liar.send(encode(encoded).value() + encode(Beside{.region = Region{1, 64, 1024}}));
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
  std::vector<Result<Message>> received;
  RouterSocket* socket = nullptr;
  auto bound =
      RouterSocket::bind(context, io, folder.ipc("sparse"), {}, [&](const PeerId& from, Result<Message> m) {
        if (received.empty()) CHECK(socket->share_memory(from, ours, kSegmentBytes).is_ok());
        received.push_back(std::move(m));
      });
  REQUIRE(bound.is_ok());
  socket = bound.value().get();
  ZmqDealer liar(folder.ipc("sparse"));
  const Message join{Join{.threads = 1, .tensors = {{"w", {1}, 0}}}, {}};
  liar.send(encode(join).value() + encode(Beside{.segment = theirs->ref()}));
  REQUIRE(run_until(io, [&] { return received.size() == 1; }));
  Payloads payloads;
  const Message push{Push{.last = true, .samples = 1}, payloads.make(0, 16 * 1024)};
  for (std::int64_t at = 131'072; at + 65'536 <= kSegmentBytes; at += 65'536) {
    received.resize(1, invalid_argument(""));
    liar.send(encode(push).value() + encode(Beside{.region = Region{1, at, 65'536}}));
    REQUIRE(run_until(io, [&] { return received.size() == 2; }));
    REQUIRE_THAT(received[1].status().message(),
                 Catch::Contains("expected them where the sender has written"));
  }
  CHECK(bytes_in_use(descriptor) == in_use);
  received.resize(1, invalid_argument(""));
  liar.send(encode(push).value() + encode(Beside{.region = Region{1, 64, 65'536}}));
  REQUIRE(run_until(io, [&] { return received.size() == 2; }));
  CHECK(received[1].is_ok());
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
  echo.send(encode(join).value() + encode(Beside{.segment = ours->ref()}));
  REQUIRE(run_until(io, [&] { return shared.has_value(); }));
  CHECK(shared->message() == "the peer announces our own memory");
}

}  // namespace paceline::wire
