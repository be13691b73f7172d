// The one file that sees ZeroMQ. A Pump joins a ZeroMQ socket to an Asio loop; the router and the dealer are
// thin faces of it.
//
// ZMQ_FD is no ordinary descriptor: it becomes readable when the socket's STATE may have changed, once, and
// any call on the socket (a send, too) may take that notice away. So the rule is: the descriptor only wakes
// us; ZMQ_EVENTS says what there is to do, and it is asked again after every wake-up, every send and before
// every wait.
//
//        descriptor readable ─┐                          ┌─ nothing to read: wait for the descriptor
//        a send saw input  ───┼─> drain(): read batch ───┤
//        batch was full    ───┘                          └─ batch full: post drain() behind timers and other
//        sockets
//
// Payloads are sent from the caller's memory (zmq_msg_init_data) and received into ZeroMQ's: neither way is
// there a copy. Those that lie in shared memory are not given to ZeroMQ at all (sharing.h).
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstring>
#include <optional>
#include <unordered_map>
#include <zmq.hpp>

#include "common/assert.h"
#include "common/ticks.h"
#include "common/wire/codec.h"
#include "common/wire/endpoint.h"
#include "common/wire/sharing.h"
#include "common/wire/socket_id.h"
#include "common/wire/transport.h"
#include "common/wire/unfinished.h"

