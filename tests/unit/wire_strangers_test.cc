// Strangers: too many of them, what is said of those that were kept out, and peers that break the protocol.
// Those that belong to the run do not notice.
#include <sys/resource.h>
#include <zmq.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/write.hpp>
#include <catch2/catch.hpp>
#include <deque>
#include <set>

#include "common/ticks.h"
#include "common/wire/accepted_at.h"
#include "common/wire/connections.h"
#include "common/wire/denials.h"
#include "common/wire/handshake.h"
#include "tests/unit/wire_loop.h"

namespace paceline::wire {
namespace {

using boost::asio::ip::tcp;
using namespace std::chrono_literals;

Ticks at(std::chrono::milliseconds since) { return Ticks{} + since; }

TEST_CASE("of one source there is a line at once, and then one in ten seconds with the number") {
  Denials denials;
  denials.add("10.0.0.7", "its key is not on the list");
  CHECK(denials.due(at(0ms)) == std::vector<std::string>{"10.0.0.7: its key is not on the list"});
  for (int i = 0; i < 5; ++i) denials.add("10.0.0.7", "its key is not on the list");
  denials.add("10.0.0.8", "another");
  CHECK(denials.due(at(50ms)) == std::vector<std::string>{"10.0.0.8: another"});
  CHECK(denials.due(at(9999ms)).empty());
  CHECK(denials.due(at(10000ms)) ==
        std::vector<std::string>{"10.0.0.7: its key is not on the list (5 times)"});
  CHECK(denials.due(at(30000ms)).empty());
  denials.add("10.0.0.7", "again");
  CHECK(denials.due(at(30050ms)).size() == 1);
  CHECK(denials.total() == 8);
}

TEST_CASE("a flood from many addresses takes bounded memory and few lines") {
  Denials denials;
  for (int i = 0; i < 10'000; ++i) denials.add("2001:db8::" + std::to_string(i), "no");
  CHECK(denials.due(at(0ms)).size() == Denials::kSourcesMax + 1);
  CHECK(denials.total() == 10'000);
  CHECK(denials.due(at(10s)).empty());
  denials.add("somebody else", "no");
  CHECK(denials.due(at(10s)) == std::vector<std::string>{"somebody else: no"});  // the room is free again
}

TEST_CASE("handshakes that end in order for three seconds are a refusal, and resets are none") {
  BrokenHandshakes wrong_key;
  CHECK_FALSE(wrong_key.ended_in_order(at(0ms)));
  CHECK_FALSE(wrong_key.ended_in_order(at(2999ms)));
  CHECK(wrong_key.ended_in_order(at(3000ms)));
  CHECK_FALSE(wrong_key.ended_in_order(at(3001ms)));  // it was told
  // At a server whose places strangers take.
  BrokenHandshakes no_room;
  for (int i = 0; i < 100; ++i) {
    CHECK_FALSE(no_room.ended_in_order(at(i * 1000ms)));  // a network may break one so, too
    no_room.ended_otherwise();
  }
}

// A router for 2 connections and none to spare, which remembers who says a Pull and answers everybody.
struct Small {
  boost::asio::io_context io{1};
  std::unique_ptr<RouterSocket> socket;
  int malformed = 0;
  std::set<PeerId> cut;  // whose connections were broken for what they said
  int read_of_cut = 0;   // messages of theirs that came here all the same

  Small(Context& context, const std::string& endpoint, int connections_max) {
    TransportOptions options;
    options.connections_max = connections_max;
    auto bound =
        RouterSocket::bind(context, io, endpoint, options, [this](const PeerId& from, Result<Message> m) {
          if (!m.is_ok()) {
            ++malformed;
            read_of_cut += cut.contains(from) ? 1 : 0;
            if (socket->count_malformed(from)) cut.insert(from);
            return;
          }
          if (std::holds_alternative<Pull>(m->body)) socket->remember(from);
          REQUIRE(socket->send(from, {Heartbeat{}, {}}).is_ok());
        });
    REQUIRE(bound.is_ok());
    socket = std::move(bound).value();
  }
};

struct Member {
  std::unique_ptr<DealerSocket> socket;
  int received = 0;

  Member(Context& context, boost::asio::io_context& io, const std::string& endpoint) {
    auto connected =
        DealerSocket::connect(context, io, endpoint, {}, [this](Result<Message>) { ++received; });
    REQUIRE(connected.is_ok());
    socket = std::move(connected).value();
    REQUIRE(socket->send({Pull{}, {}}).is_ok());
  }
  // Whether what it says now is answered, over the connection that it had.
  bool is_answered(boost::asio::io_context& io) {
    const int before = received;
    REQUIRE(socket->send({Heartbeat{}, {}}).is_ok());
    return run_until(io, [&] { return received > before; });
  }
};

class TcpStranger {
 public:
  TcpStranger(boost::asio::io_context& io, const std::string& endpoint) : socket_(io) {
    const auto port = static_cast<std::uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1)));
    socket_.connect({boost::asio::ip::make_address("127.0.0.1"), port});
    read();
  }
  bool broken() const { return bool(end_); }
  // How the other side ended the connection: eof, in order; connection_reset, by a reset.
  const boost::system::error_code& end() const { return end_; }

