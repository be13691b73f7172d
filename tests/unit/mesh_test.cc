// What becomes of a mesh where a rank is not there, goes, falls silent or has another plan; mesh_sums_test.cc has its
// sums.
#include "worker/mesh/mesh.h"

#include <linux/filter.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstddef>
#include <future>
#include <memory_resource>
#include <thread>

#include "common/config/local_endpoint.h"
#include "common/schedule/planners.h"
#include "common/ticks.h"
#include "tests/unit/mesh_ranks.h"
#include "worker/mesh/handshake.h"
#include "worker/mesh/own_address.h"
#include "worker/mesh/seal.h"

namespace paceline::mesh {
namespace {

using schedule::Algorithm;
using schedule::Program;
using std::chrono::milliseconds;

// A rank of which the test itself writes the bytes, with the ranks' key if they have one.
class RawRank {
 public:
  RawRank(const Ranks& ranks, std::uint32_t rank) : key_(ranks.key), connection_(connected(ranks)) {
    hello_ = {key_ ? 0x324b4c50U : 0x324d4c50U, rank, 7, exchange_.own()};
    const std::size_t size = key_ ? sizeof hello_ : offsetof(Hello, key);
    REQUIRE(::write(connection_.get(), &hello_, size) == static_cast<ssize_t>(size));
  }
  // What a key asks for after the Hello, while the other rank connects. Whether it has the same key. Thread: any.
  bool prove() {
    if (!key_) return true;
    std::array<Hello, 2> hellos = {hello_};
    Seal::Proof by_other;
    if (!receive(&hellos[1], sizeof(Hello)) || !receive(by_other.data(), by_other.size())) return false;
    seal_ = exchange_.agree(true, *key_, hellos[1].key, std::as_bytes(std::span(hellos)));
    if (seal_ == nullptr || !seal_->is_proven(by_other)) return false;
    const Seal::Proof own = seal_->proof();
    return ::write(connection_.get(), own.data(), own.size()) == std::ssize(own);
  }
  // In a frame of its own where there is a key; `less`: of which so many bytes do not leave.
  template <typename Bytes>
  void send(const Bytes& bytes, std::size_t less = 0) const {
    const auto plain = std::as_bytes(std::span(&bytes, 1));
    std::vector<std::byte> sent(plain.begin(), plain.end());
    if (seal_ != nullptr) {
      const auto sealed = static_cast<std::uint32_t>(plain.size() + Seal::kOverheadBytes);
      sent.resize(sizeof sealed + sealed);
      std::memcpy(sent.data(), &sealed, sizeof sealed);
      seal_->seal(plain, std::span(sent).subspan(sizeof sealed));
    }
    const std::size_t size = sent.size() - less;
    REQUIRE(::write(connection_.get(), sent.data(), size) == static_cast<ssize_t>(size));
  }
  // From now on no packet comes here, as where the network has failed.
  void vanish() const {
    sock_filter nothing[] = {{BPF_RET | BPF_K, 0, 0, 0}};
    const sock_fprog filter{1, nothing};
    REQUIRE(setsockopt(connection_.get(), SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) == 0);
  }
  struct Hello {
    std::uint32_t magic, from;
    std::uint64_t token;
    PublicKey key;
  };
  struct Head {
    std::uint32_t reduction, floats;
    std::int64_t begin;
  };

