// A relay between nodes and one server: what either says goes on to the other in the order in which it was said, and
// the test is shown all of it: a report before the server can have it, a grant after the server has sent it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "common/wire/transport.h"

namespace paceline::testing {

class Relay {
 public:
  // A message from or to `node`. Called on the relay's thread: what one node says and what it is told each in order,
  // but those of two nodes come over two connections, and nothing orders them.
  using Observe = std::function<void(const wire::PeerId& node, const wire::Body&)>;

  // Listens at `endpoint` for nodes, and speaks for each to the server at `server`.
  Relay(wire::Context& context, const std::string& server, const std::string& endpoint, Observe observe);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // Where it listens, with the port that the system chose where "*" was asked for.
  std::string endpoint() const { return endpoint_; }

 private:
  wire::DealerSocket& dealer_of(const wire::PeerId& node);
  wire::Message shown(const wire::PeerId& node, Result<wire::Message> message) const;

  wire::Context& context_;
  const std::string server_;
  const Observe observe_;
  boost::asio::io_context io_;
  std::unique_ptr<wire::RouterSocket> router_;
  std::string endpoint_;
  std::map<wire::PeerId, std::unique_ptr<wire::DealerSocket>> dealers_;
  std::thread thread_;
};

}  // namespace paceline::testing
