// Right about time (docs/ARCHITECTURE.md): a delay is put at each of the nine places of an iteration, and
// at least 95 % of it is found in that phase; what belongs to no phase stays within 2 %. Time is the test's,
// so that the numbers are exact: reading the clock costs a microsecond, and whatever cannot be called into is
// watched by the clock.
#include <catch2/catch.hpp>
#include <utility>

#include "tests/unit/train_fixture.h"

namespace paceline {
namespace {

using namespace std::chrono_literals;
using testing::grant_of;
using testing::TrainFixture;

constexpr std::int64_t kSteps = 50;
constexpr auto kDelay = 10ms;

// Where iterations 1 .. kSteps - 1 read their parameters.
enum class Reads { kFromThreadCache, kFromProcessCache, kFromServer };

struct Bench : TrainFixture {
  std::chrono::nanoseconds injected{0};
  std::function<void()> on_clock_read = [] {};

  explicit Bench(Reads reads) {
    clock = [this] {
      on_clock_read();
      time.pass(1us);
      return time.now();
    };
    if (reads == Reads::kFromThreadCache) refresh_clocks.reset();
    for (std::int64_t c = 0; c < kSteps; ++c) {
      exchange.grant(grant_of(c, Threshold::infinite(), reads == Reads::kFromThreadCache ? 0 : c));
    }
    exchange.finish();
    exchange.serve = [this](Version min) {
      return std::vector{testing::slice_of(kAll, min.value, {Clock(min.value)}, {0, 0})};
    };
    if (reads == Reads::kFromProcessCache) {  // another thread keeps the process cache fresh
      exchange.before_instruction = [this] {
        cache.install(ShardId(0), testing::slice_of(kAll, next_, {Clock(next_)}, {0, 0}));
        ++next_;
      };
    }
  }

  void delay() {
    time.pass(kDelay);
    injected += kDelay;
  }

  // Runs, and expects what was injected in `phase`.
  void expect_in(Phase phase) {
    const auto report = run();
    INFO(report.status().message());
    REQUIRE(report.is_ok());
    REQUIRE(injected >= (kSteps - 1) * kDelay);
    const PhaseTotals& totals = report->phases;
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < kPhaseCount; ++i) {
      const auto each = static_cast<Phase>(i);
      INFO(name_of(each) << " " << totals[each].total_ns << " ns of " << injected.count());
      sum += totals[each].total_ns;
      if (each == phase) {
        CHECK(static_cast<double>(totals[each].total_ns) >= 0.95 * static_cast<double>(injected.count()));
      } else {
        CHECK(static_cast<double>(totals[each].total_ns) <= 0.05 * static_cast<double>(injected.count()));
      }
    }
    CHECK(static_cast<double>(totals.wall_ns - sum) <= 0.02 * static_cast<double>(totals.wall_ns));
  }

