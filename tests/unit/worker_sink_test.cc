// Pulled parameters on their way to whoever takes them: what a server lends, and in whose memory the rest lies.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <deque>
#include <functional>
#include <memory_resource>

#include "tests/unit/copying_sink.h"
#include "tests/unit/worker_fixture.h"
#include "worker/client/pulls.h"

namespace paceline {
namespace {

using testing::CopyingSink;
using testing::payload_of;

// What a server lends of a shard of two floats: two pieces, and whoever still holds one of them. It writes over
// a piece that it gets back.
struct Lent {
  std::deque<float> of_server;
  ProcessCache cache{{Range{0, 2}}};
  Pulls pulls;
  std::vector<std::weak_ptr<const void>> held;

  explicit Lent(std::uint32_t threads, std::shared_ptr<std::pmr::memory_resource> memory = nullptr)
      : pulls(cache, threads, Encoding::kFp32, std::move(memory)) {}
  Status piece(Ticket ticket, float value) {
    const auto offset = static_cast<std::int64_t>(held.size());
    float& lent = of_server.emplace_back(value);
    wire::Payload payload{std::shared_ptr<const void>(&lent, [&lent](const void*) { lent = NAN; }),
                          reinterpret_cast<const std::byte*>(&lent), sizeof lent};
    payload.borrowed = true;
    held.push_back(payload.owner);
    const std::vector<Clock> applied(offset == 0 ? 1 : 0, Clock(1));
    return pulls.accept(
        ShardId(0),
        wire::Parameters{ticket, ShardId(0), Version(1), Revision(1), offset, offset == 1, applied},
        std::move(payload), Ticks(1));
  }
  std::vector<float> flat() const {
    std::vector<float> values(2);
    cache.slice(ShardId(0))->copy_to(values);
    return values;
  }
};

TEST_CASE("of what a server lends nothing is held where nobody is about to take it") {
  Lent f(1);
  const Ticket ticket = f.pulls.request(Version(1), Ticks(0)).ticket;
  CHECK(f.piece(ticket, 5).is_ok());
  CHECK(f.held[0].expired());
  CHECK(f.piece(ticket, 6).is_ok());
  CHECK(f.held[1].expired());
  CHECK(f.flat() == std::vector<float>{5, 6});
}

TEST_CASE("lent or sent, a slice lies in the memory that there is for it, whole, and that is used again") {
  const bool lent = GENERATE(true, false);
  const auto memory = std::make_shared<std::pmr::monotonic_buffer_resource>();
  const float* first = nullptr;
  Lent f(1, memory);
  for (std::int64_t version = 1; version <= 6; ++version) {
    const Ticket ticket = f.pulls.request(Version(version), Ticks(0)).ticket;
    for (const std::int64_t offset : {0, 1}) {
      wire::Payload payload = payload_of({static_cast<float>(10 * version + offset)});
      payload.borrowed = lent;
      const std::vector<Clock> applied(offset == 0 ? 1 : 0, Clock(version));
      const wire::Parameters piece{ticket, ShardId(0),  Version(version), Revision(version),
                                   offset, offset == 1, applied};
      REQUIRE(f.pulls.accept(ShardId(0), piece, std::move(payload), Ticks(1)).is_ok());
    }
    const auto pieces = f.cache.slice(ShardId(0))->pieces;
    CHECK_FALSE(pieces[0].payload.borrowed);
    CHECK(pieces[1].payload.floats().data() == pieces[0].payload.floats().data() + 1);
    const auto value = static_cast<float>(10 * version);
    CHECK(f.flat() == std::vector<float>{value, value + 1});
    if (version == 1) first = pieces[0].payload.floats().data();
    if (version % 2 == 1) CHECK(pieces[0].payload.floats().data() == first);
  }
}

TEST_CASE(
    "what is sent is copied in from the memory that there is for it; what an evaluator wants stays outside") {
  struct Placed : CopyingSink {
    std::vector<const float*> places;
    bool copy_in(ShardId shard, const cache::SliceStamp& stamp, const SlicePiece& piece) override {
      places.push_back(piece.payload.floats().data());
      return CopyingSink::copy_in(shard, stamp, piece);
    }
  };
  std::vector<float> floats(1024);
  const auto memory =
      std::make_shared<std::pmr::monotonic_buffer_resource>(floats.data(), floats.size() * sizeof(float));
  const auto is_there = [&](const float* place) {
    return place >= floats.data() && place < floats.data() + floats.size();
  };
  ProcessCache cache{{Range{0, 2}}};
  Pulls pulls(cache, 1, Encoding::kFp32, memory);
  const auto answer = [&](Ticket ticket, float value) {
    for (const std::int64_t offset : {0, 1}) {
      const std::vector<Clock> applied(offset == 0 ? 1 : 0, Clock(1));
      const wire::Parameters piece{ticket, ShardId(0), Version(1), Revision(1), offset, offset == 1, applied};
      REQUIRE(pulls.accept(ShardId(0), piece, payload_of({value + static_cast<float>(offset)}), Ticks(1))
                  .is_ok());
    }
  };
  const Ticket exact = pulls.request_exact(Version(1), Ticks(0)).ticket;
  answer(exact, 5);
  const Snapshot of_evaluator = pulls.collect(exact).value();
  CHECK_FALSE(is_there(of_evaluator[0]->pieces[0].payload.floats().data()));

  const Ticket ticket = pulls.request_early(Version(1), Ticks(0)).ticket;
  answer(ticket, 7);
  Placed placed;
  CHECK(pulls.await(ticket, placed).is_ok());
  CHECK(placed.values == std::vector<float>{7, 8});
  CHECK(std::all_of(placed.places.begin(), placed.places.end(), is_there));
}

TEST_CASE(
    "the only thread takes what is lent from where it lies, and each piece goes back as it has been copied "
    "in") {
  struct Taker : CopyingSink {
    Lent& f;
    Ticket ticket;
    Taker(Lent& lent, Ticket t) : f(lent), ticket(t) {}
    bool copy_in(ShardId shard, const cache::SliceStamp& stamp, const SlicePiece& piece) override {
      CHECK(piece.payload.borrowed);
      CHECK_FALSE(f.held[values.size()].expired());
      if (values.empty()) {
        CHECK(f.piece(ticket, 6).is_ok());  // whole, before the first has been copied in
        CHECK(f.pulls.answered(ticket).has_value());
        CHECK(f.pulls.request(Version(1), Ticks(0)).ticket !=
              ticket);  // what is answered is joined by nobody
      } else {
        CHECK(f.held[0].expired());
      }
      return CopyingSink::copy_in(shard, stamp, piece);
    }
  };
  Lent f(1);
  const Ticket ticket = f.pulls.request_early(Version(1), Ticks(0)).ticket;
  CHECK(f.piece(ticket, 5).is_ok());
  CHECK_FALSE(f.held[0].expired());
  Taker taker(f, ticket);
  CHECK(f.pulls.await(ticket, taker).value() == Ticks(1));
  CHECK(taker.values == std::vector<float>{5, 6});
  CHECK(f.held[1].expired());
  CHECK(f.cache.slice(ShardId(0))->pieces[0].payload.empty());
}

TEST_CASE("what a device still reads is lent until it is let go of, before anything else is waited for") {
  struct Holder : CopyingSink {
    Lent& f;
    Ticket ticket;
    std::vector<std::shared_ptr<const void>> held;
    int let_gos = 0;
    Holder(Lent& lent, Ticket t) : f(lent), ticket(t) {}
    bool copy_in(ShardId shard, const cache::SliceStamp& stamp, const SlicePiece& piece) override {
      held.push_back(piece.payload.owner);
      return CopyingSink::copy_in(shard, stamp, piece);
    }
    void let_go() override {
      CHECK_FALSE(f.pulls.part_with(ShardId(0)));
      held.clear();
      if (++let_gos == 1 && f.held.size() == 1) CHECK(f.piece(ticket, 6).is_ok());
    }
  };
  const bool together = GENERATE(false, true);
  Lent f(1);
  const Ticket ticket = f.pulls.request_early(Version(1), Ticks(0)).ticket;
  CHECK(f.piece(ticket, 5).is_ok());
  if (together) CHECK(f.piece(ticket, 6).is_ok());
  Holder holder(f, ticket);
  CHECK(f.pulls.await(ticket, holder).is_ok());
  CHECK(holder.values == std::vector<float>{5, 6});
  CHECK(holder.let_gos == (together ? 1 : 2));
  CHECK((f.held[0].expired() && f.held[1].expired()));
  CHECK(f.pulls.part_with(ShardId(0)));
}

TEST_CASE("what is lent and does not go into the sink is copied, whether refused or given up") {
  struct Refuser : CopyingSink {
    bool copy_in(ShardId, const cache::SliceStamp&, const SlicePiece&) override { return false; }
  };
  for (const bool given_up : {false, true}) {
    Lent f(1);
    const Ticket ticket = f.pulls.request_early(Version(1), Ticks(0)).ticket;
    CHECK(f.piece(ticket, 5).is_ok());
    Refuser refuser;
    if (given_up) {
      CHECK_FALSE(f.pulls.await_unless([] { return true; }, ticket, refuser)->has_value());
      CHECK(f.held[0].expired());
    }
    CHECK(f.piece(ticket, 6).is_ok());
    CHECK(f.held[1].expired() == given_up);
    CHECK(f.pulls.await(ticket, refuser).is_ok());
    CHECK(f.held[0].expired());
    CHECK(f.held[1].expired());
    CHECK(f.flat() == std::vector<float>{5, 6});
  }
}

TEST_CASE("what one thread of several has taken stays for the others") {
  Lent f(2);
  const Ticket ticket = f.pulls.request_early(Version(1), Ticks(0)).ticket;
  const auto piece = [&](std::int64_t offset, float value) {
    const std::vector<Clock> applied(offset == 0 ? 2 : 0, Clock(1));
    wire::Payload payload = payload_of({value});
    payload.borrowed = true;
    return f.pulls.accept(
        ShardId(0),
        wire::Parameters{ticket, ShardId(0), Version(1), Revision(1), offset, offset == 1, applied},
        std::move(payload), Ticks(1));
  };
  struct Finisher : CopyingSink {
    std::function<void()> and_then;
    bool copy_in(ShardId shard, const cache::SliceStamp& stamp, const SlicePiece& each) override {
      CHECK_FALSE(each.payload.borrowed);
      and_then();
      return CopyingSink::copy_in(shard, stamp, each);
    }
  };
  CHECK(piece(0, 5).is_ok());
  Finisher finisher;
  finisher.and_then = [&] { CHECK(piece(1, 6).is_ok()); };
  CHECK(f.pulls.await(ticket, finisher).is_ok());
  CHECK(f.flat() == std::vector<float>{5, 6});
}

}  // namespace
}  // namespace paceline
