// What a Pump says: what has gathered, together, and payloads in frames or lent. Frames are not copied: ZeroMQ sends
// payloads from the caller's memory (zmq_msg_init_data), and lets go of them on any thread.
#include <atomic>
#include <boost/asio/post.hpp>
#include <memory>
#include <utility>

#include "common/wire/zmq_pump.h"

namespace paceline::wire {
namespace {

Status not_sent(const char* name, int error) {
  const std::string what = std::string("sending ") + name + ": ";
  if (error == EAGAIN) return resource_exhausted(what + "the peer's queue is full");
  if (error == EHOSTUNREACH) return unavailable(what + "the peer is gone");
  return internal_error(what + zmq_strerror(error));
}

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

// A message to `to` (a router's), or to the one peer that there is: its header, and its payload unless that
// is null. 0, or the error; it leaves whole or not at all. ZeroMQ checks room and peer at the first frame, so
// nothing is marked that does not leave. `mark`: of a router's small message (unread.h).
int send_frames(zmq::socket_t& socket, const PeerId* to, const std::string& header, const Payload* payload,
                const std::optional<Mark>& mark = {}) {
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

}  // namespace

// An event of a log is told to a replica by itself: whether it left decides what may be said to others.
Status Pump::send(const PeerId* to, Message message) {
  const char* name = name_of(message.body);
  if (closed_) return failed_precondition(std::string("sending ") + name + ": the socket is closed");
  PACELINE_ASSIGN_OR_RETURN(std::string header, encode(message));
  Outgoing outgoing{std::move(header), std::move(message.payload), name, counter_of(message.body),
                    travels_with_others(message.body) && !message.logged};
  if (!on_unsent_) return send_together(to, {&outgoing, 1});
  const PeerId peer = to != nullptr ? *to : PeerId();
  if (!joins(gathered_.of(peer), outgoing)) {
    PACELINE_RETURN_IF_ERROR(send_together(to, gathered_.take(peer)));
  }
  if (!outgoing.travels_with_others) return send_together(to, {&outgoing, 1});
  gathered_.add(peer, std::move(outgoing));
  flush_soon();
  return Status::ok();
}

// As one message: all but the one that carries them lie in its header.
Status Pump::send_together(const PeerId* to, std::span<const Outgoing> messages) {
  const std::size_t at = carrier(messages);
  const Outgoing& carries = messages[at];
  Sharing* const sharing = sharings_->with(to != nullptr ? *to : PeerId());
  Beside beside;
  if (sharing != nullptr) {
    sharing->announce(beside);
    beside.region = sharing->lend(carries.payload);
  }
  std::string header = carries.header;
  if (beside != Beside{}) header += encode(beside);
  Others others;
  for (const Outgoing& message : messages.first(at)) others.before.push_back(message.header);
  for (const Outgoing& message : messages.subspan(at + 1)) others.after.push_back(message.header);
  if (messages.size() > 1) header += encode(others);
  const bool fits = header.size() <= kHeaderBytesMax;
  const bool in_frame = !carries.payload.empty() && !beside.region;
  const int sent = fits ? send_to(to, header, in_frame ? &carries.payload : nullptr,
                                  beside.region ? Size::kLarge : size_of(carries.payload))
                        : 0;
  if (sharing != nullptr && (sent != 0 || !fits)) sharing->retract(beside);
  if (!fits) {
    return invalid_argument(std::string(carries.name) + ": header: got " + std::to_string(header.size()) +
                            " bytes, expected at most " + std::to_string(kHeaderBytesMax));
  }
  read_soon();  // the send, also a vain one, may have swallowed the descriptor's notice
  if (sent != 0) return not_sent(carries.name, sent);
  ++counters_.messages_sent;
  std::size_t rest = header.size() + (in_frame ? carries.payload.size : 0);
  for (const Outgoing& message : messages) {
    if (&message == &carries) continue;
    counters_.*message.counted += static_cast<std::int64_t>(message.header.size());
    rest -= message.header.size();
  }
  counters_.*carries.counted += static_cast<std::int64_t>(rest);
  if (beside.region) counters_.shared_bytes += beside.region->bytes;
  return Status::ok();
}

void Pump::flush_soon() {
  if (flush_posted_) return;
  flush_posted_ = true;
  boost::asio::post(io_, [self = shared_from_this()] {
    self->flush_posted_ = false;
    if (!self->closed_) self->flush();
  });
}

// Whoever hears that something cannot be sent may say more, or close the socket.
void Pump::flush() {
  for (const auto& [to, messages] : gathered_.take_all()) {
    const Status sent = send_together(is_router_ ? &to : nullptr, messages);
    if (!sent.is_ok() && !closed_) on_unsent_(to, sent);
  }
}

bool Pump::send_beside(const PeerId& to, const Beside& beside) {
  const std::string header = encode(beside);
  const int sent = send_to(is_router_ ? &to : nullptr, header, nullptr, Size::kSmall);
  if (!closed_) read_soon();
  if (sent != 0) return false;
  ++counters_.messages_sent;
  counters_.other_bytes += static_cast<std::int64_t>(header.size());
  return true;
}

// What is small is counted while it waits.
int Pump::send_to(const PeerId* to, const std::string& header, const Payload* payload, Size size) {
  if (to == nullptr || size == Size::kLarge) return send_frames(socket_, to, header, payload);
  Unread::Queue& queue = unread_.of(*to);
  const std::optional<Mark> mark = queue.mark();
  const int sent = send_frames(socket_, to, header, payload, mark);
  if (sent == 0) queue.sent(mark);
  if (sent == EHOSTUNREACH) unread_.forget(*to);
  return sent;
}

}  // namespace paceline::wire
