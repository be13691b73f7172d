// The seam between the daemons and ZeroMQ: a RouterSocket for a server, a DealerSocket for each connection of
// a node (or of a shard to the authority). Messages go in and come out decoded; only transport_zmq.cc and
// zmq_* see the library.
//
// Threading: sockets live on the thread that runs `io`; every call below is made on that thread (post to it
// from others). Handlers run on that thread. Bounds: a message has at most two frames, a header <=
// kHeaderBytesMax and a payload <= kPayloadBytesMax; whatever exceeds that reaches the handler as a
// kInvalidArgument Status, is counted, and is otherwise forgotten. At most `send_queue_messages_max` messages
// wait for a peer; one more is refused with kResourceExhausted.
//
// Between processes of one machine a payload that lies in the sender's SharedSegment is not sent but lent
// (sharing.h), once both sides agreed: the dealer announces its memory with its first message, the router
// answers where share_memory() was called. Whoever sends and receives payloads does not notice, but for
// Payload::borrowed.
//
// With keys (keys.h) a connection is encrypted and authenticated by CURVE (ZeroMQ's RFC 25 and 26) before
// anything of it is handed out: a router lets in who is on its list, a dealer speaks with the one server that
// has the key it knows.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/instant.h"
#include "common/status.h"
#include "common/wire/keys.h"
#include "common/wire/messages.h"
#include "common/wire/pin.h"

namespace boost::asio {
class io_context;
}

namespace paceline::wire {

class SharedSegment;

// A connection of a RouterSocket, as ZeroMQ numbers it. Per connection: who the peer is, its Join says.
using PeerId = std::string;

struct TransportOptions {
  int send_queue_messages_max = 65536;
  std::chrono::milliseconds linger{2000};   // how long close() lets queued messages leave
  std::shared_ptr<SharedSegment> memory{};  // a dealer's, to share with its server; null: nothing is shared
  std::int64_t their_memory_bytes_max = 0;  // a larger segment of the server's is not mapped
  Pin pin{};                                // for what is read of a peer's
  std::shared_ptr<const ServerKeys>
      server_keys{};  // a router's; null: everybody is let in, nothing encrypted
  std::shared_ptr<const ClientKeys> client_keys{};  // a dealer's; null: it speaks with servers without keys
  int connections_max = 0;                          // a router's, see keep_out(); 0: any number
  // A dealer's: the server does not let it in, or is none, and why (handshake.h). ZeroMQ does not try again
  // after some of these faults. May close the socket.
  std::function<void(const Status& why)> on_denied = [](const Status&) {};
  // A dealer's: a connection whose handshake had ended well is no more; what had come over it has been handed
  // out before. What was queued and has not left leaves over the next one, which ZeroMQ tries for by itself
  // and which is a stranger's to the server. May close the socket.
  std::function<void()> on_broken = [] {};
  // Not null: what is said within one turn of the loop leaves together where it can (gathered.h). It leaves
  // when something is said that cannot join it, after the handler of what was received, or as soon as the
  // thread comes to it. If it cannot be sent then, the send() that it had to leave for returns so, or this is
  // called with what its own send() would have returned. May close the socket.
  std::function<void(const PeerId& to, const Status& why)> on_unsent{};
};

// Header and payload bytes and messages given to and got from ZeroMQ, for the kinds that `bytes_*` count.
struct TrafficCounters {
  std::int64_t push_bytes = 0;       // Push, both directions of this socket
  std::int64_t parameter_bytes = 0;  // Parameters and Unchanged
  std::int64_t other_bytes = 0;
  std::int64_t shared_bytes = 0;  // payloads that were lent, both ways, and not given to ZeroMQ
  std::int64_t messages_sent = 0;
  std::int64_t messages_received = 0;
  std::int64_t malformed = 0;
  std::int64_t kept_out = 0;  // a router's: connections not let in, or broken, as of its last keep_out()
  std::int64_t too_late = 0;  // a router's: messages dropped unread that came over a connection given up
};

// One ZeroMQ context: one per process (or per test). Must outlive its sockets.
class Context {
 public:
  Context();
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

// A server's socket. Thread: the one that runs `io`.
class RouterSocket {
 public:
  using Handler = std::function<void(const PeerId& from, Result<Message> message)>;

