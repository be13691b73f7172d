// A run with keys: what nodes say to each other is sealed, and who has not the formation's key is no peer. What lies
// between two ranks here reads along, changes, cuts off and repeats.
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/schedule/planners.h"
#include "tests/unit/mesh_ranks.h"
#include "worker/mesh/channels.h"
#include "worker/mesh/handshake.h"
#include "worker/mesh/seal.h"

namespace paceline::mesh {
namespace {

using schedule::Algorithm;
using schedule::Program;

// Of what a rank sends first.
constexpr std::size_t kHelloBytes = 48;
constexpr std::size_t kFirstFrame = kHelloBytes + Seal::kProofBytes;

// Between rank 1, which connects to it, and rank 0. The first connection alone; what it has from rank 0 it changes as
// it is told.
class Between {
 public:
  struct Does {
    std::optional<std::size_t> flips;  // the lowest bit of this byte
    std::optional<std::size_t> ends_at;
  };
  Between(std::string to, Does does)
      : listening_(listen_at("127.0.0.1").value()), to_(std::move(to)), does_(does) {
    thread_ = std::thread([this] { run(); });
  }
  ~Between() { end(); }
  const std::string& endpoint() const { return listening_.endpoint; }
  // What rank 1 has said so far, once the relay has ended.
  const std::string& end() {
    stop_.set();
    if (thread_.joinable()) thread_.join();
    return printed_;
  }

