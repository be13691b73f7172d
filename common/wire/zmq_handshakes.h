// Handshakes: tells a connecting socket that it is not let in, and that a connection that stood has broken,
// within a moment, where without it there would be silence until some time-out. ZeroMQ tells on its own
// thread, in the form of messages; this reads them on the loop.
//
// Thread: the one that runs `io`.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/status.h"
#include "common/wire/handshake.h"
#include "common/wire/zmq_monitor.h"

namespace paceline::wire {

class Handshakes : public std::enable_shared_from_this<Handshakes> {
 public:
  // `own_name`: as handshake_failed()'s. `on_denied` is called for each handshake that fails for good, and
  // may close the socket, as may `on_broken`, which is called for each connection that ends after its
  // handshake, whoever ended it. Throws zmq::error_t.
  Handshakes(Context::Impl& context, boost::asio::io_context& io, zmq::socket_t& socket, std::string own_name,
             std::function<void(const Status&)> on_denied, std::function<void()> on_broken);

  void start();
  void close();

 private:
  void read();
  std::optional<HandshakeFault> fault_of(const ZmqMonitor::Event& event);

  std::optional<ZmqMonitor> monitor_;
  boost::asio::posix::stream_descriptor wake_;
  const std::string own_name_;
  const std::function<void(const Status&)> on_denied_;
  const std::function<void()> on_broken_;
  bool stands_ = false;  // a connection, whose handshake has ended well
  BrokenHandshakes broken_;
};

}  // namespace paceline::wire
