#include "common/wire/zmq_pump.h"

#include <algorithm>
#include <boost/asio/post.hpp>
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
// A connection that has not finished its handshake by then is closed by ZeroMQ.
constexpr int kHandshakeMs = 10'000;

// The frame as a payload, which keeps it in ZeroMQ's memory.
Payload payload_of(zmq::message_t&& frame) {
  const auto owner =
      std::make_shared<zmq::message_t>(std::move(frame));  // small ones lie inside the object itself
  return {owner, owner->data<std::byte>(), owner->size()};
}

}  // namespace

Pump::Pump(Context& context, boost::asio::io_context& io, zmq::socket_type type,
           const TransportOptions& options, Handler handler)
    : context_(context.impl()),
      io_(io),
      socket_(context_.zmq, type),
      is_router_(type == zmq::socket_type::router),
      wake_(io),
      sharings_(std::make_shared<Sharings>(
          io, [this](const PeerId& to, const Beside& beside) { return send_beside(to, beside); })),
      handler_(std::move(handler)),
      on_unsent_(options.on_unsent),
      pin_(options.pin) {
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
  if (is_router_) {
    // A message to a peer that is gone is an error, not silently dropped.
    socket_.set(zmq::sockopt::router_mandatory, true);
    socket_.set(zmq::sockopt::handshake_ivl, kHandshakeMs);
    accepted_.emplace(context_, options, kUnfinishedBytesMax, kUnreadBytesMax);
    accepted_->watch(socket_, options.server_keys.get());
  } else if (options.client_keys) {
    socket_.set(zmq::sockopt::curve_serverkey, options.client_keys->server);
    socket_.set(zmq::sockopt::curve_publickey, options.client_keys->own.public_key);
    socket_.set(zmq::sockopt::curve_secretkey, options.client_keys->own.secret_key);
  }
}

void Pump::start(const std::shared_ptr<SharedSegment>& memory, std::int64_t theirs_bytes_max) {
  if (memory != nullptr) sharings_->begin(PeerId(), memory, theirs_bytes_max, pin_);
  wake_.assign(socket_.get(zmq::sockopt::fd));
  if (accepted_) accepted_->bound(socket_.get(zmq::sockopt::last_endpoint));
  if (handshakes_) handshakes_->start();
  schedule();
}

void Pump::watch_handshakes(const TransportOptions& options) {
  const std::string own_name = options.client_keys ? options.client_keys->own_name : "";
  // While it calls, this is there: closing ends it.
  const auto broken = [this, on_broken = options.on_broken] {
    const auto self = shared_from_this();
    read_rest();
    if (!closed_) on_broken();
  };
  handshakes_ = std::make_shared<Handshakes>(context_, io_, socket_, own_name, options.on_denied, broken);
}

int Pump::break_unfinished(std::vector<PeerId>* whose) {
  if (closed_) return 0;
  const int broken = accepted().break_unfinished([this] { return !has_input(); }, whose);
  read_soon();  // asking may have swallowed the descriptor's notice
  counters_.malformed += broken;
  return broken;
}

std::vector<std::string> Pump::keep_out(Ticks now) { return accepted().keep_out(now, counters_); }

bool Pump::count_wrong(const PeerId& from, Wrong what) {
  if (!accepted().count(what, from)) return false;
  sharings_->end(from);
  (void)gathered_.take(from);
  return true;
}

void Pump::do_not_linger() {
  lingers_ = false;
  if (!closed_) socket_.set(zmq::sockopt::linger, 0);
}

void Pump::close() {
  if (closed_) return;
  closed_ = true;
  if (lingers_) flush();  // of which nobody is told any more
  sharings_->close();
  if (wake_.is_open()) wake_.release();  // the descriptor is ZeroMQ's to close
  if (handshakes_) handshakes_->close();
  if (accepted_) accepted_->unwatch();
  socket_.close();  // what is queued leaves within the linger time
  if (accepted_) accepted_->deregister();
  if (!in_handler_) handler_ = nullptr;
}

Status Pump::share_memory(const PeerId& from, const std::shared_ptr<SharedSegment>& memory,
                          std::int64_t theirs_bytes_max) {
  PACELINE_ASSERT(in_handler_, "no message is being handled");
  if (!handled_segment_) return failed_precondition("the peer announces no memory");
  return sharings_->begin(from, memory, theirs_bytes_max, *handled_segment_, pin_);
}