namespace paceline::wire {

struct Context::Impl {
  zmq::context_t zmq{1};                // one I/O thread: more gained nothing
  std::atomic<std::int64_t> inproc{0};  // addresses given out; ZeroMQ is late to free one
};

Context::Context() : impl_(std::make_unique<Impl>()) {}
Context::~Context() = default;

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
// Up to this a copy; beyond it sending from the caller's memory was measured faster at every size (by a
// fifth).
constexpr std::size_t kCopyBytesMax = 1024;

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

zmq::message_t frame_of(const Payload& payload) {
  if (payload.size <= kCopyBytesMax) return {payload.data, payload.size};
  auto* in_flight = new InFlight{payload.owner};
  in_flight->handed_over.store(true, std::memory_order_release);
  return {const_cast<std::byte*>(payload.data), payload.size, &InFlight::let_go, in_flight};
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

class Pump : public std::enable_shared_from_this<Pump> {
 public:
  using Handler = RouterSocket::Handler;

  Pump(Context& context, boost::asio::io_context& io, zmq::socket_type type, const TransportOptions& options,
       Handler handler)
      : io_(io),
        socket_(context.impl().zmq, type),
        is_router_(type == zmq::socket_type::router),
        wake_(io),
        say_let_go_(io),
        handler_(std::move(handler)) {
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
  ~Pump() { close(); }

  zmq::socket_t& socket() { return socket_; }
  const TrafficCounters& counters() const { return counters_; }
  Ticks received_at() const { return received_at_; }

  // `memory`: a dealer's, for the one peer that it has.
  void start(const std::shared_ptr<SharedSegment>& memory = nullptr, std::int64_t theirs_bytes_max = 0) {
    if (memory != nullptr) share_with(PeerId(), memory, theirs_bytes_max);
    wake_.assign(socket_.get(zmq::sockopt::fd));
    schedule();
  }

  // From now on it is known who connects: ZeroMQ tells on a socket of its own, before it hands out anything
  // of the connection.
  void watch_accepted(Context& context) {
    const std::string address = "inproc://accepted-" + std::to_string(context.impl().inproc++);
    if (zmq_socket_monitor(socket_.handle(), address.c_str(), ZMQ_EVENT_ACCEPTED) != 0) throw zmq::error_t();
    accepted_.emplace(context.impl().zmq, zmq::socket_type::pair);
    accepted_->set(zmq::sockopt::rcvhwm, 0);  // at a bound it would hold up ZeroMQ's thread
    accepted_->connect(address);
  }

  int break_unfinished() {
    if (!accepted_) return 0;
    zmq::message_t event;
    zmq::message_t address;
    while (receive(*accepted_, event) && receive(*accepted_, address)) {
      std::int32_t descriptor = -1;  // behind the event's number, 16 bits
      std::memcpy(&descriptor, event.data<std::byte>() + sizeof(std::uint16_t), sizeof descriptor);
      unfinished_.accepted(descriptor);
    }
    const int broken = unfinished_.break_up([this] { return !has_input(); });
    if (has_input()) schedule();  // asking may have swallowed the descriptor's notice
    counters_.malformed += broken;
    return broken;
  }

  void do_not_linger() {
    if (!closed_) socket_.set(zmq::sockopt::linger, 0);
  }

  void close() {
    if (closed_) return;
    closed_ = true;
    for (const auto& [peer, sharing] : sharings_) say_what_is_let_go(peer, *sharing);
    sharings_.clear();
    say_let_go_.cancel();
    if (wake_.is_open()) wake_.release();  // the descriptor is ZeroMQ's to close
    if (accepted_) zmq_socket_monitor(socket_.handle(), nullptr, 0);
    accepted_.reset();
    socket_.close();  // what is queued leaves within the linger time
    if (!in_handler_) handler_ = nullptr;
  }

  Status send(const PeerId* to, const Message& message) {
    const char* name = name_of(message.body);
    if (closed_) return failed_precondition(std::string("sending ") + name + ": the socket is closed");
    Sharing* const sharing = sharing_with(to != nullptr ? *to : PeerId());
    Beside beside;
    if (sharing != nullptr) {
      sharing->say(beside);
      beside.region = sharing->lend(message.payload);
    }
    const Result<std::string> header = encode(message, beside);
    const bool in_frame = !message.payload.empty() && !beside.region;
    const int sent = header.is_ok() ? send_frames(to, *header, in_frame ? &message.payload : nullptr) : 0;
    if (sharing != nullptr && (sent != 0 || !header.is_ok())) sharing->unsay(beside);
    PACELINE_RETURN_IF_ERROR(header.status());
    if (sent == EHOSTUNREACH && sharing != nullptr) sharing->gone();
    if (has_input()) schedule();  // the send, also a vain one, may have swallowed the descriptor's notice
    if (sent != 0) return not_sent(name, sent);
    ++counters_.messages_sent;
    count(message.body, header->size() + (in_frame ? message.payload.size : 0));
    if (beside.region) counters_.shared_bytes += beside.region->bytes;
    return Status::ok();
  }

  void remember(const PeerId& from) {
    PACELINE_ASSERT(handled_ != nullptr, "no message is being handled");
    if (const auto socket = SocketId::of(zmq_msg_get(handled_->handle(), ZMQ_SRCFD))) {
      connections_.insert_or_assign(from, *socket);
    }
  }

  Status share_memory(const PeerId& from, const std::shared_ptr<SharedSegment>& memory,
                      std::int64_t theirs_bytes_max) {
    PACELINE_ASSERT(handled_ != nullptr, "no message is being handled");
    if (!handled_segment_) return failed_precondition("the peer announces no memory");
    const Status mapped = share_with(from, memory, theirs_bytes_max).map(*handled_segment_);
    if (!mapped.is_ok()) sharings_.erase(from);
    return mapped;
  }

  Status shares_memory(const PeerId& peer) const {
    const Sharing* const sharing = sharing_with(peer);
    return sharing != nullptr ? sharing->state() : failed_precondition("no memory is shared with it");
  }

  void unmap(const PeerId& peer) {
    const auto found = sharings_.find(peer);
    if (found == sharings_.end()) return;
    Sharing& sharing = *found->second;
    if (sharing.maps() || sharing.lent() > 0) return sharing.unmap();
    sharings_.erase(found);  // it never came to anything
  }

  Status disconnect(const PeerId& peer) {
    const auto known = connections_.find(peer);
    if (known == connections_.end()) {
      sharings_.erase(peer);
      return not_found("disconnecting: the connection is not known");
    }
    const SocketId::ShutDown said = known->second.shut_down();
    if (said == SocketId::ShutDown::kNoDescriptor) {
      return resource_exhausted("disconnecting: this process can open no more files");
    }
    sharings_.erase(peer);
    connections_.erase(known);
    return said == SocketId::ShutDown::kDone ? Status::ok()
                                             : not_found("disconnecting: the connection is closed already");
  }

 private:
  Sharing* sharing_with(const PeerId& peer) const {
    const auto found = sharings_.find(peer);
    return found == sharings_.end() ? nullptr : found->second.get();
  }

  Sharing& share_with(const PeerId& peer, const std::shared_ptr<SharedSegment>& memory,
                      std::int64_t theirs_bytes_max) {
    auto& sharing = sharings_[peer];
    if (sharing != nullptr) return *sharing;
    // Called while its sharing, and so this and the loop, are there.
    sharing = std::make_unique<Sharing>(memory, theirs_bytes_max, [&io = io_, weak = weak_from_this(), peer] {
      boost::asio::post(io, [weak, peer] {
        if (const auto self = weak.lock()) self->something_let_go(peer);
      });
    });
    return *sharing;
  }

  void something_let_go(const PeerId& peer) {
    Sharing* const sharing = sharing_with(peer);
    if (sharing == nullptr) return;
    if (sharing->due()) return say_what_is_let_go(peer, *sharing);
    if (std::exchange(let_go_is_timed_, true)) return;
    say_let_go_.expires_after(Sharing::kSaidAfter);
    say_let_go_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
      const auto self = weak.lock();
      if (error || self == nullptr || self->closed_) return;
      self->let_go_is_timed_ = false;
      for (const auto& [each, its] : self->sharings_) self->say_what_is_let_go(each, *its);
    });
  }

  // In a message of its own. Where there is no room for it, it goes with the next one; who is gone is found
  // out when a message is sent.
  void say_what_is_let_go(const PeerId& peer, Sharing& sharing) {
    Beside beside;
    sharing.say(beside);
    if (beside == Beside{}) return;
    const std::string header = encode(beside);
    const int sent = send_frames(is_router_ ? &peer : nullptr, header, nullptr);
    if (!closed_ && has_input()) schedule();
    if (sent != 0) return sharing.unsay(beside);
    ++counters_.messages_sent;
    counters_.other_bytes += static_cast<std::int64_t>(header.size());
  }

  // 0, or the error; a message leaves whole or not at all. ZeroMQ checks room and peer at the first frame.
  int send_frames(const PeerId* to, const std::string& header, const Payload* payload) {
    try {
      if (to != nullptr && !send_frame(zmq::message_t(to->data(), to->size()), Follows::kMore)) return EAGAIN;
      const Follows after_header = payload == nullptr ? Follows::kNothing : Follows::kMore;
      if (!send_frame(zmq::message_t(header.data(), header.size()), after_header)) return EAGAIN;
      if (payload == nullptr) return 0;
      return send_frame(frame_of(*payload), Follows::kNothing) ? 0 : EAGAIN;
    } catch (const zmq::error_t& error) {
      return error.num();
    }
  }

  enum class Follows { kNothing, kMore };
  bool send_frame(zmq::message_t frame, Follows follows) {
    const auto flags = zmq::send_flags::dontwait |
                       (follows == Follows::kMore ? zmq::send_flags::sndmore : zmq::send_flags::none);
    return repeat_if_interrupted([&] { return socket_.send(frame, flags).has_value(); });
  }

  static bool receive(zmq::socket_t& socket, zmq::message_t& frame) {
    return repeat_if_interrupted([&] { return socket.recv(frame, zmq::recv_flags::dontwait).has_value(); });
  }
  bool receive_frame(zmq::message_t& frame) { return receive(socket_, frame); }

  static Status not_sent(const char* name, int error) {
    const std::string what = std::string("sending ") + name + ": ";
    if (error == EAGAIN) return resource_exhausted(what + "the peer's queue is full");
    if (error == EHOSTUNREACH) return unavailable(what + "the peer is gone");
    return internal_error(what + zmq_strerror(error));
  }

  bool has_input() {
    return repeat_if_interrupted([&] { return (socket_.get(zmq::sockopt::events) & ZMQ_POLLIN) != 0; });
  }

  void schedule() {
    if (scheduled_) return;
    scheduled_ = true;
    boost::asio::post(io_, [self = shared_from_this()] {
      self->scheduled_ = false;
      self->drain();
    });
  }

  void wait() {
    if (waiting_) return;
    waiting_ = true;
    wake_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                     [self = shared_from_this()](const boost::system::error_code& error) {
                       self->waiting_ = false;
                       if (!error) self->drain();
                     });
  }

