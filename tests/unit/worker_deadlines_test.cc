// What a live server owes its nodes: which silence is allowed, which is not, and that the line names what is
// waited for. Time is the test's.
#include <catch2/catch.hpp>

#include "tests/unit/worker_fixture.h"
#include "worker/client/grant_watch.h"
#include "worker/client/pulls.h"

namespace paceline {
namespace {

using namespace std::chrono_literals;
using Catch::Contains;

constexpr auto kLease = 10s;
constexpr auto kAllowed = GrantWatch::kLeases * kLease;

struct Watched {
  GrantWatch watch{NodeId(2), 2, kLease};
  Ticks now{1};
  Status after(std::chrono::nanoseconds time) {
    now = now + time;
    return watch.check(now);
  }
};

// Worker 2.1's grant of clock 8 is held for worker 3.0.
wire::HeldNotice held_for_third() {
  return {WorkerId(2, 1), Clock(8), Staleness(2), Threshold(1), WorkerId(3, 0), 200ms};
}

TEST_CASE("the first grant takes as long as the missing nodes do") {
  Watched w;
  CHECK(w.after(24h).is_ok());
}

TEST_CASE("a report is answered in time by a grant, or by the news that the grant is held") {
  Watched w;
  w.watch.reported(1, Clock(7), w.now);
  CHECK(w.after(kAllowed).is_ok());
  SECTION("neither") {
    CHECK(w.after(1ms).message() ==
          "worker 2.1 reported its iteration of clock 7 and for 100.0 s got neither a "
          "grant, nor that it is held, nor that it is finished");
  }
  SECTION("a grant") {
    w.watch.instructed(1, std::nullopt, w.now);
    CHECK(w.after(1h).is_ok());
    w.watch.reported(1, Clock(8), w.now);
    CHECK_FALSE(w.after(kAllowed + 1ms).is_ok());
  }
  SECTION("a grant that is ahead, after which nothing is due for the next report either") {
    w.watch.instructed(1, Clock(8), w.now);
    w.watch.instructed(1, Clock(9), w.now);
    CHECK(w.after(1h).is_ok());
    w.watch.reported(1, Clock(8), w.now);
    CHECK(w.after(1h).is_ok());
    w.watch.reported(1, Clock(9), w.now);
    CHECK(w.after(kAllowed).is_ok());
    CHECK_FALSE(w.after(1ms).is_ok());
  }
  SECTION("held, again and again, and then forgotten") {
    for (int i = 0; i < 5; ++i) {
      w.watch.held(held_for_third(), w.now);
      CHECK(w.after(kAllowed).is_ok());
    }
    CHECK_FALSE(w.after(1ms).is_ok());
  }
  SECTION("held, said of a worker that waits for nothing") {
    w.watch.instructed(1, std::nullopt, w.now);
    w.watch.held(held_for_third(), w.now);
    CHECK(w.after(1h).is_ok());
  }
}

TEST_CASE("a pause of this process counts against nobody") {
  Watched w;
  w.watch.reported(1, Clock(7), w.now);
  CHECK(w.after(kAllowed).is_ok());
  w.now = w.now + 1h;
  w.watch.discount_pause({1h, w.now});
  CHECK(w.after(0s).is_ok());
  CHECK_FALSE(w.after(1ms).is_ok());
}

// A training thread runs again before the I/O thread has found that the process stood still.
TEST_CASE("what is reported after a pause that is not known yet begins when it is known, not later") {
  Watched w;
  w.now = w.now + 1h;
  w.watch.reported(1, Clock(7), w.now);
  w.now = w.now + 10ms;
  w.watch.discount_pause({1h, w.now});
  SECTION("late as any other") {
    CHECK(w.after(kAllowed).is_ok());
    CHECK_FALSE(w.after(1ms).is_ok());
  }
  SECTION("and what is usual is what it took") {
    w.now = w.now + 10ms;
    w.watch.instructed(1, std::nullopt, w.now);
    CHECK(w.watch.usual() == 10ms);
  }
}

TEST_CASE("nothing is late while the push is still on its way out") {
  Watched w;
  auto push = std::make_shared<const int>(0);
  w.watch.pushed(0, push);
  w.watch.reported(0, Clock(7), w.now);
  CHECK(w.after(10 * kAllowed).is_ok());
  push.reset();
  CHECK(w.after(kAllowed).is_ok());
  CHECK_FALSE(w.after(1ms).is_ok());
}

TEST_CASE("a short lease does not make a server late that is merely busy") {
  GrantWatch watch(NodeId(0), 1, 10ms);
  watch.reported(0, Clock(0), Ticks(0));
  CHECK(watch.check(Ticks(0) + GrantWatch::kAtLeast).is_ok());
  CHECK_FALSE(watch.check(Ticks(0) + GrantWatch::kAtLeast + 1ms).is_ok());
}

TEST_CASE("a node says what its workers wait for: once for each reason") {
  Watched w;
  const auto texts = [&] {
    std::vector<std::string> found;
    for (const Wait& wait : w.watch.waits("server shard 0")) found.push_back(wait.text);
    return found;
  };
  CHECK(texts() == std::vector<std::string>{
                       "training has not begun: server shard 0 waits for others, and says for whom"});
  w.watch.instructed(0, std::nullopt, w.now);
  CHECK(texts().empty());
  auto push = std::make_shared<const int>(0);
  w.watch.pushed(0, push);
  w.watch.reported(0, Clock(7), w.now);
  CHECK(texts() == std::vector<std::string>{
                       "worker 2.0 waits for its grant of clock 8: its push of clock 7 is still leaving"});
  push.reset();
  w.watch.reported(1, Clock(7), w.now);
  CHECK(texts() ==
        std::vector<std::string>{"worker 2.0 waits for its grant of clock 8: server shard 0 has sent nothing "
                                 "since the report of clock 7; so do 1 more of this node"});
  w.watch.held(held_for_third(), w.now);
  REQUIRE(texts().size() == 2);
  CHECK(texts()[1] ==
        "worker 2.1 waits for its grant of clock 8: it is held, 2 ahead of worker 3.0, threshold 1");
  w.now = w.now + 4s;
  w.watch.instructed(0, std::nullopt, w.now);
  w.watch.instructed(1, std::nullopt, w.now);
  CHECK(texts().empty());
  CHECK(w.watch.usual() == 4s);
}

TEST_CASE("a pull that is not answered whole says what is here of it") {
  ProcessCache cache{{Range{0, 2}, Range{2, 4}}};
  Pulls pulls(cache, 1);
  CHECK(pulls.waits(1s).empty());
  const Ticket ticket = pulls.request(Version(3), Ticks(0)).ticket;
  const wire::Parameters piece{ticket, ShardId(0), Version(3), Revision(3), 0, false, {Clock(3)}};
  REQUIRE(pulls.accept(ShardId(0), piece, testing::payload_of({1}), Ticks(0)).is_ok());
  const auto waits = pulls.waits(1s);
  REQUIRE(waits.size() == 1);
  CHECK(waits[0].text ==
        "this node waits for parameters of version 3 or newer: shard 0 has sent 1 of 2 "
        "floats, shard 1 has sent 0 of 2 floats");
  CHECK(waits[0].usual == 1s);
}

// On a slow network a pull takes long each time, whatever the grants do.
TEST_CASE("how long answers usually take is what a pull is compared with, once one has come") {
  ProcessCache cache{{Range{0, 1}}};
  Pulls pulls(cache, 1);
  const auto answer = [&](Ticket ticket, std::int64_t version, Ticks now) {
    const wire::Parameters piece{ticket, ShardId(0), Version(version), Revision(version),
                                 0,      true,       {Clock(0)}};
    return pulls.accept(ShardId(0), piece, testing::payload_of({1}), now).is_ok();
  };
  const Ticks asked = Ticks(0) + 10s;
  const Ticket first = pulls.request(Version(1), asked).ticket;
  CHECK(pulls.waits(1ms).at(0).usual == 1ms);
  REQUIRE(answer(first, 1, asked + 7s));
  const Ticket second = pulls.request(Version(2), asked + 8s).ticket;
  CHECK(pulls.waits(1ms).at(0).usual == 7s);
  // An answer that brings nothing says nothing of how long parameters take.
  REQUIRE(pulls
              .accept(ShardId(0), wire::Unchanged{second, ShardId(0), Version(2), Revision(1), {Clock(0)}},
                      asked + 8s)
              .is_ok());
  pulls.request(Version(3), asked + 9s);
  CHECK(pulls.waits(1ms).at(0).usual == 7s);
}

TEST_CASE("a pull that a live server never answers is named; every frame of an answer is a sign of life") {
  const Range left{0, 2};
  const Range right{2, 4};
  ProcessCache cache{{left, right}};
  Pulls pulls(cache, 1);
  const Ticket ticket = pulls.request(Version(3), Ticks(0)).ticket;
  const auto piece = [&](std::uint32_t shard, std::int64_t offset) {
    const wire::Parameters body{ticket, ShardId(shard), Version(3), Revision(3),
                                offset, offset == 1,    {Clock(3)}};
    return pulls.accept(ShardId(shard), body, testing::payload_of({1}), Ticks(0)).is_ok();
  };
  Ticks now{1};
  const auto after = [&](std::chrono::nanoseconds time) { return pulls.check(now = now + time, 600s); };
  // Held by the servers as long as the slowest worker takes.
  CHECK(after(0s).is_ok());
  CHECK(after(24h).is_ok());
  cache.note_existence(Version(3), Revision(3));
  CHECK(after(600s).is_ok());
  REQUIRE((piece(0, 0) && piece(0, 1)));
  CHECK(after(0s).is_ok());
  CHECK(after(600s).is_ok());
  const Status late = after(1ms);
  CHECK(late.code() == StatusCode::kDeadlineExceeded);
  CHECK_THAT(late.message(), Contains("from shard 1 for request") &&
                                 Contains("version 3 or newer: nothing for 600 s, though the server lives"));
  REQUIRE((piece(1, 0) && piece(1, 1)));
  CHECK(after(1h).is_ok());
}

}  // namespace
}  // namespace paceline
