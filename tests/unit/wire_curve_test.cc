// Connections with keys, over real sockets: who is let in, what the others are told, and what can be read on
// the way.
#include <unistd.h>
#include <zmq.h>

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <catch2/catch.hpp>

#include "common/ticks.h"
#include "common/wire/zmq_curve.h"
#include "tests/unit/wire_loop.h"

namespace paceline::wire {
namespace {

using boost::asio::ip::tcp;
using Catch::Contains;
using Catch::Matchers::StartsWith;

std::uint16_t port_of(const std::string& endpoint) {
  return static_cast<std::uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1)));
}

// The keys of a server that lets in node 0 and node 1, and of those.
struct Keys {
  KeyPair server = new_key_pair().value();
  KeyPair nodes[2] = {new_key_pair().value(), new_key_pair().value()};

  std::shared_ptr<const ServerKeys> of_server() const {
    return std::make_shared<const ServerKeys>(
        ServerKeys{server, {{nodes[0].public_key, "node-0"}, {nodes[1].public_key, "node-1"}}});
  }
  std::shared_ptr<const ClientKeys> of_node(std::size_t node) const {
    return std::make_shared<const ClientKeys>(
        ClientKeys{nodes[node], "node-" + std::to_string(node), server.public_key});
  }
};

// A router that answers what it hears, and notes whose key it came with.
struct Protected {
  boost::asio::io_context& io;
  std::unique_ptr<RouterSocket> socket;
  std::vector<std::string> received_from;
  std::vector<std::string> kept_out;

  Protected(Context& context, boost::asio::io_context& loop, const std::string& endpoint,
            std::shared_ptr<const ServerKeys> keys)
      : io(loop) {
    TransportOptions options;
    options.server_keys = std::move(keys);
    auto bound =
        RouterSocket::bind(context, io, endpoint, options, [this](const PeerId& from, Result<Message> m) {
          received_from.push_back(socket->key_name());
          if (m.is_ok()) REQUIRE(socket->send(from, {Heartbeat{}, {}}).is_ok());
        });
    INFO(bound.status().message());
    REQUIRE(bound.is_ok());
    socket = std::move(bound).value();
  }
  // Until somebody was kept out, and it has been said.
  bool keeps_out() {
    return run_until(io, [this] {
      for (std::string& line : socket->keep_out(steady_now())) kept_out.push_back(std::move(line));
      return !kept_out.empty();
    });
  }
};

struct Client {
  std::unique_ptr<DealerSocket> socket;
  int arrived = 0;
  std::vector<Status> denied;

  Client(Context& context, boost::asio::io_context& io, const std::string& endpoint,
         std::shared_ptr<const ClientKeys> keys) {
    TransportOptions options;
    options.linger = std::chrono::milliseconds(0);
    options.client_keys = std::move(keys);
    options.on_denied = [this](const Status& why) { denied.push_back(why); };
    auto connected =
        DealerSocket::connect(context, io, endpoint, options, [this](Result<Message>) { ++arrived; });
    REQUIRE(connected.is_ok());
    socket = std::move(connected).value();
    send();
  }
  void send() { REQUIRE(socket->send({Heartbeat{}, {}}).is_ok()); }
};

TEST_CASE("with keys messages go both ways, and the router knows whose they are") {
  const TemporaryFolder folder;
  const std::string endpoint = GENERATE(true, false) ? folder.ipc("keys") : "tcp://127.0.0.1:0";
  const Keys keys;
  Context context;
  boost::asio::io_context io{1};
  Protected router(context, io, endpoint, keys.of_server());
  Client first(context, io, router.socket->endpoint(), keys.of_node(0));
  REQUIRE(run_until(io, [&] { return first.arrived == 1; }));
  Client second(context, io, router.socket->endpoint(), keys.of_node(1));
  REQUIRE(run_until(io, [&] { return second.arrived == 1; }));
  first.send();
  REQUIRE(run_until(io, [&] { return first.arrived == 2; }));
  CHECK(router.received_from == std::vector<std::string>{"node-0", "node-1", "node-0"});
  CHECK((first.denied.empty() && second.denied.empty()));
  CHECK(router.socket->keep_out(steady_now()).empty());
  CHECK(router.socket->counters().kept_out == 0);
}

