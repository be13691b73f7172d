// Who is slow, by name: against the fastest, against itself, and when that is worth a warning.
#include "common/timing/straggler_scores.h"

#include <catch2/catch.hpp>

#include "common/timing/recent_rate.h"

namespace paceline {
namespace {

using namespace std::chrono_literals;

constexpr auto kWindow = static_cast<int>(StragglerScores::kWindow);
const Rank kFast(0), kSlow(1);

void take(StragglerScores& scores, Rank worker, int times, std::chrono::nanoseconds each) {
  for (int i = 0; i < times; ++i) scores.took(worker, each);
}

TEST_CASE("the relative score is the share of the fastest worker's speed, the individual of its own best") {
  StragglerScores scores(2);
  take(scores, kFast, kWindow, 1s);
  take(scores, kSlow, kWindow, 2s);
  auto now = scores.scores();
  CHECK((now[0]->relative == 1.0 && now[0]->individual == 1.0));
  CHECK((now[1]->relative == 0.5 && now[1]->individual == 1.0));  // slow by nature
  CHECK(now[1]->iteration_seconds == Approx(2.0));

  take(scores, kSlow, kWindow, 4s);
  now = scores.scores();
  CHECK((now[1]->relative == 0.25 && now[1]->individual == 0.5));  // and disturbed
  take(scores, kSlow, kWindow, 2s);
  CHECK(scores.scores()[1]->individual == 1.0);  // no more
}

TEST_CASE("with batches by speed the slow worker is slow for a sample, though its iterations take as long") {
  StragglerScores scores(2);
  for (int i = 0; i < kWindow; ++i) {
    scores.took(kFast, 1s, 96);
    scores.took(kSlow, 1s, 32);
  }
  const auto now = scores.scores();
  CHECK(now[0]->relative == 1.0);
  CHECK(now[1]->relative == Approx(1.0 / 3));
  CHECK(now[1]->individual == 1.0);
  CHECK(now[1]->iteration_seconds == Approx(1.0));
  // Its batches become smaller, and it as much faster: no worse than before.
  for (int i = 0; i < kWindow; ++i) scores.took(kSlow, 500ms, 16);
  CHECK(scores.scores()[1]->individual == Approx(1.0));
}

TEST_CASE("a stage with the larger share of the network is as fast as the same stage of another group") {
  StragglerScores scores(4, 2);
  for (const std::uint32_t stage : {0U, 2U}) take(scores, Rank(stage), kWindow, 1s);
  take(scores, Rank(1), kWindow, 3s);
  take(scores, Rank(3), kWindow, 6s);
  const auto now = scores.scores();
  for (const std::size_t even : {0U, 1U, 2U}) CHECK(now[even]->relative == 1.0);
  CHECK(now[3]->relative == 0.5);
}

TEST_CASE("without a full window there are no scores, and nobody is measured against them") {
  StragglerScores scores(2);
  take(scores, kFast, kWindow - 1, 1s);
  take(scores, kSlow, kWindow, 2s);
  const auto now = scores.scores();
  CHECK_FALSE(now[0]);
  CHECK(now[1]->relative == 1.0);
}

TEST_CASE("one pause of many costs its share of the window, and is forgotten with it") {
  StragglerScores scores(1);
  take(scores, kFast, kWindow, 1s);
  scores.took(kFast, 17s);
  CHECK(scores.scores()[0]->individual == 0.5);  // 32 s instead of 16
  take(scores, kFast, kWindow, 1s);
  CHECK(scores.scores()[0]->individual == 1.0);
}

TEST_CASE("who is gone is not the fastest any more, and begins anew") {
  StragglerScores scores(2);
  take(scores, kFast, kWindow, 1s);
  take(scores, kSlow, kWindow, 2s);
  scores.forget(kFast);
  CHECK_FALSE(scores.scores()[0]);
  CHECK(scores.scores()[1]->relative == 1.0);
}

TEST_CASE("times that cannot be are no faster than anything") {
  StragglerScores scores(1);
  take(scores, kFast, kWindow, 0s);
  take(scores, kFast, 1, -5s);
  take(scores, kFast, 2, std::chrono::nanoseconds::max());
  const auto score = *scores.scores()[0];
  CHECK((score.relative == 1.0 && score.individual > 0.0 && score.individual < 1e-9));
}

TEST_CASE("a fall is told once, and again only after the score has clearly risen") {
  StragglerWarnings warnings(1, 0.5);
  const auto at = [&](double relative, double individual) {
    return warnings.fallen({StragglerScore{relative, individual, 1.0}}).size();
  };
  CHECK(at(0.6, 0.9) == 0);
  CHECK(at(0.49, 0.9) == 1);
  CHECK(at(0.4, 0.9) == 0);
  CHECK(at(0.52, 0.9) == 0);  // hovers
  CHECK(at(0.49, 0.9) == 0);
  CHECK(at(0.56, 0.9) == 0);
  CHECK(at(0.9, 0.3) == 1);  // either of the two
  CHECK(warnings.fallen({std::nullopt}).empty());
  CHECK(at(0.9, 0.3) == 1);  // it has come back
}

TEST_CASE("near one, too, a worker need not be the fastest to be warned of again") {
  StragglerWarnings warnings(1, 0.95);
  const auto at = [&](double relative) {
    return warnings.fallen({StragglerScore{relative, 1.0, 1.0}}).size();
  };
  CHECK(at(0.9) == 1);
  CHECK(at(0.952) == 0);  // hovers
  CHECK(at(0.94) == 0);
  CHECK(at(0.98) == 0);
  CHECK(at(0.94) == 1);
}

TEST_CASE("the recent rate is that of the last seconds, not of the run") {
  RecentRate rate;
  CHECK_FALSE(rate.per_second(0, Ticks(0)));
  Ticks now(0);
  std::int64_t count = 0;
  for (int second = 0; second < 60; ++second, now = now + 1s, count += second < 40 ? 100 : 5) {
    rate.read(count, now);
  }
  CHECK(*rate.per_second(count, now) == Approx(5.0));
  rate.read(count, now + 500ms);  // more often than each second: not remembered
  CHECK(*rate.per_second(count, now + 1s) < 5.0);
}

}  // namespace
}  // namespace paceline
