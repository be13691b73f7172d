#include "common/sync/held_grants.h"

#include <algorithm>
#include <string>

#include "common/assert.h"
#include "common/sync/test_hooks.h"

namespace paceline::sync {

void HeldGrants::add(Rank worker, Clock needed) {
  count_operation();
  by_needed_[needed].insert(worker);
  ++size_;
}

void HeldGrants::remove(Rank worker, Clock needed) {
  const auto bucket = by_needed_.find(needed);
  PACELINE_ASSERT(bucket != by_needed_.end(), "nobody waits for clock " + to_string(needed));
  count_operation();
  const bool was_there = bucket->second.erase(worker) == 1;
  PACELINE_ASSERT(was_there,
                  "rank " + std::to_string(worker.value) + " does not wait for clock " + to_string(needed));
  if (bucket->second.empty()) by_needed_.erase(bucket);
  --size_;
}

std::vector<Rank> HeldGrants::take_released(Clock floor) {
  std::vector<Rank> released;
  while (!by_needed_.empty() && by_needed_.begin()->first <= floor) {
    const std::set<Rank>& bucket = by_needed_.begin()->second;
    for (const Rank worker : bucket) {
      count_operation();
      released.push_back(worker);
    }
    size_ -= bucket.size();
    by_needed_.erase(by_needed_.begin());
  }
  return released;
}

std::vector<Rank> HeldGrants::take_all() {
  std::vector<Rank> everybody;
  for (const auto& [needed, bucket] : by_needed_) {
    for (const Rank worker : bucket) {
      count_operation();
      everybody.push_back(worker);
    }
  }
  std::sort(everybody.begin(), everybody.end());
  by_needed_.clear();
  size_ = 0;
  return everybody;
}

}  // namespace paceline::sync