TEST_CASE("two sockets of one context let in whom each of them knows") {
  const Keys keys, others;
  Context context;
  boost::asio::io_context io{1};
  Protected router(context, io, "tcp://127.0.0.1:0", keys.of_server());
  Protected other(context, io, "tcp://127.0.0.1:0", others.of_server());
  Client here(context, io, router.socket->endpoint(), keys.of_node(0));
  Client there(context, io, other.socket->endpoint(), others.of_node(1));
  CHECK(run_until(io, [&] { return here.arrived == 1 && there.arrived == 1; }));
  ClientKeys stranger = *others.of_node(0);
  stranger.server = keys.server.public_key;
  Client wrong(context, io, router.socket->endpoint(), std::make_shared<const ClientKeys>(stranger));
  CHECK(run_until(io, [&] { return !wrong.denied.empty(); }));
}

// In each case: within moments the one that is kept out has a reason, the server a line, and the other node
// notices nothing.
TEST_CASE("who is not let in is told why, and the others go on") {
  const TemporaryFolder folder;
  const bool ipc = GENERATE(false, true);
  const Keys keys;
  const Keys strangers;
  Context context;
  boost::asio::io_context io{1};
  Protected router(context, io, ipc ? folder.ipc("keys") : "tcp://127.0.0.1:0", keys.of_server());
  Client good(context, io, router.socket->endpoint(), keys.of_node(0));
  REQUIRE(run_until(io, [&] { return good.arrived == 1; }));

  std::shared_ptr<const ClientKeys> shown;
  std::string received;
  std::string logged;
  SECTION("a key that is not on the list") {
    ClientKeys unknown = *strangers.of_node(1);
    unknown.server = keys.server.public_key;
    shown = std::make_shared<const ClientKeys>(unknown);
    received =
        "does not know our key: its security.keys folder lacks the node-1.pub that belongs to our node-1.key";
    logged = (ipc ? "user " + std::to_string(geteuid()) + " of this machine" : "127.0.0.1") + ": its key " +
             unknown.own.public_key + " is not among those that are let in";
  }
  SECTION("another server's public key") {
    ClientKeys misled = *keys.of_node(1);
    misled.server = strangers.server.public_key;
    shown = std::make_shared<const ClientKeys>(misled);
    received = "breaks the handshake off: its key is not that of our server.pub";
    logged =
        "a connection: it began with what ZeroMQ's protocol does not allow, or with another server's key";
  }
  SECTION("no keys") {
    received = "demands keys, and we have none";
    logged = "a connection: it ";
  }
  Client bad(context, io, router.socket->endpoint(), shown);
  REQUIRE(run_until(io, [&] { return !bad.denied.empty(); }));
  CHECK(bad.denied[0].code() == StatusCode::kFailedPrecondition);
  if (shown == nullptr) {
    CHECK_THAT(bad.denied[0].message(), Contains("demands keys, and we have none"));  // however it was found
  } else {
    CHECK_THAT(bad.denied[0].message(), StartsWith(received));
  }
  REQUIRE(router.keeps_out());
  CHECK_THAT(router.kept_out[0], StartsWith(logged));
  if (shown == nullptr) CHECK_THAT(router.kept_out[0], Contains("without keys"));
  CHECK(router.socket->counters().kept_out >= 1);
  good.send();
  CHECK(run_until(io, [&] { return good.arrived == 2; }));
  CHECK(bad.arrived == 0);
  CHECK(router.received_from == std::vector<std::string>{"node-0", "node-0"});
}