 private:
  std::int64_t next_ = 0;
};

TEST_CASE("a slow loader is BATCH") {
  Bench b(Reads::kFromServer);
  b.task.on_load = [&] { b.delay(); };
  b.expect_in(Phase::kBatch);
}

TEST_CASE("a slow gradient is COMPUTE_GRADS") {
  Bench b(Reads::kFromServer);
  b.task.on_compute = [&](std::span<float>) { b.delay(); };
  b.expect_in(Phase::kComputeGrads);
}

TEST_CASE("an emulated duration is COMPUTE_GRADS") {
  Bench b(Reads::kFromServer);
  b.emulate.base_step = kDelay;
  b.injected = kSteps * kDelay;
  b.expect_in(Phase::kComputeGrads);
}

TEST_CASE("a slow local apply is APPLY_GRADS") {
  Bench b(Reads::kFromThreadCache);
  // A gradient that waited does so no longer, or one has become a difference: the next clock read finds that
  // time has passed there.
  bool waited = false;
  std::size_t differences = 0;
  b.on_clock_read = [&] {
    if (b.training_if_made() == nullptr) return;
    const ThreadCache& cache = b.training_if_made()->cache;
    const bool waits = cache.waits();
    if (std::exchange(waited, waits) && !waits) b.delay();
    if (std::exchange(differences, cache.differences()) != cache.differences()) b.delay();
  };
  b.expect_in(Phase::kApplyGrads);
  CHECK(differences == kSteps - 3);  // all but those that lie in the three buffers
}

TEST_CASE("a slow upload, queue or server is PS_APPLY_GRADS") {
  Bench b(Reads::kFromServer);
  b.exchange.before_instruction = [&] { b.delay(); };
  b.expect_in(Phase::kPsApplyGrads);
}

// Asked for ahead of the push they come while that goes up: only from the grant on are they waited for.
TEST_CASE("parameters that come beside the push are PS_PARAM from the grant on, PS_APPLY_GRADS before") {
  const bool granted_first = GENERATE(false, true);
  Bench b(Reads::kFromServer);
  b.exchange.apply = ApplyMode::kEager;
  b.exchange.serve = [&, n = std::int64_t{0}](Version) mutable {
    ++n;
    return std::vector{testing::slice_of(TrainFixture::kAll, n, {Clock(n)}, {0, 0})};
  };
  b.exchange.after_installing = [&, first = true]() mutable {
    if (!std::exchange(first, false)) b.delay();  // landing
  };
  if (granted_first) b.exchange.arrives_before = kDelay;
  b.expect_in(granted_first ? Phase::kPsParam : Phase::kPsApplyGrads);
}

TEST_CASE("building the clock report is STEP") {
  Bench b(Reads::kFromServer);
  b.exchange.on_report = [&] { b.delay(); };
  b.expect_in(Phase::kStep);
}

TEST_CASE("what the I/O thread does to a report and its answer is STEP, too") {
  Bench b(Reads::kFromServer);
  const bool parsing = GENERATE(false, true);
  (parsing ? b.exchange.report_time.parsing : b.exchange.report_time.building) = kDelay;
  b.exchange.before_instruction = [&, first = true]() mutable {
    if (!first) b.delay();
    first = false;
  };
  b.expect_in(Phase::kStep);
}

TEST_CASE("so it is where the answer is that nothing follows") {
  Bench b(Reads::kFromServer);
  b.exchange.before_instruction = [&, instructions = 0]() mutable {
    if (++instructions <= kSteps) return;
    b.exchange.report_time = {kSteps / 2 * kDelay, kSteps / 2 * kDelay};
    for (int i = 0; i < kSteps; ++i) b.delay();
  };
  b.expect_in(Phase::kStep);
}

TEST_CASE("being held by the threshold is BARRIER") {
  Bench b(Reads::kFromServer);
  b.exchange.held_for = kDelay;
  b.exchange.before_instruction = [&, first = true]() mutable {
    if (!first) b.delay();  // before the first grant there is no training yet
    first = false;
  };
  b.expect_in(Phase::kBarrier);
}

TEST_CASE("being held until the news that nothing follows is BARRIER") {
  Bench b(Reads::kFromServer);
  b.exchange.before_instruction = [&, instructions = 0]() mutable {
    if (++instructions <= kSteps) return;
    b.exchange.held_for = kSteps * kDelay;
    for (int i = 0; i < kSteps; ++i) b.delay();
  };
  b.expect_in(Phase::kBarrier);
}

TEST_CASE("parameters that come after the grant are PS_PARAM") {
  Bench b(Reads::kFromServer);
  b.exchange.while_awaiting = [&] { b.delay(); };
  b.expect_in(Phase::kPsParam);
}

TEST_CASE("copying what arrives, after the last of it is there, is PS_PARAM") {
  Bench b(Reads::kFromServer);
  b.exchange.after_installing = [&] { b.delay(); };
  b.expect_in(Phase::kPsParam);
}

TEST_CASE("copying from the process cache is P_CACHE_PARAM") {
  Bench b(Reads::kFromProcessCache);
  Revision seen = kNoRevision;
  b.on_clock_read = [&] {
    if (b.training_if_made() == nullptr || b.training_if_made()->cache.stamp().revision() == seen) return;
    seen = b.training_if_made()->cache.stamp().revision();
    b.delay();
  };
  b.expect_in(Phase::kPCacheParam);
}

TEST_CASE("reading from the thread cache is T_CACHE_PARAM") {
  Bench b(Reads::kFromThreadCache);
  // Of the clock reads after a grant, the first ends the exchange, and the second begins the local apply
  // that has waited for this read.
  int reads_since_grant = 2;
  b.exchange.before_instruction = [&, instructions = 0]() mutable {
    const bool ends_exchange =
        ++instructions > 1 && instructions <= kSteps;  // not the first grant, not the end
    if (ends_exchange) reads_since_grant = 0;
  };
  b.on_clock_read = [&] {
    if (++reads_since_grant == 2) b.delay();
  };
  b.expect_in(Phase::kTCacheParam);
}

}  // namespace
}  // namespace paceline