 private:
  void read() {
    socket_.async_read_some(boost::asio::buffer(bytes_),
                            [this](const boost::system::error_code& error, std::size_t) {
                              if (error) {
                                end_ = error;
                              } else {
                                read();
                              }
                            });
  }
  tcp::socket socket_;
  char bytes_[256];
  boost::system::error_code end_;
};

TEST_CASE("beyond the bound the stranger that came first goes, and no member does") {
  Context context;
  Small router(context, "tcp://127.0.0.1:0", 4);
  const std::string endpoint = router.socket->endpoint();
  Member first(context, router.io, endpoint);
  Member second(context, router.io, endpoint);
  REQUIRE(run_until(router.io, [&] { return first.received == 1 && second.received == 1; }));
  const auto keep_out = [&] { return router.socket->keep_out(steady_now()); };

  std::deque<TcpStranger> strangers;
  const auto broken = [&] {
    return std::count_if(strangers.begin(), strangers.end(), [](auto& s) { return s.broken(); });
  };
  for (int i = 0; i < 12; ++i) {
    strangers.emplace_back(router.io, endpoint);
    const std::ptrdiff_t expected = std::max(0, i + 1 - 2);
    REQUIRE(run_until(router.io, [&] {
      keep_out();
      return broken() == expected;
    }));
  }
  for (int i = 0; i < 12; ++i) {
    const TcpStranger& stranger = strangers[static_cast<std::size_t>(i)];
    CHECK(stranger.broken() == (i < 10));
    // So that one of ours, in its handshake, does not take it for a refusal.
    if (stranger.broken()) CHECK(stranger.end() == boost::asio::error::connection_reset);
  }
  keep_out();
  CHECK(router.socket->counters().kept_out == 10);
  CHECK((first.is_answered(router.io) && second.is_answered(router.io)));

  // One that comes among them and belongs to the run gets in.
  Member third(context, router.io, endpoint);
  REQUIRE(run_until(router.io, [&] {
    keep_out();
    return third.received == 1;
  }));
}

// While it lives, this process can open no file or socket more.
class NoneFree {
 public:
  NoneFree() {
    REQUIRE(getrlimit(RLIMIT_NOFILE, &old_) == 0);
    const rlimit limit{3, old_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  ~NoneFree() { setrlimit(RLIMIT_NOFILE, &old_); }
  NoneFree(const NoneFree&) = delete;

 private:
  rlimit old_{};
};

TEST_CASE("too many connections are broken though they have taken the last descriptors") {
  boost::asio::io_context io{1};
  tcp::acceptor acceptor(io, {boost::asio::ip::make_address("127.0.0.1"), 0});
  const std::string endpoint = "tcp://127.0.0.1:" + std::to_string(acceptor.local_endpoint().port());
  std::deque<TcpStranger> strangers;
  std::vector<tcp::socket> accepted;
  Connections connections(1);
  for (int i = 0; i < 3; ++i) {
    strangers.emplace_back(io, endpoint);
    accepted.push_back(acceptor.accept());
    connections.accepted(accepted.back().native_handle());
  }
  int broken = 0;
  {
    const NoneFree none;
    broken = connections.break_surplus();
  }
  CHECK(broken == 2);
  CHECK(run_until(io, [&] {
    boost::system::error_code ignored;
    for (int i = 0; i < 2; ++i) accepted[static_cast<std::size_t>(i)].close(ignored);  // its owner's part
    return strangers[0].broken() && strangers[1].broken();
  }));
  CHECK_FALSE(strangers[2].broken());
}

TEST_CASE("who has sent nothing goes before who came earlier and has") {
  boost::asio::io_context io{1};
  tcp::acceptor acceptor(io, {boost::asio::ip::make_address("127.0.0.1"), 0});
  Connections connections(2);
  std::deque<tcp::socket> near, far;
  for (const std::size_t bytes : {100U, 10U, 0U, 0U}) {
    near.emplace_back(io).connect(acceptor.local_endpoint());
    far.push_back(acceptor.accept());
    boost::asio::write(near.back(), boost::asio::buffer(std::string(bytes, 'x')));
    if (bytes > 0) far.back().wait(tcp::socket::wait_read);
    connections.accepted(far.back().native_handle());
  }
  const auto is_broken = [&](std::size_t i) {
    boost::system::error_code error;
    char byte = 0;
    near[i].non_blocking(true);
    near[i].read_some(boost::asio::buffer(&byte, 1), error);
    return error == boost::asio::error::connection_reset;
  };
  CHECK(connections.break_surplus() == 2);
  CHECK((!is_broken(0) && !is_broken(1) && is_broken(2) && is_broken(3)));
  near.emplace_back(io).connect(acceptor.local_endpoint());
  far.push_back(acceptor.accept());
  boost::asio::write(near.back(), boost::asio::buffer(std::string(100, 'x')));
  far.back().wait(tcp::socket::wait_read);
  connections.accepted(far.back().native_handle());
  CHECK(connections.break_surplus() == 1);
  CHECK((!is_broken(0) && is_broken(1) && !is_broken(4)));  // no more than a greeting
}

TEST_CASE("a descriptor that now is another connection's is not the one that was known by its number") {
  boost::asio::io_context io{1};
  tcp::acceptor acceptor(io, {boost::asio::ip::make_address("127.0.0.1"), 0});
  const std::string endpoint = "tcp://127.0.0.1:" + std::to_string(acceptor.local_endpoint().port());
  Connections connections(1);
  TcpStranger gone(io, endpoint);
  auto first = std::make_unique<tcp::socket>(acceptor.accept());
  const int number = first->native_handle();
  connections.accepted(number);
  first.reset();
  TcpStranger next(io, endpoint);
  const tcp::socket second = acceptor.accept();
  TcpStranger last(io, endpoint);
  const tcp::socket third = acceptor.accept();
  for (const tcp::socket* socket : {&second, &third})
    connections.accepted(const_cast<tcp::socket*>(socket)->native_handle());
  connections.admit(const_cast<tcp::socket&>(second).native_handle(), "second");
  CHECK(connections.break_surplus() == 1);  // the third: the second belongs to the run, the first is gone
  CHECK(connections.break_surplus() == 0);
}

TEST_CASE("what an earlier connection of the same number said does not break the one that has it now") {
  boost::asio::io_context io{1};
  tcp::acceptor acceptor(io, {boost::asio::ip::make_address("127.0.0.1"), 0});
  TcpStranger client(io, "tcp://127.0.0.1:" + std::to_string(acceptor.local_endpoint().port()));
  tcp::socket accepted = acceptor.accept();
  const int number = accepted.native_handle();
  Connections connections(1);
  connections.accepted(number);
  for (int i = 1; i < Connections::kMalformedMax; ++i)
    CHECK_FALSE(connections.count(Wrong::kMalformed, number, "gone"));
  connections.admit(number, "member");
  for (int i = 0; i < 100; ++i) CHECK_FALSE(connections.count(Wrong::kMalformed, number, "gone"));
  // Its own word counts, from the first on.
  for (int i = 1; i < Connections::kMalformedMax; ++i) {
    CHECK_FALSE(connections.count(Wrong::kMalformed, number, "member"));
  }
  CHECK(connections.count(Wrong::kMalformed, number, "member"));
}

TEST_CASE("what came in at an endpoint is told from what has a descriptor for another reason") {
  boost::asio::io_context io{1};
  tcp::acceptor acceptor(io, {boost::asio::ip::make_address("127.0.0.1"), 0});
  const AcceptedAt tcp_endpoint("tcp://127.0.0.1:" + std::to_string(acceptor.local_endpoint().port()));
  tcp::socket ours(io);
  ours.connect(acceptor.local_endpoint());
  tcp::socket theirs = acceptor.accept();
  CHECK(tcp_endpoint.fits(theirs.native_handle()));
  CHECK_FALSE(tcp_endpoint.fits(ours.native_handle()));

  using boost::asio::local::stream_protocol;
  const TemporaryFolder folder;
  const std::string endpoint = folder.ipc("door");
  stream_protocol::acceptor door(io, stream_protocol::endpoint(endpoint.substr(6)));
  const AcceptedAt ipc_endpoint(endpoint);
  stream_protocol::socket near(io);
  near.connect(door.local_endpoint());
  stream_protocol::socket far = door.accept();
  CHECK(ipc_endpoint.fits(far.native_handle()));
  CHECK_FALSE(ipc_endpoint.fits(near.native_handle()));
  CHECK_FALSE(ipc_endpoint.fits(theirs.native_handle()));
  CHECK_FALSE(tcp_endpoint.fits(far.native_handle()));
  const SpareDescriptor no_socket;
  CHECK_FALSE(tcp_endpoint.fits(-1));
  CHECK_FALSE(tcp_endpoint.fits(no_socket.put(STDOUT_FILENO)));
}

// A peer that speaks ZeroMQ but not our protocol.
class Babbler {
 public:
  explicit Babbler(const std::string& endpoint)
      : context_(zmq_ctx_new()), socket_(zmq_socket(context_, ZMQ_DEALER)) {
    const int linger = 0;
    zmq_setsockopt(socket_, ZMQ_LINGER, &linger, sizeof linger);
    REQUIRE(zmq_connect(socket_, endpoint.c_str()) == 0);
  }
  ~Babbler() {
    zmq_close(socket_);
    zmq_ctx_term(context_);
  }
  Babbler(const Babbler&) = delete;
  void babble() { REQUIRE(zmq_send(socket_, "\xff\xff babble", 9, 0) >= 0); }

 private:
  void* context_;
  void* socket_;
};

TEST_CASE("a peer that goes on breaking the protocol is cut off, and what else it said is not read") {
  const TemporaryFolder folder;
  const std::string endpoint = GENERATE(true, false) ? folder.ipc("babble") : "tcp://127.0.0.1:0";
  Context context;
  Small router(context, endpoint, 8);
  Member member(context, router.io, router.socket->endpoint());
  REQUIRE(run_until(router.io, [&] { return member.received == 1; }));
  Babbler babbler(router.socket->endpoint());
  for (int i = 0; i < 100; ++i) babbler.babble();
  REQUIRE(run_until(router.io, [&] { return !router.cut.empty(); }));
  CHECK(router.malformed >= Connections::kMalformedMax);
  REQUIRE(member.is_answered(router.io));
  CHECK(router.read_of_cut == 0);
  CHECK(router.socket->counters().malformed >= Connections::kMalformedMax);
  const std::vector<std::string> reported = router.socket->keep_out(steady_now());
  REQUIRE_FALSE(reported.empty());
  CHECK(reported[0].find("a connection: it went on sending messages that are malformed, or refused") == 0);
}

}  // namespace
}  // namespace paceline::wire
