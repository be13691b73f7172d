// What can go wrong with sockets: peers that go, addresses that cannot be had, full queues, and peers that
// send what is no message. The socket lives on.
#include <zmq.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <optional>

#include "common/wire/endpoint.h"
#include "common/wire/reach.h"
#include "tests/unit/wire_loop.h"

namespace paceline::wire {
namespace {

// A router that remembers what it got.
struct Listener {
  boost::asio::io_context io{1};
  std::vector<Status> refused;
  int accepted = 0;
  PeerId last_peer;
  std::unique_ptr<RouterSocket> socket;

  Listener(Context& context, const std::string& endpoint, TransportOptions options = {}) {
    auto bound =
        RouterSocket::bind(context, io, endpoint, options, [this](const PeerId& from, Result<Message> m) {
          last_peer = from;
          if (m.is_ok()) {
            ++accepted;
          } else {
            refused.push_back(m.status());
          }
        });
    INFO(bound.status().message());
    REQUIRE(bound.is_ok());
    socket = std::move(bound).value();
  }
};

std::unique_ptr<DealerSocket> connect(Context& context, boost::asio::io_context& io,
                                      const std::string& endpoint, TransportOptions options = {}) {
  auto connected = DealerSocket::connect(context, io, endpoint, options, [](Result<Message>) {});
  REQUIRE(connected.is_ok());
  return std::move(connected).value();
}

// A peer that speaks ZeroMQ but not our protocol.
class RawDealer {
 public:
  explicit RawDealer(const std::string& endpoint) {
    context_ = zmq_ctx_new();
    socket_ = zmq_socket(context_, ZMQ_DEALER);
    const int linger = 0;
    zmq_setsockopt(socket_, ZMQ_LINGER, &linger, sizeof(linger));
    REQUIRE(zmq_connect(socket_, endpoint.c_str()) == 0);
  }
  ~RawDealer() {
    zmq_close(socket_);
    zmq_ctx_term(context_);
  }
  RawDealer(const RawDealer&) = delete;
  void send(const std::vector<std::string>& frames) {
    for (std::size_t i = 0; i < frames.size(); ++i) {
      const int flags = i + 1 < frames.size() ? ZMQ_SNDMORE : 0;
      REQUIRE(zmq_send(socket_, frames[i].data(), frames[i].size(), flags) >= 0);
    }
  }

