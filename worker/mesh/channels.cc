#include "worker/mesh/channels.h"

#include <poll.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include "common/assert.h"
#include "worker/mesh/handshake.h"

namespace paceline::mesh {
namespace {

constexpr std::uint64_t kMessageMagic = 0x324e4e4148435350;  // "PSCHANN2"

}  // namespace

Channels::Channels(Place place, StopFlag& stop)
    : place_(std::move(place)), stop_(stop), peers_(place_.endpoints.size()) {}

Result<std::shared_ptr<Channels>> Channels::connect(const Listening& listening, Place place, StopFlag& stop,
                                                    std::chrono::milliseconds within,
                                                    std::vector<PeerBounds> bounds) {
  PACELINE_ASSIGN_OR_RETURN(auto connections, shake_hands(listening, place, stop, within));
  forget(place.key);
  const std::shared_ptr<Channels> channels(new Channels(std::move(place), stop));
  for (std::size_t rank = 0; rank < connections.size(); ++rank) {
    channels->peers_[rank].connection = std::move(connections[rank]);
    if (rank < bounds.size()) channels->peers_[rank].bounds = bounds[rank];
  }
  channels->thread_ = std::thread([raw = channels.get()] { raw->run(); });
  return channels;
}

Channels::~Channels() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wake_.set();
  if (thread_.joinable()) thread_.join();
}

Channels::Peer& Channels::peer_of(NodeId node) {
  PACELINE_ASSERT(node.value < peers_.size() && node.value != place_.rank,
                  "no channel to " + to_string(node));
  return peers_[node.value];
}

Status Channels::send(NodeId to, PeerMessage message) {
  {
    const std::lock_guard lock(mutex_);
    Peer& peer = peer_of(to);
    if (!peer.gone.is_ok()) return peer.gone;
    if (!stopped_.is_ok()) return stopped_;
    peer.out.push_back(std::move(message));
  }
  wake_.set();
  return Status::ok();
}

Result<PeerMessage> Channels::receive(NodeId from) {
  std::unique_lock lock(mutex_);
  Peer& peer = peer_of(from);
  changed_.wait(lock, [&] { return !peer.in.empty() || !peer.gone.is_ok() || !stopped_.is_ok(); });
  if (!peer.in.empty()) {
    PeerMessage message = std::move(peer.in.front());
    peer.in.pop_front();
    return message;
  }
  return peer.gone.is_ok() ? stopped_ : peer.gone;
}

std::optional<NodeId> Channels::gone() const {
  const std::lock_guard lock(mutex_);
  return gone_;
}

// ---- the thread

void Channels::run() {
  std::vector<pollfd> polled;
  std::vector<std::uint32_t> ranks;  // of polled, but for the first two
  for (;;) {
    polled = {{stop_.descriptor(), POLLIN, 0}, {wake_.descriptor(), POLLIN, 0}};
    ranks.clear();
    {
      const std::lock_guard lock(mutex_);
      if (ends_) return;
      for (std::uint32_t rank = 0; rank < peers_.size(); ++rank) {
        const Peer& peer = peers_[rank];
        if (peer.connection == nullptr || !peer.gone.is_ok()) continue;
        const short events = peer.out.empty() ? POLLIN : POLLIN | POLLOUT;
        polled.push_back({peer.connection->descriptor(), events, 0});
        ranks.push_back(rank);
      }
    }
    while (::poll(polled.data(), polled.size(), -1) < 0 && errno == EINTR) {
    }
    if (polled[0].revents != 0) {
      const std::lock_guard lock(mutex_);
      stopped_ = aborted("the channels to other nodes are closed");
      changed_.notify_all();
      return;
    }
    if (polled[1].revents != 0) wake_.forget();
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      Peer& peer = peers_[ranks[i]];
      const short events = polled[i + 2].revents;
      if ((events & POLLOUT) != 0 && !send_some(peer, ranks[i])) continue;
      if ((events & ~POLLOUT) != 0) receive_some(peer, ranks[i]);
    }
  }
}

void Channels::lose(Peer& peer, std::uint32_t rank, const std::string& why) {
  const std::lock_guard lock(mutex_);
  peer.gone = unavailable(name_of(place_, rank) + " " + why);
  peer.out.clear();
  if (!gone_) gone_ = NodeId(rank);
  changed_.notify_all();
}

