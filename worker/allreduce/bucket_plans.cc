#include "worker/allreduce/bucket_plans.h"

#include <algorithm>
#include <map>
#include <utility>

#include "common/assert.h"
#include "common/schedule/buckets.h"
#include "common/schedule/check.h"
#include "common/schedule/halves.h"
#include "common/schedule/run_plan.h"

namespace paceline {
namespace {

schedule::Plan plan_of(const RunConfig& config, std::int64_t floats, const FormationPlace& place,
                       const std::vector<MeasuredChoice>& choices) {
  std::optional<schedule::Algorithm> chosen;
  if (!choices.empty()) chosen = chosen_for(choices, floats);
  Result<schedule::Plan> made = schedule::plan_of_run(config, floats, chosen, place.machines, place.ranks);
  PACELINE_ASSERT(made.is_ok(), made.status().message());
  return std::move(made).value();
}

void assert_right(const schedule::Plan& plan) {
  const Status checked = schedule::check(plan);
  PACELINE_ASSERT(checked.is_ok(), checked.message());
}

schedule::Halves halves_of_run(const schedule::Plan& plan) {
  Result<schedule::Halves> made = schedule::halves_of(plan);
  PACELINE_ASSERT(made.is_ok(), made.status().message());
  return std::move(made).value();
}

std::shared_ptr<const BucketPrograms> programs_of(schedule::Program sums,
                                                  std::optional<schedule::Program> copies = std::nullopt,
                                                  std::vector<Range> own = {}) {
  schedule::FirstAdds first = schedule::first_adds(sums.rows, sums.floats);
  return std::make_shared<const BucketPrograms>(
      BucketPrograms{std::move(sums), std::move(copies), std::move(own), std::move(first)});
}

using Owned = std::vector<std::vector<Range>>;  // by rank (schedule::Halves)
using OwnedBySize = std::map<std::int64_t, Owned>;

// By rank, itself where nobody does.
std::vector<std::uint32_t> keepers_of(const OwnedBySize& owned, std::uint32_t ranks, bool keeps) {
  const auto owns = [&owned](std::uint32_t rank) {
    return std::any_of(owned.begin(), owned.end(),
                       [rank](const auto& of_size) { return !of_size.second[rank].empty(); });
  };
  std::vector<std::uint32_t> keepers(ranks);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    keepers[rank] = rank;
    if (!keeps) continue;
    do {
      keepers[rank] = (keepers[rank] + 1) % ranks;
    } while (keepers[rank] != rank && !owns(keepers[rank]));
  }
  return keepers;
}

}  // namespace

BucketPlans plan_buckets(const RunConfig& config, const Layout& layout, const FormationPlace& place,
                         const std::vector<MeasuredChoice>& choices, bool keeps) {
  const std::vector<Range> ranges = schedule::buckets(layout, config.exchange.bucket_bytes);
  const Encoding encoding = config.cluster.gradient_encoding;
  BucketPlans plans;
  std::map<std::int64_t, std::shared_ptr<const BucketPrograms>> by_size;
  OwnedBySize owned;
  for (const Range& range : ranges) {
    if (by_size.contains(range.size()) || owned.contains(range.size())) continue;
    const schedule::Plan plan = plan_of(config, range.size(), place, choices);
    if (config.exchange.shard_optimizer) {
      owned.emplace(range.size(), halves_of_run(plan).owned);
    } else {
      assert_right(plan);
      by_size.emplace(range.size(), programs_of(schedule::Program(plan, place.rank, encoding)));
    }
  }
  // Who keeps depends on what is owned of all buckets. The plans, which are large, are made again, one at a time.
  const std::vector<std::uint32_t> keepers = keepers_of(owned, place.ranks, keeps);
  for (const auto& [size, of_ranks] : owned) {
    schedule::Halves halves = halves_of_run(plan_of(config, size, place, choices));
    halves.keep(keepers);
    assert_right(halves.whole());
    // Parameters are copied as they are, whatever sums travel as.
    by_size.emplace(size, programs_of(schedule::Program(halves.sums, place.rank, encoding),
                                      schedule::Program(halves.copies, place.rank), of_ranks[place.rank]));
  }
  for (const Range& range : ranges) plans.buckets.push_back({range, by_size.at(range.size())});
  if (!config.exchange.shard_optimizer) return plans;
  plans.shares.rank = place.rank;
  for (auto range = ranges.rbegin(); range != ranges.rend(); ++range) {
    for (std::uint32_t rank = 0; rank < place.ranks; ++rank) {
      for (const Range& part : owned.at(range->size())[rank]) {
        plans.shares.parts.push_back(
            {{range->begin + part.begin, range->begin + part.end}, rank, keepers[rank]});
      }
    }
  }
  return plans;
}

}  // namespace paceline
