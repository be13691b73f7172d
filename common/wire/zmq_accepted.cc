#include "common/wire/zmq_accepted.h"

#include <algorithm>
#include <map>
#include <utility>

#include "common/assert.h"

namespace paceline::wire {
namespace {

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

bool is_in(const std::deque<PeerId>& peers, const PeerId& peer) {
  return !peers.empty() && std::find(peers.begin(), peers.end(), peer) != peers.end();
}

}  // namespace

AcceptedConnections::AcceptedConnections(Context::Impl& context, const TransportOptions& options,
                                         std::int64_t held_bytes_max, std::int64_t held_bytes_max_unread)
    : context_(context),
      admission_(std::make_shared<Admission>(options.server_keys ? options.server_keys->allowed
                                                                 : std::map<std::string, std::string>())),
      unfinished_(held_bytes_max, held_bytes_max_unread),
      all_(options.connections_max) {}

// Should nobody answer who may come in, nobody does: that is what enforcing the domain means.
void AcceptedConnections::watch(zmq::socket_t& socket, const ServerKeys* keys) {
  int kinds = ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL;
  has_keys_ = keys != nullptr;
  if (has_keys_) {
    domain_ = context_.gate().add(admission_);
    socket.set(zmq::sockopt::curve_server, true);
    socket.set(zmq::sockopt::curve_secretkey, keys->own.secret_key);
    socket.set(zmq::sockopt::zap_domain, domain_);
    const int enforced = 1;
    if (zmq_setsockopt(socket.handle(), kZapEnforceDomain, &enforced, sizeof enforced) != 0) {
      throw zmq::error_t();
    }
    // Who has no keys may see first that it is in the wrong place, and just goes.
    kinds |= ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;
  }
  monitor_.emplace(context_, socket, kinds);
}

void AcceptedConnections::deregister() {
  if (!domain_.empty()) context_.gate().remove(std::exchange(domain_, {}));
}

void AcceptedConnections::poll_monitor() {
  if (!monitor_ || !at_) return;
  while (const std::optional<ZmqMonitor::Event> event = monitor_->next()) {
    if (event->kind != ZMQ_EVENT_ACCEPTED) {
      admission_->note("a connection", why_it_failed(*event, has_keys_));
    } else if (at_->fits(event->value)) {  // else it has gone already
      unfinished_.accepted(event->value);
      all_.accepted(event->value);
    }
  }
}

void AcceptedConnections::handles(zmq::message_t* header) {
  handled_ = header;
  if (header != nullptr) unfinished_.read_from(zmq_msg_get(header->handle(), ZMQ_SRCFD));
}

// That of the message being handled; -1 where that has gone, and the number is no connection's of this socket now.
int AcceptedConnections::descriptor() const {
  PACELINE_ASSERT(handled_ != nullptr, "no message is being handled");
  const int descriptor = zmq_msg_get(handled_->handle(), ZMQ_SRCFD);
  return at_ && at_->fits(descriptor) ? descriptor : -1;
}

// Only the gate can have said it: what a peer says of itself takes no place that is taken.
std::string AcceptedConnections::key_name() const {
  PACELINE_ASSERT(handled_ != nullptr, "no message is being handled");
  if (!has_keys_) return "";
  const char* const name = zmq_msg_gets(handled_->handle(), kUserId);
  return name != nullptr ? name : "";
}

// The connection may have ended before this message was read, and its number may be another connection's now.
// What is noted here is then never used: it is for breaking the connection of a peer that does not read, and
// nothing is on its way to one that has gone.
void AcceptedConnections::remember(const PeerId& from) {
  const int over = descriptor();
  if (const auto socket = SocketId::of(over)) remembered_.insert_or_assign(from, *socket);
  all_.admit(over, from);
}

bool AcceptedConnections::count(Wrong what, const PeerId& from) {
  poll_monitor();
  if (!all_.count(what, descriptor(), from)) return false;
  remembered_.erase(from);
  dropped_.push_back(from);
  admission_->note("a connection", "it went on sending messages that are malformed, or refused");
  if (dropped_.size() > kDroppedMax) dropped_.pop_front();
  return true;
}

bool AcceptedConnections::drop_if_ignored(const PeerId& from, TrafficCounters& counters) const {
  if (is_in(dropped_, from)) {
    ++counters.malformed;
    return true;
  }
  if (is_in(given_up_, from)) {
    ++counters.too_late;
    return true;
  }
  return false;
}

Status AcceptedConnections::disconnect(const PeerId& peer) {
  const auto known = remembered_.find(peer);
  if (known == remembered_.end()) return not_found("disconnecting: the connection is not known");
  const SocketId::ShutDown shut_down = known->second.shut_down();
  if (shut_down == SocketId::ShutDown::kNoDescriptor) {
    return resource_exhausted("disconnecting: this process can open no more files");
  }
  remembered_.erase(known);
  return shut_down == SocketId::ShutDown::kDone
             ? Status::ok()
             : not_found("disconnecting: the connection is closed already");
}

void AcceptedConnections::give_up(const PeerId& peer) {
  remembered_.erase(peer);
  given_up_.push_back(peer);
  if (given_up_.size() > kGivenUpMax) given_up_.pop_front();
}

int AcceptedConnections::break_unfinished(const std::function<bool()>& all_read, std::vector<PeerId>* whose) {
  poll_monitor();
  std::vector<SocketId> sockets;
  const int broken = unfinished_.break_up(all_read, sockets);
  for (const auto& [peer, socket] : remembered_) {
    const bool theirs = std::find(sockets.begin(), sockets.end(), socket) != sockets.end();
    if (theirs && whose != nullptr) whose->push_back(peer);
  }
  return broken;
}

std::vector<std::string> AcceptedConnections::keep_out(Ticks now, TrafficCounters& counters) {
  poll_monitor();
  for (int broken = all_.break_surplus(); broken > 0; --broken) {
    admission_->note("an unknown peer",
                     "there are more connections than the run has members, with some to spare");
  }
  counters.kept_out = admission_->kept_out();
  return admission_->due(now);
}

}  // namespace paceline::wire