 private:
  void* context_;
  void* socket_;
};

TEST_CASE("sending to a peer that is gone is kUnavailable") {
  const TemporaryFolder folder;
  Context context;
  Listener listener(context, folder.ipc("gone"));
  auto dealer = connect(context, listener.io, listener.socket->endpoint());
  REQUIRE(dealer->send({Heartbeat{}, {}}).is_ok());
  REQUIRE(run_until(listener.io, [&] { return listener.accepted == 1; }));
  REQUIRE(listener.socket->send(listener.last_peer, {Heartbeat{}, {}}).is_ok());
  dealer->close();
  Status status;
  CHECK(run_until(listener.io, [&] {
    status = listener.socket->send(listener.last_peer, {Heartbeat{}, {}});
    return !status.is_ok();
  }));
  CHECK(status.code() == StatusCode::kUnavailable);
  CHECK(status.message() == "sending Heartbeat: the peer is gone");
}

TEST_CASE("a peer that nobody ever was is kUnavailable") {
  const TemporaryFolder folder;
  Context context;
  Listener listener(context, folder.ipc("nobody"));
  CHECK(listener.socket->send("nobody", {Heartbeat{}, {}}).code() == StatusCode::kUnavailable);
}

TEST_CASE("what lies at an ipc path and is no socket is refused and left alone") {
  Context context;
  boost::asio::io_context io;
  const TemporaryFolder folder;
  const std::string endpoint = folder.ipc("thesis");
  const std::string path = endpoint.substr(std::string("ipc://").size());
  const bool file = GENERATE(true, false);
  if (file) std::ofstream(path) << "three years of work";
  if (!file) std::filesystem::create_directory(path);
  const auto bound = RouterSocket::bind(context, io, endpoint, {}, [](const PeerId&, Result<Message>) {});
  CHECK(bound.status().code() == StatusCode::kInvalidArgument);
  CHECK(bound.status().message() == "cannot bind " + endpoint + ": got " +
                                        (file ? "an ordinary file" : "a folder") + " at " + path +
                                        ", expected a socket or nothing there");
  CHECK(std::filesystem::exists(path));
  if (file) CHECK(std::filesystem::file_size(path) == 19);
}

TEST_CASE("an address in use is refused, on tcp and on ipc") {
  const TemporaryFolder folder;
  Context context;
  const std::string endpoint = GENERATE(true, false) ? folder.ipc("used") : "tcp://127.0.0.1:0";
  Listener first(context, endpoint);
  boost::asio::io_context io;
  const std::string used = first.socket->endpoint();
  const auto second = RouterSocket::bind(context, io, used, {}, [](const PeerId&, Result<Message>) {});
  CHECK(second.status().code() == StatusCode::kUnavailable);
  CHECK(second.status().message() == "cannot bind " + used + ": Address already in use");
}

TEST_CASE("an address that cannot be had names itself and the reason") {
  Context context;
  boost::asio::io_context io;
  const auto bind = [&](const std::string& endpoint) {
    return RouterSocket::bind(context, io, endpoint, {}, [](const PeerId&, Result<Message>) {}).status();
  };
  CHECK(bind("tcp://203.0.113.7:5555").message() ==
        "cannot bind tcp://203.0.113.7:5555: Cannot assign requested address");
  // Longer than a part of a name may be: no resolver asks a network about it.
  CHECK(bind("tcp://" + std::string(64, 'x') + ".invalid:5555").code() == StatusCode::kUnavailable);
  CHECK(bind("ipc:///no/such/folder/x").message() ==
        "cannot bind ipc:///no/such/folder/x: No such file or directory");
  CHECK(bind("http://127.0.0.1:80").code() == StatusCode::kInvalidArgument);
  CHECK(bind("127.0.0.1:80").code() == StatusCode::kInvalidArgument);
  CHECK(bind("ipc://" + std::string(200, 'x')).code() == StatusCode::kInvalidArgument);
  CHECK(DealerSocket::connect(context, io, "nonsense", {}, [](Result<Message>) {}).status().code() ==
        StatusCode::kInvalidArgument);
}

TEST_CASE("a host name may be bound") {
  Context context;
  const Listener listener(context, "tcp://localhost:0");
  CHECK(listener.socket->endpoint().starts_with("tcp://127.0."));
}

// IPv6 addresses in brackets, to which other sockets of ours do not speak.
TEST_CASE("a server listens at an IPv6 address, and a node finds it there") {
  Context context;
  Listener listener(context, "tcp://[::1]:0");
  CHECK(listener.socket->endpoint().starts_with("tcp://[::1]:"));
  const auto dealer = connect(context, listener.io, listener.socket->endpoint());
  REQUIRE(dealer->send({Heartbeat{}, {}}).is_ok());
  CHECK(run_until(listener.io, [&] { return listener.accepted == 1; }));
}

TEST_CASE("a name leads to IPv4 where it can, and an address in brackets to IPv6") {
  CHECK(resolve("tcp://localhost:5555").value() == "tcp://127.0.0.1:5555");
  CHECK(resolve("tcp://[::1]:5555").value() == "tcp://[::1]:5555");
  CHECK(needs_ipv6("tcp://[::1]:5555"));
  for (const char* other :
       {"tcp://localhost:1", "tcp://127.0.0.1:1", "ipc://path", "tcp://*:1", "nonsense"}) {
    CHECK_FALSE(needs_ipv6(other));
  }
}

TEST_CASE("why nobody answers: refused, an unknown name, no way, or somebody who accepts and says nothing") {
  constexpr std::chrono::seconds kWithin{20};
  const TemporaryFolder folder;
  Context context;
  const std::string endpoint =
      GENERATE(std::string("tcp://127.0.0.1:0"), std::string("tcp://[::1]:0"), std::string("ipc"));
  std::string at;
  {
    const Listener listener(context, endpoint == "ipc" ? folder.ipc("reached") : endpoint);
    at = listener.socket->endpoint();
    CHECK(reach(at, kWithin).how == Reach::kAccepted);
    CHECK_THAT(in_words(reach(at, kWithin)), Catch::EndsWith("has not answered"));
  }
  // ZeroMQ closes on a thread of its own.
  boost::asio::io_context io;
  REQUIRE(run_until(io, [&] { return reach(at, kWithin).how == Reach::kRefused; }));
  CHECK_THAT(in_words(reach(at, kWithin)), Catch::StartsWith("it refuses the connection"));

  const Reachability unknown = reach("tcp://" + std::string(64, 'x') + ":5555", kWithin);
  CHECK(unknown.how == Reach::kUnknownName);
  CHECK_THAT(in_words(unknown), Catch::StartsWith("its name is not known: host xxx"));
  // A broadcast address is no peer of TCP's.
  CHECK(reach("tcp://255.255.255.255:5555", kWithin).how == Reach::kUnreachable);
  CHECK_THAT(in_words({Reach::kSilent, "192.0.2.1", "", {}, {}}),
             Catch::StartsWith("nothing comes back from it (192.0.2.1)"));
}

TEST_CASE("a full queue refuses the next message and lets go of its payload") {
  const TemporaryFolder folder;
  Context context;
  boost::asio::io_context io{1};
  Payloads payloads;
  constexpr std::size_t kFloats = 100'000;
  const TransportOptions options{.send_queue_messages_max = 10, .linger = std::chrono::milliseconds(0)};
  auto dealer = connect(context, io, folder.ipc("nobody-there"), options);
  const Push push{.last = true, .samples = 1};
  for (int i = 0; i < 10; ++i) REQUIRE(dealer->send({push, payloads.make(0, kFloats)}).is_ok());
  const Status eleventh = dealer->send({push, payloads.make(0, kFloats)});
  CHECK(eleventh.code() == StatusCode::kResourceExhausted);
  CHECK(eleventh.message() == "sending Push: the peer's queue is full");
  CHECK(payloads.released_already());
  CHECK_FALSE(payloads.released_already());
  dealer->close();
  for (int i = 0; i < 10; ++i) CHECK(payloads.released());
}

TEST_CASE("what is no message is refused and counted, and the socket lives on") {
  const TemporaryFolder folder;
  const std::string endpoint = GENERATE(true, false) ? folder.ipc("raw") : "tcp://127.0.0.1:0";
  Context context;
  Listener listener(context, endpoint);
  RawDealer raw(listener.socket->endpoint());
  raw.send({"\xff\xff garbage"});
  raw.send({"a", "b", "c"});
  raw.send({""});
  raw.send({"x", std::string(std::size_t{2} << 20, 'x')});
  raw.send({std::string(std::size_t{2} << 20, 'x')});
  REQUIRE(run_until(listener.io, [&] { return listener.refused.size() == 5; }));
  CHECK(listener.refused[0].message().starts_with("header: got 10 bytes that are no header"));
  CHECK(listener.refused[1].message() == "message: got 3 frames, expected 1 or 2");
  CHECK(listener.refused[2].message().starts_with("header: got no body"));
  CHECK(listener.refused[3].message() == "payload frame: got 2097152 bytes, expected at most 1048576");
  CHECK(listener.refused[4].message() == "header: got 2097152 bytes, expected at most 1048576");
  CHECK(listener.socket->counters().malformed == 5);

  const auto dealer = connect(context, listener.io, listener.socket->endpoint());
  REQUIRE(dealer->send({Heartbeat{}, {}}).is_ok());
  CHECK(run_until(listener.io, [&] { return listener.accepted == 1; }));
}

TEST_CASE("a frame too large to be worth reading ends its connection, not the socket") {
  const TemporaryFolder folder;
  Context context;
  Listener listener(context, folder.ipc("huge"));
  RawDealer raw(listener.socket->endpoint());
  raw.send({std::string(std::size_t{16} << 20, 'x')});
  const auto dealer = connect(context, listener.io, listener.socket->endpoint());
  REQUIRE(dealer->send({Heartbeat{}, {}}).is_ok());
  CHECK(run_until(listener.io, [&] { return listener.accepted == 1; }));
  CHECK(listener.refused.empty());
}

// A DEALER by hand (ZMTP 3.0, NULL), which can send what ZeroMQ would not: one frame at a time.
class EndlessSender {
 public:
  explicit EndlessSender(const std::string& endpoint) : socket_(io_) {
    const auto port = static_cast<std::uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1)));
    socket_.connect({boost::asio::ip::make_address("127.0.0.1"), port});
    std::string greeting(64, '\0');
    greeting.replace(0, 1, "\xff").replace(9, 2, "\x7f\x03").replace(12, 4, "NULL");
    const std::string ready =
        std::string("\x05READY\x0bSocket-Type") + std::string("\0\0\0\x06", 4) + "DEALER";
    send(greeting + std::string("\x04") + static_cast<char>(ready.size()) + ready);
    // The other side must have got that far, too, before the first message.
    receive(greeting.size());
    receive(static_cast<unsigned char>(receive(2)[1]));
  }
  // False once the connection is broken.
  bool send_frame(std::size_t bytes, bool more) {
    std::string head(1, more ? '\x03' : '\x02');
    for (int shift = 56; shift >= 0; shift -= 8) head += static_cast<char>((bytes >> shift) & 0xff);
    return send(head + std::string(bytes, 'x'));
  }

 private:
  std::string receive(std::size_t bytes) {
    std::string got(bytes, '\0');
    boost::asio::read(socket_, boost::asio::buffer(got));
    return got;
  }
  // A sender must learn of its end however full the buffers are: not to be told is a failure, not a hang.
  bool send(const std::string& bytes) {
    std::optional<boost::system::error_code> result;
    boost::asio::async_write(socket_, boost::asio::buffer(bytes),
                             [&](const boost::system::error_code& error, std::size_t) { result = error; });
    const bool done = run_until(io_, [&] { return result.has_value(); });
    if (!done) socket_.close();
    REQUIRE(done);
    return !*result;
  }
  boost::asio::io_context io_;
  boost::asio::ip::tcp::socket socket_;
};