  void drain() {
    for (int i = 0; i < kBatch; ++i) {
      if (closed_) return;
      if (!has_input()) return wait();
      read_one();
    }
    if (!closed_) schedule();
  }

  void read_one() {
    received_at_ = steady_now();
    PeerId from;
    zmq::message_t frames[2];
    int count = 0;
    std::size_t bytes = 0;
    bool more = true;
    try {
      zmq::message_t frame;
      if (is_router_) {
        if (!receive_frame(frame)) return;
        from = frame.to_string();
        more = frame.more();
      }
      while (more) {  // ZeroMQ hands out whole messages: the rest is there
        if (!receive_frame(frame)) return;
        more = frame.more();
        bytes += frame.size();
        if (count < 2) frames[count] = std::move(frame);
        ++count;
      }
    } catch (const zmq::error_t& error) {
      return deliver(from, internal_error(std::string("receiving: ") + error.what()));
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
  }

  Result<std::optional<Message>> checked(const PeerId& from, zmq::message_t (&frames)[2], int count) {
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
    PACELINE_RETURN_IF_ERROR(hear(from, header.beside));
    Payload payload;
    if (header.beside.region) {
      if (frames[1].size() > 0) {
        return invalid_argument("header.region: got a payload frame too, expected one of the two");
      }
      Sharing* const sharing = sharing_with(from);
      if (sharing == nullptr) return invalid_argument("header.region: got one, expected none unless shared");
      if (header.encoding != Encoding::kFp32) {
        return invalid_argument("header.region: got one of an encoded payload, expected float32");
      }
      if (sharing->unmapped()) return std::optional<Message>();
      PACELINE_ASSIGN_OR_RETURN(payload, sharing->borrow(*header.beside.region));
      counters_.shared_bytes += header.beside.region->bytes;
    } else if (frames[1].size() > 0) {
      payload = payload_of(std::move(frames[1]));
    }
    if (!header.body) return std::optional<Message>();
    PACELINE_ASSIGN_OR_RETURN(Message message, with_payload(std::move(header), std::move(payload)));
    return std::optional<Message>(std::move(message));
  }

  // A router shares memory with those that share_memory() was called for; what a stranger, or somebody whom
  // it has parted with, says beside a message means nothing.
  Status hear(const PeerId& from, const Beside& beside) {
    handled_segment_ = beside.segment;
    Sharing* const sharing = sharing_with(from);
    if (sharing == nullptr) return Status::ok();
    // If it cannot be mapped, payloads go on coming in frames; shares_memory() says why.
    if (beside.segment && !is_router_) (void)sharing->map(*beside.segment);
    return sharing->heard(beside);
  }

  void deliver(const PeerId& from, Result<Message> message) {
    in_handler_ = true;
    handler_(from, std::move(message));
    in_handler_ = false;
    if (closed_) handler_ = nullptr;  // close() could not free what was running
  }

  void count(const Body& body, std::size_t bytes) {
    std::int64_t& kind = std::holds_alternative<Push>(body) ? counters_.push_bytes
                         : std::holds_alternative<Parameters>(body) || std::holds_alternative<Unchanged>(body)
                             ? counters_.parameter_bytes
                             : counters_.other_bytes;
    kind += static_cast<std::int64_t>(bytes);
  }

  boost::asio::io_context& io_;
  zmq::socket_t socket_;
  const bool is_router_;
  boost::asio::posix::stream_descriptor wake_;
  boost::asio::steady_timer say_let_go_;
  bool let_go_is_timed_ = false;
  std::unordered_map<PeerId, std::unique_ptr<Sharing>> sharings_;
  Handler handler_;
  TrafficCounters counters_;
  Ticks received_at_;                      // the message being handled
  std::optional<zmq::socket_t> accepted_;  // a router's: who connects
  Unfinished unfinished_{kUnfinishedBytesMax, kUnreadBytesMax};
  zmq::message_t* handled_ = nullptr;                 // the header of the message being handled
  std::optional<SegmentRef> handled_segment_;         // and what it announces
  std::unordered_map<PeerId, SocketId> connections_;  // those remembered
  bool scheduled_ = false;                            // a drain() is posted
  bool waiting_ = false;                              // the descriptor is being waited for
  bool in_handler_ = false;
  bool closed_ = false;
};

class ZmqRouter final : public RouterSocket {
 public:
  explicit ZmqRouter(std::shared_ptr<Pump> pump)
      : pump_(std::move(pump)), endpoint_(pump_->socket().get(zmq::sockopt::last_endpoint)) {}
  ~ZmqRouter() override { pump_->close(); }
  std::string endpoint() const override { return endpoint_; }
  Status send(const PeerId& to, Message message) override { return pump_->send(&to, message); }
  void remember(const PeerId& from) override { pump_->remember(from); }
  Status share_memory(const PeerId& from, std::shared_ptr<SharedSegment> memory,
                      std::int64_t theirs_bytes_max) override {
    return pump_->share_memory(from, memory, theirs_bytes_max);
  }
  Status shares_memory(const PeerId& peer) const override { return pump_->shares_memory(peer); }
  void unmap(const PeerId& peer) override { pump_->unmap(peer); }
  Status disconnect(const PeerId& peer) override { return pump_->disconnect(peer); }
  int break_unfinished() override { return pump_->break_unfinished(); }
  const TrafficCounters& counters() const override { return pump_->counters(); }
  void close() override { pump_->close(); }

