// The next state of a shard, prepared while gradients arrive: never seen, the same bits, no trace.
#include "tests/unit/speculative_apply.h"

#include <catch2/catch.hpp>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/params/vector_ops.h"
#include "tests/unit/store_fixture.h"

namespace paceline::server {
namespace {

using wire::Combine;

const WorkerId kFirst(0, 0);
const WorkerId kSecond(1, 0);
const Cluster kTwo{2, 1};
using Floats = std::vector<float>;

// Six floats of 10 in blocks of two; sgd with rate 1.
Shard shard_with(ApplyMode apply, CombineMode combine, OptimizerKind kind = OptimizerKind::kSgd,
                 Cluster cluster = kTwo) {
  ShardSettings settings = settings_of(cluster, 2);
  settings.apply = apply;
  settings.combine = combine;
  settings.optimizer.kind = kind;
  settings.optimizer.lr = 1.0;
  return ready_shard(cluster, 6, 10.0F, std::move(settings));
}

// The two thirds of a gradient that come first; `rest` makes it whole.
void push_most(Shard& shard, WorkerId worker, float value, std::int64_t clock = 0) {
  REQUIRE(shard.push(push_of(worker, clock, 2, false), payload_of(Floats(4, value))).is_ok());
}
void push_rest(Shard& shard, WorkerId worker, float value, std::int64_t samples = 1, std::int64_t clock = 0) {
  REQUIRE(shard.push(push_of(worker, clock, 0, true, samples), payload_of(Floats(2, value))).is_ok());
}

// A first clock that changes nothing: from then on each worker is expected to have its samples again.
void close_first_clock(Shard& shard, Combine combine, std::int64_t second_samples = 1) {
  REQUIRE(shard.push(push_of(kFirst, 0), payload_of(Floats(6, 0.0F))).is_ok());
  REQUIRE(shard.push(push_of(kSecond, 0, 0, true, second_samples), payload_of(Floats(6, 0.0F))).is_ok());
  const auto decision =
      decision_of(0, {{kFirst, Clock(0), 1}, {kSecond, Clock(0), second_samples}}, 1, combine);
  REQUIRE(shard.apply(decision).is_ok());
}

std::size_t prepare_all(Shard& shard) {
  std::size_t units = 0;
  while (shard.prepare_next()) ++units;
  return units;
}

// As eager, one gradient: decision number `sequence`.
void decide(Shard& shard, std::int64_t sequence, WorkerId worker, std::int64_t clock) {
  auto decision = decision_of(sequence, {{worker, Clock(clock), 1}}, 0);
  decision.revision_after = Revision(sequence + 1);
  REQUIRE(shard.apply(decision).is_ok());
}

Floats now(const Shard& shard) { return values_of(shard.now().blocks); }

#if defined(__SANITIZE_THREAD__)
constexpr std::int64_t kSeeds = 200;  // each step of each wakes the applying threads
#else
constexpr std::int64_t kSeeds = 1500;
#endif

}  // namespace

TEST_CASE("what was prepared never shows before its decision, and then has the bits of the plain loop") {
  std::int64_t prepared = 0;
  std::int64_t committed = 0;
  std::int64_t not_finite = 0;
  std::int64_t late = 0;
  for (std::int64_t seed = 1; seed <= kSeeds; ++seed) {
    const SpeculativeApplyWalk walk = walk_speculative_apply(static_cast<std::uint64_t>(seed));
    REQUIRE(walk.violation == "");
    prepared += walk.prepared;
    committed += walk.committed;
    not_finite += walk.not_finite;
    late += walk.late;
  }
  CHECK(not_finite > kSeeds / 3 * 2);
  CHECK(late > kSeeds / 3 * 2);
  CHECK(committed > kSeeds * 10 / 3);  // much was predicted
  CHECK(prepared > 2 * committed);     // and much was not, or took several gradients
}

TEST_CASE("a frame is applied as it arrives, into a block that counts with the decision") {
  Shard shard = shard_with(ApplyMode::kEager, CombineMode::kEach);
  push_most(shard, kFirst, 1.0F);
  CHECK(prepare_all(shard) == 2);
  CHECK(shard.blocks_in_use() == 3 + 2);
  CHECK(now(shard) == Floats(6, 10.0F));
  const BlockRef prepared_from = shard.now().blocks.ref(0);
  push_rest(shard, kFirst, 1.0F);
  REQUIRE(shard.apply(decision_of(0, {{kFirst, Clock(0), 1}}, 1)).is_ok());  // the third block is done here
  CHECK(now(shard) == Floats(6, 9.0F));
  CHECK(shard.next().committed() == 2);
  CHECK(shard.now().blocks.ref(0).data() != prepared_from.data());
  CHECK(shard.blocks_in_use() == 3 + 1);  // the old block that is held here
}

TEST_CASE("a decision that names another gradient, or another rate, is applied from the start") {
  Shard shard = shard_with(ApplyMode::kEager, CombineMode::kEach);
  push_most(shard, kFirst, 1.0F);
  push_most(shard, kSecond, 2.0F);
  CHECK(prepare_all(shard) == 2);  // of the gradient that was first to have half of itself here
  push_rest(shard, kSecond, 2.0F);
  push_rest(shard, kFirst, 1.0F);
  SECTION("the other worker was first") {
    REQUIRE(shard.apply(decision_of(0, {{kSecond, Clock(0), 1}}, 1)).is_ok());
    CHECK(now(shard) == Floats(6, 8.0F));
    CHECK(prepare_all(shard) == 3);  // all of the other one is here
    REQUIRE(shard.apply(decision_of(1, {{kFirst, Clock(0), 1}}, 1)).is_ok());
    CHECK(now(shard) == Floats(6, 7.0F));
    CHECK(shard.next().committed() == 3);
  }
  SECTION("the rate is another") {
    auto decision = decision_of(0, {{kFirst, Clock(0), 1}}, 1);
    decision.learning_rate = 2.0;
    REQUIRE(shard.apply(decision).is_ok());
    CHECK(now(shard) == Floats(6, 8.0F));
    CHECK(shard.next().committed() == 0);
  }
}

// Of `kSecond`, which lacks what was applied since `known` updates.
void push_stale(Shard& shard, std::int64_t known, float value) {
  wire::Push push = push_of(kSecond, 0);
  push.computed_revision = Revision(known - 1);
  push.own_updates = 1;
  REQUIRE(shard.push(push, payload_of(Floats(6, value))).is_ok());
}

TEST_CASE("a gradient that misses four updates takes a quarter of a step, prepared or not") {
  const OptimizerKind kind = GENERATE(OptimizerKind::kSgd, OptimizerKind::kMomentum);
  const bool prepare = GENERATE(false, true);
  ShardSettings settings = settings_of(kTwo, 2, 8);
  settings.apply = ApplyMode::kEager;
  settings.optimizer.kind = kind;
  settings.optimizer.lr = 1.0;
  settings.optimizer.momentum = 0.0;
  settings.optimizer.staleness = StalenessScaling::kInverse;
  Shard shard = ready_shard(kTwo, 6, 10.0F, std::move(settings));
  for (std::int64_t clock = 0; clock < 5; ++clock) {
    REQUIRE(shard.push(push_of(kFirst, clock), payload_of(Floats(6, 0.0F))).is_ok());
    decide(shard, clock, kFirst, clock);
  }
  push_stale(shard, 1, 8.0F);
  if (prepare) CHECK(prepare_all(shard) == (kind == OptimizerKind::kSgd ? 3 : 0));
  auto decision = decision_of(5, {{kSecond, Clock(0), 1, 4}}, 0);
  decision.revision_after = Revision(6);
  SECTION("as it was counted here") {
    REQUIRE(shard.apply(decision).is_ok());
    CHECK(now(shard) == Floats(6, 8.0F));
    CHECK(shard.next().committed() == (prepare && kind == OptimizerKind::kSgd ? 3 : 0));
  }
  SECTION("the authority counts otherwise, and its word holds") {
    decision.contributions[0].staleness = 2;
    REQUIRE(shard.apply(decision).is_ok());
    CHECK(now(shard) == Floats(6, 6.0F));
    CHECK(shard.next().committed() == 0);
  }
}

TEST_CASE("a stale gradient counts for less in a mean, whose divisor stays all samples") {
  const bool prepare = GENERATE(false, true);
  ShardSettings settings = settings_of(kTwo, 2);
  settings.combine = CombineMode::kMean;
  settings.optimizer.staleness = StalenessScaling::kInverse;
  Shard shard = ready_shard(kTwo, 6, 10.0F, std::move(settings));
  wire::Push push = push_of(kFirst, 2, 0, true, 4);
  push.computed_version = Version(2);
  REQUIRE(shard.push(push, payload_of(Floats(6, 1.0F))).is_ok());
  push = push_of(kSecond, 2, 0, true, 12);
  REQUIRE(shard.push(push, payload_of(Floats(6, 2.0F))).is_ok());  // with version 0
  if (prepare) {
    REQUIRE(shard.apply(decision_of(0, {}, 2, Combine::kMean)).is_ok());
    CHECK(prepare_all(shard) == 6);
  }
  const auto decision =
      decision_of(prepare ? 1 : 0, {{kFirst, Clock(2), 4, 0}, {kSecond, Clock(2), 12, 2}}, 3, Combine::kMean);
  REQUIRE(shard.apply(decision).is_ok());
  CHECK(now(shard) == Floats(6, 10.0F - (4 * 1.0F + 6 * 2.0F) / 16));
  CHECK(shard.next().committed() == (prepare ? 3 : 0));
}

TEST_CASE("versioned: each block has taken the gradients of the clock in worker order, as far as they are") {
  const CombineMode combine = GENERATE(CombineMode::kEach, CombineMode::kMean);
  const bool mean = combine == CombineMode::kMean;
  Shard shard = shard_with(ApplyMode::kVersioned, combine);
  close_first_clock(shard, mean ? Combine::kMean : Combine::kEach, 3);
  push_most(shard, kSecond, 2.0F, 1);
  CHECK(prepare_all(shard) == 0);  // worker 0's comes first
  push_most(shard, kFirst, 6.0F, 1);
  CHECK(prepare_all(shard) == 4);
  push_rest(shard, kSecond, 2.0F, 3, 1);
  CHECK(prepare_all(shard) == 0);
  push_rest(shard, kFirst, 6.0F, 1, 1);
  CHECK(now(shard) == Floats(6, 10.0F));
  SECTION("both contribute") {
    const auto decision = decision_of(1, {{kFirst, Clock(1), 1}, {kSecond, Clock(1), 3}}, 2,
                                      mean ? Combine::kMean : Combine::kEach);
    REQUIRE(shard.apply(decision).is_ok());
    CHECK(now(shard) == Floats(6, mean ? 7.0F : 2.0F));  // (6 + 3 * 2) / 4 or 6 + 2
    CHECK(shard.next().committed() == 2);
  }
  SECTION("one is lost after all") {
    const auto decision = decision_of(1, {{kSecond, Clock(1), 3}}, 2, mean ? Combine::kMean : Combine::kEach);
    REQUIRE(shard.apply(decision).is_ok());
    CHECK(now(shard) == Floats(6, 8.0F));
    CHECK(shard.next().committed() == 0);
  }
  CHECK(shard.blocks_in_use() == 3);
}

TEST_CASE("who has not contributed to the last clock is not waited for in the next one's order") {
  Shard shard = shard_with(ApplyMode::kVersioned, CombineMode::kEach);
  push_most(shard, kSecond, 2.0F);
  push_rest(shard, kSecond, 2.0F);
  REQUIRE(shard.apply(decision_of(0, {{kSecond, Clock(0), 1}}, 1)).is_ok());
  REQUIRE(shard.push(push_of(kSecond, 1), payload_of(Floats(6, 1.0F))).is_ok());
  CHECK(prepare_all(shard) == 3);
}

// Its state changes in place: a gradient that may still be lost must not be in it.
TEST_CASE("an optimizer with a state takes whole gradients only, or their prepared mean") {
  const OptimizerKind kind = GENERATE(OptimizerKind::kMomentum, OptimizerKind::kAdam);
  Shard each = shard_with(ApplyMode::kVersioned, CombineMode::kEach, kind);
  push_most(each, kFirst, 1.0F);
  CHECK(prepare_all(each) == 0);
  Shard mean = shard_with(ApplyMode::kVersioned, CombineMode::kMean, kind);
  push_most(mean, kFirst, 1.0F);
  CHECK(prepare_all(mean) == 0);  // nobody knows its weight yet
  push_rest(mean, kFirst, 1.0F);
  CHECK(prepare_all(mean) == 3);  // it came with the last piece
  Shard later = shard_with(ApplyMode::kVersioned, CombineMode::kMean, kind);
  close_first_clock(later, Combine::kMean);
  push_most(later, kFirst, 1.0F, 1);
  CHECK(prepare_all(later) == 2);
}

TEST_CASE("a mean whose weight was predicted wrongly is made again") {
  Shard shard = shard_with(ApplyMode::kVersioned, CombineMode::kMean);
  close_first_clock(shard, Combine::kMean);
  push_most(shard, kFirst, 6.0F, 1);
  CHECK(prepare_all(shard) == 2);
  push_rest(shard, kFirst, 6.0F, 3, 1);  // three samples this time
  CHECK(shard.next().dropped() == 2);
  CHECK(prepare_all(shard) == 3);
  push_most(shard, kSecond, 2.0F, 1);
  push_rest(shard, kSecond, 2.0F, 1, 1);
  REQUIRE(shard.apply(decision_of(1, {{kFirst, Clock(1), 3}, {kSecond, Clock(1), 1}}, 2, Combine::kMean))
              .is_ok());
  CHECK(now(shard) == Floats(6, 5.0F));  // 10 - (3 * 6 + 2) / 4
  CHECK(shard.next().committed() == 3);
}

TEST_CASE("a prepared mean goes where the parameters are, but for those that are still read") {
  const OptimizerKind kind = GENERATE(OptimizerKind::kSgd, OptimizerKind::kMomentum);
  Shard shard = shard_with(ApplyMode::kVersioned, CombineMode::kMean, kind);
  close_first_clock(shard, Combine::kMean);
  push_most(shard, kFirst, 6.0F, 1);
  CHECK(prepare_all(shard) == 2);
  push_rest(shard, kFirst, 6.0F, 1, 1);
  push_most(shard, kSecond, 2.0F, 1);
  push_rest(shard, kSecond, 2.0F, 1, 1);
  CHECK(prepare_all(shard) > 0);
  const BlockRef read = shard.now().blocks.ref(0);
  const float* const unread = shard.now().blocks.ref(1).data();
  REQUIRE(shard.apply(decision_of(1, {{kFirst, Clock(1), 1}, {kSecond, Clock(1), 1}}, 2, Combine::kMean))
              .is_ok());
  CHECK(now(shard) == Floats(6, 6.0F));
  CHECK(shard.now().blocks.ref(0).data() != read.data());
  CHECK(shard.now().blocks.ref(1).data() == unread);
  CHECK(shard.blocks_in_use() == 3 + 1);
}

TEST_CASE("a gradient that stands still is prepared for one decision, not for each of the others'") {
  constexpr std::int64_t kDecisions = 10;
  Shard shard = shard_with(ApplyMode::kEager, CombineMode::kEach);
  push_most(shard, kFirst, 100.0F);
  const bool whole = GENERATE(false, true);  // here, and perhaps not on another shard
  if (whole) push_rest(shard, kFirst, 100.0F);
  CHECK(prepare_all(shard) == (whole ? 3 : 2));
  for (std::int64_t clock = 0; clock < kDecisions; ++clock) {
    push_most(shard, kSecond, 1.0F, clock);
    prepare_all(shard);
    push_rest(shard, kSecond, 1.0F, 1, clock);
    prepare_all(shard);
    decide(shard, clock, kSecond, clock);
  }
  CHECK(now(shard) == Floats(6, 0.0F));
  CHECK(shard.next().dropped() == (whole ? 3 : 2));
  CHECK(shard.next().committed() == 3 * (whole ? kDecisions - 1 : kDecisions));
  if (whole) return;
  push_rest(shard, kFirst, 100.0F);
  CHECK(prepare_all(shard) == 3);  // once it is whole it is as good as any
}

TEST_CASE("after two wrong partial predictions only whole gradients are prepared, until one was right") {
  const WorkerId workers[] = {kFirst, kSecond, WorkerId(2, 0)};
  Shard shard = shard_with(ApplyMode::kEager, CombineMode::kEach, OptimizerKind::kSgd, {3, 1});
  for (std::int64_t i = 0; i < 2; ++i) {
    push_most(shard, workers[i], 1.0F);
    CHECK(prepare_all(shard) == 2);
    REQUIRE(shard.push(push_of(workers[2], i), payload_of(Floats(6, 1.0F))).is_ok());
    CHECK(prepare_all(shard) == 3);
    decide(shard, i, workers[2], i);
  }
  CHECK(shard.next().dropped() == 4);
  push_most(shard, workers[2], 1.0F, 2);
  CHECK(prepare_all(shard) == 0);
  push_rest(shard, workers[2], 1.0F, 1, 2);
  CHECK(prepare_all(shard) == 3);
  decide(shard, 2, workers[2], 2);
  push_most(shard, workers[2], 1.0F, 3);
  CHECK(prepare_all(shard) == 2);
  CHECK(shard.next().dropped() == 4);
}

TEST_CASE("what was prepared at a rate that has passed is dropped, and made again") {
  Shard shard = shard_with(ApplyMode::kEager, CombineMode::kEach);
  push_most(shard, kFirst, 1.0F);
  CHECK(prepare_all(shard) == 2);
  auto none = decision_of(0, {}, 0);
  none.revision_after = Revision(0);
  REQUIRE(shard.apply(none).is_ok());
  CHECK(shard.next().dropped() == 0);
  REQUIRE(shard.apply(decision_of(1, {}, 1)).is_ok());
  CHECK(shard.next().dropped() == 2);
  CHECK(prepare_all(shard) == 2);
  push_rest(shard, kFirst, 1.0F);
  REQUIRE(shard.apply(decision_of(2, {{kFirst, Clock(0), 1}}, 2)).is_ok());
  CHECK(shard.next().committed() == 2);
}

TEST_CASE("what comes faster than it is applied is applied with its last piece where the old is still read") {
  const ApplyMode apply = GENERATE(ApplyMode::kEager, ApplyMode::kVersioned);
  const bool reads = GENERATE(true, false);  // if not, the decision writes in place
  Shard shard = shard_with(apply, CombineMode::kEach);
  const auto read = reads ? std::optional(shard.now()) : std::nullopt;
  push_most(shard, kFirst, 1.0F);
  const auto whole = shard.push(push_of(kFirst, 0), payload_of(Floats(2, 1.0F)), Shard::Prepare::kWhole);
  REQUIRE(whole.is_ok());
  CHECK(shard.blocks_in_use() == (reads ? 6 : 3));
  CHECK(now(shard) == Floats(6, 10.0F));
  REQUIRE(shard.apply(decision_of(0, {{kFirst, Clock(0), 1}}, 1)).is_ok());
  CHECK(shard.next().committed() == (reads ? 3 : 0));
  CHECK(now(shard) == Floats(6, 9.0F));
  if (read) CHECK(values_of(read->blocks) == Floats(6, 10.0F));
}

TEST_CASE("where it is another one's turn a last piece prepares nothing") {
  Shard shard = shard_with(ApplyMode::kVersioned, CombineMode::kEach);
  const Snapshot read = shard.now();
  REQUIRE(shard.push(push_of(kSecond, 0), payload_of(Floats(6, 2.0F)), Shard::Prepare::kWhole).is_ok());
  CHECK(shard.blocks_in_use() == 3);
  REQUIRE(shard.push(push_of(kFirst, 0), payload_of(Floats(6, 1.0F)), Shard::Prepare::kWhole).is_ok());
  CHECK(shard.blocks_in_use() == 6);
  CHECK(prepare_all(shard) == 3);  // the second one's turn has come
}

TEST_CASE("pieces are checked while nothing else is to be done, each once") {
  Shard shard = shard_with(ApplyMode::kVersioned, CombineMode::kEach);
  CHECK_FALSE(shard.check_next_finite());
  REQUIRE(shard.push(push_of(kSecond, 0, 4, false), payload_of(Floats(2, 1.0F))).is_ok());
  REQUIRE(shard.push(push_of(kSecond, 0, 2, false), payload_of(Floats(2, 1.0F))).is_ok());
  CHECK(shard.check_next_finite());
  CHECK(shard.check_next_finite());
  CHECK_FALSE(shard.check_next_finite());
  REQUIRE(shard.push(push_of(kFirst, 0, 4, false), payload_of(Floats(2, 1.0F))).is_ok());
  CHECK(prepare_all(shard) == 2);  // which checks it, too, and takes the other one
  CHECK_FALSE(shard.check_next_finite());
}

TEST_CASE("as many blocks take a gradient at a time as there are threads, unless they are too small") {
  ShardSettings settings = settings_of(kTwo, 2);
  settings.apply = ApplyMode::kEager;
  settings.optimizer.lr = 1.0;
  settings.apply_threads = 2;
  const std::int64_t alone = GENERATE(0, 5, 6);  // 5: the shard is not too small, two of its blocks are
  settings.apply_alone_floats = alone;
  Shard shard = ready_shard(kTwo, 6, 10.0F, std::move(settings));
  push_most(shard, kFirst, 1.0F);
  CHECK(prepare_all(shard) == (alone == 0 ? 1 : 2));
  CHECK(shard.blocks_in_use() == 3 + 2);
  push_rest(shard, kFirst, 1.0F);
  decide(shard, 0, kFirst, 0);
  CHECK(now(shard) == Floats(6, 9.0F));
  CHECK(shard.next().committed() == 2);
}

// Outgrows the processor's cache. Such vectors are compared in brackets: a failure would print each number.
constexpr std::int64_t kLarge = kCachedFloatsMax + 1003;

Shard large_eager_shard(double rate) {
  ShardSettings settings = settings_of(kTwo, 128 * 1024);
  settings.apply = ApplyMode::kEager;
  settings.optimizer.lr = rate;
  settings.apply_threads = 2;
  settings.apply_alone_floats = 0;
  return ready_shard(kTwo, kLarge, 1.0F, std::move(settings));
}

// In place it would have been read twice: by who checks, and by who applies.
TEST_CASE("a large gradient that comes whole is checked as it is applied, beside a state that nobody reads") {
  Shard shard = large_eager_shard(0.25);
  const std::int64_t blocks = shard.now().blocks.block_count();
  const auto arrived = [&](std::int64_t clock, Floats gradient) {
    return shard.push(push_of(kFirst, clock), payload_of(std::move(gradient)), Shard::Prepare::kWhole)
        .value()
        .value();
  };
  const auto decision = [](std::int64_t clock, std::vector<wire::Contribution> contributions) {
    wire::ApplyDecision decided = decision_of(clock, std::move(contributions), 0);
    decided.learning_rate = 0.25;
    decided.revision_after = Revision(1);
    return decided;
  };
  Floats gradient(static_cast<std::size_t>(kLarge), 2.0F);
  CHECK(arrived(0, gradient).fault.empty());
  REQUIRE(shard.apply(decision(0, {{kFirst, Clock(0), 1}})).is_ok());
  CHECK(shard.next().committed() == blocks);
  const Floats expected(gradient.size(), 0.5F);
  REQUIRE((now(shard) == expected));

  const std::size_t at = GENERATE(0, 77777, 5'000'000 % static_cast<int>(kCachedFloatsMax));
  gradient[at] = std::numeric_limits<float>::quiet_NaN();
  CHECK_THAT(arrived(1, gradient).fault, Catch::Contains("nan at [" + std::to_string(at) + "]"));
  wire::ApplyDecision without = decision(1, {});
  without.skipped = {{kFirst, Clock(1), 1}};
  REQUIRE(shard.apply(without).is_ok());
  shard.discard(kFirst, Clock(1));
  CHECK(shard.next().dropped() == blocks);
  CHECK((now(shard) == expected));
}

// The thread sanitizer, whose own memory is several times that of these vectors, sees the applying threads in
// one case of them, and in all that are smaller.
#if !defined(__SANITIZE_THREAD__)
TEST_CASE("a state that outgrows the cache has the same bits, in place or beside what is still read") {
  const auto kind = GENERATE(OptimizerKind::kSgd, OptimizerKind::kMomentum, OptimizerKind::kAdam);
  const auto combine = GENERATE(CombineMode::kEach, CombineMode::kMean);
  CAPTURE(static_cast<int>(kind), static_cast<int>(combine));
  ShardSettings settings = settings_of(kTwo, 128 * 1024);
  settings.combine = combine;
  settings.optimizer.kind = kind;
  settings.optimizer.lr = 0.5;
  settings.apply_threads = 2;
  settings.apply_alone_floats = 0;
  OptimizerState truth(settings.optimizer, kLarge);
  Shard shard = ready_shard(kTwo, kLarge, 1.0F, std::move(settings));
  const bool mean = combine == CombineMode::kMean;
  Floats expected(static_cast<std::size_t>(kLarge), 1.0F);
  for (std::int64_t clock = 0; clock < 2; ++clock) {
    Floats gradients[2] = {expected, expected};
    for (std::size_t i = 0; i < expected.size(); ++i) {
      gradients[0][i] = static_cast<float>((i + static_cast<std::size_t>(clock)) % 1009) / 64.0F;
      gradients[1][i] = static_cast<float>(i % 511) / 32.0F;
    }
    std::optional<Snapshot> read;
    if (clock > 0) read = shard.now();  // so that every block is written beside the old one
    const WorkerId workers[2] = {kFirst, kSecond};
    for (int k = 0; k < 2; ++k) {
      const auto arrived =
          shard.push(push_of(workers[k], clock), payload_of(gradients[k]), Shard::Prepare::kWhole);
      REQUIRE((arrived.is_ok() && (*arrived)->fault.empty()));
    }
    auto decision = decision_of(clock, {{kFirst, Clock(clock), 1}, {kSecond, Clock(clock), 1}}, clock + 1,
                                mean ? Combine::kMean : Combine::kEach);
    decision.learning_rate = 0.5;
    REQUIRE(shard.apply(decision).is_ok());
    if (read) CHECK((values_of(read->blocks) == expected));
    if (mean) {
      for (std::size_t i = 0; i < expected.size(); ++i)
        gradients[0][i] = (gradients[0][i] + gradients[1][i]) * 0.5F;
    }
    for (int k = 0; k < (mean ? 1 : 2); ++k) truth.apply(expected, gradients[k], 0.5);
    REQUIRE((now(shard) == expected));
  }
}
#endif

}  // namespace paceline::server
