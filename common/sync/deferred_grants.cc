#include "common/sync/deferred_grants.h"

#include <string>

#include "common/assert.h"
#include "common/sync/order.h"

namespace paceline::sync {

void DeferredGrants::add(Rank worker, Clock needed) {
  std::vector<Rank>& bucket = by_needed_[needed];
  if (places_.size() <= worker.value) places_.resize(worker.value + std::size_t{1});
  places_[worker.value] = bucket.size();
  bucket.push_back(worker);
  ++size_;
}

void DeferredGrants::remove(Rank worker, Clock needed) {
  const auto found = by_needed_.find(needed);
  PACELINE_ASSERT(found != by_needed_.end(), "nobody waits for clock " + to_string(needed));
  std::vector<Rank>& bucket = found->second;
  const std::size_t place = worker.value < places_.size() ? places_[worker.value] : bucket.size();
  PACELINE_ASSERT(place < bucket.size() && bucket[place] == worker,
                  "rank " + std::to_string(worker.value) + " does not wait for clock " + to_string(needed));
  // The last one takes its place.
  bucket[place] = bucket.back();
  places_[bucket[place].value] = place;
  bucket.pop_back();
  if (bucket.empty()) by_needed_.erase(found);
  --size_;
}

std::vector<Rank> DeferredGrants::take_released(Clock floor) {
  std::vector<Rank> released;
  while (!by_needed_.empty() && by_needed_.begin()->first <= floor) {
    std::vector<Rank>& bucket = by_needed_.begin()->second;
    // The order of arrival depends on timing; what follows from it must not.
    put_into_worker_order(bucket, [](Rank worker) { return worker; });
    released.insert(released.end(), bucket.begin(), bucket.end());
    size_ -= bucket.size();
    by_needed_.erase(by_needed_.begin());
  }
  return released;
}

std::vector<Rank> DeferredGrants::take_all() {
  std::vector<Rank> everybody;
  for (const auto& [needed, bucket] : by_needed_) {
    everybody.insert(everybody.end(), bucket.begin(), bucket.end());
  }
  put_into_worker_order(everybody, [](Rank worker) { return worker; });
  by_needed_.clear();
  size_ = 0;
  return everybody;
}

}  // namespace paceline::sync
