// What a Pump says: what has gathered, together, and payloads in frames or lent.
#include <boost/asio/post.hpp>
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
  for (const Outgoing& message : messages.first(at)) others.ahead.push_back(message.header);
  for (const Outgoing& message : messages.subspan(at + 1)) others.behind.push_back(message.header);
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
