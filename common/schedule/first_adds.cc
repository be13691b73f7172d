#include "common/schedule/first_adds.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

namespace paceline::schedule {
namespace {

// Floats in parts that lie apart.
class Parts {
 public:
  // Adds a range; whether none of it was there.
  bool add(Range range) {
    auto part = ends_.upper_bound(range.begin);
    if (part != ends_.begin() && std::prev(part)->second >= range.begin) --part;
    bool fresh = true;
    while (part != ends_.end() && part->first <= range.end) {
      fresh = fresh && (part->second == range.begin || part->first == range.end);
      range = {std::min(range.begin, part->first), std::max(range.end, part->second)};
      part = ends_.erase(part);
    }
    ends_.emplace(range.begin, range.end);
    return fresh;
  }
  // What of so many floats is in none of them.
  std::vector<Range> rest(std::int64_t floats) const {
    std::vector<Range> rest;
    std::int64_t begin = 0;
    for (const auto& [first, last] : ends_) {
      if (first > begin) rest.push_back({begin, first});
      begin = last;
    }
    if (begin < floats) rest.push_back({begin, floats});
    return rest;
  }

 private:
  std::map<std::int64_t, std::int64_t> ends_;  // by begin
};

}  // namespace

FirstAdds first_adds(const Rows& rows, std::int64_t floats) {
  FirstAdds first;
  Parts touched;
  Parts begun;
  for (const Transfer& row : rows) {
    const bool fresh = touched.add(row.range) && row.kind == TransferKind::kAdd;
    first.rows.push_back(fresh);
    if (fresh) begun.add(row.range);
  }
  first.rest = begun.rest(floats);
  return first;
}

}  // namespace paceline::schedule
