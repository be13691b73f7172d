#include "worker/mesh/channels.h"

#include <poll.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "common/assert.h"
#include "worker/mesh/handshake.h"

namespace paceline::mesh {
namespace {

constexpr std::uint64_t kMessageMagic = 0x334e4e4148435350;  // "PSCHANN3"
// In PeerMessage::backward, which is 0 or 1 of what tasks say.
constexpr std::uint32_t kParameters = 2;  // its clock is the version
constexpr std::uint32_t kOffer = 3;       // its floats are a SegmentRef
constexpr std::uint32_t kMaps = 4;        // that is read
constexpr std::uint32_t kRead = 5;        // its position is a place
constexpr std::size_t kAlignment = 64;

constexpr std::size_t kOfferFloats = sizeof(wire::SegmentRef) / sizeof(float);
static_assert(sizeof(wire::SegmentRef) % sizeof(float) == 0);

// Of messages of so many floats.
std::int64_t segment_bytes(std::int64_t floats, std::size_t messages) {
  const std::int64_t bytes = floats * static_cast<std::int64_t>(sizeof(float));
  const auto line = static_cast<std::int64_t>(kAlignment);
  return (bytes + line - 1) / line * line * static_cast<std::int64_t>(messages);
}

PeerMessage note(std::uint32_t kind, std::int64_t position, std::vector<float> floats) {
  PeerMessage message;
  message.position = position;
  message.backward = kind;
  message.floats = std::move(floats);
  return message;
}

}  // namespace

// Floats in a peer's segment, until the last who reads them has let go.
class Channels::Lent {
 public:
  Lent(std::shared_ptr<const wire::MappedSegment> memory, std::shared_ptr<Read> read, std::uint32_t rank,
       std::int64_t place)
      : memory_(std::move(memory)), read_(std::move(read)), rank_(rank), place_(place) {}
  // It leaves with whatever is said next: nobody has to be woken for it.
  ~Lent() {
    const std::lock_guard lock(read_->mutex);
    read_->places.emplace_back(rank_, place_);
  }
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;

