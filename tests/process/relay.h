// A relay between one node and one server: what either says goes on to the other in the order in which it was
// said, and what the test chooses is held back for a while first, together with all that lies behind it. To
// the node it is a server that is slow to take, or to say, just that.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "common/wire/transport.h"

namespace paceline::testing {

class Relay {
 public:
  // How long a message is held back; 0: not at all. Called on the relay's thread.
  using Delay = std::function<std::chrono::nanoseconds(const wire::Body&)>;

  // Listens at `endpoint` for one node, for which it speaks to the server at `server`.
  Relay(wire::Context& context, const std::string& server, const std::string& endpoint, Delay delay);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

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
    explicit Way(boost::asio::io_context& io) : timer(io) {}
    std::deque<Waiting> waiting;
    boost::asio::steady_timer timer;
    std::function<Status(wire::Message)> send;
  };

  void come(Way& way, Result<wire::Message> message);
  void go_on(Way& way);

  const Delay delay_;
  std::atomic<std::int64_t> held_ns_{0};
  boost::asio::io_context io_;
  Way up_{io_};
  Way down_{io_};
  wire::PeerId node_;
  std::unique_ptr<wire::RouterSocket> router_;
  std::unique_ptr<wire::DealerSocket> dealer_;
  std::thread thread_;
};

}  // namespace paceline::testing
