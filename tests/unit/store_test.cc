// A shard: what it takes, what it applies in which order, what stays as it was, and what it refuses.
#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>

#include "tests/unit/store_two_workers.h"

namespace paceline::server {
namespace {

using wire::Combine;
using wire::Contribution;

void push_whole(Shard& shard, WorkerId worker, std::int64_t clock, std::vector<float> gradient,
                std::int64_t samples = 1) {
  const auto arrived = shard.push(push_of(worker, clock, 0, true, samples), payload_of(std::move(gradient)));
  REQUIRE(arrived.is_ok());
  REQUIRE(arrived->has_value());
}

TEST_CASE("a shard is ready with the last piece of the initial parameters") {
  Shard shard(ShardId(1), {6, 12}, layout_of(12), settings_of(kTwo));
  REQUIRE(shard.initialize({0, false}, std::vector<float>{1, 2, 3, 4, 5}).is_ok());
  CHECK_FALSE(shard.ready());
  CHECK(shard.initialize({4, true}, std::vector<float>{6, 7}).code() == StatusCode::kOutOfOrder);
  CHECK(shard.initialize({6, true}, std::vector<float>{6}).code() == StatusCode::kFailedPrecondition);
  CHECK(shard.initialize({5, true}, std::vector<float>{6, 7}).code() == StatusCode::kInvalidArgument);
  REQUIRE(shard.initialize({5, true}, std::vector<float>{6}).is_ok());
  CHECK(shard.ready());
  CHECK(shard.now().version == Version(0));
  CHECK(values_of(shard.now().blocks) == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(shard.initialize({0, true}, std::vector<float>(6)).code() == StatusCode::kFailedPrecondition);
}

TEST_CASE("each: one optimizer step per gradient, however its pieces were cut") {
  Shard shard = shard_of_six();
  CHECK_FALSE(shard.push(push_of(kFirst, 0, 3, false), payload_of({1, 1, 2}))->has_value());
  const auto whole = shard.push(push_of(kFirst, 0, 0, true, 8), payload_of({1, 1, 1}));
  REQUIRE(whole->has_value());
  CHECK((*whole)->worker == kFirst);
  CHECK((*whole)->samples == 8);
  CHECK((*whole)->fault.empty());
  push_whole(shard, kSecond, 0, {2, 2, 2, 2, 2, 2});
  CHECK(values_of(shard.now().blocks) == std::vector<float>(6, 10.0F));  // nothing before it is decided

  REQUIRE(shard.apply(decision_of(0, {from(kFirst, 0), from(kSecond, 0)}, 1)).is_ok());
  CHECK(values_of(shard.now().blocks) == std::vector<float>{7, 7, 7, 7, 7, 6});
  CHECK(shard.now().version == Version(1));
  CHECK(shard.now().applied == std::vector<Clock>{Clock(1), Clock(1)});
  CHECK(shard.gradients_held() == 0);
}

TEST_CASE("of what a worker does not train its gradient is zero") {
  Shard shard = shard_of_six();
  const auto zeros = [](std::int64_t floats) {
    wire::Payload payload;
    payload.encoding = Encoding::kZero;
    payload.encoded_floats = floats;
    return payload;
  };
  CHECK_FALSE(shard.push(push_of(kFirst, 0, 4, false), zeros(2))->has_value());
  CHECK_FALSE(shard.push(push_of(kFirst, 0, 3, false), payload_of({2}))->has_value());
  CHECK(shard.push(push_of(kFirst, 0, 0, true), zeros(3))->has_value());
  push_whole(shard, kSecond, 0, {2, 2, 2, 2, 2, 2});
  const auto decision = decision_of(0, {from(kFirst, 0), from(kSecond, 0)}, 1, Combine::kMean);
  REQUIRE(shard.apply(decision).is_ok());
  CHECK(values_of(shard.now().blocks) == std::vector<float>{9, 9, 9, 8, 9, 9});
  CHECK(shard.push(push_of(kFirst, 1, 0, true), zeros(7)).status().code() == StatusCode::kInvalidArgument);
}

TEST_CASE("each tensor is stepped as its traits say, in whichever shard it lies") {
  Layout layout;
  REQUIRE(layout.add("a.weight", {3}));
  REQUIRE(layout.add("a.bias", {2}));
  REQUIRE(layout.add("b.weight", {3}, {.lr_factor = 2.0}));
  ShardSettings settings = settings_of({1, 1});
  settings.optimizer.weight_decay = 0.5;
  settings.optimizer.decay = TensorsOf::kWeights;
  Shard shard(ShardId(1), {2, 8}, layout, settings);
  REQUIRE(shard.initialize({0, true}, std::vector<float>(6, 8.0F)).is_ok());
  push_whole(shard, kFirst, 0, {1, 1, 1, 1, 1, 1});
  REQUIRE(shard.apply(decision_of(0, {{kFirst, Clock(0), 1}}, 1)).is_ok());
  CHECK(values_of(shard.now().blocks) == std::vector<float>{3, 7, 7, -2, -2, -2});
}

TEST_CASE("mean: the gradients of a clock are averaged by samples and applied once") {
  Shard shard = shard_of_six();
  push_whole(shard, kFirst, 0, std::vector<float>(6, 4.0F), 1);
  push_whole(shard, kSecond, 0, std::vector<float>(6, 8.0F), 3);
  REQUIRE(shard.apply(decision_of(0, {from(kFirst, 0, 1), from(kSecond, 0, 3)}, 1, Combine::kMean)).is_ok());
  CHECK(values_of(shard.now().blocks) == std::vector<float>(6, 3.0F));  // 10 - (4 + 24) / 4
}

TEST_CASE("the same bits however the vector is cut into shards, blocks and pieces") {
  const auto [kind, combine] =
      GENERATE(table<OptimizerKind, Combine>({{OptimizerKind::kAdam, Combine::kEach},
                                              {OptimizerKind::kAdam, Combine::kMean},
                                              {OptimizerKind::kLars, Combine::kMean},
                                              {OptimizerKind::kLamb, Combine::kMean}}));
  Layout layout;
  REQUIRE((layout.add("a.weight", {9}).is_ok() && layout.add("a.bias", {3}).is_ok()));
  REQUIRE((layout.add("b.weight", {20}).is_ok() && layout.add("b.bias", {5}).is_ok()));
  const auto run = [&, kind = kind, combine = combine](std::uint32_t shards, std::int64_t block,
                                                       std::size_t piece, std::size_t threads = 1) {
    OptimizerSection optimizer;
    optimizer.kind = kind;
    optimizer.trust_coefficient = 1.0;
    std::vector<float> all;
    for (const Range range : shard_ranges(layout, optimizer, shards)) {
      ShardSettings settings = settings_of(kTwo, block);
      settings.optimizer = optimizer;
      settings.combine = combine == Combine::kMean ? CombineMode::kMean : CombineMode::kEach;
      settings.apply_threads = threads;
      settings.apply_alone_floats = 0;  // as large ones are
      Shard shard(ShardId(0), range, layout, settings);
      const auto at = [&](std::int64_t i) { return static_cast<float>(range.begin + i); };
      std::vector<float> values(static_cast<std::size_t>(range.size()));
      for (std::int64_t i = 0; i < range.size(); ++i) values[static_cast<std::size_t>(i)] = std::sin(at(i));
      REQUIRE(shard.initialize({0, true}, values).is_ok());
      for (std::int64_t clock = 0; clock < 3; ++clock) {
        for (const WorkerId worker : {kFirst, kSecond}) {
          for (std::int64_t i = 0; i < range.size(); ++i) {
            values[static_cast<std::size_t>(i)] =
                std::cos(at(i) * static_cast<float>(clock + worker.node.value + 1));
          }
          std::size_t end = values.size();
          do {
            const std::size_t offset = end - std::min(end, piece);
            const std::vector<float> part(values.begin() + static_cast<std::ptrdiff_t>(offset),
                                          values.begin() + static_cast<std::ptrdiff_t>(end));
            const auto push = push_of(worker, clock, static_cast<std::int64_t>(offset), offset == 0, 7);
            REQUIRE(shard.push(push, payload_of(part)).is_ok());
            end = offset;
          } while (end > 0);
        }
        auto decision =
            decision_of(clock, {from(kFirst, clock, 7), from(kSecond, clock, 7)}, clock + 1, combine);
        decision.learning_rate = 0.01;
        REQUIRE(shard.apply(decision).is_ok());
      }
      const auto slice = values_of(shard.now().blocks);
      all.insert(all.end(), slice.begin(), slice.end());
    }
    return all;
  };
  const std::vector<float> once = run(1, 64, 64);
  CHECK(run(3, 4, 5) == once);
  CHECK(run(1, 5, 3) == once);
  CHECK(run(1, 3, 7, 3) == once);  // several threads share the blocks
  CHECK(run(50, 4, 4) == once);    // more shards than parameters: some ranges are empty
}

TEST_CASE("what was handed out does not change when the next gradient is applied") {
  Shard shard = shard_of_six();
  const Snapshot reply = shard.now();
  push_whole(shard, kFirst, 0, std::vector<float>(6, 1.0F));
  REQUIRE(shard.apply(decision_of(0, {from(kFirst, 0)}, 1)).is_ok());
  CHECK(values_of(reply.blocks) == std::vector<float>(6, 10.0F));
  CHECK(values_of(shard.now().blocks) == std::vector<float>(6, 9.0F));
}

TEST_CASE("blocks are copied only while somebody holds them") {
  Shard shard = shard_of_six();
  const std::size_t alone = shard.blocks_in_use();
  auto apply_next = [&, clock = std::int64_t{0}]() mutable {
    push_whole(shard, kFirst, clock, std::vector<float>(6, 1.0F));
    REQUIRE(shard.apply(decision_of(clock, {from(kFirst, clock)}, clock + 1)).is_ok());
    ++clock;
  };
  apply_next();
  CHECK(shard.blocks_in_use() == alone);
  {
    const BlockRef first_block = shard.now().blocks.ref(0);  // a reply of which one piece has not left yet
    apply_next();
    CHECK(shard.blocks_in_use() == alone + 1);
    apply_next();
    CHECK(shard.blocks_in_use() == alone + 1);
  }
  CHECK(shard.blocks_in_use() == alone);
}

TEST_CASE("a retained version stays until it is released, and two are the most") {
  Shard shard = shard_of_six();
  for (std::int64_t clock = 0; clock < 2; ++clock) {
    push_whole(shard, kFirst, clock, std::vector<float>(6, 1.0F));
    auto decision = decision_of(clock, {from(kFirst, clock)}, clock + 1);
    decision.retain = true;
    REQUIRE(shard.apply(decision).is_ok());
  }
  REQUIRE(shard.retained(Version(1)) != nullptr);
  CHECK(values_of(shard.retained(Version(1))->blocks) == std::vector<float>(6, 9.0F));
  CHECK(shard.retained(Version(1))->applied[0] == Clock(1));
  CHECK(shard.retained(Version(3)) == nullptr);

  auto third = decision_of(2, {}, 2);
  third.retain = true;
  CHECK(shard.apply(third).code() == StatusCode::kFailedPrecondition);
  shard.release(Version(1));
  CHECK(shard.retained(Version(1)) == nullptr);
  REQUIRE(shard.apply(third).is_ok());
  CHECK(shard.blocks_in_use() <= 3 * 2);  // its own, and at most two retained ones
}

TEST_CASE("a thousand decisions with two versions retained and a reply under way hold four times the range") {
  Shard shard = shard_of_six();
  const std::size_t range = shard.blocks_in_use();
  Snapshot reply;  // of the last version: still leaving while the next is made
  std::size_t most = 0;
  for (std::int64_t clock = 0; clock < 1000; ++clock) {
    if (clock > 2 && clock % 3 == 0) shard.release(Version(clock - 5));
    push_whole(shard, kFirst, clock, std::vector<float>(6, 1.0F));
    auto decision = decision_of(clock, {from(kFirst, clock)}, clock + 1);
    decision.retain = clock % 3 == 0;
    if (decision.retain && clock >= 6) REQUIRE(shard.retained_count() == 1);
    REQUIRE(shard.apply(decision).is_ok());
    most = std::max(most, shard.blocks_in_use());
    reply = shard.now();
  }
  CHECK(shard.retained_count() == 2);
  CHECK(most <= 4 * range);
  CHECK(most > 3 * range);  // and all four were there at once
  CHECK(shard.gradients_held() == 0);
}

TEST_CASE("decisions are applied in sequence, and a wrong one changes nothing") {
  Shard shard = shard_of_six();
  push_whole(shard, kFirst, 0, std::vector<float>(6, 1.0F));
  const auto decision = decision_of(0, {from(kFirst, 0)}, 1);
  CHECK(shard.apply(decision_of(1, {from(kFirst, 0)}, 1)).code() == StatusCode::kOutOfOrder);
  CHECK(shard.apply(decision_of(0, {from(kSecond, 0)}, 1)).code() == StatusCode::kFailedPrecondition);
  CHECK(shard.apply(decision_of(0, {from(kFirst, 0, 0)}, 1, Combine::kMean)).code() ==
        StatusCode::kFailedPrecondition);
  CHECK(values_of(shard.now().blocks) == std::vector<float>(6, 10.0F));
  REQUIRE(shard.apply(decision).is_ok());
  CHECK(shard.apply(decision).code() == StatusCode::kOutOfOrder);
  CHECK(values_of(shard.now().blocks) == std::vector<float>(6, 9.0F));
}

TEST_CASE("a skipped iteration closes its clock without a gradient") {
  Shard shard = shard_of_six();
  auto decision = decision_of(0, {}, 1);
  decision.skipped = {from(kSecond, 0, 0)};
  REQUIRE(shard.apply(decision).is_ok());
  CHECK(shard.now().applied == std::vector<Clock>{Clock(0), Clock(1)});
  CHECK(values_of(shard.now().blocks) == std::vector<float>(6, 10.0F));
  push_whole(shard, kSecond, 1, std::vector<float>(6, 1.0F));  // it goes on with the next clock
}

TEST_CASE("a sender that dies half-way leaves no trace; what it sent whole stays") {
  Shard shard = shard_of_six();
  push_whole(shard, kFirst, 0, std::vector<float>(6, 1.0F));
  REQUIRE(shard.push(push_of(kFirst, 1, 4, false), payload_of({5, 5})).is_ok());
  shard.drop_partial(NodeId(0));
  CHECK(shard.gradients_held() == 1);
  REQUIRE(shard.apply(decision_of(0, {from(kFirst, 0)}, 1)).is_ok());
  CHECK(values_of(shard.now().blocks) == std::vector<float>(6, 9.0F));
}

TEST_CASE("what is discarded before it is whole is dropped when it has come, and said to have come once") {
  Shard shard = shard_of_six();
  REQUIRE(shard.push(push_of(kFirst, 3, 3, false), payload_of({1, 1, 2})).is_ok());
  shard.discard(kFirst, Clock(3));   // half of it is here
  shard.discard(kSecond, Clock(3));  // nothing is
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto rest = shard.push(push_of(kFirst, 3, 0, true, 5), payload_of({nan, 1, 2}));
  REQUIRE((rest.is_ok() && rest->has_value()));
  CHECK(((*rest)->clock == Clock(3) && (*rest)->samples == 5 && (*rest)->fault.empty()));
  const auto whole = shard.push(push_of(kSecond, 3, 0, true), payload_of(std::vector<float>(6, 1.0F)));
  REQUIRE((whole.is_ok() && whole->has_value()));
  CHECK(shard.push(push_of(kSecond, 3, 0, true), payload_of(std::vector<float>(6))).status().code() ==
        StatusCode::kOutOfOrder);
  // Both go on, with a later clock, and neither has anything of it here.
  for (const WorkerId worker : {kFirst, kSecond}) {
    push_whole(shard, worker, 5, std::vector<float>(6, 1.0F));
  }
  CHECK(shard.gradients_held() == 2);
}

TEST_CASE("a discarded gradient can no longer be applied") {
  Shard shard = shard_of_six();
  push_whole(shard, kFirst, 0, std::vector<float>(6, 1.0F));
  shard.discard(kFirst, Clock(0));
  shard.discard(WorkerId(9, 0), Clock(7));  // nobody
  CHECK(shard.gradients_held() == 0);
  CHECK(shard.apply(decision_of(0, {from(kFirst, 0)}, 1)).code() == StatusCode::kFailedPrecondition);
}

TEST_CASE("a gradient that is not finite is whole, and its tensor is named") {
  Shard shard = shard_of_six();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const bool later_too = GENERATE(false, true);  // the first element counts, not the first to come
  REQUIRE(shard.push(push_of(kFirst, 0, 3, false), payload_of({1, nan, 1})).is_ok());
  const auto arrived = shard.push(push_of(kFirst, 0, 0, true), payload_of({1, 1, later_too ? nan : 1}));
  REQUIRE(arrived->has_value());
  CHECK((*arrived)->fault ==
        "gradient of dense.weight is nan at [" + std::string(later_too ? "2" : "4") + "]");
}

TEST_CASE("a push that is not the worker's next piece is refused and leaves everything as it was") {
  Shard shard = shard_of_six();
  const auto code = [&](const wire::Push& push, std::vector<float> values) {
    return shard.push(push, payload_of(std::move(values))).status().code();
  };
  const std::vector<float> six(6, 1.0F);
  CHECK(code(push_of(WorkerId(2, 0), 0), six) == StatusCode::kInvalidArgument);            // no such node
  CHECK(code(push_of(WorkerId(0, 1), 0), six) == StatusCode::kInvalidArgument);            // no such thread
  CHECK(code(push_of(kFirst, 0, 0, true, 0), six) == StatusCode::kInvalidArgument);        // no samples
  CHECK(code(push_of(kFirst, 0), std::vector<float>(7)) == StatusCode::kInvalidArgument);  // beyond the range
  CHECK(code(push_of(kFirst, 0, 1), std::vector<float>(5)) ==
        StatusCode::kInvalidArgument);                                             // last, not at 0
  CHECK(code(push_of(kFirst, 0, 0, false), six) == StatusCode::kInvalidArgument);  // whole, but not last
  CHECK(code(push_of(kFirst, 0, 6, false), {}) == StatusCode::kInvalidArgument);   // empty
  CHECK(code(push_of(kFirst, 0), {1, 1, 1, 1}) ==
        StatusCode::kFailedPrecondition);  // does not begin at the end
  wire::Push early = push_of(kFirst, 0, 3, false);
  early.samples = 1;
  CHECK(code(early, {1, 1, 1}) == StatusCode::kInvalidArgument);  // samples before the last piece
  CHECK(shard.gradients_held() == 0);

  REQUIRE(shard.push(push_of(kFirst, 4, 4, false), payload_of({1, 1})).is_ok());
  CHECK(code(push_of(kFirst, 5), six) == StatusCode::kFailedPrecondition);        // another clock in between
  CHECK(code(push_of(kFirst, 4), {1, 1, 1}) == StatusCode::kFailedPrecondition);  // a gap
  CHECK(code(push_of(kFirst, 4, 4, false), {1, 1}) == StatusCode::kOutOfOrder);   // the same piece again
  CHECK(code(push_of(kFirst, 4, 2, false), {1, 1, 1, 1}) == StatusCode::kOutOfOrder);  // and some before it
  REQUIRE(shard.push(push_of(kFirst, 4), payload_of({1, 1, 1, 1})).is_ok());
  CHECK(code(push_of(kFirst, 4), six) == StatusCode::kOutOfOrder);  // the same gradient again
}

TEST_CASE("what is withdrawn leaves no trace, and its worker goes on with the next clock") {
  const bool encoded = GENERATE(false, true);
  ShardSettings settings = settings_of(kTwo);
  if (encoded) settings.gradient_encoding = Encoding::kFp16;
  Shard shard = ready_shard(kTwo, 6, 10.0F, std::move(settings));
  const auto payload = [&](const std::vector<float>& values) {
    return encoded ? encoded_of({Encoding::kFp16}, values) : payload_of(values);
  };
  const std::vector<float> ones(6, 1.0F);
  REQUIRE(shard.push(push_of(kFirst, 0), payload(ones)).is_ok());
  REQUIRE(shard.push(push_of(kSecond, 0, 4, false), payload({3, 3})).is_ok());
  REQUIRE(shard.push(push_of(kFirst, 1, 4, false), payload({7, 7})).is_ok());
  REQUIRE(shard.push(push_of(kFirst, 1, 3, false), payload({7})).is_ok());
  REQUIRE(shard.withdraw({kFirst, Clock(1)}).is_ok());
  CHECK(shard.gradients_held() == 2);  // the whole one, and the other worker's
  CHECK(shard.push(push_of(kFirst, 1), payload(ones)).status().code() == StatusCode::kOutOfOrder);
  REQUIRE(shard.push(push_of(kFirst, 2), payload(ones)).is_ok());
  REQUIRE(shard.push(push_of(kSecond, 0), payload({1, 1, 1, 1})).is_ok());
  auto decision = decision_of(0, {from(kFirst, 0), from(kSecond, 0), from(kFirst, 2)}, 3);
  decision.skipped = {from(kFirst, 1, 0)};
  REQUIRE(shard.apply(decision).is_ok());
  CHECK(values_of(shard.now().blocks) == std::vector<float>{7, 7, 7, 7, 5, 5});
}

TEST_CASE("only what is here in part can be withdrawn") {
  Shard shard = shard_of_six();
  push_whole(shard, kFirst, 0, std::vector<float>(6, 1.0F));
  CHECK(shard.withdraw({kFirst, Clock(0)}).message() ==
        "withdrawal by worker 0.0 of clock 0: nothing of that gradient is here in part");
  REQUIRE(shard.push(push_of(kFirst, 1, 4, false), payload_of({1, 1})).is_ok());
  CHECK(shard.withdraw({kFirst, Clock(2)}).code() == StatusCode::kOutOfOrder);
  CHECK(shard.withdraw({kSecond, Clock(1)}).code() == StatusCode::kOutOfOrder);
  CHECK(shard.withdraw({WorkerId(2, 0), Clock(1)}).code() == StatusCode::kInvalidArgument);
  REQUIRE(shard.push(push_of(kFirst, 1), payload_of({1, 1, 1, 1})).is_ok());
  REQUIRE(shard.apply(decision_of(0, {from(kFirst, 0), from(kFirst, 1)}, 2)).is_ok());
  CHECK(values_of(shard.now().blocks) == std::vector<float>(6, 8.0F));
}

TEST_CASE("a worker's gradients, and the pieces of one, are bounded") {
  Shard shard = ready_shard(kTwo, 6, 0.0F, settings_of(kTwo, 4, 2));
  push_whole(shard, kFirst, 0, std::vector<float>(6));
  push_whole(shard, kFirst, 1, std::vector<float>(6));
  CHECK(shard.push(push_of(kFirst, 2), payload_of(std::vector<float>(6))).status().code() ==
        StatusCode::kResourceExhausted);
  push_whole(shard, kSecond, 0, std::vector<float>(6));  // each worker has a bound of its own

  Shard wide = ready_shard(kTwo, 4096, 0.0F, settings_of(kTwo, 4096));
  StatusCode code = StatusCode::kOk;
  std::int64_t begin = 4096;
  while (code == StatusCode::kOk && begin > 96) {
    code = wide.push(push_of(kFirst, 0, --begin, false), payload_of({1})).status().code();
  }
  CHECK(code == StatusCode::kResourceExhausted);
}

TEST_CASE("a huge bound costs nothing until it is used") {
  const Cluster cluster{64, 16};
  const std::size_t bound = std::size_t{1} << 50;  // reserving that would throw
  Shard shard = ready_shard(cluster, 6, 0.0F, settings_of(cluster, 4, bound));
  for (std::int64_t clock = 0; clock < 40; ++clock) push_whole(shard, kFirst, clock, std::vector<float>(6));
  CHECK(shard.gradients_held() == 40);
}

TEST_CASE("the largest threshold bounds the gradients held") {
  RunConfig config;
  config.sync.policy = PolicyKind::kBsp;
  CHECK(shard_settings(config).gradients_max == 2);
  config.sync.policy = PolicyKind::kSsp;
  config.sync.threshold = 5;
  CHECK(shard_settings(config).gradients_max == 7);
  config.sync.policy = PolicyKind::kDtssp;
  config.sync.threshold_max = 10;
  CHECK(shard_settings(config).gradients_max == 12);
  config.sync.apply = ApplyMode::kEager;
  CHECK(shard_settings(config).gradients_max == 2);
  config.sync.policy = PolicyKind::kAsp;
  CHECK(shard_settings(config).gradients_max == 2);
}

TEST_CASE("a server of many cores applies with half of them, and small shards, too, with several") {
  const auto threads = [](std::uint32_t cores) { return shard_settings({}, cores).apply_threads; };
  CHECK(threads(0) == 1);  // not known
  CHECK(threads(1) == 1);
  CHECK(threads(2) == 2);
  CHECK(threads(8) == 4);
  CHECK(threads(9) == 4);
  CHECK(threads(12) == 6);
  CHECK(threads(64) == 8);
  CHECK(shard_settings({}, 8).apply_alone_floats == 4 << 20);
  CHECK(shard_settings({}, 9).apply_alone_floats == 1 << 18);
  RunConfig config;
  config.cluster.apply_threads = 3;
  CHECK(shard_settings(config, 64).apply_threads == 3);
}

TEST_CASE("nothing is prepared where parameters leave in fewer bytes, which need the room") {
  RunConfig config;
  CHECK(shard_settings(config).prepare_next);
  config.cluster.parameter_encoding = Encoding::kFp16;
  CHECK_FALSE(shard_settings(config).prepare_next);
}

}  // namespace
}  // namespace paceline::server
