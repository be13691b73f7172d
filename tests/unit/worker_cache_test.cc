// The process cache and the thread cache: the guarantees of docs/SYNC.md on parameters that can be counted.
#include <catch2/catch.hpp>
#include <cstring>

#include "common/params/vector_ops.h"
#include "common/random.h"
#include "tests/unit/optimizer_plain.h"
#include "tests/unit/recording_vectors.h"
#include "tests/unit/worker_fixture.h"
#include "worker/cache/host_vectors.h"
#include "worker/cache/process_cache.h"
#include "worker/cache/thread_cache.h"

namespace paceline {
namespace {

using testing::PlainOptimizer;
using testing::slice_of;

const Range kLeft{0, 2};
const Range kRight{2, 3};
const std::vector<Range> kRanges = {kLeft, kRight};
const OptimizerSection kSgd{};  // p <- p - lr g

std::shared_ptr<const std::vector<float>> own(std::vector<float> gradient) {
  return std::make_shared<const std::vector<float>>(std::move(gradient));
}

std::vector<float> values(ThreadCache& cache) {
  cache.apply_deferred();
  return {cache.parameters().begin(), cache.parameters().end()};
}

TEST_CASE("the process cache installs a newer slice and drops an older one, per shard") {
  ProcessCache cache(kRanges);
  CHECK(cache.state().version == kNoVersion);
  CHECK(cache.install(ShardId(0), slice_of(kLeft, 5, {Clock(5)}, {1, 2})));
  CHECK(cache.install(ShardId(1), slice_of(kRight, 4, {Clock(4)}, {3})));
  CHECK(cache.state().version == Version(4));

  CHECK_FALSE(cache.install(ShardId(0), slice_of(kLeft, 4, {Clock(4)}, {9, 9})));
  CHECK(cache.install(ShardId(1), slice_of(kRight, 6, {Clock(6)}, {7})));
  CHECK(cache.state().version == Version(5));
  CHECK(cache.slice(ShardId(0))->pieces[0].payload.floats()[0] == 1.0F);
}

TEST_CASE("a newer revision of the same version is newer, as under eager application") {
  ProcessCache cache({kLeft});
  cache.install(ShardId(0), slice_of(kLeft, 3, {Clock(3)}, {1, 1}, 10));
  CHECK(cache.install(ShardId(0), slice_of(kLeft, 3, {Clock(4)}, {2, 2}, 11)));
  CHECK_FALSE(cache.install(ShardId(0), slice_of(kLeft, 3, {Clock(4)}, {3, 3}, 11)));
}

TEST_CASE("'unchanged' gives a newer name to the slice that is there, and to no other") {
  ProcessCache cache({kLeft});
  CHECK_FALSE(cache.confirm(ShardId(0), {Version(1), Revision(7), {Clock(1)}}));
  cache.install(ShardId(0), slice_of(kLeft, 1, {Clock(1)}, {1, 1}, 7));
  CHECK_FALSE(cache.confirm(ShardId(0), {Version(2), Revision(8), {Clock(2)}}));
  CHECK(cache.confirm(ShardId(0), {Version(2), Revision(7), {Clock(2)}}));
  CHECK(cache.state().version == Version(2));
  CHECK(cache.slice(ShardId(0))->pieces.size() == 1);
}

TEST_CASE("what a grant names is known to exist before it is here") {
  ProcessCache cache({kLeft});
  cache.install(ShardId(0), slice_of(kLeft, 3, {Clock(3)}, {1, 1}));
  cache.note_existence(Version(5), Revision(9));
  cache.note_existence(Version(4), Revision(12));
  CHECK(cache.newest_known().version == Version(5));
  CHECK(cache.newest_known().revision == Revision(12));
  CHECK(cache.state().version == Version(3));
}

TEST_CASE("a snapshot taken stays as it was when the cache moves on") {
  ProcessCache cache({kLeft});
  cache.install(ShardId(0), slice_of(kLeft, 1, {Clock(1)}, {1, 1}));
  const Snapshot taken = cache.snapshot();
  cache.install(ShardId(0), slice_of(kLeft, 2, {Clock(2)}, {2, 2}));
  CHECK(taken[0]->stamp.version == Version(1));
  CHECK(taken[0]->pieces[0].payload.floats()[1] == 1.0F);
}

TEST_CASE("own gradients are seen at once, and counted once when the server's snapshot contains them") {
  ThreadCache cache(kSgd, {kLeft}, 0);
  cache.refresh({slice_of(kLeft, 2, {Clock(2)}, {10, 10})}, Clock(2));
  cache.apply_locally(Clock(2), own({1, 1}), 1.0, 1.0);
  cache.apply_locally(Clock(3), own({1, 1}), 1.0, 1.0);
  CHECK(values(cache) == std::vector<float>{8, 8});

  // Version 3 holds G(2) and another worker's, worth 3 in all: G(3) alone is added again.
  cache.refresh({slice_of(kLeft, 3, {Clock(3)}, {7, 7})}, Clock(4));
  CHECK(values(cache) == std::vector<float>{6, 6});
  CHECK(cache.kept() == 1);

  cache.refresh({slice_of(kLeft, 4, {Clock(4)}, {5, 5})}, Clock(4));
  CHECK(values(cache) == std::vector<float>{5, 5});
  CHECK(cache.kept() == 0);
}

TEST_CASE("an own gradient that the next snapshot contains is never applied here") {
  ThreadCache cache(kSgd, kRanges, 0);
  cache.refresh({slice_of(kLeft, 0, {Clock(0)}, {0, 0}), slice_of(kRight, 0, {Clock(0)}, {0})}, Clock(0));
  const auto gradient = own({1, 1, 1});
  cache.apply_locally(Clock(0), gradient, 1.0, 1.0);
  CHECK(cache.waits());
  const Snapshot whole = {slice_of(kLeft, 1, {Clock(1)}, {-1, -1}), slice_of(kRight, 1, {Clock(1)}, {-1})};
  cache.refresh(whole, Clock(1));
  CHECK(gradient.use_count() == 1);  // let go: its buffer is free for the next gradient
  CHECK(cache.kept() == 0);
  CHECK(values(cache) == std::vector<float>{-1, -1, -1});
}

TEST_CASE("an own gradient that one slice of the next snapshot lacks is added to that slice") {
  ThreadCache cache(kSgd, kRanges, 0);
  cache.refresh({slice_of(kLeft, 0, {Clock(0)}, {0, 0}), slice_of(kRight, 0, {Clock(0)}, {0})}, Clock(0));
  cache.apply_locally(Clock(0), own({1, 1, 1}), 1.0, 1.0);
  cache.refresh({slice_of(kLeft, 1, {Clock(1)}, {-5, -5}), nullptr}, Clock(1));
  CHECK(cache.waits());  // in the slice that stays
  CHECK(values(cache) == std::vector<float>{-5, -5, -1});
}

// A slice in two pieces, as two frames bring it.
std::shared_ptr<Slice> in_two_pieces(std::int64_t version, Clock applied, std::vector<float> values) {
  auto slice = slice_of(kLeft, version, {applied}, {values[0]});
  slice->pieces.push_back({1, testing::payload_of({values[1]})});
  return slice;
}

TEST_CASE("a snapshot that is waited for is in place when it counts, whatever of it has been copied in") {
  const auto next = in_two_pieces(1, Clock(1), {5, 6});
  for (const std::size_t copied : {0, 1, 2}) {
    ThreadCache cache(kSgd, {kLeft}, 0);
    cache.refresh({slice_of(kLeft, 0, {Clock(0)}, {0, 0})}, Clock(0));
    for (std::size_t i = 0; i < copied; ++i) cache.copy_in(ShardId(0), next->stamp, next->pieces[i]);
    CHECK(cache.refresh({next}, Clock(1)) == 1);
    CHECK(values(cache) == std::vector<float>{5, 6});
  }
}

TEST_CASE("what has been copied in is given up for a newer slice, and an older slice is not") {
  ThreadCache cache(kSgd, {kLeft}, 0);
  cache.refresh({slice_of(kLeft, 3, {Clock(0)}, {3, 3})}, Clock(0));
  const auto older = in_two_pieces(2, Clock(0), {2, 2});
  cache.copy_in(ShardId(0), older->stamp, older->pieces[0]);
  CHECK(values(cache) == std::vector<float>{3, 3});
  const auto newer = in_two_pieces(4, Clock(0), {4, 4});
  cache.copy_in(ShardId(0), newer->stamp, newer->pieces[0]);
  CHECK(cache.refresh({in_two_pieces(5, Clock(0), {5, 5})}, Clock(1)) == 1);
  CHECK(values(cache) == std::vector<float>{5, 5});
}

TEST_CASE("nothing older is copied upon what has been copied in, which may lie nowhere else any more") {
  ThreadCache cache(kSgd, {kLeft}, 0);
  cache.refresh({slice_of(kLeft, 0, {Clock(0)}, {0, 0})}, Clock(0));
  const auto newer = in_two_pieces(2, Clock(0), {2, 3});
  for (SlicePiece& piece : newer->pieces) {
    CHECK(cache.copy_in(ShardId(0), newer->stamp, piece));
    piece.payload = {};  // let go of
  }
  const auto older = in_two_pieces(1, Clock(0), {9, 9});
  CHECK_FALSE(cache.copy_in(ShardId(0), older->stamp, older->pieces[0]));
  cache.refresh({newer}, Clock(1));
  CHECK(values(cache) == std::vector<float>{2, 3});
}

TEST_CASE("a slice under a newer name holds nothing that a server has lent") {
  auto slice = slice_of(kLeft, 1, {Clock(0)}, {1, 2});
  slice->pieces[0].payload.borrowed = true;
  ProcessCache cache({kLeft});
  const std::weak_ptr<const void> lent = slice->pieces[0].payload.owner;
  CHECK(cache.install(ShardId(0), slice));
  CHECK(cache.confirm(ShardId(0), {Version(2), Revision(1), {Clock(0)}}));
  slice->pieces[0].payload = {};  // it has been copied in
  CHECK(lent.expired());
  std::vector<float> flat(2);
  cache.slice(ShardId(0))->copy_to(flat);
  CHECK(flat == std::vector<float>{1, 2});
}

// Larger than a processor's cache, so that stretches are made in one place and stored in another.
TEST_CASE("large parameters have the bits of small ones, with and without own gradients") {
  const std::int64_t floats = kCachedFloatsMax + 5;
  const std::size_t small = 1000;
  const auto size = static_cast<std::size_t>(floats);
  std::vector<float> start(size);
  for (std::size_t i = 0; i < size; ++i) start[i] = 0.1F * static_cast<float>(i % small);
  const auto of = [](std::size_t count, const std::vector<float>& from, int own_gradients, int differences) {
    const Range range{0, static_cast<std::int64_t>(count)};
    const std::vector<float> part(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(count));
    ThreadCache cache(kSgd, {range}, 0);
    cache.refresh({slice_of(range, 0, {Clock(0)}, part)}, Clock(0));
    for (int clock = 0; clock < own_gradients; ++clock)
      cache.apply_locally(Clock(clock), own(part), 0.7, 1.0);
    if (differences > 0) cache.apply_deferred();
    for (int k = 0; k < differences; ++k) cache.keep_difference();
    cache.refresh({slice_of(range, 1, {Clock(0)}, part)}, Clock(1));
    return values(cache);
  };
  for (const auto& [own_gradients, differences] : {std::pair{0, 0}, {1, 0}, {3, 0}, {3, 2}, {1, 1}}) {
    const std::vector<float> large = of(size, start, own_gradients, differences);
    const std::vector<float> expected = of(small, start, own_gradients, differences);
    std::size_t different = 0;
    for (std::size_t i = 0; i < size; ++i) different += large[i] != expected[i % small];
    CHECK(different == 0);
  }
}

TEST_CASE("an own gradient that a slice that is copied in lacks is added to it") {
  ThreadCache cache(kSgd, {kLeft}, 0);
  cache.refresh({slice_of(kLeft, 0, {Clock(0)}, {0, 0})}, Clock(0));
  cache.apply_locally(Clock(0), own({1, 2}), 1.0, 1.0);
  cache.apply_locally(Clock(1), own({10, 20}), 1.0, 1.0);
  const auto next = in_two_pieces(1, Clock(1), {-5, -5});  // holds G(0) and not G(1)
  for (const SlicePiece& piece : next->pieces) cache.copy_in(ShardId(0), next->stamp, piece);
  cache.refresh({next}, Clock(2));
  CHECK(values(cache) == std::vector<float>{-15, -25});
  CHECK(cache.kept() == 1);
}

TEST_CASE("copying in makes an own SGD step on the state that lacks it, with the bits of the server's step") {
  constexpr std::int64_t kFloats = 20000;  // more than two stretches
  OptimizerSection section;
  section.weight_decay = GENERATE(0.0, 0.01);
  CounterRandom random(7, Stream::kTest);
  const auto drawn = [&](std::int64_t floats) {
    std::vector<float> values(static_cast<std::size_t>(floats));
    for (float& value : values) value = static_cast<float>(random.next_normal());
    return values;
  };
  const std::vector<float> state = drawn(kFloats);
  const std::vector<float> gradient = drawn(kFloats);
  std::vector<float> stepped = state;
  PlainOptimizer(section, kFloats).apply(stepped, gradient, 0.07);

  const Range all{0, kFloats};
  const auto next = slice_of(all, 1, {Clock(1)}, {state.begin(), state.begin() + 9000});
  next->pieces.push_back({9000, testing::payload_of({state.begin() + 9000, state.end()})});
  for (const std::size_t copied : {0, 1, 2}) {  // pieces, before the refresh
    ThreadCache cache(section, {all}, 0);
    cache.refresh({slice_of(all, 0, {Clock(0)}, drawn(kFloats))}, Clock(0));
    cache.apply_locally(Clock(0), own(drawn(kFloats)), 0.07, 1.0);
    cache.apply_locally(Clock(1), own(gradient), 0.07, 1.0);
    for (std::size_t i = 0; i < copied; ++i) cache.copy_in(ShardId(0), next->stamp, next->pieces[i]);
    CHECK(cache.has_partial() == (copied > 0));
    cache.refresh({next}, Clock(2));
    CHECK_FALSE(cache.waits());  // in the same pass
    const std::vector<float> got = values(cache);
    CHECK(std::memcmp(got.data(), stepped.data(), got.size() * sizeof(float)) == 0);
  }
}

TEST_CASE("an own SGD gradient that becomes a difference is let go of, and adds the same bits") {
  const std::vector<float> state = {0.1F, 1e6F};
  const auto step = [](std::vector<float> from, const std::vector<float>& gradient) {
    PlainOptimizer(kSgd, from.size()).apply(from, gradient, 0.07);
    return from;
  };
  std::vector<std::vector<float>> gradients;
  std::vector<std::shared_ptr<const std::vector<float>>> buffers;
  std::vector<float> expected = state;
  ThreadCache cache(kSgd, {kLeft}, 0);
  cache.refresh({slice_of(kLeft, 0, {Clock(0)}, {0, 0})}, Clock(0));
  for (int clock = 0; clock < 4; ++clock) {
    const float number = 0.3F + 0.7F * static_cast<float>(clock);
    buffers.push_back(own({number, 1.0F / number}));
    expected = step(expected, *buffers.back());
    cache.apply_locally(Clock(clock), buffers.back(), 0.07, 1.0);
  }
  cache.apply_deferred();
  CHECK(cache.gradients() == 4);
  for (int k = 0; k < 2; ++k) cache.keep_difference();
  CHECK((cache.kept() == 4 && cache.differences() == 2 && cache.gradients() == 2));
  CHECK(buffers[0].use_count() + buffers[1].use_count() == 2);  // free for the next gradients
  cache.refresh({slice_of(kLeft, 1, {Clock(0)}, state)}, Clock(4));
  CHECK(values(cache) == expected);
}

TEST_CASE("under weight decay a difference has its share of the parameters that were here when it was made") {
  OptimizerSection section;
  section.weight_decay = 0.5;
  constexpr double kRate = 0.5;  // p becomes 0.75 p - 0.5 g
  ThreadCache cache(section, {kLeft}, 0);
  cache.refresh({slice_of(kLeft, 0, {Clock(0)}, {8, 16})}, Clock(0));
  cache.apply_locally(Clock(0), own({2, 2}), kRate, 1.0);
  cache.apply_locally(Clock(1), own({0, 4}), kRate, 1.0);
  CHECK(values(cache) == std::vector<float>{3.75F, 6.25F});
  CHECK(cache.differences() == 0);
  cache.keep_difference();  // -0.5 (2 + 0.5 p) of these: -1.9375, -2.5625
  cache.refresh({slice_of(kLeft, 1, {Clock(0)}, {16, 8})}, Clock(2));
  CHECK(values(cache) == std::vector<float>{0.75F * 14.0625F, 0.75F * 5.4375F - 2.0F});
}

// 0.75 p - 0.5 g for weights, p - 0.5 g for biases, as the servers do it.
TEST_CASE("a thread cache steps each tensor as its traits say, at once and as a difference") {
  OptimizerSection section;
  section.weight_decay = 0.5;
  section.decay = TensorsOf::kWeights;
  Layout layout;
  REQUIRE(layout.add("fc.weight", {1}));
  REQUIRE(layout.add("fc.bias", {1}));
  ThreadCache cache(section, {kLeft}, 0, std::make_unique<HostVectors>(section, layout));
  cache.refresh({slice_of(kLeft, 0, {Clock(0)}, {8, 8})}, Clock(0));
  cache.apply_locally(Clock(0), own({2, 2}), 0.5, 1.0);
  cache.apply_deferred();
  CHECK(values(cache) == std::vector<float>{5, 7});
  cache.apply_locally(Clock(1), own({2, 2}), 0.5, 1.0);
  cache.apply_deferred();
  cache.keep_difference();  // of {5, 7}: -0.5 (2 + 0.5 x 2.75) and -1
  cache.refresh({slice_of(kLeft, 1, {Clock(0)}, {16, 16})}, Clock(2));
  CHECK(values(cache) == std::vector<float>{0.75F * (16.0F - 1.6875F) - 1.0F, 14});
}

TEST_CASE("parameters that are held are read where they lie, until an own update is made on a copy") {
  const auto make = [](TakenOver whole) {
    Layout layout;
    REQUIRE(layout.add("fc.weight", {2}));
    return std::make_unique<HostVectors>(kSgd, layout, whole);
  };
  ThreadCache held(kSgd, {kLeft}, 0, make(TakenOver::kHeld));
  ThreadCache copied(kSgd, {kLeft}, 0, make(TakenOver::kCopied));
  const auto first = slice_of(kLeft, 0, {Clock(0)}, {8, 6});
  for (ThreadCache* const cache : {&held, &copied}) cache->refresh({first}, Clock(0));
  CHECK(held.parameters().data() == first->pieces[0].payload.floats().data());
  for (ThreadCache* const cache : {&held, &copied}) {
    cache->apply_locally(Clock(0), own({2, 4}), 0.5, 1.0);
    cache->apply_deferred();
    CHECK(values(*cache) == std::vector<float>{7, 4});
    cache->refresh({slice_of(kLeft, 1, {Clock(0)}, {16, 8})}, Clock(1));  // lacks it
    CHECK(values(*cache) == std::vector<float>{15, 6});
    cache->refresh({slice_of(kLeft, 2, {Clock(1)}, {1, 2})}, Clock(1));
    CHECK(values(*cache) == std::vector<float>{1, 2});
  }
  CHECK(first->pieces[0].payload.floats()[0] == 8.0F);
}

TEST_CASE("each slice is added what it lacks, and a difference lives as long as one slice lacks it") {
  ThreadCache cache(kSgd, kRanges, 0);
  cache.refresh({slice_of(kLeft, 0, {Clock(0)}, {0, 0}), slice_of(kRight, 0, {Clock(0)}, {0})}, Clock(0));
  cache.apply_locally(Clock(0), own({1, 1, 1}), 1.0, 1.0);
  cache.apply_locally(Clock(1), own({2, 2, 2}), 1.0, 1.0);

  cache.refresh({slice_of(kLeft, 1, {Clock(1)}, {-1, -1}), slice_of(kRight, 2, {Clock(2)}, {-3})}, Clock(2));
  CHECK(values(cache) == std::vector<float>{-3, -3, -3});
  CHECK(cache.kept() == 1);
}

TEST_CASE("the thread cache never goes back to an older slice") {
  ThreadCache cache(kSgd, kRanges, 0);
  cache.refresh({slice_of(kLeft, 3, {Clock(0)}, {3, 3}), slice_of(kRight, 3, {Clock(0)}, {3})}, Clock(0));
  const auto older = slice_of(kLeft, 2, {Clock(0)}, {2, 2});
  CHECK(cache.refresh({older, slice_of(kRight, 4, {Clock(0)}, {4})}, Clock(1)) == 1);
  CHECK(values(cache) == std::vector<float>{3, 3, 4});
  CHECK(cache.stamp().version() == Version(3));
}

TEST_CASE("the applied clock that counts is the thread's own") {
  ThreadCache second(kSgd, {kLeft}, 1);
  second.refresh({slice_of(kLeft, 0, {Clock(0), Clock(0)}, {0, 0})}, Clock(0));
  second.apply_locally(Clock(0), own({1, 1}), 1.0, 1.0);
  second.refresh({slice_of(kLeft, 1, {Clock(1), Clock(0)}, {5, 5})}, Clock(1));
  CHECK(values(second) == std::vector<float>{4, 4});
}

using Passes = std::vector<std::string>;

TEST_CASE("the thread cache asks its vectors for each pass that is needed, and for no other: SGD") {
  const auto recorded = std::make_shared<testing::RecordedPasses>();
  ThreadCache cache(kSgd, kRanges, 0, std::make_unique<testing::RecordingVectors>(recorded));
  cache.refresh({slice_of(kLeft, 0, {Clock(0)}, {0, 0}), slice_of(kRight, 0, {Clock(0)}, {0})}, Clock(0));
  CHECK(recorded->take() == Passes{"take 0 + 2", "take 2 + 1"});
  cache.apply_locally(Clock(0), own({1, 1, 1}), 0.5, 0.5);
  CHECK(recorded->take() == Passes{"keep 0.25"});  // it waits
  cache.apply_locally(Clock(1), own({1, 1, 1}), 0.5, 1.0);
  CHECK(recorded->take() == Passes{"apply 0 + 2", "apply 2 + 1", "keep 0.5"});
  cache.apply_deferred();
  cache.keep_difference();
  CHECK(recorded->take() == Passes{"apply 0 + 2", "apply 2 + 1", "difference of the oldest"});
  CHECK((cache.kept() == 2 && cache.differences() == 1 && cache.gradients() == 1));

  // One slice is copied in and is not taken again; the other stays, and lacks both still.
  const auto next = in_two_pieces(1, Clock(1), {5, 6});
  for (const SlicePiece& piece : next->pieces) cache.copy_in(ShardId(0), next->stamp, piece);
  CHECK(recorded->take() == Passes{"take 0 + 1, lacks 1", "take 1 + 1, lacks 1"});
  cache.refresh({next, nullptr}, Clock(2));
  CHECK(recorded->take().empty());
  // What every slice contains is dropped.
  cache.refresh({nullptr, slice_of(kRight, 1, {Clock(1)}, {7})}, Clock(2));
  CHECK(recorded->take() == Passes{"take 2 + 1, lacks 1", "drop the oldest"});
  CHECK(cache.parameters().empty());  // they lie elsewhere
}

TEST_CASE("the thread cache asks its vectors for each pass that is needed, and for no other: momentum") {
  OptimizerSection momentum;
  momentum.kind = OptimizerKind::kMomentum;
  const auto recorded = std::make_shared<testing::RecordedPasses>();
  ThreadCache cache(momentum, {kLeft}, 0, std::make_unique<testing::RecordingVectors>(recorded));
  cache.refresh({slice_of(kLeft, 0, {Clock(0)}, {0, 0})}, Clock(0));
  for (int clock = 0; clock < 3; ++clock) cache.apply_locally(Clock(clock), own({1, 1}), 0.5, 0.25);
  CHECK_FALSE(cache.waits());
  const std::string step = "step 0.5 of which 0.25";
  CHECK(recorded->take() == Passes{"take 0 + 2", step, step, step});
  cache.refresh({slice_of(kLeft, 1, {Clock(1)}, {5, 6})}, Clock(3));
  CHECK(recorded->take() == Passes{"take 0 + 2, lacks 1, lacks 2", "drop the oldest"});
}

TEST_CASE("a local apply is scaled by the worker's share where the server averages") {
  ThreadCache cache(kSgd, {kLeft}, 0);
  cache.refresh({slice_of(kLeft, 0, {Clock(0)}, {0, 0})}, Clock(0));
  cache.apply_locally(Clock(0), own({4, 8}), 1.0, 0.25);
  CHECK(values(cache) == std::vector<float>{-1, -2});
}

TEST_CASE("the local optimizer keeps its state across refreshes") {
  OptimizerSection momentum;
  momentum.kind = OptimizerKind::kMomentum;
  momentum.momentum = 0.5;
  ThreadCache cache(momentum, {Range{0, 1}}, 0);
  cache.refresh({slice_of({0, 1}, 0, {Clock(0)}, {0})}, Clock(0));
  cache.apply_locally(Clock(0), own({1}), 1.0, 1.0);  // u = 1
  cache.refresh({slice_of({0, 1}, 1, {Clock(1)}, {10})}, Clock(1));
  cache.apply_locally(Clock(1), own({1}), 1.0, 1.0);  // u = 1.5
  CHECK(values(cache) == std::vector<float>{8.5});
}

// A slice is gone through in stretches of 8192 floats: what is left over at a slice's end, and stretches that
// begin in the middle of the vector, are the whole vector's loop all the same.
TEST_CASE("a local apply in stretches has the bits of one loop over the whole vector") {
  constexpr std::int64_t kStretch = 8192;
  constexpr double kScale = 0.3;
  constexpr double kRate = 0.07;
  const std::vector<Range> ranges = {{0, kStretch + 5}, {kStretch + 5, 3 * kStretch + 4}};
  OptimizerSection section;
  section.kind = GENERATE(OptimizerKind::kSgd, OptimizerKind::kMomentum, OptimizerKind::kAdam);
  section.weight_decay = 0.01;
  CounterRandom random(static_cast<std::uint64_t>(section.kind), Stream::kTest);
  const auto drawn = [&](Range range) {
    std::vector<float> floats(static_cast<std::size_t>(range.size()));
    for (float& value : floats) value = static_cast<float>(random.next_normal());
    return floats;
  };
  const Range all{0, ranges.back().end};

  ThreadCache cache(section, ranges, 0);
  std::vector<float> expected;
  Snapshot first;
  for (const Range& range : ranges) {
    const std::vector<float> slice = drawn(range);
    expected.insert(expected.end(), slice.begin(), slice.end());
    first.push_back(slice_of(range, 0, {Clock(0)}, slice));
  }
  cache.refresh(first, Clock(0));
  PlainOptimizer plain(section, expected.size());
  for (std::int64_t clock = 0; clock < 2; ++clock) {
    const std::vector<float> gradient = drawn(all);
    cache.apply_locally(Clock(clock), own(gradient), kRate, kScale);
    if (section.kind == OptimizerKind::kSgd) {  // the scale is in the step
      plain.apply(expected, gradient, kRate * kScale);
    }
    std::vector<float> moved = expected;
    if (section.kind != OptimizerKind::kSgd) plain.apply(moved, gradient, kRate);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expected[i] += (moved[i] - expected[i]) * static_cast<float>(kScale);
    }
    const std::vector<float> got = values(cache);
    REQUIRE(std::memcmp(got.data(), expected.data(), expected.size() * sizeof(float)) == 0);
  }
}

}  // namespace
}  // namespace paceline