Status Pump::disconnect(const PeerId& peer) {
  Status done = accepted().disconnect(peer);
  if (done.code() == StatusCode::kResourceExhausted) return done;
  sharings_->end(peer);
  (void)gathered_.take(peer);
  return done;
}

void Pump::give_up(const PeerId& peer) {
  // Its peer's kernel has been told: where no descriptor is free it ends by that.
  (void)disconnect(peer);
  sharings_->end(peer);
  (void)gathered_.take(peer);
  unread_.forget(peer);
  accepted().give_up(peer);
}

std::shared_ptr<const void> Pump::lent() const {
  const Sharing* const sharing = sharings_->with(PeerId());
  return sharing == nullptr ? nullptr : sharing->keep_lent();
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
  read_ = 0;
  bool more = true;
  while (more && read_ < kBatch) more = !closed_ && read_one();
  draining_ = false;
  if (closed_) return;
  more ? schedule() : wait();
}

// A connection has broken: what had come over it is here, and is handed out before anybody hears of that.
void Pump::read_rest() {
  draining_ = true;
  for (int read = 0; read < 2 * kReceiveQueueMessages && !closed_ && read_one(); ++read) {
  }
  draining_ = false;
  if (!closed_) schedule();
}

bool Pump::read_one() {
  received_at_ = steady_now();
  handled_segment_.reset();  // the last message's
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
  ++read_;
  if (drop_if_ignored(from)) return true;
  if (accepted_) accepted_->handles(&frames[0]);
  Result<Received> received = checked(from, frames, count);
  if (!received.is_ok()) {
    ++counters_.malformed;
    counters_.other_bytes += static_cast<std::int64_t>(bytes);
    deliver(from, received.status());
  } else {
    deliver_all(from, *std::move(received), bytes);
  }
  if (accepted_) accepted_->handles(nullptr);
  if (!closed_) flush();
  return true;
}

Result<Pump::Received> Pump::checked(const PeerId& from, zmq::message_t (&frames)[2], int count) {
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
    PACELINE_RETURN_IF_ERROR(sharing->on_receive(header.beside));
  }
  Payload payload;
  if (header.beside.region) {
    if (frames[1].size() > 0) {
      return invalid_argument("header.region: got a payload frame too, expected one of the two");
    }
    PACELINE_ASSIGN_OR_RETURN(std::optional<Payload> borrowed,
                              sharings_->borrow(from, *header.beside.region, header.encoding));
    if (!borrowed) return Received{std::move(header.before), {}, std::move(header.after)};
    payload = *std::move(borrowed);
    counters_.shared_bytes += header.beside.region->bytes;
  } else if (frames[1].size() > 0) {
    payload = payload_of(std::move(frames[1]));
  }
  Received received;
  if (!header.body) return received;
  received.before = std::move(header.before);
  received.after = std::move(header.after);
  PACELINE_ASSIGN_OR_RETURN(received.message, with_payload(std::move(header), std::move(payload)));
  return received;
}

// Until its handler has parted with the peer, or closed the socket.
void Pump::deliver_all(const PeerId& from, Received received, std::size_t bytes) {
  const auto goes_on = [&](Message message, std::size_t of_these) {
    counters_.*counter_of(message.body) += static_cast<std::int64_t>(of_these);
    deliver(from, std::move(message));
    received_at_ = steady_now();  // the next one, of which only the handling is left
    return !closed_;
  };
  std::size_t rest = bytes;
  for (const auto* others : {&received.before, &received.after}) {
    for (const Header::Other& other : *others) rest -= other.bytes;
    read_ += static_cast<int>(others->size());
  }
  for (Header::Other& other : received.before) {
    if (!goes_on(std::move(other.message), other.bytes) || drop_if_ignored(from)) return;
  }
  if (!received.message) {  // from one transport to the other, or of no interest
    counters_.other_bytes += static_cast<std::int64_t>(rest);
  } else if (!goes_on(*std::move(received.message), rest)) {
    return;
  }
  for (Header::Other& other : received.after) {
    if (drop_if_ignored(from) || !goes_on(std::move(other.message), other.bytes)) return;
  }
}

void Pump::deliver(const PeerId& from, Result<Message> message) {
  in_handler_ = true;
  handler_(from, std::move(message));
  in_handler_ = false;
  if (closed_) handler_ = nullptr;  // close() could not free what was running
}

}  // namespace paceline::wire
