#include "common/wire/zmq_pump.h"

#include <boost/asio/post.hpp>
#include <cstring>
#include <utility>

#include "common/assert.h"

namespace paceline::wire {
namespace {

// A frame up to this size is read, refused and counted; ZeroMQ closes the connection of a sender that
// announces more, before it allocates anything.
constexpr std::int64_t kFrameBytesRead = 4 * static_cast<std::int64_t>(kPayloadBytesMax);
// Received messages that ZeroMQ holds for us per connection; beyond it the sender's queue fills up instead.
constexpr int kReceiveQueueMessages = 256;
// What ZeroMQ may hold of one connection besides whole messages: a message of two of the largest frames that
// are read.
constexpr std::int64_t kUnfinishedBytesMax = 2 * kFrameBytesRead;
// And while whole messages wait to be read: as many of them as may, with two full frames each.
constexpr std::int64_t kUnreadBytesMax =
    kUnfinishedBytesMax + kReceiveQueueMessages * 2 * static_cast<std::int64_t>(kPayloadBytesMax);
// Messages read before timers and other sockets get their turn.
constexpr int kBatch = 64;

Status not_sent(const char* name, int error) {
  const std::string what = std::string("sending ") + name + ": ";
  if (error == EAGAIN) return resource_exhausted(what + "the peer's queue is full");
  if (error == EHOSTUNREACH) return unavailable(what + "the peer is gone");
  return internal_error(what + zmq_strerror(error));
}

}  // namespace

Pump::Pump(Context& context, boost::asio::io_context& io, zmq::socket_type type,
           const TransportOptions& options, Handler handler)
    : io_(io),
      socket_(context.impl().zmq, type),
      is_router_(type == zmq::socket_type::router),
      wake_(io),
      sharings_(std::make_shared<Sharings>(
          io, [this](const PeerId& to, const Beside& beside) { return send_beside(to, beside); })),
      handler_(std::move(handler)),
      unfinished_(kUnfinishedBytesMax, kUnreadBytesMax) {
  socket_.set(zmq::sockopt::linger, static_cast<int>(options.linger.count()));
  socket_.set(zmq::sockopt::sndhwm, options.send_queue_messages_max);
  socket_.set(zmq::sockopt::rcvhwm, kReceiveQueueMessages);
  socket_.set(zmq::sockopt::maxmsgsize, kFrameBytesRead);
  socket_.set(zmq::sockopt::backlog, 1024);  // every node connects at once
  socket_.set(zmq::sockopt::immediate, false);
  socket_.set(zmq::sockopt::reconnect_ivl, 50);
  socket_.set(zmq::sockopt::reconnect_ivl_max, 1000);
  socket_.set(zmq::sockopt::tcp_keepalive, 1);
  socket_.set(zmq::sockopt::tcp_keepalive_idle, 30);
  socket_.set(zmq::sockopt::tcp_keepalive_intvl, 10);
  socket_.set(zmq::sockopt::tcp_keepalive_cnt, 3);
  // A message to a peer that is gone is an error, not silently dropped.
  if (is_router_) socket_.set(zmq::sockopt::router_mandatory, true);
}

void Pump::start(const std::shared_ptr<SharedSegment>& memory, std::int64_t theirs_bytes_max) {
  if (memory != nullptr) sharings_->begin(PeerId(), memory, theirs_bytes_max);
  wake_.assign(socket_.get(zmq::sockopt::fd));
  schedule();
}

void Pump::watch_accepted(Context& context) {
  const std::string address = "inproc://accepted-" + std::to_string(context.impl().inproc++);
  if (zmq_socket_monitor(socket_.handle(), address.c_str(), ZMQ_EVENT_ACCEPTED) != 0) throw zmq::error_t();
  accepted_.emplace(context.impl().zmq, zmq::socket_type::pair);
  accepted_->set(zmq::sockopt::rcvhwm, 0);  // at a bound it would hold up ZeroMQ's thread
  accepted_->connect(address);
}

int Pump::break_unfinished() {
  if (!accepted_) return 0;
  zmq::message_t event;
  zmq::message_t address;
  while (receive_frame(*accepted_, event) && receive_frame(*accepted_, address)) {
    std::int32_t descriptor = -1;  // behind the event's number, 16 bits
    std::memcpy(&descriptor, event.data<std::byte>() + sizeof(std::uint16_t), sizeof descriptor);
    unfinished_.accepted(descriptor);
  }
  const int broken = unfinished_.break_up([this] { return !has_input(); });
  read_soon();  // asking may have swallowed the descriptor's notice
  counters_.malformed += broken;
  return broken;
}

void Pump::do_not_linger() {
  if (!closed_) socket_.set(zmq::sockopt::linger, 0);
}

void Pump::close() {
  if (closed_) return;
  closed_ = true;
  sharings_->close();
  if (wake_.is_open()) wake_.release();  // the descriptor is ZeroMQ's to close
  if (accepted_) zmq_socket_monitor(socket_.handle(), nullptr, 0);
  accepted_.reset();
  socket_.close();  // what is queued leaves within the linger time
  if (!in_handler_) handler_ = nullptr;
}

Status Pump::send(const PeerId* to, const Message& message) {
  const char* name = name_of(message.body);
  if (closed_) return failed_precondition(std::string("sending ") + name + ": the socket is closed");
  Sharing* const sharing = sharings_->with(to != nullptr ? *to : PeerId());
  Beside beside;
  if (sharing != nullptr) {
    sharing->say(beside);
    beside.region = sharing->lend(message.payload);
  }
  const Result<std::string> header = encode(message, beside);
  const bool in_frame = !message.payload.empty() && !beside.region;
  const int sent =
      header.is_ok() ? send_frames(socket_, to, *header, in_frame ? &message.payload : nullptr) : 0;
  if (sharing != nullptr && (sent != 0 || !header.is_ok())) sharing->unsay(beside);
  PACELINE_RETURN_IF_ERROR(header.status());
  if (sent == EHOSTUNREACH && sharing != nullptr) sharing->gone();
  read_soon();  // the send, also a vain one, may have swallowed the descriptor's notice
  if (sent != 0) return not_sent(name, sent);
  ++counters_.messages_sent;
  count(message.body, header->size() + (in_frame ? message.payload.size : 0));
  if (beside.region) counters_.shared_bytes += beside.region->bytes;
  return Status::ok();
}

bool Pump::send_beside(const PeerId& to, const Beside& beside) {
  const std::string header = encode(beside);
  const int sent = send_frames(socket_, is_router_ ? &to : nullptr, header, nullptr);
  if (!closed_) read_soon();
  if (sent != 0) return false;
  ++counters_.messages_sent;
  counters_.other_bytes += static_cast<std::int64_t>(header.size());
  return true;
}

void Pump::remember(const PeerId& from) {
  PACELINE_ASSERT(handled_ != nullptr, "no message is being handled");
  if (const auto socket = SocketId::of(zmq_msg_get(handled_->handle(), ZMQ_SRCFD))) {
    connections_.insert_or_assign(from, *socket);
  }
}

Status Pump::share_memory(const PeerId& from, const std::shared_ptr<SharedSegment>& memory,
                          std::int64_t theirs_bytes_max) {
  PACELINE_ASSERT(handled_ != nullptr, "no message is being handled");
  if (!handled_segment_) return failed_precondition("the peer announces no memory");
  return sharings_->begin(from, memory, theirs_bytes_max, *handled_segment_);
}

Status Pump::disconnect(const PeerId& peer) {
  const auto known = connections_.find(peer);
  if (known == connections_.end()) {
    sharings_->end(peer);
    return not_found("disconnecting: the connection is not known");
  }
  const SocketId::ShutDown said = known->second.shut_down();
  if (said == SocketId::ShutDown::kNoDescriptor) {
    return resource_exhausted("disconnecting: this process can open no more files");
  }
  sharings_->end(peer);
  connections_.erase(known);
  return said == SocketId::ShutDown::kDone ? Status::ok()
                                           : not_found("disconnecting: the connection is closed already");
}

bool Pump::has_input() {
  return repeat_if_interrupted([&] { return (socket_.get(zmq::sockopt::events) & ZMQ_POLLIN) != 0; });
}

// Whoever is reading looks once more before it waits.
void Pump::read_soon() {
  if (!draining_) schedule();
}

void Pump::schedule() {
  if (scheduled_) return;
  scheduled_ = true;
  boost::asio::post(io_, [self = shared_from_this()] {
    self->scheduled_ = false;
    self->drain();
  });
}

void Pump::wait() {
  if (waiting_) return;
  waiting_ = true;
  wake_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                   [self = shared_from_this()](const boost::system::error_code& error) {
                     self->waiting_ = false;
                     if (!error) self->drain();
                   });
}

