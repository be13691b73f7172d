#include "worker/mesh/handshake.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/ticks.h"

namespace paceline::mesh {
namespace {

constexpr std::uint32_t kMagic = 0x324d4c50;  // "PLM2", as it lies on the wire; what follows is in mesh.h
// For an address at which somebody listens: a packet that is lost is sent again after 1, 3 and 7 seconds.
constexpr std::chrono::milliseconds kConnectWithin(10'000);
constexpr std::size_t kStrangersMax = 64;  // that have not said who they are, beside one of each rank

struct Hello {
  std::uint32_t magic = kMagic;
  std::uint32_t from = 0;
  std::uint64_t token = 0;
};
static_assert(sizeof(Hello) == 16);

// A connection over which a Hello comes.
struct Arriving {
  std::unique_ptr<Descriptor> connection;
  Hello hello = {};
  std::size_t bytes = 0;
};

enum class Heard { kAll, kNotYet, kNothingMore };

Heard hear(Arriving& from) {
  while (from.bytes < sizeof(Hello)) {
    auto* const at = reinterpret_cast<char*>(&from.hello) + from.bytes;
    const ssize_t got = recv(from.connection->get(), at, sizeof(Hello) - from.bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return Heard::kNotYet;
    if (got <= 0) return Heard::kNothingMore;
    from.bytes += static_cast<std::size_t>(got);
  }
  return Heard::kAll;
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

  Result<Sockets> run() {
    for (std::uint32_t rank = 0; rank < place_.rank; ++rank) PACELINE_RETURN_IF_ERROR(go_to(rank));
    while (missing() > 0) PACELINE_RETURN_IF_ERROR(wait());
    return std::move(found_);
  }

 private:
  std::chrono::milliseconds left() const {
    return std::max(std::chrono::duration_cast<std::chrono::milliseconds>(until_ - steady_now()),
                    std::chrono::milliseconds(0));
  }

  // The lower rank has listened since before its address was given away, so there is nothing to wait for.
  Status go_to(std::uint32_t rank) {
    auto connection = connect_to(place_.endpoints[rank], stop_, std::min(left(), kConnectWithin));
    if (!connection.is_ok()) {
      return Status(connection.status()).with_context("cannot reach " + name_of(place_, rank));
    }
    answers_.push_back({std::make_unique<Descriptor>(std::move(connection).value())});
    PACELINE_RETURN_IF_ERROR(greet(*answers_.back().connection, rank));
    asked_.push_back(rank);
    return Status::ok();
  }

  Status greet(const Descriptor& connection, std::uint32_t rank) const {
    const Hello hello{kMagic, place_.rank, place_.token};
    if (send(connection.get(), &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello) return Status::ok();
    return unavailable("cannot greet " + name_of(place_, rank) + ": " + system_error(errno));
  }

  std::uint32_t missing() const {
    return static_cast<std::uint32_t>(std::count(found_.begin(), found_.end(), nullptr)) - 1;
  }

  Status wait() {
    std::vector<pollfd> waits = {{stop_.descriptor(), POLLIN, 0}, {listening_.socket.get(), POLLIN, 0}};
    for (const auto* group : {&answers_, &strangers_}) {
      for (const Arriving& one : *group) waits.push_back({one.connection->get(), POLLIN, 0});
    }
    const std::chrono::milliseconds allowed = left();
    if (stop_.is_set()) return aborted("stopped");
    if (allowed.count() == 0) return deadline_exceeded(names_of_missing() + " not been heard of");
    if (poll(waits.data(), waits.size(), static_cast<int>(allowed.count())) < 0 && errno != EINTR) {
      return unavailable("poll: " + system_error(errno));
    }
    PACELINE_RETURN_IF_ERROR(take_answers());
    PACELINE_RETURN_IF_ERROR(take_connections());
    return take_strangers();
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

  Status take_answers() {
    for (std::size_t i = 0; i < answers_.size(); ++i) {
      Arriving& answer = answers_[i];
      if (answer.connection == nullptr) continue;
      const Heard heard = hear(answer);
      if (heard == Heard::kNotYet) continue;
      const std::uint32_t rank = asked_[i];
      if (heard == Heard::kNothingMore) return unavailable(name_of(place_, rank) + " closed its connection");
      const Hello& hello = answer.hello;
      if (hello.magic != kMagic || hello.from != rank || hello.token != place_.token) {
        return unavailable("at the address of " + name_of(place_, rank) + " somebody else answers");
      }
      found_[rank] = std::move(answer.connection);
    }
    for (std::size_t i = answers_.size(); i-- > 0;) {
      if (answers_[i].connection != nullptr) continue;
      answers_.erase(answers_.begin() + static_cast<std::ptrdiff_t>(i));
      asked_.erase(asked_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return Status::ok();
  }

  Status take_connections() {
    for (;;) {
      PACELINE_ASSIGN_OR_RETURN(Descriptor connection, accept_from(listening_.socket));
      if (!connection.is_open()) return Status::ok();
      // All ranks may come at once, before a word of any has been read.
      if (strangers_.size() == kStrangersMax + found_.size()) strangers_.erase(strangers_.begin());
      strangers_.push_back({std::make_unique<Descriptor>(std::move(connection))});
    }
  }

  // Who is none of the run's is let go, and nobody waits for it.
  Status take_strangers() {
    for (Arriving& one : strangers_) {
      const Heard heard = hear(one);
      if (heard == Heard::kNotYet) continue;
      const Hello& hello = one.hello;
      const bool known = heard == Heard::kAll && hello.magic == kMagic && hello.token == place_.token &&
                         hello.from > place_.rank && hello.from < found_.size() &&
                         found_[hello.from] == nullptr;
      if (known) {
        PACELINE_RETURN_IF_ERROR(greet(*one.connection, hello.from));
        found_[hello.from] = std::move(one.connection);
      }
      one.connection = nullptr;
    }
    std::erase_if(strangers_, [](const Arriving& one) { return one.connection == nullptr; });
    return Status::ok();
  }

  const Listening& listening_;
  const Place& place_;
  const StopFlag& stop_;
  const Ticks until_;
  Sockets found_;
  std::vector<Arriving> answers_;     // of lower ranks
  std::vector<std::uint32_t> asked_;  // those, in the same order
  std::vector<Arriving> strangers_;
};

}  // namespace

std::string name_of(const Place& place, std::uint32_t rank) {
  return "node " + to_string(place.node_of(rank)) + " (" + place.endpoints[rank] + ")";
}

Result<Sockets> shake_hands(const Listening& listening, const Place& place, const StopFlag& stop,
                            std::chrono::milliseconds within) {
  return Handshake(listening, place, stop, within).run();
}

}  // namespace paceline::mesh