// As much as goes at once of the first message; the deque's first stays where it is while others are appended.
// Whether the peer is there.
bool Channels::send_some(Peer& peer, std::uint32_t rank) {
  const PeerMessage* first = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (peer.out.empty()) return true;
    first = &peer.out.front();
  }
  if (peer.sent == 0) {
    peer.sending = {first->clock,   first->position,    std::ssize(first->floats), first->loss_sum,
                    first->correct, first->micro_batch, first->backward,           kMessageMagic};
  }
  const std::size_t floats = first->floats.size() * sizeof(float);
  std::array<iovec, 2> pieces{};
  std::size_t count = 0;
  if (peer.sent < sizeof(Head)) {
    pieces[count++] = {reinterpret_cast<char*>(&peer.sending) + peer.sent, sizeof(Head) - peer.sent};
  }
  const std::size_t from = std::max(peer.sent, sizeof(Head)) - sizeof(Head);
  const char* const bytes = reinterpret_cast<const char*>(first->floats.data());
  pieces[count++] = {const_cast<char*>(bytes) + from, floats - from};
  const Result<std::size_t> sent = peer.connection->send(std::span(pieces).first(count));
  if (!sent.is_ok()) {
    lose(peer, rank, sent.status().message());
    return false;
  }
  peer.sent += *sent;
  if (peer.sent < sizeof(Head) + floats) return true;
  PeerMessage gone;  // freed without the lock
  const std::lock_guard lock(mutex_);
  peer.sent = 0;
  gone = std::move(peer.out.front());
  peer.out.pop_front();
  return true;
}

// Whether something came, and the peer is there.
bool Channels::receive_into(Peer& peer, std::uint32_t rank, void* into, std::size_t bytes) {
  const Result<std::size_t> got = peer.connection->receive(into, bytes);
  if (!got.is_ok()) lose(peer, rank, got.status().message());
  if (!got.is_ok() || *got == 0) return false;
  peer.received += *got;
  return true;
}

bool Channels::begin_message(Peer& peer, std::uint32_t rank) {
  const Head& head = peer.head;
  if (head.magic != kMessageMagic || head.floats < 0) {
    lose(peer, rank, "sends what is no message");
    return false;
  }
  std::size_t waiting = 0;
  {
    const std::lock_guard lock(mutex_);
    waiting = peer.in.size();
  }
  if (head.floats > peer.bounds.floats || waiting >= peer.bounds.messages) {
    lose(peer, rank,
         "sends " + std::to_string(head.floats) + " floats behind " + std::to_string(waiting) +
             " messages that wait, expected at most " + std::to_string(peer.bounds.floats) + " floats and " +
             std::to_string(peer.bounds.messages) + " messages");
    return false;
  }
  peer.coming = {head.clock, head.position, head.micro_batch, head.backward, head.loss_sum, head.correct, {}};
  peer.coming.floats.resize(static_cast<std::size_t>(head.floats));
  return true;
}

// What there is of one message: others are sent to and heard before the next, for which there is something to wait.
void Channels::receive_some(Peer& peer, std::uint32_t rank) {
  for (;;) {
    if (peer.received < sizeof(Head)) {
      char* const at = reinterpret_cast<char*>(&peer.head) + peer.received;
      if (!receive_into(peer, rank, at, sizeof(Head) - peer.received)) return;
      if (peer.received < sizeof(Head)) continue;
      if (!begin_message(peer, rank)) return;
    }
    const std::size_t floats = peer.coming.floats.size() * sizeof(float);
    const std::size_t at = peer.received - sizeof(Head);
    if (at < floats) {
      char* const into = reinterpret_cast<char*>(peer.coming.floats.data()) + at;
      if (!receive_into(peer, rank, into, floats - at)) return;
      if (peer.received - sizeof(Head) < floats) continue;
    }
    peer.received = 0;
    {
      const std::lock_guard lock(mutex_);
      peer.in.push_back(std::move(peer.coming));
      peer.coming = {};
      changed_.notify_all();
    }
    if (!peer.connection->holds_more()) return;
  }
}

}  // namespace paceline::mesh
