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
// Of how many broken connections what was received before is still dropped: that is over in a moment.
constexpr std::size_t kDroppedMax = 64;
// And of those that were given up for another connection. What is read of older ones is a stranger's.
constexpr std::size_t kGivenUpMax = 256;

// Both are in the library since 4.3 and in zmq.h only for those who ask for its drafts.
constexpr int kZapEnforceDomain = 93;
constexpr const char* kUserId = "User-Id";

// A connection's handshake, on the server's side.
const char* why_it_failed(const ZmqMonitor::Event& event, bool has_keys) {
  if (event.kind == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL) {
    return "it ended within the handshake, as one without keys may";
  }
  if (event.value != ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH) {
    return "it began with what ZeroMQ's protocol does not allow, or with another server's key";
  }
  return has_keys ? "it speaks without keys (security.keys)"
                  : "it speaks with keys, and this server has none (security.keys)";
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
      pin_(options.pin),
      admission_(std::make_shared<Admission>(options.server_keys ? options.server_keys->allowed
                                                                 : std::map<std::string, std::string>())),
      unfinished_(kUnfinishedBytesMax, kUnreadBytesMax),
      all_connections_(options.connections_max) {
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
  if (is_router_) socket_.set(zmq::sockopt::handshake_ivl, kHandshakeMs);
  set_keys(options);
}

// Should nobody answer who may come in, nobody does: that is what enforcing the domain means.
void Pump::set_keys(const TransportOptions& options) {
  if (is_router_ && options.server_keys) {
    domain_ = context_.gate().add(admission_);
    socket_.set(zmq::sockopt::curve_server, true);
    socket_.set(zmq::sockopt::curve_secretkey, options.server_keys->own.secret_key);
    socket_.set(zmq::sockopt::zap_domain, domain_);
    const int enforced = 1;
    if (zmq_setsockopt(socket_.handle(), kZapEnforceDomain, &enforced, sizeof enforced) != 0) {
      throw zmq::error_t();
    }
  } else if (!is_router_ && options.client_keys) {
    socket_.set(zmq::sockopt::curve_serverkey, options.client_keys->server);
    socket_.set(zmq::sockopt::curve_publickey, options.client_keys->own.public_key);
    socket_.set(zmq::sockopt::curve_secretkey, options.client_keys->own.secret_key);
  }
}

void Pump::start(const std::shared_ptr<SharedSegment>& memory, std::int64_t theirs_bytes_max) {
  if (memory != nullptr) sharings_->begin(PeerId(), memory, theirs_bytes_max, pin_);
  wake_.assign(socket_.get(zmq::sockopt::fd));
  if (is_router_) accepted_at_.emplace(socket_.get(zmq::sockopt::last_endpoint));
  if (handshakes_) handshakes_->start();
  schedule();
}

void Pump::watch_accepted() {
  int kinds = ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL;
  // Who has no keys may see first that it is in the wrong place, and just goes.
  if (!domain_.empty()) kinds |= ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;
  accepted_.emplace(context_, socket_, kinds);
}

void Pump::watch_handshakes(const TransportOptions& options) {
  const std::string own_name = options.client_keys ? options.client_keys->own_name : "";
  // While it calls, this is there: closing ends it.
  const auto broken = [this, tell = options.on_broken] {
    const auto self = shared_from_this();
    read_rest();
    if (!closed_) tell();
  };
  handshakes_ = std::make_shared<Handshakes>(context_, io_, socket_, own_name, options.on_denied, broken);
}

void Pump::hear_of_connections() {
  if (!accepted_ || !accepted_at_) return;
  while (const std::optional<ZmqMonitor::Event> event = accepted_->next()) {
    if (event->kind != ZMQ_EVENT_ACCEPTED) {
      admission_->note("a connection", why_it_failed(*event, !domain_.empty()));
    } else if (accepted_at_->fits(event->value)) {  // else it has gone already
      unfinished_.accepted(event->value);
      all_connections_.accepted(event->value);
    }
  }
}

int Pump::break_unfinished(std::vector<PeerId>* whose) {
  if (!accepted_) return 0;
  hear_of_connections();
  std::vector<SocketId> sockets;
  const int broken = unfinished_.break_up([this] { return !has_input(); }, sockets);
  for (const auto& [peer, socket] : connections_) {
    const bool theirs = std::find(sockets.begin(), sockets.end(), socket) != sockets.end();
    if (theirs && whose != nullptr) whose->push_back(peer);
  }
  read_soon();  // asking may have swallowed the descriptor's notice
  counters_.malformed += broken;
  return broken;
}

std::vector<std::string> Pump::keep_out(Ticks now) {
  hear_of_connections();
  for (int broken = all_connections_.break_surplus(); broken > 0; --broken) {
    admission_->note("a stranger", "there are more connections than the run has members, with some to spare");
  }
  counters_.kept_out = admission_->kept_out();
  return admission_->due(now);
}

// Only the gate can have said it: what a peer says of itself takes no place that is taken.
std::string Pump::key_name() const {
  PACELINE_ASSERT(handled_ != nullptr, "no message is being handled");
  if (domain_.empty()) return "";
  const char* const name = zmq_msg_gets(handled_->handle(), kUserId);
  return name != nullptr ? name : "";
}

bool Pump::said_wrong(const PeerId& from, Wrong what) {
  PACELINE_ASSERT(handled_ != nullptr, "no message is being handled");
  hear_of_connections();
  if (!all_connections_.said(what, handled_over(), from)) return false;
  sharings_->end(from);
  (void)gathered_.take(from);
  connections_.erase(from);
  dropped_.push_back(from);
  admission_->note("a connection", "it went on sending messages that are malformed, or refused");
  if (dropped_.size() > kDroppedMax) dropped_.pop_front();
  return true;
}

void Pump::do_not_linger() {
  lingers_ = false;
  if (!closed_) socket_.set(zmq::sockopt::linger, 0);
}

void Pump::close() {
  if (closed_) return;
  closed_ = true;
  if (lingers_) leave();  // of which nobody is told any more
  sharings_->close();
  if (wake_.is_open()) wake_.release();  // the descriptor is ZeroMQ's to close
  if (handshakes_) handshakes_->close();
  accepted_.reset();
  socket_.close();  // what is queued leaves within the linger time
  if (!domain_.empty()) context_.gate().remove(domain_);
  if (!in_handler_) handler_ = nullptr;
}

// -1 where that has gone, and the number is no connection's of this socket now.
int Pump::handled_over() const {
  const int descriptor = zmq_msg_get(handled_->handle(), ZMQ_SRCFD);
  return accepted_at_ && accepted_at_->fits(descriptor) ? descriptor : -1;
}

// The connection may have ended before this message was read, and its number may be another connection's now.
// What is noted here is then never used: it is for breaking the connection of a peer that does not read, and
// nothing is on its way to one that has gone.
void Pump::remember(const PeerId& from) {
  PACELINE_ASSERT(handled_ != nullptr, "no message is being handled");
  const int descriptor = handled_over();
  if (const auto socket = SocketId::of(descriptor)) connections_.insert_or_assign(from, *socket);
  all_connections_.admit(descriptor, from);
}

Status Pump::share_memory(const PeerId& from, const std::shared_ptr<SharedSegment>& memory,
                          std::int64_t theirs_bytes_max) {
  PACELINE_ASSERT(handled_ != nullptr, "no message is being handled");
  if (!handled_segment_) return failed_precondition("the peer announces no memory");
  return sharings_->begin(from, memory, theirs_bytes_max, *handled_segment_, pin_);
}

Status Pump::disconnect(const PeerId& peer) {
  const auto known = connections_.find(peer);
  if (known == connections_.end()) {
    sharings_->end(peer);
    (void)gathered_.take(peer);
    return not_found("disconnecting: the connection is not known");
  }
  const SocketId::ShutDown said = known->second.shut_down();
  if (said == SocketId::ShutDown::kNoDescriptor) {
    return resource_exhausted("disconnecting: this process can open no more files");
  }
  sharings_->end(peer);
  (void)gathered_.take(peer);
  connections_.erase(known);
  return said == SocketId::ShutDown::kDone ? Status::ok()
                                           : not_found("disconnecting: the connection is closed already");
}

void Pump::give_up(const PeerId& peer) {
  // Its peer's kernel has been told: where no descriptor is free it ends by that.
  (void)disconnect(peer);
  sharings_->end(peer);
  (void)gathered_.take(peer);
  connections_.erase(peer);
  unread_.forget(peer);
  given_up_.push_back(peer);
  if (given_up_.size() > kGivenUpMax) given_up_.pop_front();
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
  if (is_ignored(from)) return true;
  handled_ = &frames[0];
  if (accepted_) unfinished_.read_from(zmq_msg_get(handled_->handle(), ZMQ_SRCFD));
  handled_segment_.reset();
  Result<Heard> heard = checked(from, frames, count);
  if (!heard.is_ok()) {
    ++counters_.malformed;
    counters_.other_bytes += static_cast<std::int64_t>(bytes);
    deliver(from, heard.status());
  } else {
    deliver_all(from, *std::move(heard), bytes);
  }
  handled_ = nullptr;
  if (!closed_) leave();
  return true;
}

// Whether what else this peer has sent is dropped unread.
bool Pump::is_ignored(const PeerId& from) {
  if (!dropped_.empty() && std::find(dropped_.begin(), dropped_.end(), from) != dropped_.end()) {
    ++counters_.malformed;
    return true;
  }
  if (!given_up_.empty() && std::find(given_up_.begin(), given_up_.end(), from) != given_up_.end()) {
    ++counters_.too_late;
    return true;
  }
  return false;
}

Result<Pump::Heard> Pump::checked(const PeerId& from, zmq::message_t (&frames)[2], int count) {
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
    if (!borrowed) return Heard{std::move(header.ahead), {}, std::move(header.behind)};
    payload = *std::move(borrowed);
    counters_.shared_bytes += header.beside.region->bytes;
  } else if (frames[1].size() > 0) {
    payload = payload_of(std::move(frames[1]));
  }
  Heard heard;
  if (!header.body) return heard;
  heard.ahead = std::move(header.ahead);
  heard.behind = std::move(header.behind);
  PACELINE_ASSIGN_OR_RETURN(heard.message, with_payload(std::move(header), std::move(payload)));
  return heard;
}

