#include "worker/allreduce/bucket_plans.h"

#include <map>

#include "common/assert.h"
#include "common/schedule/buckets.h"
#include "common/schedule/check.h"
#include "common/schedule/run_plan.h"

namespace paceline {
namespace {

// Parameters are copied as they are, whatever sums travel as.
BucketPrograms programs_of(const RunConfig& config, std::int64_t floats, const FormationPlace& place,
                           const std::vector<MeasuredChoice>& choices, schedule::Keeper keeper) {
  std::optional<schedule::Algorithm> chosen;
  if (!choices.empty()) chosen = chosen_for(choices, floats);
  const Result<schedule::Plan> made =
      schedule::plan_of_run(config, floats, chosen, place.machines, place.ranks);
  PACELINE_ASSERT(made.is_ok(), made.status().message());
  const Encoding encoding = config.cluster.gradient_encoding;
  if (!config.exchange.shard_optimizer) {
    const Status checked = schedule::check(*made);
    PACELINE_ASSERT(checked.is_ok(), checked.message());
    return {schedule::Program(*made, place.rank, encoding), std::nullopt, {}};
  }
  const Result<schedule::Halves> halves = schedule::halves_of(*made, keeper);
  const Status checked = halves.is_ok() ? schedule::check(halves->whole()) : halves.status();
  PACELINE_ASSERT(checked.is_ok(), checked.message());
  return {schedule::Program(halves->sums, place.rank, encoding),
          schedule::Program(halves->copies, place.rank), halves->owned};
}

}  // namespace

std::vector<Bucket> plan_buckets(const RunConfig& config, const Layout& layout, const FormationPlace& place,
                                 const std::vector<MeasuredChoice>& choices, schedule::Keeper keeper) {
  std::vector<Bucket> buckets;
  std::map<std::int64_t, std::shared_ptr<const BucketPrograms>> by_size;
  for (const Range& range : schedule::buckets(layout, config.exchange.bucket_bytes)) {
    std::shared_ptr<const BucketPrograms>& programs = by_size[range.size()];
    if (programs == nullptr) {
      programs =
          std::make_shared<const BucketPrograms>(programs_of(config, range.size(), place, choices, keeper));
    }
    buckets.push_back({range, programs});
  }
  return buckets;
}

std::vector<std::vector<Range>> owned_of(const std::vector<Bucket>& buckets, std::uint32_t ranks) {
  std::vector<std::vector<Range>> owned(ranks);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    for (auto bucket = buckets.rbegin(); bucket != buckets.rend(); ++bucket) {
      for (const Range& range : bucket->programs->owned[rank]) {
        owned[rank].push_back({bucket->range.begin + range.begin, bucket->range.begin + range.end});
      }
    }
  }
  return owned;
}

}  // namespace paceline