TEST_CASE("a message without an end is not buffered without end") {
  Context context;
  Listener listener(context, "tcp://127.0.0.1:0");
  EndlessSender endless(listener.socket->endpoint());
  const auto dealer = connect(context, listener.io, listener.socket->endpoint());
  const bool after_a_message = GENERATE(false, true);
  if (after_a_message) {
    REQUIRE(endless.send_frame(100, false));
    REQUIRE(run_until(listener.io, [&] { return listener.refused.size() == 1; }));
  }
  int sent = 0;
  int broken = 0;
  while (sent < 200 && endless.send_frame(1 << 20, true)) {
    ++sent;
    listener.io.restart();
    listener.io.poll();
    broken += listener.socket->break_unfinished();
  }
  CHECK(broken == 1);
  CHECK(sent >= 8);
  CHECK(sent < 200);
  CHECK(listener.socket->counters().malformed == (after_a_message ? 2 : 1));
  REQUIRE(dealer->send({Heartbeat{}, {}}).is_ok());
  CHECK(run_until(listener.io, [&] { return listener.accepted == 1; }));
  CHECK(listener.socket->break_unfinished() == 0);
}

TEST_CASE(
    "whoever sends messages with an end is never broken, however much they send and however late it is "
    "read") {
  Context context;
  Listener listener(context, "tcp://127.0.0.1:0");
  const auto dealer = connect(context, listener.io, listener.socket->endpoint());
  const auto values = std::make_shared<const std::vector<float>>(std::size_t{1} << 18);
  const Payload payload{values, reinterpret_cast<const std::byte*>(values->data()), values->size() * 4};
  constexpr int kMessages = 60;
  for (int i = 0; i < kMessages; ++i) REQUIRE(dealer->send({Push{}, payload}).is_ok());
  int broken = 0;
  CHECK(run_until(listener.io, [&] {
    broken += listener.socket->break_unfinished();
    return listener.accepted + static_cast<int>(listener.refused.size()) == kMessages;
  }));
  broken += listener.socket->break_unfinished();
  CHECK(broken == 0);
}

