// ZeroMQ's calls, repeated where a signal interrupts them.
//
// Only zmq_* and transport_zmq.cc include this: nobody else sees ZeroMQ.
#pragma once

#include <zmq.hpp>

namespace paceline::wire {

// A signal handler that ran (Ctrl-C) interrupts ZeroMQ's calls, even those that do not wait: they are simply
// repeated.
template <typename Call>
auto repeat_if_interrupted(Call call) {
  for (;;) {
    try {
      return call();
    } catch (const zmq::error_t& error) {
      if (error.num() != EINTR) throw;
    }
  }
}

// The next frame, if there is one. Throws zmq::error_t.
inline bool receive_frame(zmq::socket_t& socket, zmq::message_t& frame) {
  return repeat_if_interrupted([&] { return socket.recv(frame, zmq::recv_flags::dontwait).has_value(); });
}

}  // namespace paceline::wire
