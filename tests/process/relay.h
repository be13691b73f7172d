// A relay between nodes and one server: what either says goes on to the other in the order in which it was
// said, and what the test chooses is held back for a while first, together with all that lies behind it. To
// the node it is a server that is slow to take, or to say, just that. A test that holds nothing back hears
// all that is said: a report before the server can have it, a grant after the server has sent it.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "common/wire/transport.h"

namespace paceline::testing {

class Relay {
 public:
  // How long a message from or to `node` is held back; 0: not at all. Called on the relay's thread, with
  // every message as it comes: what one node says and what it is told each in order, but those of two nodes
  // come over two connections, and nothing orders them.
  using Delay = std::function<std::chrono::nanoseconds(const wire::PeerId& node, const wire::Body&)>;

  // Listens at `endpoint` for nodes, and speaks for each to the server at `server`.
  Relay(wire::Context& context, const std::string& server, const std::string& endpoint, Delay delay);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // Where it listens, with the port that the system chose where "*" was asked for.
  std::string endpoint() const { return endpoint_; }

  // How long what `delay` chose has been held back in all, by the clock: at least what was asked for. Thread:
  // any.
  std::chrono::nanoseconds held_back() const { return std::chrono::nanoseconds(held_ns_); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Waiting {
    wire::Message message;
    Clock::time_point came;
    std::chrono::nanoseconds delay;
  };
  // One direction.
  struct Way {
    Way(wire::PeerId its_node, boost::asio::io_context& io) : node(std::move(its_node)), timer(io) {}
    const wire::PeerId node;
    std::deque<Waiting> waiting;
    boost::asio::steady_timer timer;
    std::function<Status(wire::Message)> send;
  };

  // A node and its connection to the server.
  struct Link {
    Link(const wire::PeerId& node, boost::asio::io_context& io) : up(node, io), down(node, io) {}
    Way up;
    Way down;
    std::unique_ptr<wire::DealerSocket> dealer;
  };

  Link& link_of(const wire::PeerId& node);
  void come(Way& way, Result<wire::Message> message);
  void go_on(Way& way);

  wire::Context& context_;
  const std::string server_;
  const Delay delay_;
  std::atomic<std::int64_t> held_ns_{0};
  boost::asio::io_context io_;
  std::unique_ptr<wire::RouterSocket> router_;
  std::string endpoint_;
  std::map<wire::PeerId, std::unique_ptr<Link>> links_;
  std::thread thread_;
};

}  // namespace paceline::testing
