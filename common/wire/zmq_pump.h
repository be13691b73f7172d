// A Pump joins a ZeroMQ socket to an Asio loop; the router and the dealer (transport_zmq.cc) are thin faces
// of it.
//
// ZMQ_FD is no ordinary descriptor: it becomes readable when the socket's STATE may have changed, once, and
// any call on the socket (a send, too) may take that notice away. So the rule is: the descriptor only wakes
// us; what there is to do is found by reading until nothing is there, which is also the only state in which
// the descriptor is waited for. ZMQ_EVENTS would say it, too, for a call of the kernel each time it is asked.
//
//   descriptor readable ─┐                          ┌─ nothing to read: wait for the descriptor
//   something was sent ──┼─> drain(): read batch ───┤
//   batch was full    ───┘                          └─ batch full: post drain() after what else is due
//
// Payloads that lie in shared memory are not given to ZeroMQ at all (sharings.h). A router's connections:
// zmq_accepted.h.
//
// Thread: the one that runs the loop.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/assert.h"
#include "common/ticks.h"
#include "common/wire/codec.h"
#include "common/wire/gathered.h"
#include "common/wire/sharings.h"
#include "common/wire/transport.h"
#include "common/wire/unread.h"
#include "common/wire/zmq_accepted.h"
#include "common/wire/zmq_calls.h"
#include "common/wire/zmq_context.h"
#include "common/wire/zmq_handshakes.h"

namespace paceline::wire {

class Pump : public std::enable_shared_from_this<Pump> {
 public:
  using Handler = RouterSocket::Handler;

  Pump(Context& context, boost::asio::io_context& io, zmq::socket_type type, const TransportOptions& options,
       Handler handler);
  ~Pump() { close(); }

  zmq::socket_t& socket() { return socket_; }
  const TrafficCounters& counters() const { return counters_; }
  Ticks received_at() const { return received_at_; }
  // A router's.
  AcceptedConnections& accepted() {
    PACELINE_ASSERT(accepted_, "a dealer has no accepted connections");
    return *accepted_;
  }

  // Once the socket is bound or connecting. `memory`: a dealer's, for the one peer that it has.
  void start(const std::shared_ptr<SharedSegment>& memory = nullptr, std::int64_t theirs_bytes_max = 0);
  // A dealer's, before it connects. Throws zmq::error_t.
  void watch_handshakes(const TransportOptions& options);
  void do_not_linger();

  // The rest: as RouterSocket's and DealerSocket's; `to` is null for a dealer's one peer.
  Status send(const PeerId* to, Message message);
  void flush();
  std::int64_t waiting(const PeerId& to) const { return unread_.waiting(to) + gathered_.waiting(to); }
  Status share_memory(const PeerId& from, const std::shared_ptr<SharedSegment>& memory,
                      std::int64_t theirs_bytes_max);
  Status shares_memory(const PeerId& peer) const { return sharings_->state(peer); }
  void unmap(const PeerId& peer) { sharings_->unmap(peer); }
  Status disconnect(const PeerId& peer);
  void give_up(const PeerId& peer);
  std::shared_ptr<const void> lent() const;
  int break_unfinished(std::vector<PeerId>* whose);
  std::vector<std::string> keep_out(Ticks now);
  bool count_wrong(const PeerId& from, Wrong what);
  void close();

 private:
  Status send_together(const PeerId* to, std::span<const Outgoing> messages);
  void flush_soon();
  bool send_beside(const PeerId& to, const Beside& beside);
  enum class Size { kSmall, kLarge };  // large: its payload says when it has left
  static Size size_of(const Payload& payload) {
    return payload.size <= kCopiedBytesMax ? Size::kSmall : Size::kLarge;
  }
  int send_to(const PeerId* to, const std::string& header, const Payload* payload, Size size);
  bool has_input();
  void read_soon();
  void schedule();
  void wait();
  void drain();
  void read_rest();
  bool read_one();  // false: nothing was there, or the socket is at its end
  // The messages of one that was received, in order; none where it is from one transport to the other.
  struct Received {
    std::vector<Header::Other> before{};
    std::optional<Message> message{};
    std::vector<Header::Other> after{};
  };
  Result<Received> checked(const PeerId& from, zmq::message_t (&frames)[2], int count);
  void deliver_all(const PeerId& from, Received received, std::size_t bytes);
  void deliver(const PeerId& from, Result<Message> message);
  // Whether this is dropped unread, as all that this peer still sends.
  bool drop_if_ignored(const PeerId& from) {
    return accepted_ && accepted_->drop_if_ignored(from, counters_);
  }

  Context::Impl& context_;
  boost::asio::io_context& io_;
  zmq::socket_t socket_;
  const bool is_router_;
  boost::asio::posix::stream_descriptor wake_;
  const std::shared_ptr<Sharings> sharings_;
  Handler handler_;
  const std::function<void(const PeerId& to, const Status& why)> on_unsent_;  // null: nothing is gathered
  const Pin pin_;
  Gathered gathered_;
  TrafficCounters counters_;
  Ticks received_at_;                            // the message being handled
  int read_ = 0;                                 // at a stretch, those that came together each for itself
  std::optional<AcceptedConnections> accepted_;  // a router's
  std::shared_ptr<Handshakes> handshakes_;       // a dealer's
  Unread unread_;                                // a router's
  std::optional<SegmentRef> handled_segment_;    // what the message being handled announces
  bool scheduled_ = false;                       // a drain() is posted
  bool flush_posted_ = false;                    // a flush() is posted
  bool waiting_ = false;                         // the descriptor is being waited for
  bool draining_ = false;                        // messages are being read
  bool in_handler_ = false;
  bool lingers_ = true;
  bool closed_ = false;
};

}  // namespace paceline::wire