 private:
  void run() {
    std::array<pollfd, 2> comes = {{{listening_.socket.get(), POLLIN, 0}, {stop_.descriptor(), POLLIN, 0}}};
    ::poll(comes.data(), comes.size(), -1);
    const Descriptor one = accept_from(listening_.socket).value();
    if (!one.is_open()) return;
    const Descriptor zero = connect_to(to_, stop_, kWithin).value();
    std::size_t from_zero = 0;
    std::array<char, 4096> bytes;
    while (!stop_.is_set()) {
      std::array<pollfd, 3> waits = {
          {{one.get(), POLLIN, 0}, {zero.get(), POLLIN, 0}, {stop_.descriptor(), POLLIN, 0}}};
      ::poll(waits.data(), waits.size(), -1);
      for (const bool is_one : {true, false}) {
        if (waits[is_one ? 0 : 1].revents == 0) continue;
        const ssize_t got = ::recv((is_one ? one : zero).get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
        if (got <= 0) return;
        std::size_t size = static_cast<std::size_t>(got);
        if (is_one) printed_.append(bytes.data(), size);
        if (!is_one) {
          const auto lies = [&](std::size_t at) { return at >= from_zero && at - from_zero < size; };
          if (does_.flips && lies(*does_.flips)) bytes[*does_.flips - from_zero] ^= 1;
          if (does_.ends_at && lies(*does_.ends_at)) size = *does_.ends_at - from_zero;
          from_zero += size;
        }
        if (!pass((is_one ? zero : one).get(), bytes.data(), size)) return;
        if (!is_one && does_.ends_at == from_zero) return;
      }
    }
  }
  bool pass(int to, const char* bytes, std::size_t size) const {
    while (size > 0) {
      const ssize_t sent = ::send(to, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno == EAGAIN) {
        std::array<pollfd, 2> waits = {{{to, POLLOUT, 0}, {stop_.descriptor(), POLLIN, 0}}};
        ::poll(waits.data(), waits.size(), -1);
        if (!stop_.is_set()) continue;
      }
      if (sent <= 0) return false;
      bytes += sent;
      size -= static_cast<std::size_t>(sent);
    }
    return true;
  }

  const Listening listening_;
  const std::string to_;
  const Does does_;
  StopFlag stop_;
  std::string printed_;
  std::thread thread_;
};

std::vector<float> numbers(std::uint32_t rank, std::size_t floats) {
  std::vector<float> values(floats);
  for (std::size_t i = 0; i < floats; ++i)
    values[i] = 1.0F / static_cast<float>(1 + (i * 31 + rank * 7) % 1000);
  return values;
}

// Of two ranks, of which rank 1 reaches rank 0 through `between`: what each says of a reduction.
std::array<Status, 2> reduce_through(Ranks& ranks, const Between& between, std::size_t floats) {
  const schedule::Plan plan =
      *schedule::make_plan({Algorithm::kRing, 2, static_cast<std::int64_t>(floats), {}});
  std::array<Status, 2> ended;
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      Place place = ranks.place(rank);
      if (rank == 1) place.endpoints[0] = between.endpoint();
      auto mesh = Mesh::connect(*ranks.listeners[rank], place, ranks.stops[rank], kWithin);
      ended[rank] = mesh.status();
      if (mesh.is_ok()) {
        std::vector<float> vector = numbers(rank, floats);
        ended[rank] = (*mesh)->reduce(Program(plan, rank), vector, 0, kWithin);
      }
      if (rank == 1 && !ended[1].is_ok()) ranks.stops[0].set();  // as the authority would
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ended;
}

TEST_CASE("with keys every rank ends with the bits that it has without, over sockets and in shared memory") {
  struct Case {
    Algorithm algorithm;
    bool shares;
    Encoding encoding;
  };
  const auto [algorithm, shares, encoding] = GENERATE(
      Case{Algorithm::kRing, false, Encoding::kFp32}, Case{Algorithm::kDirect, false, Encoding::kBf16},
      Case{Algorithm::kTree, true, Encoding::kFp32}, Case{Algorithm::kRing, true, Encoding::kBf16});
  constexpr std::size_t kFloats = 60'011;  // rows of more than a frame
  const schedule::Plan plan = *schedule::make_plan({algorithm, 3, kFloats, {}});
  INFO(plan.name << (shares ? ", in shared memory" : ""));
  std::vector<std::vector<float>> sums[2];
  for (const bool has_keys : {false, true}) {
    Ranks ranks(3);
    if (has_keys) ranks.key = new_formation_key();
    if (shares) ranks.share(kFloats);
    std::vector<std::vector<float>>& sum = sums[has_keys ? 1 : 0];
    sum.resize(3);
    const auto ended = ranks.run([&](Mesh& mesh, std::uint32_t rank) {
      std::pmr::vector<float> vector = ranks.vector(rank, numbers(rank, kFloats));
      const Program program(plan, rank, encoding);
      PACELINE_RETURN_IF_ERROR(mesh.reduce(program, vector, 0, kWithin));
      PACELINE_RETURN_IF_ERROR(mesh.reduce(program, vector, 1, kWithin));
      sum[rank].assign(vector.begin(), vector.end());
      return Status::ok();
    });
    for (const Status& status : ended) CHECK(status.message() == "");
  }
  CHECK(sums[0] == sums[1]);
}

TEST_CASE("messages of tasks come through a seal as they were sent, whatever their size") {
  Ranks ranks(2);
  ranks.key = new_formation_key();
  std::array<std::shared_ptr<Channels>, 2> ends;
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const std::vector<PeerBounds> bounds = {{100'000, 8}, {100'000, 8}};
      auto connections = shake_hands(*ranks.listeners[rank], ranks.place(rank), ranks.stops[rank], kWithin);
      ends[rank] =
          Channels::over(std::move(connections).value(), ranks.place(rank), ranks.stops[rank], {bounds, {}});
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::size_t floats : {0, 1, 16'386, 16'387, 100'000}) {
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      REQUIRE(ends[rank]->send(NodeId(1 - rank), {.clock = 3, .floats = numbers(rank, floats)}).is_ok());
    }
  }
  for (const std::size_t floats : {0, 1, 16'386, 16'387, 100'000}) {
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      const auto message = ends[rank]->receive(NodeId(1 - rank));
      REQUIRE(message.status().message() == "");
      CHECK((message->clock == 3 && std::ranges::equal(message->floats.span(), numbers(1 - rank, floats))));
    }
  }
}

TEST_CASE("who has another key, or none, is no peer, and both ends say so by name") {
  struct Case {
    std::optional<FormationKey> of_0, of_1;
    std::string by_0, by_1;
  };
  const std::string another =
      "does not prove that it has this formation's key: it is not of this run, or was changed on the way";
  const std::string has_keys = "speaks with keys, and we have none (security.keys)";
  const std::string has_none = "speaks without keys, and we have some (security.keys)";
  const auto key = [] { return std::optional(new_formation_key()); };
  const Case one = GENERATE_COPY(Case{key(), key(), another, another}, Case{key(), {}, has_none, has_keys},
                                 Case{{}, key(), has_keys, has_none});
  Ranks ranks(2);
  ranks.key = one.of_0;
  std::thread other([&] {
    Place place = ranks.place(1);
    place.key = one.of_1;
    const auto mesh = Mesh::connect(*ranks.listeners[1], place, ranks.stops[1], kWithin);
    CHECK(mesh.status().message() == "node 0 (" + ranks.endpoints[0] + ") " + one.by_1);
    ranks.stops[0].set();
  });
  const Status refused = ranks.connect(0).status();
  other.join();
  CHECK(refused.message() == "stopped; who says to be node 1 (" + ranks.endpoints[1] + ") " + one.by_0);
}

TEST_CASE("a proof is of one formation's key and of both Hellos") {
  const FormationKey key = new_formation_key();
  const std::array<std::byte, 4> hellos{};
  const KeyExchange one, other;
  const auto is_proven = [&](const FormationKey& of_other, const std::array<std::byte, 4>& received) {
    const auto connects = one.agree(true, key, other.own(), hellos);
    const auto accepts = other.agree(false, of_other, one.own(), received);
    return accepts->is_proven(connects->proof());
  };
  CHECK(is_proven(key, hellos));
  CHECK_FALSE(is_proven(new_formation_key(), hellos));
  for (const std::size_t changed : {0, 3}) {
    std::array<std::byte, 4> received = hellos;
    received[changed] = std::byte{1};
    CHECK_FALSE(is_proven(key, received));
  }
}

// A third rank has gone meanwhile, which has nothing to do with it.
TEST_CASE("of what was changed on the way is said who has sent it, and nobody is said to be gone") {
  Ranks ranks(3);
  ranks.key = new_formation_key();
  const Between between(ranks.endpoints[0], {kFirstFrame + 40, {}});
  const schedule::Plan plan = *schedule::make_plan({Algorithm::kRing, 2, 1000, {}});
  std::array<std::unique_ptr<Mesh>, 3> meshes;
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      Place place = ranks.place(rank);
      if (rank == 1) place.endpoints[0] = between.endpoint();
      auto mesh = Mesh::connect(*ranks.listeners[rank], place, ranks.stops[rank], kWithin);
      if (mesh.is_ok()) meshes[rank] = std::move(mesh).value();
    });
  }
  for (std::thread& thread : threads) thread.join();
  REQUIRE((meshes[0] != nullptr && meshes[1] != nullptr));
  meshes[2].reset();
  std::thread other([&] {
    std::vector<float> vector = numbers(0, 1000);
    static_cast<void>(meshes[0]->reduce(Program(plan, 0), vector, 0, kWithin));
  });
  std::vector<float> vector = numbers(1, 1000);
  const Status ended = meshes[1]->reduce(Program(plan, 1), vector, 0, kWithin);
  CHECK(ended.message() == "node 0 (" + between.endpoint() +
                               ") has sent what its key does not fit: somebody has changed it on the way");
  CHECK(meshes[1]->gone() == std::nullopt);
  ranks.stops[0].set();
  other.join();
}

