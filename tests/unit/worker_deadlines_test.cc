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
    w.watch.instructed(1);
    CHECK(w.after(1h).is_ok());
    w.watch.reported(1, Clock(8), w.now);
    CHECK_FALSE(w.after(kAllowed + 1ms).is_ok());
  }
  SECTION("held, again and again, and then forgotten") {
    for (int i = 0; i < 5; ++i) {
      w.watch.held(1, w.now);
      CHECK(w.after(kAllowed).is_ok());
    }
    CHECK_FALSE(w.after(1ms).is_ok());
  }
  SECTION("held, said of a worker that waits for nothing") {
    w.watch.instructed(1);
    w.watch.held(1, w.now);
    CHECK(w.after(1h).is_ok());
  }
}

TEST_CASE("a pause of this process counts against nobody") {
  Watched w;
  w.watch.reported(1, Clock(7), w.now);
  CHECK(w.after(kAllowed).is_ok());
  w.now = w.now + 1h;
  w.watch.forgive(1h);
  CHECK(w.after(0s).is_ok());
  CHECK_FALSE(w.after(1ms).is_ok());
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

TEST_CASE("a pull that a live server never answers is named; every frame of an answer is a sign of life") {
  const Range left{0, 2};
  const Range right{2, 4};
  ProcessCache cache{{left, right}};
  Pulls pulls(cache, 1);
  const Ticket ticket = pulls.request(Version(3)).ticket;
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
