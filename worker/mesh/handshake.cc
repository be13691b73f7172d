#include "worker/mesh/handshake.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <map>
#include <span>
#include <utility>

#include "common/ticks.h"

namespace paceline::mesh {
namespace {

// "PLM2", and with keys "PLK2", as they lie on the wire; what follows is in mesh.h.
constexpr std::uint32_t kMagic = 0x324d4c50;
constexpr std::uint32_t kKeyedMagic = 0x324b4c50;
// For an address at which somebody listens: a packet that is lost is sent again after 1, 3 and 7 seconds.
constexpr std::chrono::milliseconds kConnectWithin(10'000);
constexpr std::size_t kUnidentifiedMax = 64;  // that have not said who they are, beside one of each rank

struct Hello {
  std::uint32_t magic = kMagic;
  std::uint32_t from = 0;
  std::uint64_t token = 0;
  PublicKey key = {};  // with keys alone
};
constexpr std::size_t kPlainHelloBytes = offsetof(Hello, key);
static_assert(kPlainHelloBytes == 16 && sizeof(Hello) == 48);

// A connection over which a Hello comes, and a proof after it.
struct Arriving {
  std::unique_ptr<Descriptor> socket;
  std::uint32_t rank = 0;  // that was asked; of a stranger who it says to be
  Hello hello = {};
  std::size_t bytes = 0;  // of that
  // With keys alone.
  std::unique_ptr<KeyExchange> exchange = nullptr;
  std::unique_ptr<Seal> seal = nullptr;  // once there is a whole Hello
  Seal::Proof proof = {};
  std::size_t proof_bytes = 0;
};

constexpr const char* kProvesNothing =
    "does not prove that it has this formation's key: it is not of this run, or was changed on the way";

enum class Received { kAll, kNotYet, kNothingMore };

Received receive(const Descriptor& socket, void* into, std::size_t& got, std::size_t all) {
  while (got < all) {
    const ssize_t now = recv(socket.get(), static_cast<char*>(into) + got, all - got, 0);
    if (now < 0 && errno == EINTR) continue;
    if (now < 0 && errno == EAGAIN) return Received::kNotYet;
    if (now <= 0) return Received::kNothingMore;
    got += static_cast<std::size_t>(now);
  }
  return Received::kAll;
}

class Handshake {
 public:
  Handshake(const Listening& listening, const Place& place, const StopFlag& stop,
            std::chrono::milliseconds within)
      : listening_(listening),
        place_(place),
        stop_(stop),
        until_(steady_now() + within),
        found_(place.endpoints.size()) {}

  Result<PeerConnections> run() {
    for (std::uint32_t rank = 0; rank < place_.rank; ++rank) PACELINE_RETURN_IF_ERROR(go_to(rank));
    while (missing() > 0) PACELINE_RETURN_IF_ERROR(wait());
    return std::move(found_);
  }
  // After run().
  std::optional<NodeId> gone() const { return gone_ ? std::optional(place_.node_of(*gone_)) : std::nullopt; }
  // After a run() that has failed.
  std::shared_ptr<const void> take_begun() {
    struct Begun {
      PeerConnections found;
      std::vector<Arriving> answers;
      std::vector<Arriving> unidentified;
    };
    return std::make_shared<Begun>(Begun{std::move(found_), std::move(answers_), std::move(unidentified_)});
  }

 private:
  bool has_keys() const { return place_.key.has_value(); }
  std::uint32_t magic() const { return has_keys() ? kKeyedMagic : kMagic; }
  std::chrono::milliseconds left() const {
    return std::max(std::chrono::duration_cast<std::chrono::milliseconds>(until_ - steady_now()),
                    std::chrono::milliseconds(0));
  }

  // The lower rank has listened since before its address was given away, so there is nothing to wait for.
  Status go_to(std::uint32_t rank) {
    auto connection = connect_to(place_.endpoints[rank], stop_, std::min(left(), kConnectWithin));
    if (!connection.is_ok()) {
      Status why = connection.status();
      if (why.code() == StatusCode::kNotFound) {
        gone_ = rank;
        why = unavailable(why.message());
      }
      return std::move(why).with_context("cannot reach " + name_of(place_, rank));
    }
    answers_.push_back({std::make_unique<Descriptor>(std::move(connection).value()), rank});
    if (greet(answers_.back())) return Status::ok();
    gone_ = rank;
    return unavailable("cannot greet " + name_of(place_, rank) + ": " + system_error(errno));
  }

  Hello own_hello(const Arriving& to) const {
    Hello hello{magic(), place_.rank, place_.token};
    if (has_keys()) hello.key = to.exchange->own();
    return hello;
  }
  bool greet(Arriving& one) const {
    if (has_keys()) one.exchange = std::make_unique<KeyExchange>();
    const Hello hello = own_hello(one);
    return send_all(one, &hello, has_keys() ? sizeof hello : kPlainHelloBytes);
  }
  // So little that there is room for it. Whether the other end is there.
  static bool send_all(const Arriving& to, const void* bytes, std::size_t size) {
    return send(to.socket->get(), bytes, size, MSG_NOSIGNAL) == static_cast<ssize_t>(size);
  }

  // One without a key is shorter.
  Received receive_hello(Arriving& one) const {
    const Received received = receive(*one.socket, &one.hello, one.bytes, kPlainHelloBytes);
    if (received != Received::kAll || !has_keys() || one.hello.magic != kKeyedMagic) return received;
    return receive(*one.socket, &one.hello, one.bytes, sizeof one.hello);
  }
  // It is a node of this formation, whether it has a key or not.
  bool is_of_formation(const Hello& hello) const {
    return (hello.magic == kMagic || hello.magic == kKeyedMagic) && hello.token == place_.token;
  }
  // After both Hellos. Whether the other's key is one, and the other end is there.
  bool prove(Arriving& one, bool connects) const {
    const Hello own = own_hello(one);
    const std::array<Hello, 2> hellos = {connects ? own : one.hello, connects ? one.hello : own};
    one.seal = one.exchange->agree(connects, *place_.key, one.hello.key, std::as_bytes(std::span(hellos)));
    if (one.seal == nullptr) return false;
    const Seal::Proof proof = one.seal->proof();
    return send_all(one, proof.data(), proof.size());
  }

  void found(Arriving& one) {
    found_[one.rank] = std::make_unique<Connection>(std::move(*one.socket), std::move(one.seal));
    one.socket = nullptr;
  }

  std::uint32_t missing() const {
    return static_cast<std::uint32_t>(std::count(found_.begin(), found_.end(), nullptr)) - 1;
  }

  // Of who is stopped because of what another one has found it is told what this one has found, too.
  Status wait() {
    std::vector<pollfd> waits = {{stop_.descriptor(), POLLIN, 0}, {listening_.socket.get(), POLLIN, 0}};
    for (const auto* group : {&answers_, &unidentified_}) {
      for (const Arriving& one : *group) waits.push_back({one.socket->get(), POLLIN, 0});
    }
    const int found = poll(waits.data(), waits.size(), static_cast<int>(left().count()));
    const int error = errno;
    const Status taken = found < 0 && error != EINTR ? unavailable("poll: " + system_error(error)) : take();
    if (taken.is_ok() && missing() == 0) return Status::ok();
    if (stop_.is_set()) return aborted("stopped" + refused());
    PACELINE_RETURN_IF_ERROR(taken);
    if (left().count() > 0) return Status::ok();
    return deadline_exceeded(names_of_missing() + " not connected" + refused());
  }

  Status take() {
    PACELINE_RETURN_IF_ERROR(take_answers());
    PACELINE_RETURN_IF_ERROR(take_connections());
    std::erase_if(unidentified_, [this](Arriving& one) { return !stays(one); });
    return Status::ok();
  }

  std::string names_of_missing() const {
    std::string names;
    int count = 0;
    for (std::uint32_t rank = 0; rank < found_.size(); ++rank) {
      if (rank == place_.rank || found_[rank] != nullptr) continue;
      names += (count++ == 0 ? "" : ", ") + name_of(place_, rank);
    }
    return names + (count == 1 ? " has" : " have");
  }
  std::string refused() const {
    std::string all;
    for (const auto& [rank, why] : refused_) {
      if (found_[rank] == nullptr) all += "; who says to be " + name_of(place_, rank) + " " + why;
    }
    return all;
  }
  std::string of_the_other_kind() const {
    return has_keys() ? "speaks without keys, and we have some (security.keys)"
                      : "speaks with keys, and we have none (security.keys)";
  }

  Status take_answers() {
    for (Arriving& answer : answers_) {
      Status taken = take_answer(answer);
      if (!taken.is_ok()) return unavailable(name_of(place_, answer.rank) + " " + taken.message());
    }
    std::erase_if(answers_, [](const Arriving& one) { return one.socket == nullptr; });
    return Status::ok();
  }

  Status closed(const Arriving& by) {
    gone_ = by.rank;
    return unavailable("closed its connection");
  }

  Status take_answer(Arriving& answer) {
    const Status another = unavailable("does not answer at its address, but somebody else");
    if (answer.seal == nullptr) {
      const Received received = receive_hello(answer);
      if (received == Received::kNotYet) return Status::ok();
      if (received == Received::kNothingMore) return closed(answer);
      if (!is_of_formation(answer.hello) || answer.hello.from != answer.rank) return another;
      if (answer.hello.magic != magic()) return unavailable(of_the_other_kind());
      if (!has_keys()) {
        found(answer);
        return Status::ok();
      }
      if (!prove(answer, /*connects=*/true)) return another;
    }
    const Received received = receive(*answer.socket, &answer.proof, answer.proof_bytes, answer.proof.size());
    if (received == Received::kNotYet) return Status::ok();
    if (received == Received::kNothingMore) return closed(answer);
    if (!answer.seal->is_proven(answer.proof)) return unavailable(kProvesNothing);
    found(answer);
    return Status::ok();
  }

  Status take_connections() {
    for (;;) {
      PACELINE_ASSIGN_OR_RETURN(Descriptor connection, accept_from(listening_.socket));
      if (!connection.is_open()) return Status::ok();
      // All ranks may come at once, before a word of any has been read.
      if (unidentified_.size() == kUnidentifiedMax + found_.size()) drop_oldest();
      unidentified_.push_back({std::make_unique<Descriptor>(std::move(connection))});
    }
  }

  // The oldest of those that have not said the run's token, which nobody else knows; else the oldest.
  void drop_oldest() {
    std::erase_if(unidentified_, [&](Arriving& one) { return !stays(one); });
    if (unidentified_.size() < kUnidentifiedMax + found_.size()) return;
    const auto silent = std::find_if(unidentified_.begin(), unidentified_.end(),
                                     [](const Arriving& one) { return one.seal == nullptr; });
    unidentified_.erase(silent == unidentified_.end() ? unidentified_.begin() : silent);
  }

  // Who is none of the run's is let go, and nobody waits for it, nor ends because of it: who else has its key comes.
  bool stays(Arriving& one) {
    if (one.seal == nullptr) {
      const Received received = receive_hello(one);
      if (received == Received::kNotYet) return true;
      one.rank = one.hello.from;
      if (received == Received::kNothingMore || !is_of_formation(one.hello) || one.rank <= place_.rank ||
          one.rank >= found_.size() || found_[one.rank] != nullptr || !greet(one)) {
        return false;
      }
      if (one.hello.magic != magic()) {
        refused_[one.rank] = of_the_other_kind();
        return false;
      }
      if (!has_keys()) {
        found(one);
        return false;
      }
      if (!prove(one, /*connects=*/false)) return false;
    }
    const Received received = receive(*one.socket, &one.proof, one.proof_bytes, one.proof.size());
    if (received == Received::kNotYet) return true;
    if (received == Received::kNothingMore || found_[one.rank] != nullptr) return false;
    if (one.seal->is_proven(one.proof)) {
      found(one);
    } else {
      refused_[one.rank] = kProvesNothing;
    }
    return false;
  }

  const Listening& listening_;
  const Place& place_;
  const StopFlag& stop_;
  const Ticks until_;
  PeerConnections found_;
  std::vector<Arriving> answers_;  // of lower ranks
  std::vector<Arriving> unidentified_;
  std::optional<std::uint32_t> gone_;             // the rank by which it has failed
  std::map<std::uint32_t, std::string> refused_;  // by rank, why who says to be it is not
};

}  // namespace

std::string name_of(const Place& place, std::uint32_t rank) {
  return "node " + to_string(place.node_of(rank)) + " (" + place.endpoints[rank] + ")";
}

Result<PeerConnections> shake_hands(const Listening& listening, const Place& place, const StopFlag& stop,
                                    std::chrono::milliseconds within, std::optional<NodeId>* gone,
                                    std::shared_ptr<const void>* begun) {
  Handshake handshake(listening, place, stop, within);
  Result<PeerConnections> met = handshake.run();
  if (gone != nullptr && met.status().code() == StatusCode::kUnavailable) *gone = handshake.gone();
  if (begun != nullptr && !met.is_ok()) *begun = handshake.take_begun();
  return met;
}

}  // namespace paceline::mesh