 private:
  std::shared_ptr<Pump> pump_;
  std::string endpoint_;
};

class ZmqDealer final : public DealerSocket {
 public:
  explicit ZmqDealer(std::shared_ptr<Pump> pump) : pump_(std::move(pump)) {}
  ~ZmqDealer() override { pump_->close(); }
  Status send(Message message) override { return pump_->send(nullptr, message); }
  Ticks received_at() const override { return pump_->received_at(); }
  Status shares_memory() const override { return pump_->shares_memory(PeerId()); }
  const TrafficCounters& counters() const override { return pump_->counters(); }
  void close(Queued queued) override {
    if (queued == Queued::kIsDropped) pump_->do_not_linger();
    pump_->close();
  }

 private:
  std::shared_ptr<Pump> pump_;
};

// Binds; a host name that ZeroMQ takes for an interface is resolved and tried again.
Status bind_socket(zmq::socket_t& socket, const std::string& endpoint) {
  PACELINE_RETURN_IF_ERROR(check_ipc_path(endpoint));
  if (zmq_bind(socket.handle(), endpoint.c_str()) == 0) return Status::ok();
  if (zmq_errno() != ENODEV) return refused("cannot bind", endpoint, zmq_errno());
  Result<std::string> resolved = resolve_for_bind(endpoint);
  if (!resolved) return Status(resolved.status()).with_context("cannot bind " + endpoint);
  if (zmq_bind(socket.handle(), resolved->c_str()) == 0) return Status::ok();
  return refused("cannot bind", endpoint + " (" + *resolved + ")", zmq_errno());
}

}  // namespace

