#include "tests/sim/replicas/replica_plan.h"

#include "common/random.h"

namespace paceline::test {
namespace {

ShardFaults draw_shard_faults(CounterRandom& random) {
  const auto chance = [&](std::uint64_t one_in) { return random.next_below(one_in) == 0; };
  const auto moment = [&] { return static_cast<std::int64_t>(random.next_below(80'000'000)); };
  ShardFaults faults;
  const std::int64_t at = moment();
  const std::uint64_t kind = random.next_below(16);
  if (kind < 6) {
    faults.dies_at_ns = at;
    if (!chance(3)) {
      using In = ServerModel::Death::In;
      constexpr In kIns[] = {In::kTurn, In::kTelling, In::kTellingOfALoss, In::kRelease};
      const In in = kIns[random.next_below(4)];
      const std::uint64_t after = in == In::kTellingOfALoss ? 0 : random.next_below(4);
      faults.dies_in = ServerModel::Death{in, static_cast<int>(after)};
    }
  } else if (kind < 8) {
    faults.deposed_at_ns = at;
  } else if (kind < 10) {
    faults.follower_dies_at_ns = at;
  } else if (kind < 12) {
    faults.link_cut_at_ns = at;
    // Soon after: it may not be left out yet.
    if (chance(3)) faults.dies_at_ns = at + static_cast<std::int64_t>(random.next_below(30'000'000));
  }
  if (kind < 12 && chance(16)) faults.dies_again_at_ns = at + moment();
  faults.first_follower_dies = chance(8);
  return faults;
}

}  // namespace

ReplicaPlan replica_plan_of(std::uint64_t seed) {
  CounterRandom random(seed, Stream::kTest, 31);
  ReplicaPlan plan;
  plan.run = plan_of(seed);
  // Of a run whose servers all die there is a simulation of its own (generation.h), and of one that is
  // quiesced. What a shard says twice, and what is wrong of it, would not be paired with its
  // follower's word.
  plan.run.crashes_at_ns.clear();
  plan.run.quiesces_at_ns.reset();
  plan.run.duplicate_chance = 0.0;
  plan.run.config.total_iterations += static_cast<std::int64_t>(random.next_below(30));
  plan.lease_ns = 4'000'000 + static_cast<std::int64_t>(random.next_below(12'000'000));
  for (std::uint32_t s = 0; s < plan.run.config.shards; ++s) plan.shards.push_back(draw_shard_faults(random));
  return plan;
}

std::string ReplicaPlan::describe() const {
  std::string text = run.describe();
  for (const ShardFaults& faults : shards) {
    text += " [";
    if (faults.dies_at_ns) text += faults.dies_in ? "dies in a turn " : "dies ";
    if (faults.deposed_at_ns) text += "deposed ";
    if (faults.follower_dies_at_ns) text += "follower dies ";
    if (faults.link_cut_at_ns) text += "link cut ";
    if (faults.dies_again_at_ns) text += "dies again ";
    if (text.back() == ' ') text.pop_back();
    text += "]";
  }
  return text;
}

}  // namespace paceline::test