 private:
  const std::shared_ptr<const wire::MappedSegment> memory_;
  const std::shared_ptr<Read> read_;
  const std::uint32_t rank_;
  const std::int64_t place_;
};

Channels::Channels(Place place, StopFlag& stop)
    : place_(std::move(place)), stop_(stop), peers_(place_.endpoints.size()) {}

std::shared_ptr<Channels> Channels::over(PeerConnections connections, Place place, StopFlag& stop,
                                         Bounds bounds) {
  forget(place.key);
  const std::shared_ptr<Channels> channels(new Channels(std::move(place), stop));
  for (std::size_t rank = 0; rank < connections.size(); ++rank) {
    Peer& peer = channels->peers_[rank];
    peer.connection = std::move(connections[rank]);
    if (rank < bounds.messages.size()) peer.bounds = bounds.messages[rank];
    if (rank < bounds.parameters.size()) peer.parameters_max = bounds.parameters[rank];
  }
  const std::vector<std::uint32_t> machines = machines_of(channels->place_);
  for (std::size_t rank = 0; channels->place_.shares && rank < machines.size(); ++rank) {
    if (machines[rank] == machines[channels->place_.rank]) channels->offer_memory(channels->peers_[rank]);
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
  PACELINE_ASSERT(node.value < peers_.size() && peers_[node.value].connection != nullptr,
                  "no channel to " + to_string(node));
  return peers_[node.value];
}

// Ahead of all that is sent. Where it cannot be had, or mapped there, floats are sent.
void Channels::offer_memory(Peer& peer) {
  const std::int64_t bytes = segment_bytes(peer.bounds.floats_sent, peer.bounds.messages_sent);
  if (peer.connection == nullptr || bytes == 0) return;
  auto made = wire::SharedSegment::create(bytes);
  if (!made.is_ok()) return;
  peer.segment = std::move(made).value();
  std::vector<float> ref(kOfferFloats);
  std::memcpy(ref.data(), &peer.segment->ref(), sizeof(wire::SegmentRef));
  peer.out.push_back(note(kOffer, 0, std::move(ref)));
}

bool Channels::shares_with(NodeId node) const {
  const std::lock_guard lock(mutex_);
  return peers_.at(node.value).maps;
}

std::int64_t Channels::shared() const {
  const std::lock_guard lock(mutex_);
  return shared_;
}

PeerRoom Channels::room(NodeId to, std::int64_t floats) {
  std::shared_ptr<wire::SharedSegment> segment;
  {
    const std::lock_guard lock(mutex_);
    const Peer& peer = peer_of(to);
    if (peer.maps) segment = peer.segment;
  }
  if (segment == nullptr || floats == 0) return PeerRoom::on_the_heap(floats);
  const auto count = static_cast<std::size_t>(floats);
  auto* const at = static_cast<float*>(segment->allocate(count * sizeof(float), kAlignment));
  return {{at, count}, std::shared_ptr<const void>(at, [segment, count](const void* memory) {
            segment->deallocate(const_cast<void*>(memory), count * sizeof(float), kAlignment);
          })};
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

Result<PeerMessage> Channels::receive_within(NodeId from, std::optional<std::chrono::milliseconds> within) {
  std::unique_lock lock(mutex_);
  Peer& peer = peer_of(from);
  const auto come = [&] { return !peer.in.empty() || !peer.gone.is_ok() || !stopped_.is_ok(); };
  if (!within) {
    changed_.wait(lock, come);
  } else if (!changed_.wait_for(lock, *within, come)) {
    return deadline_exceeded("nothing has come from " + name_of(place_, from.value));
  }
  if (!peer.in.empty()) {
    PeerMessage message = std::move(peer.in.front());
    peer.in.pop_front();
    return message;
  }
  return peer.gone.is_ok() ? stopped_ : peer.gone;
}

Status Channels::send_parameters(NodeId to, Version version, std::vector<float> floats) {
  PeerMessage message = note(kParameters, 0, std::move(floats));
  message.clock = version.value;
  {
    const std::lock_guard lock(mutex_);
    std::optional<Version>& sent = peer_of(to).parameters_sent;
    if (sent && version <= *sent) return Status::ok();
    sent = version;
  }
  return send(to, std::move(message));
}

bool Channels::has_sent_parameters(NodeId to, Version version) const {
  const std::lock_guard lock(mutex_);
  const std::optional<Version>& sent = peers_.at(to.value).parameters_sent;
  return sent && version <= *sent;
}

Result<std::vector<float>> Channels::receive_parameters(NodeId from, Version version) {
  std::unique_lock lock(mutex_);
  Peer& peer = peer_of(from);
  for (;;) {
    while (!peer.parameters.empty() && peer.parameters.front().clock < version.value)
      peer.parameters.pop_front();
    if (!peer.parameters.empty()) break;
    if (!peer.gone.is_ok()) return peer.gone;
    if (!stopped_.is_ok()) return stopped_;
    changed_.wait(lock);
  }
  if (peer.parameters.front().clock > version.value) {
    return not_found("parameters of version " + to_string(version) + " from node " + to_string(from) +
                     ": those of version " + std::to_string(peer.parameters.front().clock) + " have come");
  }
  const std::span<const float> floats = peer.parameters.front().floats.span();
  std::vector<float> parameters(floats.begin(), floats.end());
  peer.parameters.pop_front();
  return parameters;
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
    give_back_read();
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
  peer.maps = false;
  peer.out.clear();
  peer.lent.clear();
  if (!gone_) gone_ = NodeId(rank);
  changed_.notify_all();
}

// What has been read since, to be said.
void Channels::give_back_read() {
  std::vector<std::pair<std::uint32_t, std::int64_t>> places;
  {
    const std::lock_guard lock(read_->mutex);
    places.swap(read_->places);
  }
  const std::lock_guard lock(mutex_);
  for (const auto& [rank, place] : places) {
    if (peers_[rank].gone.is_ok()) peers_[rank].out.push_back(note(kRead, place, {}));
  }
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
  const std::span<const std::byte> written = std::as_bytes(first->floats.span());
  if (peer.sent == 0) {
    const auto place = peer.segment == nullptr || written.empty()
                           ? std::nullopt
                           : peer.segment->offset_of(written.data(), written.size());
    peer.sending = {first->clock,    first->position, static_cast<std::int64_t>(first->floats.size()),
                    first->loss_sum, first->correct,  first->micro_batch,
                    first->backward, first->samples,  place.value_or(kSent),
                    kMessageMagic};
  }
  const std::size_t floats = peer.sending.at == kSent ? written.size() : 0;
  std::array<iovec, 2> pieces{};
  std::size_t count = 0;
  if (peer.sent < sizeof(Head)) {
    pieces[count++] = {reinterpret_cast<char*>(&peer.sending) + peer.sent, sizeof(Head) - peer.sent};
  }
  const std::size_t from = std::max(peer.sent, sizeof(Head)) - sizeof(Head);
  const char* const bytes = reinterpret_cast<const char*>(written.data());
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
  if (peer.sending.at == kSent) return true;
  peer.lent[peer.sending.at] = gone.floats;
  ++shared_;
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

// Whether the peer is lost by what it says.
bool Channels::refuse_head(const Head& head, Peer& peer, std::uint32_t rank) {
  if (head.magic != kMessageMagic || head.floats < 0 || head.backward > kRead || head.at < kSent) {
    lose(peer, rank, "sends what is no message");
    return true;
  }
  std::size_t waiting = 0;
  {
    const std::lock_guard lock(mutex_);
    waiting = peer.in.size();
  }
  const bool is_message = head.backward < kParameters;
  std::int64_t most = is_message ? peer.bounds.floats : 0;
  if (head.backward == kParameters) most = peer.parameters_max;
  if (head.backward == kOffer) most = static_cast<std::int64_t>(kOfferFloats);
  if (head.floats <= most && (!is_message || waiting < peer.bounds.messages)) return false;
  lose(peer, rank,
       "sends " + std::to_string(head.floats) + " floats after " + std::to_string(waiting) +
           " messages that wait, expected at most " + std::to_string(most) + " floats and " +
           std::to_string(peer.bounds.messages) + " messages");
  return true;
}

// Empty: there are none at that place.
PeerFloats Channels::lent_by(Peer& peer, std::uint32_t rank, const Head& head) {
  const auto bytes = head.floats * static_cast<std::int64_t>(sizeof(float));
  if (peer.mapped == nullptr || head.at % static_cast<std::int64_t>(alignof(float)) != 0 ||
      head.at > peer.mapped->size() - bytes || !peer.mapped->has_pages_to(head.at + bytes)) {
    return {};
  }
  const std::byte* const at = peer.mapped->part(head.at, bytes).data();
  return {{reinterpret_cast<const float*>(at), static_cast<std::size_t>(head.floats)},
          std::make_shared<const Lent>(peer.mapped, read_, rank, head.at)};
}

bool Channels::begin_message(Peer& peer, std::uint32_t rank) {
  const Head& head = peer.head;
  if (refuse_head(head, peer, rank)) return false;
  peer.coming = {head.clock, head.position, head.micro_batch, head.backward, head.loss_sum, head.correct,
                 {},         head.samples};
  peer.arriving = {};
  if (head.at == kSent) {
    peer.arriving = PeerRoom::on_the_heap(head.floats);
    return true;
  }
  peer.coming.floats = lent_by(peer, rank, head);
  if (static_cast<std::int64_t>(peer.coming.floats.size()) == head.floats && head.floats > 0) return true;
  lose(peer, rank, "says that floats lie where none can be read");
  return false;
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
    const std::span<std::byte> arriving = std::as_writable_bytes(peer.arriving.span());
    const std::size_t floats = arriving.size();
    const std::size_t at = peer.received - sizeof(Head);
    if (at < floats) {
      std::byte* const into = arriving.data() + at;
      if (!receive_into(peer, rank, into, floats - at)) return;
      if (peer.received - sizeof(Head) < floats) continue;
    }
    peer.received = 0;
    if (floats > 0) peer.coming.floats = std::move(peer.arriving).done();
    take_message(peer, rank);
    if (!peer.gone.is_ok() || !peer.connection->holds_more()) return;
  }
}

// Once it is mapped here the peer is told, and else goes on sending.
void Channels::map(Peer& peer, std::uint32_t rank) {
  const std::span<const float> floats = peer.coming.floats.span();
  wire::SegmentRef ref;
  if (floats.size() != kOfferFloats || peer.mapped != nullptr) return lose(peer, rank, "offers no memory");
  std::memcpy(static_cast<void*>(&ref), floats.data(), sizeof ref);
  const std::int64_t most = segment_bytes(peer.bounds.floats, peer.bounds.messages);
  if (!place_.shares || most == 0) return;
  auto mapped = wire::MappedSegment::map(ref, most);
  if (!mapped.is_ok()) return;
  peer.mapped = std::move(mapped).value();
  const std::lock_guard lock(mutex_);
  peer.out.push_back(note(kMaps, 0, {}));
}

void Channels::take_message(Peer& peer, std::uint32_t rank) {
  if (peer.coming.backward == kOffer) return map(peer, rank);
  if (peer.coming.backward == kRead) {
    peer.lent.erase(peer.coming.position);
    return;
  }
  const std::lock_guard lock(mutex_);
  if (peer.coming.backward == kMaps) {
    peer.maps = peer.segment != nullptr;
    return;
  }
  const bool parameters = peer.coming.backward == kParameters;
  std::deque<PeerMessage>& into = parameters ? peer.parameters : peer.in;
  if (parameters && into.size() == kVersionsMax) into.pop_front();
  into.push_back(std::exchange(peer.coming, {}));
  changed_.notify_all();
}

}  // namespace paceline::mesh