Result<std::unique_ptr<RouterSocket>> RouterSocket::bind(Context& context, boost::asio::io_context& io,
                                                         const std::string& endpoint,
                                                         TransportOptions options, Handler handler) {
  try {
    auto pump = std::make_shared<Pump>(context, io, zmq::socket_type::router, options, std::move(handler));
    pump->watch_accepted(context);
    PACELINE_RETURN_IF_ERROR(bind_socket(pump->socket(), endpoint));
    pump->start();
    return std::unique_ptr<RouterSocket>(std::make_unique<ZmqRouter>(std::move(pump)));
  } catch (const zmq::error_t& error) {
    return internal_error("cannot open " + endpoint + ": " + error.what());
  }
}

Result<std::unique_ptr<DealerSocket>> DealerSocket::connect(Context& context, boost::asio::io_context& io,
                                                            const std::string& endpoint,
                                                            TransportOptions options, Handler handler) {
  try {
    auto deliver = [handler = std::move(handler)](const PeerId&, Result<Message> message) {
      handler(std::move(message));
    };
    auto pump = std::make_shared<Pump>(context, io, zmq::socket_type::dealer, options, std::move(deliver));
    if (zmq_connect(pump->socket().handle(), endpoint.c_str()) != 0) {
      return refused("cannot connect to", endpoint, zmq_errno());
    }
    pump->start(options.memory, options.their_memory_bytes_max);
    return std::unique_ptr<DealerSocket>(std::make_unique<ZmqDealer>(std::move(pump)));
  } catch (const zmq::error_t& error) {
    return internal_error("cannot open " + endpoint + ": " + error.what());
  }
}

}  // namespace paceline::wire
