// Frames of ZeroMQ, without a copy: payloads are sent from the caller's memory (zmq_msg_init_data) and
// received into ZeroMQ's.
//
// Only zmq_* and transport_zmq.cc include this: nobody else sees ZeroMQ.
//
// Thread: the socket's; payloads are let go of on any.
#pragma once

#include <optional>
#include <string>
#include <zmq.hpp>

#include "common/status.h"
#include "common/wire/messages.h"
#include "common/wire/transport.h"
#include "common/wire/unread.h"

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

// A message to `to` (a router's), or to the one peer that there is: its header, and its payload unless that
// is null. 0, or the error; it leaves whole or not at all. ZeroMQ checks room and peer at the first frame, so
// nothing is marked that does not leave. `mark`: of a router's small message (unread.h).
int send_frames(zmq::socket_t& socket, const PeerId* to, const std::string& header, const Payload* payload,
                const std::optional<Mark>& mark = {});

// The next frame, if there is one. Throws zmq::error_t.
bool receive_frame(zmq::socket_t& socket, zmq::message_t& frame);

// The frame as a payload, which keeps it.
Payload payload_of(zmq::message_t&& frame);

// What to say where `what`, which names the endpoint, failed with an error of ZeroMQ's.
Status refused(const std::string& what, const std::string& endpoint, int error);

}  // namespace paceline::wire