  // Binds to "tcp://host:port" (port 0 or "*": the system chooses, see endpoint()) or "ipc://path".
  // Errors: kUnavailable, naming endpoint and reason, when the port is in use or the address is not of this
  // machine; kInvalidArgument not an endpoint, or something that is no socket lies at the path.
  static Result<std::unique_ptr<RouterSocket>> bind(Context& context, boost::asio::io_context& io,
                                                    const std::string& endpoint, TransportOptions options,
                                                    Handler handler);
  virtual ~RouterSocket() = default;
  virtual std::string endpoint() const = 0;
  // Queues one message; the payload's owner is kept until ZeroMQ has let go of it (from any thread).
  // Errors: kInvalidArgument, see encode(); kUnavailable the peer is gone; kResourceExhausted its queue is
  // full; the last two also of what was said to it before, where that gathers (TransportOptions::on_unsent).
  virtual Status send(const PeerId& to, Message message) = 0;
  // What has gathered leaves now: ahead of what takes long.
  virtual void flush() = 0;
  // How many small messages (unread.h) wait for the peer, as far as is known: those sent since the last one
  // that is known to have left; 0 where none is known to be on its way.
  virtual std::int64_t waiting(const PeerId& to) const = 0;
  // Keeps hold of the connection over which the message being handled came, so that disconnect() finds it.
  // Only from within the handler.
  virtual void remember(const PeerId& from) = 0;
  // Shares `memory` with the sender of the message being handled, which announced its own with it, of at most
  // `theirs_bytes_max`; what is lent to it is kept until it lets go, or is disconnected.
  // Only from within the handler, once it is known who the sender is. Errors: why payloads will come in
  // frames; the sender then does not learn where `memory` is.
  virtual Status share_memory(const PeerId& from, std::shared_ptr<SharedSegment> memory,
                              std::int64_t theirs_bytes_max) = 0;
  // Whether payloads are shared with this peer in both directions, and if not, why. Decided with the first
  // message that it sends after the answer to the one that share_memory() was called for.
  virtual Status shares_memory(const PeerId& peer) const = 0;
  // Nothing more is read in the memory of this peer: what it still sends there is dropped, and its memory
  // goes back to the system with the last payload that lies in it. What is lent to it stays lent.
  virtual void unmap(const PeerId& peer) = 0;
  // Breaks a remembered connection: what is queued for the peer is dropped, and the payloads are let go of
  // soon (ZeroMQ has no way to take back what it was given, but it drops it with the connection). To the peer
  // it looks like a network that broke; its ZeroMQ connects anew, as a stranger. Errors: kNotFound it was not
  // remembered, or is closed already; kResourceExhausted it stands, since this process can open no more files
  // now: to be tried again.
  virtual Status disconnect(const PeerId& peer) = 0;
  // As disconnect(), of a connection whose peer has given it up for another one. What the peer still says
  // over it is dropped unread and counted (TrafficCounters::too_late). What was lent over it is back at once,
  // since the peer reads no more of it.
  virtual void give_up(const PeerId& peer) = 0;
  // Breaks the TCP connections that send a message without an end (unfinished.h), counts each as malformed,
  // and returns how many. To be called several times a second: what arrives between two calls is held in
  // memory.
  // `whose`, if not null, is given those of them that were remembered.
  virtual int break_unfinished(std::vector<PeerId>* whose) = 0;
  int break_unfinished() { return break_unfinished(nullptr); }
  // Breaks the connections beyond options.connections_max: of those that were not remembered the first to
  // have come (connections.h). Returns what is to be said about them and about connections that were not let
  // in, each in a line, few however many there were (denials.h). To be called several times a second.
  virtual std::vector<std::string> keep_out(Ticks now) = 0;
  // Whose key the sender of the message being handled has proved to have (keys.h); empty where this socket
  // has no keys. Only from within the handler.
  virtual std::string key_name() const = 0;
  // The message being handled is malformed. True when its sender has sent so many
  // (Connections::kMalformedMax) that its connection was broken now: what else it has sent is dropped unread,
  // and counted. Only from within the handler.
  virtual bool count_malformed(const PeerId& from) = 0;
  // The same for a message of the right form that its sender may not say whatever it is, since it has not
  // joined or has gone: true when they were Connections::kRejectedMax.
  virtual bool count_rejected(const PeerId& from) = 0;
  // The same for a join, of which one is held against its connection as much as a malformed message.
  virtual bool count_rejected_join(const PeerId& from) = 0;
  virtual const TrafficCounters& counters() const = 0;
  virtual void close() = 0;
};

// A connection to one server. Connecting is asynchronous and retried by ZeroMQ: a missing peer shows as
// silence.
class DealerSocket {
 public:
  // What becomes of queued messages at the end: they have the linger time to leave, or are dropped at once,
  // since the server has said its last word and may be gone.
  enum class Queued { kIsSent, kIsDropped };

  using Handler = std::function<void(Result<Message> message)>;

  static Result<std::unique_ptr<DealerSocket>> connect(Context& context, boost::asio::io_context& io,
                                                       const std::string& endpoint, TransportOptions options,
                                                       Handler handler);
  virtual ~DealerSocket() = default;
  virtual Status send(Message message) = 0;
  // When reading and decoding the message being handled began; of one that came together with others, after
  // the first, when its handling did. Only from within the handler.
  virtual Ticks received_at() const = 0;
  // Whether payloads are shared with the server in both directions, and if not, why. Decided with the first
  // message that the server sends.
  virtual Status shares_memory() const = 0;
  // Keeps what the server was lent and has not let go of, also when this socket is gone: for as long as the
  // server may read it (it lets go of all when it welcomes this node over another connection).
  virtual std::shared_ptr<const void> lent() const = 0;
  virtual const TrafficCounters& counters() const = 0;
  virtual void close(Queued queued) = 0;
  void close() { close(Queued::kIsSent); }
};

}  // namespace paceline::wire
