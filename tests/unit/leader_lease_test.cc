// Who serves a shard, one step at a time. That no schedule of faults makes two, or loses what was
// acknowledged: tests/sim/leader_lease_sim_test.cc.
#include "server/replicas/leader_lease.h"

#include <catch2/catch.hpp>

#include "tests/unit/etcd_model.h"

namespace paceline::server {
namespace {

using Start = LeaderLease::Start;
using namespace std::chrono_literals;

constexpr std::chrono::nanoseconds kLease = 8s;

struct Shard {
  EtcdModel etcd;
  Ticks now{1'000'000'000'000};

  void passes(std::chrono::nanoseconds time) { now = now + time; }
  // All that it asks now, answered at once.
  void serve(LeaderLease& replica) {
    int questions = 0;
    while (const auto asked = replica.next(now)) {
      REQUIRE(++questions < 100);
      replica.answered(etcd.carry_out(*asked, now), now);
    }
  }
  void serve_for(LeaderLease& replica, std::chrono::nanoseconds time) {
    for (const Ticks end = now + time; now < end; passes(50ms)) serve(replica);
  }
  // The next question that writes is carried out, or not, and its answer is lost.
  Txn unheard(LeaderLease& replica) {
    for (;;) {
      const auto asked = replica.next(now);
      REQUIRE(asked);
      const auto* const txn = std::get_if<Txn>(&*asked);
      if (txn == nullptr || txn->puts.empty()) {
        replica.answered(etcd.carry_out(*asked, now), now);
        continue;
      }
      passes(replica.patience());
      replica.answered(deadline_exceeded("no answer"), now);
      return *txn;
    }
  }
};

LeaderLease replica(LeaderLease::Incarnation self, Start start) {
  return {"run/shard-0", self, start, std::chrono::duration_cast<std::chrono::seconds>(kLease)};
}

// The first serves, and the second has all that is acknowledged.
struct CompletePair {
  Shard shard;
  LeaderLease first = replica(0xa, Start::kBegins);
  LeaderLease second = replica(0xb, Start::kFollows);

