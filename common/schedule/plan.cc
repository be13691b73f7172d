#include "common/schedule/plan.h"

#include <algorithm>
#include <optional>

namespace paceline::schedule {

std::int64_t floats_sent(const Rows& rows) {
  std::int64_t sent = 0;
  for (const Transfer& row : rows) sent += row.kind == TransferKind::kSend ? row.range.size() : 0;
  return sent;
}

// Between two neighbouring ends of ranges all floats have the same history: who wrote them last, and who has
// read them since. What went before that is ordered already.
void order_conflicts(Rows& rows) {
  std::vector<std::int64_t> ends;
  for (const Transfer& row : rows) ends.insert(ends.end(), {row.range.begin, row.range.end});
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  const auto at = [&ends](std::int64_t end) {
    return static_cast<std::size_t>(std::lower_bound(ends.begin(), ends.end(), end) - ends.begin());
  };

  struct History {
    std::optional<std::uint32_t> writer;
    std::vector<std::uint32_t> readers;
  };
  std::vector<History> pieces(ends.size());
  for (std::uint32_t i = 0; i < rows.size(); ++i) {
    Transfer& row = rows[i];
    const bool reads = row.kind == TransferKind::kSend;
    row.after.clear();
    for (std::size_t piece = at(row.range.begin); piece < at(row.range.end); ++piece) {
      History& history = pieces[piece];
      if (history.writer) row.after.push_back(*history.writer);
      if (reads) {
        history.readers.push_back(i);
      } else {
        row.after.insert(row.after.end(), history.readers.begin(), history.readers.end());
        history.writer = i;
        history.readers.clear();
      }
    }
    std::sort(row.after.begin(), row.after.end());
    row.after.erase(std::unique(row.after.begin(), row.after.end()), row.after.end());
  }
}

}  // namespace paceline::schedule