// Looking for a message and finding none has ZeroMQ take in all that its own threads have told it, so the
// descriptor tells of whatever comes after that. Each look that finds one costs no call of the kernel, as
// asking for ZMQ_EVENTS would.
void Pump::drain() {
  draining_ = true;
  int read = 0;
  while (read < kBatch && !closed_ && read_one()) ++read;
  draining_ = false;
  if (closed_) return;
  read < kBatch ? wait() : schedule();
}

bool Pump::read_one() {
  received_at_ = steady_now();
  PeerId from;
  zmq::message_t frames[2];
  int count = 0;
  std::size_t bytes = 0;
  bool more = true;
  try {
    zmq::message_t frame;
    if (is_router_) {
      if (!receive_frame(socket_, frame)) return false;
      from = frame.to_string();
      more = frame.more();
    }
    while (more) {  // ZeroMQ hands out whole messages: the rest is there
      if (!receive_frame(socket_, frame)) return false;
      more = frame.more();
      bytes += frame.size();
      if (count < 2) frames[count] = std::move(frame);
      ++count;
    }
  } catch (const zmq::error_t& error) {
    deliver(from, internal_error(std::string("receiving: ") + error.what()));
    return false;
  }
  ++counters_.messages_received;
  handled_ = &frames[0];
  if (accepted_) unfinished_.read_from(zmq_msg_get(handled_->handle(), ZMQ_SRCFD));
  handled_segment_.reset();
  Result<std::optional<Message>> message = checked(from, frames, count);
  if (!message.is_ok()) {
    ++counters_.malformed;
    counters_.other_bytes += static_cast<std::int64_t>(bytes);
    deliver(from, message.status());
  } else if (!message->has_value()) {  // from one transport to the other
    counters_.other_bytes += static_cast<std::int64_t>(bytes);
  } else {
    this->count((*message)->body, bytes);
    deliver(from, *std::move(*message));
  }
  handled_ = nullptr;
  return true;
}