// Until its handler has parted with the peer, or closed the socket.
void Pump::deliver_all(const PeerId& from, Heard heard, std::size_t bytes) {
  const auto goes_on = [&](Message message, std::size_t of_these) {
    counters_.*counter_of(message.body) += static_cast<std::int64_t>(of_these);
    deliver(from, std::move(message));
    received_at_ = steady_now();  // the next one, of which only the handling is left
    return !closed_;
  };
  std::size_t rest = bytes;
  for (const auto* others : {&heard.ahead, &heard.behind}) {
    for (const Header::Other& other : *others) rest -= other.bytes;
    read_ += static_cast<int>(others->size());
  }
  for (Header::Other& other : heard.ahead) {
    if (!goes_on(std::move(other.message), other.bytes) || is_ignored(from)) return;
  }
  if (!heard.message) {  // from one transport to the other, or of no interest
    counters_.other_bytes += static_cast<std::int64_t>(rest);
  } else if (!goes_on(*std::move(heard.message), rest)) {
    return;
  }
  for (Header::Other& other : heard.behind) {
    if (is_ignored(from) || !goes_on(std::move(other.message), other.bytes)) return;
  }
}

void Pump::deliver(const PeerId& from, Result<Message> message) {
  in_handler_ = true;
  handler_(from, std::move(message));
  in_handler_ = false;
  if (closed_) handler_ = nullptr;  // close() could not free what was running
}

}  // namespace paceline::wire
