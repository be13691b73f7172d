#include "worker/allreduce/bucket_plans.h"

#include <map>
#include <utility>

#include "common/assert.h"
#include "common/schedule/buckets.h"
#include "common/schedule/check.h"
#include "common/schedule/halves.h"
#include "common/schedule/run_plan.h"

namespace paceline {
namespace {

// What a bucket's plan depends on.
struct Cut {
  std::int64_t floats = 0;
  Borders borders;  // where each rank is to have whole tensors
  auto operator<=>(const Cut&) const = default;
};

// Of each bucket.
std::vector<Cut> cuts_of(const RunConfig& config, const Layout& layout, const std::vector<Range>& buckets,
                         std::uint32_t ranks) {
  std::vector<Cut> cuts;
  for (const Range& range : buckets) {
    cuts.push_back(
        {range.size(), schedule::borders_of_bucket(config, layout, range, std::ssize(cuts), ranks)});
  }
  return cuts;
}

schedule::Plan plan_of(const RunConfig& config, const Cut& cut, const FormationPlace& place,
                       const std::vector<MeasuredChoice>& choices) {
  std::optional<schedule::Algorithm> chosen;
  if (!choices.empty()) chosen = chosen_for(choices, cut.floats);
  Result<schedule::Plan> made =
      schedule::plan_of_run(config, cut.floats, chosen, place.machines, place.ranks, cut.borders);
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

}  // namespace

BucketPlans plan_buckets(const RunConfig& config, const Layout& layout, const FormationPlace& place,
                         const std::vector<MeasuredChoice>& choices, bool keeps) {
  const std::vector<Range> ranges = schedule::buckets(layout, config.exchange.bucket_bytes);
  const Encoding encoding = config.cluster.gradient_encoding;
  const std::vector<Cut> cuts = cuts_of(config, layout, ranges, place.ranks);
  BucketPlans plans;
  std::map<Cut, std::shared_ptr<const BucketPrograms>> by_cut;
  std::map<Cut, Owned> owned;
  std::vector<bool> owns(place.ranks);
  for (const Cut& cut : cuts) {
    if (by_cut.contains(cut) || owned.contains(cut)) continue;
    const schedule::Plan plan = plan_of(config, cut, place, choices);
    if (config.exchange.shard_optimizer) {
      Owned of_ranks = halves_of_run(plan).owned;
      for (std::uint32_t rank = 0; rank < place.ranks; ++rank)
        owns[rank] = owns[rank] || !of_ranks[rank].empty();
      owned.emplace(cut, std::move(of_ranks));
    } else {
      assert_right(plan);
      by_cut.emplace(cut, programs_of(schedule::Program(plan, place.rank, encoding)));
    }
  }
  // Who keeps depends on what is owned of all buckets. The plans, which are large, are made again, one at a time.
  const std::vector<std::uint32_t> keepers = schedule::keepers_of(owns, keeps);
  for (const auto& [cut, of_ranks] : owned) {
    schedule::Halves halves = halves_of_run(plan_of(config, cut, place, choices));
    halves.keep(keepers);
    assert_right(halves.whole());
    // Parameters are copied as they are, whatever sums travel as.
    by_cut.emplace(cut, programs_of(schedule::Program(halves.sums, place.rank, encoding),
                                    schedule::Program(halves.copies, place.rank), of_ranks[place.rank]));
  }
  for (std::size_t b = 0; b < ranges.size(); ++b) plans.buckets.push_back({ranges[b], by_cut.at(cuts[b])});
  if (!config.exchange.shard_optimizer) return plans;
  plans.shares.rank = place.rank;
  for (std::size_t b = ranges.size(); b-- > 0;) {
    for (std::uint32_t rank = 0; rank < place.ranks; ++rank) {
      for (const Range& part : owned.at(cuts[b])[rank]) {
        plans.shares.parts.push_back(
            {{ranges[b].begin + part.begin, ranges[b].begin + part.end}, rank, keepers[rank]});
      }
    }
  }
  return plans;
}

}  // namespace paceline