Result<std::optional<Message>> Pump::checked(const PeerId& from, zmq::message_t (&frames)[2], int count) {
  if (count < 1 || count > 2) {
    return invalid_argument("message: got " + std::to_string(count) + " frames, expected 1 or 2");
  }
  if (frames[1].size() > kPayloadBytesMax) {
    return invalid_argument("payload frame: got " + std::to_string(frames[1].size()) +
                            " bytes, expected at most " + std::to_string(kPayloadBytesMax));
  }
  PACELINE_ASSIGN_OR_RETURN(Header header, decode_header({frames[0].data<char>(), frames[0].size()}));
  if (!header.body && (count > 1 || header.beside.region)) {
    return invalid_argument("header: got a payload without a body, expected neither or both");
  }
  // A router shares memory with those that share_memory() was called for; what a stranger, or somebody whom
  // it has parted with, says beside a message means nothing.
  handled_segment_ = header.beside.segment;
  if (Sharing* const sharing = sharings_->with(from)) {
    // If it cannot be mapped, payloads go on coming in frames; shares_memory() says why.
    if (handled_segment_ && !is_router_) (void)sharing->map(*handled_segment_);
    PACELINE_RETURN_IF_ERROR(sharing->heard(header.beside));
  }
  Payload payload;
  if (header.beside.region) {
    if (frames[1].size() > 0) {
      return invalid_argument("header.region: got a payload frame too, expected one of the two");
    }
    PACELINE_ASSIGN_OR_RETURN(std::optional<Payload> borrowed,
                              sharings_->borrow(from, *header.beside.region, header.encoding));
    if (!borrowed) return std::optional<Message>();
    payload = *std::move(borrowed);
    counters_.shared_bytes += header.beside.region->bytes;
  } else if (frames[1].size() > 0) {
    payload = payload_of(std::move(frames[1]));
  }
  if (!header.body) return std::optional<Message>();
  PACELINE_ASSIGN_OR_RETURN(Message message, with_payload(std::move(header), std::move(payload)));
  return std::optional<Message>(std::move(message));
}

void Pump::deliver(const PeerId& from, Result<Message> message) {
  in_handler_ = true;
  handler_(from, std::move(message));
  in_handler_ = false;
  if (closed_) handler_ = nullptr;  // close() could not free what was running
}

void Pump::count(const Body& body, std::size_t bytes) {
  std::int64_t& kind = std::holds_alternative<Push>(body) ? counters_.push_bytes
                       : std::holds_alternative<Parameters>(body) || std::holds_alternative<Unchanged>(body)
                           ? counters_.parameter_bytes
                           : counters_.other_bytes;
  kind += static_cast<std::int64_t>(bytes);
}

}  // namespace paceline::wire