TEST_CASE("a client with keys speaks with no server without") {
  const Keys keys;
  Context context;
  boost::asio::io_context io{1};
  Protected router(context, io, "tcp://127.0.0.1:0", nullptr);
  Client good(context, io, router.socket->endpoint(), nullptr);
  REQUIRE(run_until(io, [&] { return good.arrived == 1; }));
  Client bad(context, io, router.socket->endpoint(), keys.of_node(0));
  REQUIRE(run_until(io, [&] { return !bad.denied.empty(); }));
  CHECK(bad.arrived == 0);
  CHECK_THAT(
      bad.denied[0].message(),
      StartsWith("has no keys, and we have") || StartsWith("breaks the handshake off"));  // who saw it first
  CHECK(router.received_from == std::vector<std::string>{""});
}

TEST_CASE("a socket may be closed because it is not let in") {
  const Keys keys, strangers;
  Context context;
  boost::asio::io_context io{1};
  Protected router(context, io, "tcp://127.0.0.1:0", keys.of_server());
  std::unique_ptr<DealerSocket> dealer;
  int denied = 0;
  TransportOptions options;
  options.linger = std::chrono::milliseconds(0);
  ClientKeys unknown = *strangers.of_node(0);
  unknown.server = keys.server.public_key;
  options.client_keys = std::make_shared<const ClientKeys>(unknown);
  options.on_denied = [&](const Status&) {
    ++denied;
    dealer->close();
  };
  auto connected =
      DealerSocket::connect(context, io, router.socket->endpoint(), options, [](Result<Message>) {});
  REQUIRE(connected.is_ok());
  dealer = std::move(connected).value();
  REQUIRE(run_until(io, [&] { return denied == 1; }));
  CHECK(dealer->send({Heartbeat{}, {}}).code() == StatusCode::kFailedPrecondition);
}

// Passes on what it hears, and keeps a copy of all of it.
class Wiretap {
 public:
  Wiretap(boost::asio::io_context& io, std::uint16_t server)
      : acceptor_(io, {boost::asio::ip::make_address("127.0.0.1"), 0}), near_(io), far_(io) {
    acceptor_.async_accept(near_, [this, server](const boost::system::error_code& error) {
      if (error) return;
      far_.connect({boost::asio::ip::make_address("127.0.0.1"), server});
      pass_on(near_, far_, up_);
      pass_on(far_, near_, down_);
    });
  }
  std::string endpoint() const {
    return "tcp://127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port());
  }
  bool arrived(const std::string& bytes) const { return all_.find(bytes) != std::string::npos; }

 private:
  void pass_on(tcp::socket& from, tcp::socket& to, std::array<char, 65536>& buffer) {
    from.async_read_some(boost::asio::buffer(buffer),
                         [&, this](const boost::system::error_code& error, std::size_t n) {
                           if (error) return;
                           all_.append(buffer.data(), n);
                           boost::system::error_code ignored;
                           boost::asio::write(to, boost::asio::buffer(buffer, n), ignored);
                           pass_on(from, to, buffer);
                         });
  }
  tcp::acceptor acceptor_;
  tcp::socket near_, far_;
  std::array<char, 65536> up_{}, down_{};
  std::string all_;
};

TEST_CASE("on the way nothing of a message can be read, which without keys can") {
  const bool with_keys = GENERATE(false, true);
  const Keys keys;
  Context context;
  boost::asio::io_context io{1};
  Protected router(context, io, "tcp://127.0.0.1:0", with_keys ? keys.of_server() : nullptr);
  Wiretap tap(io, port_of(router.socket->endpoint()));
  Client client(context, io, tap.endpoint(), with_keys ? keys.of_node(0) : nullptr);
  const auto values = std::make_shared<const std::vector<float>>(1000, 0.12345F);
  const Payload payload{values, reinterpret_cast<const std::byte*>(values->data()),
                        values->size() * sizeof(float)};
  REQUIRE(client.socket->send({Push{.last = true, .samples = 1}, payload}).is_ok());
  REQUIRE(client.socket->send({Leave{"a plain secret"}, {}}).is_ok());
  REQUIRE(run_until(io, [&] { return client.arrived == 3; }));
  const std::string floats(reinterpret_cast<const char*>(values->data()), 4 * sizeof(float));
  CHECK(tap.arrived(floats) == !with_keys);
  CHECK(tap.arrived("a plain secret") == !with_keys);
}

}  // namespace
}  // namespace paceline::wire
