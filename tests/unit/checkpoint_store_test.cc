// A shard's image while training goes on, and a shard that goes on from one: the same bits as if nothing had
// happened.
#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <thread>

#include "tests/unit/checkpoint_fixture.h"
#include "tests/unit/temp_folder.h"

namespace paceline::server {
namespace {

using Catch::Contains;
using wire::Combine;

constexpr std::int64_t kFloats = 37;
const Cluster kPair{2, 1};

// One way of applying.
struct Way {
  OptimizerKind kind = OptimizerKind::kSgd;
  Combine combine = Combine::kEach;
  CompensationKind compensation = CompensationKind::kNone;
  std::size_t threads = 1;
};

const std::vector<Way> kWays = {
    {OptimizerKind::kSgd, Combine::kEach, CompensationKind::kNone, 1},
    {OptimizerKind::kSgd, Combine::kMean, CompensationKind::kNone, 1},
    {OptimizerKind::kMomentum, Combine::kEach, CompensationKind::kNone, 1},
    {OptimizerKind::kMomentum, Combine::kMean, CompensationKind::kNone, 3},
    {OptimizerKind::kAdam, Combine::kEach, CompensationKind::kNone, 3},
    {OptimizerKind::kAdam, Combine::kMean, CompensationKind::kNone, 1},
    {OptimizerKind::kLars, Combine::kMean, CompensationKind::kNone, 3},
    {OptimizerKind::kLamb, Combine::kMean, CompensationKind::kNone, 3},
    {OptimizerKind::kSgd, Combine::kEach, CompensationKind::kConstant, 1},
    {OptimizerKind::kSgd, Combine::kEach, CompensationKind::kAdaptive, 3},
};

ShardSettings settings_for(const Way& way) {
  ShardSettings settings = settings_of(kPair, /*block_floats=*/4);
  settings.optimizer.kind = way.kind;
  settings.optimizer.weight_decay = 0.01;
  settings.optimizer.delay_compensation.kind = way.compensation;
  settings.combine = way.combine == Combine::kMean ? CombineMode::kMean : CombineMode::kEach;
  settings.apply_threads = way.threads;
  settings.apply_alone_floats = 0;
  settings.local_updates = false;
  return settings;
}

Shard shard_for(const Way& way) {
  return Shard(ShardId(0), {0, kFloats}, layout_of(kFloats), settings_for(way));
}

Shard beginning(const Way& way) {
  Shard shard = shard_for(way);
  std::vector<float> values(kFloats);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
  REQUIRE(shard.initialize({0, true}, values).is_ok());
  return shard;
}

// Clock after clock, both workers' gradients, made of the clock alone.
void train(Shard& shard, const Way& way, std::int64_t from, std::int64_t to) {
  for (std::int64_t clock = from; clock < to; ++clock) {
    wire::ApplyDecision decision = decision_of(clock, {}, clock + 1, way.combine);
    decision.learning_rate = 0.01;
    decision.revision_after = Revision(2 * (clock + 1));
    const Revision sent = shard.now().revision;
    for (std::uint32_t node = 0; node < 2; ++node) shard.sent(NodeId(node), shard.now());
    for (const WorkerId worker : {WorkerId(0, 0), WorkerId(1, 0)}) {
      std::vector<float> gradient(kFloats);
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        gradient[i] = std::cos(static_cast<float>(i) * static_cast<float>(clock + worker.node.value + 1));
      }
      wire::Push push = push_of(worker, clock, 0, true, 7);
      push.computed_version = Version(clock);
      push.computed_revision = sent;
      REQUIRE(shard.push(push, payload_of(gradient)).is_ok());
      while (shard.prepare_next()) {
      }
      decision.contributions.push_back({worker, Clock(clock), 7});
    }
    REQUIRE(shard.apply(decision).is_ok());
  }
}

// Its own copy of everything.
ShardImage deep_copy(const ShardImage& image) {
  const testing::TempFolder folder;
  REQUIRE(write_shard_file(folder / "copy", owner_of(kFloats), ShardImage(image)).is_ok());
  ShardFileWanted wanted = wanted_of(kFloats);
  wanted.id.version = image.version;
  auto read = read_shard_file(folder / "copy", wanted, 4);
  REQUIRE(read.is_ok());
  return std::move(read->image);
}

TEST_CASE("an image stays as it is while training goes on, and training as if there were none") {
  const Way way = GENERATE(from_range(kWays));
  Shard with = beginning(way);
  Shard without = beginning(way);
  train(with, way, 0, 3);
  train(without, way, 0, 3);
  const ShardImage image = with.image();
  const ShardImage then = deep_copy(image);
  train(with, way, 3, 7);
  train(without, way, 3, 7);
  CHECK(same_image(image, then));
  CHECK(image.version == Version(3));
  CHECK(image.decisions == 3);
  CHECK(same_image(with.image(), without.image()));
  CHECK_FALSE(same_bits(with.image().parameters, then.parameters));
}

TEST_CASE("a shard that goes on from a file has the bits of one that never stopped") {
  const Way way = GENERATE(from_range(kWays));
  Shard never_stopped = beginning(way);
  train(never_stopped, way, 0, 3);
  const testing::TempFolder folder;
  REQUIRE(write_shard_file(folder / "shard-0", owner_of(kFloats), never_stopped.image()).is_ok());
  train(never_stopped, way, 3, 8);

  ShardFileWanted wanted = wanted_of(kFloats);
  wanted.id.version = Version(3);
  auto file = read_shard_file(folder / "shard-0", wanted, 4);
  REQUIRE(file.is_ok());
  Shard resumed = shard_for(way);
  REQUIRE(resumed.restore(std::move(file->image)));
  CHECK(resumed.ready());
  CHECK(resumed.now().version == Version(3));
  CHECK(resumed.now().revision == Revision(6));
  train(resumed, way, 3, 8);
  CHECK(same_image(resumed.image(), never_stopped.image()));
}

TEST_CASE("every worker's clock is the version when a shard goes on") {
  const Way way;
  Shard before = beginning(way);
  train(before, way, 0, 2);
  // Eager: the first has applied beyond the version, which the second holds back.
  REQUIRE(before.push(push_of(WorkerId(0, 0), 2), payload_of(std::vector<float>(kFloats, 1.0F))).is_ok());
  auto decision = decision_of(2, {{WorkerId(0, 0), Clock(2), 1}}, 2);
  decision.revision_after = Revision(5);
  REQUIRE(before.apply(decision).is_ok());
  REQUIRE(before.now().applied == std::vector<Clock>{Clock(3), Clock(2)});
  Shard resumed = shard_for(way);
  REQUIRE(resumed.restore(before.image()));
  CHECK(resumed.now().revision == Revision(5));
  CHECK(resumed.now().applied == std::vector<Clock>{Clock(2), Clock(2)});
  CHECK(same_bits(resumed.now().blocks, before.now().blocks));
  train(resumed, way, 3, 4);  // the next decision is the next of the sequence
}

TEST_CASE("blocks are copied only while an image holds them") {
  const Way way{OptimizerKind::kAdam, Combine::kEach, CompensationKind::kNone, 1};
  Shard shard = beginning(way);
  train(shard, way, 0, 1);
  const auto places = [&] {  // where the state lies; nobody holds it afterwards
    const ShardImage image = shard.image();
    return std::vector<const float*>{image.optimizer.first.block(0).data(),
                                     image.optimizer.second.block(9).data(),
                                     image.parameters.block(0).data()};
  };
  const auto before = places();
  train(shard, way, 1, 2);
  CHECK(places() == before);
  const std::size_t alone = shard.blocks_in_use();
  {
    const ShardImage image = shard.image();
    train(shard, way, 2, 4);
    CHECK(shard.blocks_in_use() == 2 * alone);  // and no more, however many are applied
    const auto meanwhile = places();
    for (std::size_t i = 0; i < meanwhile.size(); ++i) CHECK(meanwhile[i] != before[i]);
  }
  CHECK(shard.blocks_in_use() == alone);
  const auto after = places();
  train(shard, way, 4, 5);
  CHECK(places() == after);
}

TEST_CASE("another thread reads an image while the shard applies") {
  const Way way{OptimizerKind::kAdam, Combine::kEach, CompensationKind::kNone, 2};
  Shard shard = beginning(way);
  train(shard, way, 0, 1);
  std::int64_t clock = 1;
  for (int save = 0; save < 20; ++save) {
    ShardImage image = shard.image();
    const ShardImage then = deep_copy(image);
    std::atomic<bool> same = false;
    std::thread reader([image = std::move(image), &then, &same] { same = same_image(image, then); });
    train(shard, way, clock, clock + 3);
    clock += 3;
    reader.join();
    REQUIRE(same);
  }
}

TEST_CASE("an image of another range or optimizer is refused by name") {
  const Way sgd;
  const Way adam{OptimizerKind::kAdam, Combine::kEach, CompensationKind::kNone, 1};
  const Way adaptive{OptimizerKind::kSgd, Combine::kEach, CompensationKind::kAdaptive, 1};
  const auto refused = [](const Way& way, ShardImage image) {
    const Status status = shard_for(way).restore(std::move(image));
    CHECK(status.code() == StatusCode::kInvalidArgument);
    return status.message();
  };
  CHECK_THAT(refused(adam, beginning(sgd).image()),
             Contains("checkpoint for shard 0") && Contains("0 and 0 floats") && Contains("37 and 37"));
  CHECK_THAT(refused(sgd, beginning(adam).image()), Contains("37 and 37 floats"));
  CHECK_THAT(refused(adaptive, beginning(sgd).image()), Contains("mean square: 0 floats, expected 37"));
  CHECK_THAT(refused(sgd, image_of(kFloats + 1, 3, 0)), Contains("38 parameters, expected 37"));
  CHECK_THAT(refused(sgd, image_of(kFloats, -1, 0)), Contains("version -1"));
}

TEST_CASE("a shard that has begun takes no image") {
  const Way way;
  Shard shard = beginning(way);
  CHECK(shard.restore(shard.image()).code() == StatusCode::kFailedPrecondition);
  Shard half = shard_for(way);
  REQUIRE(half.initialize({0, false}, std::vector<float>(3)).is_ok());
  CHECK(half.restore(shard.image()).code() == StatusCode::kFailedPrecondition);
  Shard resumed = shard_for(way);
  REQUIRE(resumed.restore(shard.image()));
  CHECK(resumed.initialize({0, true}, std::vector<float>(kFloats)).code() == StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace paceline::server