  CompletePair() {
    shard.serve(first);
    first.set_complete({0xa, 0xb});
    shard.serve(first);
  }
};

TEST_CASE("the first replica of a new run serves; one that follows waits, however long") {
  Shard shard;
  LeaderLease follows = replica(0xb, Start::kFollows);
  shard.serve_for(follows, 60s);
  CHECK(!follows.is_primary());
  LeaderLease begins = replica(0xa, Start::kBegins);
  shard.serve(begins);
  CHECK(begins.acts(shard.now));
  CHECK(begins.term() == 1);
  CHECK(begins.must_hold() == LeaderLease::Members{0xa});
}

TEST_CASE("a run begins where none has been, or one that is over, and nowhere else") {
  Shard shard;
  LeaderLease before = replica(0xa, Start::kBegins);
  shard.serve(before);
  LeaderLease after = replica(0xc, Start::kBegins);
  SECTION("not beside a primary, nor when that has died: another one may have all that it had") {
    shard.serve_for(after, 3s);
    CHECK(!after.is_primary());
    CHECK(!after.is_refused());  // it may end yet
    shard.serve_for(after, kLease);
    CHECK(after.is_refused());
    shard.serve_for(after, kLease);
    CHECK(!after.is_primary());
  }
  SECTION("the one before is over") {
    before.resign(LeaderLease::Resign::kForGood);
    shard.serve(before);
    CHECK(before.resigned());
    shard.serve(after);
    CHECK(after.acts(shard.now));
    CHECK(after.term() == 2);
    CHECK(after.must_hold() == LeaderLease::Members{0xc});
  }
  SECTION("somebody says that it is not to be gone on with") {
    LeaderLease instead = replica(0xd, Start::kReplaces);
    shard.serve_for(instead, kLease + 2s);
    CHECK(instead.acts(shard.now));
    CHECK(instead.must_hold() == LeaderLease::Members{0xd});
  }
  SECTION("but it is gone on with") {
    LeaderLease second = replica(0xb, Start::kFollows);
    before.set_complete({0xa, 0xb});
    shard.serve(before);
    LeaderLease instead = replica(0xd, Start::kReplaces);
    shard.serve(instead);
    for (const Ticks end = shard.now + 2 * kLease; shard.now < end; shard.passes(50ms)) {
      shard.serve(second);
      shard.serve(instead);
    }
    CHECK(second.is_primary());
    CHECK(!instead.is_primary());
    second.resign();
    shard.serve(second);
    shard.serve_for(instead, 2s);
    CHECK(instead.is_refused());
  }
}

TEST_CASE(
    "that the run is over is noted though etcd does not answer the first time, and only while the lease may "
    "stand") {
  CompletePair pair;
  auto& [shard, first, second] = pair;
  shard.serve(second);
  CHECK(!second.is_concluded());
  first.resign(LeaderLease::Resign::kForGood);
  SECTION("an answer is lost") {
    shard.unheard(first);  // and not carried out
    shard.serve_for(first, 2s);
    CHECK(first.resigned());
    shard.serve_for(second, 2s);
    CHECK((second.is_concluded() && second.is_left_out()));
    LeaderLease after = replica(0xc, Start::kBegins);
    shard.serve(after);
    CHECK(after.acts(shard.now));
  }
  SECTION("etcd is away for good") {
    for (const Ticks end = shard.now + 2 * kLease; shard.now < end && !first.resigned(); shard.passes(50ms)) {
      if (first.next(shard.now)) first.answered(unavailable("no etcd"), shard.now);
    }
    CHECK(first.resigned());
    shard.serve_for(second, 2 * kLease);
    CHECK(!second.is_concluded());
    CHECK(second.is_primary());  // nobody has said that the run is over
  }
}

TEST_CASE("who is not primary says nothing of who is complete") {
  Shard shard;
  LeaderLease first = replica(0xa, Start::kBegins);
  CHECK(!first.set_complete({0xa, 0xb}));
  shard.serve(first);
  CHECK(first.must_hold() == LeaderLease::Members{0xa});
  CHECK(!first.has_complete(0xb));
  CHECK(first.set_complete({0xa, 0xb}));
  CHECK(!first.has_complete(0xb));
  shard.serve(first);
  CHECK(first.has_complete(0xb));
}

TEST_CASE("who resigns serves no more, whatever is still answered") {
  Shard shard;
  LeaderLease first = replica(0xa, Start::kBegins);
  shard.serve(first);
  first.set_complete({0xa, 0xb});
  const auto change = first.next(shard.now);
  REQUIRE(change);
  first.resign();
  CHECK(!first.acts(shard.now));
  first.answered(shard.etcd.carry_out(*change, shard.now), shard.now);
  CHECK(!first.acts(shard.now));
  CHECK(!first.is_primary());
  shard.serve(first);
  CHECK(first.resigned());
}

TEST_CASE("a change that comes when its lease has ended changes nothing") {
  CompletePair pair;
  auto& [shard, first, second] = pair;
  first.set_complete({0xa});
  const Txn late = shard.unheard(first);
  shard.passes(kLease);  // it has died, and nobody has looked yet
  CHECK(!std::get<TxnDone>(*shard.etcd.carry_out(late, shard.now)).succeeded);
  shard.serve(second);
  CHECK(second.acts(shard.now));
}

TEST_CASE("who is complete takes over once the lease has ended, and not before") {
  CompletePair pair;
  auto& [shard, first, second] = pair;
  const Ticks last_renewal = shard.now;  // it stands still from here
  for (; shard.now - last_renewal < 30s && !second.acts(shard.now); shard.passes(50ms)) {
    shard.serve(second);
    if (second.acts(shard.now)) CHECK(!first.acts(shard.now));
  }
  CHECK(shard.now - last_renewal >= kLease);
  CHECK(shard.now - last_renewal <= kLease + kLease / 8 + 100ms);
  CHECK(second.term() == 2);
  CHECK(second.must_hold() == LeaderLease::Members{0xa, 0xb});
  second.set_complete({0xb});  // the first lacks what is acknowledged from now on
  shard.serve(second);
  CHECK(second.must_hold() == LeaderLease::Members{0xb});
  shard.serve(first);
  CHECK(!first.is_primary());
  shard.serve_for(first, 60s);
  CHECK(!first.is_primary());
}

TEST_CASE("a primary that cannot renew stops before its lease ends, counted from when it asked") {
  Shard shard;
  LeaderLease first = replica(0xa, Start::kBegins);
  shard.serve(first);
  const auto asked_at = shard.now + kLease / 3 + 1ms;
  shard.now = asked_at;
  const auto renewal = first.next(shard.now);
  REQUIRE(renewal);
  shard.passes(900ms);
  const auto kept = shard.etcd.carry_out(*renewal, shard.now);
  shard.passes(50ms);
  first.answered(kept, shard.now);
  CHECK(first.acts(asked_at + (kLease * 7 / 8 - 1ms)));
  CHECK(!first.acts(asked_at + kLease * 7 / 8));
}

TEST_CASE("a renewal that gets through in time lets it go on in the same term") {
  Shard shard;
  LeaderLease first = replica(0xa, Start::kBegins);
  shard.serve(first);
  shard.passes(7500ms);
  CHECK(!first.acts(shard.now));
  CHECK(first.is_primary());
  shard.serve(first);
  CHECK(first.acts(shard.now));
  CHECK(first.term() == 1);
}

TEST_CASE("taking over that was carried out and not heard of is found out") {
  Shard shard;
  LeaderLease first = replica(0xa, Start::kBegins);
  const Txn taken = shard.unheard(first);
  CHECK(!first.acts(shard.now));
  CHECK(shard.etcd.carry_out(taken, shard.now).is_ok());
  shard.serve_for(first, 2s);
  CHECK(first.acts(shard.now));
  CHECK(first.term() == 1);
}

TEST_CASE("a change that was not heard of may be carried out later, and counts until it cannot") {
  Shard shard;
  LeaderLease first = replica(0xa, Start::kBegins);
  shard.serve(first);
  first.set_complete({0xa, 0xb});
  const Txn late = shard.unheard(first);
  first.set_complete({0xa});  // the other has gone meanwhile
  CHECK(first.must_hold().contains(0xb));
  shard.serve_for(first, 1s);  // looked, and written anew: the late one no longer compares
  CHECK(!first.must_hold().contains(0xb));
  CHECK(!std::get<TxnDone>(*shard.etcd.carry_out(late, shard.now)).succeeded);
}

TEST_CASE("who is left out counts until that is written") {
  Shard shard;
  LeaderLease first = replica(0xa, Start::kBegins);
  shard.serve(first);
  first.set_complete({0xa, 0xb});
  CHECK(first.must_hold().contains(0xb));  // at once
  shard.serve(first);
  first.set_complete({0xa});
  CHECK(first.must_hold().contains(0xb));
  shard.serve(first);
  CHECK(!first.must_hold().contains(0xb));
}

TEST_CASE("one that takes over and dies at once leaves the others as complete as they were") {
  CompletePair pair;
  auto& [shard, first, second] = pair;
  for (const Ticks end = shard.now + 2 * kLease;
       !second.is_primary() &&
       shard.now < end;) {  // the first stands still, and the second dies when it has taken over
    shard.serve(second);
    shard.passes(50ms);
  }
  shard.serve_for(first, 2 * kLease);
  CHECK(first.acts(shard.now));
  CHECK(first.term() == 3);
}

TEST_CASE("a lease that is given back is not waited for") {
  CompletePair pair;
  auto& [shard, first, second] = pair;
  shard.serve(second);
  first.resign();
  CHECK(!first.acts(shard.now));
  shard.serve(first);
  CHECK(first.resigned());
  shard.serve_for(second, kLease / 8 + 50ms);
  CHECK(second.acts(shard.now));
}

TEST_CASE("what is no record of ours is said, and nobody serves by it") {
  const std::string wrong = GENERATE("", "x", "1", "1:a", "1: ", "1: zz", "99999999999999999999: a", "-1: a");
  Shard shard;
  shard.etcd.put("run/shard-0/record", wrong);
  LeaderLease begins = replica(0xa, Start::kBegins);
  shard.serve_for(begins, 5s);
  CHECK(!begins.is_primary());
  CHECK_THAT(begins.describe(shard.now),
             Catch::Contains("run/shard-0/record") && Catch::Contains("expected TERM"));
}

TEST_CASE("etcd that is away costs no primary that comes back in time, and is said") {
  Shard shard;
  LeaderLease first = replica(0xa, Start::kBegins);
  shard.serve(first);
  shard.passes(3s);
  for (int tries = 0; tries < 3; ++tries) {
    REQUIRE(first.next(shard.now));
    first.answered(unavailable("etcd cannot be reached"), shard.now);
    CHECK(!first.next(shard.now));  // not at once
    shard.passes(kLease / 16);
  }
  CHECK(first.acts(shard.now));
  shard.passes(4s);
  CHECK_THAT(first.describe(shard.now), Catch::Contains("cannot be reached"));
  shard.serve(first);
  CHECK(first.acts(shard.now));
}

}  // namespace
}  // namespace paceline::server
