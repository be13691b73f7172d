#include "common/schedule/builder.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace paceline::schedule {
namespace {

constexpr std::int64_t kLine = 16;

}  // namespace

void add_transfers(std::vector<Rows>& rows, std::uint32_t from, std::uint32_t to, Range range,
                   std::int64_t segment_floats, TransferKind as) {
  for (std::int64_t begin = range.begin; begin < range.end; begin += segment_floats) {
    const Range segment{begin, std::min(begin + segment_floats, range.end)};
    rows[from].push_back({TransferKind::kSend, to, segment, {}});
    rows[to].push_back({as, from, segment, {}});
  }
}

double share_within(double share, std::uint32_t count) {
  const double parts = share * count;
  return parts - std::floor(parts);
}

std::vector<Range> Builder::parts(Range whole, std::uint32_t count, double share) const {
  std::vector<Range> cut;
  if (!borders_.at.empty()) {
    // The whole ends at one, and so does the last part.
    std::int64_t begin = whole.begin;
    for (const Range& part : partition(whole.size(), count)) {
      const std::int64_t end = cut_at(borders_.at, whole.begin + part.end, share);
      cut.push_back({begin, end});
      begin = end;
    }
    return cut;
  }
  const std::int64_t lines = (whole.size() + kLine - 1) / kLine;
  for (const Range& part : partition(lines, count)) {
    cut.push_back({std::min(whole.begin + part.begin * kLine, whole.end),
                   std::min(whole.begin + part.end * kLine, whole.end)});
  }
  return cut;
}

// In step k member i passes part i - k - 1 on, to which it has added its own: after the last, part i + 1 less P
// of it, that is part i, has come around to i.
void Builder::scatter_ring(const std::vector<std::uint32_t>& members, Range whole, double share) {
  const auto count = static_cast<std::uint32_t>(members.size());
  const std::vector<Range> cut = parts(whole, count, share);
  for (std::uint32_t k = 0; k + 1 < count; ++k) {
    for (std::uint32_t i = 0; i < count; ++i) {
      add(members[i], members[(i + 1) % count], cut[(i + 2 * count - k - 1) % count]);
    }
  }
}

void Builder::gather_ring(const std::vector<std::uint32_t>& members, Range whole, double share) {
  const auto count = static_cast<std::uint32_t>(members.size());
  const std::vector<Range> cut = parts(whole, count, share);
  for (std::uint32_t k = 0; k + 1 < count; ++k) {
    for (std::uint32_t i = 0; i < count; ++i) {
      move(members[i], members[(i + 1) % count], cut[(i + count - k) % count]);
    }
  }
}

std::vector<Rows> Builder::finish() && {
  for (Rows& rows : rows_) order_conflicts(rows);
  return std::move(rows_);
}

}  // namespace paceline::schedule