 private:
  static Descriptor connected(const Ranks& ranks) {
    auto connection = connect_to(ranks.endpoints[0], ranks.stops[0], kWithin);
    REQUIRE(connection.is_ok());
    return std::move(connection).value();
  }
  bool receive(void* into, std::size_t bytes) const {
    for (std::size_t got = 0; got < bytes;) {
      pollfd waits = {connection_.get(), POLLIN, 0};
      if (::poll(&waits, 1, static_cast<int>(kWithin.count())) != 1) return false;
      const ssize_t now =
          ::recv(connection_.get(), static_cast<char*>(into) + got, bytes - got, MSG_DONTWAIT);
      if (now <= 0) return false;
      got += static_cast<std::size_t>(now);
    }
    return true;
  }
  const std::optional<FormationKey> key_;
  const KeyExchange exchange_;
  const Descriptor connection_;
  Hello hello_;
  std::unique_ptr<Seal> seal_;
};

// Rank 0's mesh, once that other one has proven who it is.
Result<std::unique_ptr<Mesh>> connect_with(Ranks& ranks, RawRank& other) {
  bool is_proven = false;
  std::thread proves([&] { is_proven = other.prove(); });
  auto mesh = ranks.connect(0);
  proves.join();
  CHECK(is_proven);
  return mesh;
}

// Whoever hears it closes, too, as a node does that cannot go on.
TEST_CASE("a rank that goes is named, and nobody waits for it") {
  const auto algorithm =
      GENERATE(Algorithm::kRing, Algorithm::kBinaryBlocks, Algorithm::kTorus, Algorithm::kHierarchical);
  constexpr std::uint32_t kRanks = 6;
  const schedule::Plan plan = planned(algorithm, kRanks, 100'000);
  Ranks ranks(kRanks);
  if (GENERATE(false, true)) ranks.share(plan.floats);
  const auto ended = ranks.run([&](Mesh& mesh, std::uint32_t rank) {
    std::pmr::vector<float> vector = ranks.vector(rank, whole_numbers(rank, plan.floats));
    const Program program(plan, rank);
    PACELINE_RETURN_IF_ERROR(mesh.reduce(program, vector, 0, kWithin));
    if (rank == 4) return Status::ok();
    const Status failed = mesh.reduce(program, vector, 1, kWithin);
    // For good.
    return mesh.reduce(program, vector, 2, kWithin).message() == failed.message() ? failed : Status::ok();
  });
  int named = 0;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    if (rank == 4) continue;
    CHECK(ended[rank].code() == StatusCode::kUnavailable);
    named += ended[rank].message() == "node 4 (" + ranks.endpoints[4] + ") closed its connection" ? 1 : 0;
  }
  CHECK(named > 0);
}

// Whichever of two ranks notices first says so, and goes; the other one may only see that.
void check_reported(const Ranks& ranks, const std::vector<Status>& ended, const std::string& by_0,
                    const std::string& by_1) {
  const auto reported = [&](std::uint32_t other, const std::string& what) {
    return "node " + std::to_string(other) + " (" + ranks.endpoints[other] + ") " + what;
  };
  const std::string gone = "closed its connection";
  CHECK((ended[0].message() == reported(1, by_0) || ended[1].message() == reported(0, by_1)));
  CHECK((ended[0].message() == reported(1, by_0) || ended[0].message() == reported(1, gone)));
  CHECK((ended[1].message() == reported(0, by_1) || ended[1].message() == reported(0, gone)));
}

TEST_CASE("a rank with another plan is named before a float of it is taken") {
  Ranks ranks(2);
  std::vector<float> kept[2];
  const auto ended = ranks.run([&](Mesh& mesh, std::uint32_t rank) {
    const schedule::Plan plan = *schedule::make_plan({Algorithm::kRing, 2, rank == 0 ? 1000 : 900, {}});
    kept[rank].assign(static_cast<std::size_t>(plan.floats), 1.0F);
    return mesh.reduce(Program(plan, rank), kept[rank], 0, kWithin);
  });
  check_reported(ranks, ended,
                 "sends 464 floats at 0 of reduction 0, expected 512 floats at 0 of reduction 0",
                 "sends 488 floats at 512 of reduction 0, expected 436 floats at 464 of reduction 0");
  for (const auto& vector : kept) {
    CHECK(std::all_of(vector.begin(), vector.end(), [](float value) { return value == 1.0F; }));
  }
}

TEST_CASE("a rank at another reduction is named") {
  Ranks ranks(2);
  const schedule::Plan plan = planned(Algorithm::kRing, 2, 64);
  const auto ended = ranks.run([&](Mesh& mesh, std::uint32_t rank) {
    std::vector<float> vector(64);
    return mesh.reduce(Program(plan, rank), vector, 5 + rank, kWithin);
  });
  check_reported(ranks, ended, "sends 32 floats at 0 of reduction 6, expected 32 floats at 0 of reduction 5",
                 "sends 32 floats at 32 of reduction 5, expected 32 floats at 32 of reduction 6");
}

TEST_CASE("a rank whose port is closed is named at once") {
  Ranks ranks(2);
  ranks.listeners[0].reset();
  const auto mesh = ranks.connect(1);
  CHECK(mesh.status().message() == "cannot reach node 0 (" + ranks.endpoints[0] + "): Connection refused");
  // Of a group within all nodes it is the node that is named.
  Place of_group = ranks.place(1);
  of_group.nodes = {NodeId(4), NodeId(5)};
  std::optional<NodeId> gone;
  CHECK_FALSE(shake_hands(*ranks.listeners[1], of_group, ranks.stops[1], kWithin, &gone).is_ok());
  CHECK(gone == NodeId(4));
}

// None that lives does, so whichever is named has gone.
TEST_CASE("where several ranks have closed their connections one is named, at whatever the others were") {
  const bool shares = GENERATE(false, true);
  Ranks ranks(3);
  if (shares) ranks.share(1000);
  std::vector<std::future<bool>> others;
  for (const std::uint32_t rank : {1U, 2U}) {
    others.push_back(std::async(std::launch::async, [&ranks, rank] {
      return shake_hands(*ranks.listeners[rank], ranks.place(rank), ranks.stops[rank], kWithin).is_ok();
    }));
  }
  auto met = shake_hands(*ranks.listeners[0], ranks.place(0), ranks.stops[0], kWithin);
  for (std::future<bool>& other : others) CHECK(other.get());
  REQUIRE(met.is_ok());
  const auto mesh = Mesh::over(std::move(met).value(), ranks.place(0), ranks.stops[0]);
  std::pmr::vector<float> vector(100);
  const Status failed = shares
                            ? mesh->share(kWithin, ranks.segments[0])
                            : mesh->reduce(Program(planned(Algorithm::kRing, 3, 100), 0), vector, 0, kWithin);
  CHECK(failed.code() == StatusCode::kUnavailable);
  CHECK(mesh->gone() == 1);
}

TEST_CASE("a rank that goes before all have met is named, though another one has gone after its Hello") {
  Ranks ranks(3);
  std::thread others([&ranks] {
    for (const std::uint32_t rank : {0U, 1U}) {
      pollfd waits = {ranks.listeners[rank]->socket.get(), POLLIN, 0};
      ::poll(&waits, 1, static_cast<int>(kWithin.count()));
      const auto connection = accept_from(ranks.listeners[rank]->socket);
      if (rank == 1 || !connection.is_ok()) continue;
      RawRank::Hello hello{};
      constexpr std::size_t kBytes = offsetof(RawRank::Hello, key);
      waits = {connection->get(), POLLIN, 0};
      ::poll(&waits, 1, static_cast<int>(kWithin.count()));
      CHECK(::recv(connection->get(), &hello, kBytes, 0) == static_cast<ssize_t>(kBytes));
      hello.from = 0;
      CHECK(::write(connection->get(), &hello, kBytes) == static_cast<ssize_t>(kBytes));
    }
  });
  std::optional<NodeId> gone;
  const Status met =
      shake_hands(*ranks.listeners[2], ranks.place(2), ranks.stops[2], kWithin, &gone).status();
  others.join();
  CHECK(met.message() == "node 1 (" + ranks.endpoints[1] + ") closed its connection");
  CHECK(gone == NodeId(1));
}

TEST_CASE("who cannot connect for want of a descriptor of its own says of nobody that it is gone") {
  Ranks ranks(2);
  const Place place = ranks.place(1);
  std::optional<NodeId> gone;
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none{3, before.rlim_max};  // those that every process has
  setrlimit(RLIMIT_NOFILE, &none);
  const Status met = shake_hands(*ranks.listeners[1], place, ranks.stops[1], kWithin, &gone).status();
  setrlimit(RLIMIT_NOFILE, &before);
  CHECK(met.code() == StatusCode::kUnavailable);
  CHECK(met.message() == "cannot reach node 0 (" + ranks.endpoints[0] + "): Too many open files");
  CHECK(gone == std::nullopt);
}

TEST_CASE("a rank that does not come is named when the time is over") {
  Ranks ranks(2);
  const auto mesh = ranks.connect(0, milliseconds(1));
  CHECK(mesh.status().message() == "node 1 (" + ranks.endpoints[1] + ") has not connected");
}

TEST_CASE("a stop ends every wait") {
  Ranks ranks(2);
  SECTION("for connections") {
    ranks.stops[0].set();
    CHECK(ranks.connect(0).status().code() == StatusCode::kAborted);
  }
  SECTION("for a connection to be made") {
    ranks.stops[1].set();
    CHECK(connect_to(ranks.endpoints[0], ranks.stops[1], kWithin).status().code() == StatusCode::kAborted);
  }
  SECTION("for what another rank has not begun to send") {
    std::atomic<bool> over{false};
    const schedule::Plan plan = planned(Algorithm::kRing, 2, 64);
    const auto ended = ranks.run([&](Mesh& mesh, std::uint32_t rank) {
      if (rank == 1) {
        ranks.stops[0].set();
        while (!over) std::this_thread::yield();
        return Status::ok();
      }
      std::vector<float> vector(64);
      const Status stopped = mesh.reduce(Program(plan, rank), vector, 0, kWithin);
      over = true;
      return stopped;
    });
    CHECK(ended[0].code() == StatusCode::kAborted);
  }
  SECTION("for the rest of what another rank sends") {
    const RawRank other(ranks, 1);
    auto mesh = ranks.connect(0);
    REQUIRE(mesh.is_ok());
    other.send(RawRank::Head{0, 32, 0});
    other.send(1.0F);
    std::thread stopper([&ranks] { ranks.stops[0].set(); });
    std::vector<float> vector(64);
    const Program program(planned(Algorithm::kRing, 2, 64), 0);
    CHECK((*mesh)->reduce(program, vector, 0, kWithin).code() == StatusCode::kAborted);
    stopper.join();
  }
}

TEST_CASE("a rank that falls silent in the middle of a transfer is named, with keys and without") {
  Ranks ranks(2);
  if (GENERATE(false, true)) ranks.key = new_formation_key();
  RawRank other(ranks, 1);
  auto mesh = connect_with(ranks, other);
  REQUIRE(mesh.is_ok());
  std::vector<float> vector(64);
  const Program program(planned(Algorithm::kRing, 2, 64), 0);
  SECTION("it sends no more") {
    other.send(RawRank::Head{0, 32, 0});
    other.send(1.0F);
  }
  SECTION("it sends a part of what begins the transfer") { other.send(RawRank::Head{0, 32, 0}, 3); }
  SECTION("its machine answers no more") {
    if (ranks.key) return;  // a seal changes nothing of it
    other.vanish();
  }
  CHECK((*mesh)->reduce(program, vector, 0, milliseconds(1)).message() ==
        "nothing has come from node 1 (" + ranks.endpoints[1] + ") for 1 ms, in the middle of a transfer");
}

TEST_CASE("a rank that computes for longer than any silence is waited for") {
  Ranks ranks(2);
  const schedule::Plan plan = planned(Algorithm::kRing, 2, 64);
  const auto ended = ranks.run([&](Mesh& mesh, std::uint32_t rank) {
    const Ticks began = steady_now();
    while (rank == 1 && steady_now() - began < milliseconds(30)) std::this_thread::yield();
    std::vector<float> vector(64);
    return mesh.reduce(Program(plan, rank), vector, 0, milliseconds(1));
  });
  CHECK(ended[0].message() == "");
  CHECK(ended[1].message() == "");
}

TEST_CASE("a rank whose many peers come at once lets all of them in") {
  Ranks ranks(80);
  std::vector<std::unique_ptr<RawRank>> others;
  for (std::uint32_t rank = 1; rank < 80; ++rank) others.push_back(std::make_unique<RawRank>(ranks, rank));
  CHECK(ranks.connect(0).status().message() == "");
}

// It says nothing, or something else; the run's own node still comes in.
TEST_CASE("strangers at the door keep nobody out") {
  Ranks ranks(2);
  const Result<Descriptor> silent = connect_to(ranks.endpoints[0], ranks.stops[0], kWithin);
  const Result<Descriptor> browser = connect_to(ranks.endpoints[0], ranks.stops[0], kWithin);
  REQUIRE((silent.is_ok() && browser.is_ok()));
  REQUIRE(::write(browser->get(), "GET / HTTP/1.0\r\n\r\n", 18) == 18);
  const auto ended = ranks.run([](Mesh&, std::uint32_t) { return Status::ok(); });
  CHECK(ended[0].message() == "");
  CHECK(ended[1].message() == "");
}

// More of them than are kept, so some are let go: not the one that has said the run's token.
TEST_CASE("hundreds of strangers that say nothing keep nobody out") {
  Ranks ranks(2);
  ranks.key = new_formation_key();
  std::vector<Descriptor> silent;
  const auto come = [&] {
    for (int i = 0; i < 200; ++i) {
      auto connection = connect_to(ranks.endpoints[0], ranks.stops[0], kWithin);
      REQUIRE(connection.is_ok());
      silent.push_back(std::move(connection).value());
    }
  };
  come();
  RawRank genuine(ranks, 1);
  come();
  CHECK(connect_with(ranks, genuine).status().message() == "");
}

TEST_CASE("another run's node is no peer") {
  Ranks ranks(2);
  std::thread other([&ranks] {
    const Status refused =
        Mesh::connect(*ranks.listeners[1], {1, ranks.endpoints, 8}, ranks.stops[1], kWithin).status();
    CHECK(refused.message() == "node 0 (" + ranks.endpoints[0] + ") closed its connection");
    ranks.stops[0].set();
  });
  CHECK(ranks.connect(0).status().code() == StatusCode::kAborted);
  other.join();
}

TEST_CASE("within one machine no more is on its way than its caches hold") {
  const Ranks ranks(1);
  const auto connection = connect_to(ranks.endpoints[0], ranks.stops[0], kWithin);
  int bytes = 0;
  socklen_t size = sizeof bytes;
  REQUIRE(getsockopt(connection->get(), SOL_SOCKET, SO_SNDBUF, &bytes, &size) == 0);
  CHECK(bytes == 2 * kSendBufferWithinMachine);
}

TEST_CASE("an address of this machine is found") {
  CHECK(*address_towards("tcp://127.0.0.1:5555") == "127.0.0.1");
  CHECK(*address_towards("ipc:///tmp/x") == "127.0.0.1");
  CHECK(is_loopback_number(*address_towards("tcp://localhost:5555")));
  CHECK_FALSE(address_towards("tcp://no such host:1").is_ok());
}

TEST_CASE("nodes listen at the addresses and ports that they are given, and reach each other there") {
  const auto one = listen_for_peers({"127.0.0.2", 0, 0}, "tcp://127.0.0.1:5555");
  REQUIRE(one.is_ok());
  const auto at = static_cast<std::uint16_t>(std::stoi(one->endpoint.substr(one->endpoint.rfind(':') + 1)));
  CHECK(one->endpoint == "127.0.0.2:" + std::to_string(at));
  CHECK(listen_for_peers({"127.0.0.2", at, at}, "").status().message() ==
        "cannot listen at 127.0.0.2, ports " + std::to_string(at) + " to " + std::to_string(at) +
            ": Address already in use");
  const std::uint16_t last = at < 65'000 ? at + 100 : at;  // one of which is free
  const std::uint16_t first = at < 65'000 ? at : at - 100;
  const auto other = listen_for_peers({"127.0.0.2", first, last}, "");
  REQUIRE(other.is_ok());
  CHECK((other->endpoint.starts_with("127.0.0.2:") && other->endpoint != one->endpoint));
  CHECK(listen_for_peers({}, "tcp://127.0.0.1:5555")->endpoint.starts_with("127.0.0.1:"));
  CHECK(listen_for_peers({"lo", 0, 0}, "")->endpoint.starts_with("127.0.0.1:"));
  CHECK_THAT(listen_for_peers({"192.0.2.1", 0, 0}, "").status().message(),
             Catch::Contains("cannot listen at 192.0.2.1: Cannot assign requested address"));
  CHECK_THAT(listen_for_peers({"no such host", 0, 0}, "").status().message(),
             Catch::Contains("no such host: "));
  Ranks ranks(2);  // and rank 1 elsewhere
  ranks.listeners[1] = std::make_unique<Listening>(listen_for_peers({"127.0.0.3", 0, 0}, "").value());
  ranks.endpoints[1] = ranks.listeners[1]->endpoint;
  CHECK(machines_of(ranks.place(0)) == std::vector<std::uint32_t>{0, 1});
  for (const Status& ended : ranks.run([](Mesh&, std::uint32_t) { return Status::ok(); }))
    CHECK(ended.message() == "");
}

}  // namespace
}  // namespace paceline::mesh