TEST_CASE("bytes that are not ZeroMQ's do no harm") {
  Context context;
  Listener listener(context, "tcp://127.0.0.1:0");
  const std::string endpoint = listener.socket->endpoint();
  const auto port = static_cast<std::uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1)));
  boost::asio::ip::tcp::socket browser(listener.io);
  browser.connect({boost::asio::ip::make_address("127.0.0.1"), port});
  boost::asio::write(
      browser, boost::asio::buffer(std::string("GET / HTTP/1.1\r\n\r\n") + std::string(10'000, '\xff')));
  const auto dealer = connect(context, listener.io, endpoint);
  REQUIRE(dealer->send({Heartbeat{}, {}}).is_ok());
  CHECK(run_until(listener.io, [&] { return listener.accepted == 1; }));
}

TEST_CASE("a socket may be closed in its own handler, and is closed for good") {
  const TemporaryFolder folder;
  Context context;
  Listener listener(context, folder.ipc("closing"));
  const auto dealer = connect(context, listener.io, listener.socket->endpoint());
  RouterSocket* closing = nullptr;
  int handled = 0;
  boost::asio::io_context io{1};
  auto bound = RouterSocket::bind(context, io, folder.ipc("self"), {}, [&](const PeerId&, Result<Message>) {
    ++handled;
    closing->close();
  });
  REQUIRE(bound.is_ok());
  closing = bound->get();
  const auto sender = connect(context, io, folder.ipc("self"), {.linger = std::chrono::milliseconds(0)});
  REQUIRE(sender->send({Heartbeat{}, {}}).is_ok());
  REQUIRE(sender->send({Heartbeat{}, {}}).is_ok());
  REQUIRE(run_until(io, [&] { return handled == 1; }));
  io.restart();
  io.poll();
  CHECK(handled == 1);
  CHECK((*bound)->send("x", {Heartbeat{}, {}}).code() == StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace paceline::wire
