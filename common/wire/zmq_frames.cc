#include "common/wire/zmq_frames.h"

#include <atomic>
#include <memory>
#include <utility>

namespace paceline::wire {
namespace {

// What keeps a payload alive while ZeroMQ sends it. ZeroMQ lets go of it on its own thread; `handed_over`
// orders what we did to it before what is done there, without relying on how ZeroMQ passes pointers between
// threads.
struct InFlight {
  std::shared_ptr<const void> owner;
  std::atomic<bool> handed_over{false};

  static void let_go(void*, void* hint) {
    auto* self = static_cast<InFlight*>(hint);
    [[maybe_unused]] const bool ours = self->handed_over.load(std::memory_order_acquire);
    delete self;
  }
};

zmq::message_t uncopied(const Payload& payload) {
  auto* in_flight = new InFlight{payload.owner};
  in_flight->handed_over.store(true, std::memory_order_release);
  return {const_cast<std::byte*>(payload.data), payload.size, &InFlight::let_go, in_flight};
}

zmq::message_t frame_of(const Payload& payload) {
  if (payload.size <= kCopiedBytesMax) return {payload.data, payload.size};
  return uncopied(payload);
}

// A header that says when it has left.
struct Marked {
  Marked(const std::string& text, const Mark& with) : header(text), mark(with) {}
  ~Marked() { mark.left->store(mark.number, std::memory_order_release); }
  Marked(const Marked&) = delete;
  const std::string header;
  const Mark mark;
};

zmq::message_t frame_of(const std::string& header, const std::optional<Mark>& mark) {
  if (!mark) return {header.data(), header.size()};
  const auto marked = std::make_shared<const Marked>(header, *mark);
  Payload whole;
  whole.owner = marked;
  whole.data = reinterpret_cast<const std::byte*>(marked->header.data());
  whole.size = marked->header.size();
  return uncopied(whole);
}

enum class Follows { kNothing, kMore };

bool send_frame(zmq::socket_t& socket, zmq::message_t frame, Follows follows) {
  const auto flags = zmq::send_flags::dontwait |
                     (follows == Follows::kMore ? zmq::send_flags::sndmore : zmq::send_flags::none);
  return repeat_if_interrupted([&] { return socket.send(frame, flags).has_value(); });
}

}  // namespace

int send_frames(zmq::socket_t& socket, const PeerId* to, const std::string& header, const Payload* payload,
                const std::optional<Mark>& mark) {
  try {
    if (to != nullptr && !send_frame(socket, zmq::message_t(to->data(), to->size()), Follows::kMore)) {
      return EAGAIN;
    }
    const Follows after_header = payload == nullptr ? Follows::kNothing : Follows::kMore;
    if (!send_frame(socket, frame_of(header, mark), after_header)) return EAGAIN;
    if (payload == nullptr) return 0;
    return send_frame(socket, frame_of(*payload), Follows::kNothing) ? 0 : EAGAIN;
  } catch (const zmq::error_t& error) {
    return error.num();
  }
}

bool receive_frame(zmq::socket_t& socket, zmq::message_t& frame) {
  return repeat_if_interrupted([&] { return socket.recv(frame, zmq::recv_flags::dontwait).has_value(); });
}

Payload payload_of(zmq::message_t&& frame) {
  const auto owner =
      std::make_shared<zmq::message_t>(std::move(frame));  // small ones lie inside the object itself
  return {owner, owner->data<std::byte>(), owner->size()};
}

Status refused(const std::string& what, const std::string& endpoint, int error) {
  const std::string line = what + " " + endpoint + ": " + zmq_strerror(error);
  const bool malformed = error == EINVAL || error == EPROTONOSUPPORT || error == ENAMETOOLONG;
  return malformed ? invalid_argument(line + "; expected tcp://host:port or ipc://path") : unavailable(line);
}

}  // namespace paceline::wire
