// When a wait is told: after a while that is long compared with the usual, at doubling intervals, and when it
// is over. Time is the test's.
#include "common/log/stall_log.h"

#include <catch2/catch.hpp>

namespace paceline {
namespace {

using namespace std::chrono_literals;
using Lines = std::vector<std::string>;

struct Checked {
  StallLog log;
  Ticks now{1};
  Lines after(std::chrono::nanoseconds time, std::vector<Wait> waits) {
    now = now + time;
    return log.check(waits, now);
  }
};

const Wait kSlowest{"the wait for version 8", "2 workers wait for version 8", 2s};

TEST_CASE("a wait is told after five times the usual, at doubling intervals, and when it is over") {
  Checked l;
  CHECK(l.after(0s, {kSlowest}).empty());
  CHECK(l.after(9900ms, {kSlowest}).empty());
  CHECK(l.log.standing().empty());
  CHECK(l.after(100ms, {kSlowest}) == Lines{"for 10.0 s: 2 workers wait for version 8"});
  CHECK(l.log.standing() == "for 10.0 s: 2 workers wait for version 8");
  CHECK(l.after(9s, {kSlowest}).empty());
  CHECK(l.after(1s, {kSlowest}).size() == 1);
  CHECK(l.after(19s, {kSlowest}).empty());
  CHECK(l.after(1s, {kSlowest}).size() == 1);
  CHECK(l.after(5s, {}) == Lines{"over after 45.0 s: the wait for version 8"});
  CHECK(l.log.standing().empty());
  CHECK(l.after(1h, {kSlowest}).empty());  // another wait of that name begins
}

TEST_CASE("a wait that was never told ends without a word") {
  Checked l;
  CHECK(l.after(0s, {kSlowest}).empty());
  CHECK(l.after(9s, {}).empty());
}

TEST_CASE("the text may change while the cause stays, and several causes are told apart") {
  Checked l;
  const Wait fewer{kSlowest.cause, "1 worker waits for version 8", 2s};
  const Wait other{"the wait for an evaluation", "the end waits for an evaluation", 1s};
  CHECK(l.after(0s, {kSlowest, other}).empty());
  CHECK(l.after(5s, {kSlowest, other}) == Lines{"for 5.0 s: the end waits for an evaluation"});
  CHECK(l.after(5s, {fewer, other}) ==
        Lines{"for 10.0 s: 1 worker waits for version 8", "for 10.0 s: the end waits for an evaluation"});
}

TEST_CASE("where nobody knows what is usual ten seconds are long, and less than three never are") {
  Checked l;
  const Wait unknown{"a", "a"};
  const Wait quick{"b", "b", 1ms};
  CHECK(l.after(0s, {unknown, quick}).empty());
  CHECK(l.after(2900ms, {unknown, quick}).empty());
  CHECK(l.after(100ms, {unknown, quick}) == Lines{"for 3.0 s: b"});
  CHECK(l.after(7s, {unknown}) == Lines{"over after 10.0 s: b", "for 10.0 s: a"});
}

TEST_CASE("at the start a wait is told after two seconds, and then seldom") {
  Checked l;
  const Wait join{"the wait for welcomes", "nobody answers", 0s, /*at_start=*/true};
  CHECK(l.after(0s, {join}).empty());
  CHECK(l.after(1900ms, {join}).empty());
  CHECK(l.after(100ms, {join}) == Lines{"for 2.0 s: nobody answers"});
  CHECK(l.after(7900ms, {join}).empty());
  CHECK(l.after(100ms, {join}) == Lines{"for 10.0 s: nobody answers"});
  CHECK(l.after(39s, {join}).empty());
  CHECK(l.after(1s, {join}) == Lines{"for 50.0 s: nobody answers"});
}

TEST_CASE("while this process stood still nobody waited") {
  Checked l;
  CHECK(l.after(0s, {kSlowest}).empty());
  l.now = l.now + 1h;
  l.log.discount_pause({1h, l.now});
  CHECK(l.after(9s, {kSlowest}).empty());
  CHECK(l.after(1s, {kSlowest}).size() == 1);
}

TEST_CASE("who asks is told at once, also of what has only just begun") {
  Checked l;
  CHECK(l.log.explain({kSlowest}, l.now) == Lines{"for 0.0 s: 2 workers wait for version 8"});
  CHECK(l.after(0s, {kSlowest}).empty());
  CHECK(l.log.explain({kSlowest}, l.now + 1500ms) == Lines{"for 1.5 s: 2 workers wait for version 8"});
  CHECK(l.log.explain({}, l.now).empty());
}

TEST_CASE("the usual time follows what was taken, slowly") {
  DurationBaseline time;
  CHECK(time.usual() == 0s);
  time.took(8s);
  CHECK(time.usual() == 8s);
  time.took(16s);
  CHECK(time.usual() == 9s);
}

TEST_CASE("a time before the beginning is none, however often it comes") {
  DurationBaseline time;
  for (int i = 0; i < 200; ++i) time.took(-8s);
  CHECK(time.usual() == 0s);
  time.took(8s);
  for (int i = 0; i < 200; ++i) time.took(-8s);
  CHECK(time.usual() >= 0s);
  CHECK(time.usual() < 1us);
}

TEST_CASE("one long stall leaves what is usual nearly as it was, and a new pace becomes the usual") {
  DurationBaseline time;
  time.took(8s);
  time.took(10h);
  CHECK(time.usual() == 11s);  // as of 32 s
  DurationBaseline pace;
  pace.took(1s);
  for (int i = 0; i < 40; ++i) pace.took(60s);
  CHECK((pace.usual() > 55s && pace.usual() <= 60s));
}

}  // namespace
}  // namespace paceline
