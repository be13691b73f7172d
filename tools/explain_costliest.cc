#include "tools/explain_costliest.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace paceline {
namespace {

// What is equal exactly for those whom one decision of the authority let go: who moved or what the threshold
// rose to, and where the slowest stood then. A floor is passed once.
using ReleaseKey = std::tuple<trace::Release, std::optional<WorkerId>, std::int64_t, std::int64_t>;

std::optional<ReleaseKey> release_of(const Wait& wait) {
  if (!wait.grant || !wait.grant->release || !wait.grant->min_clock) return std::nullopt;
  const trace::Decision& grant = *wait.grant;
  const bool rose = grant.release == trace::Release::kThreshold && grant.threshold;
  const std::int64_t threshold = !rose ? -1 : grant.threshold->is_infinite() ? -2 : grant.threshold->value();
  return ReleaseKey{*grant.release, grant.by, grant.min_clock->value, threshold};
}

// Whom it was for was in the iteration after those that it had completed.
std::optional<Clock> clock_of_whom(const Wait& wait) {
  return wait.hold && wait.hold->min_clock ? wait.hold->min_clock : std::nullopt;
}

}  // namespace

std::vector<CostlyWait> costliest_of(const std::vector<Wait>& waits, WaitCause cause, std::size_t most) {
  std::vector<CostlyWait> all;
  std::map<ReleaseKey, std::size_t> released;  // its place in `all`
  for (const Wait& wait : waits) {
    if (wait[cause].count() == 0) continue;
    const auto key = cause == WaitCause::kBarrier ? release_of(wait) : std::nullopt;
    const std::size_t place = key ? released.try_emplace(*key, all.size()).first->second : all.size();
    if (place == all.size())
      all.push_back({std::chrono::nanoseconds(0), wait.begin, {}, clock_of_whom(wait)});
    CostlyWait& entry = all[place];
    entry.time += wait[cause];
    entry.begin = std::min(entry.begin, wait.begin);
    entry.waits.push_back(&wait);
  }
  const auto first = [](const CostlyWait& a, const CostlyWait& b) {
    return std::tuple(b.time, a.begin, a.waits.front()->worker) <
           std::tuple(a.time, b.begin, b.waits.front()->worker);
  };
  most = std::min(most, all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(most), all.end(), first);
  all.resize(most);
  for (CostlyWait& entry : all) {
    std::stable_sort(entry.waits.begin(), entry.waits.end(),
                     [cause](const Wait* a, const Wait* b) { return (*a)[cause] > (*b)[cause]; });
  }
  return all;
}

}  // namespace paceline