// What it names is who has sent it, since nobody else is known.
TEST_CASE("what is changed or cut off on the way ends the connection, by name") {
  struct Case {
    Between::Does does;
    const char* by_1;
  };
  const char* const another =
      "does not prove that it has this formation's key: it is not of this run, or was changed on the way";
  const char* const changed = "has sent what its key does not fit: somebody has changed it on the way";
  const Case one = GENERATE_COPY(Case{{20, {}}, another},               // the public part
                                 Case{{kHelloBytes + 5, {}}, another},  // the proof
                                 Case{{kFirstFrame, {}}, changed},  // a frame's length, which is shorter then
                                 Case{{kFirstFrame + 3, {}}, changed},      // longer than any
                                 Case{{kFirstFrame + 4 + 3, {}}, changed},  // its bytes
                                 Case{{kFirstFrame + 80'000, {}}, changed},
                                 Case{{{}, kHelloBytes + 5}, "closed its connection"},
                                 Case{{{}, kFirstFrame + 80'000}, "closed its connection"});
  Ranks ranks(2);
  ranks.key = new_formation_key();
  const Between between(ranks.endpoints[0], one.does);
  const auto ended = reduce_through(ranks, between, 100'000);
  CHECK(ended[1].code() == StatusCode::kUnavailable);
  CHECK(ended[1].message() == "node 0 (" + between.endpoint() + ") " + one.by_1);
  CHECK_FALSE(ended[0].is_ok());
}

TEST_CASE("who reads along sees no float, and what it repeats later is of no use") {
  constexpr std::size_t kFloats = 64;
  std::array<std::string, 2> reported;
  std::optional<FormationKey> key;
  for (const bool has_keys : {false, true}) {
    Ranks ranks(2);
    if (has_keys) key = ranks.key = new_formation_key();
    Between between(ranks.endpoints[0], {});
    for (const Status& status : reduce_through(ranks, between, kFloats)) CHECK(status.message() == "");
    reported[has_keys ? 1 : 0] = between.end();
  }
  const std::vector<float> own = numbers(1, kFloats);
  const std::string some(reinterpret_cast<const char*>(own.data()), 16);
  CHECK(reported[0].find(some) != std::string::npos);
  CHECK(reported[1].find(some) == std::string::npos);

  Ranks again(2);
  again.key = key;
  const auto to_0 = connect_to(again.endpoints[0], again.stops[1], kWithin);
  REQUIRE(to_0.is_ok());
  REQUIRE(::send(to_0->get(), reported[1].data(), reported[1].size(), MSG_NOSIGNAL) ==
          std::ssize(reported[1]));
  bool hung_up = false;
  std::thread repeats([&] {
    // Rank 0 hangs up.
    std::array<char, 256> bytes;
    pollfd waits = {to_0->get(), POLLIN, 0};
    while (::poll(&waits, 1, static_cast<int>(kWithin.count())) == 1) {
      hung_up = ::recv(to_0->get(), bytes.data(), bytes.size(), MSG_DONTWAIT) <= 0;
      if (hung_up) break;
    }
    again.stops[0].set();
  });
  CHECK(again.connect(0).status().message() == "stopped; who says to be node 1 (" + again.endpoints[1] +
                                                   ") does not prove that it has this formation's key: it is "
                                                   "not of this run, or was changed on the way");
  repeats.join();
  CHECK(hung_up);
}

// Both ends of a connection, sealed.
std::array<std::unique_ptr<Connection>, 2> both_ends() {
  std::array<int, 2> sockets{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets.data()) == 0);
  const FormationKey key = new_formation_key();
  const KeyExchange one, other;
  auto connects = one.agree(true, key, other.own(), {});
  auto accepts = other.agree(false, key, one.own(), {});
  REQUIRE((accepts->is_proven(connects->proof()) && connects->is_proven(accepts->proof())));
  return {std::make_unique<Connection>(Descriptor(sockets[0]), std::move(connects)),
          std::make_unique<Connection>(Descriptor(sockets[1]), std::move(accepts))};
}

TEST_CASE("a sealed connection whose other end does not read goes on, and is closed when all is read") {
  auto ends = both_ends();
  const std::vector<float> sent = numbers(0, 1'000'000);
  const auto bytes = std::as_bytes(std::span(sent));
  std::size_t left = 0;
  const auto send_some = [&] {
    const iovec rest{const_cast<std::byte*>(bytes.data()) + left, bytes.size() - left};
    const std::size_t some = ends[0]->send({&rest, 1}).value();
    left += some;
    return some > 0;
  };
  while (left < bytes.size() && send_some()) {
  }
  REQUIRE(left < bytes.size());
  CHECK_FALSE(send_some());
  std::vector<float> got(sent.size());
  const auto into = std::as_writable_bytes(std::span(got));
  // In pieces of less than a frame, of which some waits after the last bytes of the socket.
  for (std::size_t at = 0; at < into.size();) {
    if (left < bytes.size()) {
      send_some();
    } else {
      ends[0] = nullptr;
    }
    at += ends[1]->receive(into.data() + at, std::min<std::size_t>(10'000, into.size() - at)).value();
    if (at < into.size()) REQUIRE_FALSE(ends[1]->is_closed());
  }
  CHECK(got == sent);
  CHECK(ends[1]->is_closed());
}

TEST_CASE("what was changed is told by drain(), and is not said to be a closed connection") {
  auto ends = both_ends();
  CHECK(ends[1]->drain().is_ok());
  const std::uint32_t length = 18;
  const std::array<char, 18> nothing{};
  REQUIRE(::send(ends[0]->descriptor(), &length, sizeof length, 0) == sizeof length);
  CHECK(ends[1]->drain().is_ok());
  CHECK(ends[1]->pending() == sizeof length);
  REQUIRE(::send(ends[0]->descriptor(), nothing.data(), nothing.size(), 0) == std::ssize(nothing));
  CHECK(ends[1]->drain().message() ==
        "has sent what its key does not fit: somebody has changed it on the way");
  CHECK((ends[1]->is_changed() && !ends[1]->is_closed()));
}

TEST_CASE("a frame that is left out, repeated or of the other direction is not opened") {
  const FormationKey key = new_formation_key();
  const std::array<std::byte, 4> hellos{};
  const KeyExchange one, other;
  const auto connects = one.agree(true, key, other.own(), hellos);
  const auto accepts = other.agree(false, key, one.own(), hellos);
  REQUIRE((connects != nullptr && accepts != nullptr));
  const Seal::Proof by_connects = connects->proof();
  CHECK_FALSE(connects->is_proven(by_connects));  // its own, said back to it
  REQUIRE((accepts->is_proven(by_connects) && connects->is_proven(accepts->proof())));
  const std::array<std::byte, 3> plain = {std::byte{1}, std::byte{2}, std::byte{3}};
  std::array<std::array<std::byte, 3 + Seal::kOverheadBytes>, 3> sealed;
  for (auto& frame : sealed) connects->seal(plain, frame);
  std::array<std::byte, 3> opened{};
  CHECK_FALSE(accepts->open(sealed[1], opened));
  CHECK_FALSE(connects->open(sealed[0], opened));
  CHECK(opened == std::array<std::byte, 3>{});
  CHECK((accepts->open(sealed[0], opened) && opened == plain));
  CHECK_FALSE(accepts->open(sealed[0], opened));
  CHECK(accepts->open(sealed[1], opened));
  CHECK(one.agree(true, key, PublicKey{}, hellos) == nullptr);  // from which any secret makes the same
}

}  // namespace
}  // namespace paceline::mesh
