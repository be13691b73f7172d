// ZmqMonitor: what ZeroMQ tells about a socket's connections, on a socket of its own: that one was accepted,
// how a handshake ended.
//
// Thread: the watched socket's. Must be gone before that is closed.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <zmq.hpp>

#include "common/wire/zmq_calls.h"
#include "common/wire/zmq_context.h"

namespace paceline::wire {

class ZmqMonitor {
 public:
  struct Event {
    std::uint16_t kind = 0;  // one of ZMQ_EVENT_*
    std::int32_t value = 0;  // a descriptor, or what the kind says
  };

  // `kinds`: of ZMQ_EVENT_*, or'ed. Throws zmq::error_t.
  ZmqMonitor(Context::Impl& context, zmq::socket_t& watched, int kinds)
      : watched_(watched), events_(context.zmq, zmq::socket_type::pair) {
    const std::string address = context.inproc_address("monitor");
    if (zmq_socket_monitor(watched.handle(), address.c_str(), kinds) != 0) throw zmq::error_t();
    events_.set(zmq::sockopt::rcvhwm, 0);  // at a bound it would hold up ZeroMQ's thread
    events_.connect(address);
  }
  ~ZmqMonitor() { zmq_socket_monitor(watched_.handle(), nullptr, 0); }
  ZmqMonitor(const ZmqMonitor&) = delete;
  ZmqMonitor& operator=(const ZmqMonitor&) = delete;

  // Readable when there may be something, told once: to be read until there is nothing (zmq_pump.h).
  int descriptor() const { return events_.get(zmq::sockopt::fd); }

  std::optional<Event> next() {
    zmq::message_t event;
    zmq::message_t address;
    if (!receive_frame(events_, event)) return std::nullopt;
    while (event.more() && !receive_frame(events_, address)) {
    }  // a whole message is there
    Event event_read;
    if (event.size() < sizeof event_read.kind + sizeof event_read.value) return event_read;
    std::memcpy(&event_read.kind, event.data<std::byte>(), sizeof event_read.kind);
    std::memcpy(&event_read.value, event.data<std::byte>() + sizeof event_read.kind, sizeof event_read.value);
    return event_read;
  }

 private:
  zmq::socket_t& watched_;
  zmq::socket_t events_;
};

}  // namespace paceline::wire
