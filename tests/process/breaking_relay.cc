#include "tests/process/breaking_relay.h"

#include <algorithm>
#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/write.hpp>
#include <cstring>
#include <utility>

namespace paceline::testing {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using asio::local::stream_protocol;
using Error = boost::system::error_code;
using Socket = asio::generic::stream_protocol::socket;

asio::generic::stream_protocol::endpoint address_of(const std::string& endpoint) {
  if (endpoint.starts_with("ipc://")) return stream_protocol::endpoint(endpoint.substr(6));
  const std::size_t colon = endpoint.rfind(':');
  const std::string port = endpoint.substr(colon + 1);
  return tcp::endpoint(asio::ip::make_address(endpoint.substr(6, colon - 6)),
                       port == "*" ? std::uint16_t{0} : static_cast<std::uint16_t>(std::stoi(port)));
}

// A node's connection and the one to the server that belongs to it.
struct Pair {
  Pair(Socket n, asio::io_context& io) : node(std::move(n)), server(io) {}
  struct Way {
    std::array<char, 4096> bytes;
  };
  Socket node;
  Socket server;
  Way up;
  Way down;
  std::int64_t bytes_left = 0;
  bool counted = false;  // it is one of those that are to break
};

}  // namespace

// What waits in `io` holds its pair, and `io` gives that up as it ends: nothing there may own the loop.
struct BreakingRelay::Loop {
  Loop(std::string to, std::string at, const Breaks& b)
      : server(std::move(to)),
        endpoint(std::move(at)),
        breaks(b),
        random(b.seed, Stream::kTest, 77),
        acceptor(io) {}

  void accept() {
    acceptor.async_accept([this](const Error& error, Socket node) {
      if (error == asio::error::operation_aborted) return;
      if (!error) begin(std::move(node));  // else the node has gone before it was taken
      accept();
    });
  }

  void begin(Socket node) {
    if (server_has_gone) return;
    auto pair = std::make_shared<Pair>(std::move(node), io);
    Error error;
    pair->server.connect(address_of(server), error);
    server_has_gone = error.failed();  // for good: soon its port may be that of another run's server
    if (server_has_gone) return;
    pair->counted = planned < breaks.breaks;
    if (pair->counted) ++planned;
    const auto span = static_cast<std::uint64_t>(breaks.most - breaks.least + 1);
    pair->bytes_left = breaks.least + static_cast<std::int64_t>(random.next_below(span));
    pump(pair, pair->node, pair->server, pair->up);
    pump(pair, pair->server, pair->node, pair->down);
  }

  void pump(const std::shared_ptr<Pair>& pair, Socket& from, Socket& to, Pair::Way& way) {
    from.async_read_some(
        asio::buffer(way.bytes), [this, pair, &from, &to, &way](const Error& error, std::size_t count) {
          if (error == asio::error::eof) return half_close(to);
          if (error) return end(*pair);
          auto passes = static_cast<std::int64_t>(count);
          if (pair->counted) passes = std::min(passes, pair->bytes_left);
          pair->bytes_left -= passes;
          const bool last = pair->counted && pair->bytes_left == 0;
          asio::async_write(to, asio::buffer(way.bytes.data(), static_cast<std::size_t>(passes)),
                            [this, pair, &from, &to, &way, last](const Error& failed, std::size_t) {
                              if (last && !failed && pair->node.is_open()) {
                                ++broken;
                                return end(*pair);
                              }
                              failed ? end(*pair) : pump(pair, from, to, way);
                            });
        });
  }

  // Whoever ends in order is heard to its last word, which a reset would take out of the other's queue.
  static void half_close(Socket& to) {
    Error ignored;
    to.shutdown(asio::socket_base::shutdown_send, ignored);
  }

  // Over tcp by a reset.
  static void end(Pair& pair) {
    for (Socket* const stream : {&pair.node, &pair.server}) {
      Error ignored;
      if (!stream->is_open()) continue;
      stream->set_option(asio::socket_base::linger(true, 0), ignored);
      stream->close(ignored);
    }
  }

  const std::string server;
  std::string endpoint;
  const Breaks breaks;
  CounterRandom random;
  asio::io_context io;
  asio::basic_socket_acceptor<asio::generic::stream_protocol> acceptor;
  std::int64_t planned = 0;
  bool server_has_gone = false;
  std::atomic<std::int64_t> broken{0};
};

BreakingRelay::BreakingRelay(const std::string& server, const std::string& endpoint, const Breaks& breaks)
    : loop_(std::make_unique<Loop>(server, endpoint, breaks)) {
  const auto address = address_of(endpoint);
  loop_->acceptor.open(address.protocol());
  loop_->acceptor.bind(address);
  loop_->acceptor.listen();
  if (!endpoint.starts_with("ipc://")) {
    tcp::endpoint bound;
    const auto local = loop_->acceptor.local_endpoint();
    std::memcpy(bound.data(), local.data(), std::min(local.size(), bound.capacity()));
    loop_->endpoint = "tcp://127.0.0.1:" + std::to_string(bound.port());
  }
  loop_->accept();
  thread_ = std::thread([this] { loop_->io.run(); });
}

BreakingRelay::~BreakingRelay() {
  loop_->io.stop();
  thread_.join();
}

std::string BreakingRelay::endpoint() const { return loop_->endpoint; }
std::int64_t BreakingRelay::broken() const { return loop_->broken; }

}  // namespace paceline::testing
